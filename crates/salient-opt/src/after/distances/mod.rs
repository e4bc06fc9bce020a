//! What depends on a row and a key by their distance alone.
//!
//! There are as many distances as rows and keys together. What is the same for all pairs that lie so far apart is computed once for each
//! distance, and what is summed over pairs by their distance is first summed for each.

pub(crate) mod diagonals;
pub(crate) mod tables;

use crate::graph::index::AffineIndex;
use crate::graph::rewrite::axis_named;
use salient_ir::{AxisId, Builder, Dim, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// A key and a row: a distance is the first's position less the second's.
type Pair = (AxisId, AxisId);

/// The nodes that depend on two axes by the difference of their positions alone, with these axes.
fn distances(g: &Graph) -> BTreeMap<NodeId, Pair> {
    let keys: BTreeSet<AxisId> = g
        .ids()
        .filter_map(
            |id| if let Op::Fused(_, key) | Op::Reduce(_, key) = *g.op(id) { Some(key) } else { None },
        )
        .collect();
    let mut found: BTreeMap<NodeId, Pair> = BTreeMap::new();
    for id in g.ids() {
        let pair = match (difference(g, id).and_then(|place| pair_of(&place, &keys)), g.op(id)) {
            (Some(pair), _) => Some(pair),
            (None, Op::Map(_)) => common(g, &found, &g.args(id)),
            (None, Op::At(axis)) => {
                let (of, index) = (g.args(id)[0], g.args(id)[1]);
                let pair = found.get(&index).copied();
                pair.filter(|pair| *axis != pair.0 && *axis != pair.1 && !is_along(g, of, *pair))
            }
            (None, _) => None,
        };
        found.extend(pair.map(|pair| (id, pair)));
    }
    found
}

/// An index as a sum over indices; of two that are compared, the first less the second.
fn difference(g: &Graph, id: NodeId) -> Option<AffineIndex> {
    if g.node(id).dtype.is_int() {
        return AffineIndex::of(g, id);
    }
    let args = g.args(id);
    let is_of_indices = is_comparison(g.op(id)) && args.iter().all(|arg| g.node(*arg).dtype.is_int());
    is_of_indices.then(|| Some(AffineIndex::of(g, args[0])?.less(&AffineIndex::of(g, args[1])?)))?
}

fn is_comparison(op: &Op) -> bool {
    matches!(op, Op::Map(MapOp::Lt | MapOp::Le | MapOp::Eq | MapOp::Ne))
}

/// The key and the row of a distance: their positions are all that varies in it.
fn pair_of(place: &AffineIndex, keys: &BTreeSet<AxisId>) -> Option<Pair> {
    let with = |times: i64| {
        place.terms.iter().find(|(_, own)| own.as_constant() == Some(times)).map(|(axis, _)| *axis)
    };
    let (added, taken_off) = (with(1)?, with(-1)?);
    let is_key = |axis: &AxisId| keys.contains(axis);
    let pair = if is_key(&taken_off) && !is_key(&added) { (taken_off, added) } else { (added, taken_off) };
    (place.terms.len() == 2).then_some(pair)
}

/// The pair whose distance some of the operands depend on, where no other one varies along either.
fn common(g: &Graph, found: &BTreeMap<NodeId, Pair>, args: &[NodeId]) -> Option<Pair> {
    let (key, row) = args.iter().find_map(|arg| found.get(arg)).copied()?;
    let is_same = |other: &Pair| *other == (key, row) || *other == (row, key);
    args.iter()
        .all(|arg| found.get(arg).map_or(!is_along(g, *arg, (key, row)), is_same))
        .then_some((key, row))
}

fn is_along(g: &Graph, id: NodeId, (key, row): Pair) -> bool {
    [key, row].into_iter().any(|axis| g.node(id).axes.contains(axis))
}

/// A table as it is made: at each of its places lies what belongs to the distance `place - rows`.
struct Table<'a> {
    g: &'a Graph,
    /// What the nodes of the graph have become.
    new: &'a [NodeId],
    distances: &'a BTreeMap<NodeId, Pair>,
    pair: Pair,
    place: AxisId,
    rows: Dim,
    made: BTreeMap<NodeId, NodeId>,
}

impl<'a> Table<'a> {
    fn new(
        g: &'a Graph,
        b: &mut Builder,
        new: &'a [NodeId],
        distances: &'a BTreeMap<NodeId, Pair>,
        pair: Pair,
    ) -> Table<'a> {
        let (keys, rows) = (g.extent(pair.0), g.extent(pair.1).clone());
        let place = axis_named(g, b, "distance", &(keys + &rows));
        Table { g, new, distances, pair, place, rows, made: BTreeMap::new() }
    }

    /// A node as what the table holds at the distance of the key from the row.
    fn read(mut self, b: &mut Builder, id: NodeId) -> Option<NodeId> {
        let table = self.at_place(b, id)?;
        let (key, row, from) = (b.iota(self.pair.0), b.iota(self.pair.1), b.extent_of(&self.rows));
        let behind = b.map(MapOp::Sub, &[from, row]).ok()?;
        let at = b.map(MapOp::Add, &[key, behind]).ok()?;
        b.at(table, self.place, at).ok()
    }

    /// What a node is at a place of the table.
    fn at_place(&mut self, b: &mut Builder, id: NodeId) -> Option<NodeId> {
        if let Some(made) = self.made.get(&id) {
            return Some(*made);
        }
        let (g, args) = (self.g, self.g.args(id));
        let is_of_distance = self.distances.contains_key(&id);
        let made = match (difference(g, id), g.op(id)) {
            _ if !is_of_distance => self.new[id.index()],
            (Some(place), op) if place.terms.len() == 2 => {
                let distance = self.distance(b, &place)?;
                let zero = b.extent_of(&Dim::constant(0));
                if is_comparison(op) { b.add(op.clone(), &[distance, zero]).ok()? } else { distance }
            }
            (_, op) => {
                let args =
                    args.into_iter().map(|arg| self.at_place(b, arg)).collect::<Option<Vec<NodeId>>>()?;
                b.add(op.clone(), &args).ok()?
            }
        };
        self.made.insert(id, made);
        Some(made)
    }

    /// An index that varies with the distance alone.
    fn distance(&self, b: &mut Builder, index: &AffineIndex) -> Option<NodeId> {
        let times = index.terms.get(&self.pair.0)?.clone();
        let offset = &index.offset - &(&times * &self.rows);
        let at_place = AffineIndex { terms: BTreeMap::from([(self.place, times)]), offset };
        Some(at_place.add_to(b, None))
    }
}
