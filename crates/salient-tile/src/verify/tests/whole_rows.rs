//! Wrong plans of attentions that keep whole rows of scores.

use super::{axis, dot, wrong};
use crate::dims::n;
use crate::plan::attention::whole_rows::{Leaves, WeightsFrom, WholeRows};
use crate::plan::{Anchor, Plan};
use salient_ir::{AxisId, Builder, Const, DType, Direction, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};

/// Weights that are a softmax times what is left of a running sum, under a causal mask.
fn left_over() -> Graph {
    left_over_with(false)
}

/// The same, with the running sum before or after the sum.
fn left_over_with(run_comes_first: bool) -> Graph {
    let mut b = Builder::new("left_over");
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
    let part = map(MapOp::Select, &[keep, score, zero]);
    let run_of = |b: &mut Builder| b.add(Op::CumSum(Direction::Forward, j), &[part]).unwrap();
    let first = run_comes_first.then(|| run_of(&mut b));
    let total = b.reduce(ReduceOp::Sum, j, part).unwrap();
    let run = first.unwrap_or_else(|| run_of(&mut b));
    let lse = b.add(Op::Fused(FusedOp::LogSumExp, j), &[masked]).unwrap();
    let mut map = |op: MapOp, args: &[NodeId]| b.map(op, args).unwrap();
    let by = map(MapOp::Sub, &[score, lse]);
    let weight = map(MapOp::Exp, &[by]);
    let left = map(MapOp::Sub, &[total, run]);
    let both = map(MapOp::Mul, &[weight, left]);
    let kept = map(MapOp::Select, &[keep, both, zero]);
    let y = b.add(Op::Fused(FusedOp::WeightedSum, j), &[kept, v]).unwrap();
    b.output("y", &[i, f], y).unwrap();
    b.finish()
}

/// Breaks the plan of the attention that a graph holds.
pub(super) fn broken_plan(g: &Graph, expected: &str, change: impl FnOnce(&mut WholeRows)) {
    wrong(g, expected, |plan: &mut Plan<'_>| {
        let mut anchors = plan.kernels.iter_mut().map(|k| &mut k.anchor);
        let found = anchors.find_map(|anchor| match anchor {
            Anchor::WholeRows(whole) => Some(whole),
            Anchor::Map(_) | Anchor::Append(_) | Anchor::Rows { .. } | Anchor::Reduction { .. } => None,
            Anchor::Columns { .. } | Anchor::Scatter(_) | Anchor::Gemm(_) | Anchor::Pack(_) => None,
            Anchor::Tiled(_) | Anchor::SplitKv(_) | Anchor::Merge(_) => None,
            Anchor::Beside(_) | Anchor::SumParts(_) | Anchor::Alias(_) => None,
        });
        change(found.expect("the attention keeps whole rows"));
    });
}

fn broken(expected: &str, change: impl FnOnce(&mut WholeRows)) {
    broken_plan(&left_over(), expected, change);
}

/// Weights of which the heads are mixed before and after the softmax; before the second mixture they are halved.
fn mixed() -> Graph {
    let mut b = Builder::new("mixed");
    let (i, j) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "T"));
    let (e, f) = (axis(&mut b, "e", "E"), axis(&mut b, "f", "E"));
    let [h, g, o] = ["h", "g", "o"].map(|name| axis(&mut b, name, "H"));
    let q = b.input("q", &[h, i, e], DType::F32, None);
    let k = b.input("k", &[h, j, e], DType::F32, None);
    let v = b.input("v", &[o, j, f], DType::F32, None);
    let before = b.input("before", &[g, h], DType::F32, None);
    let after = b.input("after", &[o, g], DType::F32, None);
    let score = dot(&mut b, q, k, e);
    let one = dot(&mut b, score, before, h);
    let lse = b.add(Op::Fused(FusedOp::LogSumExp, j), &[one]).unwrap();
    let half = b.constant(Const::f32(0.5));
    let mut map = |op: MapOp, args: &[NodeId]| b.map(op, args).unwrap();
    let by = map(MapOp::Sub, &[one, lse]);
    let weight = map(MapOp::Exp, &[by]);
    let halved = map(MapOp::Mul, &[weight, half]);
    let two = dot(&mut b, halved, after, g);
    let y = b.add(Op::Fused(FusedOp::WeightedSum, j), &[two, v]).unwrap();
    b.output("y", &[o, i, f], y).unwrap();
    b.finish()
}

#[test]
fn heads_are_those_that_are_mixed() {
    broken_plan(&mixed(), "its heads are not those that are mixed", |whole| {
        whole.heads.pop_first();
    });
}

