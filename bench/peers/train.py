"""Group T: a step of training, loss, gradients, clipping and AdamW (`examples/train/gpt.attn`): the recipe for a processor of
nanoGPT (4 layers of 4 heads, 128 wide, 12 windows of 64 characters), and GPT-2 of 124M parameters (12 layers of 12 heads, 768
wide, 4 windows of 64 tokens).

PyTorch runs the same step eagerly and compiled, with its fused AdamW. The loss of the first step is compared.
"""

import os
from dataclasses import dataclass

from common import HERE, Call, Salient, compare, np, torch_arrays

RATE = 1e-3


@dataclass(frozen=True)
class Shape:
    """The sizes of a model and of a step."""

    vocabulary: int
    positions: int
    width: int
    heads: int
    layers: int
    batch: int
    window: int

    def parameters(self):
        """The shapes of all parameters by path."""
        width = self.width
        out = {"wte": (self.vocabulary, width), "wpe": (self.positions, width), "ln_f": (width,)}
        for layer in range(self.layers):
            shapes = {"ln_1": (width,), "attn.c_attn": (3 * width, width), "attn.c_proj": (width, width)}
            shapes |= {"ln_2": (width,), "mlp.c_fc": (4 * width, width), "mlp.c_proj": (width, 4 * width)}
            out |= {f"h.{layer}.{name}": shape for name, shape in shapes.items()}
        return out

    def flops(self):
        """Of the products of a step: twice as many backward as forward."""
        tokens = self.batch * self.window
        products = 2 * tokens * self.width * (12 * self.width * self.layers + self.vocabulary)
        return 3 * (products + self.layers * 4 * tokens * self.window * self.width / 2)

    def sets(self):
        """What `salient train` knows when it compiles: the parameters of the model, and how large batches are."""
        names = {"V": self.vocabulary, "P": self.positions, "D": self.width, "H": self.heads, "L": self.layers}
        names |= {"B": self.batch, "T": self.window}
        return tuple(names.items())


SHAPES = {"nanogpt_step": Shape(65, 64, 128, 4, 4, 12, 64), "gpt2_step": Shape(50257, 1024, 768, 12, 12, 4, 64)}


def weights(shape):
    """The parameters by path: norms begin at one, all else is drawn."""
    draws = np.random.default_rng(7)
    draw = lambda dims: 0.02 * draws.standard_normal(dims, dtype=np.float32)  # noqa: E731
    shapes = shape.parameters().items()
    return {f"{name}.weight": np.ones(s, np.float32) if len(s) == 1 else draw(s) for name, s in shapes}


def states(shape):
    """What steps move: the parameters, and what the optimiser holds of each."""
    held = weights(shape)
    for name, x in list(held.items()):
        held |= {f"opt.{name}.mean": np.zeros_like(x), f"opt.{name}.square": np.zeros_like(x)}
        held[f"opt.{name}.steps"] = np.float32(0)
    return held


def forward(shape, p, ids, labels):
    import torch
    from torch.nn import functional as F

    width = shape.width
    norm = lambda x, name: F.layer_norm(x, (width,), p[f"{name}.weight"])  # noqa: E731
    heads = lambda x: x.view(shape.batch, shape.window, shape.heads, width // shape.heads).transpose(1, 2)  # noqa: E731
    x = F.embedding(ids, p["wte.weight"]) + p["wpe.weight"][: shape.window]
    for layer in (f"h.{n}" for n in range(shape.layers)):
        q, k, v = F.linear(norm(x, f"{layer}.ln_1"), p[f"{layer}.attn.c_attn.weight"]).split(width, dim=2)
        y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        y = y.transpose(1, 2).reshape(shape.batch, shape.window, width)
        x = x + F.linear(y, p[f"{layer}.attn.c_proj.weight"])
        y = F.gelu(F.linear(norm(x, f"{layer}.ln_2"), p[f"{layer}.mlp.c_fc.weight"]))
        x = x + F.linear(y, p[f"{layer}.mlp.c_proj.weight"])
    logits = F.linear(norm(x, "ln_f"), p["wte.weight"])
    return F.cross_entropy(logits.view(-1, shape.vocabulary), labels.view(-1))


def torch_step(shape, ids, labels, compiled):
    import torch

    ids, labels = torch_arrays(ids, labels)
    parameters = {name: torch.nn.Parameter(torch.from_numpy(x)) for name, x in weights(shape).items()}
    decayed = [p for p in parameters.values() if p.dim() > 1]
    others = [p for p in parameters.values() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.99), fused=True)
    loss_of = torch.compile(forward) if compiled else forward

    def step():
        loss = loss_of(shape, parameters, ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return Call(step)


def run(case, shape):
    draws = np.random.default_rng(5)
    ids, labels = (draws.integers(0, shape.vocabulary, (shape.batch, shape.window)) for _ in range(2))

    def torch_eager():
        return torch_step(shape, ids, labels, False)

    def torch_compiled():
        return torch_step(shape, ids, labels, True)

    def salient():
        program = os.path.join(HERE, "../../examples/train/gpt.attn")
        inputs = {"ids": ids, "labels": labels, "rate": np.float32(RATE), **states(shape)}
        return Salient(program, "train", inputs, sets=shape.sets(), request="steps")

    makers = {make.__name__: make for make in (torch_eager, torch_compiled, salient)}
    compare("T", case, makers, shape.flops())


for _case, _shape in SHAPES.items():
    run(_case, _shape)
