//! What the reductions of a row of scores leave behind for those that come after them, and where.

use super::key_loop::KeyLoop;
use super::key_range::KeyRange;
use super::whole_rows::{Leaves, RowReduction, WholeRows};
use super::{Attention, Normaliser, Scores};
use crate::plan::Layouts;
use salient_ir::{Class, Const, DType, Graph, MapOp, NodeId, Op};
use std::collections::BTreeSet;

/// Decides what each of what is held leaves behind, and where.
pub(super) fn leave_behind(layouts: &Layouts<'_>, plan: &mut WholeRows, products: &[Scores]) {
    let g = layouts.graph;
    // A running sum that somebody reads at keys behind its mask goes on there.
    for at in 0..plan.held.len() {
        let own = &plan.held[at].attention;
        let is_running = matches!(own.normaliser, Normaliser::Running(_));
        if is_running && !is_found_by_readers(g, plan, (at, own.node), |id| layouts.is_stored(id)) {
            let own = &mut plan.held[at].key_loop;
            (own.range, own.mask) = (KeyRange::default(), None);
        }
    }
    let roots: Vec<NodeId> = plan.members().map(|(a, key_loop)| key_loop.score_in_range(a)).collect();
    for at in 0..plan.held.len() {
        let own = &plan.held[at].attention;
        let nodes = match own.normaliser {
            Normaliser::Running(_) | Normaliser::Mixture => vec![own.node],
            Normaliser::Softmax { .. } => exponentials_of(layouts, plan, &roots, at).into_iter().collect(),
            Normaliser::Sum | Normaliser::One | Normaliser::Greatest => {
                expensive_parts(layouts, plan, products, at)
            }
        };
        plan.held[at].leaves = nodes.into_iter().map(|node| Leaves { node, in_place_of: None }).collect();
    }
    let left: Vec<Vec<NodeId>> = plan.held.iter().map(|h| h.left().collect()).collect();
    // What a reduction leaves behind it computes itself.
    let reads = |at: usize, product: &Scores| {
        let before = &left[..at.min(left.len())];
        let is_left = |id: NodeId| before.iter().flatten().any(|left| *left == id);
        reaches(g, roots[at], |id| id == product.scaled(), |id| layouts.is_stored(id), is_left)
    };
    for at in 0..plan.held.len() {
        let is_last = |product: &&Scores| {
            reads(at, product) && (at + 1..roots.len()).all(|later| !reads(later, product))
        };
        // Where heads are mixed the place of a product is that of the mixed weights, and what is left is soon read.
        let mixes = !plan.heads.is_empty();
        let fits = |product: &Scores| product.shift.is_none() && !mixes && is_last(&product);
        let place = products.iter().position(fits);
        if let Some(leaves) = plan.held[at].leaves.first_mut() {
            leaves.in_place_of = place;
        }
    }
}

/// The value `exp(x - log_sum_exp(x))` that later expressions read of the reduction at a position, if there is one and all of these
/// find it where they read it.
fn exponentials_of(layouts: &Layouts<'_>, plan: &WholeRows, roots: &[NodeId], at: usize) -> Option<NodeId> {
    let g = layouts.graph;
    let RowReduction { attention: own, key_loop, .. } = &plan.held[at];
    let scores = masked_and_not(g, own.score, key_loop);
    // Of scores that are all one number where they are not masked there is one exponential for the row.
    let is_of_keys = |id: NodeId| g.node(id).axes.contains(own.key) && !layouts.is_stored(id);
    let found = g.ids().find(|id| is_of_keys(*id) && is_exponential_of(g, *id, &scores, own.node))?;
    let is_read = roots[at + 1..].iter().any(|root| layouts.reads(*root, |id| id == found));
    (is_read && is_found_by_readers(g, plan, (at, found), |id| layouts.is_stored(id))).then_some(found)
}

