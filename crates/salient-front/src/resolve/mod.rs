//! What names mean, by the text alone: which of them are unknown, and where each is defined.
//!
//! Lowering decides in the end, since what a name means may depend on values. What is said here is for text that lowering does
//! not reach, and for editors.

mod definitions;
pub(crate) mod unknown;
mod walk;

pub use definitions::{Definition, DefinitionKind, Definitions, Import, Meaning, Use};
pub(crate) use walk::definitions;
