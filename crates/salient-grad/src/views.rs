//! The adjoint of a view: what is read at an index, perhaps several times, gets what flows into each of its readers.
//!
//! The indices of a view say where each of its elements is read from. Here they are solved for the axes of the view, so that each
//! element that is read finds its readers: a slice becomes a guard, a split axis a merged one, repeated heads a sum over the
//! repetitions, a distance one over its ends. What cannot be solved, as an index that is data, becomes a sum over all readers that
//! compares.

use crate::adjoint::{Adjoints, Cotangent};
use crate::make::Make;
use crate::slices::{self, Slice};
use salient_ir::{AxisId, AxisSet, Builder, Const, Dim, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// A view of a node, and what flows into it.
pub(crate) struct Read {
    pub(crate) base: NodeId,
    /// At which index each axis of the node is read.
    pub(crate) indices: Vec<(AxisId, NodeId)>,
    /// The axes of the view.
    pub(crate) domain: AxisSet,
    pub(crate) flow: Cotangent,
}

/// Passes what flows into a view on to what it reads. A view of views is one.
pub(crate) fn pull_back(a: &mut Adjoints<'_>, id: NodeId, flow: Cotangent) {
    let (base, indices) = composed(a.b, id);
    if !a.is_active(base) {
        return;
    }
    let domain = a.b.node(id).axes.clone();
    match Slice::of(a, Read { base, indices, domain, flow }) {
        Ok(slice) => a.slice(base, slice),
        Err(read) => invert(a, read),
    }
}

/// Passes what flows into a view on to what it reads: each element finds its readers.
pub(crate) fn invert(a: &mut Adjoints<'_>, read: Read) {
    let Read { base, indices, domain, flow } = read;
    let inverse = Inverse::of(a.b, base, &indices, &domain);
    let mut value = a.b.moved(flow.value, &inverse.at);
    let mut mask = flow.mask.map(|mask| a.b.moved(mask, &inverse.at));
    // The bounds of an index stay at the view: outside of them nothing is looked at. An index that is compared may have bounds of
    // its own, which hold where the view was looked at.
    let is_guarded = inverse.guard.is_some() || inverse.compared.is_some();
    if is_guarded {
        mask = a.b.both(inverse.guard, mask);
        mask = a.b.both(mask, inverse.compared);
    }
    let own = a.b.node(base).axes.clone();
    let over: AxisSet = inverse.over.iter().copied().collect();
    if is_guarded && over.is_empty() {
        value = a.b.masked(mask, value);
        mask = mask.filter(|_| a.is_open(base));
    }
    a.add(base, &own.union(&over), Cotangent { mask, value });
}

/// What a view of views reads, and at which index of each axis that is not read at its own. A slice that parts an axis with others
/// is read as a value of its own: what flows into it is a part of what flows into the whole.
fn composed(b: &mut Builder, id: NodeId) -> (NodeId, Vec<(AxisId, NodeId)>) {
    let mut at: BTreeMap<AxisId, NodeId> = BTreeMap::new();
    let mut base = id;
    while let Op::At(axis) = *b.op(base)
        && (base == id || !slices::is_part(b, base))
    {
        let args = b.args(base);
        let outer: Vec<(AxisId, NodeId)> = at.iter().map(|(axis, index)| (*axis, *index)).collect();
        let index = b.composed(args[1], &outer);
        base = args[0];
        let own = b.node(base).axes.clone();
        // An axis that the inner index brings in is not one of what is read, unless that has it too.
        at.retain(|axis, _| own.contains(*axis));
        at.insert(axis, index);
    }
    let indices = b.node(base).axes.clone();
    let index = |axis: AxisId, b: &mut Builder| at.get(&axis).copied().unwrap_or_else(|| b.iota(axis));
    let indices = indices.iter().map(|axis| (axis, index(axis, b))).collect();
    (base, indices)
}

/// `index` at a position that reads is `target` at the one that is read, which is below `total`.
#[derive(Clone)]
struct Equation {
    index: NodeId,
    target: NodeId,
    total: Dim,
}

/// An index as a sum of multiples of axes.
#[derive(Clone)]
pub(crate) struct Linear {
    pub(crate) axes: BTreeMap<AxisId, Dim>,
    pub(crate) rest: Dim,
}

/// Where the readers of an element are.
struct Inverse {
    /// What each axis of the reader stands for.
    at: Vec<(AxisId, NodeId)>,
    /// Axes over all positions of which there may be readers.
    over: Vec<AxisId>,
    /// Where there is a reader at all.
    guard: Option<NodeId>,
    /// Where indices that could not be solved are those of what is read.
    compared: Option<NodeId>,
}

struct Solver<'b> {
    b: &'b mut Builder,
    unsolved: BTreeSet<AxisId>,
    at: Vec<(AxisId, NodeId)>,
    over: Vec<AxisId>,
    guard: Option<NodeId>,
    /// Axes that a new one must differ from.
    taken: AxisSet,
}

