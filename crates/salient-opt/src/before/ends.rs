//! Running sums that are read at their end, or where nothing comes behind: the sum of the row.
//!
//! `cumsum[j](x)[T - 1]` and `reverse_cumsum[j](x)[0]` are `sum[j](x)`; so is `cumsum[j](if j < i then x else 0)[i]`. As a sum it needs no running sum in memory.

use crate::graph::choices::under_condition;
use crate::graph::index::AffineIndex;
use crate::graph::inequalities::{AtLeastZero, inequalities, is_never_below_zero};
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, Dim, Direction, Graph, NodeId, Op, ReduceOp};
use std::collections::BTreeMap;

/// The same model with what is read at the end of a running sum as a sum.
pub(crate) fn sums_at_the_end(g: &Graph) -> Graph {
    if g.ids().all(|id| read_at_the_end(g, id).is_none()) {
        return g.clone();
    }
    let rewritten = rewrite(g, |b, new, id| {
        let (summed, axis) = read_at_the_end(g, id)?;
        b.reduce(ReduceOp::Sum, axis, new[summed.index()]).ok()
    });
    rewritten.graph
}

/// What a running sum goes over that a view reads at its end, and the axis.
fn read_at_the_end(g: &Graph, id: NodeId) -> Option<(NodeId, AxisId)> {
    let Op::At(axis) = *g.op(id) else { return None };
    let [running, index] = [0, 1].map(|n| g.args(id)[n]);
    let Op::CumSum(direction, along) = *g.op(running) else { return None };
    if along != axis || !g.node(running).dtype.is_float() {
        return None;
    }
    let summed = g.args(running)[0];
    let place = AffineIndex::of(g, index)?;
    // The axes of the sum are those of the view: what the index mentions is one of them.
    let has_all = place.terms.keys().all(|own| *own != axis && g.node(summed).axes.contains(*own));
    let is_end = match direction {
        Direction::Forward => {
            is_inside(g, id, &place, axis)
                && (is_last(g, &place, axis) || ends_before(g, summed, &place, axis))
        }
        Direction::Reverse => place.is_zero() && is_filled(g, id, axis),
    };
    (has_all && is_end).then_some((summed, axis))
}

/// Whether a place is the last position of an axis.
fn is_last(g: &Graph, place: &AffineIndex, axis: AxisId) -> bool {
    place.terms.is_empty() && place.offset == g.extent(axis) - &Dim::constant(1)
}

/// Whether an axis has positions wherever a view has elements: another one of that length has.
fn is_filled(g: &Graph, view: NodeId, axis: AxisId) -> bool {
    g.node(view).axes.iter().any(|own| g.extent(own) == g.extent(axis))
}

/// Whether a place is proved to be a position of an axis wherever the view has elements.
fn is_inside(g: &Graph, view: NodeId, place: &AffineIndex, axis: AxisId) -> bool {
    let fixed = |offset: Dim| AffineIndex { terms: BTreeMap::new(), offset };
    let above = fixed(g.extent(axis) - &Dim::constant(1)).less(place);
    is_last(g, place, axis) && is_filled(g, view, axis)
        || is_never_below_zero(g, place) && is_never_below_zero(g, &above)
}

/// Whether what is summed is zero behind a place: it is chosen by a condition that does not hold there.
fn ends_before(g: &Graph, summed: NodeId, place: &AffineIndex, axis: AxisId) -> bool {
    let Some((condition, _)) = under_condition(g, summed) else { return false };
    let own = AffineIndex { terms: [(axis, Dim::constant(1))].into(), offset: Dim::constant(0) };
    let left = place.less(&own);
    let says_so = |known: &AtLeastZero| is_never_below_zero(g, &left.less(&known.index()));
    inequalities(g, condition, true).iter().any(says_so)
}
