//! Blocks that repeat are optimised once: one of them by itself, with what surrounds the chain as a second graph. The two
//! are put together again with the block as often as it stood there.
//!
//! What goes into a block is a port to it. Whatever is cheap to repeat and shared by all blocks, such as a mask, is copied
//! into the block, so that the rules see it; a shared value that holds a reduction is a port as well.

use crate::repeat::Chain;
use salient_ir::{AxisId, AxisSet, Builder, Class, Graph, Init, Name, NodeId, Op};
use std::collections::{BTreeSet, HashMap};

/// A graph in two parts.
pub(crate) struct Parts {
    /// One block by itself: its first output is what it gives to the next; the others are outputs of the model.
    pub(crate) block: Graph,
    /// Everything else: the outputs of the model that are no block's, then what goes into the chain.
    pub(crate) around: Graph,
    /// What the inputs of the block stand for, then its parameters.
    inputs: Vec<Source>,
    params: Vec<Source>,
    /// For each output of the block after the first its node, as a position in the pattern, and the axes in order.
    exports: Vec<(usize, Vec<AxisId>)>,
    /// The output that each of the model's is.
    outputs: Vec<Part>,
    /// The output of `around` that is the value the first block reads.
    first: usize,
    /// The input of `around` that stands for what the last block gives.
    last: usize,
}

/// What an output of the model is an output of, by position.
#[derive(Clone, Copy, Debug)]
enum Part {
    Block(usize),
    Around(usize),
}

/// What a port of the block stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// What the block before gives.
    Carry,
    /// A value from outside: an output of `around`.
    Outside(usize),
    /// A port of the model that all blocks read.
    Shared(NodeId),
    /// A port of the block's own, by position in the pattern.
    Own(usize),
}

/// Takes a graph apart along a chain; `None` if an output does not allow it.
pub(crate) fn split(g: &Graph, chain: &Chain) -> Option<Parts> {
    let member: HashMap<NodeId, (usize, usize)> = (chain.blocks.iter().enumerate())
        .flat_map(|(n, nodes)| nodes.iter().enumerate().map(move |(at, id)| (*id, (n, at))))
        .collect();
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

    let mut around = Builder::like(g);
    let mut new: HashMap<NodeId, NodeId> = HashMap::new();
    let last = around.inputs().len();
    let given = *chain.blocks.last()?.last()?;
    for id in g.ids().filter(|id| !member.contains_key(id) || *id == given) {
        let node = if id == given {
            let axes: Vec<AxisId> = g.node(id).axes.iter().collect();
            around.input("value", &axes, g.node(id).dtype, None)
        } else {
            let args: Vec<NodeId> = g.args(id).iter().map(|a| new.get(a).copied()).collect::<Option<_>>()?;
            around.add(g.op(id).clone(), &args).ok()?
        };
        around.describe(node, g.node(id).name.as_ref(), g.node(id).origin);
        new.insert(id, node);
    }
    for out in g.outputs().iter().filter(|o| !member.contains_key(&o.node)) {
        around.output(&out.name, &out.axes, new[&out.node]).ok()?;
    }
    let first = around.outputs().len();
    for (n, id) in std::iter::once(chain.first).chain(b.outside.iter().copied()).enumerate() {
        let axes: Vec<AxisId> = g.node(id).axes.iter().collect();
        around.output(&format!("value.{n}"), &axes, new[&id]).ok()?;
    }
    // States are declared again when all is put together: their outputs may be a block's.
    around.states_of(&Builder::new(g.name()));
    let (inputs, params) = (b.inputs, b.params);
    let shift = |s: Source| match s {
        Source::Outside(n) => Source::Outside(first + 1 + n),
        Source::Carry | Source::Shared(_) | Source::Own(_) => s,
    };
    Some(Parts {
        block: b.builder.finish(),
        around: around.finish(),
        inputs: inputs.into_iter().map(shift).collect(),
        params: params.into_iter().map(shift).collect(),
        exports,
        outputs,
        first,
        last,
    })
}

impl Parts {
    /// Whether the chain keeps to finite values: the outputs of `around` that go in, by `finite`, and what a block gives.
    /// The inputs of the block of which that is not known.
    pub(crate) fn unsure_values(&self, finite: &[bool], given: bool) -> BTreeSet<usize> {
        let known = |source: &Source| match source {
            Source::Carry => given && finite[self.first],
            Source::Outside(output) => finite[*output],
            Source::Shared(_) | Source::Own(_) => true,
        };
        self.inputs.iter().enumerate().filter(|(_, s)| !known(s)).map(|(n, _)| n).collect()
    }

