"""Records what transformers computes with small random models, one archive for each program of examples/models; what our
own code in translation.py computes, for the program of which transformers has no model.

    python tiny.py FOLDER [NAME ...]

An archive holds inputs (`in.NAME`), parameters (`param.PATH`, as the published checkpoint of the architecture names and
stores them) and outputs (`out.NAME`). The sizes are those of the table in tests/tests/models.rs."""

import sys

import numpy as np
import torch
import transformers

torch.manual_seed(1)


def drawn(model):
    """The model with parameters that are nowhere the ones and zeros of fresh norms and biases."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.2)
            if "norm" in name.lower() or "ln_" in name:
                parameter.add_(1.0 if name.endswith("weight") else 0.0)
    return model.eval()


def minilm():
    config = transformers.BertConfig(
        vocab_size=50, max_position_embeddings=16, hidden_size=24, num_attention_heads=3, intermediate_size=40,
        num_hidden_layers=2, layer_norm_eps=1e-12, hidden_act="gelu",
    )
    model = drawn(transformers.BertModel(config, add_pooling_layer=False))
    ids = torch.randint(1, 50, (3, 11))
    keep = torch.ones(3, 11, dtype=torch.bool)
    keep[1, 7:] = False
    keep[2, 1:] = False
    hidden = model(input_ids=ids, attention_mask=keep.long()).last_hidden_state
    kept = keep[..., None].float()
    pooled = (hidden * kept).sum(1) / kept.sum(1)
    return {"ids": ids, "keep": keep}, model.state_dict(), {"embedding": torch.nn.functional.normalize(pooled, dim=-1)}


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=24, n_head=3, n_layer=2, layer_norm_epsilon=1e-5
    )
    model = drawn(transformers.GPT2LMHeadModel(config))
    ids = torch.randint(0, 50, (2, 11))
    state = {n.removeprefix("transformer."): p for n, p in model.state_dict().items() if n != "lm_head.weight"}
    return {"ids": ids}, state, {"logits": model(ids).logits}


def llama():
    from smollm2 import LAYER_NAMES, pair

    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
    )
    model = drawn(transformers.LlamaForCausalLM(config))
    ids = torch.randint(0, 50, (2, 11))
    parts = {theirs: ours for ours, theirs in LAYER_NAMES.items()}
    state = {}
    for name, parameter in model.state_dict().items():
        words = name.split(".")
        if words[1] == "layers":
            part = parts[".".join(words[3:-1])]
            if part in ("attn_q", "attn_k"):
                parameter = torch.tensor(pair(parameter.numpy(), 6 if part == "attn_q" else 2))
            state[f"blk.{words[2]}.{part}.weight"] = parameter
    state["token_embd.weight"] = model.model.embed_tokens.weight
    state["output_norm.weight"] = model.model.norm.weight
    return {"ids": ids}, state, {"logits": model(ids).logits}


def vit():
    config = transformers.ViTConfig(
        image_size=12, patch_size=4, num_channels=3, hidden_size=24, num_attention_heads=3, intermediate_size=40,
        num_hidden_layers=2, layer_norm_eps=1e-12, hidden_act="gelu", num_labels=7,
    )
    model = drawn(transformers.ViTForImageClassification(config))
    pixels = torch.randn(2, 3, 12, 12)
    # Newer versions of transformers rename what they load; the published checkpoints have these names.
    published = {
        "vit.layers.": "vit.encoder.layer.",
        "attention.q_proj": "attention.attention.query",
        "attention.k_proj": "attention.attention.key",
        "attention.v_proj": "attention.attention.value",
        "attention.o_proj": "attention.output.dense",
        "mlp.fc1": "intermediate.dense",
        "mlp.fc2": "output.dense",
    }
    state = {}
    for name, parameter in model.state_dict().items():
        for newer, name_of_file in published.items():
            name = name.replace(newer, name_of_file)
        state[name] = parameter
    return {"pixels": pixels}, state, {"logits": model(pixels).logits}


def t5():
    config = transformers.T5Config(
        vocab_size=50, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_decoder_layers=2, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=20, feed_forward_proj="relu",
        layer_norm_epsilon=1e-6, tie_word_embeddings=True,
    )
    model = drawn(transformers.T5ForConditionalGeneration(config))
    src, tgt = torch.randint(1, 50, (2, 13)), torch.randint(1, 50, (2, 9))
    keep = torch.ones(2, 13, dtype=torch.bool)
    keep[1, 8:] = False
    out = model(input_ids=src, attention_mask=keep.long(), decoder_input_ids=tgt)
    doubled = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    state = {n: p for n, p in model.state_dict().items() if n not in doubled}
    return {"src": src, "keep": keep, "tgt": tgt}, state, {
        "memory": out.encoder_last_hidden_state, "logits": out.logits,
    }


def translation():
    from translation import Transformer

    model = drawn(Transformer())
    src, tgt = torch.randint(1, 50, (2, 13)), torch.randint(1, 50, (2, 9))
    keep = torch.ones(2, 13, dtype=torch.bool)
    keep[1, 8:] = False
    memory = model.encode(src, keep)
    return {"src": src, "keep": keep, "tgt": tgt}, model.state_dict(), {
        "memory": memory, "logits": model.decode(memory, keep, tgt),
    }


MODELS = {f.__name__: f for f in (minilm, gpt2, llama, vit, t5, translation)}


def main():
    folder, *names = sys.argv[1:]
    for name in names or MODELS:
        with torch.no_grad():
            inputs, state, outputs = MODELS[name]()
        arrays = {f"in.{n}": a for n, a in inputs.items()}
        arrays |= {f"param.{n}": a for n, a in state.items() if "position_ids" not in n}
        arrays |= {f"out.{n}": a for n, a in outputs.items()}
        np.savez_compressed(f"{folder}/{name}.npz", **{n: a.detach().numpy() for n, a in arrays.items()})
        print(name, {n: tuple(a.shape) for n, a in outputs.items()})


if __name__ == "__main__":
    main()
