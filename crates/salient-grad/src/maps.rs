//! The adjoints of scalar operators.

use crate::adjoint::{Adjoints, Cotangent};
use crate::make::Make;
use salient_ir::{AxisId, AxisSet, Const, MapOp, NodeId, Op, ReduceOp};

/// `2 / sqrt(pi)`.
const ERF_SLOPE: f32 = std::f32::consts::FRAC_2_SQRT_PI;

/// Passes what flows into a node on to its arguments.
pub(crate) fn pull_back(a: &mut Adjoints<'_>, op: MapOp, id: NodeId, flow: Cotangent) {
    if logistic(a, op, id, flow) || softmax(a, op, id, flow) || log_sum_exp(a, op, id, flow) {
        return;
    }
    let args = a.b.args(id);
    for (at, arg) in args.iter().enumerate() {
        if !a.is_active(*arg) {
            continue;
        }
        if let Some((mask, value)) = adjoint(a, op, (id, &args), at, flow.value) {
            let mask = a.b.both(flow.mask, mask);
            let domain = a.b.node(id).axes.clone();
            a.add(*arg, &domain, Cotangent { mask, value });
        }
    }
}

/// What flows into the argument at a position, and where; `dy` flows into `y`.
fn adjoint(
    a: &mut Adjoints<'_>,
    op: MapOp,
    (y, args): (NodeId, &[NodeId]),
    at: usize,
    dy: NodeId,
) -> Option<(Option<NodeId>, NodeId)> {
    let x = args[at];
    // Of two, the other one.
    let other = args.get(1 - at.min(1)).copied().unwrap_or(x);
    let value = match op {
        MapOp::Neg => a.b.negative(dy),
        MapOp::Recip => {
            let square = a.b.times(y, y);
            let product = a.b.times(dy, square);
            a.b.negative(product)
        }
        MapOp::Exp => a.b.times(dy, y),
        MapOp::Log => return Some((above_nothing(a, x), a.b.apply(MapOp::Div, &[dy, x]))),
        MapOp::Sqrt => {
            let half = a.b.number(0.5);
            let half = a.b.times(half, dy);
            return Some((above_nothing(a, x), a.b.apply(MapOp::Div, &[half, y])));
        }
        MapOp::Abs => by_slope(a, dy, |a| sign(a, x)),
        MapOp::Tanh => by_slope(a, dy, |a| tanh_slope(a, y)),
        MapOp::Erf => by_slope(a, dy, |a| erf_slope(a, x)),
        MapOp::Sin => by_slope(a, dy, |a| a.b.apply(MapOp::Cos, &[x])),
        MapOp::Cos => by_slope(a, dy, |a| cos_slope(a, x)),
        MapOp::Add | MapOp::ToF32 => dy,
        MapOp::Sub => {
            if at == 0 {
                dy
            } else {
                a.b.negative(dy)
            }
        }
        // Of a square each of the two arguments, which are one.
        MapOp::Mul => a.b.times(dy, other),
        MapOp::Div if at == 0 => a.b.apply(MapOp::Div, &[dy, other]),
        MapOp::Div => {
            let product = a.b.times(dy, y);
            let quotient = a.b.apply(MapOp::Div, &[product, x]);
            a.b.negative(quotient)
        }
        MapOp::Pow if at == 0 => return Some((above_nothing(a, x), power(a, (x, other), dy))),
        MapOp::Pow => {
            let zero = a.b.number(0.0);
            let (mask, log) = (a.b.apply(MapOp::Ne, &[other, zero]), a.b.apply(MapOp::Log, &[other]));
            let slope = a.b.times(y, log);
            return Some((Some(mask), a.b.times(dy, slope)));
        }
        MapOp::Min | MapOp::Max => return Some(extreme(a, op, (x, other), dy)),
        MapOp::Select => {
            let taken = if at == 1 { args[0] } else { a.b.apply(MapOp::Not, &[args[0]]) };
            return Some((Some(taken), dy));
        }
        // They have no slope, or give no numbers, or take none.
        MapOp::Floor | MapOp::Not | MapOp::ToI32 | MapOp::ToI64 | MapOp::IntDiv | MapOp::Mod => return None,
        MapOp::Eq | MapOp::Ne | MapOp::Lt | MapOp::Le | MapOp::And | MapOp::Or | MapOp::Philox => {
            return None;
        }
    };
    Some((None, value))
}

fn by_slope(a: &mut Adjoints<'_>, dy: NodeId, slope: impl FnOnce(&mut Adjoints<'_>) -> NodeId) -> NodeId {
    let slope = slope(a);
    a.b.times(dy, slope)
}