    /// The inputs of the block that may hold what is not finite where these inputs of the model may.
    pub(crate) fn unsure(&self, g: &Graph, chain: &Chain, inputs: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_unsure = |id: NodeId| matches!(g.op(id), Op::Input(n) if inputs.contains(n));
        let is_one = |source: &Source| match source {
            Source::Carry | Source::Outside(_) => false,
            Source::Shared(id) => is_unsure(*id),
            Source::Own(at) => chain.blocks.iter().any(|nodes| is_unsure(nodes[*at])),
        };
        self.inputs.iter().enumerate().filter(|(_, s)| is_one(s)).map(|(n, _)| n).collect()
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
    pub(crate) fn tied(&self, of_model: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let moved = |(input, output): &(usize, usize)| match self.outputs[*output] {
            Part::Block(_) => None,
            Part::Around(output) => Some((*input, output)),
        };
        of_model.iter().filter_map(moved).chain([self.ends()]).collect()
    }

    /// The input of `around` that stands for what the last block gives, and the output that the first reads.
    pub(crate) fn ends(&self) -> (usize, usize) {
        (self.last, self.first)
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

/// The graph that the optimised parts are together, with the block as often as the chain has it.
pub(crate) fn join(
    g: &Graph,
    chain: &Chain,
    parts: &Parts,
    (block, around): (&Graph, &Graph),
) -> Option<Joined> {
    // Axis ids mean the same as in `around`.
    let mut b = Builder::new(g.name());
    for (_, axis) in around.axes() {
        b.axis_id(&axis.name, &axis.extent);
    }
    g.requirements().iter().for_each(|r| b.require(r.clone()));
    let axes = axes_of_block(&mut b, parts, block, around);
    let owner: HashMap<NodeId, usize> = (chain.blocks.iter())
        .flat_map(|nodes| nodes.iter().enumerate().map(|(at, id)| (*id, at)))
        .filter(|(id, _)| Chain::is_port(g, *id))
        .collect();
    let (ports, around_new) = (HashMap::new(), HashMap::new());
    let (origins, made) = (Vec::new(), Vec::new());
    let mut j = Joiner { g, chain, parts, block, around, b, axes, ports, around_new, origins, blocks: made };
    j.declare(&owner)?;
    let mut value = j.outside(parts.first)?;
    let mut given = Vec::new();
    for n in 0..chain.len() {
        let (next, exports) = j.instance(n, value)?;
        value = next;
        given.push(exports);
    }
    j.finish(value, &given)
}

/// A graph that was put together.
pub(crate) struct Joined {
    pub(crate) graph: Graph,
    /// For each node of the graph where it comes from.
    pub(crate) origins: Vec<Option<Place>>,
    /// The nodes of each block, corresponding ones at the same position.
    pub(crate) blocks: Vec<Vec<NodeId>>,
    /// What the nodes of the surroundings have become.
    around: HashMap<NodeId, NodeId>,
}

impl Joined {
    /// The chains of the surroundings, by their nodes here.
    pub(crate) fn chains_around(&self, chains: &[Vec<Vec<NodeId>>]) -> Vec<Vec<Vec<NodeId>>> {
        let moved =
            |nodes: &Vec<NodeId>| nodes.iter().map(|id| self.around.get(id).copied()).collect::<Vec<_>>();
        chains.iter().map(|blocks| in_all(&blocks.iter().map(moved).collect::<Vec<_>>())).collect()
    }
}

/// The nodes of equal blocks that all of them still have.
fn in_all(blocks: &[Vec<Option<NodeId>>]) -> Vec<Vec<NodeId>> {
    let everywhere = |at: &usize| blocks.iter().all(|nodes| nodes[*at].is_some());
    let kept: Vec<usize> = (0..blocks.first().map_or(0, Vec::len)).filter(everywhere).collect();
    blocks.iter().map(|nodes| kept.iter().filter_map(|at| nodes[*at]).collect()).collect()
}

/// Where a node of a joined graph comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// A node of the optimised surroundings.
    Around(NodeId),
    /// A node of the optimised block, in the block of that number.
    Block(usize, NodeId),
}

/// The axis of the joined graph for each of the block: those of what goes in are the same as outside, no two are one.
fn axes_of_block(b: &mut Builder, parts: &Parts, block: &Graph, around: &Graph) -> Vec<AxisId> {
    let mut out: Vec<Option<AxisId>> = vec![None; block.axes().len()];
    let carry = parts.inputs.iter().position(|s| *s == Source::Carry).expect("a block reads the one before");
    let outside = &around.outputs()[parts.first].axes;
    for (inner, outer) in block.inputs()[carry].axes.iter().zip(outside) {
        out[inner.index()] = Some(*outer);
    }
    let mut taken: AxisSet = out.iter().flatten().copied().collect();
    for (id, axis) in block.axes() {
        if out[id.index()].is_none() {
            let same = b.axis_id(&axis.name, &axis.extent);
            let own = if taken.contains(same) { b.fresh_axis(same, &taken) } else { same };
            taken.insert(own);
            out[id.index()] = Some(own);
        }
    }
    out.into_iter().map(|axis| axis.expect("every axis has one")).collect()
}

struct Joiner<'a> {
    g: &'a Graph,
    chain: &'a Chain,
    parts: &'a Parts,
    block: &'a Graph,
    around: &'a Graph,
    b: Builder,
    /// The axis for each of the block.
    axes: Vec<AxisId>,
    /// Inputs and parameters of the model.
    ports: HashMap<Op, NodeId>,
    around_new: HashMap<NodeId, NodeId>,
    origins: Vec<Option<Place>>,
    /// The nodes of each block so far.
    blocks: Vec<Vec<NodeId>>,
}

impl Joiner<'_> {
    /// Declares the ports of the model; a block's own have the axes that the block gives them.
    fn declare(&mut self, owner: &HashMap<NodeId, usize>) -> Option<()> {
        let mut of_block: HashMap<Op, Vec<AxisId>> = HashMap::new();
        let ports = self.block.inputs().iter().zip(&self.parts.inputs);
        let inner: HashMap<usize, Vec<AxisId>> = ports
            .chain(self.block.params().iter().zip(&self.parts.params))
            .filter_map(|(port, source)| match source {
                Source::Own(at) => Some((*at, port.axes.iter().map(|a| self.axes[a.index()]).collect())),
                Source::Carry | Source::Outside(_) | Source::Shared(_) => None,
            })
            .collect();
        for (id, at) in owner {
            if let Some(axes) = inner.get(at) {
                of_block.insert(self.g.op(*id).clone(), axes.clone());
            }
        }
        for (n, port) in self.g.inputs().iter().enumerate() {
            let op = Op::Input(n);
            let axes = of_block.get(&op).unwrap_or(&self.around.inputs()[n].axes).clone();
            let node = self.b.input(&port.name, &axes, port.dtype, port.origin);
            self.ports.insert(op, node);
        }
        for (n, port) in self.g.params().iter().enumerate() {
            let op = Op::Param(n);
            let own = &self.around.params()[n];
            let axes = of_block.get(&op).unwrap_or(&own.axes).clone();
            let init = own.init.map(|init| match init {
                Init::Zeros => Init::Zeros,
                Init::Ones => Init::Ones,
                Init::Normal(s) => Init::Normal(self.b.copy(self.around, s)),
                Init::Uniform(x, y) => {
                    Init::Uniform(self.b.copy(self.around, x), self.b.copy(self.around, y))
                }
            });
            let node = self.b.param(&port.name, &axes, port.dtype, init, port.origin);
            self.ports.insert(op, node);
        }
        Some(())
    }

