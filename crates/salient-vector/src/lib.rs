//! The vector IR: bodies of tiles, written once for any lane count.
//!
//! Everything that touches tensor elements in compiled code is a [`Body`]. Authors write bodies with the [`Builder`] (its
//! module is the guide), out of the operators of [`OPS`] and the functions of [`math`]; `salient-jit` emits machine code for
//! them, and [`eval`] runs them without any. Loops over tiles, addresses of tiles and threads are not this crate's business.

mod apply;
pub mod body;
pub mod build;
pub mod eval;
pub mod handle;
pub mod math;
pub mod op;
pub mod quantised;
pub mod text;
pub mod tile;
mod ty;
pub mod verify;

pub use body::{Body, Elem, Place, Value};
pub use build::Builder;
pub use handle::{F32, I32, Int, Mask, Ptr};
pub use op::{OPS, Op};
pub use ty::Ty;
