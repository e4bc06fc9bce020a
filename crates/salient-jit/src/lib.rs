//! Loop programs and bodies to callable code.

pub mod bodies;
pub mod target;
