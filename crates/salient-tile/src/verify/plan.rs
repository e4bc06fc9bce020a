//! What must hold of a plan: every value is there before it is read, on every path, and is stored once; axes have the roles that
//! kernels need; what runs once and what runs as one kernel may.

use super::{Fault, Faults};
use crate::dims::n;
use crate::plan::attention::beside::{Beside, SumOverRows, key_sum};
use crate::plan::attention::key_loop::{KeyLoop, masked};
use crate::plan::attention::key_range::{KeyRange, key_range, places};
use crate::plan::attention::leaves::{elementwise, is_exponential_of, is_found_by_readers, masked_and_not};
use crate::plan::attention::mixture::{mixed_heads, mixture};
use crate::plan::attention::whole_rows::{
    WeightsFrom, WholeRows, are_of_own_row, ends_in_mixture, is_kept, is_reduction_of_row, reads,
    reductions_inside,
};
use crate::plan::attention::{Attention, Normaliser, parts};
use crate::plan::layouts::alias::alias_of;
use crate::plan::layouts::stored;
use crate::plan::materialise::scatter::Scatter;
use crate::plan::order::{host_of, shared_rows};
use crate::plan::{Anchor, Gemm, KernelPlan, PackedScores, Plan};
use crate::program::kernel::{Buffer, BufferId, Role};
use salient_ir::{AxisId, AxisSet, Class, Dim, Graph, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// The faults of a plan.
pub fn verify(plan: &Plan<'_>) -> Vec<Fault> {
    let mut faults = Faults::default();
    numbers(plan, &mut faults);
    // What follows takes every number to be one of something.
    if faults.found.is_empty() {
        order(plan, &mut faults);
        once(plan, &mut faults);
        steps(plan, &mut faults);
        plan.kernels.iter().for_each(|k| axes(plan, k, &mut faults));
    }
    faults.found
}

fn name<'p>(plan: &'p Plan<'_>, id: BufferId) -> &'p str {
    &plan.buffers[id.0].name
}

/// Buffers, kernels and steps are there, and every kernel belongs to one step and to one set of the order.
fn numbers(plan: &Plan<'_>, faults: &mut Faults) {
    let count = plan.kernels.len();
    for k in &plan.kernels {
        for id in k.reads().iter().chain([&k.buffer]) {
            faults.unless(id.0 < plan.buffers.len(), "plan", || format!("there is no buffer {}", id.0));
        }
    }
    let (mut of_steps, mut of_sets) = (vec![0; count], vec![0; count]);
    let steps = plan.steps.iter().flat_map(|step| step.kernels.clone());
    for (at, counts) in steps.map(|at| (at, 0)).chain(plan.order.iter().flatten().map(|at| (*at, 1))) {
        let of = if counts == 0 { &mut of_steps } else { &mut of_sets };
        match of.get_mut(at) {
            Some(times) => *times += 1,
            None => faults.unless(false, "plan", || format!("there is no kernel {at}")),
        }
    }
    for at in 0..count {
        let kernel = plan.buffers.get(plan.kernels[at].buffer.0).map_or("plan", |b| &b.name);
        faults.unless(of_steps[at] == 1, kernel, || format!("its kernel is in {} steps", of_steps[at]));
        let runs = usize::from(!matches!(plan.kernels[at].anchor, Anchor::Alias(_)));
        faults.unless(of_sets[at] == runs, kernel, || format!("its kernel runs {} times", of_sets[at]));
    }
    faults.unless(plan.loads <= plan.order.len(), "plan", || "more runs once than there is".to_owned());
}

/// Under which conditions a buffer has been stored.
#[derive(Clone, Debug, Default)]
struct Stores(Vec<Option<(Dim, Dim)>>);

impl Stores {
    /// Whether it has been stored wherever the condition holds.
    fn covers(&self, when: Option<&(Dim, Dim)>) -> bool {
        let has = |condition: &Option<(Dim, Dim)>| condition.is_none() || condition.as_ref() == when;
        self.0.iter().any(has)
            || self.0.iter().flatten().any(|a| self.0.iter().flatten().any(|b| are_all(a, b)))
    }

    /// Whether two of the stores may run in one call.
    fn overlap(&self) -> bool {
        let mut pairs =
            self.0.iter().enumerate().flat_map(|(at, a)| self.0[at + 1..].iter().map(move |b| (a, b)));
        pairs.any(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => !are_all(a, b),
            (Some(_) | None, _) => true,
        })
    }
}

