//! What the tests of texts share: a tokenizer of a few words, and small models.

#![allow(dead_code, reason = "each test binary uses its own part")]

use salient::{Engine, Model, Options};
use salient_text::Tokenizer;
use std::path::PathBuf;

/// The words of the tokenizer by id; `[UNK]` is 0.
pub(crate) const WORDS: [&str; 8] = ["[UNK]", "one", "two", "three", "four", "five", "six", "seven"];

/// A `tokenizer.json` with these words, cut to so many tokens if at all.
pub(crate) fn json(longest: Option<usize>) -> String {
    let vocabulary: Vec<String> =
        WORDS.iter().enumerate().map(|(id, word)| format!("\"{word}\": {id}")).collect();
    let truncation = longest.map_or("null".to_owned(), |n| {
        format!(
            "{{\"max_length\": {n}, \"strategy\": \"LongestFirst\", \"stride\": 0, \"direction\": \"Right\"}}"
        )
    });
    format!(
        "{{\"version\": \"1.0\", \"truncation\": {truncation}, \"padding\": {{\"strategy\": {{\"Fixed\": 9}}, \
         \"direction\": \"Right\", \"pad_to_multiple_of\": null, \"pad_id\": 0, \"pad_type_id\": 0, \"pad_token\": \"[UNK]\"}}, \
         \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {{\"type\": \"Whitespace\"}}, \
         \"post_processor\": null, \"decoder\": null, \
         \"model\": {{\"type\": \"WordLevel\", \"vocab\": {{{}}}, \"unk_token\": \"[UNK]\"}}}}",
        vocabulary.join(", ")
    )
}

/// Writes a file of the tests' own; names must differ between tests, which run at once.
pub(crate) fn file(name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("the tests' folder can be written");
    path
}

pub(crate) fn tokenizer(name: &str) -> Tokenizer {
    Tokenizer::read(file(name, json(None))).unwrap()
}

pub(crate) fn model(source: &str) -> Model {
    Model::compile(source, &Options { engine: Engine::Jit, threads: Some(1), ..Options::default() }).unwrap()
}
