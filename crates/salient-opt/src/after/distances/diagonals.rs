//! Sums over all pairs of a row and a key that a condition of their distance picks, as the gradient of a bias by the bucket of a
//! distance (Raffel et al., "Exploring the limits of transfer learning", 2020).
//!
//! As written, each score is looked at once for each bucket, and is stored for that. The scores at one distance, a diagonal of the matrix
//! of scores, all go to the same bucket: they are added up first, by the kernel that makes them, and the buckets are sums over as many
//! numbers as there are distances.

use super::{Pair, Table, distances};
use crate::graph::choices::{conjuncts, under_condition};
use crate::graph::demanded::open_values;
use crate::graph::index::AffineIndex;
use crate::graph::inequalities::is_never_below_zero;
use crate::graph::rewrite::{Rewritten, rewrite};
use salient_ir::{AxisId, Builder, Class, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

/// The same graph with a sum over each diagonal where all pairs are summed by their distance.
pub(crate) fn diagonal_sums(g: &Graph) -> Rewritten {
    let distances = distances(g);
    let open = LazyCell::new(|| open_values(g));
    let found = g.ids().filter_map(|id| Some((id, picked(g, &distances, id)?)));
    // Every value is read then that the masks keep, whatever the distance is.
    let is_closed = |sum: &Picked| !open.is_open_under(sum.value, &sum.masks);
    let found: BTreeMap<NodeId, Picked> = found.filter(|(_, sum)| is_closed(sum)).collect();
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite(g, |b, new, id| found.get(&id).and_then(|sum| sum.build(g, b, new, &distances)))
}

/// A sum over pairs that are picked by their distance.
struct Picked {
    by: By,
    /// What is summed of each pair that is picked, where all of the masks hold.
    value: NodeId,
    masks: BTreeSet<NodeId>,
    pair: Pair,
    /// What else the value is summed over.
    others: Vec<AxisId>,
}

/// What picks pairs.
enum By {
    /// A condition of their distance.
    Condition(NodeId),
    /// That the key less the row is this number, in which neither has a part.
    Distance(AffineIndex),
}

/// The node as such a sum.
fn picked(g: &Graph, distances: &BTreeMap<NodeId, Pair>, id: NodeId) -> Option<Picked> {
    let (mut others, chosen) = summed(g, id);
    let (mut conditions, value) = choices(g, chosen);
    let of_value = &g.node(value).axes;
    let is_one = |axis: AxisId| of_value.contains(axis) && others.contains(&axis);
    // One of the conditions tells places apart that the value does not have.
    let tells_places = |condition: &NodeId| !g.node(*condition).axes.is_subset(of_value);
    let condition = conditions.iter().copied().find(tells_places)?;
    conditions.remove(&condition);
    let (by, (key, row)) = picks(g, distances, condition, is_one)?;
    others.retain(|axis| ![key, row].contains(axis));
    let is_outside = others.iter().all(|axis| !g.node(condition).axes.contains(*axis));
    let are_of_value = conditions.iter().all(|mask| g.node(*mask).axes.is_subset(of_value));
    if g.node(value).dtype != DType::F32 || !is_outside || !are_of_value {
        return None;
    }
    let (inner, value) = if g.has_one_reader(value) { summed(g, value) } else { (Vec::new(), value) };
    others.extend(inner);
    let is_computed = g.op(value).class() == Class::Map;
    let has_order = is_key(g, value, key) || !is_key(g, value, row);
    let picked = Picked { by, value, masks: conditions, pair: (key, row), others };
    is_computed.then(|| if has_order { picked } else { picked.transposed() })
}

/// What stands under choices of zero, and the conditions of all of them.
fn choices(g: &Graph, chosen: NodeId) -> (BTreeSet<NodeId>, NodeId) {
    let (mut conditions, mut value) = (BTreeSet::new(), chosen);
    while let Some((condition, kept)) = under_condition(g, value) {
        conjuncts(g, condition, &mut conditions);
        value = kept;
    }
    (conditions, value)
}

/// What a condition picks pairs by, and the key and the row of these, both of which are axes that `is_one` names.
fn picks(
    g: &Graph,
    distances: &BTreeMap<NodeId, Pair>,
    condition: NodeId,
    is_one: impl Fn(AxisId) -> bool,
) -> Option<(By, Pair)> {
    let Some(pair) = distances.get(&condition) else { return distance_picked(g, condition, is_one) };
    let is_it = is_one(pair.0) && is_one(pair.1) && !has_look_ups(g, distances, condition);
    is_it.then_some((By::Condition(condition), *pair))
}

/// The key and the row that a condition compares by their distance, and what that is where it holds; `is_one` says whether an axis may be
/// one of them.
fn distance_picked(g: &Graph, condition: NodeId, is_one: impl Fn(AxisId) -> bool) -> Option<(By, Pair)> {
    let Op::Map(MapOp::Eq) = *g.op(condition) else { return None };
    let [a, b] = [0, 1].map(|at| AffineIndex::of(g, g.args(condition)[at]));
    let mut rest = a?.less(&b?);
    let is_one = &is_one;
    let times = |n: i64| {
        let mut of =
            rest.terms.iter().filter(move |(axis, by)| is_one(**axis) && by.as_constant() == Some(n));
        of.next().map(|(axis, _)| *axis).filter(|_| of.next().is_none())
    };
    let (key, row) = (times(1)?, times(-1)?);
    rest.terms.retain(|axis, _| ![key, row].contains(axis));
    Some((By::Distance(rest.negated()), (key, row)))
}

/// The axes that sums inside each other sum over, and what they sum.
fn summed(g: &Graph, id: NodeId) -> (Vec<AxisId>, NodeId) {
    let (mut over, mut inside) = (Vec::new(), id);
    while let Op::Reduce(ReduceOp::Sum, axis) = *g.op(inside)
        && (inside == id || g.has_one_reader(inside))
    {
        over.push(axis);
        inside = g.args(inside)[0];
    }
    (over, inside)
}

/// Whether what depends on a distance reads a tensor at it: one is not read at distances that no pair has.
fn has_look_ups(g: &Graph, distances: &BTreeMap<NodeId, Pair>, id: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        if distances.contains_key(&id) && seen.insert(id) {
            if matches!(g.op(id), Op::At(_)) {
                return true;
            }
            stack.extend(g.args(id));
        }
    }
    false
}