    fn note(&mut self, node: NodeId, place: Place, name: Option<&Name>, from: Option<salient_ir::Origin>) {
        self.b.describe(node, name, from);
        self.origins.resize(self.b.len(), None);
        self.origins[node.index()].get_or_insert(place);
    }

    /// An output of `around`.
    fn outside(&mut self, output: usize) -> Option<NodeId> {
        let node = self.around.outputs()[output].node;
        self.build(node, None)
    }

    /// A node of `around` with what it needs; `last` is what the chain gives.
    fn build(&mut self, root: NodeId, last: Option<NodeId>) -> Option<NodeId> {
        let mut stack = vec![root];
        while let Some(id) = stack.last().copied() {
            if self.around_new.contains_key(&id) {
                stack.pop();
                continue;
            }
            let args = self.around.args(id);
            let missing: Vec<NodeId> =
                args.iter().copied().filter(|a| !self.around_new.contains_key(a)).collect();
            if !missing.is_empty() {
                stack.extend(missing.into_iter().rev());
                continue;
            }
            let args: Vec<NodeId> = args.iter().map(|a| self.around_new[a]).collect();
            let op = self.around.op(id).clone();
            let new = if op == Op::Input(self.parts.last) {
                let (from, to) = (self.carried(), self.around.inputs()[self.parts.last].axes.clone());
                self.renamed(last?, &from, &to)?
            } else {
                self.b.add(op, &args).ok()?
            };
            let node = self.around.node(id);
            self.note(new, Place::Around(id), node.name.as_ref(), node.origin);
            self.around_new.insert(id, new);
            stack.pop();
        }
        self.around_new.get(&root).copied()
    }

    /// A value with its axes renamed from one list to another.
    fn renamed(&mut self, value: NodeId, from: &[AxisId], to: &[AxisId]) -> Option<NodeId> {
        let with: Vec<(AxisId, NodeId)> =
            from.iter().zip(to).map(|(from, to)| (*from, self.b.iota(*to))).collect();
        self.b.at_all(value, &with).ok()
    }

