"""A variant of attention from a paper, beside the same in PyTorch's FlexAttention.

Scores are capped as in Gemma 2 and fall with the distance as in ALiBi; a query sees the 64 keys up to its own position.
"""

import time

import numpy as np
import salient

variant = salient.compile("""
model variant[cap = 20.0, reach = 64](q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
    let slope = alibi_slopes[H]()
    let score = soft_cap[cap](q @ k.T / sqrt(E))
    let near[h, i: T, j: T] = score[h, i, j] - slope[h] * (i - j)
    return softmax(if window[T, T, left = reach - 1, right = 0]() then near else -inf) @ v
}""")


def with_flex_attention(q, k, v):
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    heads, length, _ = q.shape
    slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)

    def near(score, b, h, i, j):
        return 20.0 * torch.tanh(score / 20.0) - slope[h] * (i - j)

    def keep(b, h, i, j):
        return (j <= i) & (i - j < 64)

    mask = create_block_mask(keep, 1, 1, length, length, device="cpu")
    q, k, v = (torch.from_numpy(a)[None] for a in (q, k, v))
    return flex_attention(q, k, v, score_mod=near, block_mask=mask)[0].numpy()


def main():
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((8, 512, 64), np.float32) for _ in range(3))
    y = variant(q, k, v)
    before = time.perf_counter()
    variant(q, k, v, out=y)
    print(f"salient: {(time.perf_counter() - before) * 1e3:.2f} ms")
    print(variant.explain())
    try:
        other = with_flex_attention(q, k, v)
    except ImportError:
        print("torch is not installed: nothing to compare with")
        return
    print(f"largest difference from FlexAttention: {np.abs(other - y).max():.1e}")


if __name__ == "__main__":
    main()
