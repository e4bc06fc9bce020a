//! Kernels of equal blocks: those of a block are those of the block before it, over other buffers.
//!
//! A graph may say which of its nodes correspond to each other, block by block. A kernel depends on what it reads and on
//! who reads what it stores. Both are the same for all blocks but the first, which reads what no block gives, and the last,
//! which others read. So the first two blocks and the last are scheduled as all else is; a block between takes over what
//! the one before it has. What is copied here is what scheduling would have made: a test compares the two.

use crate::kernel::{Arg, Base, Buffer, BufferId, Kernel, Role, RowBlocks, Stmt};
use crate::panels::Panels;
use crate::strip::{Scope, Stored};
use salient_ir::{AxisId, Graph, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// What was made for a node.
#[derive(Clone, Debug)]
struct Made {
    /// Positions among the program's kernels, before any is moved.
    kernels: Range<usize>,
    /// Positions of the buffers that the kernels needed of their own.
    buffers: Range<usize>,
}

/// The equal blocks of a graph, with what has been made for their nodes.
pub(crate) struct Repeats<'g> {
    /// The blocks of all chains, one after the other.
    blocks: Vec<&'g [NodeId]>,
    /// For each block those of its chain.
    chains: Vec<Range<usize>>,
    /// Block and position of the nodes that belong to one block alone.
    places: HashMap<NodeId, (usize, usize)>,
    made: BTreeMap<NodeId, Made>,
    /// For a buffer the one that corresponds to it in the next block.
    next: BTreeMap<BufferId, BufferId>,
    /// For each block the names of its nodes, and those of the next block in their place.
    names: BTreeMap<usize, HashMap<&'g str, &'g str>>,
}

/// What a node has that is not computed here but taken over from the block before.
pub(crate) struct Copied {
    pub(crate) kernels: Vec<Kernel>,
    /// The kernel that each is a copy of.
    pub(crate) of: Range<usize>,
}

/// The state of the program around a kernel.
pub(crate) struct Around<'a, 'g> {
    pub(crate) scope: &'a mut Scope<'g>,
    pub(crate) buffers: &'a mut Vec<Buffer>,
    pub(crate) homes: &'a BTreeMap<NodeId, BufferId>,
}