/// Whether a value is made of what its rows come to along an axis, as a softmax is: that is the axis of the keys.
fn is_key(g: &Graph, value: NodeId, axis: AxisId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![value]);
    while let Some(id) = stack.pop() {
        if seen.insert(id) {
            match g.op(id).class() {
                Class::Bind if g.op(id).bound() == Some(axis) => return true,
                Class::Map => stack.extend(g.args(id)),
                Class::Bind | Class::Port | Class::Leaf | Class::View | Class::Concat => {}
            }
        }
    }
    false
}

impl Picked {
    /// The same with rows and keys exchanged.
    fn transposed(self) -> Picked {
        let by = match self.by {
            By::Condition(condition) => By::Condition(condition),
            By::Distance(by) => By::Distance(by.negated()),
        };
        Picked { by, pair: (self.pair.1, self.pair.0), ..self }
    }

    /// The sum over distances.
    fn build(
        &self,
        g: &Graph,
        b: &mut Builder,
        new: &[NodeId],
        distances: &BTreeMap<NodeId, Pair>,
    ) -> Option<NodeId> {
        let (key, row) = self.pair;
        let mut table = Table::new(g, b, new, distances, self.pair);
        let place = table.place;
        // The key that lies so far from a row, if there is one.
        let (own, at, from) = (b.iota(row), b.iota(place), b.extent_of(g.extent(row)));
        let behind = b.map(MapOp::Sub, &[own, from]).ok()?;
        let index = b.map(MapOp::Add, &[at, behind]).ok()?;
        let inside = is_inside(b, index, g.extent(key));
        let zero = b.constant(Const::f32(0.0));
        let masked = self.masks.iter().try_fold(new[self.value.index()], |value, mask| {
            b.map(MapOp::Select, &[new[mask.index()], value, zero])
        });
        let read = b.at(masked.ok()?, key, index).ok()?;
        let chosen = b.map(MapOp::Select, &[inside, read, zero]).ok()?;
        let over = [row].into_iter().chain(self.others.iter().copied());
        let sums = over.fold(chosen, |sum, axis| b.reduce(ReduceOp::Sum, axis, sum).expect("numbers"));
        match &self.by {
            By::Condition(condition) => {
                let condition = table.at_place(b, *condition)?;
                let picked = b.map(MapOp::Select, &[condition, sums, zero]).ok()?;
                b.reduce(ReduceOp::Sum, place, picked).ok()
            }
            By::Distance(by) => {
                let back = AffineIndex::fixed(&Dim::constant(0) - g.extent(row));
                let (at, count) = (by.less(&back), b.extent(place).clone());
                let beyond = AffineIndex::fixed(&count - &Dim::constant(1)).less(&at);
                let is_always = [&at, &beyond].iter().all(|index| is_never_below_zero(b, index));
                let index = at.add_to(b, None);
                let sum = b.at(sums, place, index).ok()?;
                if is_always {
                    return Some(sum);
                }
                let is_there = is_inside(b, index, &count);
                b.map(MapOp::Select, &[is_there, sum, zero]).ok()
            }
        }
    }
}

