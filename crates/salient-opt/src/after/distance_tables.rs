//! What depends on a row and a key by their distance alone, computed once for each distance.
//!
//! A bias by the bucket of a distance (Raffel et al., "Exploring the limits of transfer learning", 2020) or a cosine of one (Qin et al.,
//! "cosFormer", 2022) is the same for all pairs that lie so far apart. Scores are made tile by tile, for each batch and head: a
//! transcendental function or a look-up of each pair would be made anew in each of them. There are as many distances as rows and keys
//! together, and what lies at those of one row from all keys is a row of memory.

use crate::graph::index::AffineIndex;
use crate::graph::rewrite::{Rewritten, axis_named, rewrite};
use salient_ir::{AxisId, Builder, Dim, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// The same graph with a table of what is costly and depends on a distance alone.
pub(crate) fn distance_tables(g: &Graph) -> Rewritten {
    let distances = distances(g);
    let is_table = |id: &NodeId| {
        distances.contains_key(id)
            && is_outermost(g, &distances, *id)
            && is_costly(g, &distances, *id)
            && is_in_scores(g, *id)
    };
    let tables: BTreeSet<NodeId> = g.ids().filter(is_table).collect();
    if tables.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite(g, |b, new, id| {
        let pair = distances.get(&id).filter(|_| tables.contains(&id))?;
        Table::new(g, b, new, &distances, *pair).read(b, id)
    })
}

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

/// Whether a number is read by something else than what depends on the same distance alone.
fn is_outermost(g: &Graph, distances: &BTreeMap<NodeId, Pair>, id: NodeId) -> bool {
    let is_output = g.outputs().iter().any(|out| out.node == id);
    g.node(id).dtype.is_float()
        && (is_output || g.users(id).into_iter().any(|user| !distances.contains_key(&user)))
}

/// Whether scores are made of a number element by element. What is summed with values has their columns, along which a look-up reads a
/// row as it lies.
fn is_in_scores(g: &Graph, id: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(at) = stack.pop() {
        for user in g.users(at) {
            match g.op(user) {
                Op::Fused(..) if g.args(user)[0] == at => return true,
                Op::Map(_) if seen.insert(user) => stack.push(user),
                Op::Map(_) | Op::Fused(..) | Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => {
                }
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            }
        }
    }
    false
}

/// Whether a transcendental function or a look-up is made for each distance.
fn is_costly(g: &Graph, distances: &BTreeMap<NodeId, Pair>, id: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        if !distances.contains_key(&id) || !seen.insert(id) {
            continue;
        }
        match g.op(id) {
            Op::Map(op) if g.node(id).dtype.is_float() && op.info().is_costly() => return true,
            Op::At(_) if AffineIndex::of(g, g.args(id)[1]).is_none() => return true,
            Op::Map(_) | Op::At(_) => stack.extend(g.args(id)),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::Reduce(..) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
    }
    false
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

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{DType, text};

    /// Scores of rows and keys with something that depends on both positions, or on their distance.
    fn after(bias: impl FnOnce(&mut Builder, NodeId, NodeId) -> NodeId) -> String {
        let mut b = Builder::new("m");
        let [t, s] = [("t", "T"), ("s", "S")].map(|(name, of)| b.axis_id(name, &Dim::symbol(of)));
        let scores = b.input("scores", &[t, s], DType::F32, None);
        let (row, key) = (b.iota(t), b.iota(s));
        let bias = bias(&mut b, row, key);
        let sum = b.map(MapOp::Add, &[scores, bias]).unwrap();
        let weights = b.add(Op::Fused(salient_ir::FusedOp::Softmax, s), &[sum]).unwrap();
        b.output("weights", &[t, s], weights).unwrap();
        text::print(&distance_tables(&b.finish()).graph)
    }

    fn distance(b: &mut Builder, row: NodeId, key: NodeId) -> NodeId {
        let distance = b.map(MapOp::Sub, &[row, key]).unwrap();
        b.map(MapOp::ToF32, &[distance]).unwrap()
    }

    #[test]
    fn a_costly_function_of_a_distance_has_a_table() {
        let text = after(|b, row, key| {
            let distance = distance(b, row, key);
            b.map(MapOp::Cos, &[distance]).unwrap()
        });
        assert!(text.contains("[distance: S + T]") && text.contains("[s + (T - t)]"), "{text}");
    }

    #[test]
    fn what_is_cheap_or_depends_on_more_has_none() {
        let cheap = after(distance);
        let more = after(|b, row, key| {
            let (distance, row) = (distance(b, row, key), b.map(MapOp::ToF32, &[row]).unwrap());
            let both = b.map(MapOp::Mul, &[distance, row]).unwrap();
            b.map(MapOp::Cos, &[both]).unwrap()
        });
        assert!(!cheap.contains("distance:") && !more.contains("distance:"), "{cheap}{more}");
    }
}