#[test]
fn every_mixture_that_is_read_is_held() {
    broken_plan(&mixed(), "it reads a reduction of its rows that it does not hold", |whole| {
        whole.held.pop();
        whole.weights = WeightsFrom::Scores;
    });
}

#[test]
fn heads_are_mixed_at_every_key_that_is_visited() {
    broken_plan(&mixed(), "heads are not mixed at every key that is visited", |whole| {
        whole.held[0].key_loop.range.ends.push(n(1));
    });
}

#[test]
fn a_mixture_has_a_place_of_its_own() {
    broken_plan(&mixed(), "a mixture has no place of its own", |whole| {
        whole.held[0].leaves[0].in_place_of = Some(0);
    });
}

#[test]
fn what_is_mixed_has_been_made() {
    broken_plan(&mixed(), "heads are mixed before they are made", |whole| {
        whole.held.last_mut().expect("it holds some").copies = false;
    });
}

#[test]
fn weights_are_the_last_mixture_only_where_they_are() {
    broken_plan(&mixed(), "its weights are not the last mixture", |whole| {
        whole.weights = WeightsFrom::Held(0);
    });
}

#[test]
fn every_reduction_that_is_read_is_held() {
    broken("it reads a reduction of its rows that it does not hold", |whole| {
        whole.held.pop();
    });
}

#[test]
fn what_is_held_comes_in_order() {
    broken_plan(&mixed(), "what it holds is not in order", |whole| whole.held.reverse());
}

#[test]
fn products_are_made_for_all_keys_that_are_read() {
    broken("keys are read for which no product is made", |whole| {
        whole.visits.ends = vec![n(1)];
    });
}

#[test]
fn what_is_held_visits_the_keys_of_its_mask() {
    broken("a range of keys that its mask does not give", |whole| {
        whole.held.last_mut().expect("it holds some").key_loop.range.ends.clear();
    });
}

#[test]
fn what_is_left_behind_are_the_exponentials_themselves() {
    broken("a reduction leaves behind what it does not compute", |whole| {
        let leaves = whole.held.iter_mut().find_map(|h| h.leaves.first_mut());
        leaves.expect("some are left").node = whole.attention.score;
    });
}

#[test]
fn exponentials_lie_in_place_of_a_product() {
    broken("it leaves them in place of no product", |whole| {
        let leaves = whole.held.iter_mut().find_map(|h| h.leaves.first_mut());
        leaves.expect("some are left").in_place_of = Some(9);
    });
}

#[test]
fn what_is_left_in_place_of_a_product_is_not_before_its_last_reader() {
    broken("it leaves them in place of a product that is still read", |whole| {
        let leaves = whole.held.iter_mut().find_map(|h| h.leaves.first_mut());
        leaves.expect("some are left").in_place_of = Some(0);
    });
}

#[test]
fn the_sum_of_what_is_run_over_is_its_end() {
    for run_comes_first in [false, true] {
        let g = left_over_with(run_comes_first);
        let plan = crate::plan::plan(&g, crate::plan::Options::default());
        let ends = wholes(&plan)
            .into_iter()
            .map(|whole| (0..whole.held.len()).filter(|at| whole.is_end_of_next(*at)).count());
        assert_eq!(ends.collect::<Vec<_>>(), [1], "running sum first: {run_comes_first}");
    }
}

/// The attentions of a plan that keep whole rows of scores.
fn wholes<'p>(plan: &'p Plan<'_>) -> Vec<&'p WholeRows> {
    let of = |anchor: &'p Anchor| match anchor {
        Anchor::WholeRows(whole) => Some(whole),
        Anchor::Map(_) | Anchor::Append(_) | Anchor::Rows { .. } | Anchor::Reduction { .. } => None,
        Anchor::Columns { .. } | Anchor::Scatter(_) | Anchor::Gemm(_) | Anchor::Pack(_) => None,
        Anchor::Tiled(_) | Anchor::SplitKv(_) | Anchor::Merge(_) => None,
        Anchor::Beside(_) | Anchor::SumParts(_) | Anchor::Alias(_) => None,
    };
    plan.kernels.iter().filter_map(|k| of(&k.anchor)).collect()
}

/// Scores of products, the axes of their rows and keys, values, and the axis of their columns.
fn scores_and_values(b: &mut Builder) -> (NodeId, [AxisId; 2], NodeId, AxisId) {
    let (i, j) = (axis(b, "i", "T"), axis(b, "j", "T"));
    let (e, f) = (axis(b, "e", "E"), axis(b, "f", "E"));
    let q = b.input("q", &[i, e], DType::F32, None);
    let k = b.input("k", &[j, e], DType::F32, None);
    let v = b.input("v", &[j, f], DType::F32, None);
    (dot(b, q, k, e), [i, j], v, f)
}

