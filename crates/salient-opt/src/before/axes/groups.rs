//! Groups of axes: which axes of a model are of one kind, by where data flows. Names them.

use crate::graph::border::Tie;
use salient_ir::{AxisId, Dim, Graph, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// What an axis is of: the axes of inputs, outputs and intermediate values fall into groups that data flows between.
/// The positions of queries and of keys may be one group, the features of values another, even of the same extent.
/// Only axes of a group compete for names, so that a coincidence of extents does not show.
pub(super) struct Groups {
    /// The group of each free axis of each node.
    of: BTreeMap<(NodeId, AxisId), usize>,
    /// The stem of the names of each group; then of each extent, for axes that no value has.
    stems: Vec<String>,
    pub(super) by_extent: BTreeMap<Dim, usize>,
}

impl Groups {
    pub(super) fn new(g: &Graph, tied: &[Tie]) -> Groups {
        let mut union = Union::default();
        for tie in tied {
            let Some(input) = g.ids().find(|id| *g.op(*id) == Op::Input(tie.input)) else { continue };
            let output = g.outputs()[tie.output].node;
            for axis in g.node(input).axes.iter().filter(|a| g.node(output).axes.contains(*a)) {
                let (here, there) = (union.variable((input, axis)), union.variable((output, axis)));
                union.join(here, there);
            }
        }
        for id in g.ids() {
            let args = g.args(id);
            for axis in g.node(id).axes.iter() {
                let here = union.variable((id, axis));
                for arg in args.iter().filter(|a| flows(g, id, **a) && g.node(**a).axes.contains(axis)) {
                    let there = union.variable((*arg, axis));
                    union.join(here, there);
                }
            }
            // A rename carries one axis over into another.
            if let Op::At(from) = g.op(id)
                && let Op::Iota(to) = g.op(args[1])
                && g.extent(*from) == g.extent(*to)
            {
                let (here, there) = (union.variable((id, *to)), union.variable((args[0], *from)));
                union.join(here, there);
            }
            // So does a read of one of the parts that an axis is made of.
            if let Op::At(from) = g.op(id) {
                for to in g.node(args[1]).axes.iter() {
                    for (part, axis) in parts_of(g, args[0], *from) {
                        if g.extent(axis) == g.extent(to) {
                            let (here, there) = (union.variable((id, to)), union.variable((part, axis)));
                            union.join(here, there);
                        }
                    }
                }
            }
        }
        Groups::named(g, union)
    }

    /// Numbers the groups as the outputs, then the ports mention them, and gives each a stem of its own.
    fn named(g: &Graph, mut union: Union) -> Groups {
        let outputs = g.outputs().iter().flat_map(|o| o.axes.iter().map(|a| (o.node, *a)));
        let ports = g.ids().filter_map(|id| Some((id, g.port(id)?)));
        let mut ports: Vec<_> = ports.map(|(id, p)| (is_param(g, id), p.name.clone(), id)).collect();
        ports.sort_unstable();
        let ports = ports.iter().flat_map(|(_, _, id)| {
            let axes = &g.port(*id).expect("a port").axes;
            axes.iter().map(|a| (*id, *a))
        });
        // How many index expressions there are is the spelling's business: they give no group its number.
        let values = union.variables().into_iter().filter(|(id, _)| !is_index(g, *id));
        let every: Vec<_> = outputs.chain(ports).chain(values).collect();
        let mut taken: BTreeSet<String> =
            g.inputs().iter().chain(g.params()).map(|p| p.name.to_string()).collect();
        let mut out = Groups { of: BTreeMap::new(), stems: Vec::new(), by_extent: BTreeMap::new() };
        let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
        for key in every {
            let Some(root) = union.root_of(key) else { continue };
            let group = *numbers.entry(root).or_insert_with(|| {
                out.stems.push(stem(g.extent(key.1), &mut taken));
                out.stems.len() - 1
            });
            out.of.insert(key, group);
        }
        let extents: BTreeSet<&Dim> = g.axes().map(|(_, a)| &a.extent).collect();
        for extent in extents {
            out.stems.push(stem(extent, &mut taken));
            out.by_extent.insert(extent.clone(), out.stems.len() - 1);
        }
        out
    }

    /// The group of an axis as a node sees it.
    pub(super) fn of(&self, g: &Graph, id: NodeId, axis: AxisId) -> usize {
        self.of.get(&(id, axis)).copied().unwrap_or_else(|| self.by_extent[g.extent(axis)])
    }

    pub(super) fn name(&self, group: usize, rank: usize) -> String {
        let stem = &self.stems[group];
        if rank == 0 { stem.clone() } else { format!("{stem}.{rank}") }
    }
}

/// The parts of the concatenations that give a value its axis, element by element, each with its own axis.
fn parts_of(g: &Graph, id: NodeId, axis: AxisId) -> Vec<(NodeId, AxisId)> {
    let mut out = Vec::new();
    let (mut next, mut seen) = (vec![id], BTreeSet::new());
    while let Some(id) = next.pop() {
        if !g.node(id).axes.contains(axis) || !seen.insert(id) {
            continue;
        }
        match g.op(id) {
            Op::Concat(whole, parts) if *whole == axis => {
                out.extend(g.args(id).into_iter().zip(parts.iter().copied()))
            }
            Op::Map(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => next.extend(g.args(id)),
            Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Iota(_)
            | Op::Extent(_)
            | Op::Reduce(..)
            | Op::At(_) => {}
        }
    }
    out
}

/// A name for the axes of an extent that is not taken: the extent in lower case.
fn stem(extent: &Dim, taken: &mut BTreeSet<String>) -> String {
    let mut word = String::new();
    for c in extent.to_string().chars() {
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        } else if !word.is_empty() && !word.ends_with('_') {
            word.push('_');
        }
    }
    let mut word = word.trim_end_matches('_').to_owned();
    if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        word.insert(0, 'n');
    }
    let numbered = (2..).map(|n| format!("{word}_{n}"));
    let free = std::iter::once(word.clone()).chain(numbered).find(|w| !taken.contains(w));
    let free = free.expect("numbers do not end");
    taken.insert(free.clone());
    free
}

