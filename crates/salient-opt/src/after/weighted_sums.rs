//! Sums of values under weights that no softmax makes, `sum[j](f(q k) v)`: one pass over the keys.
//!
//! After extraction, where it is known who else reads the scores. A sum becomes a pass if each reader of its scores is such a
//! sum too, or combines the scores along an axis, as an attention or a maximum does: these compute the scores themselves. What
//! is stored for any other reader need not be computed again.
//!
//! A sum of products alone is none of these: the rules give it the order that costs least, and where the weights are divided
//! by their sum, which the rules do not look through, it is given that order here.
//! Makes no softmax; that is for the rules.

use crate::after::scores::{Scores, depth, readers, reduces_scores};
use crate::facts::Known;
use crate::graph::choices::under_condition;
use crate::graph::demanded::open_values;
use crate::graph::digest::digests;
use crate::graph::factors::{Factors, product_in_order};
use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use crate::graph::sizes::{nominal_extents, points};
use salient_ir::{AxisId, AxisSet, Builder, Const, DType, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

/// A sum of weighted values, taken apart.
#[derive(Clone)]
struct Weighted {
    /// What is summed over.
    key: AxisId,
    /// Where one of them does not hold the weight is zero.
    masks: Vec<NodeId>,
    weights: Factors,
    values: Factors,
    /// The products of queries and keys inside the weights.
    scores: Vec<NodeId>,
    /// Literals that every weight is multiplied by or divided by: factors of the sum.
    scale: Factors,
    form: Replacement,
}

/// What becomes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replacement {
    /// One pass over the keys.
    Pass(FusedOp),
    /// `q (k v)`, where the weights are `q k`.
    Products,
    /// `q (k v) / (q sum[j](k))`, where the weights are `q k` divided by their sum.
    Shares,
}

/// The same graph with each sum of values under weights made of scores in one pass; such a sum becomes the pass.
pub(crate) fn weighted_sums(g: &Graph) -> Rewritten {
    let (found, mixed) = found(g);
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    let digests = digests(g);
    rewrite_in_order(g, |b, new, id| match found.get(&id) {
        Some(sum) => Some(build(g, b, new, &digests, sum)),
        None if mixed.contains(&id) => mask_around(g, b, new, id),
        None => None,
    })
}

/// A mixture of heads whose scores are zero without a mask, with the mask around it: all heads of a key have one mask then, by which
/// keys are told that nobody looks at.
fn mask_around(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let Op::Reduce(ReduceOp::Sum, depth) = *g.op(id) else { return None };
    let factors = g.args(g.args(id)[0]);
    let is_masked =
        |x: &NodeId| under_condition(g, *x).is_some_and(|(mask, _)| !g.node(mask).axes.contains(depth));
    let at = factors.iter().position(is_masked)?;
    let (chosen, by) = (g.args(factors[at]), new[factors[1 - at].index()]);
    let product = b.map(MapOp::Mul, &[new[chosen[1].index()], by]).expect("numbers");
    let sum = b.reduce(ReduceOp::Sum, depth, product).expect("numbers");
    let zero = b.constant(Const::f32(0.0));
    Some(b.map(MapOp::Select, &[new[chosen[0].index()], sum, zero]).expect("a choice of numbers"))
}