/// What the reductions of a graph's only attention over whole rows leave behind.
fn left_behind(g: &Graph) -> Vec<Vec<NodeId>> {
    let plan = crate::plan::plan(g, crate::plan::Options::default());
    let found = wholes(&plan);
    assert_eq!(found.len(), 1, "there is one attention");
    found[0].held.iter().map(|h| h.left().collect()).collect()
}

#[test]
fn exponentials_are_left_to_what_reads_them_at_more_keys_if_under_their_mask() {
    for is_masked_there in [true, false] {
        let mut b = Builder::new("floor");
        let (score, [i, j], v, f) = scores_and_values(&mut b);
        let (row, key) = (b.iota(i), b.iota(j));
        let (low, zero) = (b.constant(Const::f32(f32::NEG_INFINITY)), b.constant(Const::f32(0.0)));
        let keep = b.map(MapOp::Le, &[key, row]).unwrap();
        let masked = b.map(MapOp::Select, &[keep, score, low]).unwrap();
        let lse = b.add(Op::Fused(FusedOp::LogSumExp, j), &[masked]).unwrap();
        let difference = b.map(MapOp::Sub, &[score, lse]).unwrap();
        let exponential = b.map(MapOp::Exp, &[difference]).unwrap();
        let weight = if is_masked_there {
            b.map(MapOp::Select, &[keep, exponential, zero]).unwrap()
        } else {
            exponential
        };
        let floor = b.constant(Const::f32(0.05));
        let weight = b.map(MapOp::Add, &[weight, floor]).unwrap();
        let y = b.add(Op::Fused(FusedOp::WeightedSum, j), &[weight, v]).unwrap();
        b.output("y", &[i, f], y).unwrap();
        let g = b.finish();
        let exponential = g.ids().find(|id| *g.op(*id) == Op::Map(MapOp::Exp));
        assert_eq!(left_behind(&g), [Vec::from_iter(exponential.filter(|_| is_masked_there))]);
        if !is_masked_there {
            broken_plan(&g, "what a reduction leaves behind is read at other keys", |whole| {
                let node = exponential.expect("it is there");
                whole.held[0].leaves = vec![Leaves { node, in_place_of: None }];
            });
        }
    }
}

#[test]
fn what_is_left_behind_is_read_at_the_same_keys() {
    for is_masked_there in [true, false] {
        let mut b = Builder::new("at_more_keys");
        let (score, [i, j], v, f) = scores_and_values(&mut b);
        let (row, key) = (b.iota(i), b.iota(j));
        let (low, zero) = (b.constant(Const::f32(f32::NEG_INFINITY)), b.constant(Const::f32(0.0)));
        let t = b.map(MapOp::Tanh, &[score]).unwrap();
        let keep = b.map(MapOp::Le, &[key, row]).unwrap();
        let masked = b.map(MapOp::Select, &[keep, t, low]).unwrap();
        let greatest = b.reduce(ReduceOp::Max, j, masked).unwrap();
        let product = b.map(MapOp::Mul, &[t, greatest]).unwrap();
        let kept = b.map(MapOp::Select, &[keep, product, zero]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, j, kept).unwrap();
        // The sum reads the part at the keys of the maximum; the weights do so, or read it at every key.
        let weight = b.map(MapOp::Mul, &[t, sum]).unwrap();
        let weight =
            if is_masked_there { b.map(MapOp::Select, &[keep, weight, zero]).unwrap() } else { weight };
        let y = b.add(Op::Fused(FusedOp::WeightedSum, j), &[weight, v]).unwrap();
        b.output("y", &[i, f], y).unwrap();
        let g = b.finish();
        let expensive = g.ids().find(|id| *g.op(*id) == Op::Map(MapOp::Tanh));
        assert_eq!(left_behind(&g)[0], Vec::from_iter(expensive.filter(|_| is_masked_there)));
        if !is_masked_there {
            broken_plan(&g, "what a reduction leaves behind is read at other keys", |whole| {
                let node = expensive.expect("it is there");
                whole.held[0].leaves = vec![Leaves { node, in_place_of: None }];
            });
        }
    }
}

