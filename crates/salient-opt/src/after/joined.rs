//! Attentions and other sums over the same values that are added up, `a softmax(s) v - b softmax(t) v`: one sum under the sum of
//! their weights, as differential attention is written (Ye et al., "Differential Transformer", 2024).
//!
//! The rules take such a sum apart, into terms that others may share. Here, where nobody does, it is one product with the values
//! instead of one for each term. The pass takes rows that are as many as keys: few rows would read keys and values where they lie.

use crate::after::log_sum_exp::{has_sentinel, weights_by_log_sum_exp};
use crate::after::scores::{Scores, readers, reduces_scores};
use crate::graph::choices::under_condition;
use crate::graph::digest::digests;
use crate::graph::factors::{Factors, product_in_order};
use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use salient_ir::{AxisId, AxisSet, Builder, Const, DType, FusedOp, Graph, MapOp, NodeId, Op};
use std::collections::BTreeMap;

/// A term of a sum.
struct Term {
    is_subtracted: bool,
    node: NodeId,
    /// The attention that it is, and what else it is a product of.
    attention: Option<(NodeId, Factors)>,
}

/// What attentions have in common that may be joined: keys, values, and the axes of their scores.
type Shared = (AxisId, NodeId, AxisSet);

/// Which attentions are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Those with as many rows as keys.
    AsKeys,
    Any,
}

/// The same graph with attentions over the same values joined where they are added up.
pub(crate) fn joined_attentions(g: &Graph) -> Rewritten {
    joined_of(g, Rows::AsKeys)
}

/// As [`joined_attentions`], of such rows.
pub(crate) fn joined_of(g: &Graph, rows: Rows) -> Rewritten {
    let scores = Scores::new(g);
    let sums = g.ids().filter(|id| is_sum(g, *id) && !is_inside(g, *id));
    let found: BTreeMap<NodeId, Vec<Term>> = sums
        .map(|id| (id, terms(g, (&scores, rows), id)))
        .filter(|(_, terms)| !joined(g, terms).is_empty())
        .collect();
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    let digests = digests(g);
    rewrite_in_order(g, |b, new, id| Some(build(g, b, new, &digests, found.get(&id)?)))
}

fn is_sum(g: &Graph, id: NodeId) -> bool {
    matches!(g.op(id), Op::Map(MapOp::Add | MapOp::Sub)) && g.node(id).dtype == DType::F32
}

/// Whether one node alone reads it, once.
fn is_private(g: &Graph, id: NodeId) -> bool {
    let reads = g.users(id).iter().flat_map(|user| g.args(*user)).filter(|arg| *arg == id).count();
    g.has_one_reader(id) && reads == 1
}

/// Whether a sum is a term of another one.
fn is_inside(g: &Graph, id: NodeId) -> bool {
    is_private(g, id) && is_sum(g, g.users(id)[0])
}

