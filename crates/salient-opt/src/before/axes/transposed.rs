//! Sums that read scores through a transposition.
//!
//! Where queries and keys are positions of one sequence their axes are of one kind. A sum over the queries, as a gradient by the
//! keys is, then asks for the scores under the names of its result, and since these are computed once it reads them with rows and
//! columns swapped, as if they were stored. Here the sum goes over them as they are, and its result is renamed: it has an axis less.

use crate::graph::rewrite::copy;
use salient_ir::{AxisId, Builder, Class, Graph, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, HashMap};

/// The same model with each sum over what is read transposed as one over what is there, renamed.
pub(crate) fn transposed_sums(g: &Graph) -> Graph {
    let heavy = heavy(g);
    let found: BTreeMap<NodeId, Transposed> =
        g.ids().filter_map(|id| Some((id, transposed(g, &heavy, id)?))).collect();
    if found.is_empty() {
        return g.clone();
    }
    let mut b = Builder::like(g);
    let mut renamed: HashMap<NodeId, Renamed> = HashMap::new();
    let mut new: Vec<NodeId> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let made = match found.get(&id) {
            Some(sum) => Some(sum.build(g, &mut b, &new)),
            None => above(g, &mut b, &renamed, &new, id),
        };
        let node = match made {
            Some(of) => {
                let view = b.rename(of.node, of.from, of.to).expect("the sum lacks the new name");
                renamed.insert(view, of);
                view
            }
            None => copy(g, &mut b, id, |arg| new[arg.index()]),
        };
        b.describe(node, g.node(id).name.as_ref(), g.node(id).origin);
        new.push(node);
    }
    for out in g.outputs() {
        let node = new[out.node.index()];
        // A result has names of its own.
        let (node, axes) = match renamed.get(&node).filter(|of| !out.axes.contains(&of.from)) {
            Some(of) => (of.node, out.axes.iter().map(|a| if *a == of.to { of.from } else { *a }).collect()),
            None => (node, out.axes.clone()),
        };
        b.output(&out.name, &axes, node).expect("axes are as before, renamed");
    }
    b.finish()
}

/// A value that stands for another one with an axis of another name.
#[derive(Clone, Copy)]
struct Renamed {
    node: NodeId,
    from: AxisId,
    to: AxisId,
}

/// A scalar operator over a renamed value and what lacks both names is renamed itself.
fn above(
    g: &Graph,
    b: &mut Builder,
    renamed: &HashMap<NodeId, Renamed>,
    new: &[NodeId],
    id: NodeId,
) -> Option<Renamed> {
    let Op::Map(op) = *g.op(id) else { return None };
    let args: Vec<NodeId> = g.args(id).iter().map(|arg| new[arg.index()]).collect();
    let of = args.iter().find_map(|arg| renamed.get(arg)).copied()?;
    let inner = |arg: &NodeId| match renamed.get(arg) {
        Some(other) => (other.from == of.from && other.to == of.to).then_some(other.node),
        None => {
            let axes = &b.node(*arg).axes;
            (!axes.contains(of.from) && !axes.contains(of.to)).then_some(*arg)
        }
    };
    let args = args.iter().map(inner).collect::<Option<Vec<NodeId>>>()?;
    Some(Renamed { node: b.map(op, &args).ok()?, ..of })
}

/// A sum that reads scores with two axes swapped, and none as they are.
struct Transposed {
    op: ReduceOp,
    /// What it sums over.
    along: AxisId,
    /// The axis of its result that has the name of the other one where the scores are made.
    other: AxisId,
    x: NodeId,
}

fn transposed(g: &Graph, heavy: &[bool], id: NodeId) -> Option<Transposed> {
    let Op::Reduce(op, along) = *g.op(id) else { return None };
    let x = g.args(id)[0];
    let like = |axis: &AxisId| g.extent(*axis) == g.extent(along) && *axis != along;
    let other =
        g.node(id).axes.iter().filter(like).find(|other| is_read_swapped(g, heavy, x, (along, *other)))?;
    Some(Transposed { op, along, other, x })
}

