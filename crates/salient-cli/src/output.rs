//! What a command says, and how it ends.
//!
//! [`terminal`] writes standard output and standard error, [`failure`] is a command that did not succeed and its exit code,
//! [`picture`] writes heat maps, [`report`] is what `run` and `verify` found, [`profile`] what kernels took, [`difference`] shows where two texts differ.

pub(crate) mod difference;
pub(crate) mod failure;
pub(crate) mod picture;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod terminal;
