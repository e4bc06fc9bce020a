//! Heads have one axis of their own, whatever the source made of it: two axes that are read as the parts of one are that
//! one, and a sum that reads its heads out of a longer axis is one sum for each head.
//!
//! Which of the two is the normal form, the scores decide: queries by group and by head within it have scores for each
//! pair, so the pair is the head; in `sum[j](w[d / E, j] * v[j, d])` the scores know `d / E` alone, so that is the head and
//! the rest a feature. A local pass before the e-graph, whose rules do not make up axes. What is not a softmax's is left
//! alone.

use super::reader::{Reader, Subst, new_axis};
use crate::graph::index::AffineIndex;
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, Builder, Class, Dim, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// The same model with one axis for the heads of every attention.
pub(crate) fn heads(g: &Graph) -> Graph {
    let merges: BTreeMap<NodeId, Merge> = g.ids().filter_map(|id| Some((id, merge(g, id)?))).collect();
    let splits: BTreeMap<NodeId, Split> = g.ids().filter_map(|id| Some((id, split(g, id)?))).collect();
    if merges.is_empty() && splits.is_empty() {
        return g.clone();
    }
    let rewritten = rewrite(g, |b, new, id| match (merges.get(&id), splits.get(&id)) {
        (Some(merge), _) => merge.apply(g, b, new),
        (None, Some(split)) => split.apply(g, b, new, id),
        (None, None) => None,
    });
    rewritten.graph
}

/// A value of which two axes are read as the quotient and the remainder of one index.
struct Merge {
    value: NodeId,
    /// Each of the two axes with the index that it is read at.
    parts: [(AxisId, NodeId); 2],
}

/// Reads of two axes, one after the other, as parts of one that has scores of its own.
fn merge(g: &Graph, id: NodeId) -> Option<Merge> {
    let read = |id: NodeId| {
        let Op::At(axis) = g.op(id) else { return None };
        Some((*axis, g.args(id)[0], g.args(id)[1]))
    };
    let (outer, inside, index) = read(id)?;
    let (inner, value, other) = read(inside)?;
    let parts = [(inner, other), (outer, index)];
    let of = |op: MapOp| parts.iter().find_map(|(axis, index)| Some((*axis, part_of(g, op, *index)?)));
    let ((_, quotient), (rest, remainder)) = (of(MapOp::IntDiv)?, of(MapOp::Mod)?);
    let whole = quotient == remainder && g.extent(rest) == &quotient.1;
    let first = if rest == inner { outer } else { inner };
    let is_heads = whole && has_scores(g, value, &[inner, outer]) && !are_rows(g, value, first, rest);
    is_heads.then_some(Merge { value, parts })
}

/// Whether the positions along two axes are rows, and not heads: keys and values are of the first axis, and the second is the only one
/// along which several rows meet them. The rows of a window or a chunk are such, and keys of each row would be left of them.
fn are_rows(g: &Graph, value: NodeId, first: AxisId, second: AxisId) -> bool {
    let along = |id: NodeId, axis: AxisId| g.node(id).axes.contains(axis);
    let (mut seen, mut stack) = (BTreeSet::new(), vec![value]);
    while let Some(id) = stack.pop() {
        if !along(id, second) || !seen.insert(id) {
            continue;
        }
        if let Some((a, c, _)) = g.sum_of_products(id) {
            let is_met_by_one_axis = |rows: NodeId, keys: NodeId| {
                let of_rows = g.node(rows).axes.iter().filter(|axis| !along(keys, *axis));
                along(keys, first) && of_rows.eq([second])
            };
            if is_met_by_one_axis(a, c) || is_met_by_one_axis(c, a) {
                return true;
            }
        }
        stack.extend(g.args(id));
    }
    false
}

/// The axis and the divisor of which an index is the quotient or the remainder.
fn part_of(g: &Graph, op: MapOp, index: NodeId) -> Option<(AxisId, Dim)> {
    if g.op(index) != &Op::Map(op) {
        return None;
    }
    let args = g.args(index);
    let by = AffineIndex::of(g, args[1]).filter(|by| by.terms.is_empty())?;
    let place = AffineIndex::of(g, args[0])?;
    let mut terms = place.terms.iter();
    let (axis, times) = terms.next()?;
    let alone = terms.next().is_none() && times.as_constant() == Some(1);
    (alone && place.offset.as_constant() == Some(0)).then_some((*axis, by.offset))
}

impl Merge {
    fn apply(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        let with: Subst = self.parts.iter().map(|(axis, index)| (*axis, new[index.index()])).collect();
        // What depends on one of the two alone, as keys that heads share, is computed as before and read.
        let mut reader = Reader::new(g, new, |_| true);
        reader.read(b, self.value, &with)
    }
}

/// A sum in which weights are read by the quotient of an axis.
struct Split {
    /// The axis, and those of its quotient and of its remainder.
    axis: AxisId,
    head: AxisId,
    within: Dim,
}

