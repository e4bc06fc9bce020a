//! Kernels of equal blocks: those of a block are those of the block before it, over other buffers.
//!
//! A graph may say which of its nodes correspond to each other, block by block. A kernel depends on what it reads and on
//! who reads what it stores. Both are the same for all blocks but the first, which reads what no block gives, and the last,
//! which others read. So the first two blocks and the last are scheduled as all else is; a block between takes over what
//! the one before it has. What is copied here is what scheduling would have made: a test compares the two.

mod equal_blocks;

use salient_ir::{Graph, NodeId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// The equal blocks of a graph.
pub(crate) struct Repeats<'g> {
    graph: &'g Graph,
    /// The name of each node.
    all: &'g [Option<String>],
    /// The blocks of all chains, one after the other.
    blocks: Vec<&'g [NodeId]>,
    /// For each block those of its chain.
    chains: Vec<Range<usize>>,
    /// Block and position of the nodes that belong to one block alone.
    places: HashMap<NodeId, (usize, usize)>,
    /// For each block the names of its nodes, and those of the next block in their place.
    names: BTreeMap<usize, HashMap<&'g str, &'g str>>,
}

impl<'g> Repeats<'g> {
    pub(crate) fn new(
        graph: &'g Graph,
        names: &'g [Option<String>],
        of: &'g [Vec<Vec<NodeId>>],
    ) -> Repeats<'g> {
        let (mut blocks, mut chains): (Vec<&[NodeId]>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
        for chain in of {
            let range = blocks.len()..blocks.len() + chain.len();
            chains.extend(chain.iter().map(|_| range.clone()));
            blocks.extend(chain.iter().map(Vec::as_slice));
        }
        // What a block reads of the one before is a node of that one; what is at the same position in several is shared.
        let mut places: HashMap<NodeId, (usize, usize)> = HashMap::new();
        let mut shared = BTreeSet::new();
        for (block, nodes) in blocks.iter().enumerate() {
            for (at, id) in nodes.iter().enumerate() {
                let (other, place) = *places.entry(*id).or_insert((block, at));
                if other != block && place == at && chains[block].contains(&other) {
                    shared.insert(*id);
                }
            }
        }
        places.retain(|id, _| !shared.contains(id));
        Repeats { graph, all: names, blocks, chains, places, names: BTreeMap::new() }
    }

    /// The node of the block before that corresponds to a node, if what that has may be taken over.
    pub(crate) fn before(&self, node: NodeId) -> Option<NodeId> {
        let (block, at) = *self.places.get(&node)?;
        let chain = &self.chains[block];
        (block >= chain.start + 2 && block + 1 < chain.end).then(|| self.blocks[block - 1][at])
    }

    /// The node that corresponds to `node` one block on; nodes that all blocks share are the same.
    pub(crate) fn shift(&self, node: NodeId) -> NodeId {
        match self.places.get(&node) {
            Some((block, at)) if block + 1 < self.chains[*block].end => self.blocks[block + 1][*at],
            Some(_) | None => node,
        }
    }

    /// Whether a node belongs to one block alone.
    pub(crate) fn is_of_block(&self, node: NodeId) -> bool {
        self.places.contains_key(&node)
    }

    /// The block to which a node belongs alone.
    pub(crate) fn block_of(&self, node: NodeId) -> Option<usize> {
        self.places.get(&node).map(|(block, _)| *block)
    }

    /// Looks up the names that the nodes of a block have, so that they can be [renamed](Repeats::renamed).
    pub(crate) fn learn_names(&mut self, block: usize) {
        let (g, names) = (self.graph, self.all);
        if self.names.contains_key(&block) {
            return;
        }
        // A kernel may name what the block before gives, too.
        let nodes = self.blocks[block].iter().chain(self.blocks[block - 1]);
        let pairs = nodes.filter_map(|id| {
            Some((names[id.index()].as_deref()?, names[self.shift(*id).index()].as_deref()?))
        });
        let mut pairs: HashMap<&str, &str> = pairs.collect();
        // What is stored in an output goes by its name.
        for (at, out) in g.outputs().iter().enumerate().filter(|(_, out)| self.is_of(block, out.node)) {
            let next = self.shift(out.node);
            let place = g.outputs()[..at].iter().filter(|o| o.node == out.node).count();
            let other = g.outputs().iter().filter(|o| o.node == next).nth(place);
            pairs.extend(other.map(|other| (&*out.name, &*other.name)));
        }
        self.names.insert(block, pairs);
    }

    fn is_of(&self, block: usize, node: NodeId) -> bool {
        self.places.get(&node).is_some_and(|(other, _)| *other == block)
    }

    /// A name of a node, or one made of it by adding parts, in the next block.
    pub(crate) fn renamed(&self, block: usize, name: &str) -> String {
        let known = &self.names[&block];
        let ends = std::iter::once(name.len()).chain(name.rmatch_indices('.').map(|(at, _)| at));
        match ends.into_iter().find_map(|end| Some((known.get(&name[..end])?, &name[end..]))) {
            Some((new, parts)) => format!("{new}{parts}"),
            None => name.to_owned(),
        }
    }
}
