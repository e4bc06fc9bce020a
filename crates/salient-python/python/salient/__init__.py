"""A compiler for attention: models in the language of Salient, called with arrays.

    >>> import numpy as np, salient
    >>> attend = salient.compile('''
    ...     model attend(q: f32[T, E], k: f32[S, E], v: f32[S, E]) -> (y: f32[T, E]) {
    ...         return softmax(q @ k.T / sqrt(E)) @ v
    ...     }''')
    >>> x = np.ones((3, 4), np.float32)
    >>> attend(x, x, x).shape
    (3, 4)

`salient.torch` makes modules of models, and an attention for transformers; `salient.batch` runs them over data sets of Ray
and Dask. `python -m salient` is the command line.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Union

from salient import _salient
from salient._salient import CallError, Model, RunError, SalientError, SourceError, Tokenizer, __version__

__all__ = ["CallError", "Model", "RunError", "SalientError", "SourceError", "Tokenizer", "__version__", "compile"]


def compile(
    source_or_path: Union[str, "os.PathLike[str]"],
    model: Optional[str] = None,
    *,
    weights: Union[None, str, "os.PathLike[str]", Mapping[str, Any]] = None,
    prefix: str = "",
    seed: Optional[int] = None,
    threads: Optional[int] = None,
    **sizes: Any,
) -> Model:
    """Compile a model of a program.

    Args:
        source_or_path: The text of a program, or the path of its file: a path object, or a string of one line that ends in
            ``.attn``.
        model: The name of the model, where the program has several.
        weights: Parameters by path: a mapping to arrays, such as a ``state_dict``, or the path of a safetensors, GGUF or
            npz file. Mappings are copied.
        prefix: What stands before the model's own paths in the names of `weights`, such as ``"bert."``.
        seed: Parameters that `weights` lacks are drawn from it, by the initialisers of the program.
        threads: How many threads a call runs on; as many as the machine has if it is not given.
        sizes: Values of dimensions and of parameters in brackets, by name: ``T=128``. Dimensions that are not given are those
            of the arrays, at each call.

    Returns:
        A model that is called with arrays.

    Raises:
        SourceError: The program is refused. The message shows the lines, with carets.
        OSError: A file cannot be read.
    """
    files: list[tuple[str, str]] = []
    path: Optional[str] = None
    if isinstance(source_or_path, str) and not _is_path(source_or_path):
        files.append(("source", source_or_path))
    else:
        path = os.fspath(source_or_path)
    as_text = [(name, _text(value)) for name, value in sizes.items()]
    return _salient.compile(files, path, model, as_text, weights, prefix, seed, threads)


def _is_path(text: str) -> bool:
    return text.endswith(".attn") and "\n" not in text


def _text(value: Any) -> str:
    """A size as the language writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