/// A sum over keys whose weights are for each of so many parts of an axis on which the sum depends.
fn split(g: &Graph, id: NodeId) -> Option<Split> {
    let Op::Reduce(ReduceOp::Sum, key) = *g.op(id) else { return None };
    let mut stack = g.args(id).to_vec();
    let mut seen = BTreeSet::new();
    while let Some(at) = stack.pop() {
        if !seen.insert(at) {
            continue;
        }
        let args = g.args(at);
        if g.op(at).class() == Class::Map {
            stack.extend(args);
        } else if let Op::At(head) = g.op(at) {
            let Some((axis, within)) = part_of(g, MapOp::IntDiv, args[1]) else { continue };
            let whole = &(g.extent(*head) * &within) == g.extent(axis) && axis != key;
            if whole && has_scores(g, args[0], &[*head]) && !has_scores(g, g.args(id)[0], &[axis]) {
                return Some(Split { axis, head: *head, within });
            }
        }
    }
    None
}

impl Split {
    fn apply(&self, g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
        let head = new_axis(b, "head", g.extent(self.head));
        let feature = new_axis(b, "feature", &self.within);
        let by = b.extent_of(&self.within);
        let (at_head, at_feature, whole) = (b.iota(head), b.iota(feature), b.iota(self.axis));
        let from = b.map(MapOp::Mul, &[at_head, by]).expect("integers");
        let index = b.map(MapOp::Add, &[from, at_feature]).expect("integers");
        // Other reductions are computed as before and read: each is a value of its own.
        let through = |at: NodeId| at == id || !matches!(g.op(at), Op::Reduce(..) | Op::Fused(..));
        let mut reader = Reader::new(g, new, through);
        let one = reader.read(b, id, &vec![(self.axis, index)])?;
        let quotient = b.map(MapOp::IntDiv, &[whole, by]).expect("integers");
        let remainder = b.map(MapOp::Mod, &[whole, by]).expect("integers");
        b.at_all(one, &[(head, quotient), (feature, remainder)]).ok()
    }
}

/// Whether a value holds the denominator of a softmax for each position along all of these axes.
fn has_scores(g: &Graph, id: NodeId, axes: &[AxisId]) -> bool {
    let mut seen = BTreeSet::new();
    let mut stack = vec![(id, axes.to_vec())];
    while let Some((id, axes)) = stack.pop() {
        let along = |id: NodeId| axes.iter().all(|a| g.node(id).axes.contains(*a));
        if !along(id) || !seen.insert((id, axes.clone())) {
            continue;
        }
        let args = g.args(id);
        match g.op(id) {
            Op::Reduce(ReduceOp::Sum, _) if is_exponential(g, args[0], &axes) => return true,
            Op::Fused(FusedOp::Norm, _) => stack.push((args[0], axes)),
            Op::Fused(..) if along(args[0]) => return true,
            // A rename: the axes by the names that they have inside.
            Op::At(from) => {
                let to = if let Op::Iota(to) = g.op(args[1]) { Some(*to) } else { None };
                if !axes.contains(from) || to == Some(*from) {
                    let inside = axes.iter().map(|a| if to == Some(*a) { *from } else { *a }).collect();
                    stack.push((args[0], inside));
                }
            }
            Op::Map(_) | Op::Reduce(..) | Op::Fused(..) => {
                stack.extend(args.iter().map(|arg| (*arg, axes.clone())))
            }
            Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Iota(_)
            | Op::Extent(_)
            | Op::Concat(..)
            | Op::CumSum(..) => {}
        }
    }
    false
}