/// `1 - y ** 2`, the slope of the hyperbolic tangent.
fn tanh_slope(a: &mut Adjoints<'_>, y: NodeId) -> NodeId {
    let (one, square) = (a.b.number(1.0), a.b.times(y, y));
    a.b.apply(MapOp::Sub, &[one, square])
}

/// `2 / sqrt(pi) * exp(-x ** 2)`, the slope of the error function.
fn erf_slope(a: &mut Adjoints<'_>, x: NodeId) -> NodeId {
    let square = a.b.times(x, x);
    let exponent = a.b.negative(square);
    let (factor, bell) = (a.b.number(ERF_SLOPE), a.b.apply(MapOp::Exp, &[exponent]));
    a.b.times(factor, bell)
}

fn cos_slope(a: &mut Adjoints<'_>, x: NodeId) -> NodeId {
    let sine = a.b.apply(MapOp::Sin, &[x]);
    a.b.negative(sine)
}

/// `dy * p * x ** (p - 1)`.
fn power(a: &mut Adjoints<'_>, (x, p): (NodeId, NodeId), dy: NodeId) -> NodeId {
    let below = match *a.b.op(p) {
        Op::Const(Const::F32(bits)) => f32::from_bits(bits) - 1.0,
        Op::Const(_)
        | Op::Input(_)
        | Op::Param(_)
        | Op::Iota(_)
        | Op::Extent(_)
        | Op::Map(_)
        | Op::Reduce(..)
        | Op::At(_)
        | Op::Concat(..)
        | Op::CumSum(..)
        | Op::Fused(..) => f32::NAN,
    };
    let slope = if below == 0.0 {
        a.b.number(1.0)
    } else if below == 1.0 {
        x
    } else {
        let one = a.b.number(1.0);
        let less = if below.is_nan() { a.b.apply(MapOp::Sub, &[p, one]) } else { a.b.number(below) };
        a.b.apply(MapOp::Pow, &[x, less])
    };
    let slope = a.b.times(p, slope);
    a.b.times(dy, slope)
}

/// To the greater (or the lesser) of two; half to each of two that are equal, and nothing where the other one is fixed.
fn extreme(
    a: &mut Adjoints<'_>,
    op: MapOp,
    (x, other): (NodeId, NodeId),
    dy: NodeId,
) -> (Option<NodeId>, NodeId) {
    let args = if op == MapOp::Max { [other, x] } else { [x, other] };
    let wins = a.b.apply(MapOp::Lt, &args);
    if !a.is_active(other) {
        return (Some(wins), dy);
    }
    let [one, half, zero] = [1.0, 0.5, 0.0].map(|x| a.b.number(x));
    let is_same = a.b.apply(MapOp::Eq, &[x, other]);
    let shared = a.b.apply(MapOp::Select, &[is_same, half, zero]);
    let share = a.b.apply(MapOp::Select, &[wins, one, shared]);
    (None, a.b.times(dy, share))
}

/// 1 above zero, -1 below, 0 at zero.
fn sign(a: &mut Adjoints<'_>, x: NodeId) -> NodeId {
    let [one, minus, zero] = [1.0, -1.0, 0.0].map(|x| a.b.number(x));
    let (above, below) = (a.b.apply(MapOp::Lt, &[zero, x]), a.b.apply(MapOp::Lt, &[x, zero]));
    let rest = a.b.apply(MapOp::Select, &[below, minus, zero]);
    a.b.apply(MapOp::Select, &[above, one, rest])
}

/// How far what weights are made of is looked at.
const DEPTH: usize = 8;

/// Where something made of exponentials is not zero. It is zero where an exponential is, as that of a masked score, and stays so: a
/// function of it whose slope is infinite there has none by the score.
fn above_nothing(a: &mut Adjoints<'_>, x: NodeId) -> Option<NodeId> {
    if !vanishes(a, x, DEPTH) {
        return None;
    }
    let zero = a.b.number(0.0);
    Some(a.b.apply(MapOp::Ne, &[x, zero]))
}

/// Whether a node is zero only where exponentials are: a weight, a sum of weights, a choice of a weight or zero.
fn vanishes(a: &Adjoints<'_>, id: NodeId, depth: usize) -> bool {
    let args = a.b.args(id);
    let of = |arg: NodeId| depth > 0 && vanishes(a, arg, depth - 1);
    let is_zero = |arg: NodeId| a.b.is_number(arg, 0.0);
    let op = a.b.op(id);
    if matches!(op, Op::Map(MapOp::Exp)) {
        true
    } else if matches!(op, Op::Map(MapOp::Div) | Op::At(_) | Op::Reduce(ReduceOp::Sum, _)) {
        of(args[0])
    } else if matches!(op, Op::Map(MapOp::Mul)) {
        of(args[0]) && of(args[1])
    } else {
        let arm = |arm: NodeId| is_zero(arm) || of(arm);
        matches!(op, Op::Map(MapOp::Select)) && arm(args[1]) && arm(args[2])
    }
}

