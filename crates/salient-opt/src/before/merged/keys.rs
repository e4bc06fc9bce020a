//! Keys of several axes have one: the pixels of an image or of a window of it, the positions of pages.
//!
//! A source reduces such keys one axis after the other, `sum[y](sum[x](exp(s[i, y, x])))`, and no form of an attention goes over two
//! axes. What is combined over all of them is the same over one axis of as many positions, at which scores are products with the keys
//! at `j / W` and `j % W`: for keys that lie row by row, no other place in memory.

use super::reader::{Reader, new_axis};
use crate::graph::index::{AffineIndex, parts_of, positions};
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, Dim, Graph, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// The same model with one axis for the keys of every combination of scores over several.
pub(crate) fn key_axes(g: &Graph) -> Graph {
    let of_inputs = g.of_inputs();
    let chain = |id: NodeId| Some((id, Chain::of(g, &of_inputs, id)?));
    let chains: BTreeMap<NodeId, Chain> = g.ids().filter_map(chain).collect();
    if chains.is_empty() {
        return g.clone();
    }
    // Whatever is combined over the same axes is combined over one and the same.
    let mut orders: BTreeMap<BTreeSet<AxisId>, Vec<AxisId>> = BTreeMap::new();
    for chain in chains.values() {
        orders.entry(chain.axes.iter().copied().collect()).or_insert_with(|| chain.in_order(g));
    }
    let mut made: BTreeMap<&[AxisId], AxisId> = BTreeMap::new();
    let rewritten = rewrite(g, |b, new, id| {
        let chain = chains.get(&id)?;
        let order: &[AxisId] = &orders[&chain.axes.iter().copied().collect()];
        let axis = *made.entry(order).or_insert_with(|| new_axis(b, "key", &positions(g, order)));
        let with = parts_of(b, axis, order);
        let merged = Reader::new(g, new, |at| chain.scores.contains(&at)).read(b, chain.combined, &with)?;
        b.reduce(chain.op, axis, merged).ok()
    });
    rewritten.graph
}

/// A combination over several axes, one after the other.
struct Chain {
    op: ReduceOp,
    /// The outermost first.
    axes: Vec<AxisId>,
    combined: NodeId,
    /// Scores, and what is computed of them element by element.
    scores: BTreeSet<NodeId>,
}

impl Chain {
    /// None if what is combined is not made of scores along all of the axes, or of something that is combined over some of them.
    fn of(g: &Graph, of_inputs: &[bool], id: NodeId) -> Option<Chain> {
        let Op::Reduce(op, _) = *g.op(id) else { return None };
        let (mut axes, mut at) = (Vec::new(), id);
        while let Op::Reduce(other, axis) = *g.op(at) {
            if other != op || at != id && !g.has_one_reader(at) {
                break;
            }
            axes.push(axis);
            at = g.args(at)[0];
        }
        if axes.len() < 2 || op == ReduceOp::ArgMax {
            return None;
        }
        let scores = scores(g, of_inputs, at, &axes)?;
        let summed = Summed { axes: axes.clone(), left: g.node(id).axes.iter().collect() };
        (!summed.is_over_a_batch(g, at)).then_some(Chain { op, axes, combined: at, scores })
    }

    /// The axes in the order in which what is read lies along them, the outermost first; as they are combined, where nothing says it.
    fn in_order(&self, g: &Graph) -> Vec<AxisId> {
        let (mut seen, mut stack) = (BTreeSet::new(), vec![self.combined]);
        let mut found = Vec::new();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) || !self.axes.iter().any(|axis| g.node(id).axes.contains(*axis)) {
                continue;
            }
            found.extend(self.order_of(g, id));
            stack.extend(g.args(id));
        }
        found
            .into_iter()
            .max_by_key(Vec::len)
            .filter(|order| order.len() == self.axes.len())
            .unwrap_or_else(|| self.axes.clone())
    }

    /// The order of those of the axes along which a view or a port says it.
    fn order_of(&self, g: &Graph, id: NodeId) -> Option<Vec<AxisId>> {
        if let Op::At(_) = g.op(id) {
            // An index that counts all of them: `y * W + x`.
            let place = AffineIndex::of(g, g.args(id)[1])?;
            let mut rest: Vec<AxisId> =
                place.terms.keys().copied().filter(|axis| self.axes.contains(axis)).collect();
            let mut order = Vec::new();
            let mut span = Dim::constant(1);
            while let Some(at) = rest.iter().position(|axis| place.terms[axis] == span) {
                let axis = rest.remove(at);
                span = &span * g.extent(axis);
                order.insert(0, axis);
            }
            if rest.is_empty() && order.len() == self.axes.len() {
                return Some(order);
            }
        }
        // The axes of a port, each under the name that it is read by.
        let (mut at, mut names) = (id, BTreeMap::new());
        while let Op::At(axis) = *g.op(at) {
            if let Op::Iota(other) = *g.op(g.args(at)[1]) {
                let name = *names.get(&other).unwrap_or(&other);
                names.insert(axis, name);
            }
            at = g.args(at)[0];
        }
        let port = g.port(at)?;
        let named = port.axes.iter().map(|axis| *names.get(axis).unwrap_or(axis));
        Some(named.filter(|axis| self.axes.contains(axis)).collect())
    }
}

