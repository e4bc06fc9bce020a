//! Which float inputs a model uses as masks, 1 where something is kept and 0 where it is not, and which states are positive numbers.
//!
//! Nothing declares that. An input is a mask if it, or what constants are added to, subtracted from and multiplied with it,
//! is multiplied with a number so large that fractions of it would drown all else (`(1 - m) * -1e9`); it may be one if that
//! is compared with a constant (`m > 0`). A state is positive if it goes into a root, a logarithm or the exponent of a power of a
//! constant, perhaps multiplied with constants and with something added: the squares, and the number of steps, that an optimiser
//! keeps.

use salient_ir::op::MapOp;
use salient_ir::{Graph, NodeId, Op};
use std::collections::BTreeSet;

/// From this magnitude on a factor is there to mask.
const DROWNS: f64 = 1e4;

/// How a float input is used.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) enum Use {
    /// As any number.
    #[default]
    Number,
    /// Compared with a constant somewhere: it may be a mask.
    Compared,
    /// Multiplied with what drowns all else, where it is not this one of 0 and 1: other numbers would not be meant.
    Mask(f64),
    /// A state under a root or a logarithm, or in an exponent: the model never leaves others in it, and they would give NaN.
    Positive,
}

/// An affine function of an input: `scale * input + offset`.
#[derive(Clone, Copy)]
struct Affine {
    input: usize,
    scale: f64,
    offset: f64,
}

/// How each input is used, by position.
pub(super) fn uses(graph: &Graph) -> Vec<Use> {
    let mut out = of_masks(graph);
    for input in positive(graph) {
        if matches!(out[input], Use::Number) {
            out[input] = Use::Positive;
        }
    }
    out
}

/// States that go into roots, logarithms and exponents, by sums and by products and quotients with constants.
fn positive(graph: &Graph) -> BTreeSet<usize> {
    let mut stack: Vec<NodeId> = graph.ids().filter_map(|id| must_be_positive(graph, id)).collect();
    let (mut seen, mut out) = (BTreeSet::new(), BTreeSet::new());
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        let args = graph.args(id);
        match graph.op(id) {
            Op::Input(n) => {
                let is_float = graph.inputs()[*n].dtype.is_float();
                out.extend((is_float && graph.states().iter().any(|state| state.input == *n)).then_some(*n));
            }
            Op::At(_) => stack.push(args[0]),
            Op::Map(MapOp::Add) => stack.extend(args),
            Op::Map(MapOp::Mul | MapOp::Div) if args.iter().any(|arg| is_constant(graph, *arg)) => {
                stack.extend(args);
            }
            Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => {}
            Op::Reduce(..) | Op::CumSum(..) | Op::Concat(..) | Op::Fused(..) => {}
        }
    }
    out
}

fn is_constant(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.op(id), Op::Const(_))
}

/// What has to be positive for a node to have a value.
fn must_be_positive(graph: &Graph, id: NodeId) -> Option<NodeId> {
    let Op::Map(op) = *graph.op(id) else { return None };
    let args = graph.args(id);
    if matches!(op, MapOp::Sqrt | MapOp::Log) {
        Some(args[0])
    } else {
        (op == MapOp::Pow && is_constant(graph, args[0])).then(|| args[1])
    }
}

/// How each input is used beside others that mask, by position.
fn of_masks(graph: &Graph) -> Vec<Use> {
    let mut out = vec![Use::default(); graph.inputs().len()];
    // By node.
    let mut of: Vec<Option<Affine>> = vec![None; graph.len()];
    for id in graph.ids() {
        let args = graph.args(id);
        of[id.index()] = match graph.op(id) {
            Op::Input(n) => {
                let whole = Affine { input: *n, scale: 1.0, offset: 0.0 };
                graph.inputs()[*n].dtype.is_float().then_some(whole)
            }
            Op::At(_) => of[args[0].index()],
            Op::Map(map) => {
                let values: Vec<Result<Affine, f64>> =
                    args.iter().filter_map(|arg| value(graph, *arg, &of)).collect();
                if values.len() == args.len() { step(*map, &values, &mut out) } else { None }
            }
            Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => None,
            Op::Reduce(..) | Op::CumSum(..) | Op::Concat(..) | Op::Fused(..) => None,
        };
    }
    out
}

/// A node as an affine function of an input, or as a constant.
fn value(graph: &Graph, id: NodeId, of: &[Option<Affine>]) -> Option<Result<Affine, f64>> {
    match (of[id.index()], graph.op(id)) {
        (Some(affine), _) => Some(Ok(affine)),
        (None, Op::Const(c)) => Some(Err(c.value())),
        (None, _) => None,
    }
}

/// A scalar operator on an affine function and constants: notes what that says of the input, and gives the result if it is
/// affine too.
fn step(map: MapOp, values: &[Result<Affine, f64>], found: &mut [Use]) -> Option<Affine> {
    let scaled = |of: Affine, by: f64| Affine { scale: of.scale * by, offset: of.offset * by, ..of };
    let moved = |of: Affine, by: f64| Affine { offset: of.offset + by, ..of };
    match (map, values) {
        (MapOp::Eq | MapOp::Ne | MapOp::Lt | MapOp::Le, [Ok(of), Err(_)] | [Err(_), Ok(of)]) => {
            if found[of.input] == Use::Number {
                found[of.input] = Use::Compared;
            }
            None
        }
        (MapOp::Neg, [Ok(of)]) => Some(scaled(*of, -1.0)),
        (MapOp::Add, [Ok(of), Err(by)] | [Err(by), Ok(of)]) => Some(moved(*of, *by)),
        (MapOp::Sub, [Ok(of), Err(by)]) => Some(moved(*of, -by)),
        (MapOp::Sub, [Err(by), Ok(of)]) => Some(moved(scaled(*of, -1.0), *by)),
        (MapOp::Mul, [Ok(of), Err(by)] | [Err(by), Ok(of)]) => Some(drowned(scaled(*of, *by), *by, found)),
        (MapOp::Div, [Ok(of), Err(by)]) => Some(drowned(scaled(*of, by.recip()), by.recip(), found)),
        _ => None,
    }
}

/// Notes that the input is a mask if what it was just multiplied with is so large.
fn drowned(of: Affine, by: f64, found: &mut [Use]) -> Affine {
    if by.abs() >= DROWNS {
        let kept = if (of.scale + of.offset).abs() < of.offset.abs() { 1.0 } else { 0.0 };
        found[of.input] = Use::Mask(kept);
    }
    of
}
