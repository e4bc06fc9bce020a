"""Group T: a step of training, loss, gradients, clipping and AdamW: the recipe for a processor of nanoGPT
(`examples/train/gpt.attn`: 4 layers of 4 heads, 128 wide, 12 windows of 64 characters).

PyTorch runs the same step eagerly and compiled, with its fused AdamW. The loss of the first step is compared.
"""

import os

from common import HERE, Call, Salient, compare, np, torch_arrays

VOCABULARY, WIDTH, HEADS, LAYERS, WINDOW, BATCH = 65, 128, 4, 4, 64, 12
RATE = 1e-3
SHAPES = {"wte": (VOCABULARY, WIDTH), "wpe": (WINDOW, WIDTH), "ln_f": (WIDTH,)}
for _layer in range(LAYERS):
    _shapes = {"ln_1": (WIDTH,), "attn.c_attn": (3 * WIDTH, WIDTH), "attn.c_proj": (WIDTH, WIDTH)}
    _shapes |= {"ln_2": (WIDTH,), "mlp.c_fc": (4 * WIDTH, WIDTH), "mlp.c_proj": (WIDTH, 4 * WIDTH)}
    SHAPES |= {f"h.{_layer}.{name}": shape for name, shape in _shapes.items()}


def weights():
    """The parameters by path: norms begin at one, all else is drawn."""
    draws = np.random.default_rng(7)
    draw = lambda shape: (0.02 * draws.standard_normal(shape)).astype(np.float32)  # noqa: E731
    return {f"{name}.weight": np.ones(s, np.float32) if len(s) == 1 else draw(s) for name, s in SHAPES.items()}


def states():
    """What steps move: the parameters, and what the optimiser holds of each."""
    held = weights()
    for name, x in list(held.items()):
        held |= {f"opt.{name}.mean": np.zeros_like(x), f"opt.{name}.square": np.zeros_like(x)}
        held[f"opt.{name}.steps"] = np.float32(0)
    return held


def forward(p, ids, labels):
    import torch
    from torch.nn import functional as F

    norm = lambda x, name: F.layer_norm(x, (WIDTH,), p[f"{name}.weight"])  # noqa: E731
    heads = lambda x: x.view(BATCH, WINDOW, HEADS, WIDTH // HEADS).transpose(1, 2)  # noqa: E731
    x = F.embedding(ids, p["wte.weight"]) + p["wpe.weight"]
    for layer in (f"h.{n}" for n in range(LAYERS)):
        q, k, v = F.linear(norm(x, f"{layer}.ln_1"), p[f"{layer}.attn.c_attn.weight"]).split(WIDTH, dim=2)
        y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        y = y.transpose(1, 2).reshape(BATCH, WINDOW, WIDTH)
        x = x + F.linear(y, p[f"{layer}.attn.c_proj.weight"])
        y = F.gelu(F.linear(norm(x, f"{layer}.ln_2"), p[f"{layer}.mlp.c_fc.weight"]))
        x = x + F.linear(y, p[f"{layer}.mlp.c_proj.weight"])
    logits = F.linear(norm(x, "ln_f"), p["wte.weight"])
    return F.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1))


def torch_step(ids, labels, compiled):
    import torch

    ids, labels = torch_arrays(ids, labels)
    parameters = {name: torch.nn.Parameter(torch.from_numpy(x.copy())) for name, x in weights().items()}
    decayed = [p for p in parameters.values() if p.dim() > 1]
    others = [p for p in parameters.values() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.99), fused=True)
    loss_of = torch.compile(forward) if compiled else forward

    def step():
        loss = loss_of(parameters, ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return Call(step)


def run():
    draws = np.random.default_rng(5)
    ids, labels = (draws.integers(0, VOCABULARY, (BATCH, WINDOW)) for _ in range(2))

    def torch_eager():
        return torch_step(ids, labels, False)

    def torch_compiled():
        return torch_step(ids, labels, True)

    def salient():
        program = os.path.join(HERE, "../../examples/train/gpt.attn")
        inputs = {"ids": ids, "labels": labels, "rate": np.float32(RATE), **states()}
        return Salient(program, "train", inputs, request="steps")

    tokens = BATCH * WINDOW
    products = 2 * tokens * WIDTH * (12 * WIDTH * LAYERS + VOCABULARY) + LAYERS * 4 * tokens * WINDOW * WIDTH / 2
    makers = {make.__name__: make for make in (torch_eager, torch_compiled, salient)}
    compare("T", "nanogpt_step", makers, 3 * products)


run()
