"""Records what the functions of the language's library must give, by PyTorch, transformers, NumPy or plain loops.

    python tools/reference/library.py

writes tests/library/data/NAME.npz for each function; tests/library/NAME.attn calls it. Needs numpy, torch, transformers.
"""

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import _muon
from transformers.models.llama.modeling_llama import rotate_half
from transformers.models.t5.modeling_t5 import T5Attention

HERE = Path(__file__).resolve().parents[2] / "tests" / "library" / "data"
CASES = {}


def case(record):
    """Adds a function whose dictionary holds `in.NAME`, `param.PATH` and `out.NAME`."""
    CASES[record.__name__] = record
    return record


def randn(*shape):
    return torch.randn(*shape)


def of_x(function):
    """Input `x` [3, 7], output `y`."""
    x = 3 * randn(3, 7)
    return {"in.x": x, "out.y": function(x)}


def heads(queries=5, keys=6, width=4, value_width=3, q_heads=2, k_heads=2):
    return randn(2, q_heads, queries, width), randn(2, k_heads, keys, width), randn(2, k_heads, keys, value_width)


def qkv(q, k, v):
    return {"in.q": q, "in.k": k, "in.v": v}


def some(*shape):
    """A mask in which every row keeps its first position."""
    keep = torch.rand(*shape) < 0.6
    keep[..., 0] = True
    return keep


def params(module, names):
    """The module's parameters, under the paths of the program."""
    state = module.state_dict()
    return {f"param.{path}": state[name] for name, path in names.items()}


# ---- activations


@case
def relu():
    return of_x(torch.relu)


@case
def sigmoid():
    return of_x(torch.sigmoid)


@case
def silu():
    return of_x(F.silu)


@case
def gelu_erf():
    return of_x(F.gelu)


@case
def gelu_tanh():
    return of_x(lambda x: F.gelu(x, approximate="tanh"))


@case
def swiglu():
    gate, up = randn(3, 7), randn(3, 7)
    return {"in.gate": gate, "in.up": up, "out.y": F.silu(gate) * up}


@case
def soft_cap():
    return of_x(lambda x: 2.5 * torch.tanh(x / 2.5))


@case
def dropout():
    return of_x(lambda x: F.dropout(x, 0.3, training=False))


@case
def dropout_with():
    x, keep = randn(3, 7), some(3, 7)
    return {"in.x": x, "in.keep": keep, "out.y": x * keep / (1 - 0.3)}


# ---- softmax


@case
def softmax():
    x = 3 * randn(3, 7)
    x[1, 2:] = -math.inf
    return {"in.x": x, "out.y": torch.softmax(x, -1), "out.columns": torch.softmax(x, 0)}


@case
def logsumexp():
    return of_x(lambda x: torch.logsumexp(x, -1))


@case
def log_softmax():
    return of_x(lambda x: torch.log_softmax(x, -1))


# ---- attention


@case
def attention():
    q, k, v = heads()
    keep = some(5, 6)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, scale=0.3)
    return qkv(q, k, v) | {"in.keep": keep, "out.y": y}


@case
def scaled_attention():
    q, k, v = heads()
    return qkv(q, k, v) | {"out.y": F.scaled_dot_product_attention(q, k, v)}


@case
def attention_weights():
    q, k, _ = heads()
    keep = some(2, 1, 5, 6)
    score = (q @ k.transpose(-1, -2) / math.sqrt(4)).masked_fill(~keep, -math.inf)
    return {"in.q": q, "in.k": k, "in.keep": keep, "out.y": torch.softmax(score, -1)}


@case
def grouped_attention():
    q, k, v = heads(q_heads=6, k_heads=2)
    return qkv(q, k, v) | {"out.y": F.scaled_dot_product_attention(q, k, v, enable_gqa=True)}


@case
def split_heads():
    x = randn(2, 5, 12)
    return {"in.x": x, "out.y": x.view(2, 5, 3, 4).transpose(1, 2)}


@case
def merge_heads():
    x = randn(2, 3, 5, 4)
    return {"in.x": x, "out.y": x.transpose(1, 2).reshape(2, 5, 12)}


