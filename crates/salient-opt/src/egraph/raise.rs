//! Raises the chosen terms to a graph that reads well: quotients, differences and negatives return, conjunctions get one
//! order, factors stand before scalars. Changes no value beyond the rounding of a quotient.

use super::extract::Choice;
use crate::facts::Classes;
use crate::lang::Tag;
use egg::Id;
use salient_ir::{Builder, Const, Graph, MapOp, NodeId, Op};
use std::collections::{HashMap, HashSet};

/// The graph of the chosen terms.
pub(crate) struct Raised {
    /// The graph.
    pub(crate) graph: Graph,
    /// The class of each node of the graph that has one.
    pub(crate) class_of: HashMap<NodeId, Id>,
}

/// The graph of the chosen terms. `roots` are the classes of the outputs of `g`, whose axes, ports and names it has.
pub(crate) fn raise(g: &Graph, classes: &Classes, choice: &Choice, roots: &[Id]) -> Raised {
    let sources = g.ids().collect();
    let mut t = Raise { g, sources, classes, choice, b: Builder::like(g), nodes: HashMap::new() };
    let mut built: Vec<NodeId> = roots.iter().map(|r| t.build(*r)).collect();
    for (out, node) in g.outputs().iter().zip(&mut built) {
        // A term may mention an axis on which its value does not depend: any position along it will do.
        for axis in t.b.node(*node).axes.clone().iter().filter(|a| !out.axes.contains(a)) {
            let first = t.b.constant(Const::I64(0));
            *node = t.b.at(*node, axis, first).expect("an index is an integer");
        }
        t.b.output(&out.name, &out.axes, *node).expect("every axis is listed");
    }
    let (graph, moved) = t.b.finish_moved();
    let class_of = t.nodes.into_iter().filter_map(|(class, node)| Some((moved[node.index()]?, class)));
    Raised { graph, class_of: class_of.collect() }
}

struct Raise<'a> {
    g: &'a Graph,
    /// The nodes of `g` by position.
    sources: Vec<NodeId>,
    classes: &'a Classes,
    choice: &'a Choice,
    b: Builder,
    nodes: HashMap<Id, NodeId>,
}

