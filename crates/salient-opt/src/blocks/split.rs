//! A graph with equal blocks in two parts: one block by itself, and what surrounds the chain.
//!
//! What goes into a block is a port to it. Whatever is cheap to repeat and shared by all blocks, such as a mask, is copied
//! into the block, so that the rules see it; a shared value that holds a reduction is a port as well.

use crate::blocks::repeat::Chain;
use crate::graph::border::Tie;
use salient_ir::{AxisId, Builder, Class, Graph, NodeId, Op};
use std::collections::{BTreeSet, HashMap};

/// A graph in two parts.
pub(crate) struct Parts {
    /// One block by itself: its first output is what it gives to the next; the others are outputs of the model.
    pub(crate) block: Graph,
    /// Everything else: the outputs of the model that are no block's, then what goes into the chain.
    pub(crate) around: Graph,
    /// What the inputs of the block stand for, then its parameters.
    pub(super) inputs: Vec<Source>,
    pub(super) params: Vec<Source>,
    /// For each output of the block after the first its node, as a position in the pattern, and the axes in order.
    pub(super) exports: Vec<(usize, Vec<AxisId>)>,
    /// The output that each of the model's is.
    outputs: Vec<Part>,
    /// The output of `around` that is the value the first block reads.
    pub(super) first: usize,
    /// The input of `around` that stands for what the last block gives.
    pub(super) last: usize,
}

/// What an output of the model is an output of, by position.
#[derive(Clone, Copy, Debug)]
enum Part {
    Block(usize),
    Around(usize),
}

/// What a port of the block stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// What the block before gives.
    Carry,
    /// A value from outside: an output of `around`.
    Outside(usize),
    /// A port of the model that all blocks read.
    Shared(NodeId),
    /// A port of the block's own, by position in the pattern.
    Own(usize),
}

/// The block and the position in the pattern of each node of a chain.
pub(super) fn members(chain: &Chain) -> HashMap<NodeId, (usize, usize)> {
    let of = |(n, nodes): (usize, &Vec<NodeId>)| {
        nodes.iter().enumerate().map(|(at, id)| (*id, (n, at))).collect::<Vec<_>>()
    };
    chain.blocks.iter().enumerate().flat_map(of).collect()
}

/// Takes a graph apart along a chain; `None` if an output does not allow it.
pub(crate) fn separate_block(g: &Graph, chain: &Chain) -> Option<Parts> {
    let member = members(chain);
    let mut exported: BTreeSet<usize> = BTreeSet::new();
    for out in g.outputs() {
        if let Some((_, at)) = member.get(&out.node) {
            // An output that repeats its value along an axis is more than the value.
            if out.axes.len() != g.node(out.node).axes.len() {
                return None;
            }
            exported.insert(*at);
        }
    }
    let mut b = block(g, chain);
    let root = chain.pattern.len() - 1;
    let mut exports = Vec::new();
    for at in std::iter::once(root).chain(exported.iter().copied()) {
        let node = b.new[&chain.pattern[at]];
        let axes: Vec<AxisId> = b.builder.node(node).axes.iter().collect();
        b.builder.output(&format!("value.{}", exports.len()), &axes, node).ok()?;
        exports.push((at, axes));
    }
    exports.remove(0);
    let mut others = 0..;
    let part = |out: &salient_ir::Output| match member.get(&out.node) {
        Some((_, at)) => exports.iter().position(|(e, _)| e == at).map(|n| Part::Block(1 + n)),
        None => others.next().map(Part::Around),
    };
    let outputs: Vec<Part> = g.outputs().iter().map(part).collect::<Option<_>>()?;
    let around = around(g, chain, &member, &b.outside)?;
    let (inputs, params) = (b.inputs, b.params);
    // The values that go in are its last outputs: what the first block reads, then those from outside.
    let first = around.outputs().len() - 1 - b.outside.len();
    let shift = |s: Source| match s {
        Source::Outside(n) => Source::Outside(first + 1 + n),
        Source::Carry | Source::Shared(_) | Source::Own(_) => s,
    };
    Some(Parts {
        block: b.builder.finish(),
        inputs: inputs.into_iter().map(shift).collect(),
        params: params.into_iter().map(shift).collect(),
        exports,
        outputs,
        first,
        last: around.inputs().len() - 1,
        around,
    })
}

