//! Texts in, vectors or texts out: tokenizers, embedding, generation, translation.
//!
//! Over the library and thin: what a model computes is its `.attn` file's business, and any file will do whose model has
//! the signature that [`Embedder`], [`Generator`] or [`Translator`] describes.
//!
//! Knows no architecture and no checkpoint. Prints nothing.

mod beam;
mod chat;
mod embed;
mod error;
mod generate;
mod gguf;
mod read;
mod sample;
mod signature;
mod stop;
mod tokenizer;
mod translate;

pub use beam::{Beams, Hypothesis};
pub use chat::{ChatTemplate, Message};
pub use embed::Embedder;
pub use error::TextError;
pub use generate::{End, Generated, Generator, Settings};
pub use sample::{Sampler, Sampling};
pub use tokenizer::{Encoded, TextStream, Tokenizer};
pub use translate::Translator;