/// The sums whose scores are read by such sums alone, or by what combines them along an axis, which computes the scores
/// itself; and the mixtures of scores in them.
fn found(g: &Graph) -> (BTreeMap<NodeId, Weighted>, BTreeSet<NodeId>) {
    let scores = Scores::new(g);
    let extents = nominal_extents(&Known::of(g));
    let open = LazyCell::new(|| open_values(g));
    // A value that is read outside of the choice it stood under must be there, and so must a mask.
    let stays = |sum: &Weighted| {
        let mut values = sum.values.above.iter().chain(&sum.values.below);
        let nested = sum.masks.len() > 1 && sum.masks.iter().any(|mask| open.is_open(*mask));
        sum.masks.is_empty() || !(nested || values.any(|v| open.is_open(*v)))
    };
    let found = g.ids().filter_map(|id| Some((id, weighted(g, &scores, &extents, id)?)));
    let mut found: BTreeMap<NodeId, Weighted> = found.filter(|(_, sum)| stays(sum)).collect();
    let all = found.clone();
    // What one of them needs stored is stored for all.
    loop {
        let known: BTreeSet<NodeId> = found.keys().copied().collect();
        let computes = |id: &NodeId| known.contains(id) || reduces_scores(g, *id);
        found.retain(|_, sum| {
            sum.scores.iter().all(|s| readers(g, *s).is_some_and(|r| r.iter().all(computes)))
        });
        if found.len() == known.len() {
            break;
        }
    }
    // Under a mask a sum is no product of matrices: scores that are stored are read by a pass, which skips what is masked.
    let is_masked = |sum: &Weighted| !sum.masks.is_empty() && matches!(sum.form, Replacement::Pass(_));
    for (id, sum) in all.into_iter().filter(|(_, sum)| is_masked(sum)) {
        found.entry(id).or_insert(sum);
    }
    // What one of them mixes it computes itself, from the scores on.
    let mixed: BTreeSet<NodeId> = found
        .values()
        .flat_map(|sum| sum.weights.above.iter().flat_map(|w| scores.mixtures(*w, sum.key)))
        .collect();
    found.retain(|id, _| !mixed.contains(id));
    // A pass is no product of queries and keys for another one.
    let passes: BTreeSet<NodeId> = found.keys().copied().collect();
    found.retain(|_, sum| sum.scores.iter().all(|s| !passes.contains(s)));
    (found, mixed)
}

/// A sum over keys of a product, with the factors that are made of scores by themselves.
struct Summed {
    key: AxisId,
    /// Where one of them does not hold the product is zero.
    masks: Vec<NodeId>,
    /// Factors made of scores.
    weights: Factors,
    /// The other factors.
    rest: Factors,
    scores: BTreeSet<NodeId>,
    /// Whether the weights are divided by their sum.
    averaged: bool,
}

/// The sum `id` of a product, if it is one.
fn summed(g: &Graph, known: &Scores<'_>, id: NodeId) -> Option<Summed> {
    let Op::Reduce(ReduceOp::Sum, key) = *g.op(id) else { return None };
    let inside = g.args(id)[0];
    let chosen = under_condition(g, inside);
    let (mut masks, product) = chosen.map_or((vec![], inside), |(mask, product)| (vec![mask], product));
    if g.node(product).dtype != DType::F32 || !matches!(g.op(product), Op::Map(MapOp::Mul | MapOp::Div)) {
        return None;
    }
    let scores_in = |id: NodeId| !known.inside(id, key).is_empty();
    let factors = factors_under_masks(g, product, &scores_in, &mut masks);
    let is_norm = |id: &NodeId| *g.op(*id) == Op::Fused(FusedOp::Norm, key);
    let (norms, above): (Vec<NodeId>, Vec<NodeId>) = factors.above.into_iter().partition(is_norm);
    let mut rest = Factors { above, ..factors };
    let (mut weights, averaged) = match (norms.as_slice(), masks.as_slice()) {
        ([], _) => (Factors::default(), false),
        ([norm], []) => (Factors { above: g.args(*norm).to_vec(), below: vec![] }, true),
        _ => return None,
    };
    let mut scores = BTreeSet::new();
    let mut is_score = |id: &NodeId| {
        let before = scores.len();
        scores.extend(known.inside(*id, key));
        scores.len() > before
    };
    if averaged {
        is_score(&weights.above[0]);
    } else {
        (weights.above, rest.above) = rest.above.into_iter().partition(&mut is_score);
        (weights.below, rest.below) = rest.below.into_iter().partition(&mut is_score);
    }
    Some(Summed { key, masks, weights, rest, scores, averaged })
}

/// The factors of a product, and of what stands under choices of zero in it; these are masks of the weights.
fn factors_under_masks(
    g: &Graph,
    product: NodeId,
    has_scores: &impl Fn(NodeId) -> bool,
    masks: &mut Vec<NodeId>,
) -> Factors {
    let mut factors = Factors::default();
    let mut stack = vec![product];
    while let Some(id) = stack.pop() {
        let Factors { above, below } = Factors::of(g, id, &|id| g.has_one_reader(id));
        factors.below.extend(below);
        for factor in above {
            let args = g.args(factor);
            let is_choice =
                *g.op(factor) == Op::Map(MapOp::Select) && *g.op(args[2]) == Op::Const(Const::f32(0.0));
            // A value that is chosen for each query is a value of its own for each: the choice is a mask of the weights.
            let is_mask =
                is_choice && (has_scores(factor) || !g.node(args[0]).axes.is_subset(&g.node(args[1]).axes));
            if is_mask {
                if !masks.contains(&args[0]) {
                    masks.push(args[0]);
                }
                let is_product = matches!(g.op(args[1]), Op::Map(MapOp::Mul | MapOp::Div | MapOp::Select));
                match is_product && g.has_one_reader(args[1]) {
                    true => stack.push(args[1]),
                    false => factors.above.push(args[1]),
                }
            } else {
                let hidden = mask_of_exponent(g, factor).filter(|_| has_scores(factor));
                masks.extend(hidden.filter(|mask| !masks.contains(mask)));
                factors.above.push(factor);
            }
        }
    }
    factors
}

