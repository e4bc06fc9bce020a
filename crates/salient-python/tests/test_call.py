"""Calls: which arrays are taken, where they are read and written, and what is refused."""

import threading
import time

import numpy as np
import pytest
import salient

from conftest import ATTEND, attention


def address(array):
    return array.__array_interface__["data"][0]


def test_a_call_gives_what_numpy_gives(attend, qkv):
    q, k, v = qkv
    np.testing.assert_allclose(attend(q, k, v), attention(q, k, v), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(attend(q=q, k=k, v=v), attend(q, k=k, v=v))


def test_one_compilation_serves_every_shape(attend, random):
    for t, s in [(1, 1), (3, 40), (40, 3), (1, 1)] + [(n, 5) for n in range(1, 40)]:
        q, k, v = (random.standard_normal((n, 8), np.float32) for n in (t, s, s))
        np.testing.assert_allclose(attend(q, k, v), attention(q, k, v), rtol=1e-4, atol=1e-5)


def test_results_are_written_where_the_caller_says(attend, qkv):
    out = np.full((5, 8), np.nan, np.float32)
    before = address(out)
    assert attend(*qkv, out=out) is out
    assert address(out) == before
    np.testing.assert_array_equal(out, attend(*qkv))


def test_inputs_are_read_where_they_lie(attend, qkv):
    assert attend._addresses(qkv) == [address(a) for a in qkv]
    q, k, v = qkv
    turned = (q[::-1], k.astype(">f4"), v)
    found = attend._addresses(turned)
    assert found[2] == address(v) and found[:2] != [address(a) for a in turned[:2]], "the others are copied"


def test_several_results_are_a_dictionary_in_order():
    both = salient.compile("model both(x: f32[T]) -> (up: f32[T], down: f32[T]) { return x + 1.0, x - 1.0 }")
    x = np.zeros(3, np.float32)
    results = both(x)
    assert list(results) == ["up", "down"] == list(both.outputs)
    np.testing.assert_array_equal(results["down"], [-1, -1, -1])
    out = {"down": np.empty(3, np.float32), "up": np.empty(3, np.float32)}
    assert both(x, out=out) is out
    np.testing.assert_array_equal(out["up"], [1, 1, 1])
    with pytest.raises(TypeError, match="dictionary"):
        both(x, out=np.empty(3, np.float32))
    with pytest.raises(salient.CallError, match="no memory for output `down`"):
        both(x, out={"up": np.empty(3, np.float32)})


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a[::-1].copy()[::-1],
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.astype(">f4"),
        lambda a: np.lib.stride_tricks.as_strided(a, a.shape, a.strides),
        lambda a: _unaligned(a),
        lambda a: memoryview(a) and a.tolist(),
    ],
)
def test_arrays_of_any_layout_are_right(attend, qkv, change):
    q, k, v = qkv
    np.testing.assert_array_equal(attend(change(q), change(k), v), attend(q, k, v))


def _unaligned(array):
    raw = np.empty(array.nbytes + 1, np.uint8)
    view = raw[1:].view(np.float32).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: np.zeros((5, 8)), "float64"),
        (lambda: np.zeros((5, 8), np.complex64), "complex64"),
        (lambda: np.zeros((5, 8), object), "object"),
        (lambda: np.ma.masked_array(np.zeros((5, 8), np.float32)), "masked"),
        (lambda: "text", "no array"),
        (lambda: None, "no array"),
    ],
)
def test_what_no_model_takes_is_refused_by_name(attend, qkv, wrong, message):
    _, k, v = qkv
    with pytest.raises(TypeError, match=rf"input `q`.*{message}"):
        attend(wrong(), k, v)


def test_arrays_that_do_not_fit_are_all_named(attend, qkv):
    q, k, v = qkv
    with pytest.raises(salient.CallError, match="`k`"):
        attend(q, k[:, :4], v)
    with pytest.raises(salient.CallError, match="missing|no input|`v`"):
        attend(q, k)
    with pytest.raises(salient.CallError, match="`w`"):
        attend(q, k, v, w=v)
    attend(q, k, v)
    with pytest.raises(salient.CallError, match="`w`"):
        attend(q, k, v, w=v)
    with pytest.raises(TypeError, match="twice"):
        attend(q, k, v, q=q)
    with pytest.raises(TypeError, match="3 inputs"):
        attend(q, k, v, v)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (lambda: np.empty((5, 7), np.float32), "shape"),
        (lambda: np.empty((5, 8), np.float64), "float64"),
        (lambda: np.empty((5, 8), np.int32), "i32"),
        (lambda: np.empty((8, 5), np.float32).T, "contiguous"),
        (lambda: np.empty((5, 8), np.float32)[::-1], "contiguous"),
        (lambda: np.empty((5, 8), ">f4"), "byte order"),
        (lambda: _read_only(), "only be read"),
        (lambda: [[0.0] * 8] * 5, "no array"),
    ],
)
def test_memory_that_cannot_be_written_to_is_refused(attend, qkv, out, message):
    with pytest.raises((salient.CallError, TypeError), match=rf"output `y`.*{message}"):
        attend(*qkv, out=out())


