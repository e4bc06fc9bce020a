"""Trains the GPT of examples/train/gpt.attn in PyTorch from the same parameters, on the same batches, and compares the losses.

    salient train examples/train/gpt.attn --model train --set V=76 --data weights/plays.txt --length 64 --batch 12 --steps 1 \\
        --rate 0 --out start.safetensors
    salient train examples/train/gpt.attn --model train --set V=76 --data weights/plays.txt --length 64 --batch 12 --steps 50 \\
        --rate 1e-3 --log run.jsonl
    python tools/reference/training.py weights/plays.txt start.safetensors run.jsonl

prints the greatest difference; a fourth argument is the share of the end that the run kept for validation. Needs torch and safetensors. Batches are drawn as docs/training.md says, by Philox4x32-10.
"""

import json
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

B, T, H, L, SEED = 12, 64, 4, 4, 1


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def key(seed, name):
    h = 0xCBF29CE484222325 ^ seed
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h & 0xFFFFFFFF, h >> 32


def batch(tokens, step):
    starts = []
    for row in range(B):
        words = philox((row, step, 0, 0), key(SEED, "batches"))
        starts.append((words[0] | words[1] << 32) * (len(tokens) - T) >> 64)
    windows = torch.stack([tokens[s : s + T + 1] for s in starts])
    return windows[:, :-1], windows[:, 1:]


def logits(p, ids):
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], None, 1e-5)
    x = p["wte.weight"][ids] + p["wpe.weight"][: ids.shape[1]]
    for l in range(L):
        y = norm(x, f"h.{l}.ln_1") @ p[f"h.{l}.attn.c_attn.weight"].T
        q, k, v = (z.unflatten(-1, (H, -1)).transpose(1, 2) for z in y.chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + y @ p[f"h.{l}.attn.c_proj.weight"].T
        y = F.gelu(norm(x, f"h.{l}.ln_2") @ p[f"h.{l}.mlp.c_fc.weight"].T)
        x = x + y @ p[f"h.{l}.mlp.c_proj.weight"].T
    return norm(x, "ln_f") @ p["wte.weight"].T


def main():
    text, start, log, kept = [*sys.argv[1:], "0"][:4]
    text = open(text).read()
    ids = {c: n for n, c in enumerate(sorted(set(text)))}
    tokens = torch.tensor([ids[c] for c in text])
    tokens = tokens[: len(tokens) - round(len(tokens) * float(kept))]
    p = {name: w.requires_grad_() for name, w in load_file(start).items()}
    groups = [
        {"params": [w for w in p.values() if w.ndim > 1], "weight_decay": 0.1},
        {"params": [w for w in p.values() if w.ndim == 1], "weight_decay": 0},
    ]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    worst = 0
    for line in map(json.loads, open(log)):
        if "results" not in line:
            continue
        x, y = batch(tokens, line["step"])
        loss = F.cross_entropy(logits(p, x).flatten(0, 1), y.flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        for group in optimiser.param_groups:
            group["lr"] = line["rate"]
        optimiser.step()
        worst = max(worst, abs(loss.item() - line["results"]["loss"]))
        print(f"step {line['step']}: {loss.item():.6f} here, {line['results']['loss']:.6f} there")
    print(f"greatest difference: {worst:.2e}")


if __name__ == "__main__":
    main()
