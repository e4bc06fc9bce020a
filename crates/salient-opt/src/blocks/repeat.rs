//! Blocks that repeat: the layers of a model, found in its graph.
//!
//! Ports whose paths differ in one number (`h.0.mlp.weight`, `h.1.mlp.weight`) belong to blocks of that number. Blocks are
//! a chain if each is the same computation over ports of its own and one value that the block before gives. Values
//! that do not depend on the ports of any block, such as masks, may be read by all.
//!
//! Only finds; a chain is taken apart in [`split`](super::split).

use salient_ir::{Graph, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Fewer blocks are not worth the trouble.
const SHORTEST: usize = 4;

/// Equal blocks, each reading what the one before gives.
#[derive(Debug)]
pub(crate) struct Chain {
    /// What the paths of all ports have in common before the number.
    pub(crate) path: String,
    /// The value that the first block reads.
    pub(crate) first: NodeId,
    /// The value that a block reads, in terms of the block whose nodes are [`Chain::pattern`].
    pub(crate) carry: NodeId,
    /// The nodes of one of the blocks, its own ports among them, arguments first; the last is what it gives.
    pub(crate) pattern: Vec<NodeId>,
    /// The nodes of each block, in the order of the pattern.
    pub(crate) blocks: Vec<Vec<NodeId>>,
}

/// The longest chain of blocks of a graph, if there is one.
pub(crate) fn find(g: &Graph) -> Option<Chain> {
    let mut families: Vec<(String, Family)> = families(g).into_iter().collect();
    families.iter_mut().for_each(|(path, family)| keep_common(g, path, family));
    families.retain(|(_, family)| family.len() >= SHORTEST);
    // The one that has most of the ports; the outer of two that are nested has those of the inner.
    families.sort_by_key(|(_, family)| std::cmp::Reverse(family.values().map(Vec::len).sum::<usize>()));
    families.into_iter().find_map(|(path, family)| chain(g, path, &family))
}

/// Ports of the same path but for one number, by that number.
type Family = BTreeMap<u32, Vec<NodeId>>;

fn families(g: &Graph) -> BTreeMap<String, Family> {
    let mut out: BTreeMap<String, Family> = BTreeMap::new();
    for id in g.ids() {
        let Some(port) = g.port(id) else { continue };
        for (at, part) in port.name.match_indices('.').map(|(at, _)| (at, &port.name[at + 1..])) {
            let number = part.split('.').next().unwrap_or_default();
            if let Ok(number) = number.parse::<u32>() {
                out.entry(port.name[..at].to_owned()).or_default().entry(number).or_default().push(id);
            }
        }
    }
    out
}

/// Leaves out the ports that not every block has: all may read them, such as a table that the first declares.
fn keep_common(g: &Graph, path: &str, family: &mut Family) {
    let mut count: HashMap<String, usize> = HashMap::new();
    for id in family.values().flatten() {
        *count.entry(rest(g, path, *id).unwrap_or_default().to_owned()).or_default() += 1;
    }
    let blocks = family.len();
    for ports in family.values_mut() {
        ports.retain(|id| rest(g, path, *id).is_some_and(|rest| count[rest] == blocks));
    }
}

/// What follows the number in the name of a port.
fn rest<'g>(g: &'g Graph, path: &str, port: NodeId) -> Option<&'g str> {
    let name = &g.port(port)?.name;
    name.get(path.len() + 1..)?.split_once('.').map(|(_, rest)| rest)
}

