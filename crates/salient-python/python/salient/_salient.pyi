"""The part of the package that is written in Rust."""

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union, final

__all__ = [
    "CallError",
    "Model",
    "RunError",
    "SalientError",
    "SourceError",
    "Tokenizer",
    "__version__",
    "command_line",
    "compile",
]

__version__: str

class SalientError(Exception):
    """Anything that goes wrong in Salient."""

class SourceError(SalientError):
    """A source is refused; the message shows the lines, with carets."""

class CallError(SalientError):
    """Arrays or weights do not fit the model; the message names every one of them."""

class RunError(SalientError):
    """The model has no value on this data, or there is no code or memory for it."""

@final
class Model:
    """A compiled model with its weights. Call it with arrays; any number of threads may."""

    def __call__(self, *args: Any, out: Any = None, **inputs: Any) -> Any:
        """Run the model.

        Inputs are given by position or by name: arrays of NumPy, tensors of torch, or anything with ``__dlpack__``. They are
        read where they lie if they are contiguous and of the dtype that the model declares. A model with a single result
        gives an array; one with several a dictionary of them by name. Results are in the kind of array that was given, or
        written to ``out``: an array, or a dictionary of them. States begin with zeros, and are not kept: see :meth:`step`.
        """

    def step(self, *args: Any, **inputs: Any) -> Any:
        """Run one step of a model with states, which begins with what the step before left."""

    def reset(self) -> None:
        """Forget the states: the next step begins with zeros."""

    def with_weights(
        self,
        weights: Union[str, "os.PathLike[str]", Mapping[str, Any]],
        prefix: str = "",
        seed: Optional[int] = None,
    ) -> "Model":
        """The same code with other weights."""

    def backward(self) -> "Model":
        """The backward pass: a model of the same inputs and parameters and of the cotangents of its results, which gives its
        results and the gradients by inputs and parameters. The cotangent of a result `y` and the gradient by an input `x` are
        called `d_y` and `d_x`."""

    def ir(self, stage: str = "fused") -> str:
        """The model as text on its way to machine code: ``source``, ``graph``, ``fused``, ``plan``, ``kernels``, ``memory``,
        ``clif`` or ``asm``."""

    def plan(self) -> str:
        """What is stored, and the kernels that store it."""

    def memory(self, **sizes: int) -> str:
        """How much memory a call works in, beside inputs, weights and results: formulas of the dimensions that are not given."""

    def explain(self, node: Optional[str] = None) -> str:
        """What was fused, by which rules, and why what was not was not; `node` says of which value alone."""

    def svg(self, stage: str = "plan") -> str:
        """The picture of a stage (``graph``, ``fused`` or ``plan``) as SVG."""

    def _seconds(self, count: int, args: Tuple[Any, ...]) -> float:
        """Seconds that a call takes without what Python adds to it, on average of so many: for measurements."""
    def _addresses(self, args: Tuple[Any, ...]) -> List[int]:
        """Where the elements lie that a call with these inputs reads: for tests."""
    def _repr_html_(self) -> str:
        """What notebooks show: the fused program, the certificate, the picture of the plan, and the masks of attentions."""
    @property
    def name(self) -> str:
        """The name of the model in the source."""
    @property
    def inputs(self) -> Dict[str, str]:
        """The inputs, by name: dtype and the dimensions of the shape, as text."""
    @property
    def parameters(self) -> Dict[str, str]:
        """The parameters, by path: dtype and the dimensions of the shape, as text."""
    @property
    def outputs(self) -> Dict[str, str]:
        """The results, by name: dtype and the dimensions of the shape, as text."""
    @property
    def weights(self) -> Dict[str, Any]:
        """The weights that the model was given, by path: copies. Those of `in_blocks` are not among them."""
    @property
    def in_blocks(self) -> List[str]:
        """The paths of the weights that the checkpoint stores in blocks of few bits, and that calls read in that form."""
    @property
    def states(self) -> Dict[str, Any]:
        """The states after the last step, by path: copies. Empty before the first."""
    @property
    def warnings(self) -> str:
        """What the source is warned of, with the lines; empty if there is nothing."""

@final
class Tokenizer:
    """A tokenizer of a ``tokenizer.json`` or of a GGUF file."""

    def __new__(cls, path: Union[str, "os.PathLike[str]"], max_tokens: Optional[int] = None) -> "Tokenizer":
        """Read a file. Texts are cut to `max_tokens`; if it is not given, as the file says."""

    def encode(self, texts: Sequence[str]) -> List[List[int]]:
        """The tokens of each text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some tokens."""

def compile(
    files: Sequence[Tuple[str, str]],
    path: Optional[str],
    model: Optional[str],
    sizes: Sequence[Tuple[str, str]],
    weights: Union[None, str, "os.PathLike[str]", Mapping[str, Any]],
    prefix: str,
    seed: Optional[int],
    threads: Optional[int],
) -> Model:
    """What `salient.compile` calls."""

def command_line(arguments: List[str]) -> int:
    """Run the command line on its arguments, the first of which is the program's name, and give its exit code."""
