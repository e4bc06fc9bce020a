//! Weights that others read than a product with values: how much each key is attended to, the entropy of a row, values that
//! differ from query to query or have no axis of their own.
//!
//! With the log-sum-exp of its row a weight is known by itself, `exp(s - lse)`, so that such sums are over expressions of
//! scores, and no matrix of weights is stored. Where the log-sum-exp would round what the scores differ by, it follows from the
//! greatest score and a sum instead. Weights that are asked for themselves stay: those are stored anyway.

use crate::after::scores::{Scores, readers, reduces_scores};
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
    /// A further score of the row, which has no value.
    sink: Option<NodeId>,
    /// Whether a row of which every key is masked is zeros.
    zeros: bool,
    /// Whether the scores are weights themselves, which are divided by their sum.
    share: bool,
    /// The operators that read such weights and go on to sums over other axes than the row, if others read them for a mean: these
    /// alone read them as weights by themselves then.
    beside_means: BTreeSet<NodeId>,
    /// The products of queries and keys inside the score.
    inside: BTreeSet<NodeId>,
}

/// The same graph with such weights made from the log-sum-exp of their row.
pub(crate) fn by_log_sum_exp(g: &Graph) -> Rewritten {
    let found = found(g);
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite_in_order(g, |b, new, id| match found.get(&id) {
        Some(w) if w.beside_means.is_empty() => Some(build(g, b, new, w)),
        Some(_) | None => {
            let args = g.args(id);
            let beside = |x: &NodeId| found.get(x).filter(|w| w.beside_means.contains(&id));
            let is_any = args.iter().any(|x| beside(x).is_some());
            let of = |b: &mut Builder, x: &NodeId| beside(x).map_or(new[x.index()], |w| build(g, b, new, w));
            let args = is_any.then(|| args.iter().map(|x| of(b, x)).collect::<Vec<NodeId>>())?;
            b.add(g.op(id).clone(), &args).ok()
        }
    })
}