/// Whether an expression reads what is costly with these axes swapped, and nothing that is costly with them as they are.
fn is_read_swapped(g: &Graph, heavy: &[bool], x: NodeId, (a, c): (AxisId, AxisId)) -> bool {
    let (mut seen, mut stack, mut found) = (vec![false; g.len()], vec![x], false);
    while let Some(id) = stack.pop() {
        let axes = &g.node(id).axes;
        let is_of_both = axes.contains(a) && axes.contains(c) && heavy[id.index()];
        if std::mem::replace(&mut seen[id.index()], true) || !is_of_both {
            continue;
        }
        match g.op(id).class() {
            Class::Map => stack.extend(g.args(id)),
            Class::View => match renaming(g, id) {
                Some((_, names)) if [(a, c), (c, a)].iter().all(|name| names.contains(name)) => found = true,
                Some(_) | None => return false,
            },
            Class::Port | Class::Leaf | Class::Concat | Class::Bind => return false,
        }
    }
    found
}

/// What a chain of views renames, and the names of those of its axes that get another one.
fn renaming(g: &Graph, mut id: NodeId) -> Option<(NodeId, Vec<(AxisId, AxisId)>)> {
    let mut names: Vec<(AxisId, AxisId)> = Vec::new();
    while let Op::At(axis) = *g.op(id) {
        let args = g.args(id);
        let Op::Iota(to) = *g.op(args[1]) else { return None };
        if !g.is_renamed(axis, args[1]) {
            return None;
        }
        let to = names.iter().position(|(from, _)| *from == to).map_or(to, |at| names.remove(at).1);
        names.push((axis, to));
        id = args[0];
    }
    let own = &g.node(id).axes;
    names.retain(|(from, to)| from != to && own.contains(*from));
    Some((id, names))
}

/// Whether there is a sum in each node.
fn heavy(g: &Graph) -> Vec<bool> {
    let mut out: Vec<bool> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let inside = || g.args(id).iter().any(|arg| out[arg.index()]);
        let is_heavy = g.op(id).class() == Class::Bind || inside();
        out.push(is_heavy);
    }
    out
}

impl Transposed {
    /// The sum over the scores as they are, under the name that its result has there.
    fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> Renamed {
        let mut swap = Swap { g, new, axes: [self.along, self.other], memo: HashMap::new() };
        let x = swap.node(b, self.x);
        let node = b.reduce(self.op, self.other, x).expect("the same types as before");
        Renamed { node, from: self.along, to: self.other }
    }
}

/// An expression with two axes swapped.
struct Swap<'a> {
    g: &'a Graph,
    new: &'a [NodeId],
    axes: [AxisId; 2],
    memo: HashMap<NodeId, NodeId>,
}

impl Swap<'_> {
    fn name(&self, axis: AxisId) -> AxisId {
        let [a, c] = self.axes;
        if axis == a {
            c
        } else if axis == c {
            a
        } else {
            axis
        }
    }

    /// With a stack as deep as the expression: kernels are no deeper than graphs, which are walked in a room of their depth.
    fn node(&mut self, b: &mut Builder, id: NodeId) -> NodeId {
        if let Some(made) = self.memo.get(&id) {
            return *made;
        }
        let g = self.g;
        let made = if !self.axes.iter().any(|axis| g.node(id).axes.contains(*axis)) {
            self.new[id.index()]
        } else if let Op::Map(op) = *g.op(id) {
            let args: Vec<NodeId> = g.args(id).into_iter().map(|arg| self.node(b, arg)).collect();
            b.map(op, &args).expect("the same types as before")
        } else if let Op::Iota(axis) = *g.op(id) {
            b.iota(self.name(axis))
        } else {
            let (base, names) = renaming(g, id).unwrap_or((id, Vec::new()));
            let seen = |own: AxisId| names.iter().find(|(from, _)| *from == own).map_or(own, |(_, to)| *to);
            let own: Vec<AxisId> = g.node(base).axes.iter().collect();
            let with: Vec<(AxisId, NodeId)> =
                own.into_iter().map(|axis| (axis, b.iota(self.name(seen(axis))))).collect();
            b.at_all(self.new[base.index()], &with).expect("renaming axes keeps types")
        };
        self.memo.insert(id, made);
        made
    }
}
