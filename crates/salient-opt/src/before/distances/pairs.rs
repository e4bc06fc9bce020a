//! Sums over rows of what is made of scores at a distance from each row, as the gradient of a table by distance: `sum[i](s[i, i - d])`.
//!
//! Scores are made row by row, for all keys: the sum becomes one over all pairs of a row and a key that have the distance,
//! `sum[i](sum[j](if i - j == d then s[i, j] else 0))`, so that the scores stand in it as they do for their other readers. See
//! `after/distances/diagonals.rs` for how it is computed.

use super::moved::{Mover, Places, places_of};
use super::{has_product, has_product_of};
use crate::graph::choices::under_condition;
use crate::graph::index::AffineIndex;
use salient_ir::{AxisId, AxisSet, Builder, Class, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::BTreeMap;

/// Such a sum.
pub(super) struct PairSum {
    row: AxisId,
    key: AxisId,
    /// What is summed, at each row and key, where all of these hold; and the axes of it that have another name in the sum.
    value: NodeId,
    renamed: BTreeMap<AxisId, AxisId>,
    masks: Vec<Mask>,
    /// The axis of the distances, and which of them a pair has.
    distance: AxisId,
    of_pair: AffineIndex,
    /// The axes of further sums, the outermost first.
    sums: Vec<AxisId>,
}

/// A condition, read at these places, which are those of a row and a distance.
struct Mask {
    of: NodeId,
    places: Places,
}

impl Mask {
    fn of(g: &Graph, condition: NodeId) -> Option<Mask> {
        let (of, places) = places_of(g, condition);
        is_of_indices(g, of).then_some(Mask { of, places })
    }

    /// The places where the distance is that of a pair.
    fn at_pair(&self, g: &Graph, distance: AxisId, of_pair: &AffineIndex) -> Places {
        let place = |axis: AxisId| self.places.get(&axis).cloned().unwrap_or_else(|| AffineIndex::own(axis));
        g.node(self.of).axes.iter().map(|axis| (axis, place(axis).with(distance, of_pair))).collect()
    }
}

/// A sum over rows as such a sum; `is_inside` says whether no index of a view at a place leaves an axis.
pub(super) fn pair_sum(
    g: &Graph,
    id: NodeId,
    row: AxisId,
    is_inside: impl Fn(NodeId, &AffineIndex, AxisId) -> bool,
) -> Option<PairSum> {
    let (mut conditions, mut read) = (Vec::new(), g.args(id)[0]);
    while let Some((condition, kept)) = under_condition(g, read) {
        conditions.push(condition);
        read = kept;
    }
    let Op::At(_) = g.op(read) else { return None };
    let (mut value, mut places) = places_of(g, read);
    places.retain(|axis, place| g.node(value).axes.contains(*axis) && *place != AffineIndex::own(*axis));
    let name = |place: &AffineIndex| place.terms.keys().copied().find(|own| *place == AffineIndex::own(*own));
    let renamed: BTreeMap<AxisId, AxisId> =
        places.iter().filter_map(|(axis, place)| Some((*axis, name(place)?))).collect();
    let mut moved = places.iter().filter(|(axis, _)| !renamed.contains_key(axis));
    let (key, place) = moved.next().filter(|_| moved.next().is_none())?;
    let (key, distance) = (*key, place.terms.keys().copied().find(|axis| *axis != row)?);
    let of_pair = distance_of_pair(place, (row, key), distance)?;
    // The axes of the value as the sum names them: of each row and key, and of no distance.
    let own = &g.node(value).axes;
    let named: AxisSet = own.iter().map(|axis| renamed.get(&axis).copied().unwrap_or(axis)).collect();
    let keeps_names = renamed.values().all(|name| !own.contains(*name)) && named.len() == own.len();
    let is_of_pairs = named.contains(row) && named.contains(key) && !named.contains(distance);
    // The sum over keys that is added binds their name.
    let lacks_key = |id: NodeId| !g.node(id).axes.contains(key);
    let is_free = lacks_key(id) && conditions.iter().all(|condition| lacks_key(*condition));
    let masks = conditions.iter().map(|condition| Mask::of(g, *condition)).collect::<Option<Vec<Mask>>>()?;
    let is_number = g.node(value).dtype == DType::F32;
    if !(keeps_names && is_of_pairs && is_free && is_number && is_inside(read, place, key)) {
        return None;
    }
    let around = conditions.iter().fold(g.node(id).axes.clone(), |all, x| all.union(&g.node(*x).axes));
    let mut sums = Vec::new();
    while let Op::Reduce(ReduceOp::Sum, axis) = *g.op(value)
        && has_product(g, g.args(value)[0], key)
        && ![row, key, distance].contains(&axis)
        && !named.union(&around).contains(axis)
    {
        sums.push(axis);
        value = g.args(value)[0];
    }
    // What has further axes is a product of scores and of values of the row.
    let is_score = has_product_of(g, value, key, g.node(value).axes.len());
    is_score.then_some(PairSum { row, key, value, renamed, masks, distance, of_pair, sums })
}

/// The distance of a pair, by the place of the key at a row and a distance: each of these is counted once there, or taken off.
fn distance_of_pair(
    place: &AffineIndex,
    (row, key): (AxisId, AxisId),
    distance: AxisId,
) -> Option<AffineIndex> {
    let times = place.terms.get(&distance)?.clone();
    let is_unit = matches!(times.as_constant(), Some(1 | -1));
    if place.terms.len() != 2 || place.terms.get(&row)?.as_constant() != Some(1) || !is_unit {
        return None;
    }
    let mut rest = place.clone();
    rest.terms.remove(&distance);
    let by = AffineIndex::own(key).less(&rest);
    // What is counted backwards is the difference the other way round.
    Some(if times == Dim::constant(1) { by } else { by.negated() })
}

/// Whether a condition compares indices, and reads nothing.
fn is_of_indices(g: &Graph, condition: NodeId) -> bool {
    let args = g.args(condition);
    if matches!(g.op(condition), Op::Map(MapOp::And | MapOp::Or | MapOp::Not)) {
        return args.iter().all(|arg| is_of_indices(g, *arg));
    }
    let compares = matches!(g.op(condition), Op::Map(MapOp::Le | MapOp::Lt | MapOp::Eq | MapOp::Ne));
    g.op(condition).class() == Class::Leaf
        || compares && args.iter().all(|arg| AffineIndex::of(g, *arg).is_some())
}

impl PairSum {
    pub(super) fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        let zero = b.constant(Const::f32(0.0));
        let mut mover = Mover::new(g, new);
        let mut term = new[self.value.index()];
        for (axis, name) in &self.renamed {
            let name = b.iota(*name);
            term = b.at(term, *axis, name).ok()?;
        }
        for mask in self.masks.iter().rev() {
            let mask = mover.moved(b, mask.of, &mask.at_pair(g, self.distance, &self.of_pair))?;
            if *b.op(mask) != Op::Const(Const::Bool(true)) {
                term = b.map(MapOp::Select, &[mask, term, zero]).ok()?;
            }
        }
        let (distance, own) = (self.of_pair.add_to(b, None), b.iota(self.distance));
        let is_there = b.map(MapOp::Eq, &[distance, own]).ok()?;
        let picked = b.map(MapOp::Select, &[is_there, term, zero]).ok()?;
        let over = [self.key, self.row].into_iter().chain(self.sums.iter().rev().copied());
        Some(over.fold(picked, |sum, axis| b.reduce(ReduceOp::Sum, axis, sum).expect("numbers")))
    }
}