/// Whether all expressions that come after a reduction and read what it leaves behind find it there: at a key that it did not visit
/// there is zero. So these visit no other keys, or read exponentials under the mask by which they are zero.
pub(crate) fn is_found_by_readers(
    g: &Graph,
    plan: &WholeRows,
    (at, left): (usize, NodeId),
    is_stored: impl Fn(NodeId) -> bool,
) -> bool {
    let RowReduction { attention: own, key_loop, .. } = &plan.held[at];
    let is_left = |id: NodeId| id == left;
    let never = |_: NodeId| false;
    let is_softmax = matches!(own.normaliser, Normaliser::Softmax { .. });
    // Of what is not masked, or of masked scores themselves, there are exponentials at every key.
    let is_everywhere = match is_softmax {
        true => exponential_of_difference(g, left).is_some_and(|(x, _)| x == own.score),
        false => key_loop.range == KeyRange::default(),
    };
    // A mixture has no mask: those have one that read it.
    let same = |a: &Attention, other: &KeyLoop| {
        let is_masked = |of: &KeyLoop| of.mask_by_range().is_some();
        let is_mixture = a.normaliser == Normaliser::Mixture;
        other.range == key_loop.range
            && (!is_softmax || is_masked(key_loop) && (is_masked(other) || is_mixture))
    };
    let is_under_mask = |root: NodeId| {
        let is_masked = |id: NodeId| {
            is_choice_with(g, id, own.score) && !reaches(g, g.args(id)[2], is_left, &is_stored, never)
        };
        is_softmax && !reaches(g, root, is_left, &is_stored, is_masked)
    };
    let later: Vec<(&Attention, &KeyLoop, NodeId)> =
        plan.members().skip(at + 1).map(|(a, of)| (a, of, of.score_in_range(a))).collect();
    let reads = |root: NodeId| reaches(g, root, is_left, &is_stored, never);
    // What reads a mixture reads it at every key of that.
    let mixes = later.iter().any(|(a, _, root)| a.normaliser == Normaliser::Mixture && reads(*root));
    let finds = |(a, of, root): &(&Attention, &KeyLoop, NodeId)| {
        is_everywhere || same(a, of) || if mixes { false } else { !reads(*root) || is_under_mask(*root) }
    };
    // A running sum and a mixture are read at other places as well.
    let is_part = !matches!(own.normaliser, Normaliser::Running(_) | Normaliser::Mixture);
    let is_elsewhere = || later.iter().any(|(.., root)| is_read_under_view(g, *root, left, &is_stored));
    later.iter().all(finds) && !(is_part && is_elsewhere())
}

/// The parts of the scores of a reduction that are expensive to compute and that later expressions over the same keys read: first the
/// one that leaves the fewest expensive operators to these, and of several the outermost; then the same of what is left to them.
fn expensive_parts(layouts: &Layouts<'_>, plan: &WholeRows, products: &[Scores], at: usize) -> Vec<NodeId> {
    let g = layouts.graph;
    let RowReduction { attention: own, key_loop, .. } = &plan.held[at];
    // What has no pass of its own computes nothing; of several heads each would have its own.
    if plan.is_end_of_next(at) || !plan.heads.is_empty() {
        return Vec::new();
    }
    let left: BTreeSet<NodeId> = plan.held[..at].iter().flat_map(|h| h.left()).collect();
    let is_there = |id: NodeId| {
        left.contains(&id)
            || layouts.is_stored(id)
            || products.iter().any(|s| s.node == id || s.scaled() == id)
    };
    let parts_of = |root: NodeId| elementwise(g, root, is_there);
    let later: Vec<(&Attention, &KeyLoop)> = plan.members().skip(at + 1).collect();
    let same = later.iter().filter(|(_, later)| later.range == key_loop.range);
    let readers: Vec<NodeId> = same.map(|(a, later)| later.score_in_range(a)).collect();
    let read: BTreeSet<NodeId> = readers.iter().flat_map(|root| parts_of(*root)).collect();
    let expensive = |parts: BTreeSet<NodeId>| {
        parts.into_iter().filter(|id| matches!(g.op(*id), Op::Map(op) if op.info().is_costly())).count()
    };
    let is_expensive = |id: NodeId| expensive(parts_of(id)) > 0;
    let left_to_readers = |parts: &[NodeId]| -> usize {
        let without =
            |root: &NodeId| expensive(elementwise(g, *root, |id| parts.contains(&id) || is_there(id)));
        readers.iter().map(without).sum()
    };
    let fits = |id: &NodeId| {
        let node = g.node(*id);
        (node.axes.contains(own.key) && node.dtype == DType::F32)
            && read.contains(id)
            && !layouts.defined.may_report(*id)
            && is_expensive(*id)
            && is_found_by_readers(g, plan, (at, *id), |id| layouts.is_stored(id))
    };
    let candidates: Vec<NodeId> =
        parts_of(key_loop.score_in_range(own)).into_iter().rev().filter(fits).collect();
    let mut parts = Vec::new();
    loop {
        let with = |part: &NodeId| left_to_readers(&[&parts[..], &[*part]].concat());
        let best =
            candidates.iter().copied().min_by_key(with).filter(|best| with(best) < left_to_readers(&parts));
        let Some(best) = best else { return parts };
        parts.push(best);
    }
}