/// Whether an argument's axes of the same name are those of the node: an index is one node however it is used.
fn flows(g: &Graph, id: NodeId, arg: NodeId) -> bool {
    let is_index = matches!(g.op(id), Op::At(_)) && g.args(id)[1] == arg;
    !is_index && !matches!(g.op(arg), Op::Iota(_))
}

/// Whether a node is an integer made of indices.
fn is_index(g: &Graph, id: NodeId) -> bool {
    g.node(id).dtype.is_int() && matches!(g.op(id), Op::Iota(_) | Op::Map(_))
}

fn is_param(g: &Graph, id: NodeId) -> bool {
    matches!(g.op(id), Op::Param(_))
}

/// Disjoint sets of axes as nodes see them.
#[derive(Default)]
struct Union {
    numbers: BTreeMap<(NodeId, AxisId), usize>,
    parent: Vec<usize>,
}

impl Union {
    fn variable(&mut self, key: (NodeId, AxisId)) -> usize {
        let next = self.parent.len();
        let n = *self.numbers.entry(key).or_insert(next);
        if n == next {
            self.parent.push(n);
        }
        n
    }

    fn root(&mut self, mut n: usize) -> usize {
        while self.parent[n] != n {
            self.parent[n] = self.parent[self.parent[n]];
            n = self.parent[n];
        }
        n
    }

    fn root_of(&mut self, key: (NodeId, AxisId)) -> Option<usize> {
        let n = self.numbers.get(&key).copied()?;
        Some(self.root(n))
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }

    fn variables(&self) -> Vec<(NodeId, AxisId)> {
        self.numbers.keys().copied().collect()
    }
}
