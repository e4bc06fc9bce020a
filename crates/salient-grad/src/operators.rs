//! The adjoints of operators that combine or move elements; those of scalar operators are in [`crate::maps`].

use crate::adjoint::{Adjoints, Cotangent};
use crate::error::GradientError;
use crate::make::Make;
use crate::{maps, views};
use salient_ir::{AxisId, AxisSet, Const, DType, Dim, Direction, MapOp, NodeId, Op, ReduceOp};

/// Passes what flows into a node on to its arguments.
pub(crate) fn pull_back(a: &mut Adjoints<'_>, id: NodeId, flow: Cotangent) -> Result<(), GradientError> {
    let args = a.b.args(id);
    match a.b.op(id).clone() {
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
        Op::Map(op) => maps::pull_back(a, op, id, flow),
        Op::Reduce(op, axis) => reduce(a, (op, axis), id, flow),
        Op::At(_) => views::pull_back(a, id, flow),
        Op::Concat(axis, parts) => concat(a, (axis, &parts), id, flow),
        Op::CumSum(direction, axis) => {
            let back = match direction {
                Direction::Forward => Direction::Reverse,
                Direction::Reverse => Direction::Forward,
            };
            let value = a.b.masked(flow.mask, flow.value);
            let value = a.b.add(Op::CumSum(back, axis), &[value]).expect("a number");
            let domain = a.b.node(id).axes.clone();
            a.add(args[0], &domain, Cotangent { mask: None, value });
        }
        Op::Fused(op, _) if args.iter().any(|arg| a.is_active(*arg)) => {
            let operator = format!("fused.{}", op.info().name);
            return Err(GradientError::NoDerivative { node: id, operator });
        }
        Op::Fused(..) => {}
    }
    Ok(())
}

fn reduce(a: &mut Adjoints<'_>, (op, axis): (ReduceOp, AxisId), id: NodeId, flow: Cotangent) {
    let x = a.b.args(id)[0];
    if !a.is_active(x) {
        return;
    }
    let mut domain = a.b.node(id).axes.clone();
    domain.insert(axis);
    let varies = a.b.node(x).axes.contains(axis);
    match op {
        ReduceOp::Sum => a.add(x, &domain, flow),
        ReduceOp::Max | ReduceOp::Min if !varies => a.add(x, &a.b.node(id).axes.clone(), flow),
        ReduceOp::Max | ReduceOp::Min => {
            let greatest = if op == ReduceOp::Max { x } else { a.b.negative(x) };
            let first = a.b.reduce(ReduceOp::ArgMax, axis, greatest).expect("numbers have a greatest");
            let here = a.b.iota(axis);
            let is_first = a.b.apply(MapOp::Eq, &[here, first]);
            let mask = a.b.both(flow.mask, Some(is_first));
            a.add(x, &domain, Cotangent { mask, value: flow.value });
        }
        ReduceOp::Prod => {
            let others = product_of_others(a, x, axis);
            let value = a.b.times(flow.value, others);
            a.add(x, &domain, Cotangent { mask: flow.mask, value });
        }
        // They give no numbers.
        ReduceOp::Any | ReduceOp::All | ReduceOp::ArgMax => {}
    }
}

/// The product of all elements along an axis but that at each position.
fn product_of_others(a: &mut Adjoints<'_>, x: NodeId, axis: AxisId) -> NodeId {
    let mut taken = a.b.node(x).axes.clone();
    taken.insert(axis);
    let other = a.b.fresh_axis(axis, &taken);
    let (here, there) = (a.b.iota(axis), a.b.iota(other));
    let value = a.b.moved(x, &[(axis, there)]);
    let is_other = a.b.apply(MapOp::Ne, &[there, here]);
    let one = a.b.number(1.0);
    let factor = a.b.apply(MapOp::Select, &[is_other, value, one]);
    a.b.reduce(ReduceOp::Prod, other, factor).expect("a number")
}

fn concat(a: &mut Adjoints<'_>, (axis, parts): (AxisId, &[AxisId]), id: NodeId, flow: Cotangent) {
    let args = a.b.args(id);
    let mut offset = Dim::constant(0);
    for (arg, part) in args.into_iter().zip(parts.iter().copied()) {
        let index = index_from(a, part, &offset);
        let mut with = vec![(axis, index)];
        let mut domain: AxisSet = a.b.node(id).axes.iter().filter(|x| *x != axis).collect();
        // An axis of the result that the part binds is another one.
        if domain.remove(part) {
            let taken = domain.union(&[axis, part].into_iter().collect());
            let aside = a.b.fresh_axis(part, &taken);
            domain.insert(aside);
            with.push((part, a.b.iota(aside)));
        }
        domain.insert(part);
        let mask = flow.mask.map(|mask| a.b.moved(mask, &with));
        let value = a.b.moved(flow.value, &with);
        a.add(arg, &domain, Cotangent { mask, value });
        offset = &offset + a.b.extent(part);
    }
}

/// The index along an axis from an offset on.
fn index_from(a: &mut Adjoints<'_>, axis: AxisId, offset: &Dim) -> NodeId {
    let index = a.b.iota(axis);
    if *offset == Dim::constant(0) {
        return index;
    }
    let offset = a.b.length(offset);
    debug_assert_eq!(a.b.node(offset).dtype, DType::I64);
    debug_assert_ne!(*a.b.op(offset), Op::Const(Const::I64(0)));
    a.b.apply(MapOp::Add, &[index, offset])
}
