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

import ray
import salient.batch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", help="a Parquet file, or a folder of text files, a text for each line")
    parser.add_argument("vectors", help="the folder that Parquet files are written to")
    parser.add_argument("--column", default="text", help="the column of the texts")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--batch", type=int, default=256, help="texts that go to a worker at once")
    parser.add_argument("--address", help="a Ray cluster that runs already")
    parser.add_argument("--model", default=str(ROOT / "examples" / "models" / "minilm.attn"))
    parser.add_argument("--weights", default=str(ROOT / "weights" / "minilm.safetensors"))
    parser.add_argument("--tokenizer", default=str(ROOT / "weights" / "minilm.tokenizer.json"))
    return parser.parse_args()


def main():
    args = arguments()
    if args.address:
        ray.init(address=args.address)
    else:
        # Reading and writing have places of their own beside the workers.
        ray.init(num_cpus=args.workers * args.threads + 2, include_dashboard=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    if os.path.isdir(args.texts):
        data = ray.data.read_text(args.texts)
    else:
        data = ray.data.read_parquet(args.texts)
    # As many blocks as keep all workers busy to the end.
    data = data.repartition(args.workers * 8)
    before = time.perf_counter()
    embedded = data.map_batches(
        salient.batch.Embedder,
        fn_constructor_kwargs={
            "model": args.model,
            "weights": args.weights,
            "tokenizer": args.tokenizer,
            "column": args.column,
            "threads": args.threads,
        },
        batch_size=args.batch,
        num_cpus=args.threads,
        concurrency=args.workers,
    )
    embedded.write_parquet(args.vectors, mode=ray.data.SaveMode.OVERWRITE)
    seconds = time.perf_counter() - before
    count = ray.data.read_parquet(args.vectors).count()
    print(f"{count} texts in {seconds:.1f} s: {count / seconds:.0f} texts a second, {args.workers} workers")


if __name__ == "__main__":
    main()