/// Whether of two conditions one holds and never both: `x < y + 1` and `y < x`.
fn are_all(a: &(Dim, Dim), b: &(Dim, Dim)) -> bool {
    a.0 == b.1 && a.1 == &b.0 + &n(1) || b.0 == a.1 && b.1 == &a.0 + &n(1)
}

/// What is read has been stored, nothing is stored twice, and every output is stored.
fn order(plan: &Plan<'_>, faults: &mut Faults) {
    let mut stored: BTreeMap<BufferId, Stores> = BTreeMap::new();
    let is_given = |b: &Buffer| matches!(b.role, Role::Input(_) | Role::Param(_) | Role::Coded(_));
    // A result in whose place a temporary is stored is there once that is.
    let aliases = plan.aliases();
    let place = |id: BufferId| aliases.iter().find(|(_, output)| **output == id).map_or(id, |(of, _)| *of);
    for set in &plan.order {
        let kernels: Vec<&KernelPlan> = set.iter().map(|at| &plan.kernels[*at]).collect();
        for k in &kernels {
            let own = name(plan, k.buffer);
            faults.unless(!is_given(&plan.buffers[k.buffer.0]), own, || {
                "a kernel stores what is given".to_owned()
            });
            for id in k.reads() {
                let is_there = is_given(&plan.buffers[id.0])
                    || stored.get(&place(*id)).is_some_and(|stores| stores.covers(k.when.as_ref()));
                faults.unless(is_there, own, || {
                    format!("it reads `{}`, which is not stored yet", name(plan, *id))
                });
            }
        }
        if kernels.len() > 1 {
            let of = |k: &&KernelPlan| shared_rows(&plan.graph, &plan.buffers, k);
            let rows: Vec<Option<(BufferId, Dim)>> = kernels.iter().map(of).collect();
            let own = name(plan, kernels[0].buffer);
            let same = rows[0].is_some() && rows.iter().all(|r| *r == rows[0]);
            let is_host = matches!(kernels[0].anchor, Anchor::WholeRows(_));
            let beside = || is_host && kernels[1..].iter().all(|k| host_of(k) == Some(kernels[0].buffer));
            faults.unless(same || beside(), own, || {
                "kernels that run as one go through different rows".to_owned()
            });
        }
        stored_beside(plan, &kernels, faults);
        for k in kernels {
            stored.entry(k.buffer).or_default().0.push(k.when.clone());
        }
    }
    for (id, stores) in &stored {
        faults.unless(!stores.overlap(), name(plan, *id), || "it is stored twice".to_owned());
    }
    for at in 0..plan.graph.outputs().len() {
        let id = plan.buffers.iter().position(|b| b.role == Role::Output(at)).map(BufferId);
        let is_stored =
            id.map(place).and_then(|id| stored.get(&id)).is_some_and(|stores| stores.covers(None));
        let output = &plan.graph.outputs()[at].name;
        faults.unless(is_stored, output, || "the output is not stored in every call".to_owned());
    }
}

/// What a set stores beside its attention is what the kernel of that stores.
fn stored_beside(plan: &Plan<'_>, set: &[&KernelPlan], faults: &mut Faults) {
    let wanted: BTreeSet<(NodeId, BufferId)> =
        set.iter().filter(|k| host_of(k).is_some()).map(|k| (k.node, k.buffer)).collect();
    let of = |k: &&KernelPlan| -> Vec<(NodeId, BufferId)> {
        let Anchor::WholeRows(whole) = &k.anchor else { return Vec::new() };
        whole.beside.iter().map(|b| (b.node, b.buffer)).collect()
    };
    let stores: BTreeSet<(NodeId, BufferId)> = set.iter().flat_map(of).collect();
    faults.unless(wanted == stores, name(plan, set[0].buffer), || {
        "its kernel stores other values than stand beside it".to_owned()
    });
}

