//! Tokenizers from files: `tokenizer.json` of Hugging Face, and what is inside a GGUF file.

use crate::error::TextError;
use crate::gguf;
use crate::tokenizer::Tokenizer;
use std::fs;
use std::path::Path;

impl Tokenizer {
    /// Reads a `tokenizer.json`, or the tokenizer of a `.gguf` file: the content decides.
    ///
    /// # Errors
    /// The file cannot be read, or holds no tokenizer of a kind that is read.
    pub fn read(path: impl AsRef<Path>) -> Result<Tokenizer, TextError> {
        let path = path.as_ref();
        let unreadable =
            |e: std::io::Error| TextError::Unreadable { file: path.to_owned(), reason: e.to_string() };
        let mut start = [0; 4];
        let mut file = fs::File::open(path).map_err(unreadable)?;
        let is_gguf = std::io::Read::read_exact(&mut file, &mut start).is_ok() && start == *b"GGUF";
        let problem = |problem: String| TextError::Tokenizer { file: path.to_owned(), problem };
        if is_gguf {
            return gguf::tokenizer(&salient::read_contents(path)?.metadata).map_err(problem);
        }
        let text = fs::read(path).map_err(unreadable)?;
        Tokenizer::from_json(&text).map_err(problem)
    }
}