/// Scores, and what they are where they are not masked.
pub(crate) fn masked_and_not(g: &Graph, score: NodeId, key_loop: &KeyLoop) -> Vec<NodeId> {
    let chosen = is_choice_with(g, score, score).then(|| g.args(score)[1]);
    let by_range = key_loop.mask_by_range().map(|mask| mask.unmasked);
    [score].into_iter().chain(chosen).chain(by_range).collect()
}

/// Whether a node chooses by the same condition as scores that are -inf where it does not hold.
fn is_choice_with(g: &Graph, id: NodeId, masked: NodeId) -> bool {
    let is_choice = |id: NodeId| *g.op(id) == Op::Map(MapOp::Select);
    is_choice(id) && is_choice(masked) && g.args(id)[0] == g.args(masked)[0] && is_low(g, g.args(masked)[2])
}

/// Whether a node is -inf.
fn is_low(g: &Graph, id: NodeId) -> bool {
    *g.op(id) == Op::Const(Const::f32(f32::NEG_INFINITY))
}

/// What an expression computes element by element, above what is there.
pub(crate) fn elementwise(g: &Graph, root: NodeId, is_there: impl Fn(NodeId) -> bool) -> BTreeSet<NodeId> {
    let (mut found, mut stack) = (BTreeSet::new(), vec![root]);
    while let Some(id) = stack.pop() {
        if g.op(id).class() == Class::Map && !is_there(id) && found.insert(id) {
            stack.extend(g.args(id));
        }
    }
    found
}

/// Whether an expression reads a node at another place than its own.
fn is_read_under_view(g: &Graph, root: NodeId, node: NodeId, is_stored: &impl Fn(NodeId) -> bool) -> bool {
    let never = |_: NodeId| false;
    let is_view = |id: NodeId| {
        matches!(g.op(id).class(), Class::View | Class::Concat)
            && g.args(id).iter().any(|arg| reaches(g, *arg, |id| id == node, is_stored, never))
    };
    reaches(g, root, is_view, is_stored, never)
}

/// Whether a node is `exp(x - log_sum_exp)` of one of these scores.
pub(crate) fn is_exponential_of(g: &Graph, id: NodeId, scores: &[NodeId], log_sum: NodeId) -> bool {
    exponential_of_difference(g, id)
        .is_some_and(|(x, guard)| scores.contains(&x) && is_log_sum(g, guard, log_sum))
}

/// `exp(x - y)`, as `x` and `y`.
fn exponential_of_difference(g: &Graph, id: NodeId) -> Option<(NodeId, NodeId)> {
    if *g.op(id) != Op::Map(MapOp::Exp) {
        return None;
    }
    let difference = g.args(id)[0];
    (*g.op(difference) == Op::Map(MapOp::Sub)).then(|| (g.args(difference)[0], g.args(difference)[1]))
}

/// Whether a node is the log-sum-exp `of`, or that with zero in place of -inf.
fn is_log_sum(g: &Graph, id: NodeId, of: NodeId) -> bool {
    if id == of {
        return true;
    }
    if *g.op(id) != Op::Map(MapOp::Select) {
        return false;
    }
    let args = g.args(id);
    let condition = g.args(args[0]);
    *g.op(args[0]) == Op::Map(MapOp::Ne)
        && (condition[0] == of && is_low(g, condition[1]) || condition[1] == of && is_low(g, condition[0]))
        && args[1] == of
        && *g.op(args[2]) == Op::Const(Const::f32(0.0))
}

/// Whether an expression has a node in it, above what is stored and what `stops` says.
pub(super) fn reaches(
    g: &Graph,
    root: NodeId,
    is_one: impl Fn(NodeId) -> bool,
    is_stored: impl Fn(NodeId) -> bool,
    stops: impl Fn(NodeId) -> bool,
) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![root]);
    while let Some(id) = stack.pop() {
        if is_stored(id) || !seen.insert(id) {
            continue;
        }
        if is_one(id) {
            return true;
        }
        // What is held has been computed by then.
        let is_held = g.op(id).class() == Class::Bind;
        if !stops(id) && !is_held {
            stack.extend(g.args(id));
        }
    }
    false
}

impl Layouts<'_> {
    /// Whether an expression reads one of these nodes, above what is stored.
    pub(super) fn reads(&self, root: NodeId, is_one: impl Fn(NodeId) -> bool) -> bool {
        reaches(self.graph, root, is_one, |id| self.is_stored(id), |_| false)
    }
}