/// Whether an index is a position of so many.
fn is_inside(b: &mut Builder, index: NodeId, count: &Dim) -> NodeId {
    let (first, end) = (b.constant(Const::I64(0)), b.extent_of(count));
    let [is_after, is_before] = [(MapOp::Le, first, index), (MapOp::Lt, index, end)]
        .map(|(op, x, y)| b.map(op, &[x, y]).expect("integers"));
    b.map(MapOp::And, &[is_after, is_before]).expect("truths")
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::text;

    /// Scores of rows and keys, summed where a condition of both positions and a bucket holds.
    fn after(condition: impl FnOnce(&mut Builder, [NodeId; 3]) -> NodeId) -> String {
        let mut b = Builder::new("m");
        let [t, s] = [("t", "T"), ("s", "S")].map(|(name, of)| b.axis_id(name, &Dim::symbol(of)));
        let n = b.axis_id("n", &Dim::constant(4));
        let scores = b.input("scores", &[t, s], DType::F32, None);
        let squared = b.map(MapOp::Mul, &[scores, scores]).unwrap();
        let places = [t, s, n].map(|axis| b.iota(axis));
        let condition = condition(&mut b, places);
        let zero = b.constant(Const::f32(0.0));
        let chosen = b.map(MapOp::Select, &[condition, squared, zero]).unwrap();
        let by_row = b.reduce(ReduceOp::Sum, s, chosen).unwrap();
        let sum = b.reduce(ReduceOp::Sum, t, by_row).unwrap();
        b.output("sum", &[n], sum).unwrap();
        text::print(&diagonal_sums(&b.finish()).graph)
    }

    fn bucket(b: &mut Builder, row: NodeId, key: NodeId) -> NodeId {
        let (distance, most) = (b.map(MapOp::Sub, &[row, key]).unwrap(), b.constant(Const::I64(3)));
        let away = b.map(MapOp::Abs, &[distance]).unwrap();
        b.map(MapOp::Min, &[away, most]).unwrap()
    }

    #[test]
    fn pairs_of_one_bucket_are_summed_by_their_distance() {
        let text = after(|b, [row, key, n]| {
            let bucket = bucket(b, row, key);
            b.map(MapOp::Eq, &[bucket, n]).unwrap()
        });
        assert!(text.contains("distance: S + T]") && text.contains("sum[distance]"), "{text}");
    }

    #[test]
    fn what_depends_on_more_than_the_distance_is_looked_at_for_each_pair() {
        let text = after(|b, [row, key, n]| {
            let bucket = bucket(b, row, key);
            let further = b.map(MapOp::Add, &[bucket, row]).unwrap();
            b.map(MapOp::Eq, &[further, n]).unwrap()
        });
        assert!(!text.contains("distance"), "{text}");
    }
}