/// What runs when the parameters are bound follows from them alone, and is no result.
fn once(plan: &Plan<'_>, faults: &mut Faults) {
    let mut early: BTreeSet<BufferId> = BTreeSet::new();
    for (at, set) in plan.order.iter().enumerate() {
        for k in set.iter().map(|at| &plan.kernels[*at]) {
            let own = name(plan, k.buffer);
            faults.unless(k.once == (at < plan.loads), own, || {
                "it runs once, or not, against its plan".to_owned()
            });
            if !k.once {
                continue;
            }
            let is_known =
                |id: &BufferId| early.contains(id) || matches!(plan.buffers[id.0].role, Role::Param(_));
            faults.unless(k.reads().iter().all(is_known), own, || {
                "it runs once and reads what calls change".to_owned()
            });
            let is_output = matches!(plan.buffers[k.buffer.0].role, Role::Output(_));
            faults.unless(!is_output, own, || "a result is stored once for all calls".to_owned());
            early.insert(k.buffer);
        }
    }
}

/// A step stores its value, and a copy is one of an earlier step over buffers of its own.
fn steps(plan: &Plan<'_>, faults: &mut Faults) {
    for (at, step) in plan.steps.iter().enumerate() {
        let own = name(plan, step.buffer);
        let kernels = &plan.kernels[step.kernels.clone()];
        faults.unless(kernels.iter().any(|k| k.buffer == step.buffer), own, || {
            "no kernel of its step stores it".to_owned()
        });
        let Some(copy) = &step.copy else { continue };
        faults.unless(copy.of < at, own, || "it is a copy of what comes after it".to_owned());
        let Some(other) = plan.steps.get(copy.of) else { continue };
        let others = &plan.kernels[other.kernels.clone()];
        faults.unless(others.len() == kernels.len(), own, || {
            "its copy has another number of kernels".to_owned()
        });
        for (k, other) in kernels.iter().zip(others) {
            let next = |id: &BufferId| copy.buffers.get(id).copied();
            let same = next(&other.buffer) == Some(k.buffer)
                && other.reads().iter().map(next).collect::<Option<BTreeSet<BufferId>>>().as_ref()
                    == Some(k.reads());
            faults.unless(same, own, || "its copy is over other buffers than it says".to_owned());
        }
    }
    for append in &plan.appends {
        let own = name(plan, append.output);
        let is_state = plan.graph.states().iter().any(|s| {
            plan.buffers[append.input.0].role == Role::Input(s.input)
                && plan.buffers[append.output.0].role == Role::Output(s.output)
        });
        faults.unless(is_state, own, || "a call appends to what is no state".to_owned());
    }
}

/// An output lies where a temporary of the same elements is stored, in the same order, and is the only one that does.
fn alias(plan: &Plan<'_>, k: &KernelPlan, of: BufferId, faults: &mut Faults) {
    let (own, from) = (name(plan, k.buffer), &plan.buffers[of.0]);
    let mut layouts = plan.layouts();
    layouts.stored.insert(from.node, stored(of, from));
    let same = alias_of(&layouts, &plan.buffers, k.node, k.buffer) == Some(of);
    let others = plan.kernels.iter().filter(|k| matches!(k.anchor, Anchor::Alias(x) if x == of));
    faults.unless(same && others.count() == 1, own, || {
        "it does not lie as what is stored in its place".to_owned()
    });
}

