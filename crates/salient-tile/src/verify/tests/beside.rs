//! Wrong plans of attentions that store further results of their rows.

use super::whole_rows::broken_plan;
use super::{axis, dot, wrong};
use crate::plan::attention::beside::{BesideOf, KeySum, ValueSum};
use crate::plan::attention::whole_rows::{WeightsBeside, WeightsFrom, WholeRows};
use crate::plan::{Anchor, KernelPlan, Options, plan};
use salient_ir::{AxisId, Builder, Const, DType, Dim, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};

/// An attention with the log-sum-exp of its rows and the weight that each key receives; if `entropy` what that is of each row too.
fn with_results(entropy: bool) -> Graph {
    let mut b = Builder::new("with_results");
    let (i, j) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "T"));
    let (e, f) = (axis(&mut b, "e", "E"), axis(&mut b, "f", "E"));
    let q = b.input("q", &[i, e], DType::F32, None);
    let k = b.input("k", &[j, e], DType::F32, None);
    let v = b.input("v", &[j, f], DType::F32, None);
    let score = dot(&mut b, q, k, e);
    let (row, key) = (b.iota(i), b.iota(j));
    let (low, zero) = (b.constant(Const::f32(f32::NEG_INFINITY)), b.constant(Const::f32(0.0)));
    let mut map = |op: MapOp, args: &[NodeId]| b.map(op, args).unwrap();
    let keep = map(MapOp::Le, &[key, row]);
    let masked = map(MapOp::Select, &[keep, score, low]);
    let y = b.add(Op::Fused(FusedOp::Attend, j), &[masked, v]).unwrap();
    let lse = b.add(Op::Fused(FusedOp::LogSumExp, j), &[masked]).unwrap();
    let mut map = |op: MapOp, args: &[NodeId]| b.map(op, args).unwrap();
    let by = map(MapOp::Sub, &[score, lse]);
    let exponential = map(MapOp::Exp, &[by]);
    let weight = map(MapOp::Select, &[keep, exponential, zero]);
    let weighed = map(MapOp::Mul, &[exponential, score]);
    let weighed = map(MapOp::Select, &[keep, weighed, zero]);
    let received = b.reduce(ReduceOp::Sum, i, weight).unwrap();
    b.output("y", &[i, f], y).unwrap();
    b.output("lse", &[i], lse).unwrap();
    b.output("received", &[j], received).unwrap();
    if entropy {
        let mean = b.reduce(ReduceOp::Sum, j, weighed).unwrap();
        let entropy = b.map(MapOp::Sub, &[lse, mean]).unwrap();
        b.output("entropy", &[i], entropy).unwrap();
    }
    b.finish()
}

#[test]
fn one_kernel_makes_the_scores_of_all_results() {
    for (entropy, weights) in [(false, WeightsFrom::Held(0)), (true, WeightsFrom::Copied(0))] {
        let g = with_results(entropy);
        let plan = plan(&g, Options::default());
        let mut found = Vec::new();
        for set in &plan.order {
            let first = &plan.kernels[set[0]];
            if let Anchor::WholeRows(whole) = &first.anchor {
                found.push((set.len(), whole.weights));
            } else {
                let is_beside_it = matches!(first.anchor, Anchor::Pack(_) | Anchor::SumParts(_));
                assert!(is_beside_it, "the plan has a kernel around {:?}", first.anchor);
            }
        }
        assert_eq!(found, [(3 + usize::from(entropy), weights)]);
    }
}

/// Where the numbers of each row come from that gradients of an attention need.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    /// They are given.
    Given,
    /// They are computed of the scores.
    Computed,
    /// The same, and the exponentials are the weights of the values of keys as well.
    WithResult,
    /// They are given, and the gradient by the result is made of that by the queries.
    OfQueries,
}

