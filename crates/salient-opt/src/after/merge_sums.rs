//! Sums over several axes become one: `sum[h](sum[e](y[h, e] * w[h, e, d]))` is a product over a single axis.
//!
//! After extraction, where it is known which inner sums nobody else reads. A constant that waits outside of the inner sum, as of
//! `sum[h](0.5 * sum[e](..))`, waits outside of both. The axes are joined in the order in which a factor lies
//! in an output, or else of the graph's axes, whatever the order of the sums.

use crate::after::scores::Scores;
use crate::graph::index::{parts_of, positions};
use crate::graph::rewrite::{Rewritten, rewrite};
use salient_ir::{AxisId, Builder, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::BTreeSet;

/// A sum over several axes in several steps: `sum[h](c * sum[e](x * y))`.
struct Chain {
    /// The axes in the order in which they are joined.
    axes: Vec<AxisId>,
    /// `x * y`.
    product: NodeId,
    /// The constants by which sums on the way are multiplied: they are the same for every term, so that they may wait outside.
    constants: Vec<NodeId>,
}

/// The same graph with each sum of a sum of products over one axis of as many positions.
pub(crate) fn merge_sums(g: &Graph) -> Rewritten {
    let scores = Scores::new(g);
    let is_apart = |chain: &Chain| !is_of_scores(g, &scores, &chain.axes, chain.product);
    let chains: Vec<Option<Chain>> = g.ids().map(|id| chain(g, id).filter(is_apart)).collect();
    rewrite(g, |b, new, id| {
        let Chain { axes, product, constants } = chains[id.index()].as_ref()?;
        let factors: Vec<NodeId> = g.args(*product).iter().map(|a| new[a.index()]).collect();
        let sum = merged(b, axes, &factors);
        let by_constant =
            |sum, c: &NodeId| b.map(MapOp::Mul, &[sum, new[c.index()]]).expect("both are numbers");
        Some(constants.iter().fold(sum, by_constant))
    })
}

/// The steps in which a node sums a product over several axes, if it does.
fn chain(g: &Graph, id: NodeId) -> Option<Chain> {
    let (mut axes, mut constants) = (Vec::new(), Vec::new());
    let mut at = id;
    while let Op::Reduce(ReduceOp::Sum, axis) = *g.op(at) {
        if at != id && !g.has_one_reader(at) {
            return None;
        }
        axes.push(axis);
        at = g.args(at)[0];
        if let Some((sum, by)) = sum_by_constant(g, at).filter(|_| g.has_one_reader(at)) {
            constants.push(by);
            at = sum;
        }
    }
    axes.sort_unstable();
    if let Some(order) = g.args(at).iter().find_map(|factor| g.order_in_output(*factor)) {
        axes.sort_by_key(|axis| order.iter().position(|other| other == axis));
    }
    // What is the same along an axis is no product over it: it would be added anew for every position of the others.
    let is_product =
        matches!(g.op(at), Op::Map(MapOp::Mul)) && axes.iter().all(|a| g.node(at).axes.contains(*a));
    (axes.len() > 1 && is_product).then_some(Chain { axes, product: at, constants })
}

/// The sum and the finite constant of which a node is the product, if it is one.
fn sum_by_constant(g: &Graph, product: NodeId) -> Option<(NodeId, NodeId)> {
    let Op::Map(MapOp::Mul) = g.op(product) else { return None };
    let [a, b] = g.args(product)[..] else { return None };
    let is_sum = |id: NodeId| matches!(g.op(id), Op::Reduce(ReduceOp::Sum, _));
    let is_finite = |id: NodeId| matches!(g.op(id), Op::Const(c) if c.value().is_finite());
    [(a, b), (b, a)].into_iter().find(|(sum, by)| is_sum(*sum) && is_finite(*by))
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
    use salient_ir::{Const, DType, Dim};

    /// How many sums are left of `sum[h](sum[e](x[t] * y))`, where the product has the given axes beside `t`, and the inner sum is
    /// multiplied by `factor`, if there is one.
    fn sums(axes: &[&str], factor: Option<f32>) -> usize {
        let mut b = Builder::new("m");
        let t = b.axis_id("t", &Dim::symbol("T"));
        let [h, e] = ["H", "E"].map(|d| b.axis_id(&d.to_lowercase(), &Dim::symbol(d)));
        let own: Vec<AxisId> = [h, e].into_iter().filter(|a| axes.contains(&&*b.axis(*a).name)).collect();
        let x = b.input("x", &[&[t], own.as_slice()].concat(), DType::F32, None);
        let y = b.input("y", &own, DType::F32, None);
        let product = b.map(MapOp::Mul, &[x, y]).unwrap();
        let mut inner = b.reduce(ReduceOp::Sum, e, product).unwrap();
        if let Some(factor) = factor {
            let factor = b.constant(Const::f32(factor));
            inner = b.map(MapOp::Mul, &[inner, factor]).unwrap();
        }
        let outer = b.reduce(ReduceOp::Sum, h, inner).unwrap();
        b.output("y", &[t], outer).unwrap();
        let merged = merge_sums(&b.finish()).graph;
        merged.ids().filter(|id| matches!(merged.op(*id), Op::Reduce(..))).count()
    }

    #[test]
    fn only_sums_of_products_over_their_axes_are_merged() {
        assert_eq!(sums(&["h", "e"], None), 1);
        // The sum over one axis is a multiple of the other's: one sum would have H E terms for H and E.
        assert_eq!(sums(&["h"], None), 2);
        assert_eq!(sums(&[], None), 2);
    }

    #[test]
    fn a_finite_constant_waits_outside_of_both_sums() {
        assert_eq!(sums(&["h", "e"], Some(0.5)), 1);
        assert_eq!(sums(&["h", "e"], Some(f32::INFINITY)), 2);
        assert_eq!(sums(&["h"], Some(0.5)), 2);
    }
}
