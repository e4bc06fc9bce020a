//! Graphs made node by node: each is typed as it is added, and equal ones are shared.

use super::typing::{TypeError, result_type};
use super::{Args, Graph, Init, Node, NodeId, Origin, Output, Port, Requirement, State};
use crate::axis::{Axis, AxisId, AxisSet};
use crate::dim::{Dim, Name};
use crate::op::{Class, Const, Op};
use crate::ty::DType;
use petgraph::graph::DiGraph;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Builds a graph. Equal nodes (same operator, same arguments) are one node.
#[derive(Clone, Debug)]
pub struct Builder {
    graph: Graph,
    interned: FxHashMap<(Op, Args), NodeId>,
    /// The types that outputs of these names are stored in, where those are not the types of their values.
    stored: Vec<(Name, DType)>,
}

impl std::ops::Deref for Builder {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        &self.graph
    }
}

impl Builder {
    /// An empty graph for a model of that name.
    pub fn new(name: &str) -> Builder {
        Builder { graph: Graph::empty(name), interned: FxHashMap::default(), stored: Vec::new() }
    }

    /// A builder with the axes of `graph` and nothing else: axis ids stay the same.
    pub fn with_axes(graph: &Graph) -> Builder {
        let mut out = Builder::new(&graph.name);
        out.graph.axes = graph.axes.clone();
        out.graph.axis_ids = graph.axis_ids.clone();
        out
    }

    /// The same with the inputs of `graph`, without their initialisers: positions stay the same.
    pub fn with_inputs(graph: &Graph) -> Builder {
        let mut out = Builder::with_axes(graph);
        out.graph.inputs = graph.inputs.iter().map(|port| Port { init: None, ..port.clone() }).collect();
        out
    }

    /// A builder with the axes, inputs, parameters, states and requirements of `graph`, and no nodes: axis ids and
    /// positions of inputs and parameters stay the same, and those of outputs must. Initialisers refer to nodes and are carried over by [`Builder::copy`].
    pub fn like(graph: &Graph) -> Builder {
        let mut out = Builder::with_inputs(graph);
        out.graph.params = graph.params.clone();
        out.graph.requirements = graph.requirements.clone();
        out.stored = graph.outputs.iter().map(|o| (o.name.clone(), o.dtype)).collect();
        out.states_of(graph);
        for (at, port) in graph.inputs.iter().enumerate() {
            out.graph.inputs[at].init = port.init.map(|init| init.map(|node| out.copy(graph, node)));
        }
        for (at, port) in graph.params.iter().enumerate() {
            out.graph.params[at].init = port.init.map(|init| init.map(|node| out.copy(graph, node)));
        }
        out
    }

    /// The node of `from` with everything it depends on. Axis ids must mean the same in both graphs.
    pub fn copy(&mut self, from: &Graph, id: NodeId) -> NodeId {
        // Each node once, arguments first: with a stack of its own, since graphs are deep.
        let mut new: FxHashMap<NodeId, NodeId> = FxHashMap::default();
        let mut stack = vec![id];
        while let Some(at) = stack.last().copied() {
            let args = from.args(at);
            let missing: Vec<NodeId> = args.iter().copied().filter(|a| !new.contains_key(a)).collect();
            if !new.contains_key(&at) && !missing.is_empty() {
                stack.extend(missing);
                continue;
            }
            stack.pop();
            let args: Args = args.iter().map(|a| new[a]).collect();
            let node = from.node(at);
            let copied = self.add(node.op.clone(), &args).expect("a node of a verified graph");
            self.describe(copied, node.name.as_ref(), node.origin);
            new.insert(at, copied);
        }
        new[&id]
    }

    /// The axis of that name and extent.
    pub fn axis_id(&mut self, name: &str, extent: &Dim) -> AxisId {
        let axis = Axis { name: name.into(), extent: extent.clone() };
        if let Some(id) = self.graph.axis_ids.get(&axis) {
            return *id;
        }
        let id = AxisId::new(self.graph.axes.len());
        self.graph.axes.push(axis.clone());
        self.graph.axis_ids.insert(axis, id);
        id
    }