/// The gradients of an attention by its queries, keys and values, given that by its result.
fn gradients(rows: Rows) -> Graph {
    let mut b = Builder::new("gradients");
    let (i, j) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "S"));
    let (e, f) = (axis(&mut b, "e", "E"), axis(&mut b, "f", "F"));
    let [q, k, v] =
        [("q", i, e), ("k", j, e), ("v", j, f)].map(|(x, t, d)| b.input(x, &[t, d], DType::F32, None));
    let given = b.input("dy", &[i, f], DType::F32, None);
    let score = dot(&mut b, q, k, e);
    let lse = match rows {
        Rows::Computed | Rows::WithResult => b.add(Op::Fused(FusedOp::LogSumExp, j), &[score]).unwrap(),
        Rows::Given | Rows::OfQueries => b.input("lse", &[i], DType::F32, None),
    };
    let by = b.map(MapOp::Sub, &[score, lse]).unwrap();
    let p = b.map(MapOp::Exp, &[by]).unwrap();
    let of_values = dot(&mut b, given, v, f);
    let delta = match rows {
        Rows::Computed | Rows::WithResult => {
            let weighed = b.map(MapOp::Mul, &[p, of_values]).unwrap();
            b.reduce(ReduceOp::Sum, j, weighed).unwrap()
        }
        Rows::Given | Rows::OfQueries => b.input("delta", &[i], DType::F32, None),
    };
    let less = b.map(MapOp::Sub, &[of_values, delta]).unwrap();
    let ds = b.map(MapOp::Mul, &[p, less]).unwrap();
    let mut sum =
        |key, weights, values| b.add(Op::Fused(FusedOp::WeightedSum, key), &[weights, values]).unwrap();
    let (dq, dk) = (sum(j, ds, k), sum(i, ds, q));
    let of_rows = if rows == Rows::OfQueries {
        let whole = b.reduce(ReduceOp::Sum, e, dq).unwrap();
        b.map(MapOp::Mul, &[given, whole]).unwrap()
    } else {
        given
    };
    let dv = b.add(Op::Fused(FusedOp::WeightedSum, i), &[p, of_rows]).unwrap();
    b.output("dq", &[i, e], dq).unwrap();
    b.output("dk", &[j, e], dk).unwrap();
    b.output("dv", &[j, f], dv).unwrap();
    if rows == Rows::WithResult {
        let y = b.add(Op::Fused(FusedOp::WeightedSum, j), &[p, v]).unwrap();
        b.output("y", &[i, f], y).unwrap();
    }
    b.finish()
}

/// What the second of two weighted sums over the same keys is.
#[derive(Clone, Copy, PartialEq)]
enum Second {
    /// Its weights have a product of the first in them, and one of their own.
    Shared,
    /// Its weights have only a product of their own.
    Apart,
    /// Its weights share a product as well, and are divided by their sum: it has the kernel, and the first is summed beside it.
    Softmax,
    /// Its weights share a product as well, and are multiplied by the sum of a row of the first.
    OfTheFirst,
}