@case
def repeat_heads():
    x = randn(2, 3, 5, 4)
    return {"in.x": x, "out.y": x.repeat_interleave(2, dim=1)}


@case
def causal():
    s = randn(4, 6)
    keep = torch.ones(4, 6, dtype=torch.bool).tril(2)
    return {"in.s": s, "out.keep": keep, "out.y": s.masked_fill(~keep, 0)}


@case
def window():
    s = randn(6, 6)
    keep = torch.ones(6, 6, dtype=torch.bool).tril(1).triu(-2)
    return {"in.s": s, "out.keep": keep}


@case
def key_padding():
    keep = some(2, 6)
    return {"in.keep": keep, "out.y": keep.view(2, 1, 1, 6)}


@case
def same_document():
    document = torch.tensor([[0, 0, 1, 1, 2], [3, 3, 3, 4, 4]])
    return {"in.document": document, "out.y": (document[:, :, None] == document[:, None, :])[:, None]}


@case
def prefix_causal():
    length = torch.tensor([1, 4])
    keep = torch.ones(2, 1, 6, 6, dtype=torch.bool).tril()
    for b, n in enumerate(length):
        keep[b, :, :, :n] = True
    return {"in.length": length, "in.s": randn(6), "out.y": keep}


# ---- positions


@case
def sinusoidal():
    x = randn(9, 8)
    table = torch.tensor(
        [
            [(math.sin if d % 2 == 0 else math.cos)(t / 10000 ** (2 * (d // 2) / 8)) for d in range(8)]
            for t in range(9)
        ]
    )
    return {"in.x": x, "out.y": table}


def angles(positions, width, base):
    return np.outer(positions, base ** (-2.0 * np.arange(width // 2) / width))


@case
def rotary_angles():
    return {"in.x": randn(7, 8), "out.y": angles(np.arange(7) + 3, 8, 10000.0)}


@case
def rope_half():
    x = randn(2, 3, 7, 8)
    table = torch.tensor(np.tile(angles(np.arange(7) + 3, 8, 10000.0), 2), dtype=torch.float32)
    return {"in.x": x, "out.y": x * table.cos() + rotate_half(x) * table.sin()}


@case
def rope_interleaved():
    x = randn(2, 3, 7, 8)
    turn = torch.polar(torch.ones(7, 4), torch.tensor(angles(np.arange(7), 8, 10000.0), dtype=torch.float32))
    y = torch.view_as_real(torch.view_as_complex(x.reshape(2, 3, 7, 4, 2)) * turn)
    return {"in.x": x, "out.y": y.reshape(2, 3, 7, 8)}


@case
def alibi_slopes():
    # As published for eight heads.
    return {"in.x": randn(8), "out.y": torch.tensor([2.0**-n for n in range(1, 9)])}


@case
def alibi():
    score, slope = randn(2, 3, 4, 6), torch.rand(3)
    distance = torch.arange(6)[None, :] - (torch.arange(4)[:, None] + 2)
    return {"in.score": score, "in.slope": slope, "out.y": score + slope[:, None, None] * distance}


def buckets(queries, keys, bidirectional):
    distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
    return T5Attention._relative_position_bucket(distance, bidirectional, num_buckets=8, max_distance=20)


@case
def t5_bucket():
    return {"in.s": randn(40, 50), "out.both": buckets(40, 50, True), "out.one": buckets(40, 50, False)}


@case
def t5_bias():
    table = randn(8, 3)
    return {"in.table": table, "in.s": randn(5, 9), "out.y": table[buckets(5, 9, True)].permute(2, 0, 1)}


# ---- layers


@case
def linear():
    layer, bare = nn.Linear(5, 3), nn.Linear(5, 3, bias=False)
    x = randn(2, 4, 5)
    names = {"weight": "full.weight", "bias": "full.bias"}
    weights = params(layer, names) | params(bare, {"weight": "bare.weight"})
    return {"in.x": x, "out.y": layer(x), "out.z": bare(x)} | weights


@case
def embedding():
    layer = nn.Embedding(11, 4)
    ids = torch.tensor([[0, 3, 10], [7, 7, 1]])
    return {"in.ids": ids, "out.y": layer(ids)} | params(layer, {"weight": "weight"})


@case
def positions():
    table = randn(10, 4)
    return {"in.x": randn(6, 4), "out.y": table[:6], "param.weight": table}


def norm(layer):
    nn.init.normal_(layer.weight)
    if getattr(layer, "bias", None) is not None:
        nn.init.normal_(layer.bias)
    return layer


@case
def layer_norm():
    full, bare = norm(nn.LayerNorm(6, 1e-3)), norm(nn.LayerNorm(6, 1e-3, bias=False))
    x = randn(3, 6)
    names = {"weight": "full.weight", "bias": "full.bias"}
    weights = params(full, names) | params(bare, {"weight": "bare.weight"})
    return {"in.x": x, "out.y": full(x), "out.z": bare(x)} | weights


@case
def rms_norm():
    layer = norm(nn.RMSNorm(6, 1e-3))
    x = randn(3, 6)
    return {"in.x": x, "out.y": layer(x)} | params(layer, {"weight": "weight"})


@case
def feed_forward():
    layer = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
    x = randn(3, 4)
    names = {f"{n}.{part}": f"linear{m}.{part}" for n, m in [(0, 1), (2, 2)] for part in ("weight", "bias")}
    return {"in.x": x, "out.y": layer(x)} | params(layer, names)


@case
def gated_feed_forward():
    w = {name: randn(*shape) for name, shape in [("w1", (8, 4)), ("w2", (4, 8)), ("w3", (8, 4))]}
    x = randn(3, 4)
    y = F.linear(F.silu(F.linear(x, w["w1"])) * F.linear(x, w["w3"]), w["w2"])
    return {"in.x": x, "out.y": y} | {f"param.{name}.weight": value for name, value in w.items()}


def attention_params(module, path):
    """PyTorch holds the three projections of its attention as one."""
    weights, biases = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    out = {}
    for name, weight, bias in zip(["W_q", "W_k", "W_v"], weights, biases):
        out |= {f"param.{path}{name}.weight": weight, f"param.{path}{name}.bias": bias}
    projection = {"out_proj.weight": f"{path}W_o.weight", "out_proj.bias": f"{path}W_o.bias"}
    return out | params(module, projection)


def drawn(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module.eval()


@case
def multi_head():
    layer = drawn(nn.MultiheadAttention(8, 2, batch_first=True))
    query, key, value = randn(2, 4, 8), randn(2, 6, 8), randn(2, 6, 8)
    keep = some(4, 6)
    y = layer(query, key, value, attn_mask=~keep, need_weights=False)[0]
    tensors = {"in.query": query, "in.key": key, "in.value": value, "in.keep": keep, "out.y": y}
    return tensors | attention_params(layer, "")


LAYER = {
    "linear1": "feed_forward.linear1",
    "linear2": "feed_forward.linear2",
    "norm1": "norm1",
    "norm2": "norm2",
    "norm3": "norm3",
}


def layer_params(module):
    state = module.state_dict()
    names = {n: f"{LAYER[n.split('.')[0]]}.{n.split('.')[1]}" for n in state if n.split(".")[0] in LAYER}
    out = params(module, names) | attention_params(module.self_attn, "self_attention.")
    if hasattr(module, "multihead_attn"):
        out |= attention_params(module.multihead_attn, "cross_attention.")
    return out


def encoder_layer(norm_first):
    layer = drawn(nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True, norm_first=norm_first))
    x, keep = randn(2, 5, 8), some(5, 5)
    y = layer(x, src_mask=~keep)
    return {"in.x": x, "in.keep": keep, "out.y": y} | layer_params(layer)


def decoder_layer(norm_first):
    layer = drawn(nn.TransformerDecoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=norm_first))
    x, memory, keep, memory_keep = randn(2, 5, 8), randn(2, 6, 8), some(5, 5), some(5, 6)
    y = layer(x, memory, tgt_mask=~keep, memory_mask=~memory_keep)
    tensors = {"in.x": x, "in.memory": memory, "in.keep": keep, "in.memory_keep": memory_keep, "out.y": y}
    return tensors | layer_params(layer)


@case
def post_norm_encoder_layer():
    return encoder_layer(False)


@case
def pre_norm_encoder_layer():
    return encoder_layer(True)


@case
def post_norm_decoder_layer():
    return decoder_layer(False)


@case
def pre_norm_decoder_layer():
    return decoder_layer(True)


@case
def additive_attention():
    w_q, w_k, v = randn(5, 4), randn(5, 3), randn(1, 5)
    query, key, value, keep = randn(2, 4, 4), randn(2, 6, 3), randn(2, 6, 7), some(4, 6)
    hidden = torch.tanh((query @ w_q.T)[:, :, None] + (key @ w_k.T)[:, None])
    weights = torch.softmax((hidden @ v[0]).masked_fill(~keep, -math.inf), -1)
    tensors = {"in.query": query, "in.key": key, "in.value": value, "in.keep": keep}
    results = {"out.context": weights @ value, "out.weights": weights}
    return tensors | results | {"param.W_Q.weight": w_q, "param.W_K.weight": w_k, "param.v.weight": v}


@case
def attention_pool():
    k, v, query = nn.Linear(4, 4), nn.Linear(4, 4), randn(1, 1, 4)
    x = randn(2, 6, 4)
    weights = torch.softmax(query @ k(x).transpose(-1, -2) / 2, -1)
    out = {"in.x": x, "param.query": query, "out.pooled": (weights @ v(x))[:, 0], "out.weights": weights}
    for layer, path in [(k, "W_K"), (v, "W_V")]:
        out |= params(layer, {"weight": f"{path}.weight", "bias": f"{path}.bias"})
    return out


@case
def mean_pool():
    x, keep = randn(2, 6, 4), some(2, 6)
    return {"in.x": x, "in.keep": keep, "out.y": torch.stack([x[b][keep[b]].mean(0) for b in range(2)])}


@case
def max_pool():
    x, keep = randn(2, 6, 4), some(2, 6)
    return {"in.x": x, "in.keep": keep, "out.y": torch.stack([x[b][keep[b]].amax(0) for b in range(2)])}


@case
def first_token():
    x = randn(2, 6, 4)
    return {"in.x": x, "out.y": x[:, 0]}


# ---- along axes, by NumPy


def drawn(name, *shape):
    return np.random.default_rng(sum(name.encode())).standard_normal(shape).astype(np.float32)


@case
def softplus():
    x = 10 * drawn("softplus", 3, 7)
    return {"in.x": x, "out.y": np.logaddexp(0, x.astype(np.float64))}


@case
def log_sigmoid():
    x = 10 * drawn("log_sigmoid", 3, 7)
    return {"in.x": x, "out.y": -np.logaddexp(0, -x.astype(np.float64))}


@case
def clamp():
    x = 3 * drawn("clamp", 3, 7)
    return {"in.x": x, "out.y": np.clip(x, -1, 2.5)}


@case
def var():
    x = drawn("var", 3, 7) + 5
    exact = x.astype(np.float64)
    biased, unbiased = exact.var(-1), exact.var(-1, ddof=1)
    return {"in.x": x, "out.biased": biased, "out.unbiased": unbiased, "out.first": exact.var(0, ddof=1)}


@case
def top_k():
    x = drawn("top_k", 4, 7)
    x[1, 2] = x[1, 5]
    x[2, :] = 0.5
    x[3, 1:] = -np.inf
    positions = np.argsort(-x, axis=-1, kind="stable")[:, :3]
    return {"in.x": x, "out.values": np.take_along_axis(x, positions, -1), "out.positions": positions}


@case
def roll():
    x = drawn("roll", 4, 7)
    return {"in.x": x, "out.on": np.roll(x, 2, -1), "out.back": np.roll(x, -3, -1), "out.rows": np.roll(x, 1, 0)}


@case
def flip():
    x = drawn("flip", 3, 7)
    return {"in.x": x, "out.y": np.flip(x, -1)}


@case
def one_hot():
    ids = np.array([[0, 4, 2], [2, 2, 3]])
    return {"in.ids": ids, "out.y": np.eye(5)[ids]}


def windows_of(x, width):
    """As Swin's window_partition, the windows of an image side by side."""
    batch, high, wide, channels = x.shape
    x = x.reshape(batch, high // width, width, wide // width, width, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, -1, width * width, channels)


@case
def split_windows():
    x = drawn("split_windows", 2, 6, 4, 3)
    return {"in.x": x, "out.y": windows_of(x, 2)}


@case
def merge_windows():
    x = drawn("merge_windows", 2, 6, 4, 3)
    return {"in.x": windows_of(x, 2), "out.y": x}


@case
def conv1d():
    x, weight, bias = drawn("x", 2, 3, 8), drawn("weight", 4, 3, 3), drawn("bias", 4)
    bare = drawn("bare", 4, 3, 3)
    before = np.pad(x, ((0, 0), (0, 0), (2, 0)))
    of = lambda x, w: np.stack([np.einsum("bck,ock->bo", x[:, :, t : t + 3], w) for t in range(x.shape[2] - 2)], 2)
    arrays = {"in.x": x, "param.full.weight": weight, "param.full.bias": bias, "param.bare.weight": bare}
    return arrays | {"out.y": of(x, weight) + bias[:, None], "out.causal": of(before, bare)}


# ---- losses and optimisers


@case
def total():
    x = randn(5, 7)
    one = randn(())
    return {"in.x": x, "in.one": one, "out.y": x.sum(), "out.z": one}


@case
def mean_squared_error():
    x, y = randn(2, 3, 5), randn(2, 3, 5)
    return {"in.x": x, "in.y": y, "out.loss": F.mse_loss(x, y)}


@case
def cross_entropy():
    logits, rows = (3 * randn(3, 4, 7)).requires_grad_(), randn(3, 7)
    labels, classes = torch.randint(0, 7, (3, 4)), torch.tensor([0, 5, 2])
    labels[1, 2] = -100
    loss = F.cross_entropy(logits.reshape(-1, 7), labels.reshape(-1))
    loss.backward()
    without = F.cross_entropy(rows, classes, ignore_index=0)
    out = {"out.loss": loss, "out.without_zero": without, "out.of_rows": F.cross_entropy(rows, classes)}
    arrays = {"in.logits": logits, "in.labels": labels, "in.rows": rows, "in.classes": classes}
    return arrays | out | {"out.d": logits.grad}


@case
def element():
    x, row, at = randn(2, 3, 5), randn(5), torch.randint(0, 5, (2, 3))
    y = torch.gather(x, 2, at[..., None])[..., 0]
    return {"in.x": x, "in.at": at, "in.row": row, "in.one": np.array(3), "out.y": y, "out.z": row[3]}


def under(path, side, states):
    return {f"{side}.{path}.{name}": value for name, value in states.items()}


def steps(cases, p, gradients, rate):
    """What optimisers of PyTorch do from one parameter, in a step that follows others, with their states before and after."""
    arrays = {"in.d": gradients[-1], "in.rate": np.float32(rate), "in.p": p}
    for path, out, optimiser, names, settings in cases:
        # The steps before move the states alone.
        held = p.clone().requires_grad_()
        made = optimiser([held], lr=rate, **settings)
        for gradient in gradients:
            held.data.copy_(p)
            held.grad = gradient.clone()
            if gradient is gradients[-1] and names:
                before = {n: torch.as_tensor(made.state[held][own]).clone() for n, own in names.items()}
                arrays |= under(path, "in", before)
            made.step()
        arrays[f"out.{out}"] = held.detach().clone()
        arrays |= under(path, "out", {n: torch.as_tensor(made.state[held][own]) for n, own in names.items()})
    return arrays


@case
def sgd():
    velocity = {"velocity": "momentum_buffer"}
    nesterov = {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1}
    cases = [
        ("plain", "plain", torch.optim.SGD, {}, {"weight_decay": 0.1}),
        ("heavy", "heavy", torch.optim.SGD, velocity, {"momentum": 0.9}),
        ("ahead", "ahead", torch.optim.SGD, velocity, nesterov),
    ]
    return steps(cases, randn(3, 5), [randn(3, 5) for _ in range(3)], 0.05)


@case
def adamw():
    names = {"mean": "exp_avg", "square": "exp_avg_sq", "steps": "step"}
    other = {"betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}
    cases = [("usual", "q", torch.optim.AdamW, names, {}), ("other", "r", torch.optim.AdamW, names, other)]
    return steps(cases, randn(3, 5), [randn(3, 5) for _ in range(3)], 0.05)


@case
def lion():
    p, d, mean = randn(3, 5), randn(3, 5), randn(3, 5)
    d[0, 0], mean[0, 0] = 0, 0
    q = p * (1 - 0.05 * 0.1) - 0.05 * torch.sign(0.8 * mean + 0.2 * d)
    arrays = {"in.p": p, "in.d": d, "in.rate": np.float32(0.05), "in.opt.mean": mean}
    return arrays | {"out.q": q, "out.opt.mean": 0.99 * mean + 0.01 * d}


def near_one(x, coefficients=(3.4445, -4.775, 2.0315), rounds=5, eps=1e-7):
    """What Muon makes of a direction, in f64: PyTorch's own function works in bfloat16."""
    a, b, c = coefficients
    y = x.double() if x.shape[0] <= x.shape[1] else x.double().T
    y = y / max(y.norm(), eps)
    for _ in range(rounds):
        square = y @ y.T
        y = a * y + (b * square + c * square @ square) @ y
    return (y if x.shape[0] <= x.shape[1] else y.T).to(x.dtype)


@case
def muon():
    names = {"velocity": "momentum_buffer"}
    arrays = {}
    _muon._zeropower_via_newtonschulz = near_one
    for name, out, shape, settings in [
        ("wide", "w", (4, 6), {"weight_decay": 0.1}),
        ("tall", "t", (6, 4), {"weight_decay": 0.0, "nesterov": False}),
    ]:
        p, gradients = randn(*shape), [randn(*shape) for _ in range(3)]
        case = [(name, out, torch.optim.Muon, names, settings)]
        found = steps(case, p, gradients, 0.05)
        arrays |= {f"in.{name}": found.pop("in.p"), f"in.d{name[0]}": found.pop("in.d")} | found
    return arrays


@case
def newton_schulz():
    wide, tall = randn(4, 6), randn(6, 4)
    return {"in.wide": wide, "in.tall": tall, "out.w": near_one(wide), "out.t": near_one(tall, rounds=2)}


@case
def clip_norm():
    x, y = randn(3), randn(3, 4)
    w, v = torch.zeros(3, requires_grad=True), torch.zeros(3, 4, requires_grad=True)
    w.grad, v.grad = x.clone(), y.clone()
    far = torch.nn.utils.clip_grad_norm_([w, v], 1.5)
    out = {"out.far": far, "out.grad.w": w.grad, "out.grad.v": v.grad}
    return {"in.x": x, "in.y": y, "param.w": w, "param.v": v} | out


def factors(step, **outputs):
    return {"in.step": step} | {f"out.{name}": np.array(values, np.float32) for name, values in outputs.items()}


@case
def warm_up():
    step = np.arange(8)
    return factors(step, y=[min(1, (n + 1) / 5) for n in step])


@case
def linear_decay():
    step = np.arange(12)
    return factors(
        step,
        y=[1 - min(max(n - 3, 0) / 6, 1) for n in step],
        z=[1 - 0.75 * min(n / 8, 1) for n in step],
    )


@case
def cosine_decay():
    step = np.arange(12)
    cosine = lambda done: 0.5 * (1 + math.cos(math.pi * min(max(done, 0), 1)))
    return factors(
        step,
        y=[cosine((n - 3) / 6) for n in step],
        z=[0.25 + 0.75 * cosine(n / 8) for n in step],
    )


def array(value):
    value = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    value = value.astype(np.float32) if value.dtype == np.float64 else value
    return np.ascontiguousarray(value).reshape(value.shape)


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    for name, record in CASES.items():
        torch.manual_seed(sum(name.encode()))
        np.savez(HERE / f"{name}.npz", **{key: array(value) for key, value in record().items()})


if __name__ == "__main__":
    main()
