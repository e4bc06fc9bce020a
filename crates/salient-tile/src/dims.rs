//! Integer polynomials as the planner and the emitter write them.

use salient_ir::{AxisId, Dim};

/// A constant dimension.
pub(crate) fn n(value: i64) -> Dim {
    Dim::constant(value)
}

/// A variable or a dimension.
pub(crate) fn var(name: &str) -> Dim {
    Dim::symbol(name)
}

/// `a / b`, rounded up; `b` is not zero.
pub(crate) fn ceil_div(a: &Dim, b: &Dim) -> Dim {
    a.ceil_div(b).expect("the divisor is not zero")
}

/// The product of all.
pub(crate) fn product<'a>(factors: impl IntoIterator<Item = &'a Dim>) -> Dim {
    factors.into_iter().fold(n(1), |p, d| &p * d)
}

/// The distance in elements between neighbours along each axis of a row-major tensor.
pub(crate) fn row_major(axes: &[AxisId], shape: &[Dim]) -> Vec<(AxisId, Dim)> {
    (0..axes.len()).map(|k| (axes[k], product(&shape[k + 1..]))).collect()
}
