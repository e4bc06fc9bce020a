//! Sums in which the key is read at a distance from the row, `sum[j](w[i, j] * r[i - j, e])`: sums over the distances, so that what is
//! read has an axis of its own and the sum is a product of matrices. The gradient of a product with what lies at a distance has two of
//! them: one by the query, and one by what is read, in which the weights are read at a distance, `sum[i](w[i, i - d] * q[i, e])`; or where
//! the product with all distances was made first, one over these, `sum[d](w[i, i - d] * r[d, e])`.
//!
//! What the weights are made of is then read at the distance instead of them, since products of queries and keys are made where they
//! are read, and weights would be stored. Where nothing else is summed than they, see [`super::pairs`].

use super::moved::{Mover, Places, at_least_zero, places_of};
use super::pairs::{PairSum, pair_sum};
use super::{LARGEST, has_product, is_product, row_and_key};
use crate::before::guards::KnownIndices;
use crate::graph::factors::linear_in;
use crate::graph::index::AffineIndex;
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, AxisSet, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// The same model with such sums over distances.
pub(crate) fn sums_over_distances(g: &Graph) -> Graph {
    let finder = Finder { g, known: OnceCell::new() };
    let found: BTreeMap<NodeId, Found> = g.ids().filter_map(|id| Some((id, finder.found(id)?))).collect();
    if found.is_empty() {
        return g.clone();
    }
    let rewritten = rewrite(g, |b, new, id| match found.get(&id)? {
        Found::Keys(sum) => sum.build(g, b, new),
        Found::Weights(sum) => sum.build(g, b, new),
        Found::Pairs(sum) => sum.build(g, b, new),
    });
    rewritten.graph
}

/// Such a sum.
enum Found {
    Keys(DistanceSum),
    Weights(ReadWeights),
    Pairs(PairSum),
}

/// A view at a distance: of a tensor, or of an expression. No index of it leaves its axis wherever it is used, so that none is lost as
/// an error where the places go into what it is of.
struct View {
    of: NodeId,
    places: Places,
    /// The axis of the distances, and which of them is read.
    along: AxisId,
    place: AffineIndex,
    /// The axes whose indices are added and taken off in that.
    added: AxisId,
    taken: AxisId,
}

/// A sum over keys of weights by what is read at a distance from the row.
struct DistanceSum {
    /// The terms.
    terms: NodeId,
    key: AxisId,
    read: View,
}

/// A sum, over rows or over distances, of what is made of weights that are read at a distance, or of a sum of such weights.
struct ReadWeights {
    over: AxisId,
    /// The operators that are linear in the view of the weights, the outermost first, each with the argument that leads to it.
    steps: Vec<(NodeId, usize)>,
    weights: View,
    /// Views at a distance among the conditions of these operators.
    masks: BTreeMap<NodeId, View>,
    /// The axes of sums of what the view is of, the outermost first: they come after this sum, so that what is summed is made where it
    /// is.
    sums: Vec<AxisId>,
}

struct Finder<'g> {
    g: &'g Graph,
    known: OnceCell<KnownIndices<'g>>,
}

