"""Records what transformers computes from SmolLM2's GGUF file, widened to float32: logits of a prompt, and greedy text.

    python smollm2.py WEIGHTS_FOLDER OUT.npz

Writes `ids` (the prompt's tokens), `logits` (of its last position), and `greedy` (the 64 tokens that follow)."""

import sys

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import gguf_file

PROMPT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nExplain in a few sentences why the sky is blue.<|im_end|>\n<|im_start|>assistant\n"
)


# Parts of a layer: their names in the file, and in transformers.
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def pair(weight, heads):
    """The reverse of `unpair`."""
    rows, width = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


def unpair(weight, heads):
    """Rows of a query or key projection from the file's order (2 m, 2 m + 1) to that of transformers (m, m + E / 2)."""
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def model(folder):
    metadata, tensors = gguf_file.read(f"{folder}/SmolLM2-135M-Instruct.Q4_1.gguf")
    key = lambda name: metadata[f"llama.{name}"]
    heads, groups = key("attention.head_count"), key("attention.head_count_kv")
    config = LlamaConfig(
        vocab_size=key("vocab_size"),
        hidden_size=key("embedding_length"),
        intermediate_size=key("feed_forward_length"),
        num_hidden_layers=key("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=groups,
        max_position_embeddings=key("context_length"),
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": key("rope.freq_base")},
        tie_word_embeddings=True,
    )
    state = {}
    for name, array in tensors.items():
        if name.startswith("blk."):
            _, layer, part, _ = name.split(".")
            if part in ("attn_q", "attn_k"):
                array = unpair(array, heads if part == "attn_q" else groups)
            state[f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"] = torch.tensor(array.copy())
        else:
            state[{"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]] = (
                torch.tensor(array.copy())
            )
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    made = LlamaForCausalLM(config).eval()
    made.load_state_dict(state)
    return metadata, made


def tokenizer(metadata):
    """The byte-level BPE of the file: digits apart, then GPT-2's expression."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in metadata["tokenizer.ggml.merges"]]
    made = Tokenizer(BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    made.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, metadata["tokenizer.ggml.token_type"]) if kind == 3]
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return made


def main():
    folder, out = sys.argv[1:]
    torch.set_num_threads(2)
    metadata, made = model(folder)
    words = tokenizer(metadata)
    ids = words.encode(PROMPT).ids
    with torch.no_grad():
        logits = made(torch.tensor([ids])).logits[0, -1].numpy()
        text = made.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
            max_new_tokens=64, min_new_tokens=64, pad_token_id=2
        )
    greedy = text[0, len(ids) :].numpy()
    print(len(ids), words.decode(greedy.tolist()))
    np.savez_compressed(out, ids=np.array(ids), logits=logits, greedy=greedy)


if __name__ == "__main__":
    main()