/// The scores of which something is made element by element, and what is made of them along all of the axes: sums of products of
/// which one factor does not vary along the axes but along rows, as a query does.
fn scores(g: &Graph, of_inputs: &[bool], combined: NodeId, axes: &[AxisId]) -> Option<BTreeSet<NodeId>> {
    let along = |id: NodeId| axes.iter().filter(|axis| g.node(id).axes.contains(**axis)).count();
    let (mut seen, mut stack) = (BTreeSet::new(), vec![(combined, false)]);
    let (mut through, mut has_scores) = (BTreeSet::new(), false);
    while let Some((id, is_operand)) = stack.pop() {
        if along(id) == 0 || !seen.insert(id) {
            continue;
        }
        let is_along_all = along(id) == axes.len();
        match *g.op(id) {
            // Something is combined over some of the axes alone: they are keys of more than one kind.
            Op::Reduce(_, axis) | Op::CumSum(_, axis) if axes.contains(&axis) => return None,
            Op::Map(_) | Op::At(_) => {
                through.extend(is_along_all.then_some(id));
                stack.extend(g.args(id).into_iter().map(|arg| (arg, is_operand)));
            }
            // What keys are made of is read where it is.
            Op::Reduce(ReduceOp::Sum, _) if is_along_all && !is_operand => {
                let Some((a, c, _)) = g.sum_of_products(id) else { continue };
                // Queries have rows, along which the keys are the same.
                let has_rows = |query: NodeId, keys: NodeId| {
                    g.node(query).axes.iter().any(|axis| !g.node(keys).axes.contains(axis))
                };
                let is_query = |query: NodeId, keys: NodeId| {
                    along(query) == 0 && of_inputs[query.index()] && has_rows(query, keys)
                };
                if is_query(a, c) || is_query(c, a) {
                    has_scores = true;
                    through.insert(id);
                    stack.push((g.args(id)[0], true));
                }
            }
            Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) | Op::Concat(..) => {}
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
        }
    }
    has_scores.then_some(through)
}

/// The axes of a sum over several, and those that are left of what is summed, each by what it is called below the views that rename it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Summed {
    axes: Vec<AxisId>,
    left: Vec<AxisId>,
}

impl Summed {
    /// Whether what is summed is made of the scores of a batch, over which and over whose rows a gradient sums: where the factors of a
    /// product both vary along some of the axes, and not along the same, as queries and keys do along the heads and the rows; or where
    /// the scores are reduced along an axis that is left, as along keys that all heads share. The sum over the rows comes of the kernel that
    /// makes the scores of a head.
    fn is_over_a_batch(&self, g: &Graph, root: NodeId) -> bool {
        let mut stack: Vec<(NodeId, Summed)> = vec![(root, self.clone())];
        let mut seen = BTreeSet::new();
        while let Some((id, of)) = stack.pop() {
            if !seen.insert((id, of.clone())) {
                continue;
            }
            let along = |id: NodeId| -> Vec<AxisId> {
                of.axes.iter().copied().filter(|axis| g.node(id).axes.contains(*axis)).collect()
            };
            match *g.op(id) {
                Op::Map(_) => stack.extend(g.args(id).into_iter().map(|arg| (arg, of.clone()))),
                Op::At(axis) => stack.push((g.args(id)[0], of.below(g, axis, g.args(id)[1]))),
                Op::Reduce(_, over) => {
                    let is_of_batch = match g.sum_of_products(id) {
                        Some((a, c, _)) => {
                            let [a, c] = [a, c].map(along);
                            !a.is_empty() && !c.is_empty() && a != c
                        }
                        None => of.left.contains(&over) && !along(id).is_empty(),
                    };
                    if is_of_batch {
                        return true;
                    }
                }
                Op::CumSum(..) | Op::Fused(..) | Op::Concat(..) => {}
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            }
        }
        false
    }

