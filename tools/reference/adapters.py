"""Compares the gradients of MiniLM's adapters by a batch of pairs with those that PyTorch's autograd gives.

    python tools/reference/adapters.py start weights/minilm.safetensors weights/pairs.npz FOLDER
    salient run FOLDER/gradients.attn --weights FOLDER/start.safetensors --inputs FOLDER/batch.npz --outputs FOLDER/found.npz
    python tools/reference/adapters.py compare FOLDER

`start` draws adapters, of which none is zeros, so that all have a gradient, and writes them with the checkpoint, the first pairs and
a program whose results are the loss and the gradients. Needs numpy, torch and safetensors.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HEADS, LAYERS, WIDTH, RANK, ALPHA, TEMPERATURE, PAIRS = 12, 6, 384, 8, 16, 0.05, 8

PROGRAM = """import "{adapters}"

model gradients[V = 30522, P = 512, D = 384, H = 12, F = 1536, L = 6](ids: i64[B, 2, T], keep: bool[B, 2, T]) -> (
    loss: f32,
) {{
    let loss = contrast_of_pairs[V, P, D, H, F, L, 8, 16, 1e-12, 0.05](ids, keep)
    return loss, grad(loss, parameters.encoder.layer.*.attention.self.*.lora)
}}
"""


def start(checkpoint, pairs, folder):
    folder.mkdir(exist_ok=True)
    generator = torch.Generator().manual_seed(1)
    known = {k: w for k, w in load_file(checkpoint).items() if not k.startswith("pooler") and "position_ids" not in k}
    for layer in range(LAYERS):
        for name in ("query", "value"):
            at = f"encoder.layer.{layer}.attention.self.{name}"
            known[f"{at}.lora.down"] = 0.05 * torch.randn(RANK, WIDTH, generator=generator)
            known[f"{at}.lora.up"] = 0.05 * torch.randn(WIDTH, RANK, generator=generator)
    save_file(known, folder / "start.safetensors")
    arrays = np.load(pairs)
    np.savez(folder / "batch.npz", **{name: arrays[name][:PAIRS] for name in ("ids", "keep")})
    adapters = Path(__file__).resolve().parents[2] / "examples" / "train" / "adapters.attn"
    (folder / "gradients.attn").write_text(PROGRAM.format(adapters=adapters))


def vectors(p, ids, keep):
    norm = lambda x, at: F.layer_norm(x, x.shape[-1:], p[f"{at}.weight"], p[f"{at}.bias"], 1e-12)
    linear = lambda x, at: F.linear(x, p[f"{at}.weight"], p[f"{at}.bias"])
    adapted = lambda x, at: linear(x, at) + ALPHA / RANK * x @ p[f"{at}.lora.down"].T @ p[f"{at}.lora.up"].T
    heads = lambda x: x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
    x = p["embeddings.word_embeddings.weight"][ids] + p["embeddings.token_type_embeddings.weight"][0]
    x = norm(x + p["embeddings.position_embeddings.weight"][: ids.shape[1]], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        q, k, v = adapted(x, f"{at}.attention.self.query"), linear(x, f"{at}.attention.self.key"), adapted(x, f"{at}.attention.self.value")
        y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=keep[:, None, None, :]).transpose(1, 2).flatten(2)
        x = norm(linear(y, f"{at}.attention.output.dense") + x, f"{at}.attention.output.LayerNorm")
        y = linear(F.gelu(linear(x, f"{at}.intermediate.dense")), f"{at}.output.dense")
        x = norm(y + x, f"{at}.output.LayerNorm")
    pooled = (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
    return F.normalize(pooled, dim=-1)


def compare(folder):
    p = {name: w.double() for name, w in load_file(folder / "start.safetensors").items()}
    moved = [name for name in p if ".lora." in name]
    for name in moved:
        p[name].requires_grad_()
    batch = np.load(folder / "batch.npz")
    ids, keep = (torch.from_numpy(batch[name]) for name in ("ids", "keep"))
    first, second = (vectors(p, ids[:, n], keep[:, n]) for n in (0, 1))
    loss = F.cross_entropy(first @ second.T / TEMPERATURE, torch.arange(len(ids)))
    gradients = torch.autograd.grad(loss, [p[name] for name in moved])
    found = np.load(folder / "found.npz")
    found = {name.removeprefix("out."): found[name] for name in found.files}
    print(f"loss {loss.item():.6f} here, {found['loss'].item():.6f} there")
    off = {}
    for name, gradient in zip(moved, gradients):
        gradient = gradient.numpy()
        off[name] = np.abs(found[f"grad.{name}"] - gradient).max() / np.abs(gradient).max()
    worst = max(off, key=off.get)
    print(f"{len(off)} gradients; greatest difference, beside the greatest element of each: {off[worst]:.2e} ({worst})")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "start":
        start(words[1], words[2], Path(words[3]))
    else:
        compare(Path(words[1]))