def _read_only():
    array = np.empty((5, 8), np.float32)
    array.flags.writeable = False
    return array


def test_results_in_the_memory_of_inputs_or_of_each_other_are_refused(attend, qkv):
    q, k, v = qkv
    with pytest.raises(salient.CallError, match="output `y` has memory in common with input `q`"):
        attend(q, k, v, out=q)
    whole = np.zeros((9, 8), np.float32)
    with pytest.raises(salient.CallError, match="in common with input `q`"):
        attend(whole[:5], k, v, out=whole[4:])
    both = salient.compile("model both(x: f32[T]) -> (up: f32[T], down: f32[T]) { return x + 1.0, x - 1.0 }")
    memory = np.zeros(4, np.float32)
    with pytest.raises(salient.CallError, match="in common with output `up`"):
        both(np.zeros(3, np.float32), out={"up": memory[:3], "down": memory[1:]})
    both(np.zeros(2, np.float32), out={"up": memory[:2], "down": memory[2:]})


def test_other_types_are_widened_or_checked():
    pick = salient.compile("""
        model pick(x: f32[N, D], at: i32[T], keep: bool[T]) -> (y: f32[T, D]) {
            let y[t, d] = if keep[t] then x[at[t], d] else 0.0
            return y
        }""")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    want = np.array([[4, 5], [0, 0]], np.float32)
    for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32):
        np.testing.assert_array_equal(pick(x, np.array([2, 1], kind), np.array([True, False])), want)
    np.testing.assert_array_equal(pick(x, [2, 1], [True, False]), want)
    with pytest.raises(salient.RunError, match="3"):
        pick(x, [3, 1], [True, False])
    with pytest.raises(salient.CallError, match="element 1 is no truth value"):
        pick(x, [2, 1], np.array([1, 7], np.uint8).view(np.bool_))
    with pytest.raises((salient.CallError, TypeError), match="`at`"):
        pick(x, np.array([2, 1], np.uint64), [True, False])


def test_halves_are_read_and_written():
    double = salient.compile("model double(x: f16[T]) -> (y: f16[T]) { return x + x }")
    x = np.array([1, 2.5], np.float16)
    result = double(x)
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, [2, 5])
    out = np.zeros(2, np.float16)
    double(x, out=out)
    np.testing.assert_array_equal(out, [2, 5])


def test_empty_and_scalar_arrays(attend):
    none = np.zeros((0, 8), np.float32)
    some = np.ones((2, 8), np.float32)
    assert attend(none, some, some).shape == (0, 8)
    scale = salient.compile("model scale(x: f32[T], by: f32[]) -> (y: f32[T]) { return x * by }")
    np.testing.assert_array_equal(scale(np.ones(2, np.float32), 3.0), [3, 3])
    np.testing.assert_array_equal(scale(np.ones(2, np.float32), np.float32(3)), [3, 3])


def test_what_is_wrong_with_a_source_is_shown_with_carets():
    with pytest.raises(salient.SourceError, match=r"\^") as caught:
        salient.compile("model m(x: f32[T]) -> (y: f32[T]) { return x + z }")
    assert "`z`" in str(caught.value)
    with pytest.raises(OSError):
        salient.compile("nowhere.attn")


# Long enough to be interfered with.
LONG = 700


def _long_arrays(random):
    return [random.standard_normal((LONG * 4, 64), np.float32) for _ in range(3)]


def test_an_array_cannot_be_resized_during_a_call(random):
    attend = salient.compile(ATTEND, threads=1)
    q, k, v = _long_arrays(random)
    want = attend(q, k, v)
    refused = []
    done = threading.Event()
    results = []

    def run():
        for _ in range(3):
            results.append(attend(q, k, v))
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.005)
    while not done.is_set():
        try:
            # Back to what it is, but through a new place in memory, if NumPy let it.
            q.resize((LONG * 8, 64), refcheck=False)
            q.resize((LONG * 4, 64), refcheck=False)
        except ValueError as error:
            refused.append(error)
    thread.join()
    assert refused, "no resize met a call"
    for result in results:
        assert result.shape == want.shape


def test_arrays_may_be_dropped_during_a_call(random):
    attend = salient.compile(ATTEND, threads=1)
    arrays = _long_arrays(random)
    want = attend(*arrays)
    results = []
    held = {"arrays": [a.copy() for a in arrays]}

    def run():
        results.append(attend(*held.pop("arrays")))

    thread = threading.Thread(target=run)
    thread.start()
    # What is freed is soon used by others.
    churn = [np.full_like(arrays[0], np.nan) for _ in range(8)]
    thread.join()
    assert churn and np.array_equal(results[0], want)
