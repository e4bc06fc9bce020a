//! Inequalities of indices: what the condition of a choice says of them where it holds.

use crate::graph::index::AffineIndex;
use salient_ir::remainders::{is_multiple, remainder_where};
use salient_ir::{AxisId, Dim, Graph, MapOp, NodeId, Op};
use std::collections::BTreeMap;

/// The most inequalities that are carried along.
pub(crate) const MOST: usize = 16;

/// An inequality: an index that is at least zero.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AtLeastZero {
    terms: BTreeMap<AxisId, Dim>,
    offset: Dim,
}

impl AtLeastZero {
    pub(crate) fn of(AffineIndex { terms, offset }: AffineIndex) -> AtLeastZero {
        AtLeastZero { terms, offset }
    }

    pub(crate) fn index(&self) -> AffineIndex {
        AffineIndex { terms: self.terms.clone(), offset: self.offset.clone() }
    }

    /// Whether it speaks of an axis.
    pub(crate) fn has(&self, axis: AxisId) -> bool {
        self.terms.contains_key(&axis)
    }

    /// The same with an index in place of an axis's own.
    pub(crate) fn with(&self, axis: AxisId, place: &AffineIndex) -> AtLeastZero {
        AtLeastZero::of(self.index().with(axis, place))
    }
}

/// What a condition says of indices where it holds, or where it does not.
pub(crate) fn inequalities(g: &Graph, condition: NodeId, holds: bool) -> Vec<AtLeastZero> {
    let args = g.args(condition);
    if let Op::At(axis) = *g.op(condition) {
        // The condition as it is at another place.
        let Some(place) = AffineIndex::of(g, args[1]) else { return Vec::new() };
        let inside = inequalities(g, args[0], holds);
        return inside.iter().map(|known| known.with(axis, &place)).collect();
    }
    let Op::Map(op) = *g.op(condition) else { return Vec::new() };
    let at_least = |a: NodeId, c: NodeId, less: i64| difference(g, a, c, less).into_iter().collect();
    match (op, holds) {
        (MapOp::And, true) | (MapOp::Or, false) => {
            args.iter().flat_map(|arg| inequalities(g, *arg, holds)).take(MOST).collect()
        }
        (MapOp::Not, _) => inequalities(g, args[0], !holds),
        (MapOp::Le, true) => at_least(args[1], args[0], 0),
        (MapOp::Lt, true) => at_least(args[1], args[0], 1),
        (MapOp::Le, false) => at_least(args[0], args[1], 1),
        (MapOp::Lt, false) => at_least(args[0], args[1], 0),
        (MapOp::Eq | MapOp::Ne, _) => {
            let is_equal = (op == MapOp::Eq) == holds;
            let either_way = [(args[0], args[1]), (args[1], args[0])];
            let of_differences = either_way.iter().filter(|_| is_equal);
            let of_remainders = either_way.iter().flat_map(|(a, c)| of_remainder(g, *a, *c, is_equal));
            of_differences.flat_map(|(a, c)| difference(g, *a, *c, 0)).chain(of_remainders).collect()
        }
        _ => Vec::new(),
    }
}

/// What is known of an axis's own index where its remainder by a constant is another constant, or is not: it is at least that
/// remainder, and if the constant divides the extent, the last that it may be is as far from the end.
fn of_remainder(g: &Graph, remainder: NodeId, rest: NodeId, holds: bool) -> Vec<AtLeastZero> {
    let constant = |id: NodeId| {
        let Op::Const(c) = *g.op(id) else { return None };
        c.dtype().is_int().then(|| c.value() as i64)
    };
    let taken_apart = || {
        let Op::Map(MapOp::Mod) = *g.op(remainder) else { return None };
        let [index, by] = [0, 1].map(|n| g.args(remainder)[n]);
        let Op::Iota(axis) = *g.op(index) else { return None };
        let by = constant(by)?;
        Some((axis, by, remainder_where(by, constant(rest)?, holds)?))
    };
    let Some((axis, by, rest)) = taken_apart() else { return Vec::new() };
    let own = AffineIndex::own(axis);
    let mut known = vec![own.less(&AffineIndex::fixed(Dim::constant(rest)))];
    if is_multiple(g, g.extent(axis), by) {
        known.push(AffineIndex::fixed(g.extent(axis) - &Dim::constant(by - rest)).less(&own));
    }
    known.into_iter().map(AtLeastZero::of).collect()
}

/// `a - c - less`, if both are sums of indices.
fn difference(g: &Graph, a: NodeId, c: NodeId, less: i64) -> Option<AtLeastZero> {
    let is_index = |id: NodeId| g.node(id).dtype.is_int();
    if !is_index(a) || !is_index(c) {
        return None;
    }
    let (a, c) = (AffineIndex::of(g, a)?, AffineIndex::of(g, c)?);
    let mut index = a.less(&c);
    index.offset = &index.offset - &Dim::constant(less);
    Some(AtLeastZero::of(index))
}

/// Whether an index is proved to be at least zero at every position of its axes.
pub(crate) fn is_never_below_zero(g: &Graph, index: &AffineIndex) -> bool {
    let mut least = index.offset.clone();
    for (axis, times) in &index.terms {
        if !times.is_nonnegative() {
            least = &least + &(times * &(g.extent(*axis) - &Dim::constant(1)));
        }
    }
    least.is_nonnegative()
}