impl Inverse {
    /// Solves the indices of a view for the axes of its domain.
    fn of(b: &mut Builder, base: NodeId, indices: &[(AxisId, NodeId)], domain: &AxisSet) -> Inverse {
        let own = b.node(base).axes.clone();
        let taken = own.union(domain);
        let mut s = Solver {
            b,
            unsolved: domain.iter().collect(),
            at: Vec::new(),
            over: Vec::new(),
            guard: None,
            taken,
        };
        let equations: Vec<Equation> = indices
            .iter()
            .map(|(axis, index)| Equation {
                index: *index,
                target: s.b.iota(*axis),
                total: s.b.extent(*axis).clone(),
            })
            .collect();
        // What is read at its own index first, so that it keeps its name.
        let (same, rest): (Vec<Equation>, Vec<Equation>) =
            equations.into_iter().partition(|e| e.index == e.target);
        let left = s.solve(same);
        let rest = s.joined([left, rest].concat());
        let left = s.solve(rest);
        let left = s.without_quotients(left);
        let left = s.solve(left);
        let left = s.solve_for_one(left, &own);
        s.finish(&left, &own)
    }
}

impl Solver<'_> {
    /// Solves what can be, in an order in which each finds what it needs; gives what is left.
    fn solve(&mut self, mut equations: Vec<Equation>) -> Vec<Equation> {
        loop {
            let before = equations.len();
            equations.retain(|equation| !self.solves(equation));
            if equations.len() == before {
                return equations;
            }
        }
    }

    fn and(&mut self, condition: NodeId) {
        self.guard = self.b.both(self.guard, Some(condition));
    }

    /// A node in which what is solved is replaced.
    fn replaced(&mut self, id: NodeId) -> NodeId {
        self.b.moved(id, &self.at)
    }

    /// Solves an equation whose index is linear, for all axes in it that are not solved: they are the digits of the number that
    /// is left. Says whether it could.
    fn solves(&mut self, equation: &Equation) -> bool {
        let Some(linear) = linear(self.b, equation.index) else { return false };
        let open: BTreeMap<AxisId, Dim> = linear
            .axes
            .iter()
            .filter(|(axis, _)| self.unsolved.contains(axis))
            .map(|(a, d)| (*a, d.clone()))
            .collect();
        let Some(digits) = digits(self.b, &open) else { return false };
        let first = first_of_steps(&linear, &digits, open.len());
        let (mut number, is_whole) = match first {
            Some(_) => (equation.target, true),
            None => self.without_known(equation, &linear, digits.is_negative),
        };
        if !is_whole {
            let zero = self.b.integer(0);
            let is_inside = self.b.apply(MapOp::Le, &[zero, number]);
            self.and(is_inside);
        }
        if let Some(stride) = &digits.stride {
            let (stride, first) = (self.b.length(stride), self.b.integer(first.unwrap_or(0)));
            let rest = self.b.apply(MapOp::Mod, &[number, stride]);
            let is_step = self.b.apply(MapOp::Eq, &[rest, first]);
            self.and(is_step);
            number = self.b.apply(MapOp::IntDiv, &[number, stride]);
        }
        let whole = number;
        let (last, lower) = digits.axes.split_last().expect("there is one");
        let mut product = Dim::constant(1);
        for axis in lower {
            let extent = self.b.extent(*axis).clone();
            let length = self.b.length(&extent);
            let digit = self.b.apply(MapOp::Mod, &[number, length]);
            self.known(*axis, digit);
            number = self.b.apply(MapOp::IntDiv, &[number, length]);
            product = &product * &extent;
        }
        let extent = self.b.extent(*last).clone();
        product = &product * &extent;
        let steps = digits.stride.as_ref().map_or(product.clone(), |stride| &product * stride);
        let fits = is_whole && equation.total.provably_le(&steps);
        if !fits {
            let length = self.b.length(&product);
            let is_inside = self.b.apply(MapOp::Lt, &[whole, length]);
            self.and(is_inside);
        }
        self.known(*last, number);
        true
    }

    /// Solves what is left for one axis each, as `i - j` for `j`: over the others there are readers at all positions.
    fn solve_for_one(&mut self, equations: Vec<Equation>, own: &AxisSet) -> Vec<Equation> {
        let mut left = Vec::new();
        for equation in equations {
            let linear = linear(self.b, equation.index);
            let open: Vec<(AxisId, Dim)> = linear
                .into_iter()
                .flat_map(|linear| linear.axes)
                .filter(|(axis, _)| self.unsolved.contains(axis))
                .collect();
            let is_unit = |(_, factor): &&(AxisId, Dim)| matches!(factor.as_constant(), Some(1 | -1));
            let Some(one) = open.iter().rev().find(is_unit).map(|(axis, _)| *axis) else {
                left.push(equation);
                continue;
            };
            for (axis, _) in open.iter().filter(|(axis, _)| *axis != one) {
                self.unsolved.remove(axis);
                self.sum_over(*axis, own);
            }
            if !self.solves(&equation) {
                left.push(equation);
            }
        }
        left
    }

    /// What an equation leaves for the axes that are not solved, and whether it is the target itself.
    fn without_known(&mut self, equation: &Equation, linear: &Linear, is_negative: bool) -> (NodeId, bool) {
        let mut known: Option<NodeId> = None;
        for (axis, factor) in &linear.axes {
            if self.unsolved.contains(axis) {
                continue;
            }
            let iota = self.b.iota(*axis);
            let term = if *factor == Dim::constant(1) {
                iota
            } else {
                let factor = self.b.length(factor);
                self.b.apply(MapOp::Mul, &[iota, factor])
            };
            let term = self.replaced(term);
            known = Some(known.map_or(term, |sum| self.b.plus(sum, term)));
        }
        if linear.rest != Dim::constant(0) {
            let rest = self.b.length(&linear.rest);
            known = Some(known.map_or(rest, |sum| self.b.plus(sum, rest)));
        }
        match (known, is_negative) {
            (None, false) => (equation.target, true),
            (None, true) => (self.b.apply(MapOp::Neg, &[equation.target]), false),
            (Some(known), false) => (self.b.apply(MapOp::Sub, &[equation.target, known]), false),
            (Some(known), true) => (self.b.apply(MapOp::Sub, &[known, equation.target]), false),
        }
    }

    fn known(&mut self, axis: AxisId, value: NodeId) {
        self.unsolved.remove(&axis);
        self.at.push((axis, value));
    }

    /// A quotient and a remainder of one number by one divisor say what the number is.
    fn joined(&mut self, mut equations: Vec<Equation>) -> Vec<Equation> {
        let mut out = Vec::new();
        while let Some(equation) = equations.pop() {
            let found = quotient(self.b, equation.index).and_then(|(op, number, by)| {
                let is_other = |e: &Equation| {
                    quotient(self.b, e.index).is_some_and(|(o, n, d)| o != op && n == number && d == by)
                };
                let at = equations.iter().position(is_other)?;
                Some((op, number, by, at))
            });
            let Some((op, number, by, at)) = found else {
                out.push(equation);
                continue;
            };
            let other = equations.remove(at);
            let (quotient, rest) = if op == MapOp::IntDiv { (equation, other) } else { (other, equation) };
            let length = self.b.length(&by);
            if !rest.total.provably_le(&by) {
                let is_inside = self.b.apply(MapOp::Lt, &[rest.target, length]);
                self.and(is_inside);
            }
            let high = self.b.apply(MapOp::Mul, &[quotient.target, length]);
            let target = self.b.plus(high, rest.target);
            out.push(Equation { index: number, target, total: &quotient.total * &by });
        }
        out.reverse();
        out
    }

    /// A quotient alone is of as many numbers as the divisor, a remainder of one number in so many: the readers are along a new axis.
    fn without_quotients(&mut self, equations: Vec<Equation>) -> Vec<Equation> {
        let mut out = Vec::new();
        for equation in equations {
            let Some((op, number, by)) = quotient(self.b, equation.index) else {
                out.push(equation);
                continue;
            };
            let Some((of, is_whole)) = self.only_open(number) else {
                out.push(equation);
                continue;
            };
            // A rotation: what is rotated is as long as the divisor.
            if op == MapOp::Mod && *self.b.extent(of) == by {
                self.rotates(&equation, number, of, &by);
                continue;
            }
            if !is_whole {
                out.push(equation);
                continue;
            }
            let length = self.b.length(&by);
            let (target, total) = if op == MapOp::IntDiv {
                let each = self.new_axis(of, &by);
                let (high, low) = (self.b.apply(MapOp::Mul, &[equation.target, length]), self.b.iota(each));
                (self.b.plus(high, low), &equation.total * &by)
            } else {
                let Some(count) = self.b.extent(of).ceil_div(&by) else {
                    out.push(equation);
                    continue;
                };
                if !equation.total.provably_le(&by) {
                    let is_inside = self.b.apply(MapOp::Lt, &[equation.target, length]);
                    self.and(is_inside);
                }
                let each = self.new_axis(of, &count);
                let each = self.b.iota(each);
                let high = self.b.apply(MapOp::Mul, &[each, length]);
                (self.b.plus(high, equation.target), &count * &by)
            };
            out.push(Equation { index: number, target, total });
        }
        out
    }

    /// The one axis in a number that is not solved, if it is counted by ones; and whether nothing is added to it.
    fn only_open(&self, number: NodeId) -> Option<(AxisId, bool)> {
        let linear = linear(self.b, number)?;
        let open = linear.axes.iter().filter(|(axis, _)| self.unsolved.contains(axis));
        let [(axis, factor)] = open.collect::<Vec<_>>()[..] else { return None };
        let is_whole = linear.axes.len() == 1 && linear.rest == Dim::constant(0);
        (*factor == Dim::constant(1)).then_some((*axis, is_whole))
    }

    /// Solves `(axis + shift) % by`, where the axis is as long as the divisor: `(target - shift) % by`.
    fn rotates(&mut self, equation: &Equation, number: NodeId, axis: AxisId, by: &Dim) {
        let length = self.b.length(by);
        if !equation.total.provably_le(by) {
            let is_inside = self.b.apply(MapOp::Lt, &[equation.target, length]);
            self.and(is_inside);
        }
        let zero = self.b.integer(0);
        let shift = self.b.moved(number, &[(axis, zero)]);
        let shift = self.replaced(shift);
        let back = self.b.apply(MapOp::Sub, &[equation.target, shift]);
        let position = self.b.apply(MapOp::Mod, &[back, length]);
        self.known(axis, position);
    }

    /// An axis to sum over, named after another one.
    fn new_axis(&mut self, like: AxisId, extent: &Dim) -> AxisId {
        let name = self.b.axis(like).name.clone();
        let axis = self.b.axis_id(&name, extent);
        let axis = if self.taken.contains(axis) { self.b.fresh_axis(axis, &self.taken) } else { axis };
        self.taken.insert(axis);
        self.over.push(axis);
        axis
    }

    /// There are readers at all positions of an axis; under another name, if what is read has an axis of that name.
    fn sum_over(&mut self, axis: AxisId, own: &AxisSet) {
        if own.contains(axis) {
            let extent = self.b.extent(axis).clone();
            let each = self.new_axis(axis, &extent);
            let each = self.b.iota(each);
            self.at.push((axis, each));
        } else {
            self.over.push(axis);
        }
    }

    /// Sums over what is not solved, and compares where an index could not be solved.
    fn finish(mut self, left: &[Equation], own: &AxisSet) -> Inverse {
        for axis in std::mem::take(&mut self.unsolved) {
            self.sum_over(axis, own);
        }
        // An axis of one position is read there alone.
        let mut compared = None;
        for equation in left.iter().filter(|equation| equation.total != Dim::constant(1)) {
            let index = self.replaced(equation.index);
            let index = self.b.wide(index);
            let is_here = self.b.apply(MapOp::Eq, &[index, equation.target]);
            compared = self.b.both(compared, Some(is_here));
        }
        Inverse { at: self.at, over: self.over, guard: self.guard, compared }
    }
}

