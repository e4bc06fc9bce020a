//! Which results are stored beside an attention, by its kernel, because they are of the same scores: the log-sum-exp of its rows,
//! their entropy or maximum, the weight that each key receives, other weighted sums over the keys. The products of queries and keys are
//! then made once.

use super::{KernelChoice, Planner};
use crate::plan::attention::beside::{StoreOf, key_sum};
use crate::plan::attention::mixture::{have_heads, mixed_heads};
use crate::plan::attention::split::Few;
use crate::plan::attention::whole_rows::{
    are_of_own_row, is_reduction_of_row, products_inside, reductions_inside, row_reduction,
};
use crate::plan::attention::{Among, Attention, Normaliser, attention};
use salient_ir::{AxisId, AxisSet, Class, Graph, NodeId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What is stored, each value with its kernel, in an order in which each comes after those that it reads and what is stored
/// beside an attention right behind it.
pub(super) fn with_shared_scores(planner: &Planner<'_>) -> Vec<(NodeId, KernelChoice)> {
    let mut groups = groups(planner);
    if groups.is_empty() {
        return planner.choices.clone().into_iter().collect();
    }
    let order = loop {
        match ordered(planner, &groups) {
            Ok(order) => break order,
            // What some of its members read is computed from others.
            Err(group) => groups.remove(group),
        };
    };
    let host_of: BTreeMap<NodeId, NodeId> =
        groups.iter().flat_map(|group| group[1..].iter().map(|member| (*member, group[0]))).collect();
    let chosen = |id: NodeId| match (&planner.choices[&id], host_of.get(&id)) {
        (KernelChoice::Attention(of, _), Some(host)) => KernelChoice::Beside { host: *host, of: *of },
        (choice, _) => choice.clone(),
    };
    order.into_iter().map(|id| (id, chosen(id))).collect()
}

/// The same without the results of rows that are no outputs and that only the kernel reads which makes them: it holds them.
pub(super) fn without_unread(
    planner: &Planner<'_>,
    steps: Vec<(NodeId, KernelChoice)>,
) -> Vec<(NodeId, KernelChoice)> {
    let key = |of: NodeId| planner.g.op(of).bound();
    let of_root: BTreeMap<NodeId, Option<NodeId>> =
        steps.iter().map(|(root, choice)| (*root, choice.attention())).collect();
    // The host of a result of rows.
    let host_of = |choice: &KernelChoice| {
        let KernelChoice::Beside { host, of } = *choice else { return None };
        let is_of_row = planner.g.args(of).len() == 1 && key(of) == of_root[&host].and_then(key);
        is_of_row.then_some(host)
    };
    // Who reads each: the kernel of which host, which holds what its scores and its results of rows are made of, or `None` for what
    // reads it from where it is stored.
    let mut readers: BTreeMap<NodeId, BTreeSet<Option<NodeId>>> = BTreeMap::new();
    let mut read = |these: BTreeSet<NodeId>, by: Option<NodeId>| {
        for id in these {
            readers.entry(id).or_default().insert(by);
        }
    };
    for (root, choice) in &steps {
        let host = if let KernelChoice::Beside { host, .. } = choice { host } else { root };
        if host_of(choice).is_some() {
            read(reads(planner, *root), Some(*host));
        } else if let Some(of) = choice.attention() {
            let score = planner.g.args(of)[0];
            read(reads(planner, score), Some(*host));
            read(reads_before(planner, *root, Some(score)), None);
        } else {
            read(reads(planner, *root), None);
        }
    }
    let is_read = |(root, choice): &(NodeId, KernelChoice)| {
        let others = |host| readers.get(root).into_iter().flatten().any(|by| *by != Some(host));
        host_of(choice).is_none_or(|host| planner.outputs.contains(root) || others(host))
    };
    steps.into_iter().filter(is_read).collect()
}

/// A stored value whose kernel makes scores.
struct Candidate {
    root: NodeId,
    /// The attention or reduction that it is an expression of.
    of: NodeId,
    key: AxisId,
    query: AxisId,
    /// The products of queries and keys that it makes.
    products: BTreeSet<NodeId>,
    has_values: bool,
}

/// Values that one kernel stores, that of an attention first.
fn groups(planner: &Planner<'_>) -> Vec<Vec<NodeId>> {
    let candidates = candidates(planner);
    let (mut out, mut taken) = (Vec::new(), BTreeSet::new());
    // Those with values first, of these those with the most products: others may be of some of them.
    let mut hosts: Vec<&Candidate> = candidates.iter().collect();
    hosts.sort_by_key(|host| Reverse((host.has_values, host.products.len())));
    for host in hosts {
        if taken.contains(&host.root) {
            continue;
        }
        let mut group = vec![host];
        let mut products = host.products.clone();
        // What waits for one that comes later joins when that has.
        loop {
            let before = group.len();
            for other in &candidates {
                let is_there = group.iter().any(|member| member.root == other.root);
                if is_there || taken.contains(&other.root) || !may_join(planner, host, &products, other) {
                    continue;
                }
                group.push(other);
                if !may_share(planner, &group) || waits(planner, &group) {
                    group.pop();
                } else {
                    products.extend(&other.products);
                }
            }
            if group.len() == before {
                break;
            }
        }
        if group.len() > 1 {
            let roots: Vec<NodeId> = group.iter().map(|c| c.root).collect();
            taken.extend(roots.iter().copied());
            out.push(roots);
        }
    }
    out
}

/// Whether some of a group reads, through what is stored by other kernels, what some of it is: no kernel can store all of it.
fn waits(planner: &Planner<'_>, group: &[&Candidate]) -> bool {
    let roots: BTreeSet<NodeId> = group.iter().map(|c| c.root).collect();
    let outside = |id: NodeId| reads(planner, id).into_iter().filter(|read| !roots.contains(read));
    let mut stack: Vec<NodeId> = roots.iter().flat_map(|root| outside(*root)).collect();
    let first = roots.first().copied();
    let mut seen: BTreeSet<NodeId> = stack.iter().copied().collect();
    while let Some(id) = stack.pop() {
        // What comes before all of them reads none.
        if first.is_some_and(|first| id < first) {
            continue;
        }
        let read = reads(planner, id);
        if !read.is_disjoint(&roots) {
            return true;
        }
        stack.extend(read.into_iter().filter(|id| seen.insert(*id)));
    }
    false
}

fn candidates(planner: &Planner<'_>) -> Vec<Candidate> {
    let g = planner.g;
    let mut out = Vec::new();
    for (root, choice) in &planner.choices {
        let KernelChoice::Attention(of, Some(query)) = choice else { continue };
        let Some(key) = g.op(*of).bound() else { continue };
        let products = products(planner, g.args(*of)[0]);
        if products.is_empty() || Few::of(g.extent(*query), planner.few_rows) == Few::Always {
            continue;
        }
        let has_values = g.args(*of).len() > 1;
        out.push(Candidate { root: *root, of: *of, key, query: *query, products, has_values });
    }
    out
}

/// Whether a result may be stored beside a host whose kernel makes these products, as far as its products say: all that it is made of are
/// among them, or, where it is another weighted sum over the same keys, some.
fn may_join(planner: &Planner<'_>, host: &Candidate, products: &BTreeSet<NodeId>, other: &Candidate) -> bool {
    let is_made = other.products.is_subset(products);
    if !other.has_values {
        return is_made;
    }
    let axes = (host.key, host.query);
    if (other.key, other.query) == axes {
        return host.has_values && !other.products.is_disjoint(products);
    }
    let sum = key_sum(planner.g, other.of, axes);
    host.has_values && is_made && sum.is_some_and(|sum| sum.value.is_some())
}

/// The products inside scores that their kernel makes.
fn products(planner: &Planner<'_>, score: NodeId) -> BTreeSet<NodeId> {
    let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![score]);
    while let Some(id) = stack.pop() {
        if planner.choices.contains_key(&id) || !seen.insert(id) {
            continue;
        }
        if planner.tiled.products.contains(&id) {
            found.insert(id);
        } else if planner.g.op(id).class() != Class::Port {
            stack.extend(planner.g.args(id));
        }
    }
    found
}

