//! Indices under guards: what an index is wherever its view is used. `r[max(i - j, 0)]` under `if j <= i` is `r[i - j]`; a quotient
//! whose remainder the guard bounds is read off; of a concatenation or a choice the part is read that the index lies in.
//!
//! A guard is an inequality of indices that holds wherever a value is used, since every use of the value is in the arm of a
//! choice that asks for it.

use crate::graph::index::AffineIndex;
use crate::graph::inequalities::{AtLeastZero, MOST, inequalities, is_never_below_zero};
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, Builder, Class, Dim, Graph, MapOp, NodeId, Op};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The same model with indices as they are where their views are used.
pub(crate) fn guarded_indices(g: &Graph) -> Graph {
    let guards = guards(g);
    if guards.iter().all(Guards::is_empty) {
        return g.clone();
    }
    let rewritten = rewrite(g, |b, new, id| {
        let args = g.args(id);
        let under = Under { g, guards: &guards[id.index()], made: RefCell::default() };
        if let Op::Map(MapOp::Select) = g.op(id) {
            let arm = under.decided(id, |known| under.is_at_least_zero(known))?;
            return (g.node(arm).axes == g.node(id).axes).then(|| new[arm.index()]);
        }
        let Op::At(axis) = *g.op(id) else { return None };
        let index = under.simplified(b, new, args[1]);
        under.read(b, new, args[0], axis, (args[1], index))
    });
    rewritten.graph
}

/// What is known wherever a value is used.
#[derive(Clone, Debug, Default)]
struct Guards(BTreeSet<AtLeastZero>);

impl Guards {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that do not speak of an axis.
    fn without(&self, axis: AxisId) -> Guards {
        Guards(self.0.iter().filter(|known| !known.has(axis)).cloned().collect())
    }
}

/// What is known of indices wherever a value is used.
pub(super) struct KnownIndices<'g> {
    g: &'g Graph,
    guards: Vec<Guards>,
}

impl<'g> KnownIndices<'g> {
    pub(super) fn new(g: &'g Graph) -> KnownIndices<'g> {
        KnownIndices { g, guards: guards(g) }
    }

    /// Whether an index is proved to be a position of the axis wherever a value is used.
    pub(super) fn is_inside(&self, used: NodeId, index: &AffineIndex, axis: AxisId) -> bool {
        let under = Under { g: self.g, guards: &self.guards[used.index()], made: RefCell::default() };
        let last = AffineIndex::fixed(self.g.extent(axis) - &Dim::constant(1));
        under.is_at_least_zero(index) && under.is_at_least_zero(&last.less(index))
    }
}

/// For each node what holds wherever it is used.
fn guards(g: &Graph) -> Vec<Guards> {
    let mut known: Vec<Option<Guards>> = vec![None; g.len()];
    for output in g.outputs() {
        known[output.node.index()] = Some(Guards::default());
    }
    for id in g.ids().rev() {
        let own = known[id.index()].clone().unwrap_or_default();
        for (at, arg) in g.args(id).into_iter().enumerate() {
            let here = of_argument(g, id, at, &own);
            let slot = &mut known[arg.index()];
            *slot = Some(match slot.take() {
                None => here,
                Some(before) => Guards(before.0.intersection(&here.0).cloned().collect()),
            });
        }
    }
    known.into_iter().map(Option::unwrap_or_default).collect()
}

/// What holds wherever an argument of a node is used for it.
fn of_argument(g: &Graph, id: NodeId, at: usize, own: &Guards) -> Guards {
    match g.op(id) {
        Op::Map(MapOp::Select) if at > 0 => {
            let mut out = own.clone();
            let found = inequalities(g, g.args(id)[0], at == 1);
            out.0.extend(found.into_iter().take(MOST.saturating_sub(out.0.len())));
            out
        }
        // Of the tensor under a view the axis that is replaced is another one: that of the index, if it is one.
        Op::At(axis) if at == 0 => {
            let mut out = own.without(*axis);
            if let Some((other, place)) = inverse(g, *axis, g.args(id)[1]) {
                let moved = own.0.iter().filter(|known| !known.has(*axis));
                out.0.extend(moved.map(|known| known.with(other, &place)));
            }
            out
        }
        Op::CumSum(_, axis) if at == 0 => own.without(*axis),
        Op::Map(_) | Op::At(_) | Op::CumSum(..) => own.clone(),
        Op::Reduce(_, axis) => own.without(*axis),
        Op::Concat(..) | Op::Fused(..) => Guards::default(),
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => Guards::default(),
    }
}

/// Of an index that is the own one of an axis, moved: that axis, and its index by that which is replaced.
fn inverse(g: &Graph, axis: AxisId, index: NodeId) -> Option<(AxisId, AffineIndex)> {
    let place = AffineIndex::of(g, index)?;
    let mut terms = place.terms.iter();
    let (Some((other, times)), None) = (terms.next(), terms.next()) else { return None };
    let minus = &Dim::constant(0) - &place.offset;
    (times.as_constant() == Some(1))
        .then(|| (*other, AffineIndex { terms: [(axis, Dim::constant(1))].into(), offset: minus }))
}

/// A view, and what holds wherever it is used.
struct Under<'g> {
    g: &'g Graph,
    guards: &'g Guards,
    /// What became of integers: an index may read its parts over and over.
    made: RefCell<BTreeMap<NodeId, NodeId>>,
}

