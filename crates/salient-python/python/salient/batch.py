"""Models over data sets: callables for `ray.data.Dataset.map_batches` and for Dask's `map_partitions`.

A callable takes a batch, a dictionary of arrays (Ray) or a data frame (Dask), and gives it back with the results as further
columns. It is pickled as what it is made of; each worker compiles it once. Scheduling, repeating what failed and
progress are the engine's.

    import ray, salient.batch
    data.map_batches(
        salient.batch.Embedder,
        fn_constructor_kwargs={"model": "minilm.attn", "weights": "model.safetensors", "tokenizer": "tokenizer.json", "threads": 1},
        concurrency=2,
        num_cpus=1,
    )

    frame.map_partitions(salient.batch.Embedder(...))

Dask takes columns of arrays for text unless `dataframe.convert-string` is off.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

import salient

__all__ = ["Embedder", "Map"]

_Path = Union[str, "os.PathLike[str]"]


class Map:
    """A model over the rows of a batch.

    Args:
        model: A program or the path of one, as `salient.compile` takes it, or a model.
        weights: The model's weights, as `salient.compile` takes them.
        inputs: The column that each input is read from; the columns of the inputs' own names if it is not given. Columns of
            arrays of one shape each are stacked: the first axis of each input counts rows.
        outputs: The column that each result is written to; those of the results' own names if it is not given.
        threads: How many threads a call runs on; on Ray, as many as `num_cpus` gives the actor if it is not given.
        options: What else `salient.compile` takes.
    """

    def __init__(
        self,
        model: Union[_Path, salient.Model],
        weights: Any = None,
        *,
        inputs: Optional[Mapping[str, str]] = None,
        outputs: Optional[Mapping[str, str]] = None,
        threads: Optional[int] = None,
        **options: Any,
    ) -> None:
        if isinstance(model, salient.Model):
            self.model = model
        else:
            self.model = salient.compile(model, weights=weights, threads=threads or _cpus(), **options)
        self.inputs = dict(inputs) if inputs is not None else {name: name for name in self.model.inputs}
        self.outputs = dict(outputs) if outputs is not None else {name: name for name in self.model.outputs}

    def __call__(self, batch: Any) -> Any:
        """The batch with the results as further columns."""
        given = {name: _stacked(batch[column]) for name, column in self.inputs.items()}
        results = self.model(**given)
        if not isinstance(results, dict):
            results = {next(iter(self.model.outputs)): results}
        return _with_columns(batch, {self.outputs[name]: results[name] for name in self.outputs})


class Embedder:
    """Vectors of the texts of a batch, by a model with the inputs `ids` and `keep` and one result of a row for each text.

    Args:
        model: A program or the path of one.
        weights: The checkpoint.
        tokenizer: The path of its ``tokenizer.json``.
        column: The column of the texts.
        output: The column that the vectors are written to.
        prefix: What the checkpoint puts before the model's paths.
        rows: The most texts of a call; those of about one length go together.
        max_tokens: Texts are cut to so many tokens; if it is not given, as the tokenizer's file says.
        threads: As of `Map`.
        name: The name of the model, where the program has several.
        options: Sizes of the model, by name.
    """

    def __init__(
        self,
        model: _Path,
        weights: Any,
        tokenizer: _Path,
        *,
        column: str = "text",
        output: str = "embedding",
        prefix: str = "",
        rows: int = 32,
        max_tokens: Optional[int] = None,
        threads: Optional[int] = None,
        name: Optional[str] = None,
        **options: Any,
    ) -> None:
        self.model = salient.compile(
            model, name, weights=weights, prefix=prefix, threads=threads or _cpus(), **options
        )
        self.tokenizer = salient.Tokenizer(tokenizer, max_tokens)
        self.column, self.output, self.rows = column, output, rows

    def __call__(self, batch: Any) -> Any:
        """The batch with the vectors as a further column."""
        return _with_columns(batch, {self.output: self.embed([str(text) for text in batch[self.column]])})

    def embed(self, texts: Sequence[str]) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """A row for each text. Rows do not depend on what else is in a batch."""
        tokens = self.tokenizer.encode(list(texts))
        order = sorted(range(len(tokens)), key=lambda at: len(tokens[at]))
        vectors: List[Any] = [None] * len(tokens)
        for start in range(0, len(order), self.rows):
            these = order[start : start + self.rows]
            longest = max(1, max(len(tokens[at]) for at in these))
            ids = np.zeros((len(these), longest), np.int64)
            keep = np.zeros((len(these), longest), np.bool_)
            for row, at in enumerate(these):
                ids[row, : len(tokens[at])] = tokens[at]
                keep[row, : len(tokens[at])] = True
            for at, vector in zip(these, self.model(ids=ids, keep=keep)):
                vectors[at] = vector
        return np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)


def _cpus() -> Optional[int]:
    """How many processors Ray has given this actor or task; none outside of Ray."""
    import sys

    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    cpus = ray.get_runtime_context().get_assigned_resources().get("CPU")
    return max(1, int(cpus)) if cpus else None


def _stacked(column: Any) -> Any:
    """A column as one array, of which the first axis counts rows."""
    array = np.asarray(column)
    return np.stack(list(array)) if array.dtype == object else array


def _with_columns(batch: Any, columns: Mapping[str, Any]) -> Any:
    if isinstance(batch, dict):
        result: Dict[str, Any] = {**batch, **columns}
        return result
    # A data frame has one object in a cell.
    return batch.assign(**{n: list(v) if np.ndim(v) > 1 else v for n, v in columns.items()})
