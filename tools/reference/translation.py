"""The Transformer of examples/models/translation.attn in torch, and what beam search makes of small encoder-decoders.

    python translation.py DATA RECORD

DATA is the folder with the archives of tiny.py, whose parameters are used; RECORD is the archive that is written. For each
case there are the source, the settings (width, length penalty, most tokens, start, ends), and the hypotheses found, the best
first: ids without the end, padded with -1, and scores. The Transformer is searched by the code below, which is naive on
purpose: it forms every continuation. T5 is searched by transformers."""

import math
import sys

import numpy as np
import torch
import transformers
from torch import nn

START, MOST = 0, 14


def positions(length, width):
    angle = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, memory, keep):
        def split(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.W_q(x)), split(self.W_k(memory)), split(self.W_v(memory))
        score = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~keep, -math.inf)
        return self.W_o((score.softmax(-1) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.linear2(self.linear1(x).relu())


class Layer(nn.Module):
    def __init__(self, width, heads, inner, crosses):
        super().__init__()
        self.self_attention = Attention(width, heads)
        self.feed_forward = FeedForward(width, inner)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        if crosses:
            self.cross_attention = Attention(width, heads)
            self.norm3 = nn.LayerNorm(width)

    def forward(self, x, keep, memory=None, memory_keep=None):
        x = self.norm1(x + self.self_attention(x, x, keep))
        if memory is None:
            return self.norm2(x + self.feed_forward(x))
        x = self.norm2(x + self.cross_attention(x, memory, memory_keep))
        return self.norm3(x + self.feed_forward(x))


class Transformer(nn.Module):
    """`encode` and `decode` as in the file's models; `keep` is true where the source is no padding."""

    def __init__(self, vocabulary=50, width=24, heads=3, inner=40, layers=2):
        super().__init__()
        self.src_embed, self.tgt_embed = (nn.Embedding(vocabulary, width) for _ in range(2))
        self.encoder = nn.ModuleList(Layer(width, heads, inner, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(width, heads, inner, True) for _ in range(layers))
        self.generator = nn.Linear(width, vocabulary)

    @staticmethod
    def embedded(table, ids):
        width = table.embedding_dim
        return table(ids) * math.sqrt(width) + positions(ids.shape[1], width)

    def encode(self, src, keep):
        x = self.embedded(self.src_embed, src)
        for layer in self.encoder:
            x = layer(x, keep[:, None, None])
        return x

    def decode(self, memory, keep, tgt):
        y = self.embedded(self.tgt_embed, tgt)
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril()
        for layer in self.decoder:
            y = layer(y, causal, memory, keep[:, None, None])
        return self.generator(y)


def search(model, src, width, penalty, most, ends):
    """Beam search by the rules that crates/salient-text/src/beam.rs states: (ids, score) of hypotheses, the best first."""
    keep = torch.ones(1, len(src), dtype=torch.bool)
    memory = model.encode(torch.tensor([src]), keep)
    alive, finished = [([START], 0.0)], []
    for length in range(1, most + 1):
        every = []
        for ids, total in alive:
            logs = model.decode(memory, keep, torch.tensor([ids]))[0, -1].double().log_softmax(-1)
            every += [(total + log.item(), ids + [token]) for token, log in enumerate(logs)]
        best = sorted(every, key=lambda c: -c[0])[: (1 + len(ends)) * width]
        for total, ids in best[:width]:
            if ids[-1] in ends or length == most:
                finished.append((ids[1:], total / length**penalty))
        finished = sorted(finished, key=lambda h: -h[1])[:width]
        alive = [(ids, total) for total, ids in best if ids[-1] not in ends][:width]
        if len(finished) == width and (width == 1 or alive[0][1] / length**penalty <= finished[-1][1]):
            break
    return finished


def search_t5(model, src, width, penalty, most, ends):
    more = {} if width == 1 else {"num_return_sequences": width, "length_penalty": penalty}
    found = model.generate(
        torch.tensor([src]), num_beams=width, max_new_tokens=most, do_sample=False, early_stopping=False,
        decoder_start_token_id=START, eos_token_id=ends, pad_token_id=START, return_dict_in_generate=True, output_scores=True,
        **more,
    )
    if width == 1:  # Greedy decoding, which has no scores of sequences.
        logs = [step[0].double().log_softmax(-1) for step in found.scores]
        ids = found.sequences[0, 1:].tolist()
        return [(ids, sum(log[token].item() for log, token in zip(logs, ids)) / len(ids) ** penalty)]
    return [(ids[1:].tolist(), score.item()) for ids, score in zip(found.sequences, found.sequences_scores)]


def loaded(folder, name, model):
    """The model with the parameters of an archive of tiny.py."""
    with np.load(f"{folder}/{name}.npz") as data:
        state = {n.removeprefix("param."): torch.tensor(data[n]) for n in data if n.startswith("param.")}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("embed_tokens" in n or "lm_head" in n for n in missing), (missing, unexpected)
    return model.eval()


def main():
    folder, record = sys.argv[1:]
    config = transformers.T5Config(
        vocab_size=50, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_decoder_layers=2, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=20, feed_forward_proj="relu",
        layer_norm_epsilon=1e-6, tie_word_embeddings=True,
    )
    models = {
        "translation": (search, loaded(folder, "translation", Transformer())),
        "t5": (search_t5, loaded(folder, "t5", transformers.T5ForConditionalGeneration(config))),
    }
    random = np.random.default_rng(1)
    sources = [random.integers(2, 50, length).tolist() for length in (1, 5, 9, 12)]
    arrays = {}
    with torch.no_grad():
        for name, (find, model) in models.items():
            settings = [(1, 1.0), (2, 1.0), (4, 0.0), (5, 2.0)]
            cases = [(s, w, p, e) for s in sources for e in ([1], [*range(1, 9)]) for w, p in settings]
            for at, (src, width, penalty, ends) in enumerate(cases):
                found = find(model, src, width, penalty, MOST, ends)
                lengths = [next((k for k, token in enumerate(ids) if token in ends), len(ids)) for ids, _ in found]
                rows = [ids[:length] + [-1] * (MOST - length) for (ids, _), length in zip(found, lengths)]
                arrays |= {
                    f"{name}.{at}.src": np.array(src),
                    f"{name}.{at}.settings": np.array([width, penalty, MOST, START, *ends], np.float32),
                    f"{name}.{at}.ids": np.array(rows),
                    f"{name}.{at}.scores": np.array([score for _, score in found], np.float32),
                }
                print(name, at, width, penalty, lengths, [round(s, 3) for _, s in found])
    np.savez_compressed(record, **arrays)


if __name__ == "__main__":
    main()