/// Two weighted sums over keys up to the row.
fn two_sums(second: Second) -> Graph {
    let mut b = Builder::new("two_sums");
    let (i, j) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "T"));
    let (e, f) = (axis(&mut b, "e", "E"), axis(&mut b, "f", "F"));
    let [q1, q2] = ["q1", "q2"].map(|name| b.input(name, &[i, e], DType::F32, None));
    let [k1, k2] = ["k1", "k2"].map(|name| b.input(name, &[j, e], DType::F32, None));
    let [v1, v2] = ["v1", "v2"].map(|name| b.input(name, &[j, f], DType::F32, None));
    let [one, two] = [(q1, k1), (q2, k2)].map(|(q, k)| dot(&mut b, q, k, e));
    let (row, key) = (b.iota(i), b.iota(j));
    let (low, zero) = (b.constant(Const::f32(f32::NEG_INFINITY)), b.constant(Const::f32(0.0)));
    let keep = b.map(MapOp::Le, &[key, row]).unwrap();
    let first = b.map(MapOp::Select, &[keep, one, zero]).unwrap();
    let y = b.add(Op::Fused(FusedOp::WeightedSum, j), &[first, v1]).unwrap();
    let (op, other) = match second {
        Second::Shared | Second::Apart | Second::OfTheFirst => (FusedOp::WeightedSum, zero),
        Second::Softmax => (FusedOp::Attend, low),
    };
    let factor = match second {
        Second::Shared | Second::Softmax => one,
        Second::Apart => two,
        Second::OfTheFirst => {
            let sum = b.reduce(ReduceOp::Sum, f, y).unwrap();
            b.map(MapOp::Mul, &[one, sum]).unwrap()
        }
    };
    let product = b.map(MapOp::Mul, &[two, factor]).unwrap();
    let weights = b.map(MapOp::Select, &[keep, product, other]).unwrap();
    let z = b.add(Op::Fused(op, j), &[weights, v2]).unwrap();
    b.output("y", &[i, f], y).unwrap();
    b.output("z", &[i, f], z).unwrap();
    b.finish()
}

#[test]
fn weighted_sums_that_share_a_product_come_of_one_kernel() {
    for (second, sums) in [
        (Second::Shared, vec![1]),
        (Second::Apart, vec![]),
        (Second::Softmax, vec![1]),
        (Second::OfTheFirst, vec![]),
    ] {
        let g = two_sums(second);
        let plan = plan(&g, Options::default());
        let of_kernel = |k: &KernelPlan| {
            let Anchor::WholeRows(whole) = &k.anchor else { return None };
            Some(whole.value_sums().count())
        };
        assert_eq!(plan.kernels.iter().filter_map(of_kernel).collect::<Vec<usize>>(), sums);
    }
}

#[test]
fn a_weighted_sum_beside_another_visits_the_keys_of_its_mask() {
    broken_plan(&two_sums(Second::Shared), "a range of keys that its mask does not give", |whole| {
        value_sum(whole).key_loop.range.ends.clear();
    });
}

#[test]
fn a_weighted_sum_beside_another_has_the_weights_of_its_node() {
    broken_plan(&two_sums(Second::Shared), "no weighted sum over its keys", |whole| {
        let other = whole.attention.score;
        value_sum(whole).attention.score = other;
    });
}

/// A weighted sum of values under scores that are divided by their sum: before the values are weighed, with what each key receives, or at
/// last.
fn divided(at_last: bool) -> (Graph, NodeId) {
    let mut b = Builder::new("divided");
    let (i, j) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "S"));
    let (e, f) = (axis(&mut b, "e", "E"), axis(&mut b, "f", "F"));
    let [q, k, v] =
        [("q", i, e), ("k", j, e), ("v", j, f)].map(|(x, t, d)| b.input(x, &[t, d], DType::F32, None));
    let score = dot(&mut b, q, k, e);
    let sum = b.reduce(ReduceOp::Sum, j, score).unwrap();
    let weigh = |b: &mut Builder, weights| b.add(Op::Fused(FusedOp::WeightedSum, j), &[weights, v]).unwrap();
    let y = if at_last {
        let weighed = weigh(&mut b, score);
        b.map(MapOp::Div, &[weighed, sum]).unwrap()
    } else {
        let share = b.map(MapOp::Div, &[score, sum]).unwrap();
        let received = b.reduce(ReduceOp::Sum, i, share).unwrap();
        b.output("received", &[j], received).unwrap();
        weigh(&mut b, share)
    };
    b.output("y", &[i, f], y).unwrap();
    (b.finish(), sum)
}

#[test]
fn what_only_its_kernel_reads_of_a_row_is_not_stored() {
    let (g, sum) = divided(false);
    let plan = plan(&g, Options::default());
    let received = g.outputs().iter().find(|output| *output.name == *"received").expect("it is one").node;
    let stored: Vec<NodeId> = plan.buffers.iter().map(|buffer| buffer.node).collect();
    assert!(stored.contains(&received) && !stored.contains(&sum));
    assert_eq!(sums_over_rows(&g), [vec![false]]);
}

