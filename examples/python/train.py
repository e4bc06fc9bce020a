"""Which mask learns a task best: variants of attention, compared by training.

The task: a number of the sequence comes back three positions later. A query that sees the keys before it can learn that; one that
sees itself alone cannot.
"""

import torch

import salient.torch

LAYER = """
model layer(x: f32[B, T, D]) -> (y: f32[B, T, D]) {{
    let q = linear[D, bias = false](x) as query
    let k = linear[D, bias = false](x) as key
    let v = linear[D, bias = false](x) as value
    return softmax(if {mask} then q @ k.T / sqrt(D) else -inf) @ v
}}"""

MASKS = {
    "all before": "causal[T, T, offset = 0]()",
    "four before": "window[T, T, left = 3, right = 0]()",
    "itself alone": "window[T, T, left = 0, right = 0]()",
}


def train(mask, steps=150, width=32, length=16):
    torch.manual_seed(0)
    names = ("query", "key", "value")
    weights = {f"{name}.weight": torch.randn(width, width) / width**0.5 for name in names}
    layer = salient.torch.module(LAYER.format(mask=mask), weights=weights)
    table, places = torch.randn(8, width), torch.randn(length, width)
    head = torch.nn.Linear(width, 8)
    optimiser = torch.optim.Adam([*layer.parameters(), *head.parameters()], 3e-3)
    for _ in range(steps):
        ids = torch.randint(8, (32, length))
        logits = head(layer(table[ids] + places))
        loss = torch.nn.functional.cross_entropy(logits[:, 3:].flatten(0, 1), ids[:, :-3].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item()


def main():
    for name, mask in MASKS.items():
        print(f"{name}: loss {train(mask):.3f}")


if __name__ == "__main__":
    main()