/// Axes have the roles that a kernel needs.
fn axes(plan: &Plan<'_>, k: &KernelPlan, faults: &mut Faults) {
    let (g, own) = (&plan.graph, name(plan, k.buffer));
    let of = |id| &g.node(id).axes;
    let buffer = &plan.buffers[k.buffer.0];
    let lies: AxisSet = buffer.axes.iter().copied().collect();
    faults.unless(lies.len() == buffer.axes.len(), own, || "an axis lies twice".to_owned());
    match &k.anchor {
        Anchor::Alias(of) => alias(plan, k, *of, faults),
        Anchor::Map(_) | Anchor::Append(_) => {
            faults.unless(of(k.node).is_subset(&lies), own, || "it has an axis that does not lie".to_owned());
        }
        Anchor::Rows { along, held } => {
            faults.unless(buffer.axes.contains(along), own, || {
                "its rows run along an axis that it lacks".to_owned()
            });
            for id in held {
                let runs = if let Op::Reduce(_, axis) = g.op(*id) {
                    axis == along
                } else {
                    !g.op(*id).is_source() && !of(*id).contains(*along)
                };
                faults.unless(runs, own, || "what it holds is not of its rows".to_owned());
            }
        }
        Anchor::Reduction { .. } => {
            faults.unless(g.op(k.node).bound().is_some(), own, || "it binds no axis".to_owned());
        }
        Anchor::Columns { column } => {
            let along = g.op(k.node).bound();
            faults.unless(along.is_some(), own, || "it binds no axis".to_owned());
            let is_column = along != Some(*column) && lies.contains(*column);
            faults.unless(is_column, own, || "its columns are no axis of it".to_owned());
        }
        Anchor::Scatter(of) => scatter(plan, k, of, &lies, faults),
        Anchor::Gemm(Gemm { contraction: c, panels, .. }) => {
            let (left, right) = (of(c.left), of(c.right));
            let depth = left.contains(c.depth) && right.contains(c.depth) && !lies.contains(c.depth);
            faults.unless(depth, own, || "it does not sum over an axis of both operands".to_owned());
            let is_row = |a: &AxisId| left.contains(*a) && !right.contains(*a) && lies.contains(*a);
            faults.unless(c.rows.iter().all(is_row), own, || {
                "a row is no axis of the left operand alone".to_owned()
            });
            let is_column = right.contains(c.column) && !left.contains(c.column) && lies.contains(c.column);
            faults.unless(is_column, own, || "its column is no axis of the right operand alone".to_owned());
            let outer = panels.outer().iter().all(|a| right.contains(*a) && *a != c.column && *a != c.depth);
            faults.unless(outer, own, || "its panels are of another operand".to_owned());
            faults.unless(k.reads().contains(&panels.id), own, || "it does not read its panels".to_owned());
        }
        Anchor::Pack(pack) => {
            let node = of(k.node);
            let has = node.contains(pack.column) && node.contains(pack.depth) && pack.column != pack.depth;
            faults.unless(has, own, || "what is packed has no such columns and depth".to_owned());
            faults.unless(pack.panels.id == k.buffer, own, || "its panels are another buffer".to_owned());
        }
        Anchor::Tiled(tiled) => {
            attention(plan, k, &tiled.attention, faults);
            key_loop(plan, k, (&tiled.attention, &tiled.key_loop), &BTreeSet::new(), faults);
            tiled.scores.iter().for_each(|scores| packed_scores(plan, k, scores, faults));
        }
        Anchor::WholeRows(whole) => whole_rows(plan, k, whole, faults),
        Anchor::Beside(_) | Anchor::SumParts(_) => beside(plan, k, &lies, faults),
        Anchor::SplitKv(split) | Anchor::Merge(split) => {
            attention(plan, k, &split.attention, faults);
            key_loop(plan, k, (&split.attention, &split.key_loop), &BTreeSet::new(), faults);
            let is_parts = if matches!(k.anchor, Anchor::Merge(_)) {
                k.reads().contains(&split.parts.id)
            } else {
                k.buffer == split.parts.id
            };
            faults.unless(is_parts, own, || "its parts are another buffer".to_owned());
        }
    }
}

