//! Integers of a graph that must stay within the 32 bits in which compiled code computes them.
//!
//! The interpreter has more bits. So that no sum or product wraps unseen, a call is refused where it is not proved that all of
//! them fit: ranges are followed from what goes in, whose least and greatest elements are known, to every integer that is
//! computed. What is a polynomial of indices and dimensions alone is not looked at here where kernels compute it in 64 bits;
//! what lanes hold of those has limits of its own.

use crate::dim::range::Range;
use crate::dim::{Bindings, Name};
use crate::graph::{Graph, NodeId};
use crate::op::{Curve, MapInfo, MapOp, Op, ReduceOp};
use crate::ty::DType;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// What is known of the values of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// Integers, or truth values as 0 and 1.
    Integers(Range),
    /// Numbers from the first to the second; where nothing is known of an end it is infinite, and a NaN may be among them.
    Numbers(f64, f64),
}

const ANY_NUMBER: Values = Values::Numbers(f64::NEG_INFINITY, f64::INFINITY);
const TRUTH: Values = Values::Integers(Range { least: 0, greatest: 1 });

/// An integer that may not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{expression}` may be anything from {} to {}, and compiled code computes integers in 32 bits{}",
    .range.least, .range.greatest, .holds.iter().map(|(name, r)| format!("; `{name}` holds {} to {}", r.least, r.greatest)).collect::<String>()
)]
pub struct Wide {
    /// What is computed, as it was written.
    pub expression: String,
    /// What it may be.
    pub range: Range,
    /// The integer tensors that it follows from, and what they hold.
    pub holds: Vec<(Name, Range)>,
}

/// The integers of a graph that are computed from data, or in a way that may leave 32 bits whatever the data.
#[derive(Clone, Debug)]
pub struct Integers {
    graph: Graph,
    checked: BTreeSet<NodeId>,
    /// What their ranges follow from, arguments first.
    needed: BTreeSet<NodeId>,
}

impl Integers {
    /// `None` where nothing needs a look.
    pub fn new(g: &Graph) -> Option<Integers> {
        let polynomial = polynomials(g);
        let inside = indexed_by_data(g, &polynomial);
        let widens = |id: NodeId| widens(g, id) && (inside[id.index()] || !polynomial[id.index()]);
        let checked = |id: &NodeId| widens(*id) || becomes_integer(g, *id);
        let checked: BTreeSet<NodeId> = g.ids().filter(checked).collect();
        let mut needed = checked.clone();
        for id in g.ids().rev() {
            if needed.contains(&id) {
                needed.extend(sources(g, id));
            }
        }
        (!checked.is_empty()).then(|| Integers { graph: g.clone(), checked, needed })
    }

    /// Whether the elements of an input have to be known, by position.
    pub fn reads_input(&self, at: usize) -> bool {
        self.needed.iter().any(|id| matches!(self.graph.op(*id), Op::Input(n) if *n == at))
    }

    /// Whether the elements of a parameter have to be known, by position.
    pub fn reads_param(&self, at: usize) -> bool {
        self.needed.iter().any(|id| matches!(self.graph.op(*id), Op::Param(n) if *n == at))
    }

    /// Whether every integer fits, at these dimensions and for inputs and parameters that hold what is said. Of what is not
    /// known (`None`), nothing that follows is looked at.
    ///
    /// # Errors
    /// The first that may not fit.
    pub fn check(
        &self,
        bindings: &Bindings,
        input: impl Fn(usize) -> Option<Values>,
        param: impl Fn(usize) -> Option<Values>,
    ) -> Result<(), Wide> {
        let mut known: Vec<Option<Values>> = vec![None; self.graph.len()];
        for id in &self.needed {
            let values = if let Op::Input(n) = self.graph.op(*id) {
                input(*n)
            } else if let Op::Param(n) = self.graph.op(*id) {
                param(*n)
            } else {
                self.values(*id, bindings, &known)
            };
            known[id.index()] = values;
            if !self.checked.contains(id) {
                continue;
            }
            let range = match (self.converted(*id, &known), values) {
                (Some(range), _) | (None, Some(Values::Integers(range))) => range,
                (None, Some(Values::Numbers(..)) | None) => continue,
            };
            if !Range::I32.holds(range) {
                return Err(Wide {
                    expression: expression(&self.graph, *id, 4),
                    range,
                    holds: self.holds(*id, &known),
                });
            }
        }
        Ok(())
    }

