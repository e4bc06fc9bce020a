//! Loop programs and bodies to callable code; the only room with `unsafe`.
//!
//! Knows nothing of graphs: a [`Program`](salient_tile::Program) says everything that is to be compiled.
#![allow(unsafe_code, reason = "machine code is called and its memory handed out here, and nowhere else")]

pub mod bodies;
mod call;
mod compile;
mod error;
mod machine_code;
pub mod peak;
mod pool;
pub mod target;
mod tuning;

pub use call::arguments::{Inputs, Loaded};
pub use call::plan::{Cost, Plan};
pub use call::watch::Watch;
pub use compile::{CompileError, Compiled, Options};
pub use error::{Part, RunError};
pub use target::IsaChoice;
pub use tuning::{THREADING, Threading, Tuning};
