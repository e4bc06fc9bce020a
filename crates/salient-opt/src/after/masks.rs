//! Masks inside the weights of a sum over keys: what is zero wherever a mask does not hold has the mask around it.
//!
//! `max(if m then p else 0, c)` is zero without `m` as `p` itself is, if `c` is not above zero. With the mask outermost the keys
//! that it excludes are known before anything is computed of them. Masks of masks are one conjunction in one order; those that are
//! made of scores stand inside, as they say nothing of keys before there are scores.

use crate::graph::choices::{conjuncts, value_without, without};
use crate::graph::demanded::open_values;
use crate::graph::digest::digests;
use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use salient_ir::{Builder, Class, Const, DType, Graph, MapOp, NodeId, Op, ReduceOp};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

/// The masks of weights.
struct Masks {
    /// Those that no score decides: they stand around the others, since they say which keys are looked at.
    early: Vec<NodeId>,
    /// Those that are made of scores.
    late: Vec<NodeId>,
}

/// The same graph with the masks of weights outermost, in one order.
pub(crate) fn masks_outermost(g: &Graph) -> Rewritten {
    let open = LazyCell::new(|| open_values(g));
    let mut found: BTreeMap<NodeId, Masks> = BTreeMap::new();
    for id in g.ids().filter(|id| is_summed(g, *id)) {
        let weights = g.args(id)[0];
        let all = all_masks(g, weights);
        // What stands under another mask is looked at outside of it then.
        if !all.is_empty() && !all.iter().any(|mask| open.is_open(*mask)) {
            let (late, early) = all.into_iter().partition(|mask| is_late(g, *mask));
            found.insert(weights, Masks { early, late });
        }
    }
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    let digests = digests(g);
    rewrite_in_order(g, |b, new, id| Some(build(g, b, new, &digests, id, found.get(&id)?)))
}

/// Whether a node sums its first argument, which is zero where nothing is to be added.
fn is_summed(g: &Graph, id: NodeId) -> bool {
    match g.op(id) {
        Op::Fused(op, _) => op.info().reduces && op.info().masked() == 0.0,
        Op::Reduce(op, _) => *op == ReduceOp::Sum && g.node(id).dtype == DType::F32,
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
        Op::Map(_) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => false,
    }
}

/// Whether a mask is made of what is summed: a score, or the weights of a row.
fn is_late(g: &Graph, mask: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![mask]);
    while let Some(id) = stack.pop() {
        match g.op(id).class() {
            Class::Map if seen.insert(id) => stack.extend(g.args(id)),
            Class::Bind => return true,
            Class::Map | Class::Port | Class::Leaf | Class::View | Class::Concat => {}
        }
    }
    false
}

/// The masks of an expression that is zero without them: those around it, and those inside. None if they stand as they should.
fn all_masks(g: &Graph, root: NodeId) -> BTreeSet<NodeId> {
    let is_zero = |id: NodeId| *g.op(id) == Op::Const(Const::f32(0.0));
    let (mut all, mut inside, mut around) = (BTreeSet::new(), root, 0);
    while *g.op(inside) == Op::Map(MapOp::Select) && is_zero(g.args(inside)[2]) {
        conjuncts(g, g.args(inside)[0], &mut all);
        inside = g.args(inside)[1];
        around += 1;
    }
    let (mut candidates, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![inside]);
    // Only the masks that stand around are looked for in what these are made of.
    stack.extend(all.iter().filter(|mask| is_late(g, **mask)));
    while let Some(id) = stack.pop() {
        if g.op(id).class() != Class::Map || !seen.insert(id) {
            continue;
        }
        let args = g.args(id);
        if *g.op(id) == Op::Map(MapOp::Select) && matches!(g.op(args[2]), Op::Const(_)) {
            candidates.insert(args[0]);
        }
        stack.extend(args);
    }
    let vanishes = |mask: &&NodeId| {
        let zero = |of| value_without(g, of, **mask, &mut BTreeMap::new()).map(f32::to_bits) == Some(0);
        zero(inside) || zero(root)
    };
    let is_known = |mask: &NodeId| {
        let mut of = BTreeSet::new();
        conjuncts(g, *mask, &mut of);
        of.is_subset(&all)
    };
    let repeated = candidates.iter().any(is_known);
    let more: Vec<NodeId> =
        candidates.iter().filter(|mask| !is_known(mask)).filter(vanishes).copied().collect();
    more.iter().for_each(|mask| conjuncts(g, *mask, &mut all));
    // One mask around all of it stands as it should.
    let is_done = more.is_empty() && !repeated && around < 2 && all.len() < 2;
    if is_done { BTreeSet::new() } else { all }
}

/// The weights under their masks.
fn build(g: &Graph, b: &mut Builder, new: &[NodeId], digests: &[u64], id: NodeId, masks: &Masks) -> NodeId {
    let ordered = |masks: &[NodeId]| {
        let mut masks = masks.to_vec();
        // As in every conjunction: what has more axes stands first.
        masks.sort_by_key(|mask| (std::cmp::Reverse(g.node(*mask).axes.len()), digests[mask.index()]));
        masks
    };
    let (early, late) = (ordered(&masks.early), ordered(&masks.late));
    let all: BTreeSet<NodeId> = early.iter().chain(&late).copied().collect();
    let first: BTreeSet<NodeId> = early.iter().copied().collect();
    let mut value = without(g, b, new, id, &all);
    let zero = b.constant(Const::f32(0.0));
    let late: Vec<NodeId> = late
        .iter()
        .map(|mask| {
            let mask = without(g, b, new, *mask, &first);
            refined(b, mask, value)
        })
        .collect();
    let early: Vec<NodeId> = early.iter().map(|mask| new[mask.index()]).collect();
    for masks in [late, early] {
        let all = masks.into_iter().reduce(|x, y| b.map(MapOp::And, &[x, y]).expect("truths"));
        if let Some(mask) = all {
            value = b.map(MapOp::Select, &[mask, value, zero]).expect("a mask of numbers");
        }
    }
    value
}

/// `not (x < c)` as `c <= x` where `x` itself is what is masked: the two differ for NaN, which the product is then. The rule
/// `masks/refined-comparison` says the same of a choice of `x`; a mask that came back from the values was around those.
fn refined(b: &mut Builder, mask: NodeId, value: NodeId) -> NodeId {
    let compared = b.args(mask).first().copied().filter(|_| *b.op(mask) == Op::Map(MapOp::Not));
    let Some(compared) = compared.filter(|x| *b.op(*x) == Op::Map(MapOp::Lt)) else { return mask };
    let sides = b.args(compared).to_vec();
    let is_factor =
        |x: &NodeId| *x == value || *b.op(value) == Op::Map(MapOp::Mul) && b.args(value).contains(x);
    if !sides.iter().any(is_factor) {
        return mask;
    }
    b.map(MapOp::Le, &[sides[1], sides[0]]).expect("numbers")
}
