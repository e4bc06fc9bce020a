//! The scale of scores that goes into the queries.

use crate::index::{Bound, LANE};
use crate::plan::attention::Scores;
use salient_ir::{AxisId, Graph, MapOp, NodeId, Op};

/// A product of queries and keys times, or over, what no key changes: the queries are packed so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The scaled product.
    pub(crate) node: NodeId,
    /// Multiplication or division.
    pub(crate) op: MapOp,
    /// What by.
    pub(crate) by: NodeId,
}

/// The literals by which queries are multiplied or divided before the product, which neither overflow nor leave the normal
/// numbers by it where scores do not. Other scales are of data or of dimensions: factors, of which the contract of the
/// default mode (the head of `docs/semantics.md`) says that they may be multiplied in any order.
const SMALL: std::ops::RangeInclusive<f64> = 1e-4..=1.0;

fn may_go_into_queries(g: &Graph, op: MapOp, by: NodeId) -> bool {
    let Op::Const(c) = g.op(by) else { return true };
    let size = c.value().abs();
    SMALL.contains(&if op == MapOp::Div { size.recip() } else { size })
}

/// The scale of the product `scores`, which `user` reads, if nothing else does.
pub(crate) fn scale(g: &Graph, user: NodeId, scores: &Scores, row: &str) -> Option<Scale> {
    let Op::Map(op @ (MapOp::Mul | MapOp::Div)) = *g.op(user) else { return None };
    let args = g.args(user);
    let by = if args[0] == scores.node { args[1] } else { args[0] };
    if op == MapOp::Div && args[0] != scores.node {
        return None;
    }
    let fixed = |axis: AxisId| match scores.env.get(&axis) {
        Some(Bound::Poly(d)) => axis == scores.row_axis || !d.mentions(row) && !d.mentions(LANE),
        Some(Bound::Loose(_) | Bound::Vector(_)) | None => false,
    };
    let alone = g.users(scores.node) == [user] && by != scores.node;
    (alone && may_go_into_queries(g, op, by) && g.node(by).axes.iter().all(fixed)).then_some(Scale {
        node: user,
        op,
        by,
    })
}
