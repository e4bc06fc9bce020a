//! Calls of compiled code: everything that happens after it is compiled.
//!
//! [`plan`] puts the dimensions of a call into a program, [`load`] makes parameters ready once, [`run`] runs the kernels on
//! arrays, with a look at them by [`watch`]. [`arguments`] is what a call reads and where its elements lie, [`region`] the memory that it works in.

pub(crate) mod arguments;
mod flush_to_zero;
mod load;
pub(crate) mod plan;
mod region;
mod run;
pub(crate) mod watch;
