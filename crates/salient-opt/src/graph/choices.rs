//! What is chosen by masks that are known to hold.

use crate::graph::factors::args_of;
use salient_ir::{Builder, Class, Const, DType, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Of a choice that is zero where its condition does not hold the condition, and the value where it does.
pub(crate) fn under_condition(g: &Graph, id: NodeId) -> Option<(NodeId, NodeId)> {
    let Op::Map(MapOp::Select) = *g.op(id) else { return None };
    let [condition, value, other] = [0, 1, 2].map(|at| g.args(id)[at]);
    (*g.op(other) == Op::Const(Const::f32(0.0))).then_some((condition, value))
}

/// The parts of a conjunction.
pub(crate) fn conjuncts(g: &Graph, mask: NodeId, out: &mut BTreeSet<NodeId>) {
    let mut stack = vec![mask];
    while let Some(id) = stack.pop() {
        match args_of(g, id, MapOp::And) {
            Some(args) => stack.extend(args),
            None => {
                out.insert(id);
            }
        }
    }
}

/// The value of an expression where a mask does not hold, if constants alone decide it; each step as single precision has it.
pub(crate) fn value_without(
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
        Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
    };
    known.insert(id, value);
    value
}

/// An expression with every choice by one of these masks taken, where a mask as a number is one.
pub(crate) fn without(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    root: NodeId,
    masks: &BTreeSet<NodeId>,
) -> NodeId {
    let holds = |mask: NodeId| {
        let mut of = BTreeSet::new();
        conjuncts(g, mask, &mut of);
        of.is_subset(masks)
    };
    let mut made: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let mut stack = vec![root];
    while let Some(id) = stack.last().copied() {
        let args = g.args(id);
        if *g.op(id) == Op::Map(MapOp::ToF32) && holds(args[0]) {
            made.insert(id, b.constant(Const::f32(1.0)));
            stack.pop();
            continue;
        }
        let is_choice = *g.op(id) == Op::Map(MapOp::Select) && holds(args[0]);
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