impl<'g> Repeats<'g> {
    pub(crate) fn new(of: &'g [Vec<Vec<NodeId>>]) -> Repeats<'g> {
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
        let (made, next, names) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Repeats { blocks, chains, places, made, next, names }
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

    /// Notes what was made for a node by scheduling it. Checks of indices name a tensor each, and are not copied.
    pub(crate) fn note(&mut self, node: NodeId, kernels: Range<usize>, buffers: Range<usize>, checks: bool) {
        if !checks && self.places.contains_key(&node) {
            self.made.insert(node, Made { kernels, buffers });
        }
    }

    /// What `node` takes over from the block before; `None` where it has to be scheduled by itself.
    pub(crate) fn copy(
        &mut self,
        node: NodeId,
        kernels: &[Kernel],
        names: &'g [Option<String>],
        around: &mut Around<'_, 'g>,
    ) -> Option<Copied> {
        let before = self.before(node)?;
        let made = self.made.get(&before)?.clone();
        let (from, to) = (*around.homes.get(&before)?, *around.homes.get(&node)?);
        let alike = |a: &Buffer, b: &Buffer| {
            a.axes == b.axes
                && a.dtype == b.dtype
                && std::mem::discriminant(&a.role) == std::mem::discriminant(&b.role)
        };
        if !alike(&around.buffers[from.0], &around.buffers[to.0]) {
            return None;
        }
        let block = self.places[&before].0;
        self.learn_names(block, around.scope.graph, names);
        // Every buffer must have its counterpart before anything is made.
        let mut next = BTreeMap::from([(from, to)]);
        let first = around.buffers.len();
        for (n, at) in made.buffers.clone().enumerate() {
            next.insert(BufferId(at), BufferId(first + n));
        }
        let read = kernels[made.kernels.clone()].iter().flat_map(|k| k.reads.iter().chain(&k.writes));
        for id in read {
            if !next.contains_key(id) {
                next.insert(*id, self.counterpart(*id, around)?);
            }
        }
        let graph = around.scope.graph;
        let mut added = Vec::new();
        for at in made.buffers.clone() {
            let buffer = &around.buffers[at];
            let node = self.shift(buffer.node);
            let role = self.role(graph, buffer.role, buffer.node, around.scope)?;
            added.push(Buffer { name: self.renamed(block, &buffer.name), role, node, ..buffer.clone() });
        }
        around.buffers.extend(added);
        let copies = kernels[made.kernels.clone()].iter().map(|k| self.kernel(block, k, &next)).collect();
        self.keep_operands(&made, &next, around.scope);
        let buffers = first..around.buffers.len();
        let at = kernels.len();
        self.made.insert(node, Made { kernels: at..at + made.kernels.len(), buffers });
        self.next.extend(next);
        Some(Copied { kernels: copies, of: made.kernels })
    }

    /// The buffer that corresponds to one of the block before.
    fn counterpart(&self, id: BufferId, around: &Around<'_, 'g>) -> Option<BufferId> {
        if let Some(next) = self.next.get(&id) {
            return Some(*next);
        }
        let buffer = &around.buffers[id.0];
        let is_home = around.homes.get(&buffer.node) == Some(&id);
        if !is_home {
            // A buffer of a node that all blocks share.
            return (!self.places.contains_key(&buffer.node)).then_some(id);
        }
        let next = *around.homes.get(&self.shift(buffer.node))?;
        let other = &around.buffers[next.0];
        let coded = |node: NodeId| coding(around.scope, node);
        let alike = buffer.axes == other.axes
            && std::mem::discriminant(&buffer.role) == std::mem::discriminant(&other.role)
            && coded(buffer.node) == coded(other.node);
        alike.then_some(next)
    }

    /// The role of the counterpart of a buffer that a kernel needs of its own.
    fn role(&self, g: &Graph, role: Role, node: NodeId, scope: &Scope<'_>) -> Option<Role> {
        match role {
            Role::Temporary => Some(Role::Temporary),
            Role::Coded(_) => {
                let next = self.shift(node);
                let Op::Param(n) = g.op(next) else { return None };
                (coding(scope, node) == coding(scope, next)).then_some(Role::Coded(*n))
            }
            Role::Input(_) | Role::Param(_) | Role::Output(_) | Role::Loaded => None,
        }
    }

    fn learn_names(&mut self, block: usize, g: &'g Graph, names: &'g [Option<String>]) {
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
    fn renamed(&self, block: usize, name: &str) -> String {
        let known = &self.names[&block];
        let ends = std::iter::once(name.len()).chain(name.rmatch_indices('.').map(|(at, _)| at));
        match ends.into_iter().find_map(|end| Some((known.get(&name[..end])?, &name[end..]))) {
            Some((new, parts)) => format!("{new}{parts}"),
            None => name.to_owned(),
        }
    }

    fn kernel(&self, block: usize, kernel: &Kernel, next: &BTreeMap<BufferId, BufferId>) -> Kernel {
        let all = |ids: &[BufferId]| ids.iter().map(|id| next[id]).collect();
        Kernel {
            name: self.renamed(block, &kernel.name),
            fuses: kernel.fuses.iter().map(|name| self.renamed(block, name)).collect(),
            reads: all(&kernel.reads),
            writes: all(&kernel.writes),
            block: statements(&kernel.block, next),
            bodies: kernel.bodies.clone(),
            item: kernel.item.clone(),
            items: kernel.items.clone(),
            scratch: kernel.scratch.clone(),
            flops: kernel.flops.clone(),
            kind: kernel.kind,
            form: kernel.form,
            row_blocks: (kernel.row_blocks.as_ref())
                .map(|r| RowBlocks { buffer: next[&r.buffer], ..r.clone() }),
        }
    }

    /// What was packed for the block before is packed for this one: kernels that come may ask for it.
    fn keep_operands(&self, made: &Made, next: &BTreeMap<BufferId, BufferId>, scope: &mut Scope<'g>) {
        if made.buffers.is_empty() {
            return;
        }
        let of_made = |id: BufferId| made.buffers.contains(&id.0);
        type Key = (NodeId, AxisId, AxisId, usize);
        let panels: Vec<(Key, Panels)> = (scope.panels.iter())
            .filter(|(_, panels)| of_made(panels.id))
            .map(|((node, column, depth, vectors), panels)| {
                let panels = panels.in_buffer(next[&panels.id]);
                ((self.shift(*node), *column, *depth, *vectors), panels)
            })
            .collect();
        scope.panels.extend(panels);
        let rows: Vec<_> = (scope.rows.iter())
            .filter_map(|((node, rows, depth), stored)| match stored.base {
                Base::Buffer(id) if of_made(id) => {
                    let stored = Stored { base: Base::Buffer(next[&id]), ..stored.clone() };
                    Some(((self.shift(*node), rows.clone(), *depth), stored))
                }
                Base::Buffer(_) | Base::Scratch(_) | Base::Status => None,
            })
            .collect();
        scope.rows.extend(rows);
    }
}

/// How the blocks of a parameter that is in blocks are stored.
fn coding(scope: &Scope<'_>, node: NodeId) -> Option<salient_ir::quantised::Coding> {
    match scope.graph.op(node) {
        Op::Param(n) => scope.coded.get(n).copied(),
        Op::Input(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) | Op::Reduce(..) => None,
        Op::At(_) | Op::Concat(..) | Op::CumSum(_) | Op::Fused(..) => None,
    }
}

/// The statements over other buffers.
fn statements(block: &[Stmt], next: &BTreeMap<BufferId, BufferId>) -> Vec<Stmt> {
    let statement = |stmt: &Stmt| match stmt {
        Stmt::For { var, from, to, step, block } => Stmt::For {
            var: var.clone(),
            from: from.clone(),
            to: to.clone(),
            step: step.clone(),
            block: statements(block, next),
        },
        Stmt::If { left, right, then, otherwise } => Stmt::If {
            left: left.clone(),
            right: right.clone(),
            then: statements(then, next),
            otherwise: statements(otherwise, next),
        },
        Stmt::Call { body, args } => {
            let arg = |arg: &Arg| match arg {
                Arg::Address { base: Base::Buffer(id), offset } => {
                    Arg::Address { base: Base::Buffer(next[id]), offset: offset.clone() }
                }
                Arg::Address { .. } | Arg::Int(_) => arg.clone(),
            };
            Stmt::Call { body: *body, args: args.iter().map(arg).collect() }
        }
        Stmt::Let { .. } | Stmt::Read { .. } => stmt.clone(),
    };
    block.iter().map(statement).collect()
}
