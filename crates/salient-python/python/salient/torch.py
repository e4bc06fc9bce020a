"""Models of Salient in PyTorch: as modules with parameters and gradients, and as the attention of transformers' models.

Tensors lie on the processor. Importing this module makes the implementation ``"salient"`` known to transformers, if that can be
imported: ``AutoModel.from_pretrained(..., attn_implementation="salient")``.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch

import salient

__all__ = ["Module", "attention_forward", "module", "register_attention"]


def module(
    source_or_path: Union[str, "os.PathLike[str]", salient.Model],
    model: Optional[str] = None,
    *,
    weights: Any = None,
    prefix: str = "",
    threads: Optional[int] = None,
    **sizes: Any,
) -> "Module":
    """A module of a model, whose parameters are registered under their paths.

    Args as of `salient.compile`. Each parameter needs a value in `weights`: a ``state_dict``, a mapping to arrays, or the path of a
    checkpoint, but for one that stores them in blocks of few bits.
    """
    if isinstance(source_or_path, salient.Model):
        return Module(source_or_path)
    made = salient.compile(source_or_path, model, weights=weights, prefix=prefix, threads=threads, **sizes)
    return Module(made)


class Module(torch.nn.Module):
    """A model as a module: inputs by position or by name, results as of the model.

    Calls are one custom operator, `salient::call`, through which gradients go where the model has them, and around which
    `torch.compile` does not break.
    """

    def __init__(self, model: salient.Model) -> None:
        super().__init__()
        self.model = model
        weights = model.weights
        if model.in_blocks:
            raise salient.CallError(
                f"the checkpoint stores these parameters in blocks of few bits, which are no tensors of torch: "
                f"{_some(model.in_blocks)}; salient.compile runs the model on them as they are, and a module takes a checkpoint "
                f"in f32, f16 or bf16"
            )
        missing = [path for path in model.parameters if path not in weights]
        if missing:
            raise salient.CallError(f"these parameters have no values: {_some(missing)}")
        for path in model.parameters:
            value = torch.from_numpy(weights[path])
            _register(self, path, torch.nn.Parameter(value, requires_grad=value.is_floating_point()))
        self._handle = _handles.add(model)

    def forward(self, *args: torch.Tensor, **inputs: torch.Tensor) -> Any:
        """Run the model on tensors."""
        names = list(self.model.inputs)
        given = {**dict(zip(names, args)), **inputs}
        unknown = [name for name in given if name not in names]
        absent = [name for name in names if name not in given]
        if unknown or absent or len(args) > len(names):
            raise TypeError(f"the model has the inputs {', '.join(names)}, and was given {', '.join(given)}")
        found = dict(self.named_parameters())
        results = _call(self._handle, [given[name] for name in names], [found[p] for p in self.model.parameters])
        if len(results) == 1:
            return results[0]
        return dict(zip(self.model.outputs, results))

    def extra_repr(self) -> str:
        return repr(self.model)

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(self.__dict__)
        del state["_handle"]
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._handle = _handles.add(self.model)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "Module":
        values = {name: p.detach().clone() for name, p in self.named_parameters()}
        copy = Module(self.model.with_weights(values))
        memo[id(self)] = copy
        return copy.train(self.training)


def _some(paths: Sequence[str], most: int = 8) -> str:
    """Names for a message: the first of them, and how many more there are."""
    more = len(paths) - most
    return ", ".join(paths[:most]) + (f" and {more} more" if more > 0 else "")


def _register(module: torch.nn.Module, path: str, parameter: torch.nn.Parameter) -> None:
    """Register a parameter so that its name in a `state_dict` is its path."""
    *folders, name = path.split(".")
    for folder in folders:
        if folder not in module._modules:
            module.add_module(folder, torch.nn.Module())
        module = module._modules[folder]  # type: ignore[assignment]
    module.register_parameter(name, parameter)


class _Bound:
    """A model, its backward pass, and what both were last made of parameters."""

    def __init__(self, model: salient.Model) -> None:
        self.model = model
        self.backward: Optional[salient.Model] = None
        self._bound: Dict[bool, Tuple[Any, salient.Model]] = {}

    def of(self, is_backward: bool, parameters: Sequence[torch.Tensor]) -> salient.Model:
        """The model with these parameters. They are packed again where one was written to, as a step of an optimiser does."""
        if is_backward and self.backward is None:
            self.backward = self.model.backward()
        model = self.backward if is_backward and self.backward is not None else self.model
        if not parameters:
            return model
        key = tuple((p.data_ptr(), p._version, p.shape) for p in parameters)
        kept = self._bound.get(is_backward)
        if kept is None or kept[0] != key:
            values = {path: p.detach() for path, p in zip(self.model.parameters, parameters)}
            kept = (key, model.with_weights(values))
            self._bound[is_backward] = kept
        return kept[1]


class _Handles:
    """Models by number, since operators of torch take no objects."""

    def __init__(self) -> None:
        self._models: List[_Bound] = []

    def add(self, model: salient.Model) -> int:
        self._models.append(_Bound(model))
        return len(self._models) - 1

    def __getitem__(self, handle: int) -> _Bound:
        return self._models[handle]


_handles = _Handles()


@torch.library.custom_op("salient::call", mutates_args=())
def _call(handle: int, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    bound = _handles[handle]
    model = bound.of(False, parameters)
    return _listed(model(*inputs), inputs)


def _listed(results: Any, inputs: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    values = list(results.values()) if isinstance(results, dict) else [results]
    return [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in values]


@_call.register_fake
def _(handle: int, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    model = _handles[handle].model
    known: Dict[str, Any] = {}
    declared = list(model.inputs.values()) + list(model.parameters.values())
    for text, tensor in zip(declared, [*inputs, *parameters]):
        for extent, length in zip(_extents(text), tensor.shape):
            if extent.isidentifier():
                known.setdefault(extent, length)
    return [_empty(text, known) for text in model.outputs.values()]


_DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}


def _extents(text: str) -> List[str]:
    """The extents of a type: `T` and `2 * D` of `f32[T, 2 * D]`."""
    inside = text[text.index("[") + 1 : -1]
    return re.split(r", (?![^()]*\))", inside) if inside else []


def _empty(text: str, known: Mapping[str, Any]) -> torch.Tensor:
    scope = {"ceil_div": lambda a, b: -(-a // b), "max": torch.sym_max, "min": torch.sym_min, **known}
    extents = [eval(e.replace("//", "/").replace("/", "//"), {"__builtins__": {}}, scope) for e in _extents(text)]
    return torch.empty(extents, dtype=_DTYPES[text[: text.index("[")]])


def _setup(ctx: Any, inputs: Tuple[int, List[torch.Tensor], List[torch.Tensor]], output: Any) -> None:
    ctx.handle, given, parameters = inputs
    ctx.count = len(given)
    ctx.save_for_backward(*given, *parameters)


@torch.library.custom_op("salient::backward", mutates_args=())
def _backward(
    handle: int,
    inputs: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
) -> List[torch.Tensor]:
    bound = _handles[handle]
    model = bound.of(True, parameters)
    given = dict(zip(bound.model.inputs, inputs))
    numbers = [name for name, text in bound.model.outputs.items() if text.startswith("f32")]
    given.update((f"d_{name}", cotangent) for name, cotangent in zip(numbers, cotangents))
    results = model(**given)
    ports = [*zip(bound.model.inputs, inputs), *zip(bound.model.parameters, parameters)]
    # What the results do not depend on has a gradient of zeros.
    return [
        results[f"d_{name}"] if f"d_{name}" in results else torch.zeros_like(tensor)
        for name, tensor in ports
        if tensor.dtype == torch.float32
    ]


@_backward.register_fake
def _(
    handle: int,
    inputs: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
) -> List[torch.Tensor]:
    return [torch.empty(t.shape, dtype=t.dtype) for t in [*inputs, *parameters] if t.dtype == torch.float32]


def _gradients(ctx: Any, *cotangents: Any) -> Tuple[Any, ...]:
    """The gradients by the handle, the inputs and the parameters."""
    saved = ctx.saved_tensors
    inputs, parameters = list(saved[: ctx.count]), list(saved[ctx.count :])
    given = cotangents[0] if len(cotangents) == 1 and isinstance(cotangents[0], (list, tuple)) else cotangents
    outputs = _handles[ctx.handle].model.outputs.values()
    numbers = [c.contiguous() for c, text in zip(given, outputs) if text.startswith("f32")]
    gradients = iter(_backward(ctx.handle, inputs, parameters, numbers))
    by = [next(gradients) if t.dtype == torch.float32 else None for t in saved]
    return None, by[: ctx.count], by[ctx.count :]


_call.register_autograd(_gradients, setup_context=_setup)


# ---- transformers

_ATTENTION = """
model attend[scale](
    q: f32[B, H, T, E], k: f32[B, G, S, E], v: f32[B, G, S, F]{inputs}
) -> (y: f32[B, H, T, F]) {{
    let score = {score}
    return softmax({masked}) @ repeat_heads[H](v)
}}"""

# Compiled attentions by what they have in them.
_attentions: Dict[Tuple[Any, ...], Module] = {}


def _attention(scale: float, cap: Optional[float], mask: str, bias: Optional[Tuple[str, str]]) -> Module:
    """The attention of that kind, compiled once. `mask`: `none`, `causal` or `given`; `bias`: its first two extents."""
    key = (scale, cap, mask, bias)
    if key not in _attentions:
        score = "q @ repeat_heads[H](k).T * scale"
        if cap is not None:
            score = f"soft_cap[{float(cap)!r}]({score})"
        inputs = ""
        if bias is not None:
            inputs += f", bias: f32[{bias[0]}, {bias[1]}, T, S]"
            score += " + bias"
        masked = {
            "none": "score",
            "causal": "if causal[T, S, offset = 0]() then score else -inf",
            "given": "if keep then score else -inf",
        }[mask]
        if mask == "given":
            inputs += ", keep: bool[B, 1, T, S]"
        text = _ATTENTION.format(inputs=inputs, score=score, masked=masked)
        _attentions[key] = module(text, scale=float(scale))
    return _attentions[key]


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Optional[torch.Tensor],
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    softcap: Optional[float] = None,
    position_bias: Optional[torch.Tensor] = None,
    **others: Any,
) -> Tuple[torch.Tensor, None]:
    """The attention of a layer of transformers, as its `AttentionInterface` calls it."""
    name = type(module).__name__
    for what in ("s_aux", "cache", "head_mask"):
        if others.get(what) is not None:
            raise NotImplementedError(f"{name}: an attention with `{what}` is not one that salient takes")
    if dropout and module.training:
        raise NotImplementedError(f"{name}: salient does not drop weights at random; set the attention's dropout to 0")
    if others.get("output_attentions"):
        raise NotImplementedError(f"{name}: salient does not store weights; use attn_implementation='eager' for them")
    if query.dtype != torch.float32 or query.device.type != "cpu":
        raise NotImplementedError(f"{name}: salient takes float32 on the processor, not {query.dtype} on {query.device}")
    queries, keys = query.shape[2], key.shape[2]
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = bool(is_causal) and queries > 1 and attention_mask is None
    if is_causal and keys > queries:
        # An empty cache of a fixed length: what lies behind the queries is not there yet.
        key, value = key[:, :, :queries], value[:, :, :queries]
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    bias = position_bias
    given: List[torch.Tensor] = [query.contiguous(), key.contiguous(), value.contiguous()]
    mask = "causal" if is_causal else "none"
    if attention_mask is not None:
        cut = attention_mask[:, :, :, : key.shape[2]]
        if cut.dtype == torch.bool:
            mask = "given"
        else:
            bias = cut if bias is None else bias + cut
    if bias is not None:
        given.append(bias[..., : key.shape[2]].to(torch.float32).contiguous())
    if mask == "given":
        if cut.shape[1] != 1:
            raise NotImplementedError(f"{name}: a mask for each head is not one that salient takes")
        given.append(cut.expand(query.shape[0], -1, -1, -1).contiguous())
    shape = None if bias is None else ("B" if bias.shape[0] > 1 else "1", "H" if bias.shape[1] > 1 else "1")
    result = _attention(scale, softcap, mask, shape)(*given)
    return result.transpose(1, 2).contiguous(), None


def register_attention() -> None:
    """Make ``attn_implementation="salient"`` known to transformers, with masks of truth values."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register("salient", attention_forward)
    AttentionMaskInterface.register("salient", sdpa_mask)


try:
    register_attention()
except ImportError:
    pass