/// An exponential along all of these axes, perhaps under a mask or renamed: where values are summed under exponentials, some of
/// the axes are those of the values.
fn is_exponential(g: &Graph, id: NodeId, axes: &[AxisId]) -> bool {
    let along = |id: NodeId| axes.iter().all(|a| g.node(id).axes.contains(*a));
    let (mut seen, mut stack) = (BTreeSet::new(), vec![(id, true)]);
    while let Some((id, by_name)) = stack.pop() {
        if by_name && !along(id) || !seen.insert(id) {
            continue;
        }
        let args = g.args(id);
        let op = g.op(id);
        if *op == Op::Map(MapOp::Exp) {
            return true;
        } else if *op == Op::Map(MapOp::Select) {
            stack.extend(args[1..].iter().map(|arg| (*arg, by_name)));
        } else if *op == Op::Map(MapOp::Mul) {
            stack.extend(args.iter().map(|arg| (*arg, by_name)));
        } else if op.class() == Class::View {
            stack.push((args[0], false));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::DType;

    /// `sum[j](weights(h, j) * v[j, f])`, by group and by member, and read as one axis of heads; the scores know the group
    /// alone or both.
    fn read_as_one(scores_know_both: bool) -> Graph {
        let mut b = Builder::new("m");
        let two = Dim::constant(2);
        let [group, member] = ["group", "member"].map(|name| b.axis_id(name, &two));
        let (head, key) = (b.axis_id("head", &Dim::constant(4)), b.axis_id("key", &Dim::symbol("T")));
        let scored: &[AxisId] = if scores_know_both { &[group, member, key] } else { &[group, key] };
        let s = b.input("s", scored, DType::F32, None);
        let v = b.input("v", &[key, group, member], DType::F32, None);
        let e = b.map(MapOp::Exp, &[s]).unwrap();
        let z = b.reduce(ReduceOp::Sum, key, e).unwrap();
        let w = b.map(MapOp::Div, &[e, z]).unwrap();
        let product = b.map(MapOp::Mul, &[w, v]).unwrap();
        let y = b.reduce(ReduceOp::Sum, key, product).unwrap();
        let (h, by) = (b.iota(head), b.constant(salient_ir::Const::I64(2)));
        let (quotient, rest) =
            (b.map(MapOp::IntDiv, &[h, by]).unwrap(), b.map(MapOp::Mod, &[h, by]).unwrap());
        let y = b.at_all(y, &[(group, quotient), (member, rest)]).unwrap();
        b.output("y", &[head], y).unwrap();
        b.finish()
    }

    /// `sum[j](exp(s) * v) / sum[j](exp(s))` by head and feature, read as one axis.
    fn deferred() -> Graph {
        let mut b = Builder::new("m");
        let two = Dim::constant(2);
        let [head, feature] = ["head", "feature"].map(|name| b.axis_id(name, &two));
        let (both, key) = (b.axis_id("both", &Dim::constant(4)), b.axis_id("key", &Dim::symbol("T")));
        let s = b.input("s", &[head, key], DType::F32, None);
        let v = b.input("v", &[key, head, feature], DType::F32, None);
        let e = b.map(MapOp::Exp, &[s]).unwrap();
        let z = b.reduce(ReduceOp::Sum, key, e).unwrap();
        let product = b.map(MapOp::Mul, &[e, v]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, key, product).unwrap();
        let y = b.map(MapOp::Div, &[sum, z]).unwrap();
        let (at, by) = (b.iota(both), b.constant(salient_ir::Const::I64(2)));
        let [quotient, rest] = [MapOp::IntDiv, MapOp::Mod].map(|op| b.map(op, &[at, by]).unwrap());
        let y = b.at_all(y, &[(head, quotient), (feature, rest)]).unwrap();
        b.output("y", &[both], y).unwrap();
        b.finish()
    }

    #[test]
    fn values_summed_under_exponentials_are_no_scores() {
        assert_eq!(salient_ir::text::print(&heads(&deferred())), salient_ir::text::print(&deferred()));
    }

    /// Attention within windows of two positions: `weights(window, row) @ v(window)`, read as one axis of positions.
    fn windows() -> Graph {
        let mut b = Builder::new("m");
        let two = Dim::constant(2);
        let [window, row, key] = ["window", "row", "key"].map(|name| b.axis_id(name, &two));
        let [both, f] = ["both", "f"].map(|name| b.axis_id(name, &Dim::constant(4)));
        let s = b.input("s", &[window, row, key], DType::F32, None);
        let v = b.input("v", &[window, key, f], DType::F32, None);
        let e = b.map(MapOp::Exp, &[s]).unwrap();
        let z = b.reduce(ReduceOp::Sum, key, e).unwrap();
        let w = b.map(MapOp::Div, &[e, z]).unwrap();
        let product = b.map(MapOp::Mul, &[w, v]).unwrap();
        let y = b.reduce(ReduceOp::Sum, key, product).unwrap();
        let (at, by) = (b.iota(both), b.constant(salient_ir::Const::I64(2)));
        let [quotient, rest] = [MapOp::IntDiv, MapOp::Mod].map(|op| b.map(op, &[at, by]).unwrap());
        let y = b.at_all(y, &[(window, quotient), (row, rest)]).unwrap();
        b.output("y", &[both, f], y).unwrap();
        b.finish()
    }

    #[test]
    fn the_rows_of_a_window_are_no_heads() {
        assert_eq!(salient_ir::text::print(&heads(&windows())), salient_ir::text::print(&windows()));
    }

    /// The number of axes along which the outermost sum is computed.
    fn axes_of_the_sum(g: &Graph) -> usize {
        let mut sums = g.ids().filter(|id| matches!(g.op(*id), Op::Reduce(..)));
        g.node(sums.next_back().expect("there is one")).axes.len()
    }

    #[test]
    fn two_axes_with_scores_for_each_pair_are_one() {
        assert_eq!(axes_of_the_sum(&heads(&read_as_one(true))), 1);
    }

    #[test]
    fn features_are_not_merged_with_the_heads_that_they_are_of() {
        assert_eq!(axes_of_the_sum(&heads(&read_as_one(false))), 2);
    }
}