fn chain(g: &Graph, path: String, family: &Family) -> Option<Chain> {
    let levels = levels(g, family);
    let mut ports: Vec<HashMap<&str, NodeId>> = Vec::new();
    for block in family.values() {
        ports.push(block.iter().map(|id| Some((rest(g, &path, *id)?, *id))).collect::<Option<_>>()?);
    }
    // There may be several places at which blocks can be told apart: the one that makes most of them is the best.
    let (first, second) = (cuts(g, &levels, 1), cuts(g, &levels, 2));
    let mut chains = first.into_iter().zip(second).filter_map(|(carry, root)| {
        let pattern = pattern(g, &levels, carry, root)?;
        let matcher = Matcher { g, path: &path, levels: &levels, ports: &ports, carry, pattern: &pattern };
        let (first, blocks) = matcher.chain()?;
        let chain = Chain { path: path.clone(), first, carry, pattern, blocks };
        (chain.len() >= SHORTEST && chain.is_closed(g)).then_some(chain)
    });
    let best = chains.next()?;
    Some(chains.fold(best, |best, other| if other.len() > best.len() { other } else { best }))
}

/// For each node the position of the last block on whose ports it depends.
fn levels(g: &Graph, family: &Family) -> Vec<Option<usize>> {
    let mut out: Vec<Option<usize>> = vec![None; g.len()];
    for (level, ports) in family.values().enumerate() {
        ports.iter().for_each(|id| out[id.index()] = Some(level));
    }
    for id in g.ids() {
        let below = g.args(id).iter().filter_map(|a| out[a.index()]).max();
        out[id.index()] = out[id.index()].max(below);
    }
    out
}

/// The values of a level through which everything that depends on the ports of this level and of those before it reaches
/// later ones.
fn cuts(g: &Graph, levels: &[Option<usize>], level: usize) -> Vec<NodeId> {
    let is_early = |id: NodeId| levels[id.index()].is_some_and(|l| l <= level);
    let early: Vec<NodeId> = g.ids().filter(|id| is_early(*id)).collect();
    // Arguments and users by position among these; what is not among them is a later user.
    let position: HashMap<NodeId, usize> = early.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let among = |ids: &[NodeId]| ids.iter().map(|id| position.get(id).copied()).collect::<Vec<_>>();
    let args: Vec<Vec<Option<usize>>> = early.iter().map(|id| among(&g.args(*id))).collect();
    let users: Vec<Vec<Option<usize>>> = early.iter().map(|id| among(&g.users(*id))).collect();
    let is_cut = |cut: &usize| {
        let mut behind = vec![false; early.len()];
        behind[*cut] = true;
        for at in *cut + 1..early.len() {
            behind[at] = args[at].iter().flatten().any(|a| behind[*a]);
        }
        let stays = |user: &Option<usize>| user.is_some_and(|user| user == *cut || !behind[user]);
        (0..early.len()).filter(|at| !behind[*at]).all(|at| users[at].iter().all(stays))
    };
    let own = |at: &usize| levels[early[*at].index()] == Some(level) && g.port(early[*at]).is_none();
    (0..early.len()).filter(own).filter(is_cut).map(|at| early[at]).collect()
}

/// The nodes between `carry` and `root`, arguments first; `None` if a port of another level is among them.
fn pattern(g: &Graph, levels: &[Option<usize>], carry: NodeId, root: NodeId) -> Option<Vec<NodeId>> {
    let (mut found, mut next) = (BTreeSet::new(), vec![root]);
    while let Some(id) = next.pop() {
        if id == carry || levels[id.index()].is_none() || !found.insert(id) {
            continue;
        }
        if g.port(id).is_some() && levels[id.index()] != levels[root.index()] {
            return None;
        }
        next.extend(g.args(id));
    }
    // What a block gives is the last of its nodes: ids ascend from arguments to users.
    found.iter().all(|id| *id <= root).then(|| found.into_iter().collect())
}

/// Finds blocks that are equal to the pattern.
struct Matcher<'a> {
    g: &'a Graph,
    path: &'a str,
    levels: &'a [Option<usize>],
    /// The ports of each level by what follows the number.
    ports: &'a [HashMap<&'a str, NodeId>],
    carry: NodeId,
    pattern: &'a [NodeId],
}

