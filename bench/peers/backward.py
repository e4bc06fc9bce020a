"""Group W: gradients of the attention alone by queries, keys and values in f32, given that by the result.

`salient` computes the forward pass too, since its programs say gradients of a loss; so do `torch_both` and `torch_compiled`.
`torch_backward` is SDPA's backward alone, whose forward pass left results and log-sum-exps behind outside of the clock, and
`salient_forward` our own forward alone. Five products are counted, as a backward pass needs them.
"""

import math

from common import Call, Salient, compare, np, torch_arrays

# name: heads, positions, width, causal
SHAPES = [(12, 512, 64), (12, 1024, 64), (8, 4096, 64), (32, 2048, 128)]
CASES = {
    f"h{heads}_t{length}_e{width}{'_causal' if causal else ''}": (heads, length, width, causal)
    for heads, length, width in SHAPES
    for causal in (False, True)
}


def run(name, heads, length, width, causal):
    rng = np.random.default_rng(1)
    q, k, v, dy = (rng.standard_normal((1, heads, length, width), dtype=np.float32) for _ in range(4))
    pairs = length * (length + 1) // 2 if causal else length * length
    flops = 10 * heads * pairs * width

    def tensors():
        given = torch_arrays(q, k, v, dy)
        return [x.requires_grad_() for x in given[:3]], given[3]

    def sdpa(*operands):
        import torch

        return torch.nn.functional.scaled_dot_product_attention(*operands, is_causal=causal)

    def written(a, b, c):
        import torch

        scores = a @ b.transpose(-1, -2) / math.sqrt(width)
        if causal:
            scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), float("-inf"))
        return torch.softmax(scores, -1) @ c

    def both(forward):
        import torch

        operands, given = tensors()
        return Call(lambda: torch.autograd.grad(forward(*operands), operands, given)[0])

    def torch_both():
        return both(sdpa)

    def torch_compiled():
        import torch

        operands, _ = tensors()
        return both(torch.compile(written))

    def torch_backward():
        import torch

        operands, given = tensors()
        result = sdpa(*operands)
        return Call(lambda: torch.autograd.grad(result, operands, given, retain_graph=True)[0])

    def salient():
        inputs = {"q": q, "k": k, "v": v, "dy": dy}
        return Salient("backward.attn", f"{'causal' if causal else 'plain'}_gradients", inputs)

    def salient_forward():
        return Salient("attention.attn", f"{'causal' if causal else 'plain'}_heads", {"q": q, "k": k, "v": v})

    makers = [torch_both, torch_backward, salient, salient_forward]
    makers += [torch_compiled] if length <= 1024 else []
    compare("W", name, {make.__name__: make for make in makers}, flops, beside=["torch_backward", "salient_forward"])


for case, shape in CASES.items():
    run(case, *shape)
