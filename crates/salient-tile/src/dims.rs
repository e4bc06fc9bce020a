//! Integer polynomials as the planner and the emitter write them, and what they are over beside dimensions and the variables
//! of loops.

use salient_ir::{AxisId, Dim, Symbol, SymbolKind};

/// An integer of the graph of which nothing is known, but for a part that is subtracted from it: see
/// [`Terms`](crate::defined).
pub(crate) const UNKNOWN: SymbolKind = SymbolKind::new(1, "+");
/// The part that is subtracted.
pub(crate) const SUBTRACTED: SymbolKind = SymbolKind::new(2, "-");
/// An index along an axis of the graph, by the axis; in a plan, where there are no loops yet, the place along it.
pub(crate) const AXIS: SymbolKind = SymbolKind::new(3, "axis");
/// A number in a proof about a loop program.
pub(crate) const PROVED: SymbolKind = SymbolKind::new(4, "");
/// The number of lanes of the target.
pub static LANES: Symbol = SymbolKind::new(5, "L").only();
/// The row of a right operand in blocks.
pub(crate) static DEPTH: Symbol = SymbolKind::new(6, "depth").only();
/// The position along the lanes: an absolute index of the axis along which a kernel goes by vectors.
pub(crate) static LANE: Symbol = SymbolKind::new(7, "lane").only();
/// An integer parameter of a vector body, by its position.
pub(crate) const PARAMETER: SymbolKind = SymbolKind::new(8, "p");
/// A lane of a vector, in a proof about a body.
pub(crate) static BODY_LANE: Symbol = SymbolKind::new(9, "body_lane").only();
/// The row of a product or of an attention, in a plan.
pub(crate) static ROW: Symbol = SymbolKind::new(10, "row").only();
/// What several rows share keys of, in a plan.
pub(crate) static SHARES: Symbol = SymbolKind::new(11, "shares").only();
/// An integer that a vector body computes.
pub(crate) const COMPUTED: SymbolKind = SymbolKind::new(12, "v");
/// The number of an iteration of a loop whose variable goes by steps, in a proof of what is written.
pub(crate) const ITERATION: SymbolKind = SymbolKind::new(13, "iteration");
/// What a variable of a body stands for where the body is called, in such a proof.
pub(crate) const OF_BODY: SymbolKind = SymbolKind::new(14, "in");
/// The quotient and the rest of a variable that is divided, in such a proof.
pub(crate) const QUOTIENT: SymbolKind = SymbolKind::new(15, "quotient");
pub(crate) const REST: SymbolKind = SymbolKind::new(16, "rest");
/// A quotient that is taken for a name while sums are divided.
pub(crate) const NAMED: SymbolKind = SymbolKind::new(17, "named");

/// A constant dimension.
pub(crate) fn n(value: i64) -> Dim {
    Dim::constant(value)
}

/// A symbol by itself.
pub(crate) fn var(symbol: &Symbol) -> Dim {
    Dim::symbol(symbol)
}

/// The index along an axis.
pub(crate) fn index_of(axis: AxisId) -> Symbol {
    AXIS.number(axis.index() as u32)
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
