//! What no plan of a graph as it is written goes below, from its operators alone: cheap beside a plan.
//!
//! As written every operator on tensors is a kernel, which is started, does its operations, and stores what comes of them.

use super::Machine;
use crate::plan::contraction::is_matrix_product;
use salient_ir::{AxisId, AxisSet, Bindings, Graph, MapOp, NodeId, Op};

/// Seconds that the plan of a graph in which each operator is a kernel of its own takes at least at these sizes; `None` where a
/// dimension has no number at them.
pub fn floor_as_written(g: &Graph, sizes: &Bindings, machine: &Machine) -> Option<f64> {
    let of_input = g.of_inputs();
    let extent = |axis: AxisId| Some(g.extent(axis).eval(sizes).ok()?.max(0) as f64);
    let points = |axes: &AxisSet| axes.iter().try_fold(1.0, |n, axis| Some(n * extent(axis)?));
    let in_products = |id: NodeId| {
        let users = g.users(id);
        users.is_empty() || users.iter().any(|user| matches!(g.op(*user), Op::Reduce(..)))
    };
    let mut sum = 0.0;
    for id in g.ids().filter(|id| of_input[id.index()]) {
        let node = g.node(id);
        let own = points(&node.axes)?;
        let work = match *g.op(id) {
            Op::Reduce(_, axis) if is_matrix_product(g, id) => {
                2.0 * own * (extent(axis)? + 8.0) / 0.96 / machine.flops
            }
            Op::Reduce(_, axis) if !node.axes.is_empty() => own * extent(axis)? / (machine.flops / 2.0),
            Op::Map(op) if !node.axes.is_empty() && node.dtype.is_float() && !in_products(id) => {
                let additions = if op == MapOp::Mul { 1 } else { op.info().additions };
                let arithmetic = own * f64::from(additions) / (machine.flops / 2.0);
                arithmetic.max(machine.transfer(4.0 * own, 4.0 * own))
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => continue,
            Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => continue,
        };
        sum += machine.launch.as_secs_f64() + work;
    }
    Some(sum)
}
