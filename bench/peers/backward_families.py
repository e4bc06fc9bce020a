"""Group V: gradients of the families of `tests/equivalence`, each by its reference, at (B, H, T, E) = (1, 4, 512, 64) in f32.

The gradients are those by every float input, given the gradient by the result. The forward pass is a part of them, since programs say
gradients of a loss.
The peer is torch.compile of the same mathematics as written, forward and backward; FlexAttention has no backward on CPUs.
"""

import os
import re
import tempfile

from common import Call, Salient, compare, np, torch_arrays
from families import families, reference, sizes

FOLDER = tempfile.TemporaryDirectory()


def gradients_of(name, arrays):
    """A program with the gradients of a reference by its float inputs: its file."""
    text = reference(name)[1]
    inputs, result = re.search(r"^model \w+\((.*)\) -> \(y: (.*)\) \{$", text, re.M).groups()
    names = re.findall(r"(\w+): \w+\[", inputs)
    types = dict(re.findall(r"(\w+): (\w+\[[^\]]*\])", inputs))
    axes = ", ".join("abcdefgh"[: result.count(",") + 1])
    asked = [x for x in names if arrays[x].dtype == np.float32]
    outputs = ", ".join(f"d_{x}: {types[x]}" for x in asked)
    model = f"""
model gradients({inputs}, dy: {result}) -> ({outputs}) {{
    let y = {name}_spelling({", ".join(names)})
    let loss = sum[{axes}](y[{axes}] * dy[{axes}])
    return {", ".join(f"grad(loss, {x})" for x in asked)}
}}
"""
    path = os.path.join(FOLDER.name, f"{name}.attn")
    with open(path, "w") as file:
        file.write(re.sub(r"^model ", "block ", text, flags=re.M) + model)
    return path


def joined(arrays):
    """All of them in one, for the comparison: a turn makes the arrays alone."""
    return np.concatenate([np.asarray(x).reshape(-1) for x in arrays])


class AllOutputs(Salient):
    """The program under test, of which every output is compared."""

    def output(self):
        return joined(self.outputs())


class AllGradients(Call):
    """A function that returns several arrays, of which every one is compared."""

    def output(self):
        return joined(self.function())


def run(name, arrays, written, _by_flex):
    import torch

    with torch.no_grad():
        shape = written(*torch_arrays(*arrays.values())).shape
    dy = np.random.default_rng(4).standard_normal(shape, dtype=np.float32)

    def torch_compiled():
        *tensors, given = torch_arrays(*arrays.values(), dy)
        asked = [x.requires_grad_() for x in tensors if x.dtype == torch.float32]
        compiled = torch.compile(written)
        return AllGradients(lambda: torch.autograd.grad(compiled(*tensors), asked, given))

    def salient():
        return AllOutputs(gradients_of(name, arrays), "gradients", {**arrays, "dy": dy}, sets=sizes(name, arrays))

    compare("V", name, {"torch_compiled": torch_compiled, "salient": salient}, None)


for family, parts in families().items():
    run(family, *parts)
