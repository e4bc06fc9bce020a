"""Whether `embed.py` keeps what it promises, on a Ray cluster on this machine and texts that are made up.

    python examples/distributed/check.py rate       # how much faster two workers are than one
    python examples/distributed/check.py killed     # a worker is killed half way: are the results and their order the same?

Each prints what it found, and ends with an error if the rate is below 1.8, or the results differ.
"""

import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import embed
import numpy as np
import pyarrow
import pyarrow.parquet
import ray
import salient.batch

WORDS = "a the cat dog fox markets rain attention river mountain sat ran fell rose jumps over under quick lazy brown cold".split()


class Timed(salient.batch.Embedder):
    """Says of each row when its batch was begun and done, and by which process."""

    def __call__(self, batch):
        begun = time.time()
        done = super().__call__(batch)
        count = len(batch[self.column])
        told = {"begun": begun, "done": time.time(), "worker": os.getpid()}
        return {**done, **{name: np.full(count, value) for name, value in told.items()}}


class KilledOnce(salient.batch.Embedder):
    """A worker that dies at its batch of that number, the first time that one comes there."""

    def __init__(self, *, mark, at, **named):
        super().__init__(**named)
        self.mark, self.at, self.count = mark, at, 0

    def __call__(self, batch):
        self.count += 1
        if self.count == self.at:
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return super().__call__(batch)


def write_texts(count, path):
    drawn = random.Random(1)
    texts = [" ".join(drawn.choices(WORDS, k=drawn.randint(3, 40))) for _ in range(count)]
    table = pyarrow.table({"id": range(count), "text": texts})
    pyarrow.parquet.write_table(table, path)
    return texts


def read(folder, *columns):
    """Columns of what was written, in the order of its files."""
    table = pyarrow.dataset.dataset(folder).to_table(columns=list(columns))
    return [table[name].to_numpy() for name in columns]


def run(args, workers, folder, texts, embedder, **more):
    """Embeds the texts on a cluster of so many workers, and gives the seconds of the whole."""
    args.workers = workers
    context = embed.start(args)
    context.enable_progress_bars = args.progress
    try:
        count, seconds = embed.embed(args, texts, folder, embedder, **more)
    finally:
        ray.shutdown()
    if count != args.texts:
        sys.exit(f"{args.texts} texts went in, and {count} came out")
    return seconds


def rate(args, folder, texts):
    rates = {1: [], 2: []}
    for turn in range(args.rounds):
        for workers, found in rates.items():
            out = str(folder / f"rate{turn}-{workers}")
            seconds = run(args, workers, out, texts, Timed)
            begun, done, worker = read(out, "begun", "done", "worker")
            # Until the first batch, processes start and the model is compiled; behind the last, files are closed.
            busy = done.max() - begun.min()
            found.append(args.texts / busy)
            shares = ", ".join(str(n) for n in np.unique(worker, return_counts=True)[1])
            print(
                f"{workers} worker{'s' if workers > 1 else ''}: {found[-1]:.1f} texts a second from the first batch to the last "
                f"({busy:.1f} s; the whole {seconds:.1f} s), by worker: {shares}",
                flush=True,
            )
    ratio = max(rates[2]) / max(rates[1])
    print(f"two workers are {ratio:.2f} times as fast as one: the best of {args.rounds} of each")
    if ratio < 1.8:
        sys.exit("less than 1.8 times")


def killed(args, folder, texts):
    written = pyarrow.parquet.read_table(texts, columns=["text"])["text"].to_pylist()
    found = {}
    mark = folder / "mark"
    # Half way of a worker's share of the batches.
    at = max(2, args.texts // args.batch // 4)
    for name, more in {"plain": {}, "killed": {"embedder": KilledOnce, "mark": str(mark), "at": at}}.items():
        out = str(folder / name)
        seconds = run(args, 2, out, texts, **{"embedder": salient.batch.Embedder, **more})
        ids, texts_out, vectors = read(out, "id", "text", "embedding")
        found[name] = np.stack(vectors)
        wrong = [at for at in range(args.texts) if ids[at] != at or texts_out[at] != written[at]]
        if wrong:
            at = wrong[0]
            sys.exit(f"{name}: {len(wrong)} rows are not those that went in; row {at} has the text of row {ids[at]}")
        print(f"{name}: {args.texts} texts in {seconds:.1f} s, all there and in order", flush=True)
    if not mark.exists():
        sys.exit("no worker was killed")
    differ = int((found["plain"] != found["killed"]).any(axis=1).sum())
    print(f"a worker was killed at its batch {at}; {differ} of {args.texts} vectors differ in any bit")
    if differ:
        sys.exit("the results differ")


def main():
    made = embed.parser(__doc__)
    made.add_argument("what", choices=["rate", "killed"])
    made.add_argument("--texts", type=int, default=20_000, help="how many")
    made.add_argument("--rounds", type=int, default=2, help="turns of each number of workers, for `rate`")
    made.add_argument("--progress", action="store_true", help="show Ray's progress")
    args = made.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        texts = str(folder / "texts.parquet")
        write_texts(args.texts, texts)
        {"rate": rate, "killed": killed}[args.what](args, folder, texts)


if __name__ == "__main__":
    main()