    /// What a number that becomes an integer may be, where that is known. An end of which nothing is known is left out: it is
    /// no proof that the number does not fit.
    fn converted(&self, id: NodeId, known: &[Option<Values>]) -> Option<Range> {
        if !becomes_integer(&self.graph, id) {
            return None;
        }
        let whole = |n: f64| if n.is_finite() { n as i128 } else { 0 };
        Some(match known[self.graph.args(id)[0].index()]? {
            Values::Numbers(least, most) => Range::only(whole(least)).union(Range::only(whole(most))),
            Values::Integers(range) => range,
        })
    }

    /// What follows from what is known of the arguments.
    fn values(&self, id: NodeId, bindings: &Bindings, known: &[Option<Values>]) -> Option<Values> {
        let g = &self.graph;
        let args = g.args(id);
        let arg = |n: usize| known[args[n].index()];
        let extent = |axis| g.extent(axis).eval(bindings).ok().map(i128::from);
        match g.op(id) {
            Op::Const(c) if c.dtype().is_float() => Some(Values::Numbers(c.value(), c.value())),
            Op::Const(c) => Some(Values::Integers(Range::only(c.value() as i128))),
            Op::Iota(axis) => Some(Values::Integers(Range::below(extent(*axis)?))),
            Op::Extent(dim) => Some(Values::Integers(Range::only(dim.eval(bindings).ok()?))),
            Op::Map(op) if g.node(id).dtype == DType::Bool => {
                debug_assert!(!matches!(op, MapOp::ToF32), "a float is no truth value");
                Some(TRUTH)
            }
            Op::Map(MapOp::Select) => union(arg(1)?, arg(2)?),
            Op::Map(op) if g.node(id).dtype.is_int() => {
                let of: Option<SmallVec<[Range; 3]>> =
                    (0..args.len()).map(|n| arg(n).map(as_integers)).collect();
                Some(Values::Integers(op.info().range?(&of?)))
            }
            Op::Map(op) => Some(float_map(*op, arg(0)?, args.get(1).and_then(|_| arg(1)))),
            Op::Reduce(ReduceOp::ArgMax, axis) => Some(Values::Integers(Range::below(extent(*axis)?))),
            Op::Reduce(ReduceOp::Any | ReduceOp::All, _) => Some(TRUTH),
            Op::Reduce(ReduceOp::Max | ReduceOp::Min, _) | Op::At(_) => arg(0),
            Op::Reduce(ReduceOp::Sum, axis) | Op::CumSum(_, axis) => {
                let count = extent(*axis)?;
                Some(match arg(0)? {
                    Values::Integers(range) => Values::Integers(range.sums(count)),
                    Values::Numbers(least, most) => {
                        rounded(least.min(0.0) * count as f64, most.max(0.0) * count as f64)
                    }
                })
            }
            Op::Reduce(ReduceOp::Prod, axis) => match arg(0)? {
                Values::Integers(range) => Some(Values::Integers(range.products(extent(*axis)?))),
                Values::Numbers(..) => Some(ANY_NUMBER),
            },
            Op::Concat(..) => (0..args.len()).map(arg).reduce(|a, b| union(a?, b?)).flatten(),
            Op::Fused(..) => Some(ANY_NUMBER),
            Op::Input(_) | Op::Param(_) => None,
        }
    }

    /// The integer tensors that a node follows from.
    fn holds(&self, id: NodeId, known: &[Option<Values>]) -> Vec<(Name, Range)> {
        let mut from = BTreeSet::from([id]);
        for id in self.graph.ids().rev() {
            if from.contains(&id) {
                from.extend(sources(&self.graph, id));
            }
        }
        let named = from.into_iter().filter_map(|id| match known[id.index()]? {
            Values::Integers(range) => Some((self.graph.port(id)?.name.clone(), range)),
            Values::Numbers(..) => None,
        });
        named.collect()
    }
}