/// `exp(u) / (sum[j](exp(u)) + r)`, or that with one in place of a sum that is zero: what flows into `u` and into each term of `r`, as
/// that of a sink, by the weights themselves. What is the same for all of a row, as the maximum that `u` is less, changes none of
/// them. Says whether the node is one of these.
fn softmax(a: &mut Adjoints<'_>, op: MapOp, id: NodeId, flow: Cotangent) -> bool {
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
fn log_sum_exp(a: &mut Adjoints<'_>, op: MapOp, id: NodeId, flow: Cotangent) -> bool {
    let sum = a.b.args(id)[0];
    let Op::Reduce(ReduceOp::Sum, _) = *a.b.op(sum) else { return false };
    let exponentials = a.b.args(sum)[0];
    if op != MapOp::Log || *a.b.op(exponentials) != Op::Map(MapOp::Exp) {
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
    let reciprocal = |id: NodeId| {
        let args = a.b.args(id);
        match *a.b.op(id) == Op::Map(MapOp::Recip) {
            true => Some(args[0]),
            false => (*a.b.op(id) == Op::Map(MapOp::Div) && a.b.is_number(args[0], 1.0)).then(|| args[1]),
        }
    };
    if op == MapOp::Div {
        return Some((args[0], args[1]));
    }
    if op != MapOp::Mul {
        return None;
    }
    reciprocal(args[1]).map(|x| (args[0], x)).or_else(|| reciprocal(args[0]).map(|x| (args[1], x)))
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

/// `p / (1 + exp(u))` and `log(1 + exp(u))`: what flows into `u`, without the exponential, which may be infinite where the
/// derivative is not. Says whether the node is one of them.
fn logistic(a: &mut Adjoints<'_>, op: MapOp, id: NodeId, flow: Cotangent) -> bool {
    let args = a.b.args(id);
    let (divisor, dividend) = match op {
        MapOp::Recip | MapOp::Log => (args[0], None),
        MapOp::Div => (args[1], Some(args[0])),
        MapOp::Neg | MapOp::Abs | MapOp::Floor | MapOp::Exp | MapOp::Sqrt | MapOp::Tanh | MapOp::Erf => {
            return false;
        }
        MapOp::Sin | MapOp::Cos | MapOp::Not | MapOp::ToF32 | MapOp::ToI32 | MapOp::ToI64 => return false,
        MapOp::Add | MapOp::Sub | MapOp::Mul | MapOp::Pow | MapOp::Min | MapOp::Max => return false,
        MapOp::IntDiv | MapOp::Mod | MapOp::Eq | MapOp::Ne | MapOp::Lt | MapOp::Le => return false,
        MapOp::And | MapOp::Or | MapOp::Select | MapOp::Philox => return false,
    };
    let Some(u) = exponent_beside_one(a, divisor) else { return false };
    let domain = a.b.node(id).axes.clone();
    if let Some(p) = dividend.filter(|p| a.is_active(*p)) {
        let value = a.b.apply(MapOp::Div, &[flow.value, divisor]);
        a.add(p, &domain, Cotangent { mask: flow.mask, value });
    }
    // exp(u) / (1 + exp(u))
    let one = a.b.number(1.0);
    let rest = a.b.apply(MapOp::Div, &[one, divisor]);
    let share = a.b.apply(MapOp::Sub, &[one, rest]);
    let value = if op == MapOp::Log {
        a.b.times(flow.value, share)
    } else {
        let slope = a.b.times(id, share);
        let product = a.b.times(flow.value, slope);
        a.b.negative(product)
    };
    a.add(u, &domain, Cotangent { mask: flow.mask, value });
    true
}

/// The `u` of `1 + exp(u)`.
fn exponent_beside_one(a: &Adjoints<'_>, id: NodeId) -> Option<NodeId> {
    if *a.b.op(id) != Op::Map(MapOp::Add) {
        return None;
    }
    let args = a.b.args(id);
    let exponential = match (a.b.is_number(args[0], 1.0), a.b.is_number(args[1], 1.0)) {
        (true, false) => args[1],
        (false, true) => args[0],
        (true, true) | (false, false) => return None,
    };
    (*a.b.op(exponential) == Op::Map(MapOp::Exp)).then(|| a.b.args(exponential)[0])
}
