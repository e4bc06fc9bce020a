//! Weights that others read than a sum of values: how much each key is attended to, the entropy of a row, values that
//! differ from query to query.
//!
//! With the log-sum-exp of its row a weight is known by itself, `exp(s - lse)`, so that such sums are over expressions of
//! scores, and no matrix of weights is stored. Weights that are asked for themselves stay: those are stored anyway.

use crate::after::scores::{find_scores, readers, reduces_scores};
use crate::facts::is_sentinel;
use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use salient_ir::op::RowWeights;
use salient_ir::{AxisId, Builder, Class, Const, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// A softmax, or an attention whose values differ from query to query.
struct WeightedRow {
    key: AxisId,
    score: NodeId,
    value: Option<NodeId>,
    /// Whether a row of which every key is masked is zeros.
    zeros: bool,
    /// The products of queries and keys inside the score.
    inside: BTreeSet<NodeId>,
}

/// The same graph with such weights made from the log-sum-exp of their row.
pub(crate) fn by_log_sum_exp(g: &Graph) -> Rewritten {
    let found = found(g);
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite_in_order(g, |b, new, id| Some(build(g, b, new, found.get(&id)?)))
}

fn found(g: &Graph) -> BTreeMap<NodeId, WeightedRow> {
    let data = g.of_inputs();
    let mut found: BTreeMap<NodeId, WeightedRow> =
        g.ids().filter_map(|id| Some((id, weights(g, &data, id)?))).collect();
    // Scores that are stored for one reader are stored for all.
    loop {
        let known: BTreeSet<NodeId> = found.keys().copied().collect();
        let computes = |id: &NodeId| known.contains(id) || reduces_scores(g, *id);
        found.retain(|_, w| w.inside.iter().all(|s| readers(g, *s).is_some_and(|r| r.iter().all(computes))));
        if found.len() == known.len() {
            return found;
        }
    }
}

fn weights(g: &Graph, data: &[bool], id: NodeId) -> Option<WeightedRow> {
    let Op::Fused(op, key) = *g.op(id) else { return None };
    let args = g.args(id);
    let info = op.info();
    if info.sink || !matches!(info.weights, RowWeights::Softmax | RowWeights::ExpNorm) {
        return None;
    }
    let (value, zeros) = (info.has_values().then(|| args[1]), info.weights == RowWeights::Softmax);
    let score = args[0];
    let mut inside = BTreeSet::new();
    find_scores(g, data, score, key, &mut inside);
    // Along which the rows of a tile could be that share their values.
    let shared = |value: NodeId| {
        let queries = |product: &NodeId| {
            let axes = &g.node(*product).axes;
            axes.iter().any(|a| a != key && !g.node(value).axes.contains(a))
        };
        inside.iter().any(queries)
    };
    let wanted = match value {
        Some(value) => !shared(value),
        None => readers(g, id).is_some_and(|r| r.iter().all(|id| reduces_scores(g, *id))),
    };
    (wanted && !inside.is_empty() && !has_sentinel(g, score)).then_some(WeightedRow {
        key,
        score,
        value,
        zeros,
        inside,
    })
}

/// Whether scores may be a sentinel, or as large a number: of a row in which all are, the log-sum-exp is that number and nothing
/// else, and the weights would not sum to one.
pub(crate) fn has_sentinel(g: &Graph, score: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![score]);
    while let Some(id) = stack.pop() {
        if let Op::Const(c @ Const::F32(_)) = g.op(id)
            && is_sentinel(-c.value().abs())
        {
            return true;
        }
        let goes_on = matches!(g.op(id).class(), Class::Map | Class::View | Class::Concat);
        if goes_on && seen.insert(id) {
            stack.extend(g.args(id));
        }
    }
    false
}

/// The weights that a softmax along a key makes of a score: where they are not zero, if that is known, and what they are there.
/// Of a row in which every key is masked they are zeros if `zeros`.
pub(crate) fn weights_by_log_sum_exp(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    (key, score, zeros): (AxisId, NodeId, bool),
) -> (Option<NodeId>, NodeId) {
    let (args, masked) = (g.args(score), new[score.index()]);
    let low = b.constant(Const::f32(f32::NEG_INFINITY));
    let zero = b.constant(Const::f32(0.0));
    let lse = b.add(Op::Fused(FusedOp::LogSumExp, key), &[masked]).expect("numbers");
    let mut map = |op, args: &[NodeId]| b.map(op, args).expect("numbers");
    let shift = if zeros {
        // No key: any finite shift gives zeros.
        let some = map(MapOp::Ne, &[lse, low]);
        map(MapOp::Select, &[some, lse, zero])
    } else {
        lse
    };
    // The mask goes around all of it, where tiles of keys can be told by it.
    let is_masked = zeros
        && *g.op(score) == Op::Map(MapOp::Select)
        && *g.op(args[2]) == Op::Const(Const::f32(f32::NEG_INFINITY));
    let (mask, score) =
        if is_masked { (Some(new[args[0].index()]), new[args[1].index()]) } else { (None, masked) };
    let by = map(MapOp::Sub, &[score, shift]);
    (mask, map(MapOp::Exp, &[by]))
}

/// The weights, or the sum of values under them.
fn build(g: &Graph, b: &mut Builder, new: &[NodeId], w: &WeightedRow) -> NodeId {
    let (mask, weight) = weights_by_log_sum_exp(g, b, new, (w.key, w.score, w.zeros));
    let zero = b.constant(Const::f32(0.0));
    let mut map = |op, args: &[NodeId]| b.map(op, args).expect("numbers");
    let weighed = match w.value {
        Some(value) => map(MapOp::Mul, &[weight, new[value.index()]]),
        None => weight,
    };
    let kept = mask.map_or(weighed, |mask| map(MapOp::Select, &[mask, weighed, zero]));
    match w.value {
        Some(_) => b.reduce(ReduceOp::Sum, w.key, kept).expect("numbers"),
        None => kept,
    }
}
