"""Text by SmolLM2-135M-Instruct from a GGUF file, a token after the other. `tools/fetch-models.sh` fetches the checkpoint.

The program keeps keys and values in states: each step takes the tokens that are new.
"""

import pathlib
import sys

import numpy as np
import salient

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKPOINT = ROOT / "weights" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def generate(model, ids, count):
    """The most likely tokens that follow, one at a time."""
    model.reset()
    new = ids
    for _ in range(count):
        logits = model.step(ids=np.array([new], np.int64))
        token = int(logits[0].argmax())
        new = [token]
        yield token


def main():
    prompt = " ".join(sys.argv[1:]) or "The capital of France is"
    model = salient.compile(ROOT / "examples" / "models" / "llama.attn", "llama", weights=CHECKPOINT)
    tokenizer = salient.Tokenizer(CHECKPOINT)
    (ids,) = tokenizer.encode([prompt])
    print(prompt + tokenizer.decode(list(generate(model, ids, 24))))


if __name__ == "__main__":
    main()
