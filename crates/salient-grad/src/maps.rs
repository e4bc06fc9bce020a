//! The adjoints of scalar operators.

use crate::adjoint::{Adjoints, Cotangent};
use crate::make::Make;
use crate::softmax::{log_sum_exp, softmax};
use salient_ir::{Const, MapOp, NodeId, Op, ReduceOp};

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