impl Under<'_> {
    /// Whether an index is proved to be at least zero: by itself, or since it is more than what a guard says is.
    fn is_at_least_zero(&self, index: &AffineIndex) -> bool {
        is_never_below_zero(self.g, index)
            || self.guards.0.iter().any(|known| is_never_below_zero(self.g, &index.less(&known.index())))
    }

    /// An index with what the guards decide in it decided; each part once.
    fn simplified(&self, b: &mut Builder, new: &[NodeId], id: NodeId) -> NodeId {
        let known = self.made.borrow().get(&id).copied();
        known.unwrap_or_else(|| {
            let made = self.simplify(b, new, id);
            self.made.borrow_mut().insert(id, made);
            made
        })
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing is decided in others")]
    fn simplify(&self, b: &mut Builder, new: &[NodeId], id: NodeId) -> NodeId {
        let g = self.g;
        let (Op::Map(op), true) = (g.op(id), g.node(id).dtype.is_int()) else { return new[id.index()] };
        let args = g.args(id);
        let of = |id: NodeId| AffineIndex::of(g, id);
        let is_most =
            |a: NodeId, c: NodeId| of(a).zip(of(c)).is_some_and(|(a, c)| self.is_at_least_zero(&a.less(&c)));
        match op {
            MapOp::Max | MapOp::Min => {
                let (most, least) = if is_most(args[0], args[1]) {
                    (args[0], args[1])
                } else if is_most(args[1], args[0]) {
                    (args[1], args[0])
                } else {
                    return self.rebuilt(b, new, id);
                };
                self.simplified(b, new, if *op == MapOp::Max { most } else { least })
            }
            MapOp::IntDiv | MapOp::Mod => match of(args[0]).zip(of(args[1])) {
                Some((index, by)) if by.terms.is_empty() => match self.divided(&index, &by.offset) {
                    Some((quotient, rest)) => {
                        let place = if *op == MapOp::IntDiv { quotient } else { rest };
                        place.add_to(b, None)
                    }
                    None => self.rebuilt(b, new, id),
                },
                _ => self.rebuilt(b, new, id),
            },
            _ => self.rebuilt(b, new, id),
        }
    }

    /// The same operator of simplified arguments.
    fn rebuilt(&self, b: &mut Builder, new: &[NodeId], id: NodeId) -> NodeId {
        let args: Vec<NodeId> = self.g.args(id).iter().map(|arg| self.simplified(b, new, *arg)).collect();
        b.add(self.g.op(id).clone(), &args).expect("integers as before")
    }

    /// `(q, r)` with `index = q * by + r` and `0 <= r < by` wherever the guards hold.
    fn divided(&self, index: &AffineIndex, by: &Dim) -> Option<(AffineIndex, AffineIndex)> {
        let fixed = |offset: Dim| AffineIndex { terms: BTreeMap::new(), offset };
        let (mut quotient, mut rest) = (fixed(Dim::constant(0)), fixed(Dim::constant(0)));
        let part = |of: &Dim| {
            let (times, left) = of.split_multiple(by);
            // `T = (T + 1) - 1`.
            let less = of - by;
            if less.as_constant().is_some() { (Dim::constant(1), less) } else { (times, left) }
        };
        (quotient.offset, rest.offset) = part(&index.offset);
        for (axis, times) in &index.terms {
            let (times, left) = part(times);
            for (place, times) in [(&mut quotient, times), (&mut rest, left)] {
                if times.as_constant() != Some(0) {
                    place.terms.insert(*axis, times);
                }
            }
        }
        [0, -1, 1].into_iter().find_map(|more| {
            let (mut quotient, mut rest) = (quotient.clone(), rest.clone());
            quotient.offset = &quotient.offset + &Dim::constant(more);
            rest.offset = &rest.offset - &(by * &Dim::constant(more));
            let most = fixed(by - &Dim::constant(1));
            let fits = self.is_at_least_zero(&rest) && self.is_at_least_zero(&most.less(&rest));
            fits.then_some((quotient, rest))
        })
    }

    /// The view of a tensor at an index; of a concatenation or a choice of that axis the part that the guards decide on.
    fn read(
        &self,
        b: &mut Builder,
        new: &[NodeId],
        of: NodeId,
        axis: AxisId,
        (before, index): (NodeId, NodeId),
    ) -> Option<NodeId> {
        let same = index == new[before.index()];
        let Some(place) = AffineIndex::of(b, index) else {
            return (!same).then(|| b.at(new[of.index()], axis, index).expect("an index as before"));
        };
        let (part, at) = self.part(of, axis, &place);
        if part == (of, axis)
            && let Some(read) = self.read_inside(b, new, of, axis, &place)
        {
            return Some(read);
        }
        if part == (of, axis) && same {
            return None;
        }
        let index = if part == (of, axis) { index } else { at.add_to(b, None) };
        Some(b.at(new[part.0.index()], part.1, index).expect("an index of the part"))
    }

    /// The same of a view along another axis: the part of what that views, viewed so.
    fn read_inside(
        &self,
        b: &mut Builder,
        new: &[NodeId],
        of: NodeId,
        axis: AxisId,
        place: &AffineIndex,
    ) -> Option<NodeId> {
        let Op::At(other) = *self.g.op(of) else { return None };
        let [inside, index] = [0, 1].map(|n| self.g.args(of)[n]);
        if other == axis || self.g.node(index).axes.contains(axis) || place.terms.contains_key(&other) {
            return None;
        }
        let (part, at) = self.part(inside, axis, place);
        if part == (inside, axis) {
            return None;
        }
        let (at, index) = (at.add_to(b, None), self.simplified(b, new, index));
        let read = b.at(new[part.0.index()], part.1, at).ok()?;
        b.at(read, other, index).ok()
    }

    /// The arm of a choice by one comparison that is taken, if it is proved which.
    fn decided(&self, choice: NodeId, is_known: impl Fn(&AffineIndex) -> bool) -> Option<NodeId> {
        let args = self.g.args(choice);
        let holds = |holds: bool| {
            let wanted = inequalities(self.g, args[0], holds);
            // A comparison says all of itself in one inequality.
            is_comparison(self.g, args[0]) && wanted.len() == 1 && is_known(&wanted[0].index())
        };
        if holds(true) {
            Some(args[1])
        } else if holds(false) {
            Some(args[2])
        } else {
            None
        }
    }

    /// What is read of a tensor at an index along an axis.
    fn part(&self, of: NodeId, axis: AxisId, place: &AffineIndex) -> ((NodeId, AxisId), AffineIndex) {
        let (g, here) = (self.g, ((of, axis), place.clone()));
        let args = g.args(of);
        match g.op(of) {
            Op::Concat(whole, parts) if *whole == axis => {
                let mut from = Dim::constant(0);
                for (part, arg) in parts.iter().zip(&args) {
                    let extent = g.extent(*part);
                    let mut within = place.clone();
                    within.offset = &within.offset - &from;
                    let mut left = AffineIndex { terms: BTreeMap::new(), offset: extent - &Dim::constant(1) };
                    left = left.less(&within);
                    if self.is_at_least_zero(&within) && self.is_at_least_zero(&left) {
                        // A part may have the axes of the others beside its own.
                        let is_whole = g.node(*arg).axes.contains(*part)
                            && g.node(*arg).axes.len() == g.node(of).axes.len();
                        return if is_whole { ((*arg, *part), within) } else { here };
                    }
                    from = &from + extent;
                }
                here
            }
            Op::Map(MapOp::Select) => {
                let arm = self.decided(of, |known| self.is_at_least_zero(&known.with(axis, place)));
                match arm.filter(|arm| g.node(*arm).axes == g.node(of).axes) {
                    Some(arm) => self.part(arm, axis, place),
                    None => here,
                }
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => here,
            Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => here,
        }
    }
}

/// Whether a condition is one comparison of indices.
fn is_comparison(g: &Graph, condition: NodeId) -> bool {
    g.op(condition).class() == Class::Map
        && matches!(g.op(condition), Op::Map(MapOp::Le | MapOp::Lt))
        && g.args(condition).iter().all(|arg| g.node(*arg).dtype.is_int())
}
