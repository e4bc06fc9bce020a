//! Maxima that a loss does not depend on: those that are subtracted before an exponential and cancel, as in a softmax however it
//! is written. The derivative by them is zero, and is not computed.
//!
//! A node either stays as it is when the maximum grows by `d`, or grows by a multiple of `d`, or by a factor `exp(k d)`, or nothing
//! is known. If the loss stays as it is, its derivative by the maximum is zero. `d` is another number at each position of the maximum:
//! what is added up along an axis of it, or read at other positions, has no one `d`, and nothing is known of it.

use salient_ir::{AxisId, Builder, Class, Const, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::BTreeSet;

/// What becomes of a node when a maximum grows by `d`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// Nothing.
    None,
    /// It grows by so many times `d`.
    Plus(f64),
    /// It is multiplied by `exp` of so many times `d`.
    Times(f64),
    /// Not known.
    Any,
}

/// The maxima and minima among the active nodes on which the loss does not depend: those along an axis, and those of two numbers, such as
/// the greatest score of a row and a sink.
pub(crate) fn that_cancel(b: &Builder, loss: NodeId, is_active: impl Fn(NodeId) -> bool) -> BTreeSet<NodeId> {
    let is_extreme = |id: &NodeId| {
        matches!(b.op(*id), Op::Reduce(ReduceOp::Max | ReduceOp::Min, _) | Op::Map(MapOp::Max | MapOp::Min))
    };
    let extremes = b.ids().take(loss.index() + 1).filter(is_extreme).filter(|id| is_active(*id));
    extremes.filter(|id| cancels(b, *id, loss)).collect()
}

/// Whether a loss stays as it is when a node grows.
fn cancels(g: &Graph, shift: NodeId, loss: NodeId) -> bool {
    let unchanged = Known { change: Change::None, along: Vec::new() };
    let mut known = vec![unchanged; loss.index() + 1];
    known[shift.index()] = Known { change: Change::Plus(1.0), along: g.node(shift).axes.iter().collect() };
    for id in g.ids().take(loss.index() + 1).skip(shift.index() + 1) {
        if g.args(id).iter().any(|arg| known[arg.index()].change != Change::None) {
            known[id.index()] = known_of(g, id, &known);
        }
    }
    known[loss.index()].change == Change::None
}

/// What is known of a node when the maximum grows by `d`.
#[derive(Clone, Debug)]
struct Known {
    change: Change,
    /// The axes of the node along which `d` is another number, in the order of those of the maximum.
    along: Vec<AxisId>,
}

/// That of a node, by what is known of its arguments.
fn known_of(g: &Graph, id: NodeId, known: &[Known]) -> Known {
    let args = g.args(id);
    let of = |arg: &NodeId| &known[arg.index()];
    let mut alongs = args.iter().map(of).filter(|arg| arg.change != Change::None).map(|arg| &arg.along);
    let along = alongs.next().cloned().unwrap_or_default();
    match alongs.all(|other| *other == along).then(|| axes_of_growth(g, id, along)).flatten() {
        None => Known { change: Change::Any, along: Vec::new() },
        Some(along) => {
            let changes: Vec<Change> = args.iter().map(|arg| of(arg).change).collect();
            Known { change: change(g, id, &args, &changes), along }
        }
    }
}

/// The axes of a node along which `d` is another number, by those of its arguments; `None` if several `d` come together in it, or
/// those of other positions.
fn axes_of_growth(g: &Graph, id: NodeId, along: Vec<AxisId>) -> Option<Vec<AxisId>> {
    let op = g.op(id);
    if let Op::At(axis) = op
        && along.contains(axis)
    {
        let Op::Iota(new) = *g.op(g.args(id)[1]) else { return None };
        return Some(along.into_iter().map(|old| if old == *axis { new } else { old }).collect());
    }
    let joins_along = |axis: &AxisId| along.contains(axis);
    let is_joined = match op {
        Op::Concat(_, parts) => parts.iter().any(joins_along),
        Op::Reduce(_, axis) | Op::CumSum(_, axis) | Op::Fused(_, axis) => joins_along(axis),
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
        Op::Map(_) | Op::At(_) => false,
    };
    (!is_joined).then_some(along)
}

