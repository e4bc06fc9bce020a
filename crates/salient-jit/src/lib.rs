//! Loop programs and bodies to callable code; the only room with `unsafe`.
//!
//! Knows nothing of graphs: a [`Program`](salient_tile::Program) says everything that is to be compiled.
#![allow(unsafe_code, reason = "machine code is called and its memory handed out here, and nowhere else")]

pub mod bodies;
mod loops;
pub mod pool;
mod run;
pub mod target;

pub use run::{CompileError, Compiled, Options, Plan, RunError};
pub use target::IsaChoice;
