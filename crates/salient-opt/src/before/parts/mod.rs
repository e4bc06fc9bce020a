//! Axes of several parts: joined one after the other, or two axes merged into one.

pub(crate) mod columns;
pub(crate) mod merges;
pub(crate) mod reads;
