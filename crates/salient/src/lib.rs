//! The public face: compile a model, look at every stage, run it.

pub mod compare;
mod bind;
mod init;
pub mod fault;

pub use fault::{Fault, Side};
