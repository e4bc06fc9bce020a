"""The scripts and notebooks of `examples/python` run, and say what they should."""

import json
import re
import subprocess
import sys

import pytest

from conftest import ROOT

FOLDER = ROOT / "examples" / "python"
WEIGHTS = ROOT / "weights"


def needs(*names):
    """Skips a test where a checkpoint is missing."""
    missing = [name for name in names if not (WEIGHTS / name).exists()]
    return pytest.mark.skipif(bool(missing), reason=f"not there: {', '.join(missing)}; tools/fetch-models.sh fetches it")


MINILM = needs("minilm.safetensors", "minilm.tokenizer.json")


def run(script, *arguments, within=None):
    command = [sys.executable, "-W", "ignore", str(FOLDER / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=within)
    assert done.returncode == 0, done.stderr
    return done.stdout


@MINILM
def test_embed():
    lines = run("embed.py").splitlines()
    cosines = [[float(word) for word in line.split()[:4]] for line in lines]
    assert cosines[0][1] > 0.5 > cosines[0][2], "two sentences about cats are nearer than one about stocks"


@MINILM
def test_heat_maps(tmp_path):
    paths = run("heat_maps.py", tmp_path, "Two words").splitlines()
    assert len(paths) == 6, "one for each layer"
    assert all(open(path).read().startswith("<svg") for path in paths)


@needs("SmolLM2-135M-Instruct.Q4_1.gguf")
def test_generate():
    assert run("generate.py", "The capital of France is").startswith("The capital of France is Paris")


def test_gpt2(tmp_path):
    """By weights that are drawn at random."""
    text = run("gpt2.py", "--weights", tmp_path, "--tokens", 5, "ab")
    assert "at random" in text and re.search(r"^ab( \d+){5}$", text, re.M)


def test_variants():
    text = run("variants.py")
    assert "fused.attend" in text
    if "torch is not installed" not in text:
        assert float(text.split("FlexAttention:")[1]) < 1e-4


def test_train():
    pytest.importorskip("torch", reason="torch is not installed")
    losses = {name: float(loss) for name, loss in re.findall(r"^(.*): loss (.*)$", run("train.py"), re.M)}
    assert losses["four before"] < losses["itself alone"] / 2, "who sees the key learns the task"
    assert len(losses) == 3


NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook(path, monkeypatch):
    """Its cells run one after the other, and what is stored of them is what was shown."""
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    if "weights" in text and not (WEIGHTS / "minilm.safetensors").exists():
        pytest.skip("the checkpoint is not there: tools/fetch-models.sh fetches it")
    monkeypatch.chdir(FOLDER)
    kept = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), str(path), "exec"), kept)
    assert any(cell["outputs"] for cell in cells), "it was never run"
    faults = [output for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]
    assert not faults
    assert path.stat().st_size < 150_000, "outputs are small"
