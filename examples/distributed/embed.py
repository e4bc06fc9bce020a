"""Vectors of texts on a Ray cluster: a folder of text files or a Parquet file in, Parquet out.

    python examples/distributed/embed.py texts.parquet vectors --workers 2
    python examples/distributed/embed.py folder/ vectors --workers 2 --address auto

Each worker is a process that compiles the model once and embeds batch after batch. A batch whose worker dies is done again by
Ray; rows come out in the order in which they went in. Without `--address` Ray runs on this machine.
"""

import argparse
import os
import pathlib
import time

import pyarrow.dataset
import ray
import salient.batch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parser(description=__doc__):
    """The flags, of which `check.py` takes those that do not say what is read and written."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--column", default="text", help="the column of the texts")
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--threads", type=int, default=1, help="of each worker")
    made.add_argument("--batch", type=int, default=256, help="texts that go to a worker at once")
    made.add_argument("--address", help="a Ray cluster that runs already")
    made.add_argument("--model", default=str(ROOT / "examples" / "models" / "minilm.attn"))
    made.add_argument("--weights", default=str(ROOT / "weights" / "minilm.safetensors"))
    made.add_argument("--tokenizer", default=str(ROOT / "weights" / "minilm.tokenizer.json"))
    return made


def start(args):
    """Connects to the cluster, or starts one on this machine."""
    if args.address:
        ray.init(address=args.address)
    else:
        # Reading and writing have places of their own beside the workers: a worker holds its processors to the end. Where the
        # machine has other things to do, a process of Python may take minutes to start; one that Ray gives up is started again,
        # and takes as long.
        ray.init(
            num_cpus=args.workers * args.threads + 2,
            include_dashboard=False,
            _system_config={"worker_register_timeout_seconds": 600},
        )
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    return context


def embed(args, texts, vectors, embedder=salient.batch.Embedder, **more):
    """Embeds the texts of a file or a folder, and gives how many there are and the seconds that it took."""
    read = ray.data.read_text if os.path.isdir(texts) else ray.data.read_parquet
    before = time.perf_counter()
    # A block is a batch, whatever the files are like: all workers are busy to the end, and one batch is done again for one that dies.
    embedded = read(texts).repartition(target_num_rows_per_block=args.batch).map_batches(
        embedder,
        fn_constructor_kwargs={
            "model": args.model,
            "weights": args.weights,
            "tokenizer": args.tokenizer,
            "column": args.column,
            "threads": args.threads,
            **more,
        },
        batch_size=args.batch,
        num_cpus=args.threads,
        compute=ray.data.ActorPoolStrategy(size=args.workers),
    )
    embedded.write_parquet(vectors, mode=ray.data.SaveMode.OVERWRITE)
    seconds = time.perf_counter() - before
    return pyarrow.dataset.dataset(vectors).count_rows(), seconds


def main():
    made = parser()
    made.add_argument("texts", help="a Parquet file, or a folder of text files, a text for each line")
    made.add_argument("vectors", help="the folder that Parquet files are written to")
    args = made.parse_args()
    start(args)
    count, seconds = embed(args, args.texts, args.vectors)
    print(f"{count} texts in {seconds:.1f} s: {count / seconds:.0f} texts a second, {args.workers} workers")


if __name__ == "__main__":
    main()
