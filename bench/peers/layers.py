"""Group C: attention blocks and encoder layers with their projections, f32."""

import math
import os
import tempfile

from common import Salient, compare, np, openvino_call, ort_call, plain_call, torch_arrays

# name: our model, B, T, D, heads, width of the feed-forward layer (0: none), activation
CASES = {
    "attention_b8_t10_d512_h8": ("attention", 8, 10, 512, 8, 0, ""),
    "attention_b1_t512_d768_h12": ("attention", 1, 512, 768, 12, 0, ""),
    "attention_b32_t128_d384_h12": ("attention", 32, 128, 384, 12, 0, ""),
    "encoder_relu_b32_t10_d512_h8_f2048": ("encoder_relu", 32, 10, 512, 8, 2048, "relu"),
    "encoder_gelu_b1_t512_d768_h12_f3072": ("encoder_gelu", 1, 512, 768, 12, 3072, "gelu"),
}


def draw_weights(d, f):
    """By the paths of our library: [out, in], as PyTorch stores them."""
    rng = np.random.default_rng(3)
    draw = lambda o, i: (rng.standard_normal((o, i), dtype=np.float32) / math.sqrt(i)).astype(np.float32)  # noqa: E731
    attention = "self_attention." if f else ""
    weights = {}
    for name in ("W_q", "W_k", "W_v", "W_o"):
        weights[f"{attention}{name}.weight"] = draw(d, d)
        weights[f"{attention}{name}.bias"] = draw(1, d)[0]
    if f:
        for name, o, i in (("linear1", f, d), ("linear2", d, f)):
            weights[f"feed_forward.{name}.weight"] = draw(o, i)
            weights[f"feed_forward.{name}.bias"] = draw(1, o)[0]
        for name in ("norm1", "norm2"):
            weights[f"{name}.weight"] = 1 + 0.1 * draw(1, d)[0]
            weights[f"{name}.bias"] = draw(1, d)[0]
    return weights


def torch_layer(weights, d, heads, f, act):
    """The layer as a PyTorch user writes it: one projection for queries, keys and values, then SDPA."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            at = "self_attention." if f else ""
            get = lambda kind: [torch.from_numpy(weights[f"{at}{n}.{kind}"]) for n in ("W_q", "W_k", "W_v")]  # noqa: E731
            self.qkv = self.linear(torch.cat(get("weight")), torch.cat(get("bias")))
            self.out = self.named(f"{at}W_o")
            if f:
                self.linear1, self.linear2 = self.named("feed_forward.linear1"), self.named("feed_forward.linear2")
                self.norm1, self.norm2 = self.norm("norm1"), self.norm("norm2")

        def linear(self, weight, bias):
            layer = nn.Linear(weight.shape[1], weight.shape[0])
            layer.weight.data, layer.bias.data = weight, bias
            return layer

        def named(self, name):
            return self.linear(*(torch.from_numpy(weights[f"{name}.{kind}"]) for kind in ("weight", "bias")))

        def norm(self, name):
            layer = nn.LayerNorm(d)
            layer.weight.data, layer.bias.data = (torch.from_numpy(weights[f"{name}.{k}"]) for k in ("weight", "bias"))
            return layer

        def attend(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v)
            return self.out(y.transpose(1, 2).reshape(b, t, d))

        def forward(self, x):
            if not f:
                return self.attend(x)
            x = self.norm1(x + self.attend(x))
            y = getattr(functional, act)(self.linear1(x))
            return self.norm2(x + self.linear2(y))

    return Layer().eval().requires_grad_(False)


def run(name, model, batch, tokens, d, heads, f, act):
    weights = draw_weights(d, f)
    x = np.random.default_rng(4).standard_normal((batch, tokens, d), dtype=np.float32)
    flops = 2 * batch * tokens * (4 * d * d + 2 * d * f) + 4 * batch * tokens * tokens * d
    folder = tempfile.mkdtemp()

    def torch_eager():
        (a,) = torch_arrays(x)
        return plain_call(torch_layer(weights, d, heads, f, act), a)

    def torch_builtin():
        """PyTorch's own modules, with their fast path."""
        from torch import nn

        (a,) = torch_arrays(x)
        ours = torch_layer(weights, d, heads, f, act)
        if f:
            layer = nn.TransformerEncoderLayer(d, heads, f, 0.0, act, batch_first=True)
            attention = layer.self_attn
            for own, given in zip((layer.linear1, layer.linear2, layer.norm1, layer.norm2), (ours.linear1, ours.linear2, ours.norm1, ours.norm2)):
                own.weight.data, own.bias.data = given.weight, given.bias
        else:
            layer = attention = nn.MultiheadAttention(d, heads, batch_first=True)
        attention.in_proj_weight.data, attention.in_proj_bias.data = ours.qkv.weight, ours.qkv.bias
        attention.out_proj.weight.data, attention.out_proj.bias.data = ours.out.weight, ours.out.bias
        layer = layer.eval().requires_grad_(False)
        return plain_call(layer if f else lambda a: layer(a, a, a, need_weights=False)[0], a)

    def torch_compiled():
        import torch
        from torch._inductor import config

        config.freezing = True
        (a,) = torch_arrays(x)
        return plain_call(torch.compile(torch_layer(weights, d, heads, f, act)), a)

    def onnx_file():
        import torch

        path = os.path.join(folder, "layer.onnx")
        if not os.path.exists(path):
            (a,) = torch_arrays(x)
            words = {"dynamo": True, "external_data": False, "verbose": False, "input_names": ["x"]}
            torch.onnx.export(torch_layer(weights, d, heads, f, act), (a,), path, **words)
        return path

    def ort():
        return ort_call(onnx_file(), {"x": x})

    def openvino():
        import openvino

        return openvino_call(openvino.Core().read_model(onnx_file()), [x])

    def salient():
        sets = [("H", heads)] + ([("F", f)] if f else [])
        return Salient("layers.attn", model, {"x": x}, weights, sets)

    makers = [torch_eager, torch_builtin, torch_compiled, ort, openvino, salient]
    compare("C", name, {make.__name__: make for make in makers}, flops)


for case, shape in CASES.items():
    run(case, *shape)
