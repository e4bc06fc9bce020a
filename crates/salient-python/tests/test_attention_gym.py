"""Our programs for the functions that attention-gym publishes give what FlexAttention gives with those."""

import sys

import numpy as np
import pytest
import salient

from conftest import ROOT

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("attn_gym", reason="attn_gym is not installed")
GYM = ROOT / "bench" / "peers" / "gym"
sys.path.insert(0, str(GYM))
import torch.nn.attention.flex_attention  # noqa: E402

import cases  # noqa: E402

SHAPE, LENGTH = (2, 4, 16), 256
CASES = cases.cases(SHAPE, LENGTH)


@pytest.fixture
def eager(monkeypatch):
    """FlexAttention as it is written, without tracing it first, where torch has a switch for that."""
    module = torch.nn.attention.flex_attention
    monkeypatch.setattr(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, raising=False)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", CASES)
def test_a_function_of_the_gym(name, eager):
    case = CASES[name]
    arrays = {**case.qkv(SHAPE), **case.arrays}
    ours = salient.compile(case.program, **case.sizes)
    # In float64, since the gym's way to an activation takes a large sum away from another.
    exact = {**arrays, **{name: arrays[name].astype(np.float64) for name in "qkv"}}
    with torch.inference_mode():
        want = cases.attend(case, exact)().numpy()
    found = ours(**arrays).reshape(want.shape)  # which may have the queries in tiles
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5 * max(1, np.abs(want).max()))
    assert "is fused." in ours.explain(), "the attention did not fuse"
    if case.mask is not None:
        share = cases.seen(case, SHAPE).mean()
        assert 0.05 < share < 0.8, f"a mask that shows {share:.0%} tells little"


def test_every_program_has_a_case():
    programs = {path for folder in ("masks", "mods") for path in (GYM / folder).glob("*.attn")}
    assert programs == {case.program for case in CASES.values()}


# What attention-gym publishes and is no mask or change of scores: what makes their tables and layouts, and what is around them.
HELPERS = {
    "build_tree_ancestor_matrix",
    "shortest_path_distances",
    "shortest_path_edge_types",
    "undo_softmax",
}


def test_every_function_of_the_gym_has_a_case():
    """A mask or change of scores that a newer attention-gym brings is noticed."""
    import ast
    import inspect

    from attn_gym import masks, mods

    published = {
        name
        for module in (masks, mods)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and not name.startswith("_") and "vsa" not in name and name not in HELPERS
    }
    text = (GYM / "cases.py").read_text()
    used = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    assert published - used == set()
