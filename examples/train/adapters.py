"""Writes pairs of sentences of which the second follows the first in a speech of a play, as tokens.

    python examples/train/adapters.py weights/plays.txt weights/minilm.tokenizer.json weights/pairs.npz

Needs numpy and tokenizers.
"""

import re
import sys

import numpy as np
from tokenizers import Tokenizer

LENGTH, WORDS = 32, 5

text, vocabulary, out = sys.argv[1:]
pairs = []
for speech in re.split(r"\n\s*\n", open(text).read()):
    # A speech begins with the name of who speaks, in capitals; what stands in brackets is not said.
    name, _, said = speech.partition("\n")
    if not re.fullmatch(r"[A-Z' ]+\.", name.strip()):
        continue
    said = " ".join(re.sub(r"\[[^]]*\]", "", said).split())
    sentences = re.split(r"(?<=[.?!]) ", said)
    both = zip(sentences, sentences[1:])
    pairs += [pair for pair in both if all(len(sentence.split()) >= WORDS for sentence in pair)]
order = np.random.default_rng(1).permutation(len(pairs))

tokenizer = Tokenizer.from_file(vocabulary)
tokenizer.enable_truncation(LENGTH)
tokenizer.enable_padding(length=LENGTH)
tokens = tokenizer.encode_batch([sentence for n in order for sentence in pairs[n]])
shape = (len(pairs), 2, LENGTH)
ids = np.array([t.ids for t in tokens]).reshape(shape)
keep = np.array([t.attention_mask for t in tokens], bool).reshape(shape)
np.savez(out, ids=ids, keep=keep)
print(f"{len(pairs)} pairs")
