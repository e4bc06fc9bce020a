//! Which reductions of scores are computed in the kernel of the attention whose weights need them, over the same rows: the
//! log-sum-exp of weights that are squared, the sum that divides weights above a threshold.

use crate::plan::attention::mixture::{have_heads, mixed_heads, mixture};
use crate::plan::attention::split::Few;
use crate::plan::attention::whole_rows::{products_inside, reductions_inside, row_reduction};
use crate::plan::attention::{Among, attention, query_axis};
use salient_ir::{Class, NodeId};
use std::collections::BTreeSet;

/// What is known before: which values are stored in any case, the products inside scores that are not, whether each node is an
/// expression of those, and up to how many rows there are few.
pub(crate) struct Known<'k> {
    pub(crate) of: &'k Among<'k>,
    pub(crate) is_kept: &'k dyn Fn(NodeId) -> bool,
    pub(crate) of_scores: &'k [bool],
    pub(crate) few_rows: i64,
}

/// The reductions that are held.
pub(crate) fn row_reductions(known: &Known<'_>) -> BTreeSet<NodeId> {
    let g = known.of.g;
    let mut held = BTreeSet::new();
    // Users first: what one attention holds is no attention of its own.
    for id in g.ids().rev().filter(|id| g.op(*id).class() == Class::Bind) {
        if !held.contains(&id)
            && let Some(found) = held_by(known, id)
        {
            held.extend(found);
        }
    }
    held
}

/// The reductions of its rows that the attention of a node holds.
fn held_by(known: &Known<'_>, node: NodeId) -> Option<BTreeSet<NodeId>> {
    let g = known.of.g;
    let key = g.op(node).bound()?;
    if !known.of_scores[g.args(node)[0].index()] {
        return None;
    }
    let inside = reductions_inside(g, g.args(node)[0], (key, None), known.is_kept);
    if inside.is_empty() {
        return None;
    }
    let order: Vec<_> = g.node(node).axes.iter().collect();
    let is_stored = |id: NodeId| (known.of.is_stored)(id) && !inside.contains(&id);
    let of = Among { is_stored: &is_stored, ..*known.of };
    let query = query_axis(&of, node, known.of_scores)?.0?;
    let a = attention(g, node, Some(query), &order)?;
    let is_row = |id: &NodeId| {
        row_reduction(g, *id, (key, query)).is_some_and(|a| known.of_scores[a.score.index()])
            && !(known.is_kept)(*id)
    };
    let mut held: BTreeSet<NodeId> = inside.into_iter().filter(is_row).collect();
    // What a reduction that is not held reads is stored.
    loop {
        let ending: BTreeSet<NodeId> =
            held.iter().copied().filter(|id| ends_in(known, *id, node, &held)).collect();
        if ending.len() == held.len() {
            break;
        }
        held = ending;
    }
    // Few rows are split over keys, which mixtures do not allow.
    let mixes = held.iter().any(|id| mixture(g, *id, key, Some(query)).is_some());
    if !mixes && Few::of(g.extent(query), known.few_rows) == Few::Always {
        return None;
    }
    let expressions: Vec<NodeId> = held.iter().map(|id| g.args(*id)[0]).chain([a.score]).collect();
    let is_stored = |id: NodeId| (known.of.is_stored)(id) && !held.contains(&id);
    let of = Among { is_stored: &is_stored, ..*known.of };
    let (products, _) = products_inside(&of, (query, key), &expressions)?;
    let fits = have_heads(g, &products, &mixed_heads(g, &held, key, query));
    (fits && !held.is_empty() && !products.is_empty()).then_some(held)
}

/// Whether every use of a reduction is in the weights of an attention or in another reduction that it holds, at the place of the
/// row itself.
fn ends_in(known: &Known<'_>, id: NodeId, attention: NodeId, held: &BTreeSet<NodeId>) -> bool {
    let g = known.of.g;
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        for user in g.users(id) {
            let is_score = g.args(user)[0] == id && !g.args(user)[1..].contains(&id);
            let is_end = (user == attention || held.contains(&user)) && is_score;
            let passes = g.op(user).class() == Class::Map && !(known.is_kept)(user);
            if !is_end && !passes {
                return false;
            }
            if passes && seen.insert(user) {
                stack.push(user);
            }
        }
    }
    true
}
