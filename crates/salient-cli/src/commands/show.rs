//! The commands that show what is made of a model and what it computes inside.

pub(crate) mod explain;
pub(crate) mod ir;
pub(crate) mod report;
pub(crate) mod view;
