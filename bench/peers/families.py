"""Group F: the families of `tests/equivalence`, each by its reference, at (B, H, T, E) = (1, 4, 512, 64) in f32.

Peers are PyTorch's compiled FlexAttention, where what changes scores, a mask or something before or behind it says the variant, and
torch.compile of the mathematics as written.
"""

import functools
import math
import os
import re

from common import HERE, Salient, compare, np, torch_arrays, torch_call

B, H, T, E = 1, 4, 512, 64
SCALE = 1 / math.sqrt(E)
rng = np.random.default_rng(3)
heads = (B, H, T, E)


def normal(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def uniform(*shape):
    return rng.random(shape, dtype=np.float32)


def qkv(**more):
    return {"q": normal(*heads), "k": normal(*heads), "v": normal(*heads), **more}


def causal(score):
    import torch

    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    return score.masked_fill(hidden, float("-inf"))


def scores(q, k):
    return q @ k.transpose(-1, -2) * SCALE


def weights(q, k):
    """Those of a causal attention."""
    import torch

    return torch.softmax(causal(scores(q, k)), -1)


@functools.cache
def flex_attention():
    """Compiled by itself: what stands before and behind it cannot be compiled into it on CPUs."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


def flex(score=None, mask=None, **words):
    """FlexAttention with the block mask of `mask`, made outside of the clock."""
    from torch.nn.attention.flex_attention import create_block_mask

    blocks = mask and create_block_mask(mask, None, None, T, T, device="cpu")
    return lambda q, k, v: flex_attention()(q, k, v, score_mod=score, block_mask=blocks, **words)


def before(b, h, i, j):
    return i >= j


def changed(score):
    """Causal, with scores changed by a function of them alone."""
    attend = flex(lambda s, b, h, i, j: score(s), before)
    return lambda q, k, v: attend(q, k, v)


# ---- what is no plain function of scores


def merged(y):
    return y.transpose(1, 2).reshape(B, T, H * E)


def alibi_flex(blocks):
    def call(q, k, v, slope):
        change = lambda s, b, h, i, j: s - slope[h] * (i - j)  # noqa: E731
        return flex_attention()(q, k, v, score_mod=change, block_mask=blocks)

    return call


def alibi_written(q, k, v, slope):
    import torch

    at = torch.arange(T)
    return torch.softmax(causal(scores(q, k) - slope[:, None, None] * (at[:, None] - at)), -1) @ v


def forgetting_written(q, k, v, forget):
    import torch

    run = torch.nn.functional.logsigmoid(forget).cumsum(-1)
    return torch.softmax(causal(scores(q, k) + run[..., :, None] - run[..., None, :]), -1) @ v


def forgetting_flex(blocks):
    import torch
    def call(q, k, v, forget):
        run = torch.nn.functional.logsigmoid(forget).cumsum(-1)
        change = lambda s, b, h, i, j: s + run[b, h, i] - run[b, h, j]  # noqa: E731
        return flex_attention()(q, k, v, score_mod=change, block_mask=blocks)

    return call


def shifted(position):
    """Row i, distance i - j, for every i and j; distances below zero are hidden anyway."""
    import torch

    at = torch.arange(T)
    distance = (at[:, None] - at).clamp(min=0)
    return position.gather(-1, distance.expand(B, H, T, T))


def relative_written(q, k, v, r):
    import torch

    content, position = q @ k.transpose(-1, -2), shifted(q @ r.transpose(-1, -2))
    return torch.softmax(causal((content + position) * SCALE), -1) @ v


def relative_flex(blocks):
    def call(q, k, v, r):
        position = q @ r.transpose(-1, -2) * SCALE
        change = lambda s, b, h, i, j: s + position[b, h, i, (i - j) % T]  # noqa: E731
        return flex_attention()(q, k, v, score_mod=change, block_mask=blocks)

    return call


def sticks(q, k, v):
    import torch

    score = scores(q, k)
    past = torch.ones(T, T, dtype=torch.bool).tril(-1)
    rest = torch.where(past, torch.nn.functional.logsigmoid(-score), 0.0)
    behind = rest.sum(-1, keepdim=True) - rest.cumsum(-1)
    return torch.where(past, torch.sigmoid(score) * torch.exp(behind), 0.0) @ v


def talking(q, k, v, before_, after):
    import torch

    mixed = torch.einsum("gh,bhij->bgij", before_, scores(q, k))
    return torch.einsum("gh,bhij->bgij", after, torch.softmax(mixed, -1)) @ v


def squared(q, k, v):
    square = weights(q, k) ** 2
    return square / square.sum(-1, keepdim=True) @ v


def thresholded(q, k, v):
    import torch

    weight = weights(q, k)
    return torch.where(weight < 0.02, 0.0, weight) @ v


def two(attend):
    """The difference of two attentions over the same values."""
    return lambda q1, k1, q2, k2, v, lam: attend(q1, k1, v) - lam[:, None, None] * attend(q2, k2, v)


def sink_written(q, k, v, sink):
    import torch

    e = torch.exp(scores(q, k))
    return e / (e.sum(-1, keepdim=True) + torch.exp(sink)[:, None, None]) @ v


def real_mask(real):
    import torch

    kept = torch.from_numpy(real)
    return lambda b, h, i, j: kept[b, j] & (i >= 0)


def families():
    """Name: arrays of our model, the mathematics as written, and the same by FlexAttention or None."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    attention = flex_attention()
    past = create_block_mask(before, None, None, T, T, device="cpu")
    causal_flex = lambda q, k, v: attention(q, k, v, block_mask=past)  # noqa: E731
    plain = lambda q, k, v: torch.softmax(scores(q, k), -1) @ v  # noqa: E731
    causal_written = lambda q, k, v: weights(q, k) @ v  # noqa: E731
    changed_by = lambda f: lambda q, k, v: torch.softmax(causal(f(scores(q, k))), -1) @ v  # noqa: E731
    real = rng.random((B, T)) < 0.8
    kept = (rng.random(heads[:3] + (T,)) < 0.9)
    pairs = {name: normal(*heads) for name in ("q1", "k1", "q2", "k2", "v")} | {"lambda": uniform(H)}
    hidden = lambda s, keep: s.masked_fill(~keep, float("-inf"))  # noqa: E731
    near = torch.ones(T, T, dtype=torch.bool).tril().triu(-2)
    apart = lambda x: x.transpose(1, 2)  # noqa: E731
    laid_out = {name: normal(B, T, H, E) for name in "qkv"}
    return {
        "plain": (qkv(), plain, attention),
        "causal": (qkv(), causal_written, causal_flex),
        "alibi": (qkv(slope=uniform(H)), alibi_written, alibi_flex(past)),
        "soft_cap": (qkv(), changed_by(lambda s: 20 * torch.tanh(s / 20)), changed(lambda s: 20 * torch.tanh(s / 20))),
        "windowed": (
            qkv(),
            lambda q, k, v: torch.softmax(hidden(scores(q, k), near), -1) @ v,
            flex(None, lambda b, h, i, j: (i >= j) & (i - j < 3)),
        ),
        "padded": (
            qkv(real=real),
            lambda q, k, v, real: torch.softmax(hidden(scores(q, k), real[:, None, None]), -1) @ v,
            lambda q, k, v, _real, attend=flex(None, real_mask(real)): attend(q, k, v),
        ),
        "gate_query": (
            qkv(gate=uniform(B, H, T)),
            lambda q, k, v, gate: (torch.softmax(scores(q, k), -1) * gate[..., None]) @ v,
            lambda q, k, v, gate: attention(q, k, v) * gate[..., None],
        ),
        "dropped": (
            qkv(kept=kept.astype(np.float32)),
            lambda q, k, v, kept: (weights(q, k) * kept / 0.9) @ v,
            None,
        ),
        "dropped_bool": (
            qkv(kept=kept),
            lambda q, k, v, kept: torch.where(kept, weights(q, k) / 0.9, 0.0) @ v,
            None,
        ),
        "second_mask": (
            qkv(also=kept[:, 0]),
            lambda q, k, v, also: torch.where(also[:, None], weights(q, k), 0.0) @ v,
            None,
        ),
        "thresholded": (qkv(), thresholded, None),
        "squared_renorm": (qkv(), squared, changed(lambda s: 2 * s)),
        "talking_heads": (qkv(before=normal(H, H), after=normal(H, H)), talking, None),
        "relative_shift": (qkv(r=normal(H, T, E)), relative_written, relative_flex(past)),
        "stick_breaking": (qkv(), sticks, None),
        "forgetting": (qkv(forget=normal(B, H, T)), forgetting_written, forgetting_flex(past)),
        "base2": (qkv(), changed_by(lambda s: s * math.log(2)), changed(lambda s: s * math.log(2))),
        "temperature": (qkv(), changed_by(lambda s: s / 0.7), changed(lambda s: s / 0.7)),
        "float_masks": (qkv(), causal_written, causal_flex),
        "ones_column": (qkv(), causal_written, causal_flex),
        "two_softmaxes": (pairs, two(causal_written), two(causal_flex)),
        "differential": (pairs, two(plain), two(attention)),
        "merged_layouts": (
            qkv(),
            lambda q, k, v: merged(weights(q, k) @ v),
            lambda q, k, v: merged(causal_flex(q, k, v)),
        ),
        "transposed_layouts": (
            laid_out,
            lambda q, k, v: apart(weights(apart(q), apart(k)) @ apart(v)),
            lambda q, k, v: apart(causal_flex(apart(q), apart(k), apart(v))),
        ),
        "relu": (qkv(), lambda q, k, v: torch.relu(scores(q, k)) / T @ v, None),
        "sigmoid": (qkv(), lambda q, k, v: torch.sigmoid(causal(scores(q, k))) @ v, None),
        "sink": (qkv(sink=normal(H)), sink_written, None),
    }


def reference(name):
    """The file of a family's reference, and its text."""
    path = os.path.join(HERE, f"../../tests/equivalence/{name}/reference.attn")
    with open(path) as file:
        return path, file.read()


def sizes(name, arrays):
    """The sizes of a family's inputs, which ours knows when it compiles, as torch.compile does."""
    inputs = re.search(r"^model \w+\((.*)\) -> ", reference(name)[1], re.M)[1]
    shapes = re.findall(r"(\w+): \w+\[([^\]]*)\]", inputs)
    named = [pair for x, dims in shapes for pair in zip(dims.split(", "), arrays[x].shape)]
    return [(dim, size) for dim, size in dict(named).items() if dim.isalpha()]


def run(name, arrays, written, by_flex):
    # What a mask hides is credited to nobody.
    unmasked = ("plain", "padded", "gate_query", "talking_heads", "differential", "relu", "sink")
    share = 3 / T if name == "windowed" else 1 if name in unmasked else (T + 1) / T / 2
    products = {"two_softmaxes": 3, "differential": 3, "relative_shift": 3}.get(name, 2)
    flops = 2 * products * B * H * T * T * E * share

    def torch_compiled():
        import torch

        return torch_call(torch.compile(written), *torch_arrays(*arrays.values()))

    def torch_flex():
        import torch

        if by_flex is None:
            raise NotImplementedError("no change of scores and no mask says it")
        tensors = torch_arrays(*arrays.values())
        return torch_call(by_flex, *tensors)

    def salient():
        return Salient(reference(name)[0], f"{name}_spelling", arrays, sets=sizes(name, arrays))

    makers = {make.__name__: make for make in (torch_compiled, torch_flex, salient)}
    compare("F", name, makers, flops)


if __name__ == "__main__":
    for family, parts in families().items():
        run(family, *parts)
