//! Products with what an attention makes, summed over its columns, where the same product with each of the values is there anyway:
//! `sum[f](g[i, f] * attend[j](s, v[j, f]))` is `attend[j](s, sum[f](g[i, f] * v[j, f]))`, a mean of those products.
//!
//! So is delta in the gradient of scores (Dao et al., "FlashAttention", 2022, section B.2): the row sum of `dO * O`. Where the
//! result itself is asked for it costs nothing more. Where it is not, an attention would be computed for nothing else; the mean is
//! one more reduction of rows of scores that the gradient has at hand. Where the values are scores themselves, of several heads, no
//! product makes the sums for each of them (`log_sum_exp`), and the mean is the row sum of what is mixed of them, whoever else reads the
//! sums.

use crate::after::scores::Scores;
use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use salient_ir::{AxisId, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// A sum over columns of a factor times what an attention makes.
struct MeanProduct {
    columns: AxisId,
    /// The factors of the products that are there, in their order.
    factors: [NodeId; 2],
    op: FusedOp,
    key: AxisId,
    /// The arguments of the attention: scores, values, and a further score if it has one.
    args: Vec<NodeId>,
}

/// The same graph with such sums as means.
pub(crate) fn mean_products(g: &Graph) -> Rewritten {
    let products = products(g);
    let scores = Scores::new(g);
    let sums = g.ids().filter_map(|id| Some((id, MeanProduct::of(g, (&products, &scores), id)?)));
    let found: BTreeMap<NodeId, MeanProduct> = sums.collect();
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite_in_order(g, |b, new, id| {
        let mean = found.get(&id)?;
        let mut args: Vec<NodeId> = mean.args.iter().map(|arg| new[arg.index()]).collect();
        let product = b.map(MapOp::Mul, &mean.factors.map(|factor| new[factor.index()])).ok()?;
        args[1] = b.reduce(ReduceOp::Sum, mean.columns, product).ok()?;
        b.add(Op::Fused(mean.op, mean.key), &args).ok()
    })
}

/// Two factors that are multiplied and summed over an axis, in any order, with their order.
type Products = BTreeMap<(AxisId, BTreeSet<NodeId>), [NodeId; 2]>;

fn products(g: &Graph) -> Products {
    let of = |(a, c, axis): (NodeId, NodeId, AxisId)| ((axis, BTreeSet::from([a, c])), [a, c]);
    g.ids().filter_map(|id| g.sum_of_products(id)).map(of).collect()
}

impl MeanProduct {
    /// The sum `id`, if it is one and nobody else reads what the attention makes, or a kernel makes it for each row by itself.
    fn of(g: &Graph, (products, scores): (&Products, &Scores<'_>), id: NodeId) -> Option<MeanProduct> {
        let (a, c, columns) = g.sum_of_products(id)?;
        [(a, c), (c, a)].into_iter().find_map(|(factor, attention)| {
            let Op::Fused(op, key) = *g.op(attention) else { return None };
            let args = g.args(attention).to_vec();
            let is_attention = op.info().reduces && op.info().has_values();
            let value = *args.get(1).filter(|_| is_attention)?;
            let has_columns = |arg: NodeId| g.node(arg).axes.contains(columns);
            let are_of_values = args.iter().all(|arg| has_columns(*arg) == (*arg == value));
            let factors = *products.get(&(columns, BTreeSet::from([factor, value])))?;
            let has_one_reader = || g.has_one_reader(attention) || scores.are_of_rows(value, args[0], key);
            let is_read_here = g.has_one_reader(g.args(id)[0]) && has_one_reader();
            let is_one = are_of_values && is_read_here && !g.node(factor).axes.contains(key);
            is_one.then_some(MeanProduct { columns, factors, op, key, args })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Builder, DType, Dim};

    /// How many sums over columns are left of `sum[f](dy * attend(s, v))` beside the products of `dy` and the values.
    fn sums_left(is_returned: bool, has_products: bool) -> usize {
        let mut b = Builder::new("delta");
        let [t, s, f] = ["T", "S", "F"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
        let scores = b.input("x", &[t, s], DType::F32, None);
        let values = b.input("v", &[s, f], DType::F32, None);
        let dy = b.input("dy", &[t, f], DType::F32, None);
        let y = b.add(Op::Fused(FusedOp::Attend, s), &[scores, values]).unwrap();
        let product = b.map(MapOp::Mul, &[dy, y]).unwrap();
        let delta = b.reduce(ReduceOp::Sum, f, product).unwrap();
        b.output("delta", &[t], delta).unwrap();
        if has_products {
            let product = b.map(MapOp::Mul, &[values, dy]).unwrap();
            let slopes = b.reduce(ReduceOp::Sum, f, product).unwrap();
            b.output("slopes", &[t, s], slopes).unwrap();
        }
        if is_returned {
            b.output("y", &[t, f], y).unwrap();
        }
        let g = mean_products(&b.finish()).graph;
        g.ids().filter(|id| matches!(g.op(*id), Op::Reduce(ReduceOp::Sum, _))).count()
    }

    #[test]
    fn delta_is_a_mean_of_products_that_are_there_where_the_result_is_not_asked_for() {
        assert_eq!(sums_left(false, true), 1);
        assert_eq!(sums_left(true, true), 2);
        assert_eq!(sums_left(false, false), 1);
    }

    /// How many sums over heads are left where an attention sums values of several heads, and its result is both mixed and returned. The
    /// values are products of queries and keys, or an input with a number for every row and key.
    fn sums_of_heads(are_scores: bool) -> usize {
        let mut b = Builder::new("heads");
        let [t, s, h, g] = [("t", "T"), ("s", "S"), ("h", "H"), ("g", "H")]
            .map(|(name, extent)| b.axis_id(name, &Dim::symbol(extent)));
        let e = b.axis_id("e", &Dim::symbol("E"));
        let dot = |b: &mut Builder, x, y, over| {
            let product = b.map(MapOp::Mul, &[x, y]).unwrap();
            b.reduce(ReduceOp::Sum, over, product).unwrap()
        };
        let [q, k] = [("q", t), ("k", s)].map(|(x, at)| b.input(x, &[g, at, e], DType::F32, None));
        let [u, v] = [("u", t), ("v", s)].map(|(x, at)| b.input(x, &[h, at, e], DType::F32, None));
        let after = b.input("after", &[h, g], DType::F32, None);
        let scores = dot(&mut b, q, k, e);
        let values =
            if are_scores { dot(&mut b, u, v, e) } else { b.input("values", &[h, t, s], DType::F32, None) };
        let mixed = dot(&mut b, values, after, h);
        let sums = b.add(Op::Fused(FusedOp::Attend, s), &[scores, values]).unwrap();
        let delta = dot(&mut b, after, sums, h);
        b.output("mixed", &[g, t, s], mixed).unwrap();
        b.output("sums", &[g, h, t], sums).unwrap();
        b.output("delta", &[g, t], delta).unwrap();
        let graph = mean_products(&b.finish()).graph;
        graph.ids().filter(|id| graph.sum_of_products(*id).is_some_and(|(.., over)| over == h)).count()
    }

    #[test]
    fn scores_of_several_heads_are_mixed_before_their_mean_is_made() {
        assert_eq!(sums_of_heads(true), 1);
        assert_eq!(sums_of_heads(false), 2);
    }
}
