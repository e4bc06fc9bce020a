"""Models of transformers with the attention of Salient give what they give with their own."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
import salient.torch  # noqa: E402

SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=101)
GROUPED = dict(SMALL, num_key_value_heads=2, max_position_embeddings=64)


def _configs():
    t = transformers
    gpt = dict(n_embd=64, n_layer=2, n_head=4, vocab_size=101, n_positions=64, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)
    encoder = dict(SMALL, attention_probs_dropout_prob=0.0)
    yield "bert", lambda: t.BertConfig(**encoder), t.BertModel
    yield "roberta", lambda: t.RobertaConfig(**encoder), t.RobertaModel
    yield "gpt2", lambda: t.GPT2Config(**gpt), t.GPT2LMHeadModel
    yield "llama", lambda: t.LlamaConfig(**GROUPED), t.LlamaForCausalLM
    yield "qwen2", lambda: t.Qwen2Config(**GROUPED), t.Qwen2ForCausalLM
    yield "qwen3", lambda: t.Qwen3Config(**GROUPED, head_dim=16), t.Qwen3ForCausalLM
    yield "mistral", lambda: t.MistralConfig(**GROUPED, sliding_window=4), t.MistralForCausalLM
    yield "gemma2", lambda: t.Gemma2Config(
        **GROUPED, head_dim=16, sliding_window=4, attn_logit_softcapping=5.0, query_pre_attn_scalar=16
    ), t.Gemma2ForCausalLM
    yield "phi3", lambda: t.Phi3Config(**GROUPED, pad_token_id=0), t.Phi3ForCausalLM
    yield "vit", lambda: t.ViTConfig(**{k: v for k, v in encoder.items() if k != "vocab_size"}, image_size=32, patch_size=8), t.ViTModel
    yield "t5", lambda: t.T5Config(
        d_model=64, d_ff=96, num_layers=2, num_heads=4, d_kv=16, vocab_size=101, dropout_rate=0.0, decoder_start_token_id=0
    ), t.T5ForConditionalGeneration


FAMILIES = {name: (config, kind) for name, config, kind in _configs()}
DECODERS = ["gpt2", "llama", "qwen2", "qwen3", "mistral", "gemma2", "phi3"]


def _pair(family):
    """The same model twice: with its own attention and with ours."""
    config, kind = FAMILIES[family]
    torch.manual_seed(3)
    eager = kind._from_config(config(), attn_implementation="eager").eval()
    ours = kind._from_config(config(), attn_implementation="salient").eval()
    ours.load_state_dict(eager.state_dict())
    assert ours.config._attn_implementation == "salient"
    return eager, ours


def _main(output):
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


def _agree(eager, ours, count, keep=None):
    """Whether positions that count agree; and ours was called so many times."""
    a, b = _main(eager), _main(ours)
    if keep is not None and a.shape[:2] == keep.shape:
        a, b = a[keep.bool()], b[keep.bool()]
    torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-5)
    assert count > 0, "the attention was not called"


@pytest.fixture
def calls(monkeypatch):
    """How often the attention was called."""
    made = []
    original = salient.torch.attention_forward

    def counted(*args, **named):
        made.append(1)
        return original(*args, **named)

    transformers.AttentionInterface.register("salient", counted)
    yield made
    transformers.AttentionInterface.register("salient", original)


@pytest.mark.parametrize("side", ["none", "right", "left"])
@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("vit", "t5")])
def test_with_padding(family, side, calls):
    eager, ours = _pair(family)
    ids = torch.randint(3, 101, (2, 11))
    keep = torch.ones(2, 11, dtype=torch.long)
    if side != "none":
        keep[1, slice(0, 4) if side == "left" else slice(7, None)] = 0
    with torch.no_grad():
        a, b = eager(input_ids=ids, attention_mask=keep), ours(input_ids=ids, attention_mask=keep)
    _agree(a, b, len(calls), keep)


@pytest.mark.parametrize("family", DECODERS)
def test_with_a_cache(family, calls):
    eager, ours = _pair(family)
    ids = torch.randint(3, 101, (2, 12))
    keep = torch.ones(2, 12, dtype=torch.long)
    keep[1, :3] = 0
    caches = [None, None]
    for start, end in [(0, 7), (7, 8), (8, 9), (9, 12)]:
        results = []
        for at, model in enumerate((eager, ours)):
            with torch.no_grad():
                out = model(
                    input_ids=ids[:, start:end], attention_mask=keep[:, :end], past_key_values=caches[at], use_cache=True
                )
            caches[at] = out.past_key_values
            results.append(out)
        _agree(*results, len(calls), keep[:, start:end])


def test_an_encoder_of_images(calls):
    eager, ours = _pair("vit")
    pixels = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        _agree(eager(pixels), ours(pixels), len(calls))


def test_an_encoder_and_a_decoder(calls):
    eager, ours = _pair("t5")
    ids, target = torch.randint(3, 101, (2, 9)), torch.randint(3, 101, (2, 5))
    keep = torch.ones(2, 9, dtype=torch.long)
    keep[1, 6:] = 0
    with torch.no_grad():
        results = [m(input_ids=ids, attention_mask=keep, decoder_input_ids=target) for m in (eager, ours)]
    _agree(*results, len(calls))


def test_text_is_generated_the_same():
    eager, ours = _pair("llama")
    ids = torch.randint(3, 101, (1, 6))
    options = dict(max_new_tokens=8, do_sample=False, pad_token_id=0)
    assert torch.equal(eager.generate(ids, **options), ours.generate(ids, **options))


def test_what_cannot_be_taken_is_said():
    _, ours = _pair("llama")
    with pytest.raises(NotImplementedError, match="float32"):
        ours.to(torch.float64)(input_ids=torch.randint(3, 101, (1, 4)))
    layer = torch.nn.Identity()
    q = torch.randn(1, 2, 3, 4)
    with pytest.raises(NotImplementedError, match="s_aux"):
        salient.torch.attention_forward(layer, q, q, q, None, s_aux=torch.zeros(2))
    with pytest.raises(NotImplementedError, match="drop"):
        salient.torch.attention_forward(layer.train(), q, q, q, None, dropout=0.1)
