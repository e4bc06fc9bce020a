//! The adjoints of a softmax and of a log-sum-exp in the forms in which programs write them: by the weights, so that nothing leaves the
//! range of floats that the weights do not.

use crate::adjoint::{Adjoints, Cotangent};
use crate::make::Make;
use salient_ir::{AxisId, AxisSet, MapOp, NodeId, Op, ReduceOp};

/// `exp(u) / (sum[j](exp(u)) + r)`, or that with one in place of a sum that is zero: what flows into `u` and into each term of `r`, as
/// that of a sink, by the weights themselves. What is the same for all of a row, as the maximum that `u` is less, changes none of
/// them. Says whether the node is one of these.
pub(crate) fn softmax(a: &mut Adjoints<'_>, op: MapOp, id: NodeId, flow: Cotangent) -> bool {
    let Some((dividend, divisor)) = quotient(a, op, id) else { return false };
    if *a.b.op(dividend) != Op::Map(MapOp::Exp) {
        return false;
    }
    let sum = sum_or_one(a, divisor);
    let Some((axis, rest)) = denominator(a, sum, dividend) else { return false };
    let dw = a.b.masked(flow.mask, flow.value);
    let product = a.b.times(id, dw);
    let mean = a.b.sum(axis, product);
    let difference = a.b.apply(MapOp::Sub, &[dw, mean]);
    let value = a.b.times(id, difference);
    let domain = a.b.node(id).axes.clone();
    let shift = common_shift(a, axis, a.b.args(dividend)[0], &rest);
    let x = exponent(a, dividend, shift);
    // A row without a score has no weights but 0 / 0, where nothing stands in for its sum.
    let mask = if sum == divisor { of_rows(a, axis, flow.mask) } else { None };
    a.add(x, &domain, Cotangent { mask, value });
    let of_row: AxisSet = domain.iter().filter(|other| *other != axis).collect();
    for term in rest {
        if !a.is_active(term) {
            continue;
        }
        // The weights become less as it grows.
        let less = a.b.negative(mean);
        let (x, value) = if *a.b.op(term) == Op::Map(MapOp::Exp) {
            let share = a.b.apply(MapOp::Div, &[term, divisor]);
            (exponent(a, term, shift), a.b.times(share, less))
        } else {
            (term, a.b.apply(MapOp::Div, &[less, divisor]))
        };
        a.add(x, &of_row, Cotangent { mask, value });
    }
    true
}

/// `log(sum[j](exp(u)))`: what flows into `u` is shared out by the softmax of it. Says whether the node is one of these.
pub(crate) fn log_sum_exp(a: &mut Adjoints<'_>, op: MapOp, id: NodeId, flow: Cotangent) -> bool {
    if op != MapOp::Log {
        return false;
    }
    let sum = a.b.args(id)[0];
    let Op::Reduce(ReduceOp::Sum, _) = *a.b.op(sum) else { return false };
    let exponentials = a.b.args(sum)[0];
    if *a.b.op(exponentials) != Op::Map(MapOp::Exp) {
        return false;
    }
    let [zero, one] = [0.0, 1.0].map(|x| a.b.number(x));
    // Of a row in which all scores are masked nothing depends on them.
    let is_nothing = a.b.apply(MapOp::Eq, &[sum, zero]);
    let divisor = a.b.apply(MapOp::Select, &[is_nothing, one, sum]);
    let weight = a.b.apply(MapOp::Div, &[exponentials, divisor]);
    let value = a.b.times(flow.value, weight);
    let domain = a.b.node(exponentials).axes.clone();
    a.add(a.b.args(exponentials)[0], &domain, Cotangent { mask: flow.mask, value });
    true
}

