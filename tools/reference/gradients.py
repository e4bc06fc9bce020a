"""Records the gradients that PyTorch's autograd gives for variants of attention and functions of the library.

    python tools/reference/gradients.py

Each program below is written once more in PyTorch, and run in f64 on the arrays that are recorded for it already: it must give
what is recorded. Writes tests/gradients/FOLDER/NAME.npz: a cotangent `in.d_NAME` for each result and a gradient `out.d_NAME` for
each input and parameter. Needs numpy, torch.
"""

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[2]
DATA = {"variants": ROOT / "examples" / "variants" / "data", "library": ROOT / "tests" / "library" / "data"}
CASES = {"variants": {}, "library": {}}


def case(folder):
    """Adds a program: a function of the arrays by name that gives its results by name."""

    def add(program):
        CASES[folder][program.__name__] = program
        return program

    return add


variant, function = case("variants"), case("library")


def scores(a, q="q", k="k"):
    return a[q] @ a[k].transpose(-1, -2) / math.sqrt(a[q].shape[-1])


def causal(rows, keys):
    return torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)


def attend(score, keep, v):
    """A row that keeps no key is zeros."""
    weight = torch.softmax(score.masked_fill(~keep, -math.inf), -1)
    return {"context": torch.where(keep.any(-1, keepdim=True), weight, 0.0) @ v}


def full(a):
    return torch.ones(a["q"].shape[-2], a["k"].shape[-2], dtype=torch.bool)


# ---- variants


@variant
def alibi(a):
    heads, length = a["q"].shape[1:3]
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
    at = torch.arange(length)
    distance = (at[:, None] - at[None, :]).double()
    return attend(scores(a) - slopes[:, None, None] * distance, causal(length, length), a["v"])


@variant
def attention_sink(a):
    length = a["q"].shape[2]
    score = scores(a).masked_fill(~causal(length, length), -math.inf)
    sink = a["sink"][None, :, None, None].expand(*score.shape[:3], 1)
    weight = torch.softmax(torch.cat([score, sink], -1), -1)
    return {"context": weight[..., :length] @ a["v"]}


def phi(x):
    return F.elu(x) + 1


@variant
def causal_linear_attention(a):
    length = a["q"].shape[2]
    weight = (phi(a["q"]) @ phi(a["k"]).transpose(-1, -2)) * causal(length, length)
    return {"context": weight @ a["v"] / weight.sum(-1, keepdim=True)}


@variant
def cross_causal_offset(a):
    return attend(scores(a), causal(a["q"].shape[2], a["k"].shape[2]), a["v"])


@variant
def differential(a):
    keep = causal(a["q1"].shape[2], a["k1"].shape[2])
    one, two = (attend(scores(a, q, k), keep, a["v"])["context"] for q, k in [("q1", "k1"), ("q2", "k2")])
    return {"context": one - 0.3 * two}


@variant
def document_mask(a):
    document = a["document"]
    same = document[:, None, :, None] == document[:, None, None, :]
    return attend(scores(a), same & causal(*same.shape[-2:]), a["v"])


