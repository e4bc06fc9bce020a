//! Masks inside the weights of a sum over keys: what is zero wherever a mask does not hold has the mask around it.
//!
//! `max(if m then p else 0, c)` is zero without `m` as `p` itself is, if `c` is not above zero. With the mask outermost the keys
//! that it excludes are known before anything is computed of them.

use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use salient_ir::{Builder, Class, Const, DType, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// The same graph with the masks of weights outermost.
pub(crate) fn masks_outermost(g: &Graph) -> Rewritten {
    let mut found: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for id in g.ids().filter(|id| is_summed(g, *id)) {
        let weights = g.args(id)[0];
        let masks = masks(g, weights);
        if !masks.is_empty() {
            found.insert(weights, masks);
        }
    }
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite_in_order(g, |b, new, id| {
        let masks = found.get(&id)?;
        let zero = b.constant(Const::f32(0.0));
        let mut value = without(g, b, new, id, masks);
        for mask in masks {
            value = b.map(MapOp::Select, &[new[mask.index()], value, zero]).expect("a mask of numbers");
        }
        Some(value)
    })
}

/// Whether a node sums its first argument, which is zero where nothing is to be added.
fn is_summed(g: &Graph, id: NodeId) -> bool {
    match g.op(id) {
        Op::Fused(op, _) => op.info().reduces && op.info().masked() == 0.0,
        Op::Reduce(op, _) => *op == ReduceOp::Sum && g.node(id).dtype == DType::F32,
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
        Op::Map(_) | Op::At(_) | Op::Concat(..) | Op::CumSum(_) => false,
    }
}

/// The masks of choices inside an expression, without which it is zero, that do not stand around it already.
fn masks(g: &Graph, root: NodeId) -> Vec<NodeId> {
    let is_zero = |id: NodeId| *g.op(id) == Op::Const(Const::f32(0.0));
    // What stands around it is outermost.
    let mut inside = root;
    while *g.op(inside) == Op::Map(MapOp::Select) && is_zero(g.args(inside)[2]) {
        inside = g.args(inside)[1];
    }
    let (mut candidates, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![inside]);
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
    let vanishes = |mask: &NodeId| {
        let zero = value_without(g, inside, *mask, &mut BTreeMap::new());
        zero.is_some_and(|value| value.to_bits() == 0)
    };
    candidates.into_iter().filter(vanishes).collect()
}

/// The value of an expression where a mask does not hold, if constants alone decide it; each step as single precision has it.
fn value_without(
    g: &Graph,
    id: NodeId,
    mask: NodeId,
    known: &mut BTreeMap<NodeId, Option<f32>>,
) -> Option<f32> {
    if id == mask {
        return Some(0.0);
    }
    if let Some(value) = known.get(&id) {
        return *value;
    }
    let args = g.args(id);
    let mut value_of = |id: NodeId| value_without(g, id, mask, known);
    let value = match g.op(id) {
        Op::Const(c) => Some(c.value() as f32),
        Op::Map(MapOp::Select) => match value_of(args[0]) {
            Some(holds) => value_of(args[if holds != 0.0 { 1 } else { 2 }]),
            None => None,
        },
        Op::Map(op) => {
            let values: Option<Vec<f64>> = args.iter().map(|arg| value_of(*arg).map(f64::from)).collect();
            let is_float = g.node(args[0]).dtype != DType::I32 && g.node(args[0]).dtype != DType::I64;
            values.filter(|_| is_float).map(|values| (op.info().eval)(&values) as f32)
        }
        Op::Input(_) | Op::Param(_) | Op::Iota(_) | Op::Extent(_) | Op::Reduce(..) => None,
        Op::At(_) | Op::Concat(..) | Op::CumSum(_) | Op::Fused(..) => None,
    };
    known.insert(id, value);
    value
}

/// An expression with every choice by one of these masks taken.
fn without(g: &Graph, b: &mut Builder, new: &[NodeId], root: NodeId, masks: &[NodeId]) -> NodeId {
    let mut made: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let mut stack = vec![root];
    while let Some(id) = stack.last().copied() {
        let args = g.args(id);
        let is_choice = *g.op(id) == Op::Map(MapOp::Select) && masks.contains(&args[0]);
        let needed: &[NodeId] = match g.op(id).class() {
            Class::Map if is_choice => &args[1..2],
            Class::Map => &args,
            Class::Port | Class::Leaf | Class::View | Class::Concat | Class::Bind => &[],
        };
        let missing: Vec<NodeId> = needed.iter().copied().filter(|arg| !made.contains_key(arg)).collect();
        if !missing.is_empty() {
            stack.extend(missing);
            continue;
        }
        stack.pop();
        let parts: Vec<NodeId> = needed.iter().map(|arg| made[arg]).collect();
        let is_same = needed.iter().zip(&parts).all(|(arg, part)| new[arg.index()] == *part);
        let node = match (is_choice, is_same) {
            (true, _) => parts[0],
            (false, true) => new[id.index()],
            (false, false) => b.add(g.op(id).clone(), &parts).expect("as before without a choice"),
        };
        made.insert(id, node);
    }
    made[&root]
}
