//! Tokenizers from files: `tokenizer.json` of Hugging Face, and what is inside a GGUF file.

use crate::error::TextError;
use crate::gguf;
use crate::tokenizer::Tokenizer;
use salient::{Format, IoError};
use std::path::Path;

/// The most bytes of a `tokenizer.json`; those of the largest vocabularies take a tenth.
const MOST_BYTES: u64 = 512 << 20;

impl Tokenizer {
    /// Reads a `tokenizer.json`, or the tokenizer of a `.gguf` file: the content decides.
    ///
    /// # Errors
    /// The file cannot be read, or holds no tokenizer of a kind that is read.
    pub fn read(path: impl AsRef<Path>) -> Result<Tokenizer, TextError> {
        let path = path.as_ref();
        let unreadable =
            |e: IoError| TextError::Unreadable { file: path.to_owned(), reason: e.cause.reason() };
        let problem = |problem: String| TextError::Tokenizer { file: path.to_owned(), problem };
        if salient::format_of(path).map_err(unreadable)? == Some(Format::Gguf) {
            return gguf::tokenizer(&salient::read_contents(path)?.metadata).map_err(problem);
        }
        let text = salient::read_bytes(path, MOST_BYTES).map_err(unreadable)?;
        Tokenizer::from_json(salient::without_mark(&text)).map_err(problem)
    }
}
