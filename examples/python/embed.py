"""Texts to vectors with all-MiniLM-L6-v2, and which of them are alike. `tools/fetch-models.sh` fetches the checkpoint."""

import pathlib

import salient.batch

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = ["A cat sits on the mat.", "A kitten rests on a rug.", "Stocks fell on Monday.", "Markets were down this week."]


def main():
    embedder = salient.batch.Embedder(
        ROOT / "examples" / "models" / "minilm.attn",
        ROOT / "weights" / "minilm.safetensors",
        ROOT / "weights" / "minilm.tokenizer.json",
    )
    vectors = embedder.embed(TEXTS)
    for text, row in zip(TEXTS, vectors @ vectors.T):
        print(" ".join(f"{cosine:5.2f}" for cosine in row), text)


if __name__ == "__main__":
    main()
