//! The commands that help people to begin: what a word means, a model to change, what shells and `man` read.

pub(crate) mod completions;
pub(crate) mod doc;
pub(crate) mod new;