impl<'g> Finder<'g> {
    /// What is known of the indices of the graph.
    fn known(&self) -> &KnownIndices<'g> {
        self.known.get_or_init(|| KnownIndices::new(self.g))
    }

    fn found(&self, id: NodeId) -> Option<Found> {
        let Op::Reduce(ReduceOp::Sum, axis) = *self.g.op(id) else { return None };
        if self.g.node(id).dtype != DType::F32 {
            return None;
        }
        let is_inside =
            |read: NodeId, place: &AffineIndex, key: AxisId| self.known().is_inside(read, place, key);
        let of_pairs = pair_sum(self.g, id, axis, is_inside).map(Found::Pairs);
        let of_weights = || self.read_weights(id, axis).map(Found::Weights);
        of_pairs.or_else(of_weights).or_else(|| self.distance_sum(id, axis).map(Found::Keys))
    }

    fn view(&self, id: NodeId) -> Option<View> {
        let Op::At(_) = self.g.op(id) else { return None };
        let (of, mut places) = places_of(self.g, id);
        places.retain(|axis, _| self.g.node(of).axes.contains(*axis));
        let (along, place) = places.iter().find(|(_, place)| row_and_key(place).is_some())?;
        let (along, place) = (*along, place.clone());
        let (added, taken) = row_and_key(&place)?;
        let is_inside = places.iter().all(|(axis, place)| self.known().is_inside(id, place, *axis));
        is_inside.then_some(View { of, places, along, place, added, taken })
    }

    fn distance_sum(&self, id: NodeId, key: AxisId) -> Option<DistanceSum> {
        let (g, terms) = (self.g, self.g.args(id)[0]);
        let leaves = leaves(g, terms)?;
        let found = leaves.iter().find_map(|leaf| {
            let view = self.view(*leaf)?;
            view.is_of_distance_alone(g, key).then_some((*leaf, view))
        });
        let (leaf, read) = found?;
        // Columns that nothing else has, and scores that are made where they are read.
        let others: Vec<NodeId> = leaves.into_iter().filter(|other| *other != leaf).collect();
        let axes = others.iter().fold(AxisSet::new(), |axes, other| axes.union(&g.node(*other).axes));
        let has_columns = g.node(leaf).axes.iter().any(|axis| !axes.contains(axis));
        let is_score = |other: &NodeId| is_product(g, *other, key) || has_product(g, *other, key);
        (has_columns && others.iter().any(is_score)).then_some(DistanceSum { terms, key, read })
    }

    fn read_weights(&self, id: NodeId, over: AxisId) -> Option<ReadWeights> {
        let (g, mut steps, mut at) = (self.g, Vec::new(), self.g.args(id)[0]);
        let leads = |arg: NodeId| {
            leaves(g, arg).is_some_and(|l| l.into_iter().any(|x| self.weights(x, over).is_some()))
        };
        while let Op::Map(_) = g.op(at) {
            let place = linear_in(g, at).iter().copied().find(|place| leads(g.args(at)[*place]))?;
            steps.push((at, place));
            at = g.args(at)[place];
        }
        let mut weights = self.weights(at, over)?;
        // What the weights are multiplied with, and the conditions under which they count.
        let mut others = Vec::new();
        for (id, at) in &steps {
            others.extend(g.args(*id).into_iter().enumerate().filter(|(n, _)| n != at).map(|(_, x)| x));
        }
        let fixed = others.iter().fold(g.node(id).axes.clone(), |axes, x| axes.union(&g.node(*x).axes));
        let mut sums = Vec::new();
        while let Op::Reduce(ReduceOp::Sum, axis) = *g.op(weights.of)
            && has_product(g, g.args(weights.of)[0], weights.along)
            && !fixed.contains(axis)
            && axis != over
        {
            sums.push(axis);
            weights.of = g.args(weights.of)[0];
        }
        let is_mask = |x: &NodeId| g.node(*x).dtype == DType::Bool;
        let masks = others.into_iter().filter(is_mask).filter_map(|x| Some((x, self.view(x)?))).collect();
        Some(ReadWeights { over, steps, weights, masks, sums })
    }

    /// A view, at a distance from a row, of weights that are made of products of queries and keys; the sum is over the rows or over the
    /// distances.
    fn weights(&self, id: NodeId, over: AxisId) -> Option<View> {
        let is_number = self.g.node(id).dtype == DType::F32;
        let is_of = |view: &View| is_number && [view.added, view.taken].contains(&over);
        let view = self.view(id).filter(is_of)?;
        has_product(self.g, view.of, view.along).then_some(view)
    }
}

impl View {
    /// Whether nothing in it depends on a key or on its row but their distance.
    fn is_of_distance_alone(&self, g: &Graph, key: AxisId) -> bool {
        let is_of_pair = |axis: AxisId| axis == self.added || axis == self.taken;
        let mut others = self.places.iter().filter(|(axis, _)| **axis != self.along);
        let in_others = others.any(|(_, place)| place.terms.keys().any(|axis| is_of_pair(*axis)));
        let mut own = g.node(self.of).axes.iter().filter(|axis| !self.places.contains_key(axis));
        is_of_pair(key) && !in_others && !own.any(is_of_pair)
    }

    /// What it is of, read at its places.
    fn inside(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        // The axis of the distances may have the name of one inside.
        let named = self.places.values().flat_map(|place| place.terms.keys().copied());
        let taken = all_axes(g, self.of)?.union(&named.collect::<AxisSet>());
        let distance = b.fresh_axis(self.taken, &taken);
        let own = AffineIndex::own(distance);
        let places = self.places.iter().map(|(axis, place)| (*axis, place.with(self.taken, &own))).collect();
        let moved = Mover::new(g, new).moved(b, self.of, &places)?;
        if !b.node(moved).axes.contains(distance) {
            return Some(moved);
        }
        let own = b.iota(self.taken);
        b.at(moved, distance, own).ok()
    }
}

