//! The tokenizer inside a GGUF file: byte-level BPE in the manner of GPT-2.
//!
//! Keys: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. How a text is split before merging is named by
//! `tokenizer.ggml.pre` and not described in the file; the table below has the splits of the names that are read, as
//! llama.cpp and the models' own `tokenizer.json` define them. SentencePiece (`llama`) and WordPiece (`bert`) are not
//! read from this format: such models come with a `tokenizer.json`.

use crate::tokenizer::Tokenizer;
use salient::Metadata;
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior};

/// How a text is split into words before merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    /// By GPT-2's expression.
    Gpt2,
    /// Digits one by one, then by GPT-2's expression.
    DigitsThenGpt2,
    /// By an expression of its own.
    By(&'static str),
}

/// Llama 3's expression: numbers by up to three digits.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Qwen 2's: numbers digit by digit.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The values of `tokenizer.ggml.pre` that are read.
const SPLITS: [(&str, Words); 6] = [
    ("default", Words::Gpt2),
    ("gpt-2", Words::Gpt2),
    ("smollm", Words::DigitsThenGpt2),
    ("starcoder", Words::DigitsThenGpt2),
    ("llama-bpe", Words::By(LLAMA3)),
    ("qwen2", Words::By(QWEN2)),
];

/// Types of tokens in `tokenizer.ggml.token_type`.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;

/// The tokenizer that metadata describe; the error is a sentence about the file.
pub(crate) fn tokenizer(metadata: &[(String, Metadata)]) -> Result<Tokenizer, String> {
    let get = |key: &str| metadata.iter().find(|(known, _)| known == key).map(|(_, value)| value);
    let own = |key: &str| get(&format!("tokenizer.ggml.{key}"));
    let kind = own("model").and_then(Metadata::as_str).ok_or("holds no tokenizer")?;
    if kind != "gpt2" {
        return Err(format!(
            "its tokenizer is of the kind `{kind}`, only `gpt2` is read from GGUF; give the model's tokenizer.json"
        ));
    }
    let texts = |key: &str| -> Result<Vec<&str>, String> {
        let malformed = || format!("its tokenizer has no list of texts `tokenizer.ggml.{key}`");
        let values = own(key).and_then(Metadata::as_slice).ok_or_else(malformed)?;
        values.iter().map(|v| v.as_str().ok_or_else(malformed)).collect()
    };
    let tokens = texts("tokens")?;
    let merges = texts("merges")?.into_iter().map(|merge| {
        let halves = merge
            .split_once(' ')
            .ok_or_else(|| format!("its tokenizer has the merge `{merge}` of one part"))?;
        Ok((halves.0.to_owned(), halves.1.to_owned()))
    });
    let merges = merges.collect::<Result<Vec<_>, String>>()?;
    let named = own("pre").and_then(Metadata::as_str).unwrap_or("default");
    let words = SPLITS.iter().find(|(name, _)| *name == named).map(|&(_, words)| words).ok_or_else(|| {
        let known: Vec<&str> = SPLITS.iter().map(|(name, _)| *name).collect();
        format!("its tokenizer splits words as `{named}`; known are {}", known.join(", "))
    })?;

    let numbered = || tokens.iter().zip(0u32..);
    let vocabulary = numbered().map(|(token, id)| ((*token).to_owned(), id));
    let vocabulary = vocabulary.collect::<std::collections::HashMap<_, _>>().into_iter().collect();
    let bpe = BPE::builder().vocab_and_merges::<tokenizers::models::bpe::Vocab>(vocabulary, merges).build();
    let mut inner = tokenizers::Tokenizer::new(bpe.map_err(|e| format!("its tokenizer is malformed: {e}"))?);
    inner.with_pre_tokenizer(Some(split(words)?));
    inner.with_decoder(Some(ByteLevel::default()));

    let types = own("token_type").and_then(Metadata::as_slice).unwrap_or_default();
    let of_type = |wanted: u64| {
        let is = move |kind: &Metadata| kind.as_u64() == Some(wanted);
        tokens.iter().zip(types).filter(move |(_, kind)| is(kind)).map(|(token, _)| (*token).to_owned())
    };
    let added = |token: String, special: bool| AddedToken::from(token, special).normalized(false);
    let refused = |e: tokenizers::Error| format!("its tokenizer is malformed: {e}");
    inner.add_special_tokens(of_type(CONTROL).map(|t| added(t, true))).map_err(refused)?;
    inner.add_tokens(of_type(USER_DEFINED).map(|t| added(t, false))).map_err(refused)?;

    let id = |key: &str| -> Result<Option<u32>, String> {
        let Some(value) = own(key) else { return Ok(None) };
        let id = value.as_u64().filter(|id| *id < tokens.len() as u64).and_then(|id| u32::try_from(id).ok());
        let none = || format!("its tokenizer has {} tokens, and `{key}` is none of them", tokens.len());
        id.map(Some).ok_or_else(none)
    };
    let ends = ["eos_token_id", "eot_token_id", "eom_token_id"]
        .map(id)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let ends = ends.into_iter().flatten().collect();
    let starts = matches!(own("add_bos_token"), Some(Metadata::Bool(true)));
    let start = if starts { id("bos_token_id")? } else { None };
    let template = get("tokenizer.chat_template").and_then(Metadata::as_str).map(str::to_owned);
    Ok(Tokenizer::from_parts(inner, ends, start, template))
}