    /// The same below a view that reads an axis at an index.
    fn below(&self, g: &Graph, axis: AxisId, index: NodeId) -> Summed {
        let below = |names: &[AxisId]| {
            let others = names.iter().filter(|name| **name != axis);
            others.map(|name| if *g.op(index) == Op::Iota(*name) { axis } else { *name }).collect()
        };
        Summed { axes: below(&self.axes), left: below(&self.left) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Builder, DType, MapOp};

    /// How many axes `sum[y](sum[x](exp(s[y, x])))` is summed over, where `s` is a product with keys, of rows of queries or of one query for
    /// all keys.
    fn axes_of_keys(has_rows: bool) -> usize {
        let mut b = Builder::new("m");
        let [i, y, x, e] = ["I", "Y", "X", "E"].map(|d| b.axis_id(&d.to_lowercase(), &Dim::symbol(d)));
        let rows: &[AxisId] = if has_rows { &[i] } else { &[] };
        let q = b.input("q", &[rows, &[e]].concat(), DType::F32, None);
        let k = b.input("k", &[y, x, e], DType::F32, None);
        let product = b.map(MapOp::Mul, &[q, k]).unwrap();
        let score = b.reduce(ReduceOp::Sum, e, product).unwrap();
        let weight = b.map(MapOp::Exp, &[score]).unwrap();
        let row = b.reduce(ReduceOp::Sum, x, weight).unwrap();
        let all = b.reduce(ReduceOp::Sum, y, row).unwrap();
        b.output("sum", rows, all).unwrap();
        let after = key_axes(&b.finish());
        after.ids().filter(|id| matches!(after.op(*id), Op::Reduce(..))).count() - 1
    }

    #[test]
    fn keys_of_several_axes_have_one_where_rows_meet_them() {
        assert_eq!((axes_of_keys(true), axes_of_keys(false)), (1, 2));
    }

    /// A sum over a batch and its rows of scores by content and by a position, the scores read under another name of the rows if they are
    /// `renamed`.
    fn sum_over_a_batch(renamed: bool) -> Graph {
        let mut b = Builder::new("m");
        let [n, i, j, d, e] =
            ["N", "I", "J", "D", "E"].map(|of| b.axis_id(&of.to_lowercase(), &Dim::symbol(of)));
        let q = b.input("q", &[n, i, e], DType::F32, None);
        let k = b.input("k", &[n, j, e], DType::F32, None);
        let r = b.input("r", &[d, e], DType::F32, None);
        let mut dot = |x: NodeId, y: NodeId| {
            let product = b.map(MapOp::Mul, &[x, y]).unwrap();
            b.reduce(ReduceOp::Sum, e, product).unwrap()
        };
        let (content, position) = (dot(q, k), dot(q, r));
        let weight = b.map(MapOp::Add, &[content, position]).unwrap();
        let (weight, rows) = if renamed {
            let t = b.axis_id("t", &Dim::symbol("I"));
            let row = b.iota(t);
            (b.at(weight, i, row).unwrap(), t)
        } else {
            (weight, i)
        };
        let rows = b.reduce(ReduceOp::Sum, rows, weight).unwrap();
        let all = b.reduce(ReduceOp::Sum, n, rows).unwrap();
        b.output("sum", &[j, d], all).unwrap();
        b.finish()
    }

    #[test]
    fn a_batch_and_its_rows_are_no_keys() {
        for g in [false, true].map(sum_over_a_batch) {
            assert_eq!(salient_ir::text::print(&key_axes(&g)), salient_ir::text::print(&g));
        }
    }

    /// What each key receives of all rows of all heads, which share it, of exponentials or of these divided by the sum of their row.
    fn received_of_heads(is_divided: bool) -> Graph {
        let mut b = Builder::new("m");
        let [h, i, j, e] = ["H", "I", "J", "E"].map(|of| b.axis_id(&of.to_lowercase(), &Dim::symbol(of)));
        let q = b.input("q", &[h, i, e], DType::F32, None);
        let k = b.input("k", &[j, e], DType::F32, None);
        let product = b.map(MapOp::Mul, &[q, k]).unwrap();
        let score = b.reduce(ReduceOp::Sum, e, product).unwrap();
        let mut weight = b.map(MapOp::Exp, &[score]).unwrap();
        if is_divided {
            let of_row = b.reduce(ReduceOp::Sum, j, weight).unwrap();
            weight = b.map(MapOp::Div, &[weight, of_row]).unwrap();
        }
        let rows = b.reduce(ReduceOp::Sum, i, weight).unwrap();
        let all = b.reduce(ReduceOp::Sum, h, rows).unwrap();
        b.output("sum", &[j], all).unwrap();
        b.finish()
    }

    #[test]
    fn rows_of_heads_are_no_keys_where_their_weights_are_of_all_keys() {
        let sums = |g: &Graph| g.ids().filter(|id| matches!(g.op(*id), Op::Reduce(..))).count();
        let [plain, divided] = [false, true].map(received_of_heads);
        assert_eq!((sums(&key_axes(&plain)), sums(&key_axes(&divided))), (2, 4));
    }
}
