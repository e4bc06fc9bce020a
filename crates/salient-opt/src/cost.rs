//! What a term costs: a rough, exact count in integers, good enough to rank equal programs.
//!
//! Every term is charged for the points it is computed at; a fused operator for its whole pass. Extents that are not
//! known are taken at a nominal size. Whether a value is stored or recomputed is decided after extraction.

use crate::facts::Known;
use crate::lang::{Tag, Term};
use crate::normalise::Classes;
use salient_ir::{AxisSet, Bindings, Dim, Name};

/// The size at which an unknown dimension is counted.
const NOMINAL: i64 = 128;
/// The same for one along which an input has rows: texts grow, the features of a token do not.
const NOMINAL_ROWS: i64 = 1024;

/// The nominal number of positions along each axis.
pub(crate) fn nominal_extents(known: &Known) -> Vec<u64> {
    let size = |dim: &Dim| {
        let size = |symbol: &Name| if known.rows.contains(symbol) { NOMINAL_ROWS } else { NOMINAL };
        let bindings: Bindings = dim.symbols().into_iter().map(|s| (s.clone(), size(&s))).collect();
        // A quotient may not come out even at the nominal size; then it is counted at a fraction of it.
        dim.eval(&bindings).unwrap_or(NOMINAL / 8).max(1).unsigned_abs()
    };
    known.extents.iter().map(size).collect()
}

/// What a term costs by itself, its children being there already. Never zero, so that cost grows from child to parent.
pub(crate) fn own_cost(classes: &Classes, extents: &[u64], term: &Term) -> u64 {
    let points = |axes: &AxisSet| axes.iter().fold(1u64, |n, a| n.saturating_mul(extents[a.index()]));
    let child = |n: usize| &classes[term.children[n]].data;
    let all = || {
        term.children.iter().fold(AxisSet::new(), |axes, c| {
            let data = &classes[*c].data;
            let named: AxisSet = data.axis.into_iter().collect();
            axes.union(&data.axes).union(&named)
        })
    };
    match term.tag {
        Tag::Axis(_) | Tag::Input(_) | Tag::Param(_) | Tag::Const(_) | Tag::Extent(_) | Tag::Iota => 1,
        Tag::Map(op) => points(&all()).saturating_mul(u64::from(op.info().additions)),
        Tag::Reduce(_) | Tag::CumSum => points(&all()),
        // A view: cheap, but never free.
        Tag::At => 1 + points(&child(2).axes) / 64,
        Tag::Concat => points(&all()) / 4 + 1,
        Tag::Fused(op) => {
            let scores = points(&child(1).axes).saturating_mul(op.info().additions);
            let values = if op.info().has_values() { points(&all()) } else { 0 };
            values.saturating_add(scores)
        }
    }
}
