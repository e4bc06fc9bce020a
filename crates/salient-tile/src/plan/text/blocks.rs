//! Equal blocks once: which kernels of a plan belong to which block of a chain, and in which order all are shown.

use super::fold::{Chain, Ports, numbered};
use super::words::{Word, defined, kernel_line, words};
use crate::plan::Plan;
use salient_ir::{NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// A chain of equal blocks, and the nodes that belong to each block alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) chain: Chain,
    pub(crate) nodes: Vec<BTreeSet<NodeId>>,
}

/// A part of the text.
pub(super) enum Part {
    Unit(String),
    /// Equal blocks of a chain, from the first to behind the last; or what they do otherwise than an earlier block.
    Blocks {
        chain: usize,
        range: (usize, usize),
        like: Option<usize>,
        text: String,
        carried: Vec<String>,
    },
}

/// The chains of a plan with the names that values have in the first block of each; `names` are those of all nodes, of which
/// those of later blocks are given the number of theirs.
pub(super) fn chains(plan: &Plan<'_>, names: &mut [Option<String>]) -> Vec<Blocks> {
    let g = &plan.graph;
    let mut out: Vec<Blocks> = Vec::new();
    for all in plan.options.chains {
        let [first, second, ..] = all.as_slice() else { continue };
        let of_first: BTreeSet<NodeId> = first.iter().copied().collect();
        // What blocks share belongs to none, and what one reads of the one before belongs to that.
        let own: Vec<usize> = (0..first.len()).filter(|at| !of_first.contains(&second[*at])).collect();
        let mut paths = own.iter().filter_map(|at| numbered(&g.port(first[*at])?.name));
        let Some((stem, number, _)) = paths.next() else { continue };
        if out.iter().any(|other| other.chain.stem == stem) {
            continue;
        }
        let is_port = |id: NodeId| matches!(g.op(id), Op::Input(_) | Op::Param(_));
        let mut chain = Chain { stem: stem.to_owned(), first: number, ..Chain::default() };
        let values: Vec<usize> = own.iter().copied().filter(|at| !is_port(first[*at])).collect();
        chain.own.extend(values.iter().filter_map(|at| names[first[*at].index()].clone()));
        for (block, nodes) in all.iter().enumerate().skip(1) {
            for at in &values {
                if let (Some(base), Some(_)) = (names[first[*at].index()].clone(), &names[nodes[*at].index()])
                {
                    names[nodes[*at].index()] = Some(format!("{base}@{}", number + block));
                }
            }
        }
        let nodes = all.iter().map(|nodes| own.iter().map(|at| nodes[*at]).collect()).collect();
        let taken =
            (0..first.len()).filter(|at| of_first.contains(&second[*at]) && first[*at] != second[*at]);
        let name = |id: NodeId| names[id.index()].clone();
        let taken: Vec<(String, String)> =
            taken.filter_map(|at| Some((name(first[at])?, name(second[at])?))).collect();
        for (name, of) in &taken {
            let is_alone = taken.iter().all(|(n, o)| (n == name) == (o == of));
            if is_alone && !chain.own.contains(name) && chain.own.contains(of) {
                chain.carried.insert(name.clone(), of.clone());
            }
        }
        out.push(Blocks { chain, nodes });
    }
    out
}

/// A kernel, or several that run as one, of a block: what it stores, by the name in the first block, and its text.
struct Unit {
    name: String,
    text: String,
}

/// What is shown at once: a kernel, or a block of a chain.
struct Piece {
    of: Option<(usize, usize)>,
    units: Vec<Unit>,
}