fn split(words: Words) -> Result<PreTokenizerWrapper, String> {
    let by_gpt2 = PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, true));
    let to_bytes = PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, false));
    let parts = match words {
        Words::Gpt2 => return Ok(by_gpt2),
        Words::DigitsThenGpt2 => vec![PreTokenizerWrapper::Digits(Digits::new(true)), by_gpt2],
        Words::By(expression) => {
            let pattern = SplitPattern::Regex(expression.to_owned());
            let split =
                Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(|e| e.to_string())?;
            vec![PreTokenizerWrapper::Split(split), to_bytes]
        }
    };
    Ok(PreTokenizerWrapper::Sequence(Sequence::new(parts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[&str]) -> Metadata {
        Metadata::Array(values.iter().map(|v| Metadata::Text((*v).to_owned())).collect())
    }

    /// A tokenizer of a few tokens, with these changes.
    fn metadata(changes: &[(&str, Metadata)]) -> Vec<(String, Metadata)> {
        let tokens = ["<|end|>", "a", "b", "ab", "Ġ", "Ġab", "1", "2", "12", "Ã", "©", "<tool>"];
        let types = [3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4].map(Metadata::Signed);
        let mut all = vec![
            ("tokenizer.ggml.model", Metadata::Text("gpt2".to_owned())),
            ("tokenizer.ggml.pre", Metadata::Text("gpt-2".to_owned())),
            ("tokenizer.ggml.tokens", texts(&tokens)),
            ("tokenizer.ggml.merges", texts(&["a b", "Ġ ab", "1 2"])),
            ("tokenizer.ggml.token_type", Metadata::Array(types.to_vec())),
            ("tokenizer.ggml.bos_token_id", Metadata::Unsigned(0)),
            ("tokenizer.ggml.eos_token_id", Metadata::Unsigned(0)),
            ("tokenizer.chat_template", Metadata::Text("{{ messages }}".to_owned())),
        ];
        for (key, value) in changes {
            all.retain(|(known, _)| known != key);
            all.push((key, value.clone()));
        }
        all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn ids(changes: &[(&str, Metadata)], text: &str) -> Vec<u32> {
        tokenizer(&metadata(changes)).unwrap().encode(text).unwrap().ids
    }

    #[test]
    fn texts_are_merged_and_read_back() {
        let made = tokenizer(&metadata(&[])).unwrap();
        assert_eq!(made.encode("ab ab b12").unwrap().ids, [3, 5, 4, 2, 8]);
        assert_eq!(made.encode("ab<|end|>ab").unwrap().ids, [3, 0, 3], "control tokens are one id");
        assert_eq!(made.encode("a<tool>").unwrap().ids, [1, 11]);
        assert_eq!(made.decode(&[3, 5, 0, 11]).unwrap(), "ab ab<tool>", "control tokens are not shown");
        assert_eq!((made.ends(), made.size(), made.id("<|end|>")), (&[0][..], 12, Some(0)));
        assert_eq!(made.chat_template(), Some("{{ messages }}"));
    }

    #[test]
    fn a_character_of_several_tokens_is_shown_when_it_is_whole() {
        let made = tokenizer(&metadata(&[])).unwrap();
        let mut stream = made.stream();
        let pieces: Vec<String> = [1, 9, 10, 5].iter().map(|id| stream.push(*id).unwrap()).collect();
        assert_eq!(pieces, ["a", "", "é", " ab"]);
    }

    #[test]
    fn words_are_split_as_the_file_names_it() {
        let pre = |name: &str| [("tokenizer.ggml.pre", Metadata::Text(name.to_owned()))];
        assert_eq!(ids(&pre("gpt-2"), "12"), [8]);
        assert_eq!(ids(&pre("smollm"), "12"), [6, 7]);
        assert_eq!(ids(&pre("llama-bpe"), "12 ab"), [8, 5]);
        assert_eq!(ids(&pre("qwen2"), "12"), [6, 7]);
        let start = ("tokenizer.ggml.add_bos_token", Metadata::Bool(true));
        assert_eq!(ids(std::slice::from_ref(&start), "ab"), [0, 3]);
        assert_eq!(ids(&[start], "<|end|>ab"), [0, 3], "there is one already");
    }

    #[test]
    fn what_is_not_read_is_named() {
        let refused = |key: &'static str, value: Metadata| tokenizer(&metadata(&[(key, value)])).unwrap_err();
        let text = |text: &str| Metadata::Text(text.to_owned());
        assert_eq!(tokenizer(&[]).unwrap_err(), "holds no tokenizer");
        let error = refused("tokenizer.ggml.model", text("llama"));
        assert!(error.contains("of the kind `llama`") && error.contains("tokenizer.json"), "{error}");
        let error = refused("tokenizer.ggml.pre", text("klingon"));
        assert!(error.contains("splits words as `klingon`; known are default, gpt-2"), "{error}");
        let error = refused("tokenizer.ggml.tokens", Metadata::Array(vec![Metadata::Bool(true)]));
        assert_eq!(error, "its tokenizer has no list of texts `tokenizer.ggml.tokens`");
        let error = refused("tokenizer.ggml.eos_token_id", Metadata::Unsigned(12));
        assert_eq!(error, "its tokenizer has 12 tokens, and `eos_token_id` is none of them");
        let error = refused("tokenizer.ggml.merges", texts(&["ab"]));
        assert_eq!(error, "its tokenizer has the merge `ab` of one part");
        let error = refused("tokenizer.ggml.merges", texts(&["a z"]));
        assert!(error.starts_with("its tokenizer is malformed"), "{error}");
    }
}
