"""What each layer of all-MiniLM-L6-v2 attends to in a sentence, as pictures. `tools/fetch-models.sh` fetches the checkpoint.

    python examples/python/heat_maps.py [FOLDER] [TEXT]

The command line draws them, which `python -m salient` is too; it makes a result of the weights inside of each fused attention.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def draw(text, folder):
    """A picture for each layer, and their paths."""
    weights = ROOT / "weights"
    command = [sys.executable, "-m", "salient", "view", ROOT / "examples" / "models" / "minilm.attn"]
    command += ["--weights", weights / "minilm.safetensors", "--tokenizer", weights / "minilm.tokenizer.json"]
    subprocess.run([*map(str, command), "--text", text, "--output", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.glob("*.svg"))


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "heat_maps")
    folder.mkdir(parents=True, exist_ok=True)
    text = " ".join(sys.argv[2:]) or "The animal did not cross the street because it was too tired."
    for path in draw(text, folder):
        print(path)


if __name__ == "__main__":
    main()
