//! The commands that help people to begin: what a word means, a model to change, what shells, `man` and editors read.

pub(crate) mod completions;
pub(crate) mod doc;
pub(crate) mod lsp;
pub(crate) mod new;
