"""Weights, states, reports, pickles and the command line."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import salient

from conftest import ATTEND, LINEAR, ROOT, TOTAL


@pytest.fixture
def parameters(random):
    return {"out.weight": random.standard_normal((4, 3), np.float32), "out.bias": np.ones(4, np.float32)}


def test_weights_come_from_a_mapping(parameters, random):
    model = salient.compile(LINEAR, weights=parameters)
    x = random.standard_normal((2, 3), np.float32)
    want = x @ parameters["out.weight"].T + 1
    np.testing.assert_allclose(model(x), want, rtol=1e-5)
    assert model.parameters == {"out.weight": "f32[4, D]", "out.bias": "f32[4]"}
    # What a mapping holds is copied.
    parameters["out.weight"][:] = 0
    np.testing.assert_allclose(model(x), want, rtol=1e-5)
    np.testing.assert_allclose(model.with_weights(parameters)(x), np.ones((2, 4)))


def test_names_are_mapped_by_a_prefix(parameters, random):
    x = random.standard_normal((2, 3), np.float32)
    named = {f"bert.{name}": array for name, array in parameters.items()}
    model = salient.compile(LINEAR, weights={**named, "bert.pooler": np.zeros(1)}, prefix="bert.")
    np.testing.assert_array_equal(model(x), salient.compile(LINEAR, weights=parameters)(x))


def test_weights_that_are_missing_are_named(parameters, random):
    x = random.standard_normal((2, 3), np.float32)
    del parameters["out.bias"]
    with pytest.raises(salient.CallError, match="out.bias"):
        salient.compile(LINEAR, weights=parameters)(x)
    drawn = salient.compile(LINEAR, weights=parameters, seed=1)
    np.testing.assert_array_equal(drawn(x), salient.compile(LINEAR, weights=parameters, seed=1)(x))
    parameters["out.bias"] = np.ones(5, np.float32)
    with pytest.raises(salient.CallError, match="out.bias"):
        salient.compile(LINEAR, weights=parameters)(x)


def test_weights_come_from_files(parameters, random, tmp_path):
    x = random.standard_normal((2, 3), np.float32)
    want = salient.compile(LINEAR, weights=parameters)(x)
    np.savez(tmp_path / "w.npz", **parameters)
    np.testing.assert_array_equal(salient.compile(LINEAR, weights=tmp_path / "w.npz")(x), want)
    _write_safetensors(tmp_path / "w.safetensors", parameters)
    model = salient.compile(LINEAR, weights=str(tmp_path / "w.safetensors"))
    np.testing.assert_array_equal(model(x), want)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(x), want)
    assert len(pickle.dumps(model)) < 2000, "a pickle holds the path"
    with pytest.raises(OSError, match="none.safetensors"):
        salient.compile(LINEAR, weights=tmp_path / "none.safetensors")


def _write_safetensors(path, arrays):
    import json
    import struct

    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_a_file_of_the_examples(random):
    model = salient.compile(ROOT / "examples" / "causal_self_attention.attn", seed=1)
    data = np.load(ROOT / "examples" / "data" / "causal_self_attention.npz")
    weights = {n[len("param."):]: data[n] for n in data.files if n.startswith("param.")}
    results = model.with_weights(weights)(data["in.x"])
    for name in results:
        np.testing.assert_allclose(results[name], data[f"out.{name}"], rtol=1e-4, atol=1e-5)


def test_steps_keep_states():
    total = salient.compile(TOTAL)
    x = lambda *values: np.array(values, np.float32)
    assert total.states == {}
    np.testing.assert_array_equal(total.step(x(1, 2)), [1, 3])
    np.testing.assert_array_equal(total.step(x=x(10)), [13])
    np.testing.assert_array_equal(total.states["before"], 13)
    np.testing.assert_array_equal(total(x(1)), [1], "a call keeps no states")
    first = total.step(x(0, 0))
    second = total.step(x(5, 0))
    np.testing.assert_array_equal(first, [13, 13], "a result is not written again by the next step")
    np.testing.assert_array_equal(second, [18, 18])
    with pytest.raises(salient.CallError):
        total.step(np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(total.step(x(1)), [19], "what failed left the states as they were")
    total.reset()
    np.testing.assert_array_equal(total.step(x(10)), [10])


def test_sizes_are_set_by_name(qkv):
    attend = salient.compile(ATTEND, T=5, S=9)
    assert attend.inputs == {"q": "f32[5, E]", "k": "f32[9, E]", "v": "f32[9, E]"}
    attend(*qkv)
    with pytest.raises(salient.CallError):
        attend(qkv[1], qkv[1], qkv[2])
    with pytest.raises(salient.SourceError, match="`X`"):
        salient.compile(ATTEND, X=5)


def test_a_model_of_several_is_named():
    source = "model a(x: f32[T]) -> (y: f32[T]) { return x }\nmodel b(x: f32[T]) -> (y: f32[T]) { return x + x }"
    assert salient.compile(source, "b").name == "b"
    with pytest.raises(salient.SourceError):
        salient.compile(source)


def test_what_is_made_of_a_model_is_told(attend):
    assert "fused.attend" in attend.ir("fused") and "fused.attend" not in attend.ir("graph")
    assert "over s" in attend.plan()
    assert "bytes" in attend.memory() and attend.memory(T=128, S=128, E=64) != attend.memory()
    assert attend.explain()
    assert attend.svg().startswith("<svg")
    with pytest.raises(ValueError, match="kernels"):
        attend.ir("nonsense")
    assert repr(attend) == "<salient.Model attend(q: f32[T, E], k: f32[S, E], v: f32[S, E]) -> y>"
    html = attend._repr_html_()
    assert html.count("<svg") == 2, "the plan and the mask"
    assert "fused program" in html and "certificate" in html


def test_masks_are_drawn_of_models_with_parameters(parameters):
    layers = """
        block layer(x: f32[B, T, D]) -> f32[B, T, D] {
            return x + multi_head[2](x, x, x, causal[T, T, offset = 0]())
        }
        model decoder(ids: i64[B, T]) -> (y: f32[B, T, 8]) {
            let x = embedding[11, 8](ids) as tokens
            for l in 0..2 {
                x = layer(x) as layers.{l}
            }
            return x
        }"""
    html = salient.compile(layers)._repr_html_()
    assert html.count("<svg") == 2, "the plan, and the one mask that both layers have"
    cached = layers.replace("multi_head[2](x, x, x, causal[T, T, offset = 0]())", "cached(x)")
    cached = """
        block cached(x: f32[B, T, D]) -> f32[B, T, D] {
            state keys: f32[B, S, D]
            keys = append[s](keys, linear[D](x) as key)
            return scaled_attention(x, keys, keys, causal[T, S + T, offset = S]())
        }""" + cached
    assert salient.compile(cached)._repr_html_().count("<svg") == 2
    assert salient.compile(LINEAR)._repr_html_().count("<svg") == 1, "there is no attention"
    wide = layers.replace("11, 8", "4000000, 8")
    assert salient.compile(wide)._repr_html_().count("<svg") == 1, "too large to be run for a picture"


def test_a_model_is_pickled_with_its_weights(parameters, random):
    x = random.standard_normal((2, 3), np.float32)
    model = salient.compile(LINEAR, weights=parameters)
    text = pickle.dumps(model)
    again = pickle.loads(text)
    np.testing.assert_array_equal(again(x), model(x))
    # In another process, which has compiled nothing.
    program = "import pickle, sys, numpy as np; m = pickle.load(sys.stdin.buffer); print(m(np.ones((1, 3), np.float32)).sum())"
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, check=True)
    np.testing.assert_allclose(float(done.stdout), model(np.ones((1, 3), np.float32)).sum(), rtol=1e-5)


def _command(*arguments):
    return subprocess.run([sys.executable, "-m", "salient", *arguments], capture_output=True, text=True)


def test_the_command_line_is_the_binary():
    version = _command("--version")
    assert version.returncode == 0 and salient.__version__ in version.stdout
    example = str(ROOT / "examples" / "causal_self_attention.attn")
    data = str(ROOT / "examples" / "data" / "causal_self_attention.npz")
    assert _command("run", example, "--data", data, "--check").returncode == 0
    assert _command("nonsense").returncode == 2
    assert _command("check", "nowhere.attn").returncode == 2