/// Whether the kernel of the first can store the others.
fn may_share(planner: &Planner<'_>, group: &[&Candidate]) -> bool {
    let (g, host) = (planner.g, group[0]);
    let roots: BTreeSet<NodeId> = group.iter().map(|c| c.root).collect();
    let is_stored = |id: NodeId| planner.choices.contains_key(&id) && !roots.contains(&id);
    let Planner { defined, keeps_order, .. } = *planner;
    let of = Among { g, defined, keeps_order, is_stored: &is_stored };
    let order = |of: NodeId| -> Vec<AxisId> { g.node(of).axes.iter().collect() };
    let axes = (host.key, host.query);
    let others: Option<Vec<Further>> =
        group[1..].iter().map(|c| further(g, (c.root, c.of), axes, &order(c.of))).collect();
    let order = order(host.of);
    let (Some(others), Some(a)) = (others, attention(g, host.of, Some(host.query), &order)) else {
        return false;
    };
    shared(&of, (host.root, &a), host.query, &others).is_some()
}

/// A result beside an attention.
pub(in crate::plan) struct Further {
    /// The expression that is stored.
    pub(in crate::plan) root: NodeId,
    pub(in crate::plan) of: StoreOf,
}

impl Further {
    /// The weighted sum over keys, if it is of one.
    fn values(&self) -> Option<NodeId> {
        match &self.of {
            StoreOf::Row | StoreOf::Key(_) => None,
            StoreOf::Values(a) => Some(a.node),
        }
    }
}

