"""Group P: products of activations with the parameters of a linear layer, f32, over the grid of a transformer's shapes."""

import math

from common import Salient, compare, np, onnx_model, openvino_call, ort_call, plain_call, torch_arrays

ROWS = (128, 512, 2048)
WIDTHS = (384, 768, 1536, 3072)


def run(m, k, n):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((m, k), dtype=np.float32)
    weight = (rng.standard_normal((n, k), dtype=np.float32) / math.sqrt(k)).astype(np.float32)

    def torch_linear():
        from torch.nn import functional

        a, w = torch_arrays(x, weight)
        return plain_call(lambda: functional.linear(a, w))

    def torch_packed():
        """The layer with its parameters in oneDNN's own layout, as they are after freezing."""
        import torch
        from torch.utils import mkldnn

        a, w = torch_arrays(x, weight)
        layer = torch.nn.Linear(k, n, bias=False).eval().requires_grad_(False)
        layer.weight.data = w
        packed = mkldnn.to_mkldnn(layer)
        return plain_call(lambda: packed(a))

    def model():
        from onnx import helper, numpy_helper

        node = helper.make_node("MatMul", ["x", "w"], ["y"])
        constant = numpy_helper.from_array(np.ascontiguousarray(weight.T), "w")
        return onnx_model(node, [("x", (m, k))], ("y", (m, n)), [constant])

    def ort():
        return ort_call(model(), {"x": x})

    def openvino():
        import io

        import openvino

        return openvino_call(openvino.Core().read_model(io.BytesIO(model().SerializeToString())), [x])

    def salient():
        return Salient("../../examples/bench/product.attn", "product", {"x": x}, {"weight": weight}, [("N", n)])

    makers = [torch_linear, torch_packed, ort, openvino, salient]
    compare("P", f"m{m}_k{k}_n{n}", {make.__name__: make for make in makers}, 2 * m * k * n)


for rows in ROWS:
    for depth in WIDTHS:
        for columns in WIDTHS:
            run(rows, depth, columns)
