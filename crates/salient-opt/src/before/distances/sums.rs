//! Sums in which the key is read at a distance from the row, `sum[j](w[i, j] * r[i - j, e])`: sums over the distances, so that what is
//! read has an axis of its own and the sum is a product of matrices. The gradient of a product with what lies at a distance has two of
//! them: one by the query, and one by what is read, in which the weights are read at a distance, `sum[i](w[i, i - d] * q[i, e])`.
//!
//! What the weights are made of is then read at the distance instead of them, since products of queries and keys are made where they
//! are read, and weights would be stored.

use super::moved::{Mover, Places, at_least_zero, places_of};
use super::row_and_key;
use crate::graph::factors::linear_in;
use crate::graph::index::AffineIndex;
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, AxisSet, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::BTreeSet;

/// The same model with such sums over distances.
pub(crate) fn sums_over_distances(g: &Graph) -> Graph {
    let is_one = |id: NodeId| RowSum::of(g, id).is_some() || DistanceSum::of(g, id).is_some();
    if !g.ids().any(is_one) {
        return g.clone();
    }
    let rewritten = rewrite(g, |b, new, id| {
        if let Some(sum) = RowSum::of(g, id) {
            return sum.build(g, b, new);
        }
        DistanceSum::of(g, id)?.build(g, b, new)
    });
    rewritten.graph
}

/// Operators of an expression that are looked at, at most.
const LARGEST: usize = 256;

/// A sum over keys of weights by what is read at a distance from the row.
struct DistanceSum {
    /// The terms.
    terms: NodeId,
    key: AxisId,
    /// The axis of the distances, and which of them is read for each row and key.
    along: AxisId,
    place: AffineIndex,
}

impl DistanceSum {
    fn of(g: &Graph, id: NodeId) -> Option<DistanceSum> {
        let Op::Reduce(ReduceOp::Sum, key) = *g.op(id) else { return None };
        let terms = g.args(id)[0];
        if g.node(terms).dtype != DType::F32 {
            return None;
        }
        let leaves = leaves(g, terms)?;
        let found = leaves.iter().find_map(|leaf| Some((*leaf, at_distance(g, *leaf, key)?)));
        let (read, (along, place)) = found?;
        // Columns that nothing else has, and scores that are made where they are read.
        let others: Vec<NodeId> = leaves.into_iter().filter(|leaf| *leaf != read).collect();
        let axes = others.iter().fold(AxisSet::new(), |axes, leaf| axes.union(&g.node(*leaf).axes));
        let has_columns = g.node(read).axes.iter().any(|axis| !axes.contains(axis));
        let is_score = |leaf: &NodeId| is_product(g, *leaf, key);
        (has_columns && others.iter().any(is_score)).then_some(DistanceSum { terms, key, along, place })
    }

    fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        let taken = all_axes(g, self.terms)?;
        let distance = b.fresh_axis(self.along, &taken);
        let key = self.key_at(distance)?;
        let terms = Mover::new(g, new).moved(b, self.terms, &Places::from([(self.key, key.clone())]))?;
        // A distance at which there is no key for the row adds nothing.
        let last = AffineIndex::fixed(g.extent(self.key) - &Dim::constant(1));
        let [from, to] = [key.clone(), last.less(&key)].map(|inside| at_least_zero(b, &inside));
        let (always, zero) = (Op::Const(Const::Bool(true)), b.constant(Const::f32(0.0)));
        let guards = [from, to].into_iter().filter(|guard| *b.op(*guard) != always).collect::<Vec<NodeId>>();
        let guarded =
            guards.into_iter().try_fold(terms, |terms, guard| b.map(MapOp::Select, &[guard, terms, zero]));
        b.reduce(ReduceOp::Sum, distance, guarded.ok()?).ok()
    }

    /// The key by the distance and the row.
    fn key_at(&self, distance: AxisId) -> Option<AffineIndex> {
        let own = AffineIndex::own(distance);
        let mut rest = self.place.clone();
        let times = rest.terms.remove(&self.key)?;
        match times.as_constant()? {
            1 => Some(own.less(&rest)),
            -1 => Some(rest.less(&own)),
            _ => None,
        }
    }
}

/// The axis along which a value is a tensor that is read at the distance of a key from a row, of which it has neither otherwise; and
/// the distance.
fn at_distance(g: &Graph, id: NodeId, key: AxisId) -> Option<(AxisId, AffineIndex)> {
    let (table, places) = places_of(g, id);
    let (along, place) = places.iter().find(|(_, place)| row_and_key(place).is_some())?;
    let (first, second) = row_and_key(place)?;
    let is_of_pair = |axis: AxisId| axis == first || axis == second;
    let mut others = places.iter().filter(|(axis, _)| *axis != along);
    let in_others = others.any(|(_, place)| place.terms.keys().any(|axis| is_of_pair(*axis)));
    let in_table = g.node(table).axes.iter().any(|axis| is_of_pair(axis) && !places.contains_key(&axis));
    ([first, second].contains(&key) && !in_others && !in_table).then(|| (*along, place.clone()))
}

/// A sum over rows of what is made of weights that are read at a distance, or of a sum of such weights.
struct RowSum {
    row: AxisId,
    /// The operators that are linear in the view of the weights, the outermost first, each with the argument that leads to it.
    steps: Vec<(NodeId, usize)>,
    view: NodeId,
    /// The axes of sums of what the view is of, the outermost first: they come after the sum over the rows, so that what is summed is
    /// made where it is.
    sums: Vec<AxisId>,
    /// What is summed, or what the view is of.
    of: NodeId,
}

