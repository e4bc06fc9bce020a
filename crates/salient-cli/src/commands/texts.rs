//! The commands that run models of texts.

pub(crate) mod embed;
pub(crate) mod generate;
pub(crate) mod train;
pub(crate) mod translate;
