"""Programs and arrays that several tests use."""

import pathlib

import numpy as np
import pytest
import salient

ROOT = pathlib.Path(__file__).parents[3]

ATTEND = """
model attend(q: f32[T, E], k: f32[S, E], v: f32[S, E]) -> (y: f32[T, E]) {
    return softmax(q @ k.T / sqrt(E)) @ v
}"""

LINEAR = """
model project(x: f32[T, D]) -> (y: f32[T, 4]) {
    return linear[4](x) as out
}"""

TOTAL = """
model total(x: f32[T]) -> (y: f32[T]) {
    state before: f32[]
    let y = before + cumsum(x)
    before = before + sum(x)
    return y
}"""


def attention(q, k, v):
    """What `ATTEND` computes, in float64."""
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    scores = q @ k.T / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.fixture
def random():
    return np.random.default_rng(7)


@pytest.fixture
def qkv(random):
    return tuple(random.standard_normal((n, 8), np.float32) for n in (5, 9, 9))


@pytest.fixture(scope="session")
def attend():
    return salient.compile(ATTEND)
