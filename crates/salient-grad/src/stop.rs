//! Values whose derivative is zero by decree: a choice whose condition is the literal `true`. It has its value on every engine,
//! and is folded like any choice that is known.

use crate::make::Make;
use salient_ir::{Builder, Const, DType, Graph, MapOp, NodeId, Op};

/// A value through which nothing is differentiated. What has no derivative anyway stays as it is.
pub fn stopped(b: &mut Builder, x: NodeId) -> NodeId {
    if b.node(x).dtype != DType::F32 {
        return x;
    }
    let always = b.constant(Const::Bool(true));
    b.apply(MapOp::Select, &[always, x, x])
}

/// Whether a node is such a value.
pub(crate) fn is_stopped(g: &Graph, id: NodeId) -> bool {
    *g.op(id) == Op::Map(MapOp::Select) && *g.op(g.args(id)[0]) == Op::Const(Const::Bool(true))
}
