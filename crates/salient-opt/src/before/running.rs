//! Sums over the positions before or behind another one, as written: running sums. `sum[l](if l >= j then x[l] else 0)` is
//! `reverse_cumsum[l](x[l])` at `j`, and `sum[l](if j < l <= i then x[l] else 0)` a difference of two places of `cumsum[l](x[l])`: what
//! is summed for each pair of positions is summed once.
//!
//! A difference asks that every term is known to be a number: an infinity among those that are left out would be in both parts. Both
//! ends belong to different axes: over the whole row the difference is as large as the running sums are, which a window that moves
//! along is not.
//!
//! A product of factors above zero, `prod[l](if j < l <= i then x[l] else 1)`, is the exponential of the sum of their logarithms.

mod products;

use crate::before::numbers::numbers;
use crate::graph::border::Border;
use crate::graph::factors::args_of;
use crate::graph::index::AffineIndex;
use crate::graph::inequalities::{AtLeastZero, inequalities};
use crate::graph::rewrite::rewrite;
use crate::graph::views::without_view;
use salient_ir::{AxisId, AxisSet, Builder, Const, Dim, Direction, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::BTreeMap;

/// The same model with running sums in place of sums and products over stretches.
pub(crate) fn running_sums(g: &Graph, border: &Border) -> Graph {
    let outside = with_views_outside(g);
    let g = outside.as_ref().unwrap_or(g);
    let sums = products::as_sums(g, border);
    let g = sums.as_ref().unwrap_or(g);
    in_place_of_sums(g, &stretches(g, border))
}

/// The same model where the terms of stretches that are computed of `x[l]`, of values along another axis read along their own, are
/// computed along that axis and read then: what is known of them is known of them as a whole. None if there are none.
fn with_views_outside(g: &Graph) -> Option<Graph> {
    let terms_of = |id: NodeId| Some((Stretch::of(g, id)?.terms, g.op(id).bound()?));
    let terms: BTreeMap<NodeId, AxisId> =
        g.ids().filter_map(terms_of).filter(|(of, _)| matches!(g.op(*of), Op::Map(_))).collect();
    let mut is_changed = false;
    let changed = rewrite(g, |b, new, id| {
        let along = *terms.get(&id)?;
        let (inside, own) = without_view(g, b, new, (id, along))?;
        is_changed = true;
        let at = b.iota(along);
        b.at(inside, own, at).ok()
    });
    is_changed.then_some(changed.graph)
}

/// The sums over stretches of a graph of which running sums can be made.
fn stretches(g: &Graph, border: &Border) -> BTreeMap<NodeId, Stretch> {
    let found = g.ids().filter_map(|id| Some((id, Stretch::of(g, id)?)));
    let mut found: BTreeMap<NodeId, Stretch> = found.collect();
    if found.values().any(Stretch::is_difference) {
        let is_number = numbers(g, border);
        found.retain(|_, stretch| !stretch.is_difference() || is_number[stretch.terms.index()]);
    }
    found
}

fn in_place_of_sums(g: &Graph, found: &BTreeMap<NodeId, Stretch>) -> Graph {
    if found.is_empty() {
        return g.clone();
    }
    rewrite(g, |b, new, id| found.get(&id)?.build(b, new)).graph
}

/// A place on the axis of a sum: so far before the position on another axis, zero or one.
#[derive(Clone, Copy)]
struct Place {
    axis: AxisId,
    before: i64,
}

/// A sum of the terms along an axis between two places.
struct Stretch {
    along: AxisId,
    terms: NodeId,
    /// Where one of them does not hold a term is zero.
    masks: Vec<NodeId>,
    /// Where one of them does not hold the sum is zero.
    around: Vec<NodeId>,
    /// The last place that is left out at the beginning.
    first: Option<Place>,
    /// The last place.
    last: Option<Place>,
}

impl Stretch {
    fn of(g: &Graph, id: NodeId) -> Option<Stretch> {
        if !g.node(id).dtype.is_float() {
            return None;
        }
        match *g.op(id) {
            Op::Reduce(ReduceOp::Sum, along) => Stretch::of_sum(g, along, g.args(id)[0]),
            Op::At(along) => Stretch::backwards(g, along, id),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => None,
            Op::Reduce(..) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
        }
    }

    /// `sum[l](if j < l <= i then x[l] else 0)`.
    fn of_sum(g: &Graph, along: AxisId, inside: NodeId) -> Option<Stretch> {
        let Some((condition, terms)) = chosen(g, inside) else {
            return Stretch::of_product(g, along, inside);
        };
        let mut stretch = Stretch::whole(along, terms);
        let (mut conditions, mut ends) = (vec![condition], vec![]);
        while let Some(condition) = conditions.pop() {
            if let Some(parts) = args_of(g, condition, MapOp::And) {
                conditions.extend(parts);
            } else if let Some(end) = comparison(g, condition).and_then(|known| end(along, &known)) {
                ends.push((condition, end));
            } else {
                stretch.leaves_out(g, condition);
            }
        }
        // Terms that are others for each position of an end are masked there.
        let axes = stretch.axes(g);
        for (condition, (is_first, place)) in ends {
            let is_end = !axes.contains(place.axis) && stretch.ends(Some((is_first, place)));
            if !is_end {
                stretch.leaves_out(g, condition);
            }
        }
        stretch.is_shared(g).then_some(stretch)
    }

    /// `sum[l](x[l] * f32(j < l))`.
    fn of_product(g: &Graph, along: AxisId, inside: NodeId) -> Option<Stretch> {
        let args = args_of(g, inside, MapOp::Mul)?;
        let stretch = |(terms, number): (NodeId, NodeId)| {
            let mut stretch = Stretch::whole(along, terms);
            let is_end = stretch.ends(end(along, &truth(g, number)?));
            (is_end && stretch.is_shared(g)).then_some(stretch)
        };
        [(args[0], args[1]), (args[1], args[0])].into_iter().find_map(stretch)
    }

    /// The sum of all terms.
    fn whole(along: AxisId, terms: NodeId) -> Stretch {
        Stretch { along, terms, masks: vec![], around: vec![], first: None, last: None }
    }

    /// Takes a condition without which a term, or all of them, is zero.
    fn leaves_out(&mut self, g: &Graph, condition: NodeId) {
        let inside = g.node(condition).axes.contains(self.along);
        if inside { &mut self.masks } else { &mut self.around }.push(condition);
    }

    /// The axes of the terms, masked.
    fn axes(&self, g: &Graph) -> AxisSet {
        let own = g.node(self.terms).axes.clone();
        self.masks.iter().fold(own, |all, mask| all.union(&g.node(*mask).axes))
    }

    /// Takes an end, if it is one and there is none yet.
    fn ends(&mut self, end: Option<(bool, Place)>) -> bool {
        let Some((is_first, place)) = end else { return false };
        let own = if is_first { &mut self.first } else { &mut self.last };
        let is_new = own.is_none();
        own.get_or_insert(place);
        is_new
    }

    /// `cumsum[l](x[T - 1 - l])` read at `T - 1 - j`: the sum of what is not before `j`.
    fn backwards(g: &Graph, along: AxisId, view: NodeId) -> Option<Stretch> {
        let [running, index] = [0, 1].map(|n| g.args(view)[n]);
        let inside = g
            .args(running)
            .first()
            .copied()
            .filter(|_| *g.op(running) == Op::CumSum(Direction::Forward, along))?;
        let Op::At(forwards) = *g.op(inside) else { return None };
        let [terms, place] = [0, 1].map(|n| g.args(inside)[n]);
        let last = g.extent(along) - &Dim::constant(1);
        let turned = |index: NodeId| {
            let place = AffineIndex::of(g, index).filter(|place| place.offset == last)?;
            let mut axes = place.terms.iter().filter(|(_, times)| times.as_constant() == Some(-1));
            axes.next().filter(|_| place.terms.len() == 1).map(|(axis, _)| *axis)
        };
        let (own, axis) = (turned(place)?, turned(index)?);
        let is_whole = own == along && [forwards, axis].iter().all(|a| g.extent(*a) == g.extent(along));
        let stretch = Stretch { first: Some(Place { axis, before: 1 }), ..Stretch::whole(forwards, terms) };
        (is_whole && stretch.is_shared(g)).then_some(stretch)
    }

    /// Whether it goes from the beginning or to the end of its row.
    fn has_one_end(&self) -> bool {
        self.first.is_none() || self.last.is_none()
    }

    /// Whether it is a difference of which both parts hold a term that it does not.
    fn is_difference(&self) -> bool {
        self.first.is_some_and(|first| self.last.is_some() || first.before == 0)
    }

    /// Whether the terms are the same for all places, so that one running sum serves all.
    fn is_shared(&self, g: &Graph) -> bool {
        let all = self.axes(g);
        let ends: Vec<AxisId> = self.first.iter().chain(&self.last).map(|place| place.axis).collect();
        let apart = ends.len() < 2 || ends[0] != ends[1];
        let alike = |axis: &AxisId| g.extent(*axis) == g.extent(self.along);
        let terms: &AxisSet = &g.node(self.terms).axes;
        let free = ends.iter().all(|axis| alike(axis) && (*axis == self.along || !all.contains(*axis)));
        !ends.is_empty() && apart && free && terms.contains(self.along)
    }

    fn build(&self, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        let zero = b.constant(Const::f32(0.0));
        let under = |b: &mut Builder, masks: &[NodeId], value: NodeId| {
            masks
                .iter()
                .try_fold(value, |value, mask| b.map(MapOp::Select, &[new[mask.index()], value, zero]))
        };
        let terms = under(b, &self.masks, new[self.terms.index()]).ok()?;
        let direction = if self.last.is_none() { Direction::Reverse } else { Direction::Forward };
        let running = b.add(Op::CumSum(direction, self.along), &[terms]).ok()?;
        let own = |b: &mut Builder, of: NodeId, place: Place| {
            let at = b.iota(place.axis);
            b.at(of, self.along, at)
        };
        // Without the term of an end that is left out.
        let until = |b: &mut Builder, end: Place, is_out: bool| {
            let sum = own(b, running, end)?;
            if !is_out {
                return Ok(sum);
            }
            let term = own(b, terms, end)?;
            b.map(MapOp::Sub, &[sum, term])
        };
        let sum = match (self.first, self.last) {
            (None, None) => return None,
            (None, Some(last)) => until(b, last, last.before == 1),
            (Some(first), None) => until(b, first, first.before == 0),
            (Some(first), Some(last)) => {
                let (to, from) =
                    (until(b, last, last.before == 1).ok()?, until(b, first, first.before == 1).ok()?);
                let (any, rest) = (first.is_before(last, b), b.map(MapOp::Sub, &[to, from]).ok()?);
                b.map(MapOp::Select, &[any, rest, zero])
            }
        };
        let sum = sum.ok()?;
        under(b, &self.around, sum).ok()
    }
}

impl Place {
    /// Whether it is no later than another place.
    fn is_before(self, other: Place, b: &mut Builder) -> NodeId {
        let places = [self, other].map(|place| {
            let (at, before) = (b.iota(place.axis), b.constant(Const::I64(place.before)));
            if place.before == 0 { at } else { b.map(MapOp::Sub, &[at, before]).expect("integers") }
        });
        b.map(MapOp::Le, &places).expect("integers")
    }
}

/// The condition and the value of a choice of zero.
fn chosen(g: &Graph, id: NodeId) -> Option<(NodeId, NodeId)> {
    let args = args_of(g, id, MapOp::Select)?;
    (*g.op(args[2]) == Op::Const(Const::f32(0.0))).then(|| (args[0], args[1]))
}

/// What a comparison of indices says.
fn comparison(g: &Graph, condition: NodeId) -> Option<AtLeastZero> {
    if !matches!(g.op(condition), Op::Map(MapOp::Le | MapOp::Lt)) {
        return None;
    }
    // A comparison says all of itself in one inequality.
    let mut known = inequalities(g, condition, true);
    known.pop().filter(|_| known.is_empty())
}

/// What a number says that is one where a comparison holds and zero elsewhere, also where it is read at another place.
fn truth(g: &Graph, number: NodeId) -> Option<AtLeastZero> {
    if let Op::At(axis) = *g.op(number) {
        let [of, index] = [0, 1].map(|n| g.args(number)[n]);
        return Some(truth(g, of)?.with(axis, &AffineIndex::of(g, index)?));
    }
    comparison(g, args_of(g, number, MapOp::ToF32)?[0])
}

/// The place at which an inequality ends a sum, and whether it is the first or the last one.
fn end(along: AxisId, known: &AtLeastZero) -> Option<(bool, Place)> {
    let mut rest = known.index();
    let is_first = match rest.terms.remove(&along)?.as_constant()? {
        1 => true,
        -1 => false,
        _ => return None,
    };
    // `l >= axis + offset`, or `l <= axis + offset`.
    let sign = if is_first { -1 } else { 1 };
    let mut terms = rest.terms.iter();
    let (Some((axis, times)), None) = (terms.next(), terms.next()) else { return None };
    let offset = rest.offset.as_constant()? * sign;
    let before = if is_first { 1 - offset } else { -offset };
    (times.as_constant() == Some(sign) && (before == 0 || before == 1))
        .then_some((is_first, Place { axis: *axis, before }))
}