/// What surrounds a chain: one more input is what the last block gives, and what goes in are outputs behind its own.
fn around(
    g: &Graph,
    chain: &Chain,
    member: &HashMap<NodeId, (usize, usize)>,
    outside: &[NodeId],
) -> Option<Graph> {
    let mut b = Builder::like(g);
    let mut new: HashMap<NodeId, NodeId> = HashMap::new();
    let given = *chain.blocks.last()?.last()?;
    for id in g.ids().filter(|id| !member.contains_key(id) || *id == given) {
        let node = if id == given {
            let axes: Vec<AxisId> = g.node(id).axes.iter().collect();
            b.input("value", &axes, g.node(id).dtype, None)
        } else {
            let args: Vec<NodeId> = g.args(id).iter().map(|a| new.get(a).copied()).collect::<Option<_>>()?;
            b.add(g.op(id).clone(), &args).ok()?
        };
        b.describe(node, g.node(id).name.as_ref(), g.node(id).origin);
        new.insert(id, node);
    }
    for out in g.outputs().iter().filter(|o| !member.contains_key(&o.node)) {
        b.output(&out.name, &out.axes, new[&out.node]).ok()?;
    }
    for (n, id) in std::iter::once(&chain.first).chain(outside).enumerate() {
        let axes: Vec<AxisId> = g.node(*id).axes.iter().collect();
        b.output(&format!("value.{n}"), &axes, new[id]).ok()?;
    }
    // States are declared again when all is put together: their outputs may be a block's.
    b.states_of(&Builder::new(g.name()));
    Some(b.finish())
}

impl Parts {
    /// The inputs of the block that may hold what is not finite, by which outputs of `around` are finite and whether a block
    /// gives what is.
    pub(crate) fn unsure_values(&self, finite: &[bool], given: bool) -> BTreeSet<usize> {
        self.inputs_that(|source| match source {
            Source::Carry => !given || !finite[self.first],
            Source::Outside(output) => !finite[*output],
            Source::Shared(_) | Source::Own(_) => false,
        })
    }

    /// The inputs of the block that are these inputs of the model, in some block.
    pub(crate) fn inputs_of(&self, g: &Graph, chain: &Chain, inputs: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_input = |id: NodeId| matches!(g.op(id), Op::Input(n) if inputs.contains(n));
        self.inputs_that(|source| match source {
            Source::Carry | Source::Outside(_) => false,
            Source::Shared(id) => is_input(*id),
            Source::Own(at) => chain.blocks.iter().any(|nodes| is_input(nodes[*at])),
        })
    }

    /// The inputs of the block that are computed: by the block before, or outside.
    pub(crate) fn computed(&self) -> BTreeSet<usize> {
        self.inputs_that(|source| matches!(source, Source::Carry | Source::Outside(_)))
    }

    fn inputs_that(&self, is: impl Fn(&Source) -> bool) -> BTreeSet<usize> {
        self.inputs.iter().enumerate().filter(|(_, source)| is(source)).map(|(n, _)| n).collect()
    }

    /// Whether each output of the model is finite, by the outputs of the block and of `around`.
    pub(crate) fn finite(&self, block: &[bool], around: &[bool]) -> Vec<bool> {
        let of = |part: &Part| match part {
            Part::Block(n) => block[*n],
            Part::Around(n) => around[*n],
        };
        self.outputs.iter().map(of).collect()
    }

