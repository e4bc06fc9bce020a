//! Sums that put what was read by an index of data back to where it was read from: the gradient of a gather.
//!
//! `sum[m](if e[m] == n then x[m, …] else 0)` adds each `x[m, …]` to one `n` alone. As a reduction it would look at every `n` for
//! each `m`; its kernel goes through the `m` and adds where the index says. What is left out are zeros, so that the sum is the same.

use crate::plan::materialise::keep::reads_data;
use salient_ir::{AxisId, Const, DType, Graph, MapOp, NodeId, Op, ReduceOp};

/// Such a sum.
#[derive(Clone, Debug)]
pub(crate) struct Scatter {
    /// The sums inside each other, the outermost first: that is what is stored.
    pub(crate) sums: Vec<NodeId>,
    /// The axes that they sum over, as loops go through them.
    pub(crate) over: Vec<AxisId>,
    /// The axis of the result along which each term is added at one position.
    pub(crate) position: AxisId,
    /// That position.
    pub(crate) index: NodeId,
    /// What is summed: zero at any other position.
    pub(crate) term: NodeId,
    /// The axis of the result that runs along the lanes, if there is one: the position is the same along it.
    pub(crate) column: Option<AxisId>,
}

/// Positions up to which a sum looks at all of them for each term: they are few, and so is what is left out.
const FEW_POSITIONS: i64 = 16;

impl Scatter {
    /// The same where the axes of the result lie in that order.
    pub(crate) fn laid_out(self, g: &Graph, order: &[AxisId]) -> Scatter {
        let is_column = |axis: &&AxisId| **axis != self.position && !g.node(self.index).axes.contains(**axis);
        Scatter { column: order.iter().rfind(is_column).copied(), ..self }
    }

    /// The same over other nodes.
    pub(crate) fn moved(&self, node: &impl Fn(NodeId) -> NodeId) -> Scatter {
        let [index, term] = [self.index, self.term].map(node);
        Scatter { sums: self.sums.iter().map(|id| node(*id)).collect(), index, term, ..self.clone() }
    }
}

/// The node as such a sum.
pub(crate) fn scatter(g: &Graph, node: NodeId) -> Option<Scatter> {
    let (mut sums, mut over, mut term) = (Vec::new(), Vec::new(), node);
    while let Op::Reduce(ReduceOp::Sum, axis) = *g.op(term)
        && (term == node || is_read_once(g, term))
    {
        sums.push(term);
        over.push(axis);
        term = g.args(term)[0];
    }
    if g.node(term).dtype != DType::F32 || over.iter().any(|axis| !g.node(term).axes.contains(*axis)) {
        return None;
    }
    let is_it = |position: AxisId, index: NodeId| {
        let are_few = g.extent(position).as_constant().is_some_and(|count| count <= FEW_POSITIONS);
        let (of_sum, of_index) = (&g.node(node).axes, &g.node(index).axes);
        let varies = over.iter().any(|axis| of_index.contains(*axis));
        !are_few && varies && of_sum.contains(position) && !of_index.contains(position)
    };
    let (position, index) = positions(g, term).into_iter().find(|(axis, index)| is_it(*axis, *index))?;
    // Indices are looked at along the innermost loop.
    let innermost = over.iter().position(|axis| g.node(index).axes.contains(*axis))?;
    let along = over.remove(innermost);
    over.push(along);
    Some(Scatter { sums, over, position, index, term, column: None })
}

/// Such a sum by an index that is read from a tensor: nothing that streams is better.
pub(crate) fn scatter_by_data(g: &Graph, node: NodeId) -> Option<Scatter> {
    scatter(g, node).filter(|of| reads_data(g, of.index))
}

/// Whether a sum is one of those of a scatter by data, which adds rows as they lie.
pub(crate) fn is_of_scatter(g: &Graph, sum: NodeId) -> bool {
    let mut outermost = sum;
    while let [user] = g.users(outermost)[..]
        && let Op::Reduce(ReduceOp::Sum, _) = g.op(user)
    {
        outermost = user;
    }
    scatter_by_data(g, outermost).is_some_and(|of| of.sums.contains(&sum))
}

/// Whether one node alone reads it.
fn is_read_once(g: &Graph, id: NodeId) -> bool {
    g.users(id).len() == 1 && g.outputs().iter().all(|output| output.node != id)
}

/// Axes along which a value is zero but at one position, with what that is.
fn positions(g: &Graph, value: NodeId) -> Vec<(AxisId, NodeId)> {
    let (mut out, mut next) = (Vec::new(), Some(value));
    while let Some(id) = next {
        next = None;
        let args = g.args(id);
        match g.op(id) {
            Op::Map(MapOp::Select) if is_zero(g, args[2]) => {
                equalities(g, args[0], true, &mut out);
                next = Some(args[1]);
            }
            Op::Map(MapOp::Select) if is_zero(g, args[1]) => {
                equalities(g, args[0], false, &mut out);
                next = Some(args[2]);
            }
            Op::Map(MapOp::ToF32) => equalities(g, args[0], true, &mut out),
            Op::Map(_) | Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
    }
    out
}

fn is_zero(g: &Graph, id: NodeId) -> bool {
    matches!(g.op(id), Op::Const(Const::F32(_)) if *g.op(id) == Op::Const(Const::f32(0.0)))
}

/// The axes whose position is something else where a condition is as `holds` says.
fn equalities(g: &Graph, condition: NodeId, holds: bool, out: &mut Vec<(AxisId, NodeId)>) {
    let Op::Map(op) = *g.op(condition) else { return };
    let args = g.args(condition);
    match (op, holds) {
        (MapOp::Not, _) => equalities(g, args[0], !holds, out),
        (MapOp::And, true) | (MapOp::Or, false) => {
            args.iter().for_each(|arg| equalities(g, *arg, holds, out));
        }
        // Both, the second looked at only where the first holds.
        (MapOp::Select, true) if *g.op(args[2]) == Op::Const(Const::Bool(false)) => {
            args[..2].iter().for_each(|arg| equalities(g, *arg, true, out));
        }
        (MapOp::Eq, true) | (MapOp::Ne, false) => {
            for (here, index) in [(args[0], args[1]), (args[1], args[0])] {
                if let Some(axis) = position_along(g, here)
                    && g.node(index).dtype.is_int()
                {
                    out.push((axis, index));
                }
            }
        }
        _ => {}
    }
}

/// The axis whose index a node is.
fn position_along(g: &Graph, id: NodeId) -> Option<AxisId> {
    match g.op(id) {
        Op::Iota(axis) => Some(*axis),
        Op::Map(MapOp::ToI64 | MapOp::ToI32) => position_along(g, g.args(id)[0]),
        Op::Map(_) | Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Extent(_) => None,
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
    }
}