/// By node: whether it is a polynomial of indices and dimensions, or a quotient of such that are never negative. What is no such
/// thing is computed element by element.
fn polynomials(g: &Graph) -> Vec<bool> {
    // Whether it is one, and whether it is never negative.
    let mut out: Vec<(bool, bool)> = vec![(false, false); g.len()];
    for id in g.ids() {
        let args = g.args(id);
        let all =
            |out: &[(bool, bool)], of: fn((bool, bool)) -> bool| args.iter().all(|a| of(out[a.index()]));
        out[id.index()] = match g.op(id) {
            Op::Iota(_) | Op::Extent(_) => (true, true),
            Op::Const(c) if c.dtype().is_int() => (true, c.value() >= 0.0),
            Op::Map(MapOp::Add | MapOp::Mul) if g.node(id).dtype.is_int() => {
                (all(&out, |a| a.0), all(&out, |a| a.1))
            }
            Op::Map(MapOp::Sub | MapOp::Neg) if g.node(id).dtype.is_int() => (all(&out, |a| a.0), false),
            Op::Map(MapOp::IntDiv | MapOp::Mod) => (all(&out, |a| a.0 && a.1), all(&out, |a| a.1)),
            Op::Const(_)
            | Op::Map(_)
            | Op::Input(_)
            | Op::Param(_)
            | Op::Reduce(..)
            | Op::At(_)
            | Op::Concat(..)
            | Op::CumSum(..)
            | Op::Fused(..) => (false, false),
        };
    }
    out.into_iter().map(|(polynomial, _)| polynomial).collect()
}

