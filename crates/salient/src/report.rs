//! What callers are told, as values: nothing is printed here, and nothing here compiles or runs.
//!
//! [`error`] is every way in which compiling or a call fails, [`fault`] what is wrong with the tensors of a call,
//! [`places`] where in the source
//! something was written, [`timings`] how long each step took, [`cost`] what kernels cost by the roofline, and [`compare`] how far results are
//! from what was expected.

pub mod compare;
pub mod cost;
pub(crate) mod error;
pub mod fault;
pub(crate) mod places;
pub(crate) mod timings;
