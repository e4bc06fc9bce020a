//! Loop programs: what kernels are before machine code, their text, their interpreter, and the memory that they take; and which values of the source
//! that memory holds.

pub mod eval;
pub mod kernel;
pub mod memory;
pub mod text;
pub(crate) mod values;