#[test]
fn what_stands_around_a_weighted_sum_is_stored() {
    let (g, sum) = divided(true);
    let plan = plan(&g, Options::default());
    assert!(plan.buffers.iter().any(|buffer| buffer.node == sum));
}

/// Gradients of an attention of which the heads are mixed before and after its weights are made, with what the weights and the products
/// with the values come to of each pair of heads and each row.
fn gradients_of_mixed_heads() -> Graph {
    let mut b = Builder::new("mixed_heads");
    let (i, j) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "S"));
    let (e, f) = (axis(&mut b, "e", "E"), axis(&mut b, "f", "F"));
    let [h, g, o] = ["h", "g", "o"].map(|name| axis(&mut b, name, "H"));
    let [q, k, v, given] = [("q", h, i, e), ("k", h, j, e), ("v", o, j, f), ("dy", o, i, f)]
        .map(|(x, head, t, d)| b.input(x, &[head, t, d], DType::F32, None));
    let [before, after] =
        [("before", g, h), ("after", o, g)].map(|(x, to, of)| b.input(x, &[to, of], DType::F32, None));
    let score = dot(&mut b, q, k, e);
    let mixed = dot(&mut b, score, before, h);
    let lse = b.add(Op::Fused(FusedOp::LogSumExp, j), &[mixed]).unwrap();
    let by = b.map(MapOp::Sub, &[mixed, lse]).unwrap();
    let weight = b.map(MapOp::Exp, &[by]).unwrap();
    let of_values = dot(&mut b, given, v, f);
    let by_weight = dot(&mut b, of_values, after, o);
    let by_mixed = b.map(MapOp::Mul, &[weight, by_weight]).unwrap();
    let by_score = dot(&mut b, by_mixed, before, g);
    let spoken = dot(&mut b, weight, after, g);
    let mut sum =
        |over, weights, values| b.add(Op::Fused(FusedOp::WeightedSum, over), &[weights, values]).unwrap();
    let (dq, dk, dv) = (sum(j, by_score, k), sum(i, by_score, q), sum(i, spoken, given));
    let pairs = dot(&mut b, weight, of_values, j);
    b.output("dq", &[h, i, e], dq).unwrap();
    b.output("dk", &[h, j, e], dk).unwrap();
    b.output("dv", &[o, j, f], dv).unwrap();
    b.output("pairs", &[i, g, o], pairs).unwrap();
    b.finish()
}

#[test]
fn all_mixed_heads_have_their_gradients_from_one_kernel() {
    let g = gradients_of_mixed_heads();
    assert_eq!(sums_over_rows(&g), [vec![true, true]]);
    let plan = plan(&g, Options::default());
    let names = |axes: &[AxisId]| axes.iter().map(|axis| g.axis(*axis).name.to_string()).collect::<Vec<_>>();
    let both = ["i", "j"].map(str::to_owned);
    assert!(plan.buffers.iter().all(|buffer| !both.iter().all(|axis| names(&buffer.axes).contains(axis))));
    broken_plan(&g, "it reads a reduction of its rows that it does not hold", |whole| {
        let of_pairs = whole.held.iter().position(|held| held.attention.node == pairs_of(&g));
        whole.held.remove(of_pairs.expect("it holds what pairs of heads come to"));
    });
}

/// What the pairs of heads come to in [`gradients_of_mixed_heads`].
fn pairs_of(g: &Graph) -> NodeId {
    g.outputs().iter().find(|output| *output.name == *"pairs").expect("it is an output").node
}

/// The first sum over rows that a kernel stores.
fn key_sum(whole: &mut WholeRows) -> &mut KeySum {
    let mut sums = whole.beside.iter_mut().filter_map(|beside| match &mut beside.of {
        BesideOf::Key(sum) => Some(&mut **sum),
        BesideOf::Row | BesideOf::Values(_) => None,
    });
    sums.next().expect("it has one")
}

