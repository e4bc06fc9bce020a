//! Sums of products over two axes at once: which of the two is summed first, and which factors wait outside.
//!
//! `sum[h, j](a[g, h] * w[h, i, j] * v[g, j, e])` is a product for every pair of heads; as `sum[j](sum[h](a[g, h] * w[h, i, j]) *
//! v[g, j, e])` it is one for each, of weights that are mixed before. The order with the fewest products is chosen.

use crate::before::numbers::numbers;
use crate::facts::Known;
use crate::graph::border::Border;
use crate::graph::factors::Factors;
use crate::graph::rewrite::rewrite;
use crate::graph::sizes::{nominal_extents, points};
use salient_ir::{AxisId, AxisSet, Builder, Class, DType, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::BTreeMap;

/// The same model with nested sums of products in the cheaper order.
pub(crate) fn nested_sums(g: &Graph, border: &Border) -> Graph {
    let mut found: BTreeMap<NodeId, Nested> = BTreeMap::new();
    let nested = g.ids().filter_map(|id| Some((id, both_sums(g, id)?)));
    let candidates: Vec<(NodeId, ([AxisId; 2], NodeId))> = nested.collect();
    if candidates.is_empty() {
        return g.clone();
    }
    let (extents, is_number) = (nominal_extents(&Known::of(g)), numbers(g, border));
    for (id, (axes, product)) in candidates {
        if let Some(nested) = Nested::cheapest(g, &extents, &is_number, axes, product) {
            found.insert(id, nested);
        }
    }
    if found.is_empty() {
        return g.clone();
    }
    rewrite(g, |b, new, id| found.get(&id)?.build(b, new)).graph
}

/// Whether it is an input or a parameter, perhaps under other names of its axes.
fn is_port(g: &Graph, id: NodeId) -> bool {
    let mut at = id;
    while matches!(g.op(at), Op::At(_)) && matches!(g.op(g.args(at)[1]), Op::Iota(_)) {
        at = g.args(at)[0];
    }
    g.op(at).class() == Class::Port
}

/// The axes of a sum of a sum of a product, and the product.
fn both_sums(g: &Graph, id: NodeId) -> Option<([AxisId; 2], NodeId)> {
    let Op::Reduce(ReduceOp::Sum, outer) = *g.op(id) else { return None };
    let sum = g.args(id)[0];
    let Op::Reduce(ReduceOp::Sum, inner) = *g.op(sum) else { return None };
    let product = g.args(sum)[0];
    let fits = g.has_one_reader(sum)
        && *g.op(product) == Op::Map(MapOp::Mul)
        && g.has_one_reader(product)
        && g.node(product).dtype == DType::F32
        && [outer, inner].iter().all(|axis| g.node(product).axes.contains(*axis));
    fits.then_some(([outer, inner], product))
}

/// A sum of products over two axes, one after the other.
struct Nested {
    /// What is summed first.
    first: AxisId,
    /// The factors that vary along it.
    inside: Vec<NodeId>,
    second: AxisId,
    /// The others: numbers, as the sum may be one of nothing; data are that by the contract.
    outside: Vec<NodeId>,
}

impl Nested {
    /// The order with the fewest products, if those are half as many as without one.
    fn cheapest(
        g: &Graph,
        extents: &[u64],
        is_number: &[bool],
        [outer, inner]: [AxisId; 2],
        product: NodeId,
    ) -> Option<Nested> {
        let is_product = |id: NodeId| *g.op(id) == Op::Map(MapOp::Mul) && g.has_one_reader(id);
        let factors = Factors::of(g, product, &is_product);
        let orders = [(inner, outer), (outer, inner)].into_iter().filter_map(|(first, second)| {
            let varies = |id: &NodeId| g.node(*id).axes.contains(first);
            let (inside, outside): (Vec<NodeId>, Vec<NodeId>) =
                factors.above.iter().partition(|id| varies(id));
            let moves = !inside.is_empty()
                && !outside.is_empty()
                && inside.iter().any(|id| g.node(*id).axes.contains(second))
                && outside.iter().all(|id| is_number[id.index()] || is_port(g, *id));
            moves.then_some(Nested { first, inside, second, outside })
        });
        let (cost, best) =
            orders.map(|order| (order.products(g, extents), order)).min_by_key(|(cost, _)| *cost)?;
        let all = points(extents, &g.node(product).axes);
        (cost.saturating_mul(2) <= all).then_some(best)
    }

    /// How many products are made.
    fn products(&self, g: &Graph, extents: &[u64]) -> u64 {
        let axes = |ids: &[NodeId]| ids.iter().fold(AxisSet::new(), |all, id| all.union(&g.node(*id).axes));
        let inside = axes(&self.inside);
        let sum: AxisSet = inside.iter().filter(|axis| *axis != self.first).collect();
        points(extents, &inside).saturating_add(points(extents, &sum.union(&axes(&self.outside))))
    }

    fn build(&self, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        let product = |b: &mut Builder, of: Option<NodeId>, ids: &[NodeId]| {
            ids.iter().map(|id| new[id.index()]).fold(of, |product, factor| {
                product.map_or(Some(factor), |product| b.map(MapOp::Mul, &[product, factor]).ok())
            })
        };
        let inside = product(b, None, &self.inside)?;
        let sum = b.reduce(ReduceOp::Sum, self.first, inside).ok()?;
        let all = product(b, Some(sum), &self.outside)?;
        b.reduce(ReduceOp::Sum, self.second, all).ok()
    }
}