/// The kernels as text in an order in which each value is shown before it is read, equal blocks once; none if equal blocks do
/// not stand by themselves.
pub(super) fn parts(units: &[(NodeId, String)], blocks: &[Blocks], ports: &Ports) -> Option<Vec<Part>> {
    let pieces = pieces(units, blocks, ports);
    let chains = chains_as_read(&pieces, blocks);
    let needs = needs(&pieces);
    let mut is_shown = vec![false; pieces.len()];
    let mut shown: Vec<Vec<(usize, usize)>> = vec![Vec::new(); blocks.len()];
    let mut out = Vec::new();
    while let Some(at) = (0..pieces.len()).find(|at| !is_shown[*at]) {
        let is_ready =
            |piece: usize, is_shown: &[bool]| !is_shown[piece] && needs[piece].iter().all(|n| is_shown[*n]);
        let at = (at..pieces.len()).find(|at| is_ready(*at, &is_shown))?;
        is_shown[at] = true;
        let Some((chain, block)) = pieces[at].of else {
            out.extend(pieces[at].units.iter().map(|unit| Part::Unit(unit.text.clone())));
            continue;
        };
        let folder = Folder { chain: &chains[chain], ports, pieces: &pieces };
        let earlier =
            shown[chain].iter().filter_map(|(first, of)| folder.unlike(*of, at).map(|u| (*first, *of, u)));
        let nearest = earlier.min_by_key(|(_, _, unlike)| unlike.len());
        shown[chain].push((block, at));
        let folded = folder.folded(at);
        if !folder.are_equal(&folded, block, at) {
            return None;
        }
        let mut end = block + 1;
        while let Some(next) = pieces.iter().position(|p| p.of == Some((chain, end)))
            && is_ready(next, &is_shown)
            && folder.are_equal(&folded, block, next)
        {
            is_shown[next] = true;
            end += 1;
        }
        let text = match &nearest {
            Some((_, _, unlike)) => unlike.iter().map(|unit| folded[*unit].as_str()).collect(),
            None => folded.concat(),
        };
        let copied = nearest.as_ref().map_or(Vec::new(), |(_, of, _)| folder.folded(*of));
        let carried = folder.carried(folded.iter().chain(&copied), (block, end));
        let like = nearest.map(|(first, ..)| first);
        out.push(Part::Blocks { chain, range: (block, end), like, text, carried });
    }
    Some(out)
}

/// The pieces in the order in which their first kernels are stored.
fn pieces(units: &[(NodeId, String)], blocks: &[Blocks], ports: &Ports) -> Vec<Piece> {
    let mut places: BTreeMap<NodeId, (usize, usize)> = BTreeMap::new();
    for (chain, of) in blocks.iter().enumerate() {
        for (block, nodes) in of.nodes.iter().enumerate() {
            places.extend(nodes.iter().map(|id| (*id, (chain, of.chain.first + block))));
        }
    }
    let mut pieces: Vec<Piece> = Vec::new();
    for (node, text) in units {
        let of = places.get(node).copied();
        let name = last_defined(text);
        let name = match of {
            Some((chain, block)) => blocks[chain].chain.in_first(ports, name, block),
            None => name.to_owned(),
        };
        let unit = Unit { name, text: text.clone() };
        match pieces.iter_mut().find(|piece| piece.of == of && of.is_some()) {
            Some(piece) => piece.units.push(unit),
            None => pieces.push(Piece { of, units: vec![unit] }),
        }
    }
    pieces
}

/// What the last kernel of a text stores.
pub(crate) fn last_defined(text: &str) -> &str {
    let kernels = text.lines().filter(|line| kernel_line(line).is_some());
    kernels.filter_map(defined).next_back().map_or("", |(name, _)| name)
}

/// The chains, of which a name that a later block reads as it stands is not carried.
fn chains_as_read(pieces: &[Piece], blocks: &[Blocks]) -> Vec<Chain> {
    let mut chains: Vec<Chain> = blocks.iter().map(|b| b.chain.clone()).collect();
    for piece in pieces {
        let Some((chain, block)) = piece.of else { continue };
        let chain = &mut chains[chain];
        if block > chain.first {
            for word in piece.units.iter().flat_map(|unit| words(&unit.text)) {
                if let Word::Name { name, .. } = word {
                    chain.carried.remove(name);
                }
            }
        }
    }
    chains
}