    /// The axes of what goes into a block, in order.
    fn carried(&self) -> Vec<AxisId> {
        self.around.outputs()[self.parts.first].axes.clone()
    }

    fn mapped(&self, axes: &[AxisId]) -> Vec<AxisId> {
        axes.iter().map(|a| self.axes[a.index()]).collect()
    }

    /// The block of that number over what goes in: what it gives, and what it exports.
    fn instance(&mut self, number: usize, carry: NodeId) -> Option<(NodeId, Vec<NodeId>)> {
        let (block, parts) = (self.block, self.parts);
        let mut new: Vec<NodeId> = Vec::with_capacity(block.len());
        for id in block.ids() {
            let op = block.op(id);
            let node = if let Op::Input(n) = op {
                self.port(number, carry, parts.inputs[*n], &block.inputs()[*n].axes)?
            } else if let Op::Param(n) = op {
                self.port(number, carry, parts.params[*n], &block.params()[*n].axes)?
            } else {
                let args: Vec<NodeId> = block.args(id).iter().map(|a| new[a.index()]).collect();
                self.b.add(op.map_axes(|axis| self.axes[axis.index()]), &args).ok()?
            };
            let described = block.node(id);
            self.note(node, Place::Block(number, id), described.name.as_ref(), described.origin);
            new.push(node);
        }
        let given = &block.outputs()[0];
        let from = self.mapped(&given.axes);
        let to = self.carried();
        let value = self.renamed(new[given.node.index()], &from, &to)?;
        let exports = block.outputs()[1..].iter().map(|o| new[o.node.index()]).collect();
        new.push(value);
        self.blocks.push(new);
        Some((value, exports))
    }

    fn port(&mut self, number: usize, carry: NodeId, source: Source, axes: &[AxisId]) -> Option<NodeId> {
        let to = self.mapped(axes);
        match source {
            Source::Carry => Some(carry),
            Source::Own(at) => self.ports.get(self.g.op(self.chain.blocks[number][at])).copied(),
            Source::Shared(id) => {
                let node = *self.ports.get(self.g.op(id))?;
                let from = self.b.port(node)?.axes.clone();
                self.renamed(node, &from, &to)
            }
            Source::Outside(output) => {
                let node = self.outside(output)?;
                let from = self.around.outputs()[output].axes.clone();
                self.renamed(node, &from, &to)
            }
        }
    }

    /// Declares the outputs of the model.
    fn finish(mut self, last: NodeId, given: &[Vec<NodeId>]) -> Option<Joined> {
        let member: HashMap<NodeId, (usize, usize)> = (self.chain.blocks.iter().enumerate())
            .flat_map(|(n, nodes)| nodes.iter().enumerate().map(move |(at, id)| (*id, (n, at))))
            .collect();
        let mut own = self.around.outputs().iter();
        for out in self.g.outputs() {
            let Some((number, at)) = member.get(&out.node) else {
                let declared = own.next()?;
                let node = self.build(declared.node, Some(last))?;
                self.b.output(&declared.name, &declared.axes, node).ok()?;
                continue;
            };
            let export = self.parts.exports.iter().position(|(e, _)| e == at)?;
            let exports = &given[*number];
            // The axes of the node in the pattern, as the block lists them now, in the order of the output.
            let before = &self.parts.exports[export].1;
            let now = self.mapped(&self.block.outputs()[1 + export].axes);
            let place = |axis: &AxisId| before.iter().position(|a| a == axis).map(|n| now[n]);
            let axes: Vec<AxisId> = out.axes.iter().map(place).collect::<Option<_>>()?;
            self.b.output(&out.name, &axes, exports[export]).ok()?;
        }
        self.b.states_of(self.g);
        self.origins.resize(self.b.len(), None);
        let roots: Vec<NodeId> = self.b.outputs().iter().map(|o| o.node).collect();
        let origins = self.origins;
        let (graph, moved) = crate::rewrite::finish(self.b, &roots);
        let mut places = vec![None; graph.len()];
        for (old, new) in moved.iter().enumerate() {
            if let Some(new) = new {
                places[new.index()] = origins[old];
            }
        }
        // What one block has and needs, all have; but a value that the last gives may be read by nobody.
        let found = |nodes: &Vec<NodeId>| nodes.iter().map(|id| moved[id.index()]).collect::<Vec<_>>();
        let blocks = in_all(&self.blocks.iter().map(found).collect::<Vec<_>>());
        let around = self.around_new.iter().filter_map(|(old, new)| Some((*old, moved[new.index()]?)));
        Some(Joined { around: around.collect(), graph, origins: places, blocks })
    }
}
