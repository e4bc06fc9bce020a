//! The typed graph, immutable: built node by node, equal nodes shared.
//!
//! Passes take a [`Graph`] and return a new one by way of a [`Builder`](crate::Builder). Layout, buffers and kernels are not known here.

use crate::axis::{Axis, AxisId, AxisSet};
use crate::dim::{Dim, DimError, Name, Numbers, said};
use crate::op::{Class, MapOp, Op, ReduceOp};
use crate::ty::DType;
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeSet;

pub mod builder;
pub mod demand;
pub mod integers;
pub mod remainders;
pub mod typing;
pub mod verify;

/// A node of a graph. Ids ascend from arguments to users: iterating in order of id is a topological order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(NodeIndex);

impl NodeId {
    /// Position among the graph's nodes: `0..graph.len()`.
    pub fn index(self) -> usize {
        self.0.index()
    }
}

/// The arguments of a node, in order.
pub type Args = SmallVec<[NodeId; 3]>;

/// Where in the source a thing was written: byte offsets in one of the files of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Position in the compilation's list of files.
    pub file: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// What is known of a node beside its arguments.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// The element type.
    pub dtype: DType,
    /// The free axes: the indices of which its value is a function.
    pub axes: AxisSet,
    /// The source's name for it, if it has one.
    pub name: Option<Name>,
    /// Where it was written.
    pub origin: Option<Origin>,
    /// How many operators and views, at most, stand one on the other between what it reads and itself: the depth of the
    /// expression that a kernel computes if nothing between is stored. Walks that look through expressions end by it.
    pub depth: u32,
}

/// How a parameter begins when no checkpoint gives it, or a state before the first call. The bounds are scalar nodes of the
/// graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Init {
    /// All zeros.
    Zeros,
    /// All ones.
    Ones,
    /// Normally distributed around zero with this standard deviation.
    Normal(NodeId),
    /// Uniform between two bounds.
    Uniform(NodeId, NodeId),
}

impl Init {
    /// The nodes that it mentions.
    pub fn nodes(self) -> impl Iterator<Item = NodeId> {
        let [a, b] = match self {
            Init::Zeros | Init::Ones => [None, None],
            Init::Normal(std) => [Some(std), None],
            Init::Uniform(low, high) => [Some(low), Some(high)],
        };
        a.into_iter().chain(b)
    }

    /// The same over other nodes.
    #[must_use]
    pub fn map(self, mut node: impl FnMut(NodeId) -> NodeId) -> Init {
        match self {
            Init::Zeros => Init::Zeros,
            Init::Ones => Init::Ones,
            Init::Normal(std) => Init::Normal(node(std)),
            Init::Uniform(low, high) => Init::Uniform(node(low), node(high)),
        }
    }
}

/// An input or a parameter: a stored tensor, row-major over its axes in order.
#[derive(Clone, Debug)]
pub struct Port {
    /// The input's name, or the path under which a checkpoint holds the parameter.
    pub name: Name,
    /// The axes in order, all different.
    pub axes: Vec<AxisId>,
    /// The element type as stored.
    pub dtype: DType,
    /// Initialiser of a parameter, or of a state that does not begin as zeros.
    pub init: Option<Init>,
    /// Where it was declared.
    pub origin: Option<Origin>,
}

/// A result of the model.
#[derive(Clone, Debug)]
pub struct Output {
    /// The name of the result.
    pub name: Name,
    /// The axes in order, all different; those that the node lacks repeat its value.
    pub axes: Vec<AxisId>,
    /// The value.
    pub node: NodeId,
    /// The type that it is stored in: the node's, or one of 16 bits to which the node's f32 is rounded.
    pub dtype: DType,
}

/// A tensor that a model keeps between calls: an input that holds it before the call and an output that holds it after.
///
/// Both go by the state's path, and have the same dtype and axes of the same extents in the same order. A state may
/// grow along one axis, which then comes first in both: its extent is a symbol in the input and that symbol plus what
/// the call adds in the output. A state begins as zeros or as the initialiser of its input says, and one that grows as empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Position of the input.
    pub input: usize,
    /// Position of the output.
    pub output: usize,
}

/// How a state grows along its first axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The dimension that counts the positions held before the call. All states that name it have one length.
    pub held: Name,
    /// The number of positions that a call adds.
    pub added: Dim,
}

