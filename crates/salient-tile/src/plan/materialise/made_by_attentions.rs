//! Values of pairs of queries and keys that are stored nowhere because the kernels of attentions make them for all that read them, though
//! the kernel of each reader alone could not: products, where a reader is a sum over rows and has the keys as its own rows, running
//! sums along the keys, which no sum over rows can make, and mixtures of heads that several read. A sum over rows is then stored beside an
//! attention.
//!
//! Whether there is such a kernel is known when the results of equal scores have been put together. A value that is expected to be made
//! so and is not is refused, and what is stored is decided again.

use super::{KernelChoice, Planner};
use crate::plan::attention::Among;
use crate::plan::attention::beside::key_sum;
use crate::plan::attention::mixture::{have_heads, mixed_heads};
use crate::plan::attention::split::Few;
use crate::plan::attention::whole_rows::{products_inside, reductions_inside, row_reduction};
use salient_ir::{AxisId, Class, DType, Graph, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// The running sums and the mixtures that are expected to be held by the kernels of attentions.
pub(super) fn made_by_attentions(planner: &Planner<'_>) -> BTreeSet<NodeId> {
    let g = planner.g;
    let is_running = |id: NodeId| matches!(g.op(id), Op::CumSum(..)) && g.node(id).dtype == DType::F32;
    let is_one = |id: NodeId| {
        (is_running(id) || planner.tiled.mixtures.contains(&id)) && planner.of_scores[g.args(id)[0].index()]
    };
    let is_stored = |id: NodeId| {
        planner.refused.contains(&id)
            || planner.held.contains(&id)
            || planner.kept.contains(&id)
            || planner.outputs.contains(&id)
    };
    let mut found: BTreeSet<NodeId> = g.ids().filter(|id| is_one(*id) && !is_stored(*id)).collect();
    // What reads one that is stored may be held; what is read by something that has other rows or keys may not.
    loop {
        let before = found.len();
        let all = found.clone();
        found.retain(|id| may_be_held(g, *id, |other| all.contains(&other) || planner.held.contains(&other)));
        if found.len() == before {
            return found;
        }
    }
}

/// Whether everything that reads a running sum or a mixture has its rows and its keys, and some of it sums values over the keys. A running
/// sum says what the keys are; those of a mixture are what its readers sum over.
fn may_be_held(g: &Graph, id: NodeId, is_held: impl Fn(NodeId) -> bool) -> bool {
    let Some(readers) = readers(g, id, is_held) else { return false };
    let host = |reader: &NodeId| g.op(*reader).bound().filter(|_| g.args(*reader).len() > 1);
    let are_beside = |key: AxisId| {
        readers.iter().all(|reader| {
            let over = g.op(*reader).bound();
            over == Some(key) || over.is_some_and(|rows| key_sum(g, *reader, (key, rows)).is_some())
        })
    };
    let is_key = |key: &AxisId| !matches!(*g.op(id), Op::CumSum(_, own) if own != *key);
    readers.iter().filter_map(host).filter(is_key).any(are_beside)
}

/// What reads a value at its own place, through operators and what is held; `None` if an output or something else than a sum or
/// an attention does, or one at another place.
fn readers(g: &Graph, id: NodeId, is_held: impl Fn(NodeId) -> bool) -> Option<BTreeSet<NodeId>> {
    let (mut out, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::from([id]), vec![id]);
    while let Some(id) = stack.pop() {
        for (reader, read) in g.readers(id, |op| matches!(op, Op::Map(_)))? {
            if g.op(reader).class() != Class::Bind || g.args(reader)[1..].contains(&read) {
                return None;
            }
            if !is_held(reader) {
                out.insert(reader);
            } else if seen.insert(reader) {
                stack.push(reader);
            }
        }
    }
    Some(out)
}

/// Of what is expected to be made by the kernels of attentions what is not, or is stored for another reader besides, given the kernels
/// that there are.
pub(super) fn missed(
    planner: &Planner<'_>,
    expected: &BTreeSet<NodeId>,
    steps: &[(NodeId, KernelChoice)],
) -> BTreeSet<NodeId> {
    // The first value of each kernel, by what its values are expressions of.
    let mut kernels: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let (mut beside, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for (root, choice) in steps {
        match choice {
            KernelChoice::Attention(of, _) => {
                kernels.insert(*of, *root);
            }
            KernelChoice::Beside { host, of } => {
                kernels.insert(*of, *host);
                beside.insert(*of);
                hosts.insert(*host);
            }
            KernelChoice::Source
            | KernelChoice::Map
            | KernelChoice::Statistics(_)
            | KernelChoice::Rows
            | KernelChoice::Scatter
            | KernelChoice::Product(_) => {}
        }
    }
    let is_held = |id: NodeId| planner.held.contains(&id);
    let is_made = |sum: NodeId, reader: &NodeId| {
        let Some(root) = kernels.get(reader) else { return false };
        let is_mixture = planner.tiled.mixtures.contains(&sum);
        let is_of_row = is_mixture || planner.g.op(*reader).bound() == planner.g.op(sum).bound();
        beside.contains(reader) || is_of_row && (hosts.contains(root) || holds_alone(planner, *root, *reader))
    };
    let is_made_everywhere = |sum: NodeId| {
        readers(planner.g, sum, is_held)
            .is_some_and(|readers| readers.iter().all(|reader| is_made(sum, reader)))
    };
    let sums = expected.iter().copied().filter(|id| !is_made_everywhere(*id));
    let products = planner.tiled.beside_others.iter().filter(|(_, others)| !others.is_subset(&beside));
    let mut out: BTreeSet<NodeId> = sums.chain(products.map(|(product, _)| *product)).collect();
    // A kernel of its own would make products with the keys again for each pair of heads.
    let by_itself = |choice: &KernelChoice| matches!(choice, KernelChoice::Attention(..));
    let alone =
        steps.iter().filter(|(_, choice)| by_itself(choice)).filter_map(|(_, choice)| choice.attention());
    out.extend(alone.filter(|id| planner.tiled.within_rows.contains(id)));
    let is_expected = |id: &NodeId| expected.contains(id) || planner.tiled.beside_others.contains_key(id);
    out.extend(read_beside_others(planner, steps).into_iter().filter(is_expected));
    // A product that is stored for another reader besides, by itself or in an expression: a kernel that holds reductions of it would have
    // to make it, not to read it.
    let stored = steps.iter().flat_map(|(root, choice)| [Some(*root), choice.product()]).flatten();
    out.extend(stored.filter(|id| planner.tiled.products.contains(id)));
    out
}

/// What the kernels read that are those of no attention, through what is not stored.
fn read_beside_others(planner: &Planner<'_>, steps: &[(NodeId, KernelChoice)]) -> BTreeSet<NodeId> {
    let stored: BTreeSet<NodeId> = steps.iter().map(|(root, _)| *root).collect();
    let is_other = |choice: &KernelChoice| {
        !matches!(choice, KernelChoice::Attention(..) | KernelChoice::Beside { .. } | KernelChoice::Source)
    };
    let (mut seen, mut stack) = (BTreeSet::new(), Vec::new());
    for (root, _) in steps.iter().filter(|(_, choice)| is_other(choice)) {
        stack.extend(planner.g.args(*root));
    }
    while let Some(id) = stack.pop() {
        if !stored.contains(&id) && seen.insert(id) {
            stack.extend(planner.g.args(id));
        }
    }
    seen
}

/// Whether the kernel of an attention beside which nothing is stored can hold what it reads of reductions of its rows.
fn holds_alone(planner: &Planner<'_>, root: NodeId, attention: NodeId) -> bool {
    let Planner { g, defined, keeps_order, .. } = *planner;
    let Some(KernelChoice::Attention(_, Some(query))) = planner.choices.get(&root) else { return false };
    let (score, Some(key)) = (g.args(attention)[0], g.op(attention).bound()) else { return false };
    let is_stored = |id: NodeId| id != root && planner.choices.contains_key(&id);
    let held = reductions_inside(g, score, (key, Some(*query)), is_stored);
    let is_row = |id: &NodeId| row_reduction(g, *id, (key, *query)).is_some();
    let expressions: Vec<NodeId> = held.iter().map(|id| g.args(*id)[0]).chain([score]).collect();
    let of = Among { g, defined, keeps_order, is_stored: &is_stored };
    let products = products_inside(&of, (*query, key), &expressions);
    let heads = mixed_heads(g, &held, key, *query);
    let makes =
        products.is_some_and(|(products, _)| !products.is_empty() && have_heads(g, &products, &heads));
    makes && held.iter().all(is_row) && Few::of(g.extent(*query), planner.few_rows) != Few::Always
}