/// The first weighted sum over keys beside an attention that its kernel stores.
fn value_sum(whole: &mut WholeRows) -> &mut ValueSum {
    let mut sums = whole.beside.iter_mut().filter_map(|beside| match &mut beside.of {
        BesideOf::Values(sum) => Some(&mut **sum),
        BesideOf::Row | BesideOf::Key(_) => None,
    });
    sums.next().expect("it has one")
}

/// The sums over rows, by whether they are of values, of each kernel over whole rows.
fn sums_over_rows(g: &Graph) -> Vec<Vec<bool>> {
    let plan = plan(g, Options::default());
    let whole = plan.kernels.iter().filter_map(|k| {
        let Anchor::WholeRows(whole) = &k.anchor else { return None };
        Some(whole.key_sums().map(|sum| sum.of.value.is_some()).collect())
    });
    whole.collect()
}

/// An attention of which the squared scores are summed for each distance of a key from its row; the distances begin so many places too
/// late, and the condition of what is read leaves one out if it is `strict`.
fn by_distance(late: i64, strict: bool) -> Graph {
    let mut b = Builder::new("by_distance");
    let (i, j) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "S"));
    let (e, f) = (axis(&mut b, "e", "E"), axis(&mut b, "f", "F"));
    let all = &Dim::symbol("T") + &Dim::symbol("S");
    let d = b.axis_id("d", &all);
    let [q, k, v] =
        [("q", i, e), ("k", j, e), ("v", j, f)].map(|(x, t, d)| b.input(x, &[t, d], DType::F32, None));
    let score = dot(&mut b, q, k, e);
    let y = b.add(Op::Fused(FusedOp::WeightedSum, j), &[score, v]).unwrap();
    let (row, place) = (b.iota(i), b.iota(d));
    let origin = b.extent_of(&(&Dim::symbol("T") + &Dim::constant(late)));
    let (first, end) = (b.constant(Const::I64(0)), b.extent_of(&Dim::symbol("S")));
    let mut map = |op: MapOp, args: &[NodeId]| b.map(op, args).unwrap();
    let squared = map(MapOp::Mul, &[score, score]);
    let by = map(MapOp::Sub, &[row, origin]);
    let index = map(MapOp::Add, &[place, by]);
    let after = map(if strict { MapOp::Lt } else { MapOp::Le }, &[first, index]);
    let before = map(MapOp::Lt, &[index, end]);
    let inside = map(MapOp::And, &[after, before]);
    let read = b.at(squared, j, index).unwrap();
    let zero = b.constant(Const::f32(0.0));
    let chosen = b.map(MapOp::Select, &[inside, read, zero]).unwrap();
    let sums = b.reduce(ReduceOp::Sum, i, chosen).unwrap();
    b.output("y", &[i, f], y).unwrap();
    b.output("sums", &[d], sums).unwrap();
    b.finish()
}

#[test]
fn sums_for_each_distance_come_of_the_kernel_that_makes_the_scores() {
    assert_eq!(sums_over_rows(&by_distance(0, false)), [vec![false]]);
    // Where places lack a distance, or the sum leaves a key out, they are no sums for each of them.
    for other in [by_distance(1, false), by_distance(0, true)] {
        assert!(sums_over_rows(&other).iter().all(Vec::is_empty));
    }
}

#[test]
fn distances_begin_where_the_sum_says() {
    broken_plan(&by_distance(0, false), "no sum over its rows", |whole| {
        let origin = &mut key_sum(whole).of.distances.as_mut().expect("it is by distance").origin;
        *origin = &*origin + &Dim::constant(1);
    });
}

#[test]
fn gradients_of_keys_and_values_come_of_the_kernel_of_those_of_queries() {
    assert_eq!(sums_over_rows(&gradients(Rows::Given)), [vec![true, true]]);
}