/// Axes as digits of a number, the lowest first.
struct Digits {
    axes: Vec<AxisId>,
    /// What the whole number is a multiple of, if not of one.
    stride: Option<Dim>,
    /// Whether the number is subtracted.
    is_negative: bool,
}

/// The first position of an index that goes in steps of one size, if it is less than a step: then the quotient of each position by the
/// step, which is never below zero, is the number of the reader.
fn first_of_steps(linear: &Linear, digits: &Digits, open: usize) -> Option<i64> {
    let (first, step) = (linear.rest.as_constant()?, digits.stride.as_ref()?.as_constant()?);
    let has_others = linear.axes.len() > open;
    (!digits.is_negative && !has_others && (0..step).contains(&first)).then_some(first)
}

/// The axes of a sum as digits: each is a multiple of the lengths of those before it.
fn digits(g: &Graph, of: &BTreeMap<AxisId, Dim>) -> Option<Digits> {
    let one = Dim::constant(1);
    if let Some((axis, factor)) = of.iter().next().filter(|_| of.len() == 1) {
        let axes = vec![*axis];
        return match factor.as_constant() {
            Some(1) => Some(Digits { axes, stride: None, is_negative: false }),
            Some(-1) => Some(Digits { axes, stride: None, is_negative: true }),
            Some(n) if n < 1 => None,
            Some(_) | None => Some(Digits { axes, stride: Some(factor.clone()), is_negative: false }),
        };
    }
    let (mut rest, mut stride, mut axes) = (of.clone(), one, Vec::new());
    while !rest.is_empty() {
        let next = rest.iter().find(|(_, factor)| **factor == stride).map(|(axis, _)| *axis)?;
        rest.remove(&next);
        stride = &stride * g.extent(next);
        axes.push(next);
    }
    (!axes.is_empty()).then_some(Digits { axes, stride: None, is_negative: false })
}

