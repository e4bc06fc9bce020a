"""Between arrays of other libraries and NumPy's, without copies where there need be none."""

from __future__ import annotations

import sys
from typing import Any, Optional, Tuple

import numpy as np

# What a number or a list becomes, by the dtype that the model declares.
_DTYPES = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i64": np.int64, "bool": np.bool_}
# Types whose numbers another one has all of, which the language has.
_WIDER = {"int8": np.int32, "uint8": np.int32, "int16": np.int32, "uint16": np.int32, "uint32": np.int64}
_TAKEN = "float32, float16, bfloat16, int32, int64 and bool"


def _torch(value: Any) -> Optional[Any]:
    """The module torch, if the value is a tensor of it."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def as_numpy(value: Any, name: str, dtype: Optional[str]) -> Tuple[Any, bool, bool]:
    """The value as an array that can be read where it lies, whether it is bfloat16, and whether it is of another library.

    What is not contiguous, aligned and in the byte order of this machine is copied.
    """
    torch = _torch(value)
    if torch is not None:
        tensor = value.detach()
        if tensor.device.type != "cpu":
            raise TypeError(f"{name}: the tensor is on {tensor.device}; models run on the processor")
        is_bf16 = tensor.dtype == torch.bfloat16
        if is_bf16:
            tensor = tensor.contiguous().view(torch.int16)
        return _plain(tensor.numpy(), name, is_bf16), is_bf16, True
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array has elements of no value; fill it first")
    if isinstance(value, np.ndarray):
        is_bf16 = value.dtype.name == "bfloat16"
        return _plain(value.view(np.int16) if is_bf16 else value, name, is_bf16), is_bf16, False
    if isinstance(value, (bool, int, float, list, tuple, np.generic)):
        wanted = _DTYPES.get(dtype or "")
        return _plain(np.asarray(value, wanted), name, False), False, False
    if hasattr(value, "__dlpack__"):
        return _plain(np.from_dlpack(value), name, False), False, True
    raise TypeError(f"{name}: `{type(value).__name__}` is no array: it has no `__dlpack__`")


def _plain(array: Any, name: str, is_bf16: bool) -> Any:
    """An array as calls take them: the same one if it can be."""
    kind = array.dtype.newbyteorder("=")
    if not is_bf16:
        kind = np.dtype(_WIDER.get(kind.name, kind))
        if kind.name not in ("float32", "float16", "int32", "int64", "bool"):
            hint = "; `astype(numpy.float32)` makes it one of them" if kind.kind == "f" else ""
            raise TypeError(f"{name}: it holds {kind.name}; models take {_TAKEN}{hint}")
    return np.require(np.asarray(array), kind, ["C", "A"])


def shared(value: Any, name: str) -> Any:
    """An array over the memory of the value, to be written."""
    if _torch(value) is not None:
        if value.device.type != "cpu":
            raise TypeError(f"{name}: the tensor is on {value.device}; models run on the processor")
        if value.requires_grad:
            raise TypeError(f"{name}: the tensor requires gradients, which a write to it would not have")
        return value.numpy()
    if isinstance(value, np.ma.MaskedArray) or not (isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")):
        raise TypeError(f"{name}: `{type(value).__name__}` is no array that results can be written to")
    return np.asarray(value) if isinstance(value, np.ndarray) else np.from_dlpack(value)


def like(other: Any, result: Any, is_bf16: bool) -> Any:
    """A result in the kind of array that `other` is, over the same memory."""
    torch = _torch(other)
    if torch is not None:
        tensor = torch.from_numpy(result)
        return tensor.to(torch.bfloat16) if is_bf16 else tensor
    namespace = getattr(other, "__array_namespace__", None)
    if namespace is None:
        return result
    return namespace().from_dlpack(result)
