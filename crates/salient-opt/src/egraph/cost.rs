//! What a term costs: a rough, exact count in integers, good enough to rank equal programs.
//!
//! Every term is charged for the points it is computed at; a fused operator for its whole pass. Whether a value is stored or
//! recomputed is decided after extraction.

use crate::facts::Classes;
use crate::graph::sizes::points;
use crate::lang::{Tag, Term};
use salient_ir::AxisSet;

/// What a term costs by itself, its children being there already. Never zero, so that cost grows from child to parent.
pub(crate) fn own_cost(classes: &Classes, extents: &[u64], term: &Term) -> u64 {
    let points = |axes: &AxisSet| points(extents, axes);
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
        Tag::Reduce(_) | Tag::CumSum(_) => points(&all()),
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
