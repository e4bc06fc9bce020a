"""Writes sequences of tokens, and the class of the token of the highest rank in each.

    python examples/train/classifier.py weights/classifier.npz

Token `rank * CLASSES + class` has that rank and that class. The highest rank of a sequence is drawn first, and one token has it.
"""

import sys

import numpy as np

COUNT, LENGTH, RANKS, CLASSES = 20000, 16, 8, 5

rng = np.random.default_rng(1)
highest = rng.integers(1, RANKS, COUNT)
labels = rng.integers(0, CLASSES, COUNT)
ranks = rng.integers(0, highest[:, None], (COUNT, LENGTH))
ids = ranks * CLASSES + rng.integers(0, CLASSES, (COUNT, LENGTH))
ids[np.arange(COUNT), rng.integers(0, LENGTH, COUNT)] = highest * CLASSES + labels
np.savez(sys.argv[1], ids=ids, labels=labels)
