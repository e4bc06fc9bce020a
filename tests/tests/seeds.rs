//! The seeds and the variants: what the documents' systems and independent arithmetic computed, computed by every way of
//! running their programs.

use salient_tests::files::files_under;
use salient_tests::recorded::check;

/// A test for each name, and the list of the names.
macro_rules! programs {
    ($folder:literal: $list:ident = $($test:ident $name:literal),+ $(,)?) => {
        $(#[test] fn $test() { check($folder, $name).unwrap_or_else(|e| panic!("{e}")); })+
        const $list: &[&str] = &[$($name),+];
    };
}

programs! { "examples/seeds": SEEDS =
    cross_attention_padding "000_cross_attention_padding",
    encoder_decoder_transformer "000_encoder_decoder_transformer",
    masked_self_attention "000_masked_self_attention",
    multi_head_combined_mask "000_multi_head_combined_mask",
    self_attention "000_self_attention",
    sinusoidal_positions "000_sinusoidal_positions",
    causal_attention "001_causal_attention",
    causal_two_ways "001_causal_two_ways",
    dropout "001_dropout",
    multi_head_with_output_projection "001_multi_head",
    multi_head_wrapper "001_multi_head_wrapper",
    self_attention_v1 "001_self_attention_v1",
    self_attention_v2 "001_self_attention_v2",
    simple_attention "001_simple_attention",
    single_query "001_single_query",
    encoder_block "002_encoder_block",
    multi_head_with_biases "002_multi_head",
    additive_attention "003_additive_attention",
    attention_pooling_classifier "003_attention_pooling_classifier",
    causal_multi_head "003_causal_multi_head",
    fused_operator "003_fused_operator",
    transformer_attention_block "003_transformer_attention_block",
    encoder_layer "004_encoder_layer",
    multi_head_loop "004_multi_head_loop",
    multi_head_padding "004_multi_head_padding",
    single_head "004_single_head",
}

programs! { "examples/variants": VARIANTS =
    alibi "alibi",
    attention_sink "attention_sink",
    causal_linear_attention "causal_linear_attention",
    cross_causal_offset "cross_causal_offset",
    differential "differential",
    document_mask "document_mask",
    grouped_heads "grouped_heads",
    key_padding "key_padding",
    linear_attention "linear_attention",
    multi_query "multi_query",
    prefix_lm "prefix_lm",
    relu_attention "relu_attention",
    retention "retention",
    rope_half "rope_half",
    rope_interleaved "rope_interleaved",
    side_outputs "side_outputs",
    sigmoid_attention "sigmoid_attention",
    sliding_window "sliding_window",
    soft_cap "soft_cap",
    t5_relative_bias "t5_relative_bias",
    value_width "value_width",
    weights_and_logsumexp "weights_and_logsumexp",
}

programs! { "examples": FIRST = first_example "causal_self_attention" }

#[test]
fn every_program_has_data_and_every_data_file_a_program() {
    let names = |folder: &str, extension| -> Vec<String> {
        let files = files_under(folder, extension).into_iter().filter(|f| !f.contains('/'));
        files.map(|f| f.strip_suffix(&format!(".{extension}")).expect("has it").to_owned()).collect()
    };
    for (folder, listed) in [("examples/seeds", SEEDS), ("examples/variants", VARIANTS), ("examples", FIRST)]
    {
        assert_eq!(names(folder, "attn"), listed, "programs of {folder}");
        assert_eq!(names(&format!("{folder}/data"), "npz"), listed, "data of {folder}");
    }
    assert_eq!(SEEDS.len(), 26);
}