/// A multiple of a change; none of it is no change.
fn plus(k: f64) -> Change {
    if is_same(k, 0.0) { Change::None } else { Change::Plus(k) }
}

fn times(k: f64) -> Change {
    if is_same(k, 0.0) { Change::None } else { Change::Times(k) }
}

/// Whether two multiples are one but for what constants were rounded by.
fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

/// The number that a node is, if it is a literal.
fn literal(g: &Graph, id: NodeId) -> Option<f64> {
    if let Op::Const(value @ Const::F32(_)) = g.op(id) { Some(value.value()) } else { None }
}

/// What becomes of a node, some of whose arguments change.
fn change(g: &Graph, id: NodeId, args: &[NodeId], of: &[Change]) -> Change {
    let op = g.op(id);
    match op.class() {
        Class::Map => {
            let Op::Map(map) = op else { return Change::Any };
            of_map(g, *map, args, of)
        }
        Class::View if of[1] == Change::None => of[0],
        Class::View => Change::Any,
        Class::Concat => args
            .iter()
            .zip(of)
            .map(|(id, change)| Part::new(g, *id, *change))
            .reduce(Part::joined)
            .map_or(Change::Any, |part| part.change),
        Class::Bind => match (op, of[0]) {
            (Op::Reduce(ReduceOp::Sum, _) | Op::CumSum(..), Change::Times(k)) => Change::Times(k),
            (Op::Reduce(ReduceOp::Max | ReduceOp::Min, _), change) => change,
            (Op::Reduce(ReduceOp::ArgMax, _), Change::Plus(_) | Change::Times(_)) => Change::None,
            _ => Change::Any,
        },
        Class::Port | Class::Leaf => Change::None,
    }
}

/// A value that stands beside others: zero takes any factor, and what is infinite takes any change.
#[derive(Clone, Copy)]
struct Part {
    change: Change,
    is_zero: bool,
    is_infinite: bool,
}

impl Part {
    fn new(g: &Graph, id: NodeId, change: Change) -> Part {
        let value = literal(g, id);
        Part { change, is_zero: value == Some(0.0), is_infinite: value.is_some_and(f64::is_infinite) }
    }

    /// What becomes of both.
    fn joined(self, other: Part) -> Part {
        let takes = |part: Part, change: Change| match change {
            Change::Times(_) => part.is_zero || part.is_infinite,
            Change::Plus(_) => part.is_infinite,
            Change::None | Change::Any => false,
        };
        if takes(self, other.change) {
            return other;
        }
        if takes(other, self.change) {
            return self;
        }
        let change = match (self.change, other.change) {
            (Change::None, Change::None) => Change::None,
            (Change::Plus(a), Change::Plus(b)) if is_same(a, b) => Change::Plus(a),
            (Change::Times(a), Change::Times(b)) if is_same(a, b) => Change::Times(a),
            _ => Change::Any,
        };
        Part { change, is_zero: false, is_infinite: false }
    }
}