/// `number / by` or `number % by`.
fn quotient(g: &Graph, index: NodeId) -> Option<(MapOp, NodeId, Dim)> {
    let Op::Map(op @ (MapOp::IntDiv | MapOp::Mod)) = *g.op(index) else { return None };
    let args = g.args(index);
    Some((op, args[0], length(g, args[1])?))
}

/// The dimension that a node is.
fn length(g: &Graph, id: NodeId) -> Option<Dim> {
    match g.op(id) {
        Op::Const(Const::I64(n)) => Some(Dim::constant(*n)),
        Op::Const(Const::I32(n)) => Some(Dim::constant(i64::from(*n))),
        Op::Extent(dim) => Some(dim.clone()),
        Op::Const(Const::F32(_) | Const::Bool(_))
        | Op::Input(_)
        | Op::Param(_)
        | Op::Iota(_)
        | Op::Map(_) => None,
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
    }
}

/// An index as a sum of multiples of axes, if it is one.
pub(crate) fn linear(g: &Graph, id: NodeId) -> Option<Linear> {
    linear_within(g, id, &mut BTreeMap::new())
}

/// As [`linear`], each part once: an index may read its parts over and over.
fn linear_within(g: &Graph, id: NodeId, known: &mut BTreeMap<NodeId, Option<Linear>>) -> Option<Linear> {
    if let Some(found) = known.get(&id) {
        return found.clone();
    }
    let found = as_linear(g, id, known);
    known.insert(id, found.clone());
    found
}

