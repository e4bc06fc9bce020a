//! Several values under the same weights: one sum over all of them side by side, for which the weights are computed once.
//!
//! A mean and a variance under one softmax are such, and what several modules read of the same attention.

use crate::after::scores::Scores;
use crate::graph::index::AffineIndex;
use crate::graph::rewrite::{Rewritten, axis_named, copy, rewrite_in_order};
use salient_ir::{AxisId, AxisSet, Builder, Dim, Graph, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Rows from which on the values are worth being copied side by side.
const FEW: i64 = 16;

/// The same graph with one sum for all values that have the same weights.
pub(crate) fn values_together(g: &Graph) -> Rewritten {
    let groups = groups(g);
    if groups.is_empty() {
        return Rewritten::unchanged(g);
    }
    let mut made: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    rewrite_in_order(g, |b, new, id| {
        if let Some(group) = groups.iter().find(|group| group[0].node == id) {
            made.extend(together(g, b, new, group)?);
        }
        made.get(&id).copied()
    })
}

/// A sum of values under weights.
struct Sum {
    node: NodeId,
    value: NodeId,
    /// The one axis of the value that the weights do not have.
    column: AxisId,
}

/// What sums have in common that are made together: the operator, its arguments but for the values, and the axes of those but for
/// their columns.
type Weights = (Op, Vec<NodeId>, AxisSet);

impl Sum {
    /// A sum under weights that are made of products of queries and keys, of many rows, as far as that is known: few rows read
    /// each value where it lies.
    fn of(g: &Graph, scores: &Scores<'_>, node: NodeId) -> Option<(Weights, Sum)> {
        let Op::Fused(op, key) = *g.op(node) else { return None };
        let mut args = g.args(node);
        if !op.info().has_values() || scores.inside(args[0], key).is_empty() {
            return None;
        }
        let value = args.remove(1);
        let of_weights = args.iter().fold(AxisSet::new(), |axes, arg| axes.union(&g.node(*arg).axes));
        let of_value = &g.node(value).axes;
        let (shared, own): (Vec<AxisId>, Vec<AxisId>) =
            of_value.iter().partition(|axis| of_weights.contains(*axis));
        let is_row = |axis: &AxisId| *axis != key && !of_value.contains(*axis);
        let is_many = |axis: AxisId| g.extent(axis).as_constant().is_none_or(|n| n >= FEW);
        let has_rows = g.node(args[0]).axes.iter().filter(is_row).any(is_many);
        match own[..] {
            [column] if has_rows => Some((
                (g.op(node).clone(), args.to_vec(), shared.into_iter().collect()),
                Sum { node, value, column },
            )),
            _ => None,
        }
    }
}

/// The sums that are made together, in the order of the graph. No value of a group is computed from another sum of it, nor from
/// one of another group that comes after its first.
fn groups(g: &Graph) -> Vec<Vec<Sum>> {
    let scores = Scores::new(g);
    let mut alike: Vec<(Weights, Vec<Sum>)> = Vec::new();
    for (weights, sum) in g.ids().filter_map(|id| Sum::of(g, &scores, id)) {
        match alike.iter_mut().find(|(known, _)| *known == weights) {
            Some((_, group)) => group.push(sum),
            None => alike.push((weights, vec![sum])),
        }
    }
    alike.retain(|(_, sums)| sums.len() > 1);
    let all: BTreeSet<NodeId> = alike.iter().flat_map(|(_, sums)| sums.iter().map(|sum| sum.node)).collect();
    let joined = |(_, mut sums): (Weights, Vec<Sum>)| {
        let first = sums[0].node;
        sums.retain(|sum| sum.node == first || !reads_one(g, sum.value, first, &all));
        (sums.len() > 1).then_some(sums)
    };
    alike.into_iter().filter_map(joined).collect()
}

/// Whether a value is computed from one of these that is not before the first.
fn reads_one(g: &Graph, value: NodeId, first: NodeId, these: &BTreeSet<NodeId>) -> bool {
    let (mut seen, mut stack) = (BTreeSet::from([value]), vec![value]);
    while let Some(id) = stack.pop() {
        if id >= first && these.contains(&id) {
            return true;
        }
        let later = |arg: &NodeId| *arg >= first;
        stack.extend(g.args(id).into_iter().filter(later).filter(|arg| seen.insert(*arg)));
    }
    false
}

/// What becomes of each sum: its columns of one sum of all values.
fn together(g: &Graph, b: &mut Builder, new: &[NodeId], group: &[Sum]) -> Option<Vec<(NodeId, NodeId)>> {
    let mut later = BTreeMap::new();
    let mut taken: AxisSet = g.axes().map(|(axis, _)| axis).collect();
    let (mut parts, mut values, mut offsets, mut width) =
        (Vec::new(), Vec::new(), Vec::new(), Dim::constant(0));
    for sum in group {
        let part = b.fresh_axis(sum.column, &taken);
        taken = taken.union(&[part].into_iter().collect());
        let value = copied(g, b, new, &mut later, sum.value);
        values.push(b.rename(value, sum.column, part).ok()?);
        parts.push(part);
        offsets.push(width.clone());
        width = &width + g.extent(sum.column);
    }
    let columns = axis_named(g, b, &g.axis(group[0].column).name, &width);
    let values = b.add(Op::Concat(columns, parts.into_iter().collect()), &values).ok()?;
    let first = group[0].node;
    let mut args: Vec<NodeId> = g.args(first).iter().map(|arg| new[arg.index()]).collect();
    args[1] = values;
    let all = b.add(g.op(first).clone(), &args).ok()?;
    let own = |(sum, offset): (&Sum, Dim)| {
        let terms = BTreeMap::from([(sum.column, Dim::constant(1))]);
        let place = AffineIndex { terms, offset }.add_to(b, None);
        Some((sum.node, b.at(all, columns, place).ok()?))
    };
    group.iter().zip(offsets).map(own).collect()
}

/// A node as it is copied, also before its turn.
fn copied(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    later: &mut BTreeMap<NodeId, NodeId>,
    root: NodeId,
) -> NodeId {
    let now = |later: &BTreeMap<NodeId, NodeId>, id: NodeId| new.get(id.index()).or(later.get(&id)).copied();
    let mut stack = vec![root];
    while let Some(id) = stack.last().copied() {
        let missing: Vec<NodeId> = g.args(id).into_iter().filter(|arg| now(later, *arg).is_none()).collect();
        if now(later, id).is_some() || missing.is_empty() {
            stack.pop();
            if now(later, id).is_none() {
                let node = copy(g, b, id, |arg| now(later, arg).expect("none is missing"));
                b.describe(node, g.node(id).name.as_ref(), g.node(id).origin);
                later.insert(id, node);
            }
        } else {
            stack.extend(missing);
        }
    }
    now(later, root).expect("just copied")
}