impl Raise<'_> {
    fn tag(&self, class: Id) -> Tag {
        self.choice[&self.classes.find(class)].term.tag
    }

    fn child(&self, class: Id, n: usize) -> Id {
        self.classes.find(self.choice[&self.classes.find(class)].term.children[n])
    }

    /// The node of a class; what it needs is built first. With a stack of its own: models are deep.
    fn build(&mut self, root: Id) -> NodeId {
        let mut stack = vec![self.classes.find(root)];
        while let Some(class) = stack.last().copied() {
            if self.nodes.contains_key(&class) {
                stack.pop();
                continue;
            }
            let (op, args) = self.operation(class);
            let missing: Vec<Id> = args.iter().copied().filter(|a| !self.nodes.contains_key(a)).collect();
            if !missing.is_empty() {
                stack.extend(missing.into_iter().rev());
                continue;
            }
            let args: Vec<NodeId> = args.iter().map(|a| self.nodes[a]).collect();
            let node = self.add(op, args);
            if let Some(source) = self.classes[class].data.source {
                let source = self.g.node(self.sources[source as usize]);
                self.b.describe(node, source.name.as_ref(), source.origin);
            }
            self.nodes.insert(class, node);
            stack.pop();
        }
        self.nodes[&self.classes.find(root)]
    }

    fn add(&mut self, op: Op, mut args: Vec<NodeId>) -> NodeId {
        let add = |b: &mut Builder, op: &Op, args: &[NodeId]| {
            b.add(op.clone(), args).expect("equal terms have the same type")
        };
        if let Op::Map(map) = op
            && map.info().commutative
        {
            // The argument with more axes first; a chain is folded from the left.
            args.sort_by_key(|a| std::cmp::Reverse(self.b.node(*a).axes.len()));
            let first = args[0];
            return args[1..].iter().fold(first, |x, y| add(&mut self.b, &op, &[x, *y]));
        }
        add(&mut self.b, &op, &args)
    }

    /// What a class does and to which classes, in the form that reads best. A conjunction has all its parts at once.
    fn operation(&self, class: Id) -> (Op, Vec<Id>) {
        let term = &self.choice[&class].term;
        let child = |n: usize| self.classes.find(term.children[n]);
        let axis =
            |n: usize| self.classes[term.children[n]].data.axis.expect("an axis stands where one belongs");
        let values = |from: usize| (from..term.children.len()).map(child).collect::<Vec<_>>();
        match term.tag {
            Tag::Axis(_) => unreachable!("an axis is no value"),
            Tag::Input(n) => (Op::Input(n as usize), vec![]),
            Tag::Param(n) => (Op::Param(n as usize), vec![]),
            Tag::Const(c) => (Op::Const(c), vec![]),
            Tag::Extent(n) => (Op::Extent(self.classes.analysis.dims[n as usize].clone()), vec![]),
            Tag::Iota => (Op::Iota(axis(0)), vec![]),
            Tag::Map(MapOp::Mul) => self.product(child(0), child(1)),
            Tag::Map(MapOp::Add) => self.sum(child(0), child(1)),
            Tag::Map(op @ (MapOp::And | MapOp::Or)) => {
                let mut parts = self.flattened(op, class);
                parts.sort_by_key(|p| self.choice[p].digest);
                (Op::Map(op), parts)
            }
            Tag::Map(op) => (Op::Map(op), values(0)),
            Tag::Reduce(op) => (Op::Reduce(op, axis(0)), values(1)),
            Tag::At => (Op::At(axis(0)), values(1)),
            Tag::Concat => {
                let count = (term.children.len() - 1) / 2;
                (Op::Concat(axis(0), (1..=count).map(axis).collect()), values(1 + count))
            }
            Tag::CumSum(direction) => (Op::CumSum(direction, axis(0)), values(1)),
            Tag::Fused(op) => (Op::Fused(op, axis(0)), values(1)),
        }
    }

    fn is_minus_one(&self, class: Id) -> bool {
        self.tag(class) == Tag::Const(Const::f32(-1.0))
    }

    /// The class of which this one is the negative, if that can be computed without it.
    fn negated(&self, class: Id) -> Option<Id> {
        let minus_one = |id: Id| self.classes[id].data.constant == Some(Const::f32(-1.0));
        let products = self.classes[class].iter().filter(|t| t.tag == Tag::Map(MapOp::Mul));
        let others = products.filter_map(|t| match (minus_one(t.children[0]), minus_one(t.children[1])) {
            (_, true) => Some(self.classes.find(t.children[0])),
            (true, false) => Some(self.classes.find(t.children[1])),
            (false, false) => None,
        });
        let turn = self.choice[&class].turn;
        // What was settled sooner, or made of nothing later: of two that cost the same either may come first.
        let early = |id: &Id| self.choice.get(&self.classes.find(*id)).is_some_and(|c| c.turn < turn);
        let possible = |id: &Id| self.choice.get(id).is_some_and(|c| c.term.children.iter().all(early));
        let sooner = others.filter(|o| early(o) || possible(o));
        sooner.min_by_key(|o| self.choice[o].digest)
    }

    fn product(&self, x: Id, y: Id) -> (Op, Vec<Id>) {
        let recip = |c: Id| self.tag(c) == Tag::Map(MapOp::Recip);
        if self.is_minus_one(y) {
            (Op::Map(MapOp::Neg), vec![x])
        } else if self.is_minus_one(x) {
            (Op::Map(MapOp::Neg), vec![y])
        } else if recip(y) {
            (Op::Map(MapOp::Div), vec![x, self.child(y, 0)])
        } else if recip(x) {
            (Op::Map(MapOp::Div), vec![y, self.child(x, 0)])
        } else {
            (Op::Map(MapOp::Mul), vec![x, y])
        }
    }

    fn sum(&self, x: Id, y: Id) -> (Op, Vec<Id>) {
        let literal = |c: Id| self.classes[c].data.constant.is_some();
        if literal(x) || literal(y) {
            (Op::Map(MapOp::Add), vec![x, y])
        } else if let Some(z) = self.negated(y) {
            (Op::Map(MapOp::Sub), vec![x, z])
        } else if let Some(z) = self.negated(x) {
            (Op::Map(MapOp::Sub), vec![y, z])
        } else {
            (Op::Map(MapOp::Add), vec![x, y])
        }
    }

    /// What a class joins by an operator, each once.
    fn flattened(&self, op: MapOp, class: Id) -> Vec<Id> {
        let (mut parts, mut seen, mut stack) = (Vec::new(), HashSet::new(), vec![class]);
        while let Some(class) = stack.pop() {
            if !seen.insert(class) {
                continue;
            }
            if self.tag(class) == Tag::Map(op) {
                stack.extend([self.child(class, 1), self.child(class, 0)]);
            } else {
                parts.push(class);
            }
        }
        parts
    }
}
