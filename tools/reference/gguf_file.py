"""Reads a GGUF file with NumPy: metadata, and tensors widened to float32.

A second reader, written from the format's description, so that the values the tests are compared with do not come from the
reader under test. Only the types that the models here use."""

import struct

import numpy as np

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read(path):
    """(metadata, tensors) of a file of version 3."""
    data = np.memmap(path, mode="r")
    at = 0

    def scalar(code):
        nonlocal at
        size = struct.calcsize("<" + code)
        value = struct.unpack("<" + code, data[at : at + size].tobytes())[0]
        at += size
        return value

    def text():
        nonlocal at
        length = scalar("Q")
        value = data[at : at + length].tobytes().decode("utf-8", "replace")
        at += length
        return value

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = scalar("I"), scalar("Q")
            return [value(inner) for _ in range(count)]
        return scalar(SCALARS[kind])

    assert scalar("I") == 0x46554747 and scalar("I") == 3, "not GGUF of version 3"
    tensors, pairs = scalar("Q"), scalar("Q")
    metadata = {}
    for _ in range(pairs):
        key = text()
        metadata[key] = value(scalar("I"))
    listed = []
    for _ in range(tensors):
        name = text()
        shape = [scalar("Q") for _ in range(scalar("I"))][::-1]
        listed.append((name, shape, scalar("I"), scalar("Q")))
    alignment = metadata.get("general.alignment", 32)
    start = -(-at // alignment) * alignment
    return metadata, {n: widen(data, start + offset, shape, kind) for n, shape, kind, offset in listed}


def widen(data, start, shape, kind):
    count = int(np.prod(shape))
    if kind == 0:
        return np.frombuffer(data[start : start + 4 * count].tobytes(), "<f4").reshape(shape)
    size = {3: 20, 8: 34}[kind]
    blocks = np.asarray(data[start : start + count // 32 * size]).reshape(-1, size)
    half = lambda a: np.ascontiguousarray(a).view("<f2").astype(np.float32)
    if kind == 3:
        scale, least, packed = half(blocks[:, 0:2]), half(blocks[:, 2:4]), blocks[:, 4:]
        numbers = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
        return (scale * numbers + least).reshape(shape)
    scale, numbers = half(blocks[:, :2]), blocks[:, 2:].view(np.int8).astype(np.float32)
    return (scale * numbers).reshape(shape)
