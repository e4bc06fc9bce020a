//! What is chosen by masks that are known to hold.

use crate::graph::factors::args_of;
use salient_ir::{Builder, Class, Const, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

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