impl DistanceSum {
    fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        let taken = all_axes(g, self.terms)?;
        let distance = b.fresh_axis(self.read.along, &taken);
        let key = self.key_at(distance)?;
        let terms = Mover::new(g, new).moved(b, self.terms, &Places::from([(self.key, key.clone())]))?;
        // A distance at which there is no key for the row adds nothing.
        let last = AffineIndex::fixed(g.extent(self.key) - &Dim::constant(1));
        let (always, zero) = (Op::Const(Const::Bool(true)), b.constant(Const::f32(0.0)));
        let guarded = [key.clone(), last.less(&key)].iter().try_fold(terms, |terms, inside| {
            let guard = at_least_zero(b, inside);
            if *b.op(guard) == always { Ok(terms) } else { b.map(MapOp::Select, &[guard, terms, zero]) }
        });
        b.reduce(ReduceOp::Sum, distance, guarded.ok()?).ok()
    }

    /// The key by the distance and the row.
    fn key_at(&self, distance: AxisId) -> Option<AffineIndex> {
        let own = AffineIndex::own(distance);
        let mut rest = self.read.place.clone();
        let times = rest.terms.remove(&self.key)?;
        match times.as_constant()? {
            1 => Some(own.less(&rest)),
            -1 => Some(rest.less(&own)),
            _ => None,
        }
    }
}

impl ReadWeights {
    fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        let weights = self.weights.inside(g, b, new)?;
        let terms = self.steps.iter().rev().try_fold(weights, |terms, (id, at)| {
            let mut args: Vec<NodeId> = Vec::new();
            for (n, x) in g.args(*id).into_iter().enumerate() {
                let mask = self.masks.get(&x).and_then(|mask| mask.inside(g, b, new));
                args.push(if n == *at { terms } else { mask.unwrap_or(new[x.index()]) });
            }
            b.add(g.op(*id).clone(), &args).ok()
        })?;
        let sum = b.reduce(ReduceOp::Sum, self.over, terms).ok()?;
        self.sums.iter().rev().try_fold(sum, |sum, axis| b.reduce(ReduceOp::Sum, *axis, sum).ok())
    }
}

/// What an expression is of, behind its operators; `None` if it is large.
fn leaves(g: &Graph, of: NodeId) -> Option<Vec<NodeId>> {
    let (mut out, mut seen, mut stack) = (Vec::new(), BTreeSet::new(), vec![of]);
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        if seen.len() > LARGEST {
            return None;
        }
        if let Op::Map(_) = g.op(id) {
            stack.extend(g.args(id));
        } else {
            out.push(id);
        }
    }
    Some(out)
}