/// For each piece those that define what it reads.
fn needs(pieces: &[Piece]) -> Vec<BTreeSet<usize>> {
    let mut plain: BTreeMap<&str, usize> = BTreeMap::new();
    let mut formed: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let lines = |piece: usize| pieces[piece].units.iter().flat_map(|unit| unit.text.lines());
    let kernels = |piece: usize| lines(piece).filter(|line| kernel_line(line).is_some());
    for piece in 0..pieces.len() {
        for (name, form) in kernels(piece).filter_map(defined) {
            match form {
                Some(form) => formed.entry((name, form)).or_insert(piece),
                None => plain.entry(name).or_insert(piece),
            };
        }
    }
    let of = |piece: usize| {
        let own = lines(piece).filter(|line| kernel_line(line).is_none()).filter_map(defined);
        let own: BTreeSet<&str> = own.map(|(name, _)| name).collect();
        let read = lines(piece).flat_map(words).filter_map(|word| match word {
            Word::Name { name, form } => form
                .and_then(|form| formed.get(&(name, form)))
                .or_else(|| plain.get(name).filter(|_| !own.contains(name))),
            Word::Other(_) => None,
        });
        read.copied().filter(|other| *other != piece).collect()
    };
    (0..pieces.len()).map(of).collect()
}

/// Finds out what is equal in blocks of a chain.
struct Folder<'a> {
    chain: &'a Chain,
    ports: &'a Ports,
    pieces: &'a [Piece],
}

impl Folder<'_> {
    fn block(&self, piece: usize) -> usize {
        self.pieces[piece].of.map_or(0, |(_, block)| block)
    }

    /// The texts of a block, folded.
    fn folded(&self, piece: usize) -> Vec<String> {
        let block = self.block(piece);
        self.pieces[piece].units.iter().map(|unit| self.chain.folded(&unit.text, block)).collect()
    }

    /// Whether another block is what folded texts of a block say of it.
    fn are_equal(&self, folded: &[String], block: usize, other: usize) -> bool {
        let (units, to) = (&self.pieces[other].units, self.block(other));
        units.len() == folded.len()
            && units
                .iter()
                .zip(folded)
                .all(|(unit, folded)| unit.text == self.chain.expanded(self.ports, folded, block, to))
    }

    /// The kernels in which a block differs from an earlier one, or which it has beyond it, if these are few.
    fn unlike(&self, earlier: usize, piece: usize) -> Option<Vec<usize>> {
        let (known, own) = (&self.pieces[earlier].units, &self.pieces[piece].units);
        let are_same = known.iter().zip(own).all(|(known, own)| known.name == own.name);
        if known.len() > own.len() || !are_same {
            return None;
        }
        let (folded, from, to) = (self.folded(earlier), self.block(earlier), self.block(piece));
        let expanded = |text: &String| self.chain.expanded(self.ports, text, from, to);
        let is_unlike = |at: &usize| folded.get(*at).map(expanded).as_ref() != Some(&own[*at].text);
        let unlike: Vec<usize> = (0..own.len()).filter(is_unlike).collect();
        (2 * unlike.len() <= own.len()).then_some(unlike)
    }

    /// What blocks take over from the one before, as far as texts of theirs mention it.
    fn carried<'t>(
        &self,
        texts: impl Iterator<Item = &'t String>,
        (first, end): (usize, usize),
    ) -> Vec<String> {
        let mut mentioned: BTreeSet<String> = BTreeSet::new();
        if end > first + 1 || first > self.chain.first {
            for word in texts.flat_map(|text| words(text)) {
                if let Word::Name { name, .. } = word {
                    mentioned.insert(name.to_owned());
                }
            }
        }
        let carried = self.chain.carried.iter().filter(|(name, _)| mentioned.contains(*name));
        carried.map(|(name, of)| format!("{name} = {of}")).collect()
    }
}