/// An expression of a reduction or a sum, laid out in `order`, as a result beside an attention over these keys and rows.
pub(in crate::plan) fn further(
    g: &Graph,
    (root, of): (NodeId, NodeId),
    (key, query): (AxisId, AxisId),
    order: &[AxisId],
) -> Option<Further> {
    if g.op(of).bound() != Some(key) {
        return Some(Further { root, of: StoreOf::Key(Box::new(key_sum(g, of, (key, query))?)) });
    }
    if g.args(of).len() == 1 {
        return Some(Further { root, of: StoreOf::Row });
    }
    let a = attention(g, of, Some(query), order)?;
    // What is divided by the sum of its weights would have to keep that as well.
    let is_not_divided = a.normaliser == Normaliser::One && a.value.is_some();
    is_not_divided.then_some(Further { root, of: StoreOf::Values(a) })
}

/// What a kernel holds that stores an expression of an attention and these beside it, if there is such a kernel: they are of the same
/// rows, each of all heads if some are mixed, and read each product at one place.
pub(in crate::plan) fn shared(
    of: &Among<'_>,
    (root, a): (NodeId, &Attention),
    query: AxisId,
    others: &[Further],
) -> Option<BTreeSet<NodeId>> {
    let (g, axes) = (of.g, (a.key, query));
    let inside = |root: NodeId| reductions_inside(g, root, (a.key, Some(query)), of.is_stored);
    let mut held = inside(a.score);
    for further in others {
        held.extend(inside(further.of.attention().map_or(further.root, |a| a.score)));
    }
    let heads = mixed_heads(g, &held, a.key, query);
    // The rows of all mixed heads are there together.
    let rows_in = |node: NodeId, without: Option<AxisId>| -> AxisSet {
        let axes = g.node(node).axes.iter();
        axes.filter(|axis| Some(*axis) != without && !heads.contains(axis)).collect()
    };
    let rows = rows_in(a.node, a.width);
    let rows_of = |score: NodeId| rows_in(score, Some(a.key));
    let fits = |further: &Further| {
        let of = |width: Option<AxisId>| rows_in(further.root, width);
        match &further.of {
            StoreOf::Row => of(None) == rows,
            StoreOf::Key(sum) => {
                let others = of(sum.width());
                others.iter().map(|x| if x == sum.axis() { query } else { x }).collect::<AxisSet>() == rows
            }
            StoreOf::Values(other) => of(other.width) == rows && rows_of(other.score) == rows,
        }
    };
    if rows != rows_of(a.score) || !others.iter().all(fits) {
        return None;
    }
    // A sum over rows is there when the last row has been made, and no row can wait for it.
    let of_keys: BTreeSet<NodeId> = others.iter().filter_map(|f| Some(f.of.sum()?.node())).collect();
    let is_over_rows = |id: NodeId| is_reduction_of_row(g, id, (query, Some(a.key)));
    let unstored = g.ids().filter(|id| is_over_rows(*id) && !(of.is_stored)(*id));
    let over_rows: BTreeSet<NodeId> = of_keys.iter().copied().chain(unstored).collect();
    // The expression of a weighted sum over the keys includes its scores and its values.
    let of_members = others.iter().map(|f| f.of.sum().map_or(f.root, |sum| sum.attention.score));
    let members: Vec<NodeId> = of_members.chain([root]).collect();
    if members.iter().any(|member| reads_one(of, *member, &over_rows)) {
        return None;
    }
    // Nor are weighted sums over the keys there when values of the rows are read, or another result is made.
    let own = a.value.map(|_| a.node);
    let of_values: BTreeSet<NodeId> = others.iter().filter_map(Further::values).chain(own).collect();
    let results: BTreeSet<NodeId> = of_keys.union(&of_values).copied().chain([a.node]).collect();
    let mut values = others.iter().filter_map(|f| Some(f.of.sum()?.value?.node));
    let of_own = others.iter().map(Further::values).chain([own]);
    let mut of_another = members.iter().zip(of_own).filter(|(member, own)| {
        let others: BTreeSet<NodeId> = of_values.iter().copied().filter(|id| Some(*id) != *own).collect();
        reads_one(of, **member, &others)
    });
    if values.any(|value| reads_one(of, value, &results)) || of_another.next().is_some() {
        return None;
    }
    let is_of_row = |id: &NodeId| {
        let of_row = row_reduction(g, *id, axes);
        of_row.is_some_and(|own| rows_in(own.node, None) == rows || own.key == a.key)
    };
    if !held.iter().all(is_of_row) {
        return None;
    }
    let of_sums = others.iter().filter_map(|f| f.of.attention()).flat_map(|a| [Some(a.score), a.value]);
    let of_rows = others.iter().filter_map(|f| f.of.sum()?.value).map(|value| Some(value.node));
    let own = [Some(root), Some(a.score), a.value, a.sink];
    let roots = of_sums.chain(of_rows).chain(own).flatten().chain(others.iter().map(|f| f.root));
    if !are_of_own_row(g, roots, &held, (a.key, &heads), of.is_stored) {
        return None;
    }
    let sums = others.iter().filter_map(|further| Some(further.of.attention()?.score));
    let expressions: Vec<NodeId> =
        held.iter().map(|id| g.args(*id)[0]).chain(sums).chain([a.score]).collect();
    let (products, _) =
        products_inside(of, axes, &expressions).filter(|(products, _)| have_heads(g, products, &heads))?;
    // Queries and keys are packed before anything of a row is known.
    let of_rows: BTreeSet<NodeId> = held.iter().copied().chain(results).collect();
    let mut operands = products.iter().flat_map(|scores| [scores.query, scores.key]);
    (!products.is_empty() && !operands.any(|operand| reads_one(of, operand, &of_rows))).then_some(held)
}