#[test]
fn the_part_is_left_that_leaves_the_fewest_expensive_operators() {
    let mut b = Builder::new("two_readers");
    let (score, [i, j], v, f) = scores_and_values(&mut b);
    let (low, zero) = (b.constant(Const::f32(f32::NEG_INFINITY)), b.constant(Const::f32(0.0)));
    let t = b.map(MapOp::Tanh, &[score]).unwrap();
    let is_large = b.map(MapOp::Lt, &[zero, t]).unwrap();
    let large = b.map(MapOp::Select, &[is_large, t, low]).unwrap();
    let greatest = b.reduce(ReduceOp::Max, j, large).unwrap();
    // Who comes after reads what is large, which the maximum reads too, and all that it is made of.
    let below = b.map(MapOp::Sub, &[large, greatest]).unwrap();
    let weight = b.map(MapOp::Mul, &[below, t]).unwrap();
    let y = b.add(Op::Fused(FusedOp::WeightedSum, j), &[weight, v]).unwrap();
    b.output("y", &[i, f], y).unwrap();
    let g = b.finish();
    let expensive = g.ids().find(|id| *g.op(*id) == Op::Map(MapOp::Tanh));
    assert_eq!(left_behind(&g), [Vec::from_iter(expensive)]);
}

#[test]
fn what_is_held_is_read_at_its_own_row() {
    for is_own in [true, false] {
        let mut b = Builder::new("sum_and_product");
        let (score, [i, j], ..) = scores_and_values(&mut b);
        let sum = b.reduce(ReduceOp::Sum, j, score).unwrap();
        let key = b.iota(j);
        let read = if is_own { sum } else { b.add(Op::At(i), &[sum, key]).unwrap() };
        let product = b.map(MapOp::Mul, &[score, read]).unwrap();
        let y = b.reduce(ReduceOp::Sum, j, product).unwrap();
        b.output("sum", &[i], sum).unwrap();
        b.output("y", &[i], y).unwrap();
        let g = b.finish();
        let plan = crate::plan::plan(&g, crate::plan::Options::default());
        // One kernel stores both if the sum is there when the row is made.
        assert_eq!(wholes(&plan).len(), usize::from(is_own), "at its own row: {is_own}");
    }
}

#[test]
fn what_is_read_is_kept() {
    broken("it keeps what nobody reads, or does not keep what somebody does", |whole| {
        whole.held.iter_mut().for_each(|h| h.is_kept = !h.is_kept);
    });
}

#[test]
fn several_parts_are_left_where_one_leaves_expensive_operators() {
    let mut b = Builder::new("two_parts");
    let (score, [i, j], v, f) = scores_and_values(&mut b);
    let inner = b.map(MapOp::Tanh, &[score]).unwrap();
    let outer = b.map(MapOp::Tanh, &[inner]).unwrap();
    let sum = b.reduce(ReduceOp::Sum, j, outer).unwrap();
    // The weights read both, and neither is made of the other without another operator that is expensive.
    let share = b.map(MapOp::Div, &[outer, sum]).unwrap();
    let weight = b.map(MapOp::Mul, &[share, inner]).unwrap();
    let y = b.add(Op::Fused(FusedOp::WeightedSum, j), &[weight, v]).unwrap();
    b.output("y", &[i, f], y).unwrap();
    let g = b.finish();
    let tanhs = g.ids().filter(|id| *g.op(*id) == Op::Map(MapOp::Tanh));
    assert_eq!(left_behind(&g), [tanhs.rev().collect::<Vec<NodeId>>()]);
    broken_plan(&g, "it leaves them in place of a product that is still read", |whole| {
        whole.held[0].leaves.pop();
    });
}

/// The greatest score of each row and a sum of what is relative to it, both of them asked for.
fn greatest_and_sum() -> Graph {
    let mut b = Builder::new("greatest_and_sum");
    let (score, [i, j], _, _) = scores_and_values(&mut b);
    let greatest = b.reduce(ReduceOp::Max, j, score).unwrap();
    let below = b.map(MapOp::Sub, &[score, greatest]).unwrap();
    let e = b.map(MapOp::Exp, &[below]).unwrap();
    let sum = b.reduce(ReduceOp::Sum, j, e).unwrap();
    b.output("greatest", &[i], greatest).unwrap();
    b.output("sum", &[i], sum).unwrap();
    b.finish()
}

#[test]
fn a_maximum_that_is_held_is_not_computed_again() {
    let g = greatest_and_sum();
    let plan = crate::plan::plan(&g, crate::plan::Options::default());
    let weights: Vec<WeightsFrom> = wholes(&plan).into_iter().map(|whole| whole.weights).collect();
    assert_eq!(weights, [WeightsFrom::Reduction(0)]);
    broken_plan(&g, "it is not the reduction that it is said to hold", |whole| {
        whole.weights = WeightsFrom::Reduction(7);
    });
}
