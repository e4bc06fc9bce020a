"""Group A: the attention alone, softmax(q kᵀ / sqrt(E)) v in f32."""

from common import Salient, compare, np, onnx_model, openvino_call, ort_call, torch_arrays, torch_call

# name: B, heads of queries, heads of keys, queries, keys, width, causal
CASES = {
    "h8_t128_e64": (1, 8, 8, 128, 128, 64, False),
    "h12_t512_e64": (1, 12, 12, 512, 512, 64, False),
    "h12_t512_e64_causal": (1, 12, 12, 512, 512, 64, True),
    "h12_t1024_e64": (1, 12, 12, 1024, 1024, 64, False),
    "h12_t1024_e64_causal": (1, 12, 12, 1024, 1024, 64, True),
    "h8_t4096_e64": (1, 8, 8, 4096, 4096, 64, False),
    "h8_t4096_e64_causal": (1, 8, 8, 4096, 4096, 64, True),
    "h32_t2048_e128": (1, 32, 32, 2048, 2048, 128, False),
    "h32_t2048_e128_causal": (1, 32, 32, 2048, 2048, 128, True),
    "gqa32_8_t1024_e128_causal": (1, 32, 8, 1024, 1024, 128, True),
    "decode_h32_s4096_e128": (1, 32, 32, 1, 4096, 128, False),
    "decode_gqa32_8_s4096_e128": (1, 32, 8, 1, 4096, 128, False),
}

def run(name, batch, heads, groups, queries, keys, width, causal):
    rng = np.random.default_rng(1)
    draw = lambda h, t: rng.standard_normal((batch, h, t, width), dtype=np.float32)  # noqa: E731
    q, k, v = draw(heads, queries), draw(groups, keys), draw(groups, keys)
    repeat = heads // groups
    pairs = queries * (queries + 1) // 2 if causal else queries * keys
    flops = 4 * batch * heads * pairs * width

    def torch_sdpa():
        import torch

        arrays = torch_arrays(q, k, v)
        function = torch.nn.functional.scaled_dot_product_attention
        return torch_call(function, *arrays, is_causal=causal, enable_gqa=repeat > 1)

    def torch_flex():
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        arrays = torch_arrays(q, k, v)
        mask = None
        if causal:
            mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, queries, keys, device="cpu")
        return torch_call(torch.compile(flex_attention), *arrays, block_mask=mask, enable_gqa=repeat > 1)

    def ort_attention():
        from onnx import helper

        node = helper.make_node("Attention", ["q", "k", "v"], ["o"], is_causal=int(causal))
        model = onnx_model(node, [("q", q.shape), ("k", k.shape), ("v", v.shape)], ("o", q.shape))
        return ort_call(model, {"q": q, "k": k, "v": v})

    def ort_multi_head():
        from onnx import helper

        if repeat > 1:
            raise NotImplementedError("the operator has no grouped heads")
        side = lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(batch, x.shape[2], -1)  # noqa: E731
        feeds = {"q": side(q), "k": side(k), "v": side(v)}
        words = {"domain": "com.microsoft", "num_heads": heads, "unidirectional": int(causal)}
        node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], **words)
        model = onnx_model(node, [(n, x.shape) for n, x in feeds.items()], ("o", feeds["q"].shape))
        back = lambda x: x.reshape(batch, queries, heads, width).transpose(0, 2, 1, 3)  # noqa: E731
        return ort_call(model, feeds, back)

    def openvino():
        import openvino
        from openvino import opset13 as op

        params = [op.parameter(x.shape, np.float32) for x in (q, k, v)]
        a, b, c = params
        if repeat > 1:
            to = np.array([batch, groups, repeat, keys, width])

            def repeated(x):
                wide = op.broadcast(op.unsqueeze(x, np.int64(2)), to, "bidirectional")
                return op.reshape(wide, np.array([batch, heads, keys, width]), False)

            b, c = repeated(b), repeated(c)
        model = openvino.Model([op.scaled_dot_product_attention(a, b, c, causal=causal)], params)
        return openvino_call(model, [q, k, v])

    def salient():
        model = ("grouped_" if repeat > 1 else "") + ("causal_heads" if causal else "plain_heads")
        return Salient("attention.attn", model, {"q": q, "k": k, "v": v})

    makers = [torch_sdpa, torch_flex, ort_attention, ort_multi_head, openvino, salient]
    compare("A", name, {make.__name__: make for make in makers}, flops)

for case, shape in CASES.items():
    run(case, *shape)