/// A sum whose terms are each added at one position has that axis, and none of those that it sums over; its columns are of one
/// position.
fn scatter(plan: &Plan<'_>, k: &KernelPlan, sum: &Scatter, lies: &AxisSet, faults: &mut Faults) {
    let own = name(plan, k.buffer);
    let of = |id: NodeId| &plan.graph.node(id).axes;
    let is_beside = |axis: &AxisId| lies.contains(*axis) && !of(sum.index).contains(*axis);
    faults.unless(is_beside(&sum.position), own, || "what it adds has no position of its own".to_owned());
    faults
        .unless(sum.column.iter().all(is_beside), own, || "its columns are of several positions".to_owned());
    let is_summed = |axis: &AxisId| of(sum.term).contains(*axis) && !lies.contains(*axis);
    faults.unless(sum.over.iter().all(is_summed), own, || {
        "it does not sum over an axis of what it adds".to_owned()
    });
}

/// What is stored beside an attention has the axes of its buffer; so have the parts of a sum over rows.
fn beside(plan: &Plan<'_>, k: &KernelPlan, lies: &AxisSet, faults: &mut Faults) {
    let own = name(plan, k.buffer);
    let of = |id: NodeId| &plan.graph.node(id).axes;
    if let Anchor::Beside(beside) = &k.anchor {
        faults.unless(of(beside.root) == lies, own, || "it is stored by other axes".to_owned());
    }
    if let Anchor::SumParts(parts) = &k.anchor {
        let around: AxisSet = parts.axes().collect();
        faults.unless(*of(parts.sum) == around && around == *lies, own, || {
            "its parts are of other axes".to_owned()
        });
        faults.unless(k.reads().contains(&parts.parts), own, || "it does not read its parts".to_owned());
    }
}

/// What is held of a row is a reduction of it that comes after those it depends on; products are made for every key that any of
/// these visits; what is left behind for others are the exponentials that they read.
fn whole_rows(plan: &Plan<'_>, k: &KernelPlan, whole: &WholeRows, faults: &mut Faults) {
    let (g, own) = (&*plan.graph, name(plan, k.buffer));
    let sums: BTreeMap<NodeId, &SumOverRows> = whole.key_sums().map(|sum| (sum.of.node(), &sum.of)).collect();
    let values: BTreeSet<NodeId> = whole.value_sums().map(|sum| sum.attention.node).collect();
    for (a, of) in whole.members() {
        // What is held may keep a value for each key, as running sums and mixtures do.
        if !matches!(a.normaliser, Normaliser::Running(_) | Normaliser::Mixture) {
            if let Some(planned) = sums.get(&a.node) {
                let is_sum = key_sum(g, a.node, (a.key, whole.key_loop.rows.unwrap_or(a.key)));
                let is_planned =
                    |sum: &SumOverRows| sum.attention.score == a.score && sum.distances == planned.distances;
                faults.unless(is_sum.as_ref().is_some_and(is_planned), own, || {
                    "what it adds up for each key is no sum over its rows".to_owned()
                });
            } else {
                attention(plan, k, a, faults);
            }
            if values.contains(&a.node) {
                let is_planned = |of: Attention| {
                    (of.score, of.value, of.normaliser) == (a.score, a.value, Normaliser::One)
                };
                faults.unless(parts(g, a.node).is_some_and(is_planned), own, || {
                    "what it sums beside its attention is no weighted sum over its keys".to_owned()
                });
            }
            key_loop(plan, k, (a, of), &whole.heads, faults);
        }
        let same = a.key == whole.attention.key && a.query == whole.attention.query;
        faults.unless(same, own, || "what it holds is of other rows".to_owned());
        let is_inside = whole.visits == KeyRange::default() || whole.visits == of.range;
        faults.unless(is_inside, own, || "keys are read for which no product is made".to_owned());
    }
    let held: BTreeSet<NodeId> = whole.held.iter().map(|h| h.attention.node).collect();
    let is_in_order = held.len() == whole.held.len()
        && (0..held.len()).all(|at| {
            let later: BTreeSet<NodeId> = whole.held[at..].iter().map(|h| h.attention.node).collect();
            !reads_any(g, g.args(whole.held[at].attention.node)[0], &later)
        });
    faults.unless(is_in_order, own, || "what it holds is not in order".to_owned());
    let (key, query) = (whole.attention.key, whole.attention.query);
    let is_missing = |id: &&NodeId| {
        let is_reduction = is_reduction_of_row(g, **id, (key, query));
        let is_mixture = || mixture(g, **id, key, query).is_some();
        !held.contains(id) && **id != whole.attention.node && (is_reduction || is_mixture())
    };
    let of_beside = |beside: &Beside| {
        let root = beside.member().map_or(beside.node, |(a, _)| a.score);
        reductions_inside(g, root, (key, query), |id| is_stored_before(plan, (k, whole), id))
    };
    let mut of_beside = whole.beside.iter().flat_map(of_beside);
    let are_missing = k.expression.computes.iter().any(|id| is_missing(&id));
    faults.unless(!are_missing && of_beside.all(|id| held.contains(&id)), own, || {
        "it reads a reduction of its rows that it does not hold".to_owned()
    });
    mixtures(plan, k, whole, faults);
    weights(plan, k, whole, faults);
    readers_of_held(plan, k, whole, faults);
    left_behind(plan, k, whole, faults);
    whole.scores.iter().for_each(|scores| packed_scores(plan, k, scores, faults));
}

