//! Texts in, vectors or texts out: tokenizers, embedding, generation.
//!
//! Over the library and thin: what a model computes is its `.attn` file's business, and any file will do whose model has
//! the signature that [`Embedder`] or [`Generator`] describes.
//!
//! Knows no architecture and no checkpoint. Prints nothing.

mod chat;
mod embed;
mod error;
mod generate;
mod gguf;
mod sample;
mod signature;
mod stop;
mod tokenizer;

pub use chat::{ChatTemplate, Message};
pub use embed::Embedder;
pub use error::TextError;
pub use generate::{End, Generated, Generator, Settings};
pub use sample::{Sampler, Sampling};
pub use tokenizer::{Encoded, TextStream, Tokenizer};
