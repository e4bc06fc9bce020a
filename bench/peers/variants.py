"""Group B: variants of attention at (B, H, T, E) = (1, 12, 1024, 64) in f32."""

import math

from common import Salient, compare, np, onnx_model, openvino_call, ort_call, torch_arrays, torch_call

H, T, E = 12, 1024, 64
SCALE, WINDOW, CAP, PREFIX, DOCUMENT, KEPT = 1 / math.sqrt(E), 256, 50.0, 256, 128, 700
i, j = np.arange(T)[:, None], np.arange(T)[None, :]
causal = j <= i
document = np.arange(T) // DOCUMENT
kept = np.arange(T) < KEPT
slopes = (2.0 ** (-8.0 * np.arange(1, H + 1) / H)).astype(np.float32)

# name: the pairs that are seen, what is added to scores, the soft cap, further inputs of our model
VARIANTS = {
    "window": (causal & (i - j < WINDOW), None, None, {}),
    "alibi": (causal, slopes[:, None, None] * (j - i)[None].astype(np.float32), None, {}),
    "soft_cap": (causal, None, CAP, {}),
    "prefix": (causal | (j < PREFIX), None, None, {"length": np.array([PREFIX])}),
    "documents": (document[:, None] == document[None, :], None, None, {"document": document[None]}),
    "padding": (np.broadcast_to(kept, (T, T)), None, None, {"keep": kept[None]}),
}


def flex_parts(name):
    """The variant as FlexAttention wants it: what changes scores, and the mask."""
    import torch

    documents, keep, slope = (torch.from_numpy(x) for x in (document, kept, slopes))
    before = lambda b, h, i, j: i >= j  # noqa: E731
    return {
        "window": (None, lambda b, h, i, j: (i >= j) & (i - j < WINDOW)),
        "alibi": (lambda s, b, h, i, j: s + slope[h] * (j - i), before),
        "soft_cap": (lambda s, b, h, i, j: CAP * torch.tanh(s / CAP), before),
        "prefix": (None, lambda b, h, i, j: (i >= j) | (j < PREFIX)),
        "documents": (None, lambda b, h, i, j: documents[i] == documents[j]),
        "padding": (None, lambda b, h, i, j: keep[j] & (i >= 0)),
    }[name]


def run(name, seen, bias, cap, more):
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((1, H, T, E), dtype=np.float32) for _ in "qkv")
    flops = 4 * H * float(seen.sum()) * E
    seen = np.ascontiguousarray(seen)
    added = np.where(seen, 0 if bias is None else bias, -np.inf).astype(np.float32)
    finite = np.maximum(added, np.float32(-1e9)).reshape(1, -1, T, T)

    def written_out():
        import torch

        arrays, hidden = torch_arrays(q, k, v), torch.from_numpy(~seen)
        extra = None if bias is None else torch.from_numpy(bias)

        def attention(q, k, v):
            score = q @ k.transpose(-1, -2) * SCALE
            if cap:
                score = cap * torch.tanh(score / cap)
            if extra is not None:
                score = score + extra
            return torch.softmax(score.masked_fill(hidden, float("-inf")), -1) @ v

        return attention, arrays

    def torch_written():
        function, arrays = written_out()
        return torch_call(function, *arrays)

    def torch_compiled():
        import torch

        function, arrays = written_out()
        return torch_call(torch.compile(function), *arrays)

    def torch_sdpa_mask():
        import torch

        if cap:
            raise NotImplementedError("no soft cap")
        mask = torch.from_numpy(seen if bias is None else added[None])
        return torch_call(torch.nn.functional.scaled_dot_product_attention, *torch_arrays(q, k, v), attn_mask=mask)

    def torch_sdpa_by_hand():
        """What an expert writes so that hidden work is skipped."""
        import torch

        sdpa = torch.nn.functional.scaled_dot_product_attention
        arrays = torch_arrays(q, k, v)
        if name == "documents":
            fold = lambda x: x.view(H, T // DOCUMENT, DOCUMENT, E)  # noqa: E731
            return torch_call(lambda q, k, v: sdpa(fold(q), fold(k), fold(v)).view(1, H, T, E), *arrays)
        if name == "padding":
            return torch_call(lambda q, k, v: sdpa(q, k[:, :, :KEPT], v[:, :, :KEPT]), *arrays)
        if name == "prefix":
            mask = torch.from_numpy(seen[PREFIX:])

            def two(q, k, v):
                first = sdpa(q[:, :, :PREFIX], k[:, :, :PREFIX], v[:, :, :PREFIX])
                return torch.cat([first, sdpa(q[:, :, PREFIX:], k, v, attn_mask=mask)], 2)

            return torch_call(two, *arrays)
        if name == "window":
            mask = torch.from_numpy(seen[WINDOW : 2 * WINDOW, : 2 * WINDOW])

            def blocks(q, k, v):
                parts = [sdpa(*(x[:, :, :WINDOW] for x in (q, k, v)), is_causal=True)]
                for at in range(WINDOW, T, WINDOW):
                    near = slice(at - WINDOW, at + WINDOW)
                    parts.append(sdpa(q[:, :, at : at + WINDOW], k[:, :, near], v[:, :, near], attn_mask=mask))
                return torch.cat(parts, 2)

            return torch_call(blocks, *arrays)
        raise NotImplementedError("no cheaper form")

    def torch_flex():
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        arrays = torch_arrays(q, k, v)
        score, mask = flex_parts(name)
        blocks = create_block_mask(mask, None, None, T, T, device="cpu")
        return torch_call(torch.compile(flex_attention), *arrays, score_mod=score, block_mask=blocks)

    def ort_attention():
        from onnx import helper, numpy_helper

        node = helper.make_node("Attention", ["q", "k", "v", "mask"], ["o"], softcap=float(cap or 0))
        inputs = [(n, x.shape) for n, x in zip("qkv", (q, k, v))]
        model = onnx_model(node, inputs, ("o", q.shape), [numpy_helper.from_array(finite, "mask")])
        return ort_call(model, {"q": q, "k": k, "v": v})

    def openvino():
        import openvino
        from openvino import opset13 as op

        params = [op.parameter(x.shape, np.float32) for x in (q, k, v)]
        if cap:  # the fused operator has no soft cap
            score = op.tanh(op.multiply(op.matmul(params[0], params[1], False, True), np.float32(SCALE / cap)))
            score = op.add(op.multiply(score, np.float32(cap)), op.constant(finite))
            result = op.matmul(op.softmax(score, -1), params[2], False, False)
        else:
            result = op.scaled_dot_product_attention(*params, op.constant(finite))
        return openvino_call(openvino.Model([result], params), [q, k, v])

    def salient():
        return Salient("variants.attn", f"{name}_heads", {"q": q, "k": k, "v": v, **more})

    makers = [torch_written, torch_compiled, torch_sdpa_mask, torch_sdpa_by_hand, torch_flex]
    makers += [ort_attention, openvino, salient]
    compare("B", name, {make.__name__: make for make in makers}, flops)


for variant, parts in VARIANTS.items():
    run(variant, *parts)