/// Whether a kernel finds a value stored; what it stores itself it computes.
fn is_stored_before(plan: &Plan<'_>, (k, whole): (&KernelPlan, &WholeRows), id: NodeId) -> bool {
    let is_result = id == k.node || whole.beside.iter().any(|beside| beside.node == id);
    !is_result && plan.buffers.iter().any(|buffer| buffer.node == id)
}

/// A reduction is kept if somebody reads it, and read at its own row.
fn readers_of_held(plan: &Plan<'_>, k: &KernelPlan, whole: &WholeRows, faults: &mut Faults) {
    let (g, own) = (&*plan.graph, name(plan, k.buffer));
    let is_stored = |id: NodeId| is_stored_before(plan, (k, whole), id);
    for (at, h) in whole.held.iter().enumerate() {
        let is_read = is_kept(g, whole, (at, k.node), is_stored);
        faults.unless(h.is_kept == is_read, own, || {
            "it keeps what nobody reads, or does not keep what somebody does".to_owned()
        });
    }
    let held = whole.held.iter().map(|h| h.attention.node).collect();
    let roots = whole.members().map(|(a, _)| a.score).chain(whole.beside_scores(k.node));
    let are_own = are_of_own_row(g, roots, &held, (whole.attention.key, &whole.heads), is_stored);
    faults.unless(are_own, own, || "it reads what it holds at another row".to_owned());
}

/// What a reduction leaves behind it computes, and those that come after it find it there.
fn left_behind(plan: &Plan<'_>, k: &KernelPlan, whole: &WholeRows, faults: &mut Faults) {
    let (g, own) = (&*plan.graph, name(plan, k.buffer));
    let computed = whole.count_before_weights() + usize::from(whole.weights == WeightsFrom::Scores);
    let is_stored = |id: NodeId| plan.buffers.iter().any(|buffer| buffer.node == id);
    let held = whole.held.iter().enumerate();
    for (at, h, leaves) in held.flat_map(|(at, h)| h.leaves.iter().map(move |leaves| (at, h, leaves))) {
        let scores = masked_and_not(g, h.attention.score, &h.key_loop);
        let in_range = h.key_loop.score_in_range(&h.attention);
        let is_own = match h.attention.normaliser {
            Normaliser::Running(_) | Normaliser::Mixture => leaves.node == h.attention.node,
            Normaliser::Softmax { .. } => is_exponential_of(g, leaves.node, &scores, h.attention.node),
            Normaliser::Sum | Normaliser::One | Normaliser::Greatest => {
                !whole.is_end_of_next(at) && elementwise(g, in_range, |_| false).contains(&leaves.node)
            }
        };
        faults.unless(is_own, own, || "a reduction leaves behind what it does not compute".to_owned());
        let is_found = is_found_by_readers(g, whole, (at, leaves.node), is_stored);
        faults.unless(is_found, own, || "what a reduction leaves behind is read at other keys".to_owned());
        let is_product = leaves.in_place_of.is_none_or(|at| at < whole.scores.len());
        faults.unless(is_product, own, || "it leaves them in place of no product".to_owned());
        let place = leaves.in_place_of.and_then(|at| whole.scores.get(at));
        let is_read = place.is_some_and(|place| reads(g, whole, at + 1..computed, |id| id == place.product));
        faults.unless(!is_read, own, || "it leaves them in place of a product that is still read".to_owned());
    }
}

