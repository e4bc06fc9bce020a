"""GPT-2 continues a text, a token after the other, from a checkpoint of Hugging Face.

    python examples/python/gpt2.py [--weights FOLDER] [TEXT]

The folder holds `model.safetensors` and `tokenizer.json` of openai-community/gpt2, which are not among what `tools/fetch-models.sh`
fetches. Without them the weights are drawn at random, for a smaller model: it says nothing that makes sense, as fast as the real one
would for its size. The program keeps keys and values in states: each step takes the tokens that are new.
"""

import argparse
import pathlib
import time

import numpy as np
import salient

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "models" / "gpt2.attn"


def continued(model, ids, count):
    """The most likely tokens that follow."""
    model.reset()
    new = list(ids)
    for _ in range(count):
        logits = model.step(ids=np.array([new], np.int64))
        new = [int(logits[0].argmax())]
        yield from new


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=pathlib.Path, default=ROOT / "weights" / "gpt2", help="the folder of the checkpoint")
    parser.add_argument("--tokens", type=int, default=24, help="how many follow")
    parser.add_argument("text", nargs="*", default=["Attention", "is"])
    args = parser.parse_args()
    text = " ".join(args.text)
    if (args.weights / "model.safetensors").exists():
        model = salient.compile(PROGRAM, "gpt2", weights=args.weights / "model.safetensors", prefix="transformer.")
        tokenizer = salient.Tokenizer(args.weights / "tokenizer.json")
        (ids,) = tokenizer.encode([text])
        decode = tokenizer.decode
    else:
        print(f"there is no checkpoint in {args.weights}: the weights of a small model are drawn at random")
        model = salient.compile(PROGRAM, "gpt2", seed=1, V=256, D=64, H=4, L=2)
        ids = text.encode()
        decode = lambda ids: " " + " ".join(map(str, ids))  # noqa: E731
    before = time.perf_counter()
    found = list(continued(model, ids, args.tokens))
    seconds = time.perf_counter() - before
    print(text + decode(found))
    print(f"{args.tokens / seconds:.0f} tokens a second")


if __name__ == "__main__":
    main()