/// Whether an expression reads one of these through what is not stored.
fn reads_one(of: &Among<'_>, score: NodeId, these: &BTreeSet<NodeId>) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![score]);
    while let Some(id) = stack.pop() {
        if these.contains(&id) {
            return true;
        }
        if seen.insert(id) && !(of.is_stored)(id) {
            stack.extend(of.g.args(id));
        }
    }
    false
}

/// The stored values in an order in which each comes after those that it reads, a group together; if that cannot be for one of the
/// groups, which. What a group is reduced to comes right behind it, so that no other group has to wait for its memory.
fn ordered(planner: &Planner<'_>, groups: &[Vec<NodeId>]) -> Result<Vec<NodeId>, usize> {
    let group_of: BTreeMap<NodeId, usize> =
        groups.iter().enumerate().flat_map(|(at, group)| group.iter().map(move |id| (*id, at))).collect();
    let (mut out, mut done, mut begun) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut after = reduced_from(planner, &group_of);
    for first in planner.choices.keys() {
        let mut stack = vec![*first];
        while let Some(id) = stack.last().copied() {
            let group = group_of.get(&id).copied();
            let own = group.map_or_else(|| vec![id], |at| groups[at].clone());
            if done.contains(&own[0]) {
                stack.pop();
                continue;
            }
            let reads = own.iter().flat_map(|member| reads(planner, *member));
            let missing: BTreeSet<NodeId> = reads
                .filter(|read| !own.contains(read))
                .map(|read| group_of.get(&read).map_or(read, |at| groups[*at][0]))
                .filter(|read| !done.contains(read))
                .collect();
            if missing.is_empty() {
                stack.pop();
                done.insert(own[0]);
                out.extend(own);
                let reduced = group.and_then(|group| after.remove(&group)).unwrap_or_default();
                done.extend(reduced.iter().copied());
                out.extend(reduced);
            } else if begun.insert(own[0]) {
                stack.extend(missing.into_iter().rev());
            } else {
                // Only a group can wait for itself.
                return Err(group.or_else(|| group_of.values().next().copied()).unwrap_or(0));
            }
        }
    }
    Ok(out)
}

/// The reductions that read of the stored values those of one group alone, for each group.
fn reduced_from(planner: &Planner<'_>, group_of: &BTreeMap<NodeId, usize>) -> BTreeMap<usize, Vec<NodeId>> {
    let mut out: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
    for (id, choice) in &planner.choices {
        let is_reduction = matches!(choice, KernelChoice::Rows | KernelChoice::Statistics(_));
        let groups: BTreeSet<Option<usize>> =
            reads(planner, *id).iter().map(|read| group_of.get(read).copied()).collect();
        if let (true, 1, Some(Some(group))) = (is_reduction, groups.len(), groups.first()) {
            out.entry(*group).or_default().push(*id);
        }
    }
    out
}

/// The stored values that the kernel of one reads.
fn reads(planner: &Planner<'_>, root: NodeId) -> BTreeSet<NodeId> {
    reads_before(planner, root, None)
}

/// The same but for what it reads to make a node.
fn reads_before(planner: &Planner<'_>, root: NodeId, made: Option<NodeId>) -> BTreeSet<NodeId> {
    let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![root]);
    while let Some(id) = stack.pop() {
        if id != root && planner.choices.contains_key(&id) {
            found.insert(id);
        } else if Some(id) != made && seen.insert(id) {
            stack.extend(planner.g.args(id));
        }
    }
    found
}