fn as_linear(g: &Graph, id: NodeId, known: &mut BTreeMap<NodeId, Option<Linear>>) -> Option<Linear> {
    if let Some(rest) = length(g, id) {
        return Some(Linear { axes: BTreeMap::new(), rest });
    }
    if let Op::Iota(axis) = *g.op(id) {
        return Some(Linear { axes: [(axis, Dim::constant(1))].into(), rest: Dim::constant(0) });
    }
    let Op::Map(op) = *g.op(id) else { return None };
    let args = g.args(id);
    let mut of = args.iter().map(|arg| linear_within(g, *arg, known));
    let first = of.next()??;
    match op {
        MapOp::Neg => Some(scaled(&first, &Dim::constant(-1))),
        MapOp::ToI64 => Some(first),
        MapOp::Add => Some(sum(first, &of.next()??)),
        MapOp::Sub => Some(sum(first, &scaled(&of.next()??, &Dim::constant(-1)))),
        MapOp::Mul => {
            let second = of.next()??;
            if second.axes.is_empty() {
                Some(scaled(&first, &second.rest))
            } else {
                first.axes.is_empty().then(|| scaled(&second, &first.rest))
            }
        }
        MapOp::Recip | MapOp::Abs | MapOp::Floor | MapOp::Exp | MapOp::Log | MapOp::Sqrt | MapOp::Tanh => {
            None
        }
        MapOp::Erf | MapOp::Sin | MapOp::Cos | MapOp::Not | MapOp::ToF32 | MapOp::ToI32 | MapOp::Div => None,
        MapOp::Pow | MapOp::Min | MapOp::Max | MapOp::IntDiv | MapOp::Mod | MapOp::Eq | MapOp::Ne => None,
        MapOp::Lt | MapOp::Le | MapOp::And | MapOp::Or | MapOp::Select | MapOp::Philox => None,
    }
}

fn scaled(of: &Linear, by: &Dim) -> Linear {
    let axes = of.axes.iter().map(|(axis, factor)| (*axis, factor * by));
    Linear { axes: axes.filter(|(_, factor)| *factor != Dim::constant(0)).collect(), rest: &of.rest * by }
}

fn sum(a: Linear, b: &Linear) -> Linear {
    let mut axes = a.axes;
    for (axis, factor) in &b.axes {
        let before = axes.remove(axis).unwrap_or_else(|| Dim::constant(0));
        let both = &before + factor;
        if both != Dim::constant(0) {
            axes.insert(*axis, both);
        }
    }
    Linear { axes, rest: &a.rest + &b.rest }
}