#[test]
fn exponentials_are_the_weights_of_the_values_of_rows_where_they_lie() {
    let found = |rows: Rows| {
        let (g, mut found) = (gradients(rows), Vec::new());
        let plan = plan(&g, Options::default());
        for k in &plan.kernels {
            let Anchor::WholeRows(whole) = &k.anchor else { continue };
            let weights = (0..whole.beside.len()).filter_map(|at| whole.weights_beside(&g, at));
            found.push((weights.collect::<Vec<_>>(), whole.weights_in_place_of(&g)));
        }
        found
    };
    // The gradient by keys has the weights of that by queries, which are stored in place of the second product.
    let of_keys = WeightsBeside::Attention;
    assert_eq!(found(Rows::Computed), [(vec![of_keys, WeightsBeside::Exponentials(0)], Some(1))]);
    assert_eq!(found(Rows::Given), [(vec![of_keys, WeightsBeside::Own], Some(0))]);
    // A sum over keys has weights that are divided.
    let with_result = vec![of_keys, WeightsBeside::Exponentials(0), WeightsBeside::Own];
    assert_eq!(found(Rows::WithResult), [(with_result, Some(1))]);
}

#[test]
fn no_kernel_stores_what_it_waits_for() {
    assert_eq!(sums_over_rows(&gradients(Rows::OfQueries)), [vec![true]]);
}

#[test]
fn columns_of_a_sum_over_rows_are_of_its_axes() {
    wrong(&gradients(Rows::Given), "its parts are of other axes", |plan| {
        let mut anchors = plan.kernels.iter_mut().map(|k| &mut k.anchor);
        let parts =
            anchors.find_map(|anchor| if let Anchor::SumParts(of) = anchor { Some(of) } else { None });
        parts.expect("a sum is added up").width = None;
    });
}

#[test]
fn what_stands_beside_an_attention_is_stored_by_its_kernel() {
    let expected = "its kernel stores other values than stand beside it";
    broken_plan(&with_results(false), expected, |whole| {
        whole.beside.pop();
    });
    wrong(&with_results(false), expected, |plan| {
        let set = plan.order.iter_mut().find(|set| set.len() > 1).expect("some run as one");
        let alone = set.pop().expect("it is not empty");
        plan.order.push(vec![alone]);
    });
}

#[test]
fn a_sum_for_each_key_is_one_over_the_rows() {
    broken_plan(&with_results(false), "no sum over its rows", |whole| {
        let other = whole.attention.score;
        key_sum(whole).of.attention.score = other;
    });
}

#[test]
fn a_sum_for_each_key_visits_the_keys_of_its_mask() {
    broken_plan(&with_results(false), "a range of keys that its mask does not give", |whole| {
        key_sum(whole).key_loop.range.ends.clear();
    });
}

#[test]
fn weights_take_the_place_of_scores_that_nobody_reads() {
    broken_plan(&with_results(true), "its weights take the place of scores that are read", |whole| {
        whole.weights = WeightsFrom::Held(0);
    });
}

#[test]
fn weights_are_left_behind_before_they_are_taken() {
    broken_plan(&with_results(false), "its weights are left behind by nothing", |whole| {
        whole.weights = WeightsFrom::Held(7);
    });
    broken_plan(&with_results(true), "it copies weights that nothing leaves", |whole| {
        whole.held[0].leaves.clear();
    });
}

#[test]
fn parts_of_a_sum_are_of_its_axes() {
    wrong(&with_results(false), "its parts are of other axes", |plan| {
        let mut anchors = plan.kernels.iter_mut().map(|k| &mut k.anchor);
        let parts =
            anchors.find_map(|anchor| if let Anchor::SumParts(of) = anchor { Some(of) } else { None });
        let rows = plan.graph.axes().next().expect("the graph has axes").0;
        parts.expect("a sum is added up").outer.push(rows);
    });
}
