//! Axes of which what is computed reads parts: lanes run along one part at a time.

use crate::plan::Layouts;
use salient_ir::{AxisId, Class, Dim, Graph, MapOp, NodeId, Op};
use std::collections::BTreeSet;

/// Operators of an expression that are looked at, at most.
const LARGEST: usize = 64;

/// The most values of which an axis consists for each of which a kernel has code of its own.
const MOST_VALUES: usize = 16;

/// The values of which a node consists along the axis that lanes run along, with the axis of each: a kernel stores one behind the
/// other, and asks of no element which of them it is of. `None` where it has to be asked, or where the node is read and not computed.
pub(crate) fn values_of(layouts: &Layouts<'_>, node: NodeId, lane: AxisId) -> Option<Vec<(AxisId, NodeId)>> {
    let g = layouts.graph;
    let Op::Concat(axis, parts) = g.op(node) else { return None };
    let fits = *axis == lane
        && parts.len() <= MOST_VALUES
        && !layouts.is_stored(node)
        && !layouts.defined.may_report(node);
    fits.then(|| parts.iter().copied().zip(g.args(node)).collect())
}

/// How many parts an axis has of which what is computed reads the number and the position inside, as of heads and features in one,
/// and how wide each is: lanes that run along a part read what lies there one after the other.
pub(crate) fn parts_of(g: &Graph, root: NodeId, axis: AxisId) -> Option<(Dim, Dim)> {
    let (mut found, mut seen, mut stack) = (None, BTreeSet::new(), vec![root]);
    while let Some(id) = stack.pop() {
        if !seen.insert(id) || seen.len() > LARGEST {
            continue;
        }
        let args = g.args(id);
        if let Op::At(part) = g.op(id)
            && let Op::Map(MapOp::IntDiv) = g.op(args[1])
            && let [of, by] = [0, 1].map(|n| g.args(args[1])[n])
            && *g.op(of) == Op::Iota(axis)
            && let Some(width) = number(g, by)
        {
            let parts = (g.extent(*part).clone(), width);
            let is_whole = &parts.0 * &parts.1 == *g.extent(axis);
            if !is_whole || found.as_ref().is_some_and(|known| *known != parts) {
                return None;
            }
            found = Some(parts);
        }
        if matches!(g.op(id).class(), Class::Map | Class::View) {
            stack.extend(args);
        }
    }
    found
}

/// A size that is written as an integer.
fn number(g: &Graph, id: NodeId) -> Option<Dim> {
    match g.op(id) {
        Op::Extent(dim) => Some(dim.clone()),
        Op::Const(c) if c.dtype().is_int() => Some(Dim::constant(c.value() as i64)),
        Op::Const(_) | Op::Input(_) | Op::Param(_) | Op::Iota(_) | Op::Map(_) | Op::Reduce(..) => None,
        Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
    }
}