/// The mask without which an exponential is that of -inf, with whatever is added to that or subtracted from it.
fn mask_of_exponent(g: &Graph, factor: NodeId) -> Option<NodeId> {
    if *g.op(factor) != Op::Map(MapOp::Exp) {
        return None;
    }
    let mut stack = g.args(factor).to_vec();
    while let Some(id) = stack.pop() {
        let args = g.args(id);
        match g.op(id) {
            Op::Map(MapOp::Select) if *g.op(args[2]) == Op::Const(Const::f32(f32::NEG_INFINITY)) => {
                return Some(args[0]);
            }
            Op::Map(MapOp::Add) if g.has_one_reader(id) => stack.extend(args),
            Op::Map(MapOp::Sub) if g.has_one_reader(id) => stack.push(args[0]),
            Op::Map(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Input(_) | Op::Param(_) => {}
            Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
    }
    None
}

/// The sum `id` taken apart, if its weights are made of scores.
fn weighted(g: &Graph, known: &Scores<'_>, extents: &[u64], id: NodeId) -> Option<Weighted> {
    let Summed { key, masks, mut weights, rest, scores, averaged } = summed(g, known, id)?;
    let weighed = axes(g, &weights, &masks);
    let (made, divided) = (weights.above.clone(), !weights.below.is_empty());
    // What has an axis of its own is a value; without any, whatever else depends on the key.
    let own = |id: &NodeId| !g.node(*id).axes.is_subset(&weighed);
    let (mut values, mut others) = partition(rest, own);
    let scale = match averaged {
        true => Factors::default(),
        false => {
            let (scale, rest) = partition(others, |id| matches!(g.op(*id), Op::Const(_)));
            others = rest;
            scale
        }
    };
    if values.above.is_empty() {
        return None;
    }
    if averaged {
        values.take(&others);
    }
    let of_values = axes(g, &values, &[]);
    let queries: AxisSet = weighed.iter().filter(|a| *a != key && !of_values.contains(*a)).collect();
    let meets = |id: &NodeId| {
        let axes = &g.node(*id).axes;
        axes.contains(key) && axes.iter().any(|a| queries.contains(a))
    };
    if scores.is_empty() || !scores.iter().all(meets) || !of_values.contains(key) {
        return None;
    }
    // A product and what belongs to one of its operands is a product still.
    // So is one whose values are divided for each key, but the rules take no quotient to be finite and leave its order.
    let is_quotient = others.below.iter().any(|id| g.node(*id).axes.contains(key));
    let bends =
        !masks.is_empty() || divided || made.len() > 1 || others.above.iter().chain(&others.below).any(meets);
    let scores: Vec<NodeId> = scores.into_iter().collect();
    let is_product = !bends && made == scores;
    let features = of_values.iter().filter(|a| !weighed.contains(*a)).collect();
    let is_cheap = is_product && is_cheaper(extents, key, depth(g, scores[0]), &queries, &features);
    let is_of_keys = others.above.iter().chain(&others.below).all(|id| {
        let axes = &g.node(*id).axes;
        axes.iter().all(|axis| !queries.contains(axis))
    });
    let form = match (averaged, is_product) {
        (false, true) if is_quotient && is_cheap && is_of_keys => Replacement::Products,
        (false, true) if !is_quotient => return None,
        (false, _) => Replacement::Pass(FusedOp::WeightedSum),
        (true, true) if is_cheap => Replacement::Shares,
        (true, _) => Replacement::Pass(FusedOp::WeightedMean),
    };
    // What only scales a weight goes with it, unless that would change what the weights sum to, or there are none.
    match form {
        Replacement::Pass(_) if !averaged => weights.take(&others),
        Replacement::Products => values.take(&others),
        Replacement::Pass(_) | Replacement::Shares => {}
    }
    Some(Weighted { key, masks, weights, values, scores, scale, form })
}

/// Whether `q (k v)` is cheaper than `(q k) v`, by the axes of the keys, of what scores sum over, of queries and of values.
fn is_cheaper(
    extents: &[u64],
    key: AxisId,
    depth: Option<AxisId>,
    queries: &AxisSet,
    features: &AxisSet,
) -> bool {
    let points = |axes: &AxisSet| points(extents, axes);
    let depth = depth.map_or(1, |axis| extents[axis.index()]);
    let (wide, rows, keys) = (points(features), points(queries), extents[key.index()]);
    let by_scores = rows.saturating_mul(keys).saturating_mul(depth.saturating_add(wide));
    depth.saturating_mul(wide).saturating_mul(rows.saturating_add(keys)) < by_scores
}

/// The factors for which `first` says yes, and the others.
fn partition(factors: Factors, first: impl Fn(&NodeId) -> bool) -> (Factors, Factors) {
    let (above, other_above) = factors.above.into_iter().partition(&first);
    let (below, other_below) = factors.below.into_iter().partition(&first);
    (Factors { above, below }, Factors { above: other_above, below: other_below })
}

/// The axes of a product, and of masks around it.
fn axes(g: &Graph, factors: &Factors, masks: &[NodeId]) -> AxisSet {
    let all = factors.above.iter().chain(&factors.below).chain(masks);
    all.fold(AxisSet::new(), |axes, id| axes.union(&g.node(*id).axes))
}

/// The sum in its form.
fn build(g: &Graph, b: &mut Builder, new: &[NodeId], digests: &[u64], sum: &Weighted) -> NodeId {
    let values = product(g, b, new, digests, &sum.values);
    match sum.form {
        Replacement::Pass(op) => {
            let weights = product(g, b, new, digests, &sum.weights);
            let masks = sum.masks.iter().map(|mask| new[mask.index()]);
            let mask = masks.reduce(|x, y| b.map(MapOp::And, &[x, y]).expect("truths"));
            let masked = mask.map(|mask| {
                let zero = b.constant(Const::f32(op.info().masked()));
                b.map(MapOp::Select, &[mask, weights, zero]).expect("a choice of numbers")
            });
            let pass = b.add(Op::Fused(op, sum.key), &[masked.unwrap_or(weights), values]).expect("numbers");
            scaled(b, new, pass, &sum.scale)
        }
        Replacement::Products | Replacement::Shares => {
            let scores = sum.scores[0];
            let depth = depth(g, scores).expect("scores are products");
            let [x, y] = [0, 1].map(|n| g.args(g.args(scores)[0])[n]);
            let (queries, keys) = if g.node(x).axes.contains(sum.key) { (y, x) } else { (x, y) };
            let (queries, keys) = (new[queries.index()], new[keys.index()]);
            let mut dot = |axis, left, right| {
                let product = b.map(MapOp::Mul, &[left, right]).expect("numbers");
                b.reduce(ReduceOp::Sum, axis, product).expect("numbers")
            };
            let kv = dot(sum.key, keys, values);
            let context = dot(depth, queries, kv);
            if sum.form == Replacement::Products {
                return scaled(b, new, context, &sum.scale);
            }
            let all = b.reduce(ReduceOp::Sum, sum.key, keys).expect("numbers");
            let product = b.map(MapOp::Mul, &[queries, all]).expect("numbers");
            let total = b.reduce(ReduceOp::Sum, depth, product).expect("numbers");
            b.map(MapOp::Div, &[context, total]).expect("numbers")
        }
    }
}

/// A sum with the literals that are factors of it.
fn scaled(b: &mut Builder, new: &[NodeId], sum: NodeId, scale: &Factors) -> NodeId {
    let mut by = |op, sum: NodeId, factors: &[NodeId]| {
        factors.iter().fold(sum, |sum, by| b.map(op, &[sum, new[by.index()]]).expect("numbers"))
    };
    let sum = by(MapOp::Mul, sum, &scale.above);
    by(MapOp::Div, sum, &scale.below)
}

/// The product of factors, in one order.
fn product(g: &Graph, b: &mut Builder, new: &[NodeId], digests: &[u64], factors: &Factors) -> NodeId {
    if !factors.above.is_empty() {
        return product_in_order(g, b, new, digests, factors);
    }
    let below = Factors { above: factors.below.clone(), below: vec![] };
    let below = product_in_order(g, b, new, digests, &below);
    b.map(MapOp::Recip, &[below]).expect("a number")
}
