//! What a command says, and how it ends.
//!
//! [`terminal`] writes standard output and standard error, [`failure`] is a command that did not succeed and its exit code,
//! [`picture`] writes heat maps, [`report`] is what `run` and `verify` found, [`profile`] what kernels took, [`difference`] shows where two texts differ. [`excerpt`] fits
//! excerpts of sources into a terminal, [`waiting`] shows there how long a command has been silent.

pub(crate) mod difference;
pub(crate) mod excerpt;
pub(crate) mod failure;
pub(crate) mod picture;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod terminal;
pub(crate) mod waiting;
