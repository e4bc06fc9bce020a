//! What depends on a row and a key by their distance alone, computed once for each distance.
//!
//! A bias by the bucket of a distance (Raffel et al., "Exploring the limits of transfer learning", 2020) or a cosine of one (Qin et al.,
//! "cosFormer", 2022) is the same for all pairs that lie so far apart. Scores are made tile by tile, for each batch and head: a
//! transcendental function or a look-up of each pair would be made anew in each of them. There are as many distances as rows and keys
//! together, and what lies at those of one row from all keys is a row of memory.

use super::{Pair, Table, distances};
use crate::graph::index::AffineIndex;
use crate::graph::rewrite::{Rewritten, rewrite};
use salient_ir::{Graph, NodeId, Op};
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

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Builder, DType, Dim, MapOp, text};

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
