"""Group E: a token at a time, with a cache of keys and values.

GPT-2, random weights, the token after 512 held positions: beside PyTorch with a cache written in place and ONNX Runtime with
its own operator for a shared cache. SmolLM2-135M from its Q4_1 file, the tokens of greedy text: beside llama.cpp; needs
`weights/SmolLM2-135M-Instruct.Q4_1.gguf` (tools/fetch-models.sh) and the package llama-cpp-python."""

import json
import os
import subprocess
import tempfile
import time

from common import HERE, Call, Salient, compare, listed, np, options, ort_session, plain_call, race, torch_arrays

LAYERS, WIDTH, HEADS, HELD, VOCABULARY, POSITIONS = 12, 768, 12, 512, 50257, 1024
SMOLLM2 = os.path.join(HERE, "../../weights/SmolLM2-135M-Instruct.Q4_1.gguf")
QUESTION = "Explain why the sky is blue."
TOKENS = 64


def draw_gpt2():
    """Weights by the checkpoint's names, [in, out]; keys and values of the held positions."""
    rng = np.random.default_rng(3)
    draw = lambda *shape: 0.02 * rng.standard_normal(shape, dtype=np.float32)  # noqa: E731
    weights = {"wte.weight": draw(VOCABULARY, WIDTH), "wpe.weight": draw(POSITIONS, WIDTH)}
    states = {}
    norms = ["ln_f"]
    for layer in (f"h.{n}" for n in range(LAYERS)):
        norms += [f"{layer}.ln_1", f"{layer}.ln_2"]
        products = {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1), "mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1)}
        for name, (i, o) in products.items():
            weights[f"{layer}.{name}.weight"] = draw(i * WIDTH, o * WIDTH)
            weights[f"{layer}.{name}.bias"] = draw(o * WIDTH)
        for name in ("keys", "values"):
            states[f"{layer}.attn.{name}"] = 50 * draw(1, HEADS, HELD, WIDTH // HEADS)
    for name in norms:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = 1 + draw(WIDTH), draw(WIDTH)
    return weights, states


def gpt2(name):
    weights, states = draw_gpt2()
    ids = np.array([[4242]])
    flops = LAYERS * (2 * 12 * WIDTH**2 + 4 * (HELD + 1) * WIDTH) + 2 * WIDTH * VOCABULARY
    room = {n: np.concatenate([a, np.zeros((1, HEADS, 8, WIDTH // HEADS), np.float32)], 2) for n, a in states.items()}

    def torch_step():
        """The step as a PyTorch user writes it for speed: weights as [out, in], the cache's rows written in place."""
        import torch
        from torch.nn import functional

        turned = {n: a.T.copy() if a.ndim == 2 and n.startswith("h.") else a for n, a in weights.items()}
        w = dict(zip(turned, torch_arrays(*turned.values())))
        cache = dict(zip(room, torch_arrays(*(a.copy() for a in room.values()))))
        norm = lambda x, n: functional.layer_norm(x, (WIDTH,), w[f"{n}.weight"], w[f"{n}.bias"])  # noqa: E731
        linear = lambda x, n: functional.linear(x, w[f"{n}.weight"], w[f"{n}.bias"])  # noqa: E731

        def step(ids):
            x = w["wte.weight"][ids[0]] + w["wpe.weight"][HELD]
            for layer in (f"h.{n}" for n in range(LAYERS)):
                qkv = linear(norm(x, f"{layer}.ln_1"), f"{layer}.attn.c_attn")
                q, k, v = qkv.view(1, 3, HEADS, 1, WIDTH // HEADS).unbind(1)
                keys, values = cache[f"{layer}.attn.keys"], cache[f"{layer}.attn.values"]
                keys[:, :, HELD : HELD + 1], values[:, :, HELD : HELD + 1] = k, v
                y = functional.scaled_dot_product_attention(q, keys[:, :, : HELD + 1], values[:, :, : HELD + 1])
                x = x + linear(y.transpose(1, 2).reshape(1, WIDTH), f"{layer}.attn.c_proj")
                y = linear(norm(x, f"{layer}.ln_2"), f"{layer}.mlp.c_fc")
                x = x + linear(functional.gelu(y, approximate="tanh"), f"{layer}.mlp.c_proj")
            return functional.linear(norm(x, "ln_f"), w["wte.weight"])

        return step

    def torch_eager():
        return plain_call(torch_step(), *torch_arrays(ids))

    def torch_compiled():
        import torch

        arrays = torch_arrays(ids)
        return plain_call(torch.compile(torch_step()), *arrays)

    def ort():
        """GroupQueryAttention with as many groups as heads: past and present are the same memory."""
        import onnxruntime

        session = ort_session(ort_model(weights))
        binding = session.io_binding()
        binding.bind_cpu_input("ids", ids)
        held = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a.copy()) for n, a in room.items()}
        for n, value in held.items():
            binding.bind_ortvalue_input(n, value)
        binding.bind_output("logits")
        for n, value in held.items():
            binding.bind_ortvalue_output(f"{n}.present", value)

        def call():
            session.run_with_iobinding(binding)
            return binding.get_outputs()[0].numpy()

        return Call(call)

    def salient():
        held = {n: np.ascontiguousarray(a.transpose(2, 0, 1, 3)) for n, a in states.items()}  # what grows comes first
        return Salient("../../examples/models/gpt2.attn", "gpt2", {"ids": ids, **held}, weights, request="steps")

    compare("E", name, {make.__name__: make for make in (torch_eager, torch_compiled, ort, salient)}, flops)


def ort_model(weights):
    """The path of an ONNX file of the step; its weights lie beside it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    folder = tempfile.mkdtemp()
    length = HELD + 8
    nodes = []
    constants = dict(weights, head=weights["wte.weight"].T.copy(), at=np.int64(HELD))
    constants |= {"last": np.array([HELD], np.int32), "total": np.array(HELD + 1, np.int32)}

    def node(op, inputs, output, domain="", **attributes):
        outputs = output if isinstance(output, list) else [output]
        nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def norm(x, name):
        return node("LayerNormalization", [x, f"{name}.weight", f"{name}.bias"], f"{name}.out", epsilon=1e-5)

    def linear(x, name):
        return node("Add", [node("MatMul", [x, f"{name}.weight"], f"{name}.product"), f"{name}.bias"], f"{name}.out")

    x = node("Add", [node("Gather", ["wte.weight", "ids"], "tokens"), node("Gather", ["wpe.weight", "at"], "position")], "x")
    for layer in (f"h.{n}" for n in range(LAYERS)):
        qkv = linear(norm(x, f"{layer}.ln_1"), f"{layer}.attn.c_attn")
        states = [f"{layer}.attn.{n}" for n in ("keys", "values")]
        y = node(
            "GroupQueryAttention", [qkv, "", "", *states, "last", "total"], [f"{layer}.attention", *(f"{n}.present" for n in states)],
            domain="com.microsoft", num_heads=HEADS, kv_num_heads=HEADS,
        )
        x = node("Add", [x, linear(y, f"{layer}.attn.c_proj")], f"{layer}.middle")
        y = node("Gelu", [linear(norm(x, f"{layer}.ln_2"), f"{layer}.mlp.c_fc")], f"{layer}.gelu", approximate="tanh")
        x = node("Add", [x, linear(y, f"{layer}.mlp.c_proj")], f"{layer}.out")
    node("MatMul", [norm(x, "ln_f"), "head"], "logits")
    info = lambda n, shape, kind=TensorProto.FLOAT: helper.make_tensor_value_info(n, kind, shape)  # noqa: E731
    caches = [f"h.{n}.attn.{kind}" for n in range(LAYERS) for kind in ("keys", "values")]
    held = [1, HEADS, length, WIDTH // HEADS]
    inputs = [info("ids", [1, 1], TensorProto.INT64), *(info(n, held) for n in caches)]
    outputs = [info("logits", [1, 1, VOCABULARY]), *(info(f"{n}.present", held) for n in caches)]
    values = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "gpt2", inputs, outputs, values)
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    path = os.path.join(folder, "gpt2.onnx")
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    onnx.save_model(model, path, save_as_external_data=True, location="gpt2.weights")
    return path


class Generate:
    """`salient generate`: a process a turn, which says itself how long its tokens took."""

    def __init__(self):
        model = os.path.join(HERE, "../../examples/models/llama.attn")
        self.words = [options.salient, "generate", model, "--model", "llama", "--weights", SMOLLM2, "--chat", QUESTION]
        self.words += ["--max-tokens", str(TOKENS), "--threads", str(options.threads), "--json"]
        self.prompt = self.report()["prompt_ids"]

    def report(self):
        return json.loads(subprocess.run(self.words, check=True, capture_output=True, text=True).stdout)

    def turn(self, _):
        report = self.report()
        # The first token comes from the prompt.
        return [report["decode_ms"] / (len(report["ids"]) - 1)]


class LlamaCpp:
    def __init__(self, prompt):
        import llama_cpp

        threads = {"n_threads": options.threads, "n_threads_batch": options.threads}
        self.model = llama_cpp.Llama(SMOLLM2, n_ctx=512, verbose=False, **threads)
        self.prompt = prompt

    def turn(self, _):
        self.model.reset()
        self.model.eval(self.prompt)
        start = time.perf_counter()
        for _ in range(TOKENS):
            self.model.eval([self.model.sample(temp=0.0)])
        return [(time.perf_counter() - start) * 1e3 / TOKENS]


def smollm2(name):
    if listed(name):
        salient = Generate()
        race("E", name, {"llama_cpp": LlamaCpp(salient.prompt), "salient": salient})


gpt2("gpt2_token_at_512")
smollm2("smollm2_q4_1_token")