/// The dividend and the divisor of a node that is a quotient, or a product with a reciprocal.
fn quotient(a: &Adjoints<'_>, op: MapOp, id: NodeId) -> Option<(NodeId, NodeId)> {
    let args = a.b.args(id);
    if op == MapOp::Div {
        return Some((args[0], args[1]));
    }
    if op != MapOp::Mul {
        return None;
    }
    let inverted = |at: usize| Some((args[1 - at], reciprocal_of(a, args[at])?));
    inverted(1).or_else(|| inverted(0))
}

/// The number of which a node is the reciprocal.
fn reciprocal_of(a: &Adjoints<'_>, id: NodeId) -> Option<NodeId> {
    let args = a.b.args(id);
    if *a.b.op(id) == Op::Map(MapOp::Recip) {
        return Some(args[0]);
    }
    let is_one_over = *a.b.op(id) == Op::Map(MapOp::Div) && a.b.is_number(args[0], 1.0);
    is_one_over.then(|| args[1])
}

/// The axis of the sum of exponentials in a denominator, and the terms that are added to that for the whole row.
fn denominator(a: &Adjoints<'_>, id: NodeId, exponentials: NodeId) -> Option<(AxisId, Vec<NodeId>)> {
    let (mut axis, mut rest, mut stack) = (None, Vec::new(), vec![id]);
    while let Some(id) = stack.pop() {
        let args = a.b.args(id);
        if *a.b.op(id) == Op::Map(MapOp::Add) {
            stack.extend(args.into_iter().rev());
        } else if let Op::Reduce(ReduceOp::Sum, along) = *a.b.op(id)
            && axis.is_none()
            && args[0] == exponentials
        {
            axis = Some(along);
        } else {
            rest.push(id);
        }
    }
    let is_along = |id: NodeId, axis: AxisId| a.b.node(id).axes.contains(axis);
    axis.filter(|axis| is_along(exponentials, *axis) && !rest.iter().any(|term| is_along(*term, *axis)))
        .map(|axis| (axis, rest))
}

/// What is subtracted from the scores `u` of a row, if it is the same for all of them and in the exponent of each further term too.
fn common_shift(a: &Adjoints<'_>, axis: AxisId, scores: NodeId, rest: &[NodeId]) -> Option<NodeId> {
    let subtracted = |id: NodeId| (*a.b.op(id) == Op::Map(MapOp::Sub)).then(|| a.b.args(id)[1]);
    let shift = subtracted(scores).filter(|shift| !a.b.node(*shift).axes.contains(axis))?;
    let is_shifted = |term: &NodeId| {
        *a.b.op(*term) == Op::Map(MapOp::Exp) && subtracted(a.b.args(*term)[0]) == Some(shift)
    };
    rest.iter().all(is_shifted).then_some(shift)
}

/// What an exponential is of, without the shift if there is one.
fn exponent(a: &Adjoints<'_>, exponential: NodeId, shift: Option<NodeId>) -> NodeId {
    let exponent = a.b.args(exponential)[0];
    if shift.is_some() { a.b.args(exponent)[0] } else { exponent }
}

/// Where anything along an axis is looked at.
fn of_rows(a: &mut Adjoints<'_>, axis: AxisId, mask: Option<NodeId>) -> Option<NodeId> {
    let mask = mask?;
    if !a.b.node(mask).axes.contains(axis) {
        return Some(mask);
    }
    Some(a.b.reduce(ReduceOp::Any, axis, mask).expect("a mask is a truth value"))
}

/// The `z` of `if z == 0 then 1 else z`; else the node itself.
fn sum_or_one(a: &Adjoints<'_>, id: NodeId) -> NodeId {
    if *a.b.op(id) != Op::Map(MapOp::Select) {
        return id;
    }
    let args = a.b.args(id);
    let compared = a.b.args(args[0]);
    let is_guard = *a.b.op(args[0]) == Op::Map(MapOp::Eq)
        && compared.contains(&args[2])
        && compared.iter().any(|x| a.b.is_number(*x, 0.0))
        && a.b.is_number(args[1], 1.0);
    if is_guard { args[2] } else { id }
}
