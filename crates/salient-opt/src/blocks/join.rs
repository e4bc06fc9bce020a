//! The optimised parts of a graph as one graph again, with the block as often as the chain has it.

use crate::blocks::repeat::Chain;
use crate::blocks::split::{Parts, Source, members};
use salient_ir::{AxisId, AxisSet, Builder, Graph, Name, NodeId, Op};
use std::collections::HashMap;

/// The graph that the optimised parts are together, with the block as often as the chain has it.
pub(crate) fn join(g: &Graph, chain: &Chain, parts: &Parts, block: &Graph, around: &Graph) -> Option<Joined> {
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
    pub(crate) origins: Vec<Option<JoinedFrom>>,
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
pub(crate) enum JoinedFrom {
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
    origins: Vec<Option<JoinedFrom>>,
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
            let init =
                self.around.inputs()[n].init.map(|init| init.map(|node| self.b.copy(self.around, node)));
            self.b.begins_as(n, init);
            self.ports.insert(op, node);
        }
        for (n, port) in self.g.params().iter().enumerate() {
            let op = Op::Param(n);
            let own = &self.around.params()[n];
            let axes = of_block.get(&op).unwrap_or(&own.axes).clone();
            let init = own.init.map(|init| init.map(|node| self.b.copy(self.around, node)));
            let node = self.b.param(&port.name, &axes, port.dtype, init, port.origin);
            self.ports.insert(op, node);
        }
        Some(())
    }

    fn note(
        &mut self,
        node: NodeId,
        place: JoinedFrom,
        name: Option<&Name>,
        from: Option<salient_ir::Origin>,
    ) {
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
            self.note(new, JoinedFrom::Around(id), node.name.as_ref(), node.origin);
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
            self.note(node, JoinedFrom::Block(number, id), described.name.as_ref(), described.origin);
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
        let member = members(self.chain);
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
        let origins = self.origins;
        let (graph, moved) = self.b.finish_moved();
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