    /// An axis like `axis` that is in none of the sets: the name gets a number.
    pub fn fresh_axis(&mut self, axis: AxisId, avoid: &AxisSet) -> AxisId {
        let Axis { name, extent } = self.axis(axis).clone();
        let stem = name.split('.').next().unwrap_or(&name).to_owned();
        (1..)
            .map(|n| self.axis_id(&format!("{stem}.{n}"), &extent))
            .find(|a| !avoid.contains(*a))
            .expect("numbers do not end")
    }

    /// Declares an input and gives its node.
    pub fn input(&mut self, name: &str, axes: &[AxisId], dtype: DType, origin: Option<Origin>) -> NodeId {
        self.graph.inputs.push(Port { name: name.into(), axes: axes.to_vec(), dtype, init: None, origin });
        self.port_node(Op::Input(self.graph.inputs.len() - 1))
    }

    /// Says how an input begins that is a state.
    pub fn begins_as(&mut self, input: usize, init: Option<Init>) {
        self.graph.inputs[input].init = init;
    }

    /// Declares a parameter and gives its node.
    pub fn param(
        &mut self,
        path: &str,
        axes: &[AxisId],
        dtype: DType,
        init: Option<Init>,
        origin: Option<Origin>,
    ) -> NodeId {
        self.graph.params.push(Port { name: path.into(), axes: axes.to_vec(), dtype, init, origin });
        self.port_node(Op::Param(self.graph.params.len() - 1))
    }

    fn port_node(&mut self, op: Op) -> NodeId {
        self.add(op, &[]).expect("a port just declared")
    }

    /// A relation that the dimensions must satisfy when they are bound.
    pub fn require(&mut self, requirement: Requirement) {
        let known = self.graph.requirements.iter_mut().find(|known| known.relation == requirement.relation);
        match known {
            None => self.graph.requirements.push(requirement),
            // The same twice is once, with the source's message if one has it.
            Some(known) if known.message.is_none() => *known = requirement,
            Some(known) if requirement.message.is_none() || *known == requirement => {}
            Some(_) => self.graph.requirements.push(requirement),
        }
    }

    /// Any node. The typed short forms below are for the common ones.
    pub fn add(&mut self, op: Op, args: &[NodeId]) -> Result<NodeId, TypeError> {
        let key = (op, Args::from_slice(args));
        if let Some(id) = self.interned.get(&key) {
            return Ok(*id);
        }
        let (dtype, axes) = result_type(&self.graph, &key.0, args)?;
        let depth = match key.0.class() {
            Class::Map | Class::View => args.iter().map(|a| self.graph.node(*a).depth).max().unwrap_or(0) + 1,
            Class::Port | Class::Leaf | Class::Concat | Class::Bind => 0,
        };
        let node = Node { op: key.0.clone(), dtype, axes, name: None, origin: None, depth };
        let id = NodeId(self.graph.dag.add_node(node));
        for (slot, arg) in args.iter().enumerate() {
            let slot = u8::try_from(slot).map_err(|_| TypeError::TooManyArguments(args.len()))?;
            self.graph.dag.add_edge(arg.0, id.0, slot);
        }
        self.interned.insert(key, id);
        Ok(id)
    }

    /// A literal.
    pub fn constant(&mut self, value: Const) -> NodeId {
        self.add(Op::Const(value), &[]).expect("a literal has a type")
    }

    /// The index along an axis.
    pub fn iota(&mut self, axis: AxisId) -> NodeId {
        self.add(Op::Iota(axis), &[]).expect("an index has a type")
    }

    /// The value of a dimension: a literal where it is known.
    pub fn extent_of(&mut self, dim: &Dim) -> NodeId {
        match dim.as_constant() {
            Some(n) => self.constant(Const::I64(n)),
            None => self.add(Op::Extent(dim.clone()), &[]).expect("a dimension has a type"),
        }
    }

    /// A scalar operator.
    pub fn map(&mut self, op: crate::op::MapOp, args: &[NodeId]) -> Result<NodeId, TypeError> {
        self.add(Op::Map(op), args)
    }

