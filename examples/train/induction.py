"""Writes examples of the induction-head task: random tokens, followed by themselves.

    python examples/train/induction.py weights/induction.npz
"""

import sys

import numpy as np

COUNT, HALF, TOKENS = 4000, 16, 16

rng = np.random.default_rng(1)
half = rng.integers(0, TOKENS, (COUNT, HALF))
both = np.concatenate([half, half], 1)
labels = both[:, 1:].copy()
# What follows in the first half is random: nobody can know it.
labels[:, : HALF - 1] = -100
np.savez(sys.argv[1], ids=both[:, :-1], labels=labels)