impl Matcher<'_> {
    /// What goes into the first block, and the nodes of all.
    fn chain(&self) -> Option<(NodeId, Vec<Vec<NodeId>>)> {
        // Back from the block before the pattern's to the first, which shows what goes in; from there on to the last. The
        // first block may differ from those behind it: it reads what no block gives.
        let second = self.back(1, self.carry)?;
        let (start, first) = self.back(0, second).map_or((1, second), |first| (0, first));
        let mut blocks = Vec::new();
        let mut value = first;
        for level in start..self.ports.len() {
            let nodes = self.forth(level, value)?;
            value = *nodes.last()?;
            blocks.push(nodes);
        }
        Some((first, blocks))
    }

    /// The port of a level that stands for a port of the pattern.
    fn port(&self, level: usize, port: NodeId) -> Option<NodeId> {
        let found = *self.ports[level].get(rest(self.g, self.path, port)?)?;
        let (own, other) = (self.g.port(port)?, self.g.port(found)?);
        (own.axes == other.axes && own.dtype == other.dtype).then_some(found)
    }

    fn is_shared(&self, id: NodeId) -> bool {
        self.levels[id.index()].is_none()
    }

    /// What the block reads that gives `root`.
    fn back(&self, level: usize, root: NodeId) -> Option<NodeId> {
        let mut known: HashMap<NodeId, NodeId> = HashMap::new();
        let mut next = vec![(*self.pattern.last()?, root)];
        while let Some((pattern, id)) = next.pop() {
            match known.get(&pattern) {
                Some(other) if *other == id => continue,
                Some(_) => return None,
                None => known.insert(pattern, id),
            };
            if pattern == self.carry {
                continue;
            }
            if self.is_shared(pattern) {
                if pattern != id {
                    return None;
                }
            } else if self.g.port(pattern).is_some() {
                if self.port(level, pattern)? != id {
                    return None;
                }
            } else {
                let (args, others) = (self.g.args(pattern), self.g.args(id));
                if self.g.op(pattern) != self.g.op(id) || args.len() != others.len() {
                    return None;
                }
                next.extend(args.into_iter().zip(others));
            }
        }
        known.get(&self.carry).copied()
    }

    /// The nodes of the block that reads `value`.
    fn forth(&self, level: usize, value: NodeId) -> Option<Vec<NodeId>> {
        let g = self.g;
        let mut known = HashMap::from([(self.carry, value)]);
        let mut out = Vec::with_capacity(self.pattern.len());
        for pattern in self.pattern {
            let id = if g.port(*pattern).is_some() {
                self.port(level, *pattern)?
            } else {
                let args = g.args(*pattern);
                let others = args.iter().map(|a| known.get(a).copied().or(self.is_shared(*a).then_some(*a)));
                let others = others.collect::<Option<Vec<NodeId>>>()?;
                let own = args.iter().position(|a| !self.is_shared(*a))?;
                let alike = |u: &NodeId| g.op(*u) == g.op(*pattern) && g.args(*u)[..] == others[..];
                g.users(others[own]).into_iter().find(alike)?
            };
            known.insert(*pattern, id);
            out.push(id);
        }
        Some(out)
    }
}

impl Chain {
    /// Whether nobody else reads what is inside the blocks: each gives one value to what follows, and outputs.
    fn is_closed(&self, g: &Graph) -> bool {
        let mut member: Vec<Option<usize>> = vec![None; g.len()];
        for (n, nodes) in self.blocks.iter().enumerate() {
            nodes.iter().for_each(|id| member[id.index()] = Some(n));
        }
        let inside = |nodes: &Vec<NodeId>, n: usize| {
            let inner = nodes[..nodes.len() - 1].iter();
            inner.flat_map(|id| g.users(*id)).all(|user| member[user.index()] == Some(n))
        };
        let disjoint = self.blocks.iter().map(Vec::len).sum::<usize>() == member.iter().flatten().count();
        disjoint
            && g.init_nodes().all(|id| member[id.index()].is_none())
            && self.blocks.iter().enumerate().all(|(n, nodes)| inside(nodes, n))
    }

    /// The number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether a node is a port.
    pub(crate) fn is_port(g: &Graph, id: NodeId) -> bool {
        matches!(g.op(id), Op::Input(_) | Op::Param(_))
    }
}