    /// A reduction along an axis.
    pub fn reduce(&mut self, op: crate::op::ReduceOp, axis: AxisId, x: NodeId) -> Result<NodeId, TypeError> {
        self.add(Op::Reduce(op, axis), &[x])
    }

    /// `x` with `axis` replaced by the integer expression `index`; `x` itself where that changes nothing.
    pub fn at(&mut self, x: NodeId, axis: AxisId, index: NodeId) -> Result<NodeId, TypeError> {
        if !self.node(x).axes.contains(axis) || self.op(index) == &Op::Iota(axis) {
            return Ok(x);
        }
        self.add(Op::At(axis), &[x, index])
    }

    /// `x` with one axis renamed to another of the same extent.
    pub fn rename(&mut self, x: NodeId, from: AxisId, to: AxisId) -> Result<NodeId, TypeError> {
        let index = self.iota(to);
        self.at(x, from, index)
    }

    /// `x` with every `(axis, index)` replaced at once: no replacement sees another's result.
    pub fn at_all(&mut self, x: NodeId, with: &[(AxisId, NodeId)]) -> Result<NodeId, TypeError> {
        let free = self.node(x).axes.clone();
        let mut rest: Vec<(AxisId, NodeId)> = with
            .iter()
            .copied()
            .filter(|(a, index)| free.contains(*a) && self.op(*index) != &Op::Iota(*a))
            .collect();
        // First what mentions no axis that is still to be replaced, as far as there is such an order. Renamings are put off, so that
        // views that differ in names alone share the view under them.
        rest.sort_by_key(|(axis, index)| self.is_renamed(*axis, *index));
        let mut with: Vec<(AxisId, NodeId)> = Vec::with_capacity(rest.len());
        while !rest.is_empty() {
            let is_free = |(axis, index): &(AxisId, NodeId)| {
                let mentioned = &self.node(*index).axes;
                !rest.iter().any(|(other, _)| other != axis && mentioned.contains(*other))
            };
            with.push(rest.remove(rest.iter().position(is_free).unwrap_or(0)));
        }
        let replaced: AxisSet = with.iter().map(|(a, _)| *a).collect();
        let mut avoid = free.union(&replaced);
        for (_, index) in &with {
            avoid = avoid.union(&self.node(*index).axes);
        }
        // An axis that a later replacement mentions is moved out of the way before any is replaced.
        let mut out = x;
        let mut pending = Vec::new();
        for (n, (axis, index)) in with.iter().enumerate() {
            let captured = with[..n].iter().any(|(_, earlier)| self.node(*earlier).axes.contains(*axis));
            if captured {
                let aside = self.fresh_axis(*axis, &avoid);
                avoid.insert(aside);
                out = self.rename(out, *axis, aside)?;
                pending.push((aside, *index));
            } else {
                pending.push((*axis, *index));
            }
        }
        for (axis, index) in pending {
            out = self.at(out, axis, index)?;
        }
        Ok(out)
    }

    /// An index with every `(axis, index)` replaced at once: scalar operators are written out over the new indices, so that a sum of
    /// indices stays one. What they share is written once.
    pub fn index_at_all(&mut self, index: NodeId, with: &[(AxisId, NodeId)]) -> Result<NodeId, TypeError> {
        self.index_within(index, with, &mut FxHashMap::default())
    }

    fn index_within(
        &mut self,
        index: NodeId,
        with: &[(AxisId, NodeId)],
        known: &mut FxHashMap<NodeId, NodeId>,
    ) -> Result<NodeId, TypeError> {
        if let Some(done) = known.get(&index) {
            return Ok(*done);
        }
        let done = match self.op(index).clone() {
            Op::Iota(own) => with.iter().find(|(axis, _)| *axis == own).map_or(index, |(_, by)| *by),
            op @ Op::Map(_) => {
                let args: Args = self.args(index);
                let args: Result<Args, TypeError> =
                    args.into_iter().map(|arg| self.index_within(arg, with, known)).collect();
                self.add(op, &args?)?
            }
            Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Extent(_)
            | Op::Reduce(..)
            | Op::At(_)
            | Op::Concat(..)
            | Op::CumSum(..)
            | Op::Fused(..) => self.at_all(index, with)?,
        };
        known.insert(index, done);
        Ok(done)
    }