@variant
def grouped_heads(a):
    k, v = (a[name].repeat_interleave(a["q"].shape[1] // a[name].shape[1], 1) for name in "kv")
    return attend(scores({"q": a["q"], "k": k}), causal(k.shape[2], k.shape[2]), v)


@variant
def key_padding(a):
    return attend(scores(a), full(a) & a["keep"][:, None, None, :], a["v"])


@variant
def linear_attention(a):
    weight = phi(a["q"]) @ phi(a["k"]).transpose(-1, -2)
    return {"context": weight @ a["v"] / weight.sum(-1, keepdim=True)}


@variant
def multi_query(a):
    k, v = a["k"][:, None], a["v"][:, None]
    return attend(scores({"q": a["q"], "k": k}), causal(k.shape[2], k.shape[2]), v)


@variant
def prefix_lm(a):
    length = a["q"].shape[2]
    prefix = torch.arange(length)[None, None, None, :] < a["prefix_length"][:, None, None, None]
    return attend(scores(a), causal(length, length) | prefix, a["v"])


@variant
def relu_attention(a):
    weight = torch.relu(scores(a)) ** 2 / a["k"].shape[2]
    return {"context": torch.where(a["real"][:, None, None, :], weight, 0.0) @ a["v"]}


@variant
def retention(a):
    length = a["q"].shape[2]
    at = torch.arange(length)
    distance = (at[:, None] - at[None, :]).clamp(min=0).double()
    factor = torch.exp(-a["decay"][:, None, None] * distance) * causal(length, length)
    return {"context": (scores(a) * factor) @ a["v"]}


@variant
def sigmoid_attention(a):
    length = a["q"].shape[2]
    weight = torch.sigmoid(scores(a) - math.log(length))
    return {"context": torch.where(causal(length, length), weight, 0.0) @ a["v"]}


@variant
def sliding_window(a):
    length = a["q"].shape[2]
    keep = causal(length, length)
    return attend(scores(a), keep & ~keep.tril(-3), a["v"])


@variant
def soft_cap(a):
    length = a["q"].shape[2]
    return attend(5.0 * torch.tanh(scores(a) / 5.0), causal(length, length), a["v"])


@variant
def value_width(a):
    return attend(scores(a), full(a), a["v"])


@variant
def side_outputs(a):
    length = a["q"].shape[2]
    keep = causal(length, length)
    score = scores(a).masked_fill(~keep, -math.inf)
    weight, lse = torch.softmax(score, -1), torch.logsumexp(score, -1)
    entropy = lse - (weight * score.masked_fill(~keep, 0.0)).sum(-1)
    results = {"context": weight @ a["v"], "lse": lse, "greatest": score.max(-1).values}
    return results | {"entropy": entropy, "received": weight.sum(-2)}


# ---- functions of the library


@function
def softmax(a):
    return {"y": torch.softmax(a["x"], -1), "columns": torch.softmax(a["x"], 0)}


@function
def logsumexp(a):
    return {"y": torch.logsumexp(a["x"], -1)}


@function
def log_softmax(a):
    return {"y": torch.log_softmax(a["x"], -1)}


@function
def layer_norm(a):
    of = lambda weight, bias: F.layer_norm(a["x"], a["x"].shape[-1:], weight, bias, 1e-3)
    return {"y": of(a["full.weight"], a["full.bias"]), "z": of(a["bare.weight"], None)}


@function
def rms_norm(a):
    return {"y": F.rms_norm(a["x"], a["x"].shape[-1:], a["weight"], 1e-3)}


@function
def gelu_erf(a):
    return {"y": F.gelu(a["x"])}


@function
def gelu_tanh(a):
    return {"y": F.gelu(a["x"], approximate="tanh")}


@function
def silu(a):
    return {"y": F.silu(a["x"])}


@function
def softplus(a):
    return {"y": F.softplus(a["x"])}


@function
def sigmoid(a):
    return {"y": torch.sigmoid(a["x"])}


@function
def swiglu(a):
    return {"y": F.silu(a["gate"]) * a["up"]}


@function
def embedding(a):
    return {"y": F.embedding(a["ids"], a["weight"])}


@function
def linear(a):
    return {"y": F.linear(a["x"], a["full.weight"], a["full.bias"]), "z": F.linear(a["x"], a["bare.weight"])}


@function
def conv1d(a):
    causal = F.conv1d(F.pad(a["x"], (2, 0)), a["bare.weight"])
    return {"y": F.conv1d(a["x"], a["full.weight"], a["full.bias"]), "causal": causal}


@function
def multi_head(a):
    of = lambda x, name: F.linear(x, a[f"{name}.weight"], a[f"{name}.bias"])
    split = lambda x: x.unflatten(-1, (2, -1)).transpose(1, 2)
    q, k, v = (split(of(a[x], f"W_{x[0]}")) for x in ("query", "key", "value"))
    context = attend(scores({"q": q, "k": k}), a["keep"], v)["context"]
    return {"y": of(context.transpose(1, 2).flatten(2), "W_o")}


@function
def max_pool(a):
    # Where several are greatest the first has the gradient, as here.
    return {"y": a["x"].masked_fill(~a["keep"][..., None], -math.inf).max(1).values}


def recorded(folder, name, program):
    """The cotangents of a program's results and what they give for each array of numbers."""
    arrays, results = {}, {}
    with np.load(DATA[folder] / f"{name}.npz") as file:
        for key, value in file.items():
            kind, of = key.split(".", 1)
            value = torch.from_numpy(value)
            (results if kind == "out" else arrays)[of] = value.double() if value.is_floating_point() else value
    numbers = {of: value for of, value in arrays.items() if value.is_floating_point()}
    for value in numbers.values():
        value.requires_grad_(True)
    found = program(arrays)
    assert found.keys() == results.keys(), f"{name}: {found.keys()}"
    for of, value in found.items():
        torch.testing.assert_close(value.detach(), results[of], rtol=1e-4, atol=1e-5, msg=lambda m: f"{name}: {m}")
    torch.manual_seed(sum(name.encode()))
    # What is drawn is what the test reads: rounded before it is used.
    cotangents = {of: torch.randn(value.shape).double() for of, value in found.items()}
    loss = sum((value * cotangents[of]).sum() for of, value in found.items())
    gradients = torch.autograd.grad(loss, list(numbers.values()))
    out = {f"in.d_{of}": value for of, value in cotangents.items()}
    return out | {f"out.d_{of}": value for of, value in zip(numbers, gradients)}


def main():
    for folder, programs in CASES.items():
        here = ROOT / "tests" / "gradients" / folder
        here.mkdir(parents=True, exist_ok=True)
        for name, program in programs.items():
            arrays = recorded(folder, name, program)
            assert all(bool(value.isfinite().all()) for value in arrays.values()), name
            np.savez(here / f"{name}.npz", **{key: value.numpy().astype(np.float32) for key, value in arrays.items()})


if __name__ == "__main__":
    main()
