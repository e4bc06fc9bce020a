//! The table of names for documents and tests.

use super::names::NAMES;

/// A name of NumPy or PyTorch, and an example of a call.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The name.
    pub name: &'static str,
    /// Its arguments in an example, over the tensors that [`EXAMPLE`] declares.
    pub call: &'static str,
}

/// What the examples of the table are about, as the head of a model.
pub const EXAMPLE: &str = "model m[H = 2, K = 2, N = 5](x: f32[B, T, D], y: f32[B, T, D], w: f32[D, E], bias: f32[E], s: f32[T, T], r: f32[T], u: f32[D], \
v: f32[D], ids: i64[T], at: i64[T, K], mask: bool[B, T, D], keep: bool[B, T, D])";

/// Every name with its example.
pub fn known_names() -> impl Iterator<Item = Known> {
    NAMES.iter().flat_map(|row| row.names.iter().map(|name| Known { name, call: row.call }))
}