    /// The inputs and outputs of `around` whose axes are of one kind, where those of the model are.
    pub(crate) fn tied(&self, of_model: &[Tie]) -> Vec<Tie> {
        let moved = |tie: &Tie| match self.outputs[tie.output] {
            Part::Block(_) => None,
            Part::Around(output) => Some(Tie { output, ..*tie }),
        };
        of_model.iter().filter_map(moved).chain([self.ends()]).collect()
    }

    /// The input of the block that stands for what the block before gives, and the output that is what it gives itself: either
    /// is the first.
    pub(crate) fn carried() -> Tie {
        Tie { input: 0, output: 0 }
    }

    /// The input of `around` that stands for what the last block gives, and the output that the first reads.
    pub(crate) fn ends(&self) -> Tie {
        Tie { input: self.last, output: self.first }
    }
}

/// A block while its graph is built.
struct Block<'g> {
    g: &'g Graph,
    chain: &'g Chain,
    builder: Builder,
    new: HashMap<NodeId, NodeId>,
    inputs: Vec<Source>,
    params: Vec<Source>,
    /// Values from outside that are not copied.
    outside: Vec<NodeId>,
}

fn block<'g>(g: &'g Graph, chain: &'g Chain) -> Block<'g> {
    let mut builder = Builder::new(g.name());
    // Axis ids mean the same in both graphs.
    for (_, axis) in g.axes() {
        builder.axis_id(&axis.name, &axis.extent);
    }
    g.requirements().iter().for_each(|r| builder.require(r.clone()));
    let (new, inputs, params, outside) = (HashMap::new(), Vec::new(), Vec::new(), Vec::new());
    let mut b = Block { g, chain, builder, new, inputs, params, outside };
    b.value(chain.carry, Source::Carry);
    for (at, id) in chain.pattern.iter().enumerate() {
        if Chain::is_port(g, *id) {
            b.port(*id, Source::Own(at));
        } else {
            b.node(*id);
        }
    }
    b
}

impl Block<'_> {
    /// A value of the model as an input.
    fn value(&mut self, id: NodeId, source: Source) {
        let node = self.g.node(id);
        let axes: Vec<AxisId> = node.axes.iter().collect();
        let new = self.builder.input(&format!("value.{}", self.inputs.len()), &axes, node.dtype, node.origin);
        self.builder.describe(new, node.name.as_ref(), node.origin);
        self.inputs.push(source);
        self.new.insert(id, new);
    }

    fn port(&mut self, id: NodeId, source: Source) {
        let port = self.g.port(id).expect("a port").clone();
        let new = if matches!(self.g.op(id), Op::Input(_)) {
            self.inputs.push(source);
            self.builder.input(&port.name, &port.axes, port.dtype, port.origin)
        } else {
            self.params.push(source);
            self.builder.param(&port.name, &port.axes, port.dtype, None, port.origin)
        };
        self.new.insert(id, new);
    }

    /// A node with what it needs: that of the pattern is there already, the rest is shared by all blocks.
    fn node(&mut self, id: NodeId) -> NodeId {
        if let Some(new) = self.new.get(&id) {
            return *new;
        }
        let g = self.g;
        let own = self.chain.pattern.binary_search(&id).is_ok();
        match g.op(id).class() {
            Class::Port => self.port(id, Source::Shared(id)),
            Class::Bind | Class::Concat if !own => {
                let at = self.outside.len();
                self.outside.push(id);
                self.value(id, Source::Outside(at));
            }
            Class::Leaf | Class::Map | Class::View | Class::Bind | Class::Concat => self.copy(id),
        }
        self.new[&id]
    }

    fn copy(&mut self, id: NodeId) {
        let args: Vec<NodeId> = self.g.args(id).iter().map(|a| self.node(*a)).collect();
        let new = self.builder.add(self.g.op(id).clone(), &args).expect("a node of a verified graph");
        self.builder.describe(new, self.g.node(id).name.as_ref(), self.g.node(id).origin);
        self.new.insert(id, new);
    }
}