/// The heads are those that are mixed. A mixture goes over all keys for which there are products, leaves itself behind in a place
/// of its own, and mixes what has been made by then.
fn mixtures(plan: &Plan<'_>, k: &KernelPlan, whole: &WholeRows, faults: &mut Faults) {
    let (g, own) = (&*plan.graph, name(plan, k.buffer));
    let held: BTreeSet<NodeId> = whole.held.iter().map(|h| h.attention.node).collect();
    let query = whole.attention.query;
    let heads = query.map(|query| mixed_heads(g, &held, whole.attention.key, query)).unwrap_or_default();
    faults.unless(heads == whole.heads, own, || "its heads are not those that are mixed".to_owned());
    // A product may be made scaled, for the only reader that it has.
    let products = whole.scores.iter().flat_map(|s| g.users(s.product).into_iter().chain([s.product]));
    let mut made: BTreeSet<NodeId> = products.collect();
    for h in &whole.held {
        if h.attention.normaliser == Normaliser::Mixture {
            let of = whole.mixture(g, h).map(|mixture| mixture.of);
            faults.unless(of == Some(h.attention.score), own, || "it mixes something else".to_owned());
            let is_whole = h.key_loop.range == whole.visits && h.key_loop.mask.is_none();
            faults.unless(is_whole, own, || "heads are not mixed at every key that is visited".to_owned());
            let is_left = h.leaves.len() == 1 && h.leaves[0].in_place_of.is_none();
            faults.unless(is_left, own, || "a mixture has no place of its own".to_owned());
            let is_there = h.copies || made.contains(&h.attention.score);
            faults.unless(is_there, own, || "heads are mixed before they are made".to_owned());
        }
        made.extend(h.left());
    }
}

/// An attention that is held has no weights. What leaves weights behind is the last mixture, or the log-sum-exp of the scores of
/// which the weights are the softmax; then nobody reads the scores any more in whose place they are stored.
fn weights(plan: &Plan<'_>, k: &KernelPlan, whole: &WholeRows, faults: &mut Faults) {
    let (g, own) = (&*plan.graph, name(plan, k.buffer));
    if let WeightsFrom::Reduction(at) = whole.weights {
        let is_itself = whole.held_itself() == Some(at);
        return faults
            .unless(is_itself, own, || "it is not the reduction that it is said to hold".to_owned());
    }
    let (WeightsFrom::Held(at) | WeightsFrom::Copied(at)) = whole.weights else { return };
    let Some(held) = whole.held.get(at) else {
        return faults.unless(false, own, || "its weights are left behind by nothing".to_owned());
    };
    if held.attention.normaliser == Normaliser::Mixture {
        let is_end = at + 1 == whole.held.len() && ends_in_mixture(g, whole);
        return faults.unless(is_end, own, || "its weights are not the last mixture".to_owned());
    }
    faults.unless(whole.is_softmax_of(at), own, || "its weights are no softmax of what it holds".to_owned());
    if whole.weights == WeightsFrom::Copied(at) {
        return faults
            .unless(!held.leaves.is_empty(), own, || "it copies weights that nothing leaves".to_owned());
    }
    let place = whole.weights_in_place_of(g).map(|at| whole.scores[at].product);
    let readers = at + 1..whole.count_before_weights();
    let is_read = reads(g, whole, readers, |id| Some(id) == place);
    faults.unless(!is_read, own, || "its weights take the place of scores that are read".to_owned());
}