    /// Gives a node the source's name and place, unless it has one already.
    pub fn describe(&mut self, id: NodeId, name: Option<&Name>, origin: Option<Origin>) {
        let node = &mut self.graph.dag[id.0];
        if node.name.is_none() {
            node.name = name.cloned();
        }
        if node.origin.is_none() {
            node.origin = origin;
        }
    }

    /// The result of that name will be stored in this type, if its value is computed in the type that widens it.
    pub fn store(&mut self, name: &str, dtype: DType) {
        self.stored.push((name.into(), dtype));
    }

    /// Declares a result.
    pub fn output(&mut self, name: &str, axes: &[AxisId], node: NodeId) -> Result<(), TypeError> {
        let listed: AxisSet = axes.iter().copied().collect();
        if listed.len() != axes.len() {
            return Err(TypeError::RepeatedAxis(name.to_owned()));
        }
        if let Some(axis) = self.node(node).axes.iter().find(|a| !listed.contains(*a)) {
            return Err(TypeError::UnlistedAxis(name.to_owned(), self.axis(axis).name.to_string()));
        }
        let computed = self.node(node).dtype;
        let stored =
            self.stored.iter().find(|(known, stored)| **known == *name && stored.compute() == computed);
        let dtype = stored.map_or(computed, |(_, stored)| *stored);
        self.graph.outputs.push(Output { name: name.into(), axes: axes.to_vec(), node, dtype });
        Ok(())
    }

    /// Declares that an input is a state and `node` its value after the call. `before` lists the axes of the input and
    /// `after` those of the value, in the order in which both are stored: the axis that grows, if one does, first.
    pub fn state(
        &mut self,
        input: usize,
        before: &[AxisId],
        after: &[AxisId],
        node: NodeId,
    ) -> Result<(), TypeError> {
        let port = &mut self.graph.inputs[input];
        debug_assert_eq!(
            port.axes.iter().collect::<BTreeSet<_>>(),
            before.iter().collect::<BTreeSet<_>>(),
            "the axes of `{}` in another order",
            port.name
        );
        port.axes = before.to_vec();
        let name = port.name.clone();
        self.output(&name, after, node)?;
        self.graph.states.push(State { input, output: self.graph.outputs.len() - 1 });
        Ok(())
    }

    /// Declares that an input is a state, and an output its value after the call.
    pub fn keeps(&mut self, state: State) {
        self.graph.states.push(state);
    }

    /// Declares the states of `graph`, whose inputs and outputs have the same positions here.
    pub fn states_of(&mut self, graph: &Graph) {
        self.graph.states = graph.states.clone();
    }

    /// The finished graph: what no output depends on is dropped.
    pub fn finish(self) -> Graph {
        self.finish_moved().0
    }

    /// The finished graph, and the new id of each node that is still there.
    pub fn finish_moved(self) -> (Graph, Vec<Option<NodeId>>) {
        let old = self.graph;
        let mut live = vec![false; old.len()];
        for id in old.outputs.iter().map(|o| o.node).chain(old.init_nodes()) {
            live[id.index()] = true;
        }
        for id in old.ids().rev() {
            if live[id.index()] {
                old.args(id).iter().for_each(|a| live[a.index()] = true);
            }
        }
        let mut new_ids: Vec<Option<NodeId>> = vec![None; old.len()];
        let mut dag = DiGraph::new();
        for id in old.ids().filter(|id| live[id.index()]) {
            let new = NodeId(dag.add_node(old.node(id).clone()));
            new_ids[id.index()] = Some(new);
            for (slot, arg) in old.args(id).into_iter().enumerate() {
                let arg = new_ids[arg.index()].expect("arguments come before users");
                dag.add_edge(arg.0, new.0, slot as u8);
            }
        }
        let moved = |id: NodeId| new_ids[id.index()].expect("roots are live");
        let mut out = Graph { dag, ..old };
        out.outputs.iter_mut().for_each(|o| o.node = moved(o.node));
        for port in out.inputs.iter_mut().chain(&mut out.params) {
            port.init = port.init.map(|init| init.map(moved));
        }
        (out, new_ids)
    }
}