/// The terms of a sum.
fn terms(g: &Graph, (known, rows): (&Scores<'_>, Rows), root: NodeId) -> Vec<Term> {
    let (mut out, mut stack) = (Vec::new(), vec![(root, false)]);
    while let Some((id, is_subtracted)) = stack.pop() {
        if is_sum(g, id) && (id == root || is_private(g, id)) {
            let args = g.args(id);
            let turns = *g.op(id) == Op::Map(MapOp::Sub);
            stack.extend([(args[1], is_subtracted != turns), (args[0], is_subtracted)]);
        } else {
            out.push(Term { is_subtracted, node: id, attention: attention(g, (known, rows), id) });
        }
    }
    out
}

/// The attention that a term is a multiple of, if its scores need not be stored and its factors do not depend on what the values
/// have alone.
fn attention(g: &Graph, (known, rows): (&Scores<'_>, Rows), term: NodeId) -> Option<(NodeId, Factors)> {
    let mut factors = Factors::of(g, term, &|id| is_private(g, id));
    let is_one = |id: &NodeId| matches!(g.op(*id), Op::Fused(FusedOp::Attend | FusedOp::WeightedSum, _));
    let at = factors.above.iter().position(is_one)?;
    let attention = factors.above.remove(at);
    let Op::Fused(op, key) = *g.op(attention) else { return None };
    let (score, value) = (g.args(attention)[0], g.args(attention)[1]);
    let (of_score, of_value) = (&g.node(score).axes, &g.node(value).axes);
    let scores = known.inside(score, key);
    let need_not_be_stored =
        |id: &NodeId| readers(g, *id).is_some_and(|all| all.iter().all(|r| reduces_scores(g, *r)));
    let is_as_long = |axis: AxisId| rows == Rows::Any || g.extent(axis) == g.extent(key);
    let has_rows = |axis: AxisId| axis != key && !of_value.contains(axis) && is_as_long(axis);
    let fits = is_private(g, attention)
        && !scores.is_empty()
        && scores.iter().all(need_not_be_stored)
        && of_score.iter().any(has_rows)
        && factors.above.iter().chain(&factors.below).all(|id| g.node(*id).axes.is_subset(of_score))
        && (op == FusedOp::WeightedSum || !has_sentinel(g, score));
    fits.then_some((attention, factors))
}

fn shared(g: &Graph, attention: NodeId) -> Option<Shared> {
    let Op::Fused(_, key) = *g.op(attention) else { return None };
    let args = g.args(attention);
    Some((key, args[1], g.node(args[0]).axes.clone()))
}

/// The terms, by position, that are joined: those that have most in common with others.
fn joined(g: &Graph, terms: &[Term]) -> Vec<usize> {
    let mut alike: Vec<(Shared, Vec<usize>)> = Vec::new();
    for (at, term) in terms.iter().enumerate() {
        let Some(shared) = term.attention.as_ref().and_then(|(attention, _)| shared(g, *attention)) else {
            continue;
        };
        match alike.iter_mut().find(|(known, _)| *known == shared) {
            Some((_, all)) => all.push(at),
            None => alike.push((shared, vec![at])),
        }
    }
    let most = alike.into_iter().map(|(_, all)| all).max_by_key(|all| (all.len(), std::cmp::Reverse(all[0])));
    most.filter(|all| all.len() > 1).unwrap_or_default()
}

/// Weights as a mask, if they are zero where that does not hold, and what they are where it does.
fn under_mask(g: &Graph, new: &[NodeId], weights: NodeId) -> (Option<NodeId>, NodeId) {
    let (mask, weights) = match under_condition(g, weights) {
        Some((mask, kept)) => (Some(mask), kept),
        None => (None, weights),
    };
    (mask.map(|mask| new[mask.index()]), new[weights.index()])
}

/// A sum with a further term.
fn with_term(b: &mut Builder, sum: Option<NodeId>, is_subtracted: bool, x: NodeId) -> NodeId {
    let made = match (sum, is_subtracted) {
        (None, false) => return x,
        (None, true) => b.map(MapOp::Neg, &[x]),
        (Some(sum), false) => b.map(MapOp::Add, &[sum, x]),
        (Some(sum), true) => b.map(MapOp::Sub, &[sum, x]),
    };
    made.expect("numbers")
}

/// The sum with its attentions joined. A mask that all of them have is one around the sum of their weights.
fn build(g: &Graph, b: &mut Builder, new: &[NodeId], digests: &[u64], terms: &[Term]) -> NodeId {
    let joined = joined(g, terms);
    let of = |at: &usize| terms[*at].attention.as_ref().expect("it is an attention");
    let (key, value, _) = shared(g, of(&joined[0]).0).expect("it is an attention");
    let weights: Vec<(Option<NodeId>, NodeId)> = (joined.iter())
        .map(|at| {
            let (attention, factors) = of(at);
            let score = g.args(*attention)[0];
            let (mask, mut weight) = if matches!(g.op(*attention), Op::Fused(FusedOp::WeightedSum, _)) {
                under_mask(g, new, score)
            } else {
                weights_by_log_sum_exp(g, b, new, (key, score, true), None)
            };
            if !factors.above.is_empty() {
                let above = Factors { below: Vec::new(), ..factors.clone() };
                let by = product_in_order(g, b, new, digests, &above);
                weight = b.map(MapOp::Mul, &[weight, by]).expect("numbers");
            }
            let divided = |x, by: &NodeId| b.map(MapOp::Div, &[x, new[by.index()]]).expect("numbers");
            (mask, factors.below.iter().fold(weight, divided))
        })
        .collect();
    let zero = b.constant(Const::f32(0.0));
    let kept = |b: &mut Builder, mask: Option<NodeId>, x: NodeId| match mask {
        Some(mask) => b.map(MapOp::Select, &[mask, x, zero]).expect("a choice of numbers"),
        None => x,
    };
    let mask = weights[0].0;
    let is_shared = weights.iter().all(|(own, _)| *own == mask);
    let mut sum: Option<NodeId> = None;
    for (at, (own, weight)) in joined.iter().zip(&weights) {
        let weight = if is_shared { *weight } else { kept(b, *own, *weight) };
        sum = Some(with_term(b, sum, terms[*at].is_subtracted, weight));
    }
    let sum = sum.expect("some are joined");
    let sum = if is_shared { kept(b, mask, sum) } else { sum };
    let pass = b.add(Op::Fused(FusedOp::WeightedSum, key), &[sum, new[value.index()]]).expect("numbers");
    let rest = terms.iter().enumerate().filter(|(at, _)| !joined.contains(at));
    rest.fold(pass, |sum, (_, term)| with_term(b, Some(sum), term.is_subtracted, new[term.node.index()]))
}
