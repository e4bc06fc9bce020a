//! Several axes that stand for one: those of the heads, those of the keys.

pub(crate) mod heads;
pub(crate) mod keys;
mod reader;
