"""The score and mask functions that attention-gym publishes, and beside each our program.

A case is made for a number of positions that is the square of a power of two, at least 16². It names our program and its sizes,
makes the arrays, and calls attention-gym for the same: `crates/salient-python/tests/test_attention_gym.py` compares the numbers,
`bench/peers/gym.py` the times.
"""

import dataclasses
import math
import pathlib
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Case:
    """One function of attention-gym; our program's file and model have its name.

    `sizes` are settings of our program; `arrays` are its inputs beside queries, keys and values. `mask` and `score` make
    attention-gym's functions. `blocks` makes the block mask that attention-gym itself offers for this mask, if it does, and `finish`
    the result out of what FlexAttention gives with its log-sum-exp, if that is not the result. `written` is the same as a function of
    scores and values, where `score` is none of whole arrays.
    """

    name: str
    sizes: Dict[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    mask: Optional[Callable[[], Any]] = None
    score: Optional[Callable[[], Any]] = None
    blocks: Optional[Callable[[], Any]] = None
    finish: Optional[Callable[[Any, Any, Any], Any]] = None
    written: Optional[Callable[[Any, Any], Any]] = None
    queries: int = 0
    keys: int = 0

    @property
    def program(self) -> pathlib.Path:
        return FOLDER / ("mods" if self.mask is None else "masks") / f"{self.name}.attn"

    def qkv(self, shape: Tuple[int, int, int]) -> Dict[str, np.ndarray]:
        """Random queries, keys and values for (batch, heads, width)."""
        batch, heads, width = shape
        random = np.random.default_rng(3)
        lengths = {"q": self.queries, "k": self.keys, "v": self.keys}
        return {n: random.standard_normal((batch, heads, t, width), np.float32) for n, t in lengths.items()}


def cases(shape: Tuple[int, int, int], length: int) -> Dict[str, Case]:
    """All cases by name, for (batch, heads, width) and a length."""
    side = math.isqrt(length)
    if side < 16 or side * side != length or side & (side - 1):
        raise ValueError(f"{length} positions are not the square of a power of two from 16 on")
    made = [*_plain(length), *_documents(length), *_trees(length), *_pictures(side), *_videos(shape, length), *_scores(shape, length)]
    for case in made:
        case.queries = case.queries or length
        case.keys = case.keys or length
    return {case.name: case for case in made}


def _plain(length):
    """Masks that positions alone decide."""
    from attn_gym import masks

    far, near = length // 4, length // 8
    seen = np.zeros(length, np.bool_)
    seen[[0, 1, length // 2]] = True
    yield Case("causal_mask", mask=lambda: masks.causal_mask)
    yield Case("sliding_window", {"W": far}, mask=lambda: masks.generate_sliding_window(far))
    yield Case("prefix_lm", {"P": far}, mask=lambda: masks.generate_prefix_lm_mask(far))
    yield Case("dilated_sliding_window", {"W": far, "D": 4}, mask=lambda: masks.generate_dilated_sliding_window(far, 4))
    yield Case(
        "global_sliding_window",
        {"W": near},
        {"is_global": seen},
        mask=lambda: masks.generate_global_sliding_window(near, _tensor(seen)),
    )
    yield Case("batchify", {"N": near}, mask=lambda: masks.batchify_mask_mod(masks.causal_mask, near))
    half, block = length // 2, length // 32
    yield Case("block_diffusion", {"N": block}, mask=lambda: masks.generate_block_diffusion_mask(half, block))


def _documents(length):
    """Several texts in one sequence; which position belongs to which is data."""
    from attn_gym import masks

    ends = np.sort(np.random.default_rng(4).choice(np.arange(1, length), 5, replace=False))
    offsets = np.concatenate([[0], ends, [length]]).astype(np.int32)
    document = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    # Two prefixes, the first of which two documents continue.
    prefix = np.array([0, 0, 0, 3, 3, 5], np.int32)
    yield Case(
        "document_mask",
        {},
        {"document": document},
        mask=lambda: masks.generate_doc_mask_mod(masks.causal_mask, _tensor(offsets)),
    )
    packed = {"document": document, "offsets": offsets}
    yield Case("packed_documents", {}, packed, mask=lambda: masks.generate_packed_causal_doc_mask_mod(_tensor(offsets)))
    yield Case(
        "shared_prefix",
        {},
        {**packed, "prefix": prefix},
        mask=lambda: masks.generate_shared_prefix_mask_mod(_tensor(offsets), _tensor(prefix)),
    )
    # Four images, each of which counts from where it stands to shortly before the next.
    image, part = length // 8, length // 4
    begin = np.arange(4) * part + part // 4
    intervals = np.stack([begin, begin + part - part // 8], 1).astype(np.int32)
    yield Case(
        "flamingo",
        {"L": image},
        {"intervals": intervals},
        mask=lambda: masks.generate_vision_cross_attention_mask_mod(_tensor(intervals), image),
        keys=4 * image,
    )


def _trees(length):
    """Keys that came before, and behind them those of the queries themselves."""
    from attn_gym import masks

    nodes, half, block = length // 4, length // 2, length // 16
    random = np.random.default_rng(5)
    parents = [-1, *(int(random.integers(0, n)) for n in range(1, nodes))]
    ancestor = masks.build_tree_ancestor_matrix(parents, "cpu")
    yield Case(
        "jetspec_tree",
        {"P": length - nodes},
        {"ancestor": ancestor.numpy()},
        mask=lambda: masks.generate_jetspec_tree_causal_mask_mod(length - nodes, ancestor),
        queries=nodes,
    )
    yield Case(
        "jetspec_training",
        {"P": half, "N": block},
        mask=lambda: masks.generate_jetspec_training_mask_mod(half, block),
        queries=half,
    )


def _pictures(side):
    """Positions of a square picture, which sees its neighbourhood."""
    from attn_gym import masks

    size, tile = 7, side // 4
    sizes = {"W": side, "G": side, "R": size // 2}
    yield Case("natten", sizes, mask=lambda: masks.generate_natten(side, side, size, size))
    yield Case(
        "tiled_natten", {**sizes, "D": tile}, mask=lambda: masks.generate_tiled_natten(side, side, size, size, tile, tile)
    )
    yield Case("morton_natten", sizes, mask=lambda: masks.generate_morton_natten(side, side, size, size))
    # 4 × 4 tiles of a picture that leaves a quarter to a text.
    high, wide = side * 3 // 16, side // 4
    yield Case(
        "sta_2d",
        {"W": 4, "G": 4, "R": 1, "D": high * wide},
        mask=lambda: masks.generate_sta_mask_mod_2d(
            (4 * high, 4 * wide), (3 * high, 3 * wide), (high, wide), text_seq_len=side * side // 4
        ),
    )


def _videos(shape, length):
    """Positions of a video."""
    from attn_gym import masks

    batch, heads, _ = shape
    # 4 × 4 × 4 tiles of a video that leaves a quarter to a text.
    wide = math.isqrt(length) // 16
    tile, video, seen = (3, wide, wide), (12, 4 * wide, 4 * wide), (9, 3 * wide, 3 * wide)
    yield Case(
        "sta_3d",
        {"F": 4, "G": 4, "W": 4, "R": 1, "D": 3 * wide * wide},
        mask=lambda: masks.generate_sta_mask_mod_3d(video, seen, tile, text_seq_len=length // 4),
    )
    frames, prompt = 8, length // 16
    place, step = (length - prompt) // frames, length // 8
    told = dict(prompt_length=prompt, num_frames=frames, token_per_frame=place, width=2)
    yield Case(
        "svg_spatial",
        {"P": prompt, "W": 2 * place // step * step},
        mask=lambda: masks.generate_spatial_head_mask_mod(**told, round_width=step),
    )
    yield Case(
        "svg_temporal",
        {"P": prompt, "N": place, "W": 2 * place // frames},
        mask=lambda: masks.generate_temporal_head_mask_mod(**told),
    )
    tiles = 16
    random = np.random.default_rng(6)
    chosen = np.argsort(random.random((batch, heads, tiles, tiles)), -1)[..., :4].astype(np.int32)
    yield Case(
        "vsa",
        {"D": length // tiles},
        {"chosen": chosen},
        mask=lambda: masks.generate_vsa_mask_mod(_tensor(chosen), length // tiles),
        blocks=lambda: masks.create_vsa_block_mask(_tensor(chosen), length // tiles, tiles),
    )


def _scores(shape, length):
    """What changes scores."""
    from attn_gym import mods

    batch, heads, _ = shape
    random = np.random.default_rng(7)
    normal = lambda *of: random.standard_normal(of, np.float32)  # noqa: E731
    yield Case("softcapping", {"cap": 30.0}, score=lambda: mods.generate_tanh_softcap(30))
    yield Case("alibi_bias", score=lambda: mods.generate_alibi_bias(heads))
    # Graphs in which every node has a few neighbours; paths are followed for three edges.
    most, kinds, steps = 8, 5, 3
    edges = random.random((batch, length, length)) < 2.0 / length
    adjacent = _tensor(edges | edges.transpose(0, 2, 1))
    distance = mods.shortest_path_distances(adjacent, most)
    table = normal(heads, most + 2)
    yield Case(
        "graphormer_spatial",
        {},
        {"bias": table, "distance": distance.numpy()},
        score=lambda: mods.generate_graphormer_spatial_bias(_tensor(table), distance),
    )
    types = _tensor(random.integers(0, kinds, (batch, length, length)).astype(np.int32))
    path, hops = mods.shortest_path_edge_types(adjacent, types, steps)
    weights = normal(heads, steps, kinds)
    yield Case(
        "graphormer_edge",
        {"L": steps, "C": kinds},
        {"bias": weights, "kind": path.numpy(), "length": hops.numpy()},
        score=lambda: mods.generate_graphormer_edge_bias(_tensor(weights), path, hops),
    )
    rotated = {"rotated_q": normal(batch, heads, length, 16), "rotated_k": normal(batch, 1, length, 16)}
    rotated_q, rotated_k = map(_tensor, rotated.values())
    yield Case(
        "latent_attention",
        {"scale": 0.1},
        rotated,
        score=lambda: mods.generate_mla_rope_score_mod(rotated_q, rotated_k, heads, 0.1),
        written=lambda s, v: (s + 0.1 * rotated_q @ rotated_k.mT).softmax(-1) @ v,
    )
    yield Case("sandwich", {"D": 128}, score=lambda: mods.generate_sandwich_bias(heads, length, 128))
    yield Case("activation", score=mods.generate_activation_score_mod, finish=_undone, written=_activated)


def _undone(y, logsumexp, v):
    from attn_gym import mods

    return mods.undo_softmax(y, logsumexp, v.sum(-2, keepdim=True))


def _activated(scores, v):
    import torch

    return torch.nn.functional.gelu(scores) @ v


def _tensor(array):
    import torch

    return torch.from_numpy(array)


def attend(case: Case, arrays: Dict[str, np.ndarray], compiled: bool = False, block: int = 128) -> Callable[[], Any]:
    """FlexAttention with attention-gym's functions, as a call without arguments. Block masks, of that size, are made here."""
    import torch
    from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

    torch._dynamo.reset()
    q, k, v = (_tensor(arrays[name]) for name in "qkv")
    function = torch.compile(flex_attention) if compiled else flex_attention
    named = {"score_mod": case.score and case.score()}
    if case.blocks is not None and compiled:
        named["block_mask"] = case.blocks()
    elif case.mask is not None:
        # Heads and batches have masks of their own where data say so.
        of = q.shape[:2] if any(a.shape[:2] == q.shape[:2] for a in case.arrays.values()) else (None, None)
        extents = (*of, q.shape[2], k.shape[2])
        named["block_mask"] = create_block_mask(case.mask(), *extents, device="cpu", BLOCK_SIZE=block)
    if case.finish is None:
        return lambda: function(q, k, v, **named)

    def finished():
        y, more = function(q, k, v, return_aux=AuxRequest(lse=True), **named)
        return case.finish(y, more.lse, v)

    return finished


def written_out(case: Case, arrays: Dict[str, np.ndarray]) -> Callable[[], Any]:
    """The same as operations on whole arrays, compiled, the mask as an array."""
    import torch

    torch._dynamo.reset()
    q, k, v = (_tensor(arrays[name]) for name in "qkv")
    hidden = None if case.mask is None else ~_tensor(seen(case, (*q.shape[:2], q.shape[3])))
    score = case.score and case.score()
    b, h, i, j = (at.reshape([-1 if n == axis else 1 for n in range(4)]) for axis, at in enumerate(map(torch.arange, (*q.shape[:3], k.shape[2]))))

    @torch.compile
    def function(q, k, v):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if case.written is not None:
            return case.written(scores, v)
        if score is not None:
            scores = score(scores, b, h, i, j)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        # A query that sees nothing gives zeros.
        return scores.softmax(-1).nan_to_num() @ v

    return lambda: function(q, k, v)


def seen(case: Case, shape: Tuple[int, int, int]) -> np.ndarray:
    """Which queries see which keys, for each batch and head, as attention-gym's mask says."""
    from torch.nn.attention.flex_attention import create_mask

    batch, heads, _ = shape
    if case.mask is None:
        return np.ones((batch, heads, case.queries, case.keys), np.bool_)
    return create_mask(case.mask(), batch, heads, case.queries, case.keys, device="cpu").numpy()