/// By node: whether it may be read at an index that is no polynomial. Then indices in it are such, too.
fn indexed_by_data(g: &Graph, polynomial: &[bool]) -> Vec<bool> {
    let mut out = vec![false; g.len()];
    for id in g.ids().rev() {
        let args = g.args(id);
        match g.op(id) {
            Op::At(_) if !polynomial[args[1].index()] => out[args[0].index()] = true,
            Op::Concat(..) => args.iter().for_each(|a| out[a.index()] = true),
            Op::At(_) | Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::Map(_) | Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
        if out[id.index()] {
            args.iter().for_each(|a| out[a.index()] = true);
        }
    }
    out
}

/// Whether it makes an integer of a number.
fn becomes_integer(g: &Graph, id: NodeId) -> bool {
    matches!(g.op(id), Op::Map(MapOp::ToI32 | MapOp::ToI64)) && g.node(g.args(id)[0]).dtype.is_float()
}

/// Whether it is an integer that may lie outside of what its arguments are.
fn widens(g: &Graph, id: NodeId) -> bool {
    let of_row = matches!(g.op(id), Op::Map(op) if op.info().widens());
    let sums = matches!(g.op(id), Op::Reduce(ReduceOp::Sum | ReduceOp::Prod, _) | Op::CumSum(..));
    g.node(id).dtype.is_int() && (of_row || sums)
}

/// The arguments that decide what a node may be.
fn sources(g: &Graph, id: NodeId) -> Vec<NodeId> {
    let args = g.args(id);
    match g.op(id) {
        Op::Map(MapOp::Select) => args[1..].to_vec(),
        Op::Map(_) if g.node(id).dtype == DType::Bool => Vec::new(),
        Op::Map(_) | Op::Concat(..) | Op::CumSum(..) => args.to_vec(),
        Op::At(_) => args[..1].to_vec(),
        Op::Reduce(ReduceOp::ArgMax | ReduceOp::Any | ReduceOp::All, _) | Op::Fused(..) => Vec::new(),
        Op::Reduce(..) => args[..1].to_vec(),
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => Vec::new(),
    }
}

fn union(a: Values, b: Values) -> Option<Values> {
    match (a, b) {
        (Values::Integers(a), Values::Integers(b)) => Some(Values::Integers(a.union(b))),
        (Values::Numbers(a, b), Values::Numbers(c, d)) => Some(Values::Numbers(a.min(c), b.max(d))),
        (Values::Integers(_), Values::Numbers(..)) | (Values::Numbers(..), Values::Integers(_)) => None,
    }
}

/// What may be among integers of which these are known. A number outside of what its type holds is refused where it becomes an
/// integer.
fn as_integers(values: Values) -> Range {
    let fits = |n: f64| (n as i128).clamp(Range::I32.least, Range::I32.greatest);
    match values {
        Values::Integers(range) => range,
        Values::Numbers(least, most) => Range { least: fits(least), greatest: fits(most) },
    }
}

/// An operator that gives numbers, on what its arguments may be: as wide as rounding in f32 may make it, and anything where
/// nothing is known.
fn float_map(op: MapOp, x: Values, y: Option<Values>) -> Values {
    let ends = |values: Values| match values {
        Values::Integers(range) => (range.least as f64, range.greatest as f64),
        Values::Numbers(least, most) => (least, most),
    };
    let (a, b) = ends(x);
    let y = y.map(ends);
    let corners = |(c, d): (f64, f64), f: fn(f64, f64) -> f64| {
        let all = [f(a, c), f(a, d), f(b, c), f(b, d)];
        if all.iter().any(|n| n.is_nan()) {
            return ANY_NUMBER;
        }
        rounded(
            all.into_iter().fold(f64::INFINITY, f64::min),
            all.into_iter().fold(f64::NEG_INFINITY, f64::max),
        )
    };
    if let Some(curve) = op.info().curve {
        return function(op.info(), &curve, (a, b));
    }
    let has_zero = |(c, d): (f64, f64)| c <= 0.0 && 0.0 <= d;
    match (op, y) {
        (MapOp::ToF32, _) => rounded(a, b),
        (MapOp::Neg, _) => Values::Numbers(-b, -a),
        (MapOp::Philox, _) => Values::Numbers(0.0, 1.0),
        (MapOp::Abs, _) => {
            let most = a.abs().max(b.abs());
            Values::Numbers(if has_zero((a, b)) { 0.0 } else { a.abs().min(b.abs()) }, most)
        }
        (MapOp::Recip, _) if !has_zero((a, b)) => rounded(1.0 / b, 1.0 / a),
        (MapOp::Add, Some(y)) => corners(y, |x, y| x + y),
        (MapOp::Sub, Some(y)) => corners(y, |x, y| x - y),
        (MapOp::Mul, Some(y)) => corners(y, |x, y| x * y),
        (MapOp::Div, Some(y)) if !has_zero(y) => corners(y, |x, y| x / y),
        (MapOp::Min, Some((c, d))) => Values::Numbers(a.min(c), b.min(d)),
        (MapOp::Max, Some((c, d))) => Values::Numbers(a.max(c), b.max(d)),
        _ => ANY_NUMBER,
    }
}

/// A function of one number that lies between two.
fn function(info: &MapInfo, curve: &Curve, (a, b): (f64, f64)) -> Values {
    let of = |x: f64| (info.eval)(&[x]);
    if curve.is_bounded() {
        Values::Numbers(curve.least, curve.greatest)
    } else if !curve.rises || a < curve.from {
        ANY_NUMBER
    } else if info.exact {
        Values::Numbers(of(a), of(b))
    } else {
        rounded(of(a), of(b))
    }
}

/// A range of numbers, somewhat wider: sums in f32 lose a little.
fn rounded(least: f64, most: f64) -> Values {
    const SLACK: f64 = 1e-3;
    if least.is_nan() || most.is_nan() {
        return ANY_NUMBER;
    }
    let wider = |n: f64, sign: f64| if n.is_finite() { n + sign * (n.abs() * SLACK + 1e-6) } else { n };
    Values::Numbers(wider(least, -1.0), wider(most, 1.0))
}

/// A node as it might have been written; what lies deeper is left out.
fn expression(g: &Graph, id: NodeId, depth: usize) -> String {
    expression_in(g, id, depth, true)
}

fn expression_in(g: &Graph, id: NodeId, depth: usize, outermost: bool) -> String {
    let node = g.node(id);
    if let (Some(name), false) = (g.port(id).map(|p| &p.name).or(node.name.as_ref()), outermost) {
        return name.to_string();
    }
    if depth == 0 {
        return "…".to_owned();
    }
    let args = g.args(id);
    let arg = |n: usize| expression_in(g, args[n], depth - 1, false);
    let called = |name: &str| {
        let list: Vec<String> = (0..args.len()).map(arg).collect();
        format!("{name}({})", list.join(", "))
    };
    let text = match g.op(id) {
        Op::Const(c) => c.value().to_string(),
        Op::Iota(axis) => g.axis(*axis).name.to_string(),
        Op::Extent(dim) => dim.to_string(),
        Op::At(_) => format!("{}[{}]", arg(0), arg(1)),
        Op::Map(op) => match (op.info().sign(), args.len()) {
            (Some(sign), 2) => {
                let is_sum = |n: usize| {
                    let has_sign = matches!(g.op(args[n]), Op::Map(inner) if inner.info().sign().is_some());
                    has_sign && g.node(args[n]).name.is_none()
                };
                let inner = |n: usize| if is_sum(n) { format!("({})", arg(n)) } else { arg(n) };
                format!("{} {sign} {}", inner(0), inner(1))
            }
            (Some(sign), _) => format!("{sign}{}", arg(0)),
            (None, _) => called(op.info().name),
        },
        Op::Reduce(op, _) => called(op.info().name),
        Op::CumSum(..) => called("cumsum"),
        Op::Concat(..) => called("concat"),
        Op::Fused(..) | Op::Input(_) | Op::Param(_) => "a tensor".to_owned(),
    };
    match (&node.name, outermost) {
        (Some(name), true) => format!("{name} = {text}"),
        (None, _) | (Some(_), false) => text,
    }
}
