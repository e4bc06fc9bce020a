//! Why texts cannot be processed.

use std::path::PathBuf;

/// A failure, by what it lies in.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file is no tokenizer, or holds none, or one of a kind that is not read.
    #[error("{}: {problem}", file.display())]
    Tokenizer {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A text cannot be encoded, or ids cannot be decoded.
    #[error("the tokenizer refuses the text: {0}")]
    Text(String),
    /// A model's logits choose no token: the greatest of them is no finite number.
    #[error(
        "no token can be chosen after {position} tokens: of {count} logits {nan} are NaN, and the greatest \
         of the others is {greatest}"
    )]
    Logits {
        /// The tokens before.
        position: usize,
        /// The logits.
        count: usize,
        /// Those that are NaN.
        nan: usize,
        /// The greatest that is a number, -inf if none is.
        greatest: f32,
    },
    /// A model chose a token that the tokenizer does not have.
    #[error("the model chose token {id} after {position} tokens; the tokenizer has {size}")]
    NoSuchToken {
        /// The token.
        id: u32,
        /// The tokens before.
        position: usize,
        /// How many the tokenizer has.
        size: usize,
    },
    /// The chat template of a checkpoint is malformed, or refuses the messages.
    #[error("the chat template: {0}")]
    Template(String),
    /// A model does not have the signature that is needed; the sentence says what is missing.
    #[error("{0}")]
    Signature(String),
    /// The model does not fit the weights, or has no value.
    #[error(transparent)]
    Model(#[from] salient::Error),
    /// A checkpoint cannot be read.
    #[error(transparent)]
    Io(#[from] salient::IoError),
}

impl TextError {
    /// Whether the caller is wrong, rather than the model or its result.
    pub fn is_call(&self) -> bool {
        match self {
            TextError::Unreadable { .. }
            | TextError::Tokenizer { .. }
            | TextError::Text(_)
            | TextError::Io(_)
            | TextError::Template(_)
            | TextError::Signature(_) => true,
            TextError::Logits { .. } | TextError::NoSuchToken { .. } => false,
            TextError::Model(error) => error.is_call(),
        }
    }
}
