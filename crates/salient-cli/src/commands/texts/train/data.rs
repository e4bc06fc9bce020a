//! What a model is trained on: tokens from a file, a text through a tokenizer, or rows of arrays.

use crate::output::failure::{Failure, Outcome};
use salient::{
    Array, Arrays, Batches, Data, RowBatches, TokenBatches, read_arrays, read_bytes, read_text, split_tokens,
};
use salient_text::Tokenizer;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// The most bytes of a file of tokens or text.
const MOST: u64 = 16 << 30;

/// What becomes of a text without a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Units {
    /// Each byte is a token.
    Bytes,
    /// Each character is one: numbered in the order of their codes.
    Characters,
}

/// Batches to train on, and those that are kept apart.
pub(crate) struct Examples {
    pub(crate) train: Box<dyn Batches>,
    pub(crate) kept: Option<Box<dyn Batches>>,
    /// Tokens of a batch, or rows.
    pub(crate) in_batch: usize,
    /// `tokens` or `examples`.
    pub(crate) unit: &'static str,
    /// What the data is, in words.
    pub(crate) words: String,
    /// The vocabulary of a text that was taken by characters.
    pub(crate) vocabulary: Option<Vec<char>>,
}

/// How batches are made.
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) length: Option<usize>,
    pub(crate) seed: u64,
    /// The share of the end that is kept for validation.
    pub(crate) kept: f64,
}

/// Reads the data of a run.
pub(crate) fn read(path: &Path, tokenizer: Option<&Path>, units: Units, sizes: &Sizes) -> Outcome<Examples> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match (ending, tokenizer) {
        ("npz" | "safetensors", None) => rows(path, sizes),
        ("npy", None) => {
            let arrays = read_arrays(path)?;
            let array = arrays.iter().next().map(|(_, array)| array);
            tokens(path, of_array(path, array)?, None, sizes)
        }
        ("bin", None) => tokens(path, of_words(path)?, None, sizes),
        ("npz" | "safetensors" | "npy" | "bin", Some(_)) => Err(Failure::call(format!(
            "{}: these are no text for a tokenizer: leave out --tokenizer",
            path.display()
        ))),
        (_, Some(tokenizer)) => {
            let text = read_text(path, MOST)?;
            let mut tokenizer = Tokenizer::read(tokenizer)?;
            tokenizer.truncate(None)?;
            tokens(path, tokenizer.encode(&text)?.ids, None, sizes)
        }
        (_, None) => match units {
            Units::Bytes => {
                let bytes = read_bytes(path, MOST)?;
                tokens(path, bytes.into_iter().map(u32::from).collect(), None, sizes)
            }
            Units::Characters => {
                let text = read_text(path, MOST)?;
                let mut known: Vec<char> = text.chars().collect();
                known.sort_unstable();
                known.dedup();
                let id = |c: char| known.binary_search(&c).map_or(0, |at| at as u32);
                let ids = text.chars().map(id).collect();
                tokens(path, ids, Some(known.clone()), sizes)
            }
        },
    }
}

fn tokens(path: &Path, ids: Vec<u32>, vocabulary: Option<Vec<char>>, sizes: &Sizes) -> Outcome<Examples> {
    let Some(length) = sizes.length else {
        return Err(Failure::call("say how many tokens a window has: --length N"));
    };
    let in_file = |why: salient::Error| Failure::call(format!("{}: {why}", path.display()));
    let greatest = ids.iter().max().map_or(0, |id| *id as usize + 1);
    let words = match &vocabulary {
        Some(known) => format!("{} characters, {} different ones", ids.len(), known.len()),
        None => format!("{} tokens, ids below {greatest}", ids.len()),
    };
    let of = |tokens: Arc<[u32]>| {
        let batches = TokenBatches::new(tokens, sizes.batch, length, sizes.seed);
        batches.map(|batches| Box::new(batches) as Box<dyn Batches>).map_err(in_file)
    };
    let (train, kept) = if sizes.kept > 0.0 {
        let [train, kept] = split_tokens(&ids, sizes.kept, length).map_err(in_file)?;
        (of(train)?, Some(of(kept)?))
    } else {
        (of(ids.into())?, None)
    };
    Ok(Examples { train, kept, in_batch: sizes.batch * length, unit: "tokens", words, vocabulary })
}

fn rows(path: &Path, sizes: &Sizes) -> Outcome<Examples> {
    let in_file = |why: salient::Error| Failure::call(format!("{}: {why}", path.display()));
    let arrays: Arrays = read_arrays(path)?;
    let count = arrays.iter().next().and_then(|(_, array)| array.shape().first().copied()).unwrap_or(0);
    let all = RowBatches::new(arrays, sizes.batch, sizes.seed).map_err(in_file)?;
    let (train, kept): (RowBatches, Option<Box<dyn Batches>>) = if sizes.kept > 0.0 {
        let (train, kept) = all.split(sizes.kept).map_err(in_file)?;
        (train, Some(Box::new(kept)))
    } else {
        (all, None)
    };
    let words = format!("{count} examples");
    let train = Box::new(train);
    Ok(Examples { train, kept, in_batch: sizes.batch, unit: "examples", words, vocabulary: None })
}

/// The ids of an array of whole numbers.
fn of_array(path: &Path, array: Option<&Array>) -> Outcome<Vec<u32>> {
    let refused = |why: String| Failure::call(format!("{}: {why}", path.display()));
    let id = |n: i64| u32::try_from(n).map_err(|_| refused(format!("{n} is no id of a token")));
    match array.map(Array::data) {
        Some(Data::I64(values)) => values.iter().map(|n| id(*n)).collect(),
        Some(Data::I32(values)) => values.iter().map(|n| id(i64::from(*n))).collect(),
        Some(Data::F32(_) | Data::F16(_) | Data::BF16(_) | Data::Bool(_)) | None => {
            Err(refused("tokens are an array of whole numbers".to_owned()))
        }
    }
}

/// The ids of a file of 16-bit numbers, least byte first.
fn of_words(path: &Path) -> Outcome<Vec<u32>> {
    let bytes = read_bytes(path, MOST)?;
    if bytes.len() % 2 != 0 {
        return Err(Failure::call(format!(
            "{}: {} bytes are no tokens of two bytes each",
            path.display(),
            bytes.len()
        )));
    }
    Ok(bytes.chunks_exact(2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]]))).collect())
}

/// A tokenizer.json of single characters, for `generate` and for other texts.
pub(crate) fn character_tokenizer(vocabulary: &[char]) -> String {
    let ids: serde_json::Map<String, serde_json::Value> =
        vocabulary.iter().enumerate().map(|(id, c)| (c.to_string(), json!(id))).collect();
    let split =
        json!({ "type": "Split", "pattern": { "Regex": "(?s)." }, "behavior": "Isolated", "invert": false });
    let text = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": split, "post_processor": null, "decoder": { "type": "Fuse" },
        "model": { "type": "WordLevel", "vocab": ids, "unk_token": vocabulary.first().map(char::to_string) },
    });
    format!("{text:#}\n")
}