/// Every axis of an expression, free or bound; `None` if it is large.
fn all_axes(g: &Graph, of: NodeId) -> Option<AxisSet> {
    let (mut axes, mut seen, mut stack) = (AxisSet::new(), BTreeSet::new(), vec![of]);
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        axes = axes.union(&g.node(id).axes);
        if seen.len() > 8 * LARGEST {
            return None;
        }
        stack.extend(g.args(id));
    }
    Some(axes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::text;

    /// The sum of weights `exp(sum[e](q[i, e] * k[j, e]))`, under the causal mask, as `made` sums them.
    fn summed(made: impl FnOnce(&mut Builder, [AxisId; 4], NodeId) -> NodeId) -> String {
        let mut b = Builder::new("m");
        let [t, e, f] = ["T", "E", "F"].map(Dim::symbol);
        let [i, j, d] = ["i", "j", "d"].map(|name| b.axis_id(name, &t));
        let (e, f) = (b.axis_id("e", &e), b.axis_id("f", &f));
        let (q, k) = (b.input("q", &[i, e], DType::F32, None), b.input("k", &[j, e], DType::F32, None));
        let product = b.map(MapOp::Mul, &[q, k]).unwrap();
        let score = b.reduce(ReduceOp::Sum, e, product).unwrap();
        let weight = b.map(MapOp::Exp, &[score]).unwrap();
        let sum = made(&mut b, [i, j, d, f], weight);
        let axes: Vec<AxisId> = b.node(sum).axes.iter().collect();
        b.output("y", &axes, sum).unwrap();
        text::print(&sums_over_distances(&b.finish()))
    }

    /// `term` where one index is at most another one, zero elsewhere.
    fn kept(b: &mut Builder, least: AxisId, most: AxisId, term: NodeId) -> NodeId {
        let (least, most, zero) = (b.iota(least), b.iota(most), b.constant(Const::f32(0.0)));
        let mask = b.map(MapOp::Le, &[least, most]).unwrap();
        b.map(MapOp::Select, &[mask, term, zero]).unwrap()
    }

    /// The weights of a row at each distance from it.
    fn at_distance(b: &mut Builder, [i, j, d]: [AxisId; 3], weight: NodeId) -> NodeId {
        let (row, distance) = (b.iota(i), b.iota(d));
        let key = b.map(MapOp::Sub, &[row, distance]).unwrap();
        b.at(weight, j, key).unwrap()
    }

    /// The sum over rows of weights at each distance, times a number of the row or not.
    #[test]
    fn weights_alone_are_summed_over_pairs() {
        let summed_at_distance = |is_scaled: bool| {
            summed(|b, [i, j, d, _], weight| {
                let by_row = b.input("r", &[i], DType::F32, None);
                let read = at_distance(b, [i, j, d], weight);
                let scaled = if is_scaled { b.map(MapOp::Mul, &[read, by_row]).unwrap() } else { read };
                let term = kept(b, d, i, scaled);
                b.reduce(ReduceOp::Sum, i, term).unwrap()
            })
        };
        let (alone, scaled) = (summed_at_distance(false), summed_at_distance(true));
        assert!(alone.contains("sum[j]") && alone.contains("== d"), "{alone}");
        assert!(!scaled.contains("sum[j]"), "{scaled}");
    }

    #[test]
    fn weights_are_made_at_the_distance_at_which_they_are_read() {
        let over_keys = summed(|b, [i, j, d, f], weight| {
            let far = b.input("r", &[d, f], DType::F32, None);
            let (row, key) = (b.iota(i), b.iota(j));
            let distance = b.map(MapOp::Sub, &[row, key]).unwrap();
            let read = b.at(far, d, distance).unwrap();
            let product = b.map(MapOp::Mul, &[weight, read]).unwrap();
            let term = kept(b, j, i, product);
            b.reduce(ReduceOp::Sum, j, term).unwrap()
        });
        let over_rows = summed(|b, [i, j, d, f], weight| {
            let by_row = b.input("r", &[i, f], DType::F32, None);
            let read = at_distance(b, [i, j, d], weight);
            let product = b.map(MapOp::Mul, &[read, by_row]).unwrap();
            let term = kept(b, d, i, product);
            b.reduce(ReduceOp::Sum, i, term).unwrap()
        });
        let over_distances = summed(|b, [i, j, d, f], weight| {
            let far = b.input("r", &[d, f], DType::F32, None);
            let read = at_distance(b, [i, j, d], weight);
            let product = b.map(MapOp::Mul, &[read, far]).unwrap();
            let term = kept(b, d, i, product);
            b.reduce(ReduceOp::Sum, d, term).unwrap()
        });
        for (text, read) in [(over_keys, "r[d.1, f]"), (over_rows, "r[i, f]"), (over_distances, "r[d, f]")] {
            assert!(text.contains("* k[i + (d"), "{text}");
            assert!(text.contains(read), "{text}");
            assert!(!text.contains("exp(y.1[i, j])"), "{text}");
        }
    }

    #[test]
    fn a_distance_that_may_leave_its_axis_stays_an_error() {
        let text = summed(|b, [i, j, d, f], weight| {
            let far = b.input("r", &[d, f], DType::F32, None);
            let (row, key) = (b.iota(i), b.iota(j));
            let distance = b.map(MapOp::Sub, &[row, key]).unwrap();
            let read = b.at(far, d, distance).unwrap();
            let product = b.map(MapOp::Mul, &[weight, read]).unwrap();
            b.reduce(ReduceOp::Sum, j, product).unwrap()
        });
        assert!(text.contains("r[i - j, f]"), "{text}");
    }

    #[test]
    fn weights_that_are_stored_stay_where_they_are() {
        let mut b = Builder::new("m");
        let [i, j, d] = ["i", "j", "d"].map(|name| b.axis_id(name, &Dim::symbol("T")));
        let (weight, far) = (b.input("w", &[i, j], DType::F32, None), b.input("r", &[d], DType::F32, None));
        let (row, key) = (b.iota(i), b.iota(j));
        let distance = b.map(MapOp::Sub, &[row, key]).unwrap();
        let read = b.at(far, d, distance).unwrap();
        let product = b.map(MapOp::Mul, &[weight, read]).unwrap();
        let term = kept(&mut b, j, i, product);
        let sum = b.reduce(ReduceOp::Sum, j, term).unwrap();
        b.output("y", &[i], sum).unwrap();
        let g = b.finish();
        assert_eq!(text::print(&sums_over_distances(&g)), text::print(&g));
    }
}
