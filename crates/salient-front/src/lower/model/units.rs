//! Axes of one position: an index along one is zero, and is written so, in a program as in a dump of it.

use salient_ir::{Builder, Const, DType, Graph, MapOp, NodeId, Op};

/// The same graph without indices along axes of one position, and without what they leave undone: sums with zero, products
/// with one, operators on literals alone.
pub(in crate::lower) fn without_unit_indices(g: Graph) -> Graph {
    let is_unit = |axis| g.extent(axis).as_constant() == Some(1);
    let is = |id: NodeId, n: i64| *g.op(id) == Op::Const(Const::I64(n));
    let is_undone = |id: NodeId| match g.op(id) {
        Op::Iota(axis) => is_unit(*axis),
        Op::Map(op) => match (op, g.args(id).as_slice()) {
            (MapOp::Add, [a, b]) => is(*a, 0) || is(*b, 0),
            (MapOp::Sub, [_, b]) => is(*b, 0),
            (MapOp::Mul, [a, b]) => is(*a, 1) || is(*b, 1),
            (MapOp::IntDiv, [_, b]) => is(*b, 1),
            _ => false,
        },
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Extent(_) | Op::Reduce(..) => false,
        Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => false,
    };
    if !g.ids().any(is_undone) {
        return g;
    }
    let mut b = Builder::like(&g);
    let mut new: Vec<NodeId> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let args: Vec<NodeId> = g.args(id).iter().map(|a| new[a.index()]).collect();
        let node = match g.op(id) {
            Op::Iota(axis) if is_unit(*axis) => b.constant(Const::I64(0)),
            Op::At(axis) => b.at(args[0], *axis, args[1]).expect("an index stays an integer"),
            Op::Map(op) => map(&mut b, *op, &args),
            op @ (Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Iota(_)
            | Op::Extent(_)
            | Op::Reduce(..)
            | Op::Concat(..)
            | Op::CumSum(..)
            | Op::Fused(..)) => b.add(op.clone(), &args).expect("arguments have the types they had"),
        };
        b.describe(node, g.node(id).name.as_ref(), g.node(id).origin);
        new.push(node);
    }
    for out in g.outputs() {
        b.output(&out.name, &out.axes, new[out.node.index()]).expect("a node has no more axes than before");
    }
    b.finish()
}

/// A scalar operator, or what it comes to.
fn map(b: &mut Builder, op: MapOp, args: &[NodeId]) -> NodeId {
    let known = |b: &Builder, id: NodeId| if let Op::Const(c) = b.op(id) { Some(*c) } else { None };
    let is = |b: &Builder, id: NodeId, n: i64| known(b, id) == Some(Const::I64(n));
    if op == MapOp::Add && is(b, args[0], 0) || op == MapOp::Mul && is(b, args[0], 1) {
        return args[1];
    }
    let by = |b: &Builder, n: i64| args.get(1).is_some_and(|arg| is(b, *arg, n));
    let (sums, scales) = (matches!(op, MapOp::Add | MapOp::Sub), matches!(op, MapOp::Mul | MapOp::IntDiv));
    if sums && by(b, 0) || scales && by(b, 1) {
        return args[0];
    }
    let node = b.map(op, args).expect("arguments have the types they had");
    let values: Option<Vec<f64>> = args.iter().map(|a| known(b, *a).map(Const::value)).collect();
    let Some(values) = values else { return node };
    let out = (op.info().eval)(&values);
    match b.node(node).dtype {
        DType::F32 | DType::F16 | DType::BF16 => b.constant(Const::f32(out as f32)),
        DType::Bool => b.constant(Const::Bool(out != 0.0)),
        DType::I64 if out.abs() <= 2f64.powi(53) => b.constant(Const::I64(out as i64)),
        DType::I64 | DType::I32 => node,
    }
}
