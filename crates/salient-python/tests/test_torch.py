"""Tensors, modules, gradients and the attention of transformers."""

import copy
import pickle
import struct

import numpy as np
import pytest
import salient

from conftest import ATTEND, LINEAR

torch = pytest.importorskip("torch", reason="torch is not installed")
import salient.torch  # noqa: E402


@pytest.fixture
def tensors(qkv):
    return [torch.from_numpy(a) for a in qkv]


def test_tensors_are_taken_and_given(attend, qkv, tensors):
    result = attend(*tensors)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), attend(*qkv))
    turned = tensors[0].T.contiguous().T
    assert torch.equal(attend(turned, *tensors[1:]), result)
    out = torch.empty(5, 8)
    before = out.data_ptr()
    assert attend(*tensors, out=out) is out and out.data_ptr() == before
    assert torch.equal(out, result)
    with pytest.raises(salient.CallError, match="in common"):
        attend(*tensors, out=tensors[0])
    with pytest.raises(TypeError, match="requires gradients"):
        attend(*tensors, out=torch.empty(5, 8, requires_grad=True))
    with pytest.raises(TypeError, match="meta"):
        attend(tensors[0].to("meta"), *tensors[1:])


def test_what_has_dlpack_is_taken(attend, qkv, tensors):
    class Other:
        """An array of a library that nobody knows."""

        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    np.testing.assert_array_equal(attend(*map(Other, tensors)), attend(*qkv))


def test_bfloat16_goes_in_and_out():
    double = salient.compile("model double(x: bf16[T]) -> (y: bf16[T]) { return x + x }")
    result = double(torch.tensor([1.0, 2.5], dtype=torch.bfloat16))
    assert result.dtype == torch.bfloat16 and result.tolist() == [2.0, 5.0]


def test_a_state_dict_is_a_mapping_of_weights():
    linear = torch.nn.Linear(3, 4)
    holder = torch.nn.Module()
    holder.out = linear
    x = torch.randn(2, 3)
    model = salient.compile(LINEAR, weights=holder.state_dict())
    torch.testing.assert_close(model(x), linear(x).detach(), rtol=1e-5, atol=1e-6)


@pytest.fixture
def linear():
    weights = {"out.weight": torch.randn(4, 3), "out.bias": torch.randn(4)}
    return salient.torch.module(LINEAR, weights=weights)


def test_a_module_has_the_parameters_of_the_model(linear):
    assert set(linear.state_dict()) == {"out.weight", "out.bias"}
    x = torch.randn(2, 3)
    want = torch.nn.functional.linear(x, linear.out.weight, linear.out.bias)
    torch.testing.assert_close(linear(x), want)
    torch.testing.assert_close(linear(x=x), want)
    for again in (copy.deepcopy(linear), pickle.loads(pickle.dumps(linear))):
        torch.testing.assert_close(again(x), want)
    with torch.no_grad():
        linear.out.bias += 1
    torch.testing.assert_close(linear(x), want + 1)
    with pytest.raises(TypeError, match="inputs x"):
        linear(x, x)
    with pytest.raises(salient.CallError, match="out.bias"):
        salient.torch.module(LINEAR, weights={"out.weight": torch.randn(4, 3)})


def test_gradients_are_those_of_torch(linear, tensors):
    x = torch.randn(2, 3, requires_grad=True)
    (linear(x) ** 2).sum().backward()
    found = [x.grad, linear.out.weight.grad, linear.out.bias.grad]
    y = x.detach().requires_grad_()
    weight, bias = (p.detach().clone().requires_grad_() for p in (linear.out.weight, linear.out.bias))
    (torch.nn.functional.linear(y, weight, bias) ** 2).sum().backward()
    for mine, want in zip(found, [y.grad, weight.grad, bias.grad]):
        torch.testing.assert_close(mine, want, rtol=1e-4, atol=1e-5)
    attend = salient.torch.module(ATTEND)
    mine = [t.clone().requires_grad_() for t in tensors]
    want = [t.clone().requires_grad_() for t in tensors]
    attend(*mine).sin().sum().backward()
    torch.nn.functional.scaled_dot_product_attention(*want).sin().sum().backward()
    for a, b in zip(mine, want):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_a_module_is_trained(linear):
    torch.manual_seed(1)
    x, y = torch.randn(64, 3), torch.randn(64, 4)
    optimiser = torch.optim.SGD(linear.parameters(), 0.1)
    losses = []
    for _ in range(20):
        loss = ((linear(x) - y) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] * 0.9


def _gguf(path, name, rows):
    """A checkpoint of one matrix, stored in blocks of eight bits: numbers of the file, the tensor, and 32 codes behind each scale."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 0)
    tensor = struct.pack("<Q", len(name)) + name.encode() + struct.pack("<IQQIQ", 2, rows.shape[1], rows.shape[0], 8, 0)
    begin = head + tensor
    blocks = b"".join(np.float16(0.5).tobytes() + block.tobytes() for block in rows.astype(np.int8).reshape(-1, 32))
    path.write_bytes(begin + b"\0" * (-len(begin) % 32) + blocks)


def test_a_module_of_weights_in_blocks_is_refused(tmp_path):
    """A call of the model reads them; a module has no tensors for them."""
    rows = np.arange(128).reshape(4, 32) - 64
    path = tmp_path / "weights.gguf"
    _gguf(path, "out.weight", rows)
    source = "model project(x: f32[T, D]) -> (y: f32[T, 4]) { return linear[4, bias = false](x) as out }"
    model = salient.compile(source, weights=path)
    assert model.in_blocks == ["out.weight"] and model.weights == {}
    x = np.ones((1, 32), np.float32)
    np.testing.assert_allclose(model(x), x @ (rows.T * 0.5).astype(np.float32), rtol=1e-2)
    with pytest.raises(salient.CallError, match=r"blocks of few bits.*: out\.weight;"):
        salient.torch.module(source, weights=path)


def test_the_operator_is_one_as_torch_wants_them(linear, tensors):
    handle = linear._handle
    parameters = [linear.out.weight.detach().requires_grad_(), linear.out.bias.detach().requires_grad_()]
    names = list(linear.model.parameters)
    parameters = [dict(zip(["out.weight", "out.bias"], parameters))[name] for name in names]
    torch.library.opcheck(torch.ops.salient.call, (handle, [torch.randn(2, 3, requires_grad=True)], parameters))
    attend = salient.torch.module(ATTEND)
    torch.library.opcheck(torch.ops.salient.call, (attend._handle, tensors, []))


def test_torch_compile_does_not_break_around_it(tensors):
    attend = salient.torch.module(ATTEND)

    def program(q, k, v):
        return attend(q * 2, k, v).relu()

    whole = torch.compile(program, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(*tensors), program(*tensors))
    longer = torch.randn(6, 8)
    torch.testing.assert_close(whole(longer, *tensors[1:]), program(longer, *tensors[1:]))