impl RowSum {
    fn of(g: &Graph, id: NodeId) -> Option<RowSum> {
        let Op::Reduce(ReduceOp::Sum, row) = *g.op(id) else { return None };
        let (mut steps, mut at) = (Vec::new(), g.args(id)[0]);
        let leads =
            |arg: NodeId| leaves(g, arg).is_some_and(|l| l.into_iter().any(|x| is_of_weights(g, x, row)));
        while let Op::Map(_) = g.op(at) {
            let place = linear_in(g, at).iter().copied().find(|place| leads(g.args(at)[*place]))?;
            steps.push((at, place));
            at = g.args(at)[place];
        }
        let (along, ..) = along_distances(g, at).filter(|_| is_of_weights(g, at, row))?;
        let mut sum = RowSum { row, steps, view: at, sums: Vec::new(), of: places_of(g, at).0 };
        let others = sum.others(g).fold(g.node(id).axes.clone(), |axes, x| axes.union(&g.node(x).axes));
        while let Op::Reduce(ReduceOp::Sum, axis) = *g.op(sum.of)
            && is_expression_of_product(g, g.args(sum.of)[0], along)
            && !others.contains(axis)
            && axis != row
        {
            sum.sums.push(axis);
            sum.of = g.args(sum.of)[0];
        }
        Some(sum)
    }

    /// What the weights are multiplied with, and the conditions under which they count.
    fn others<'a>(&'a self, g: &'a Graph) -> impl Iterator<Item = NodeId> + 'a {
        self.steps.iter().flat_map(|(id, at)| {
            g.args(*id).into_iter().enumerate().filter_map(move |(n, x)| (n != *at).then_some(x))
        })
    }

    fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        let weights = inside(g, b, new, (self.view, self.of))?;
        let terms = self.steps.iter().rev().try_fold(weights, |terms, (id, at)| {
            let arg = |b: &mut Builder, x: NodeId| {
                let is_mask = g.node(x).dtype == DType::Bool && along_distances(g, x).is_some();
                let moved = is_mask.then(|| inside(g, b, new, (x, places_of(g, x).0))).flatten();
                moved.unwrap_or(new[x.index()])
            };
            let mut args: Vec<NodeId> = g.args(*id).into_iter().map(|x| arg(b, x)).collect();
            args[*at] = terms;
            b.add(g.op(*id).clone(), &args).ok()
        })?;
        let rows = b.reduce(ReduceOp::Sum, self.row, terms).ok()?;
        self.sums.iter().rev().try_fold(rows, |sum, axis| b.reduce(ReduceOp::Sum, *axis, sum).ok())
    }
}

/// Whether a value is a view, at a distance from a row, of weights that are made of products of queries and keys.
fn is_of_weights(g: &Graph, view: NodeId, row: AxisId) -> bool {
    let Some((along, first, _)) = along_distances(g, view) else { return false };
    first == row
        && g.node(view).dtype == DType::F32
        && is_expression_of_product(g, places_of(g, view).0, along)
}

/// The axis of which a view reads what lies at a distance, and the row and the key of that.
fn along_distances(g: &Graph, id: NodeId) -> Option<(AxisId, AxisId, AxisId)> {
    let (_, places) = places_of(g, id);
    places.iter().find_map(|(along, place)| row_and_key(place).map(|(first, second)| (*along, first, second)))
}

/// What a view is of, or what is summed there, read at the place of the view.
fn inside(g: &Graph, b: &mut Builder, new: &[NodeId], (view, of): (NodeId, NodeId)) -> Option<NodeId> {
    let (_, _, key) = along_distances(g, view)?;
    let (_, places) = places_of(g, view);
    // The axis of the distances may have the name of one inside.
    let taken = all_axes(g, of)?.union(&g.node(view).axes);
    let distance = b.fresh_axis(key, &taken);
    let own = AffineIndex::own(distance);
    let places = places.iter().map(|(axis, place)| (*axis, place.with(key, &own))).collect();
    let moved = Mover::new(g, new).moved(b, of, &places)?;
    if !b.node(moved).axes.contains(distance) {
        return Some(moved);
    }
    let own = b.iota(key);
    b.at(moved, distance, own).ok()
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

/// Whether a value is a sum of products that varies along an axis.
fn is_product(g: &Graph, id: NodeId, along: AxisId) -> bool {
    g.node(id).axes.contains(along) && g.sum_of_products(id).is_some()
}

/// Whether an expression has a sum of products inside of it.
fn is_expression_of_product(g: &Graph, of: NodeId, along: AxisId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![(of, along)]);
    while let Some((id, along)) = stack.pop() {
        if !g.node(id).axes.contains(along) || !seen.insert((id, along)) || seen.len() > LARGEST {
            continue;
        }
        if id != of && is_product(g, id, along) {
            return true;
        }
        match g.op(id) {
            Op::Map(_) => stack.extend(g.args(id).iter().map(|arg| (*arg, along))),
            Op::Reduce(..) => stack.push((g.args(id)[0], along)),
            Op::At(axis) if *axis != along => stack.push((g.args(id)[0], along)),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
    }
    false
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
            let (row, distance) = (b.iota(i), b.iota(d));
            let key = b.map(MapOp::Sub, &[row, distance]).unwrap();
            let read = b.at(weight, j, key).unwrap();
            let product = b.map(MapOp::Mul, &[read, by_row]).unwrap();
            let term = kept(b, d, i, product);
            b.reduce(ReduceOp::Sum, i, term).unwrap()
        });
        for (text, read) in [(over_keys, "r[d.1, f]"), (over_rows, "r[i, f]")] {
            assert!(text.contains("* k[i + (d"), "{text}");
            assert!(text.contains(read), "{text}");
            assert!(!text.contains("exp(y.1[i, j])"), "{text}");
        }
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