/// Whether an expression has one of these in it, above what binds an axis.
fn reads_any(g: &Graph, root: NodeId, of: &BTreeSet<NodeId>) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![root]);
    while let Some(id) = stack.pop() {
        if of.contains(&id) {
            return true;
        }
        if seen.insert(id) && matches!(g.op(id).class(), Class::Map | Class::View | Class::Concat) {
            stack.extend(g.args(id));
        }
    }
    false
}

/// Keys, rows and values of an attention have the axes that their roles need.
fn attention(plan: &Plan<'_>, k: &KernelPlan, a: &Attention, faults: &mut Faults) {
    let (g, own) = (&plan.graph, name(plan, k.buffer));
    let of = |id| &g.node(id).axes;
    faults.unless(of(a.score).contains(a.key), own, || "its scores have no keys".to_owned());
    faults.unless(!of(a.node).contains(a.key), own, || "its result has keys".to_owned());
    if let Some(query) = a.query {
        let is_row = of(a.score).contains(query) && query != a.key;
        faults.unless(is_row, own, || "its rows are no axis of the scores".to_owned());
        let of_values = a.value.is_some_and(|v| of(v).contains(query));
        faults.unless(!of_values, own, || "its values differ from row to row".to_owned());
    }
}

/// Queries and packed keys are the operands of the product that gives the scores.
fn packed_scores(plan: &Plan<'_>, k: &KernelPlan, scores: &PackedScores, faults: &mut Faults) {
    let own = name(plan, k.buffer);
    faults.unless(k.reads().contains(&scores.keys.id), own, || "it does not read its packed keys".to_owned());
    let operands = plan.graph.sum_of_products(scores.product).map(|(a, b, _)| (a, b));
    let (query, key) = (scores.query, scores.key);
    let same = operands.is_some_and(|(a, b)| (a, b) == (query, key) || (b, a) == (query, key));
    faults.unless(same, own, || "its queries and keys are not the operands of its scores".to_owned());
}

/// The keys that are visited follow from the mask, which the range or a probe tells; what is computed once for a row depends on
/// no key.
fn key_loop(
    plan: &Plan<'_>,
    k: &KernelPlan,
    (a, of): (&Attention, &KeyLoop),
    heads: &BTreeSet<AxisId>,
    faults: &mut Faults,
) {
    let (g, own) = (&*plan.graph, name(plan, k.buffer));
    let mask = masked(g, a);
    let expected = mask.map(|(condition, _)| {
        let axes = g.node(a.score).axes.iter().chain(of.rows).filter(|x| *x != a.key && !heads.contains(x));
        key_range(g, &places(g, axes, a.key), condition, of.rows)
    });
    let (range, understood) = expected.unwrap_or_default();
    let reports = mask.is_some_and(|(condition, _)| plan.defined.may_report(condition));
    let range = if reports { KeyRange::default() } else { range };
    faults.unless(of.range == range, own, || {
        "it visits a range of keys that its mask does not give".to_owned()
    });
    if let Some(own_mask) = &of.mask {
        let same = mask == Some((own_mask.condition, own_mask.unmasked));
        faults.unless(same, own, || "it applies a mask that its scores do not have".to_owned());
        let is_told = own_mask.probe.is_some() || understood && !reports;
        faults.unless(is_told, own, || "neither its range nor a probe tells what its mask keeps".to_owned());
    }
    let is_fixed = of.invariant.iter().all(|id| !g.node(*id).axes.contains(a.key));
    faults.unless(is_fixed, own, || "what it computes once for each row depends on the key".to_owned());
}
