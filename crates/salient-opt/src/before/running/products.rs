//! Products over the positions before or behind another one, of factors above zero: `prod[l](if j < l <= i then x[l] else 1)` is the
//! exponential of the sum of their logarithms, of which a running sum can be made.

use super::stretches;
use crate::before::numbers::numbers;
use crate::graph::border::Border;
use crate::graph::factors::args_of;
use crate::graph::rewrite::rewrite;
use crate::graph::views::without_view;
use salient_ir::{Builder, Const, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::BTreeSet;

/// The same model with exponentials of sums in place of the products of which the sums become running ones; none if there are none.
pub(super) fn as_sums(g: &Graph, border: &Border) -> Option<Graph> {
    let mut products: BTreeSet<NodeId> = g.ids().filter(|id| factors(g, *id).is_some()).collect();
    if products.is_empty() {
        return None;
    }
    let with = |products: &BTreeSet<NodeId>| {
        rewrite(g, |b, new, id| products.contains(&id).then(|| exponential_of_sum(g, b, new, id)).flatten())
    };
    let all = with(&products);
    // A logarithm is a number where its factor is above zero. The difference of two running sums is as exact as these are large,
    // which an exponential would show.
    let (found, is_number) = (stretches(&all.graph, border), numbers(&all.graph, border));
    products.retain(|id| {
        let sum = all.moved[id.index()].map(|exp| all.graph.args(exp)[0]);
        let stretch = sum.and_then(|sum| found.get(&sum));
        stretch.is_some_and(|stretch| stretch.has_one_end() && is_number[stretch.terms.index()])
    });
    (!products.is_empty()).then(|| with(&products).graph)
}

/// The condition and the factors of `prod[l](if condition then x[l] else 1)`.
fn factors(g: &Graph, id: NodeId) -> Option<(NodeId, NodeId)> {
    if !g.node(id).dtype.is_float() || !matches!(g.op(id), Op::Reduce(ReduceOp::Prod, _)) {
        return None;
    }
    let args = args_of(g, g.args(id)[0], MapOp::Select)?;
    (*g.op(args[2]) == Op::Const(Const::f32(1.0))).then(|| (args[0], args[1]))
}

/// `exp(sum[l](if condition then log(x[l]) else 0))` in place of such a product. What is read along its axis is read of logarithms.
fn exponential_of_sum(g: &Graph, b: &mut Builder, new: &[NodeId], product: NodeId) -> Option<NodeId> {
    let ((condition, of), along) = (factors(g, product)?, g.op(product).bound()?);
    let log = match without_view(g, b, new, (of, along)) {
        Some((inside, own)) => {
            let (log, at) = (b.map(MapOp::Log, &[inside]).ok()?, b.iota(along));
            b.at(log, own, at).ok()?
        }
        None => b.map(MapOp::Log, &[new[of.index()]]).ok()?,
    };
    let zero = b.constant(Const::f32(0.0));
    let terms = b.map(MapOp::Select, &[new[condition.index()], log, zero]).ok()?;
    let sum = b.reduce(ReduceOp::Sum, along, terms).ok()?;
    b.map(MapOp::Exp, &[sum]).ok()
}