fn found(g: &Graph) -> BTreeMap<NodeId, WeightedRow> {
    let scores = Scores::new(g);
    let mut found: BTreeMap<NodeId, WeightedRow> =
        g.ids().filter_map(|id| Some((id, weights(g, &scores, id)?))).collect();
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

fn weights(g: &Graph, scores: &Scores<'_>, id: NodeId) -> Option<WeightedRow> {
    let Op::Fused(op, key) = *g.op(id) else { return None };
    let args = g.args(id);
    let info = op.info();
    let share = op == FusedOp::Norm;
    if !share && !matches!(info.weights, RowWeights::Softmax | RowWeights::ExpNorm) {
        return None;
    }
    let (value, sink) = (info.has_values().then(|| args[1]), info.sink.then(|| args[args.len() - 1]));
    let zeros = info.weights == RowWeights::Softmax && !info.sink;
    let score = args[0];
    let inside = scores.inside(score, key);
    // Along which the rows of a tile could be that share their values.
    let shared = |value: NodeId| {
        let queries = |product: &NodeId| {
            let axes = &g.node(*product).axes;
            axes.iter().any(|a| a != key && !g.node(value).axes.contains(a))
        };
        inside.iter().any(queries)
    };
    // Where values have no axis of their own there is no product with them.
    let has_width = |value: NodeId| !g.node(value).axes.is_subset(&g.node(score).axes);
    // A sum of values along the row is a mean, which is one pass.
    let is_mean = |id: &NodeId| share && g.op(*id).bound() == Some(key);
    let mut beside_means = BTreeSet::new();
    let wanted = match value {
        Some(value) => !shared(value) || !has_width(value) || scores.are_of_rows(value, score, key),
        None => readers(g, id).is_some_and(|read| {
            if read.iter().any(is_mean) {
                beside_means = g.users(id).into_iter().filter(|user| !leads_to(g, *user, is_mean)).collect();
            }
            let are_others = beside_means.is_empty() != read.iter().any(is_mean);
            are_others && read.iter().all(|id| reduces_scores(g, *id))
        }),
    };
    let row = WeightedRow { key, score, value, sink, zeros, share, beside_means, inside };
    (wanted && !row.inside.is_empty()).then_some(row)
}

/// Whether an operator that reads weights is such a reader, or one of what it makes of them element by element is.
fn leads_to(g: &Graph, user: NodeId, is_one: impl Fn(&NodeId) -> bool) -> bool {
    let is_end = g.op(user).class() != Class::Map;
    if is_end { is_one(&user) } else { readers(g, user).is_none_or(|read| read.iter().any(is_one)) }
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
/// Of a row in which every key is masked they are zeros if `zeros`. A sink takes its share of them.
pub(crate) fn weights_by_log_sum_exp(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    (key, score, zeros): (AxisId, NodeId, bool),
    sink: Option<NodeId>,
) -> (Option<NodeId>, NodeId) {
    let masked = new[score.index()];
    let low = b.constant(Const::f32(f32::NEG_INFINITY));
    let zero = b.constant(Const::f32(0.0));
    let lse = b.add(Op::Fused(FusedOp::LogSumExp, key), &[masked]).expect("numbers");
    let one = b.constant(Const::f32(1.0));
    let mut map = |op, args: &[NodeId]| b.map(op, args).expect("numbers");
    let zeros = zeros || sink.is_some();
    let shift = if zeros {
        // No key: any finite shift gives zeros.
        let some = map(MapOp::Ne, &[lse, low]);
        map(MapOp::Select, &[some, lse, zero])
    } else {
        lse
    };
    // The mask goes around all of it, where tiles of keys can be told by it.
    let (mask, score) = match mask_of(g, score).filter(|_| zeros) {
        Some(mask) => (Some(new[mask.index()]), new[g.args(score)[1].index()]),
        None => (None, masked),
    };
    let by = map(MapOp::Sub, &[score, shift]);
    let weight = map(MapOp::Exp, &[by]);
    let Some(sink) = sink else { return (mask, weight) };
    // What the sink leaves of the row: exp(lse) / (exp(lse) + exp(sink)).
    let by = map(MapOp::Sub, &[new[sink.index()], shift]);
    let beside = map(MapOp::Exp, &[by]);
    let sum = map(MapOp::Add, &[beside, one]);
    let left = map(MapOp::Recip, &[sum]);
    (mask, map(MapOp::Mul, &[weight, left]))
}

/// The weights of a row by its greatest score and the sum of their exponentials relative to that, which stay apart.
struct Exponentials {
    /// Where they are not zero, if that is known.
    mask: Option<NodeId>,
    /// What they are there.
    exponential: NodeId,
    /// What they are divided by.
    sum: NodeId,
}

fn exponentials(g: &Graph, b: &mut Builder, new: &[NodeId], w: &WeightedRow) -> Exponentials {
    let masked = new[w.score.index()];
    let [low, zero, one] = [f32::NEG_INFINITY, 0.0, 1.0].map(|x| b.constant(Const::f32(x)));
    let greatest = b.reduce(ReduceOp::Max, w.key, masked).expect("numbers");
    let sink = w.sink.map(|sink| new[sink.index()]);
    let greatest = sink.map_or(greatest, |sink| b.map(MapOp::Max, &[greatest, sink]).expect("numbers"));
    let some = b.map(MapOp::Ne, &[greatest, low]).expect("numbers");
    let shift = b.map(MapOp::Select, &[some, greatest, zero]).expect("numbers");
    // Of a row in which all is masked the sum is zero: what is divided by it says so, but for weights that are read by themselves.
    let (mask, score) = match mask_of(g, w.score) {
        Some(mask) if w.zeros || w.sink.is_some() || w.value.is_some() => {
            (Some(new[mask.index()]), new[g.args(w.score)[1].index()])
        }
        Some(_) | None => (None, masked),
    };
    let relative = |b: &mut Builder, score: NodeId| {
        let by = b.map(MapOp::Sub, &[score, shift]).expect("numbers");
        b.map(MapOp::Exp, &[by]).expect("numbers")
    };
    let exponential = relative(b, score);
    let kept = under(b, mask, exponential);
    let sum = b.reduce(ReduceOp::Sum, w.key, kept).expect("numbers");
    let sum = match sink {
        Some(sink) => {
            let beside = relative(b, sink);
            b.map(MapOp::Add, &[sum, beside]).expect("numbers")
        }
        None => sum,
    };
    let sum = if w.zeros {
        let some = b.map(MapOp::Ne, &[sum, zero]).expect("numbers");
        b.map(MapOp::Select, &[some, sum, one]).expect("numbers")
    } else {
        sum
    };
    Exponentials { mask, exponential, sum }
}

/// The mask of a score, if that is -inf where it does not hold.
fn mask_of(g: &Graph, score: NodeId) -> Option<NodeId> {
    let low = Op::Const(Const::f32(f32::NEG_INFINITY));
    let args = g.args(score);
    (*g.op(score) == Op::Map(MapOp::Select) && *g.op(args[2]) == low).then(|| args[0])
}

/// A number where a mask holds, zero elsewhere.
fn under(b: &mut Builder, mask: Option<NodeId>, number: NodeId) -> NodeId {
    let zero = b.constant(Const::f32(0.0));
    mask.map_or(number, |mask| b.map(MapOp::Select, &[mask, number, zero]).expect("numbers"))
}

/// The weights that are divided by their sum, with the mask outside without which they are zero.
fn shares(g: &Graph, b: &mut Builder, new: &[NodeId], w: &WeightedRow) -> NodeId {
    let args = g.args(w.score);
    let zero = Op::Const(Const::f32(0.0));
    let is_masked = *g.op(w.score) == Op::Map(MapOp::Select) && *g.op(args[2]) == zero;
    let weight = new[w.score.index()];
    let sum = b.reduce(ReduceOp::Sum, w.key, weight).expect("numbers");
    let (mask, weight) =
        if is_masked { (Some(new[args[0].index()]), new[args[1].index()]) } else { (None, weight) };
    let share = b.map(MapOp::Div, &[weight, sum]).expect("numbers");
    under(b, mask, share)
}

/// The weights, or the sum of values under them.
fn build(g: &Graph, b: &mut Builder, new: &[NodeId], w: &WeightedRow) -> NodeId {
    if w.share {
        return shares(g, b, new, w);
    }
    let (mask, weight, sum) = if has_sentinel(g, w.score) {
        let Exponentials { mask, exponential, sum } = exponentials(g, b, new, w);
        (mask, exponential, Some(sum))
    } else {
        let (mask, weight) = weights_by_log_sum_exp(g, b, new, (w.key, w.score, w.zeros), w.sink);
        (mask, weight, None)
    };
    let divided =
        |b: &mut Builder, x: NodeId| sum.map_or(x, |sum| b.map(MapOp::Div, &[x, sum]).expect("numbers"));
    match w.value {
        Some(value) => {
            let weighed = b.map(MapOp::Mul, &[weight, new[value.index()]]).expect("numbers");
            let kept = under(b, mask, weighed);
            let total = b.reduce(ReduceOp::Sum, w.key, kept).expect("numbers");
            divided(b, total)
        }
        None => {
            let weight = divided(b, weight);
            under(b, mask, weight)
        }
    }
}
