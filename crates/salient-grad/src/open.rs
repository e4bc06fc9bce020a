//! Values that a program looks at only where a choice or an index says so, because elsewhere something in them is read outside of its
//! axis. Derivatives that are made of such a value are looked at in the same places.

use crate::views::linear;
use salient_ir::{AxisId, AxisSet, Dim, Graph, MapOp, NodeId, Op, demand};
use std::collections::BTreeSet;

/// Whether each node up to the loss is made of a read that may leave its axis and of which the loss does not need every element: by a sum of
/// positions that lies outside somewhere, or by data of which the program itself asks whether it is below a bound.
pub(crate) fn open(g: &Graph, loss: NodeId) -> Vec<bool> {
    let needed = demand::demanded(g, [(loss, AxisSet::new())].into_iter(), |_, _| false);
    let bounded = bounded(g);
    let mut out: Vec<bool> = Vec::with_capacity(loss.index() + 1);
    for id in g.ids().take(loss.index() + 1) {
        let args = g.args(id);
        let is_loose = match *g.op(id) {
            Op::At(axis) => {
                let is_bounded = || bounded.contains(&read_by(g, args[1]));
                needed[id.index()].is_none() && may_leave(g, axis, args[1]).unwrap_or_else(is_bounded)
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => false,
            Op::Reduce(..) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => false,
        };
        // A choice says where its arms are looked at, and passes that on to them itself.
        let looks_at_all = !matches!(g.op(id), Op::Map(MapOp::Select));
        let read = if looks_at_all { &args[..] } else { &args[..1] };
        out.push(is_loose || read.iter().any(|arg| out[arg.index()]));
    }
    out
}

/// What is compared with a bound, whatever the place is at which it is read.
fn bounded(g: &Graph) -> BTreeSet<NodeId> {
    let is_bound = |id: &NodeId| matches!(g.op(*id), Op::Map(MapOp::Lt | MapOp::Le));
    g.ids().filter(is_bound).flat_map(|id| g.args(id)).map(|id| read_by(g, id)).collect()
}

/// What views and conversions read.
fn read_by(g: &Graph, mut id: NodeId) -> NodeId {
    while matches!(g.op(id), Op::At(_) | Op::Map(MapOp::ToI64 | MapOp::ToI32)) {
        id = g.args(id)[0];
    }
    id
}

/// Whether an index may lie outside of an axis, where it is a sum of multiples of positions.
fn may_leave(g: &Graph, axis: AxisId, index: NodeId) -> Option<bool> {
    let sum = linear(g, index)?;
    let (mut least, mut greatest) = (sum.rest.clone(), sum.rest);
    for (own, factor) in sum.axes {
        let last = &(g.extent(own) - &Dim::constant(1)) * &factor;
        if factor.is_nonnegative() {
            greatest = &greatest + &last;
        } else {
            least = &least + &last;
        }
    }
    // Two lengths of which nothing is known, as those of a window and of its table, are taken to fit.
    let beyond = &(&greatest - g.extent(axis)) + &Dim::constant(1);
    let is_beyond = match beyond.as_constant() {
        Some(count) => count > 0,
        None => (&beyond + &Dim::constant(1)).is_nonnegative(),
    };
    Some(!least.is_nonnegative() || is_beyond)
}