/// A relation between dimensions on which a model relies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The two are the same.
    Equal(Dim, Dim),
    /// The second is at least one and divides the first.
    Divides(Dim, Dim),
    /// The first is at most the second.
    AtMost(Dim, Dim),
}

/// A relation with the reason that the source gives for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// What must hold.
    pub relation: Relation,
    /// The source's message.
    pub message: Option<String>,
    /// Where it is required.
    pub origin: Option<Origin>,
}

impl Requirement {
    /// Whether it holds for these numbers; the error says what does not, with values.
    pub fn check(&self, numbers: &impl Numbers) -> Result<(), String> {
        let value = |d: &Dim| d.eval(numbers).map_err(|e: DimError| e.to_string());
        let failure = match &self.relation {
            Relation::Equal(a, b) => {
                let (x, y) = (value(a)?, value(b)?);
                (x != y).then(|| format!("{a} = {x} is not {b} = {y}"))
            }
            Relation::Divides(a, b) => {
                let (x, y) = (value(a)?, value(b)?);
                if y < 1 {
                    Some(format!("{} divides {}, and a divisor is at least 1", said(b, y), said(a, x)))
                } else {
                    (x % y != 0).then(|| format!("{} is not divisible by {}", said(a, x), said(b, y)))
                }
            }
            Relation::AtMost(a, b) => {
                let (x, y) = (value(a)?, value(b)?);
                (x > y).then(|| format!("{} is more than {}", said(a, x), said(b, y)))
            }
        };
        match (failure, &self.message) {
            (None, _) => Ok(()),
            (Some(f), None) => Err(f),
            (Some(f), Some(m)) => Err(format!("{m}: {f}")),
        }
    }
}

/// A whole model as a graph. Made by [`Builder::finish`](crate::Builder::finish); every node is reachable from an output.
#[derive(Clone, Debug)]
pub struct Graph {
    name: Name,
    dag: DiGraph<Node, u8>,
    axes: Vec<Axis>,
    axis_ids: FxHashMap<Axis, AxisId>,
    inputs: Vec<Port>,
    params: Vec<Port>,
    outputs: Vec<Output>,
    states: Vec<State>,
    requirements: Vec<Requirement>,
}

impl Graph {
    fn empty(name: &str) -> Graph {
        Graph {
            name: name.into(),
            dag: DiGraph::new(),
            axes: Vec::new(),
            axis_ids: FxHashMap::default(),
            inputs: Vec::new(),
            params: Vec::new(),
            outputs: Vec::new(),
            states: Vec::new(),
            requirements: Vec::new(),
        }
    }

