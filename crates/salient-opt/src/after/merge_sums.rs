//! Sums over several axes become one: `sum[h](sum[e](y[h, e] * w[h, e, d]))` is a product over a single axis.
//!
//! After extraction, where it is known which inner sums nobody else reads. The axes are joined in the order in which a factor lies
//! in an output, or else of the graph's axes, whatever the order of the sums.

use crate::after::scores::Scores;
use crate::graph::index::{parts_of, positions};
use crate::graph::rewrite::{Rewritten, rewrite};
use salient_ir::{AxisId, Builder, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::BTreeSet;

/// The same graph with each sum of a sum of products over one axis of as many positions.
pub(crate) fn merge_sums(g: &Graph) -> Rewritten {
    let scores = Scores::new(g);
    let is_apart = |(axes, product): &(Vec<AxisId>, NodeId)| !is_of_scores(g, &scores, axes, *product);
    let chains: Vec<Option<(Vec<AxisId>, NodeId)>> =
        g.ids().map(|id| chain(g, id).filter(is_apart)).collect();
    rewrite(g, |b, new, id| {
        let (axes, product) = chains[id.index()].as_ref()?;
        let factors: Vec<NodeId> = g.args(*product).iter().map(|a| new[a.index()]).collect();
        Some(merged(b, axes, &factors))
    })
}

/// The axes over which a node sums a product in several steps, by id, and the product.
fn chain(g: &Graph, id: NodeId) -> Option<(Vec<AxisId>, NodeId)> {
    let mut axes = Vec::new();
    let mut at = id;
    while let Op::Reduce(ReduceOp::Sum, axis) = *g.op(at) {
        if at != id && !g.has_one_reader(at) {
            return None;
        }
        axes.push(axis);
        at = g.args(at)[0];
    }
    axes.sort_unstable();
    if let Some(order) = g.args(at).iter().find_map(|factor| g.order_in_output(*factor)) {
        axes.sort_by_key(|axis| order.iter().position(|other| other == axis));
    }
    // What is the same along an axis is no product over it: it would be added anew for every position of the others.
    let is_product =
        matches!(g.op(at), Op::Map(MapOp::Mul)) && axes.iter().all(|a| g.node(at).axes.contains(*a));
    (axes.len() > 1 && is_product).then_some((axes, at))
}

/// Whether a factor of the product is an expression of scores along one of the axes: these are made for one head after the other,
/// and not stored for a product over all of them. A product itself is stored by its kernel.
fn is_of_scores(g: &Graph, scores: &Scores<'_>, axes: &[AxisId], product: NodeId) -> bool {
    let is_expression = |id: &NodeId| matches!(g.op(*id), Op::Map(_) | Op::Fused(..));
    let (mut seen, mut stack) =
        (BTreeSet::new(), g.args(product).iter().copied().filter(is_expression).collect::<Vec<NodeId>>());
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        let is_weight = matches!(g.op(id), Op::Fused(op, _) if !op.info().reduces);
        if is_weight || matches!(g.op(id), Op::Map(_)) {
            stack.extend(g.args(id));
            continue;
        }
        if axes.iter().any(|key| scores.inside(id, *key).contains(&id)) {
            return true;
        }
    }
    false
}

/// The sum over one axis of the product of the factors, each read at the positions along the merged axes.
fn merged(b: &mut Builder, axes: &[AxisId], factors: &[NodeId]) -> NodeId {
    let names: Vec<&str> = axes.iter().map(|a| &*b.axis(*a).name).collect();
    let mut name = names.join("_").replace('.', "_");
    let total = positions(b, axes);
    while b.axes().any(|(_, a)| *a.name == *name && a.extent != total) {
        name.push('_');
    }
    let one = b.axis_id(&name, &total);
    let with = parts_of(b, one, axes);
    let factors: Vec<NodeId> =
        factors.iter().map(|f| b.at_all(*f, &with).expect("an index is an integer")).collect();
    let product = b.map(MapOp::Mul, &factors).expect("as before");
    b.reduce(ReduceOp::Sum, one, product).expect("as before")
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{DType, Dim};

    /// `sum[h](sum[e](x[t] * y))` where the product has the given axes beside `t`.
    fn sums(axes: &[&str]) -> usize {
        let mut b = Builder::new("m");
        let t = b.axis_id("t", &Dim::symbol("T"));
        let [h, e] = ["H", "E"].map(|d| b.axis_id(&d.to_lowercase(), &Dim::symbol(d)));
        let own: Vec<AxisId> = [h, e].into_iter().filter(|a| axes.contains(&&*b.axis(*a).name)).collect();
        let x = b.input("x", &[&[t], own.as_slice()].concat(), DType::F32, None);
        let y = b.input("y", &own, DType::F32, None);
        let product = b.map(MapOp::Mul, &[x, y]).unwrap();
        let inner = b.reduce(ReduceOp::Sum, e, product).unwrap();
        let outer = b.reduce(ReduceOp::Sum, h, inner).unwrap();
        b.output("y", &[t], outer).unwrap();
        let merged = merge_sums(&b.finish()).graph;
        merged.ids().filter(|id| matches!(merged.op(*id), Op::Reduce(..))).count()
    }

    #[test]
    fn only_sums_of_products_over_their_axes_are_merged() {
        assert_eq!(sums(&["h", "e"]), 1);
        // The sum over one axis is a multiple of the other's: one sum would have H E terms for H and E.
        assert_eq!(sums(&["h"]), 2);
        assert_eq!(sums(&[]), 2);
    }
}
