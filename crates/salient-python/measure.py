"""What the package costs over the library: importing, the wheel, and calls. Run in the environment of `tools/python.sh venv`."""

import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import salient

ATTEND = """
model attend(q: f32[T, E], k: f32[S, E], v: f32[S, E]) -> (y: f32[T, E]) {
    return softmax(q @ k.T / sqrt(E)) @ v
}"""


def import_seconds():
    program = "import time; t = time.perf_counter(); import salient; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in range(9)]
    return statistics.median(float(run.stdout) for run in runs)


def call_seconds(attend, arrays, out, count):
    before = time.perf_counter()
    for _ in range(count):
        attend(*arrays, out=out)
    return (time.perf_counter() - before) / count


def main():
    print(f"import salient: {import_seconds() * 1e3:.1f} ms")
    root = pathlib.Path(__file__).resolve().parents[2]
    for wheel in (root / "target" / "wheels").glob("salient-*.whl"):
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
    attend = salient.compile(ATTEND, threads=1)
    random = np.random.default_rng(1)
    for length, count in [(4, 20_000), (64, 2_000), (1024, 20)]:
        arrays = [random.standard_normal((length, 64), np.float32) for _ in range(3)]
        out = np.empty_like(arrays[0])
        attend(*arrays)
        # In turns, so that what else the machine does meets both.
        python, rust = [], []
        for _ in range(7):
            python.append(call_seconds(attend, arrays, out, count))
            rust.append(attend._seconds(count, tuple(arrays)))
        mine, own = min(python) * 1e6, min(rust) * 1e6
        print(f"T = {length}: {mine:.2f} µs from Python, {own:.2f} µs in Rust, {mine - own:+.2f} µs")


if __name__ == "__main__":
    main()
