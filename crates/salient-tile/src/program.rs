//! Loop programs: what kernels are before machine code, their text, their interpreter, and the memory that they take.

pub mod eval;
pub mod kernel;
pub mod memory;
pub mod text;
