"""GPT-2's geometry with random weights: logits of Salient against those of transformers.

    python gpt2.py SALIENT_BINARY [TOKENS]

Writes weights and inputs to a temporary folder, runs the program of examples/models, and fails if logits are off by more
than 1e-4 of the greatest."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]


def main():
    binary, tokens = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 128
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


if __name__ == "__main__":
    main()