    /// The model's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.dag.node_count()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every node, arguments before users.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.dag.node_count()).map(|n| NodeId(NodeIndex::new(n)))
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.dag[id.0]
    }

    /// What a node does.
    pub fn op(&self, id: NodeId) -> &Op {
        &self.node(id).op
    }

    /// The declaration behind a node that is an input or a parameter.
    pub fn port(&self, id: NodeId) -> Option<&Port> {
        if let Op::Input(n) = self.op(id) {
            self.inputs.get(*n)
        } else if let Op::Param(n) = self.op(id) {
            self.params.get(*n)
        } else {
            None
        }
    }

    /// The arguments of a node, in order.
    pub fn args(&self, id: NodeId) -> Args {
        let mut args = Args::new();
        // The last slot mostly comes first, and makes room for all.
        for edge in self.dag.edges_directed(id.0, Direction::Incoming) {
            let slot = usize::from(*edge.weight());
            if args.len() <= slot {
                args.resize(slot + 1, NodeId(edge.source()));
            }
            args[slot] = NodeId(edge.source());
        }
        args
    }

    /// The nodes that take this one as an argument, each once, by id. Outputs are not nodes.
    pub fn users(&self, id: NodeId) -> Vec<NodeId> {
        let mut users: Vec<NodeId> =
            self.dag.neighbors_directed(id.0, Direction::Outgoing).map(NodeId).collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// Whether one node alone reads a value, and it is no output.
    pub fn has_one_reader(&self, id: NodeId) -> bool {
        self.users(id).len() == 1 && self.outputs.iter().all(|output| output.node != id)
    }

    /// The operands and the axis of a node that is a sum of f32 products over an axis of both.
    pub fn sum_of_products(&self, id: NodeId) -> Option<(NodeId, NodeId, AxisId)> {
        let Op::Reduce(ReduceOp::Sum, axis) = *self.op(id) else { return None };
        let product = self.args(id)[0];
        if *self.op(product) != Op::Map(MapOp::Mul) || self.node(product).dtype != DType::F32 {
            return None;
        }
        let (a, b) = (self.args(product)[0], self.args(product)[1]);
        let has_axis = |x: NodeId| self.node(x).axes.contains(axis);
        (has_axis(a) && has_axis(b)).then_some((a, b, axis))
    }

    /// The node itself, or the nearest of those that are computed from it, for which `is` holds.
    pub fn nearest_user(&self, id: NodeId, is: impl Fn(&Node) -> bool) -> Option<&Node> {
        let (mut next, mut seen) = (vec![id], BTreeSet::new());
        while !next.is_empty() {
            if let Some(found) = next.iter().map(|id| self.node(*id)).find(|node| is(node)) {
                return Some(found);
            }
            next = next.iter().flat_map(|id| self.users(*id)).filter(|id| seen.insert(*id)).collect();
        }
        None
    }

    /// Whether a literal -inf may stand in a value, as one of two choices or moved by views: what a mask writes.
    pub fn writes_minus_infinity(&self, id: NodeId) -> bool {
        let (mut waiting, mut seen) = (vec![id], BTreeSet::new());
        while let Some(id) = waiting.pop() {
            match self.op(id) {
                Op::Const(value) if value.value() == f64::NEG_INFINITY => return true,
                Op::Map(MapOp::Select) | Op::At(_) | Op::Concat(..) => {
                    waiting.extend(self.args(id).into_iter().filter(|arg| seen.insert(*arg)));
                }
                Op::Const(_)
                | Op::Input(_)
                | Op::Param(_)
                | Op::Iota(_)
                | Op::Extent(_)
                | Op::Map(_)
                | Op::Reduce(..)
                | Op::CumSum(..)
                | Op::Fused(..) => {}
            }
        }
        false
    }

    /// The axes of a value in the order of an output that has all of them and no other, and that is the value or is made of it element
    /// by element, as the parameter that a step of training changes is made of its gradient; the nearest of such outputs.
    pub fn order_in_output(&self, id: NodeId) -> Option<Vec<AxisId>> {
        let axes = &self.node(id).axes;
        let has_all = |o: &&Output| o.axes.len() == axes.len() && o.axes.iter().all(|a| axes.contains(*a));
        let outputs: Vec<&Output> = self.outputs.iter().filter(has_all).collect();
        let (mut seen, mut next) = (BTreeSet::from([id]), vec![id]);
        while !outputs.is_empty() && !next.is_empty() {
            if let Some(output) = outputs.iter().find(|output| next.contains(&output.node)) {
                return Some(output.axes.to_vec());
            }
            let users: BTreeSet<NodeId> = next.iter().flat_map(|id| self.users(*id)).collect();
            let is_alike =
                |user: &NodeId| self.op(*user).class() == Class::Map && self.node(*user).axes == *axes;
            next = users.into_iter().filter(|user| is_alike(user) && seen.insert(*user)).collect();
        }
        None
    }

    /// The nodes that read a value through operators for which `passes` holds, each with the argument by which it does; `None`
    /// if an output of the graph does.
    pub fn readers(&self, id: NodeId, passes: impl Fn(&Op) -> bool) -> Option<BTreeSet<(NodeId, NodeId)>> {
        let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![id]);
        while let Some(id) = stack.pop() {
            if self.outputs.iter().any(|o| o.node == id) {
                return None;
            }
            for user in self.users(id) {
                if !passes(self.op(user)) {
                    found.insert((user, id));
                } else if seen.insert(user) {
                    stack.push(user);
                }
            }
        }
        Some(found)
    }

    /// Nodes on the longest way from a source to a node: what a walk that goes from users to arguments needs room for.
    pub fn depth(&self) -> usize {
        let mut depths: Vec<usize> = Vec::with_capacity(self.len());
        for id in self.ids() {
            let below = self.args(id).iter().map(|a| depths[a.index()]).max().unwrap_or(0);
            depths.push(below + 1);
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// Whether each node depends on an input of the model, and not on parameters alone, be they such as calls move.
    pub fn of_inputs(&self) -> Vec<bool> {
        let mut out: Vec<bool> = Vec::with_capacity(self.len());
        for id in self.ids() {
            let is_input = matches!(*self.op(id), Op::Input(at) if !self.is_moved_parameter(at));
            out.push(is_input || self.args(id).iter().any(|a| out[a.index()]));
        }
        out
    }

    /// The axis with that id.
    pub fn axis(&self, id: AxisId) -> &Axis {
        &self.axes[id.index()]
    }

    /// The extent of an axis.
    pub fn extent(&self, id: AxisId) -> &Dim {
        &self.axis(id).extent
    }

    /// Whether reading an axis at an index gives the axis another name: the index is another axis of the same extent.
    pub fn is_renamed(&self, axis: AxisId, index: NodeId) -> bool {
        matches!(self.op(index), Op::Iota(to) if self.extent(*to) == self.extent(axis))
    }

    /// Every axis that was ever named.
    pub fn axes(&self) -> impl ExactSizeIterator<Item = (AxisId, &Axis)> {
        self.axes.iter().enumerate().map(|(n, a)| (AxisId::new(n), a))
    }

    /// The inputs, in the order of the declaration; those of states come last.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The parameters, in the order of their first mention.
    pub fn params(&self) -> &[Port] {
        &self.params
    }

    /// The results, in the order of the declaration; those of states come last.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The nodes that initialisers mention.
    pub fn init_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let ports = self.inputs.iter().chain(&self.params);
        ports.filter_map(|port| port.init).flat_map(Init::nodes)
    }

    /// What is kept between calls, in the order of the declaration.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Whether an input is a state that begins as an initialiser says: a parameter that calls move.
    pub fn is_moved_parameter(&self, input: usize) -> bool {
        self.inputs[input].init.is_some()
    }

    /// How a state grows, if it does.
    pub fn growth(&self, state: State) -> Option<Growth> {
        let (before, after) = (&self.inputs[state.input].axes, &self.outputs[state.output].axes);
        let (before, after) = (self.extent(*before.first()?), self.extent(*after.first()?));
        let held = before.as_dimension()?;
        (before != after).then(|| Growth { held: held.clone(), added: after - before })
    }

    /// Every dimension along which a state grows, each once, with what a call adds to it; sorted.
    pub fn growths(&self) -> Vec<Growth> {
        let mut out: Vec<Growth> = self.states.iter().filter_map(|s| self.growth(*s)).collect();
        out.sort_by(|a, b| a.held.cmp(&b.held));
        out.dedup_by(|a, b| a.held == b.held);
        out
    }

    /// The relations that dimensions must satisfy.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Every dimension in an axis of what is given or made, sorted.
    pub fn dimensions(&self) -> BTreeSet<Name> {
        let ports = self.inputs.iter().chain(&self.params).flat_map(|p| &p.axes);
        let outs = self.outputs.iter().flat_map(|o| &o.axes);
        ports.chain(outs).flat_map(|a| self.extent(*a).dimensions()).collect()
    }

    /// The dimensions of the axes, in order.
    pub fn shape(&self, axes: &[AxisId]) -> Vec<Dim> {
        axes.iter().map(|a| self.extent(*a).clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Bindings;

    #[test]
    fn a_divisor_is_at_least_one() {
        let (d, by) = (Dim::symbol("D"), &Dim::symbol("H") - &Dim::symbol("K"));
        let required = Requirement { relation: Relation::Divides(d, by), message: None, origin: None };
        let check = |d: i64, h: i64, k: i64| {
            required.check(&Bindings::from([("D".into(), d), ("H".into(), h), ("K".into(), k)]))
        };
        assert_eq!(check(6, 5, 2), Ok(()));
        assert_eq!(check(0, 5, 2), Ok(()));
        assert_eq!(check(7, 5, 2), Err("D = 7 is not divisible by H - K = 3".to_owned()));
        for (h, below_one) in [(2, 0), (1, -1), (0, -2)] {
            let why = format!("H - K = {below_one} divides D = 6, and a divisor is at least 1");
            assert_eq!(check(6, h, 2), Err(why));
        }
    }
}
