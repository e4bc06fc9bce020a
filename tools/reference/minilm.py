"""What transformers makes of sentences with all-MiniLM-L6-v2.

    python minilm.py sentences OUT.txt                          writes 200 sentences of many kinds
    python minilm.py record WEIGHTS_FOLDER SENTENCES OUT.npz    ids and embeddings of them, the latter in f16
    python minilm.py compare WEIGHTS_FOLDER SENTENCES OUR.npy   the least cosine between its embeddings and ours

Each sentence is embedded by itself, without padding: mean of the last hidden values, scaled to length one."""

import sys

import numpy as np

STARTS = [
    "The quick brown fox jumps over the lazy dog.",
    "How do I reset my password?",
    "E = mc^2, said the physicist, and left the room.",
    "naïve café façade — coöperate, résumé, Zürich, Ærøskøbing",
    "東京は日本の首都です。",
    "Москва слезам не верит.",
    "The patient was given 5 mg of warfarin at 08:30 and 2.5 mg at 20:30.",
    "fn main() { println!(\"{}\", (0..10).map(|x| x * x).sum::<u32>()); }",
    "LOL!!! that's sooo funny 😂😂 #monday @work",
    "Stocks fell 3.2% on Tuesday after the central bank raised rates by 25 basis points.",
    "To be, or not to be, that is the question.",
    "https://example.org/path?query=1&other=two#part",
    "a",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "The recipe asks for two eggs, a cup of flour, a pinch of salt and half a litre of milk.",
    "WARNING: DO NOT OPEN THIS DOOR WHILE THE MACHINE IS RUNNING",
    "مرحبا بالعالم",
    "She sold sea shells by the sea shore; the shells she sold were surely sea shells.",
    "Ich habe gestern drei Bücher über maschinelles Lernen gelesen.",
    "   spaces   between    words     and\ttabs  ",
]
ENDS = [
    "",
    "Nobody knew what to say to that, so the meeting went on as if nothing had happened.",
    "In 1969 the first people walked on the moon; in 1989 a wall fell; in 2007 telephones lost their keys.",
    "It rained.",
    "Attention weighs the values of all positions by how well their keys fit the query, and adds them up.",
    "(see also: chapter 4, figure 12b)",
    "When the river rose in spring, the whole village moved its cattle to the hills, mended the old dyke with willow and clay, "
    "and waited three nights by the fires, listening to the water; on the fourth morning the sun came out, the ducks returned, and "
    "the miller's youngest daughter found a silver spoon in the mud, which everybody agreed must have been her grandmother's.",
    "Why? Because I said so!",
    "x1, x2, ..., xn are independent and identically distributed.",
    "Thanks in advance, and best regards.",
]


def sentences():
    return [" ".join(f"{a} {b}".splitlines()).rstrip() for b in ENDS for a in STARTS]


def embed(folder, texts):
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    words = Tokenizer.from_file(f"{folder}/minilm.tokenizer.json")
    words.no_padding()
    config = BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
        max_position_embeddings=512, layer_norm_eps=1e-12, hidden_act="gelu",
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    state = {n: p for n, p in load_file(f"{folder}/minilm.safetensors").items() if n in model.state_dict()}
    model.load_state_dict(state)
    torch.set_num_threads(2)
    ids = [words.encode(text).ids for text in texts]
    with torch.no_grad():
        pooled = [model(torch.tensor([row])).last_hidden_state.mean(1) for row in ids]
    return ids, torch.nn.functional.normalize(torch.cat(pooled), dim=-1).numpy()


def main():
    match sys.argv[1:]:
        case ["sentences", out]:
            open(out, "w", encoding="utf-8").write("".join(f"{s}\n" for s in sentences()))
        case ["record", folder, source, out]:
            texts = open(source, encoding="utf-8").read().splitlines()
            ids, vectors = embed(folder, texts)
            lengths = np.array([len(row) for row in ids])
            # Rounding to f16 turns a vector by less than a cosine of 1 - 1e-7.
            half = vectors.astype(np.float16)
            ids = np.concatenate(ids).astype(np.int32)
            np.savez_compressed(out, ids=ids, lengths=lengths.astype(np.int32), embedding=half)
            print(len(texts), "sentences of", lengths.min(), "to", lengths.max(), "tokens")
        case ["compare", folder, source, ours]:
            texts = open(source, encoding="utf-8").read().splitlines()
            _, theirs = embed(folder, texts)
            cosine = (np.load(ours).astype(np.float64) * theirs).sum(1)
            print(f"{len(texts)} sentences: least cosine {cosine.min():.9f}, largest deviation {abs(np.load(ours) - theirs).max():.2e}")
            sys.exit(int(cosine.min() < 0.99999))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