fn of_map(g: &Graph, op: MapOp, args: &[NodeId], of: &[Change]) -> Change {
    let parts: Vec<Part> = args.iter().zip(of).map(|(id, change)| Part::new(g, *id, *change)).collect();
    match op {
        MapOp::Neg => match of[0] {
            Change::Plus(k) => plus(-k),
            same @ (Change::None | Change::Times(_) | Change::Any) => same,
        },
        MapOp::Exp => match of[0] {
            Change::Plus(k) => times(k),
            Change::None | Change::Times(_) | Change::Any => Change::Any,
        },
        MapOp::Log => match of[0] {
            Change::Times(k) => plus(k),
            Change::None | Change::Plus(_) | Change::Any => Change::Any,
        },
        MapOp::Recip => scaled(of[0], -1.0),
        MapOp::Sqrt => scaled(of[0], 0.5),
        MapOp::Abs => scaled(of[0], 1.0),
        MapOp::Add => sum((parts[0], parts[1]), 1.0),
        MapOp::Sub => sum((parts[0], parts[1]), -1.0),
        MapOp::Mul => product(g, (args[0], args[1]), (of[0], of[1])),
        MapOp::Div => match (of[0], of[1]) {
            (Change::Plus(k), Change::None) => literal(g, args[1]).map_or(Change::Any, |by| plus(k / by)),
            (a, b) => exponents(a, b).map_or(Change::Any, |(a, b)| times(a - b)),
        },
        MapOp::Pow => match (of[0], of[1]) {
            (Change::Times(k), Change::None) => literal(g, args[1]).map_or(Change::Any, |by| times(k * by)),
            (Change::None, Change::Plus(k)) => literal(g, args[0])
                .filter(|base| *base > 0.0)
                .map_or(Change::Any, |base| times(k * base.ln())),
            _ => Change::Any,
        },
        MapOp::Min | MapOp::Max => parts[0].joined(parts[1]).change,
        MapOp::Eq | MapOp::Ne | MapOp::Lt | MapOp::Le => match parts[0].joined(parts[1]).change {
            Change::Any => Change::Any,
            Change::None | Change::Plus(_) | Change::Times(_) => Change::None,
        },
        MapOp::Select => chosen(g, args, (of[0], parts[1], parts[2])),
        MapOp::Floor | MapOp::Tanh | MapOp::Erf | MapOp::Sin | MapOp::Cos | MapOp::ToF32 => Change::Any,
        MapOp::Not | MapOp::ToI32 | MapOp::ToI64 | MapOp::IntDiv | MapOp::Mod => Change::Any,
        MapOp::And | MapOp::Or | MapOp::Philox => Change::Any,
    }
}

fn scaled(change: Change, by: f64) -> Change {
    match change {
        Change::Times(k) => times(k * by),
        Change::None => Change::None,
        Change::Plus(_) | Change::Any => Change::Any,
    }
}

/// The exponents of two factors.
fn exponents(a: Change, b: Change) -> Option<(f64, f64)> {
    let of = |change: Change| match change {
        Change::None => Some(0.0),
        Change::Times(k) => Some(k),
        Change::Plus(_) | Change::Any => None,
    };
    of(a).zip(of(b))
}

/// Of `a + sign * b`.
fn sum((a, b): (Part, Part), sign: f64) -> Change {
    let of = |change: Change| match change {
        Change::None => Some(0.0),
        Change::Plus(k) => Some(k),
        Change::Times(_) | Change::Any => None,
    };
    match of(a.change).zip(of(b.change)) {
        Some((a, b)) => plus(a + sign * b),
        None => a.joined(b).change,
    }
}

fn product(g: &Graph, (a, b): (NodeId, NodeId), (of_a, of_b): (Change, Change)) -> Change {
    match (of_a, of_b) {
        (Change::Plus(k), Change::None) => literal(g, b).map_or(Change::Any, |by| plus(k * by)),
        (Change::None, Change::Plus(k)) => literal(g, a).map_or(Change::Any, |by| plus(k * by)),
        _ => exponents(of_a, of_b).map_or(Change::Any, |(a, b)| times(a + b)),
    }
}

/// Of a choice. `if x == c then a else b`, where `x` changes and `c` does not, is `b` but at one value of `x`, where nothing flows
/// into `b`: there `a` is a constant.
fn chosen(g: &Graph, args: &[NodeId], (condition, then, otherwise): (Change, Part, Part)) -> Change {
    if condition != Change::None {
        return Change::Any;
    }
    let compared = |op: MapOp| *g.op(args[0]) == Op::Map(op);
    let is_fixed = |id: NodeId| literal(g, id).is_some();
    if compared(MapOp::Eq) && is_fixed(args[1]) {
        otherwise.change
    } else if compared(MapOp::Ne) && is_fixed(args[2]) {
        then.change
    } else {
        then.joined(otherwise).change
    }
}
