//! A fused graph to loop programs over tiles, and the memory plan.
//!
//! Knows the graph and the vector bodies; knows neither source text nor machine code.

pub mod kernel;

pub use kernel::{Arg, Base, Buffer, BufferId, Int, Kernel, Kind, Program, Role, Scratch, Stmt};
