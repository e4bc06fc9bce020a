//! Weights that others read than a sum of values: how much each key is attended to, the entropy of a row, values that
//! differ from query to query.
//!
//! With the log-sum-exp of its row a weight is known by itself, `exp(s - lse)`, so that such sums are over expressions of
//! scores, and no matrix of weights is stored. Weights that are asked for themselves stay: those are stored anyway.

use crate::after::scores::{find_scores, readers};
use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use salient_ir::op::RowWeights as Made;
use salient_ir::{AxisId, Builder, Class, Const, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// A softmax, or an attention whose values differ from query to query.
struct Weights {
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

fn found(g: &Graph) -> BTreeMap<NodeId, Weights> {
    let data = g.of_inputs();
    let mut found: BTreeMap<NodeId, Weights> =
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

/// Whether a node needs no scores in memory: it combines them along an axis.
fn reduces_scores(g: &Graph, id: NodeId) -> bool {
    if let Op::Fused(op, _) = g.op(id) {
        return op.info().reduces;
    }
    matches!(g.op(id), Op::Reduce(ReduceOp::Sum | ReduceOp::Max, _))
}

fn weights(g: &Graph, data: &[bool], id: NodeId) -> Option<Weights> {
    let Op::Fused(op, key) = *g.op(id) else { return None };
    let args = g.args(id);
    let info = op.info();
    if info.sink || !matches!(info.weights, Made::Softmax | Made::ExpNorm) {
        return None;
    }
    let (value, zeros) = (info.has_values().then(|| args[1]), info.weights == Made::Softmax);
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
    (wanted && !inside.is_empty() && !has_sentinel(g, score)).then_some(Weights {
        key,
        score,
        value,
        zeros,
        inside,
    })
}

/// Literals of scores from which on a difference to a log-sum-exp has lost the digits that make a weight.
const LARGE: f64 = 1e4;

/// Whether scores may be a large number that stands for a masked key: of a row in which all are, the log-sum-exp is that number
/// and nothing else, and the weights would not sum to one.
fn has_sentinel(g: &Graph, score: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![score]);
    while let Some(id) = stack.pop() {
        if let Op::Const(Const::F32(bits)) = g.op(id) {
            let value = f64::from(f32::from_bits(*bits));
            if value.is_finite() && value.abs() >= LARGE {
                return true;
            }
        }
        let goes_on = matches!(g.op(id).class(), Class::Map | Class::View | Class::Concat);
        if goes_on && seen.insert(id) {
            stack.extend(g.args(id));
        }
    }
    false
}

/// The weights, or the sum of values under them.
fn build(g: &Graph, b: &mut Builder, new: &[NodeId], w: &Weights) -> NodeId {
    let score = new[w.score.index()];
    let low = b.constant(Const::f32(f32::NEG_INFINITY));
    let zero = b.constant(Const::f32(0.0));
    let lse = b.add(Op::Fused(FusedOp::LogSumExp, w.key), &[score]).expect("numbers");
    let mut map = |op, args: &[NodeId]| b.map(op, args).expect("numbers");
    let shift = if w.zeros {
        // No key: any finite shift gives zeros.
        let some = map(MapOp::Ne, &[lse, low]);
        map(MapOp::Select, &[some, lse, zero])
    } else {
        lse
    };
    // The mask goes around all of it, where tiles of keys can be told by it.
    let args = g.args(w.score);
    let masked = w.zeros
        && *g.op(w.score) == Op::Map(MapOp::Select)
        && *g.op(args[2]) == Op::Const(Const::f32(f32::NEG_INFINITY));
    let (mask, score) =
        if masked { (Some(new[args[0].index()]), new[args[1].index()]) } else { (None, score) };
    let by = map(MapOp::Sub, &[score, shift]);
    let weight = map(MapOp::Exp, &[by]);
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
