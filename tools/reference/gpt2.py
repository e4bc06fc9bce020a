"""GPT-2's geometry with random weights: logits of Salient against those of transformers.

    python gpt2.py compare SALIENT_BINARY [TOKENS]    fails if logits are off by more than 1e-4 of the greatest
    python gpt2.py record OUT.npz                     logits of what follows 24 ids, for tests/tests/geometry.rs

To compare, weights and inputs are written to a temporary folder. Those of the record are drawn by a rule that the test
follows too; of its logits every 16th is kept."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]


def drawn(stream, count):
    """Floats in [-1, 1): splitmix64, its upper 24 bits."""
    z = (np.uint64(stream << 32) + np.arange(1, count + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)


def record(out):
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    state = {n.removeprefix("transformer."): p for n, p in model.named_parameters()}
    with torch.no_grad():
        for stream, name in enumerate(sorted(state)):
            is_factor = "ln_" in name and name.endswith("weight")
            base, spread = (1.0, 0.5) if is_factor else (0.0, 0.0625)
            values = np.float32(base) + np.float32(spread) * drawn(stream, state[name].numel())
            state[name].copy_(torch.from_numpy(values).reshape(state[name].shape))
        ids = torch.arange(24)[None] * 2003 % 50257
        logits = model(ids).logits[0, -1]
    np.savez_compressed(out, ids=ids[0].numpy(), logits=logits[::16].numpy())
    print("logits of", logits.shape, "up to", logits.abs().max().item())


def compare(binary, tokens):
    torch.manual_seed(7)
    torch.set_num_threads(2)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.02)
        ids = torch.randint(0, 50257, (1, tokens))
        theirs = model(ids).logits.numpy()
    state = {n.removeprefix("transformer."): p.clone() for n, p in model.state_dict().items() if n != "lm_head.weight"}
    with tempfile.TemporaryDirectory() as folder:
        save_file(state, f"{folder}/gpt2.safetensors")
        np.savez(f"{folder}/in.npz", ids=ids.numpy())
        subprocess.run(
            [binary, "run", ROOT / "examples/models/gpt2.attn", "--model", "gpt2_scores", "--inputs", f"{folder}/in.npz",
             "--weights", f"{folder}/gpt2.safetensors", "--outputs", f"{folder}/out.npz"],
            check=True, stdout=subprocess.DEVNULL,
        )
        ours = np.load(f"{folder}/out.npz")["logits"]
    off = abs(ours - theirs).max() / abs(theirs).max()
    same = (ours.argmax(-1) == theirs.argmax(-1)).mean()
    print(f"{tokens} tokens: logits off by {off:.1e} of the greatest; the most probable token is the same at {same:.1%}")
    sys.exit(int(off > 1e-4))


def main():
    match sys.argv[1:]:
        case ["record", out]:
            record(out)
        case ["compare", binary, *tokens]:
            compare(binary, int(tokens[0]) if tokens else 128)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
