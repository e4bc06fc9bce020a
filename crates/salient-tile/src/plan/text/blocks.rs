//! Equal blocks once: which steps of a plan belong to which block of a chain, and what of a block differs from one before it.

use super::{Labels, Printer, expressions};
use crate::plan::Plan;
use salient_ir::NodeId;
use salient_ir::text::Expressions;
use std::collections::{BTreeMap, BTreeSet};

/// A part of the text.
pub(super) enum Part {
    Step(String),
    /// Equal blocks, from the first to behind the last, of so many; or what they do otherwise than an earlier block.
    Blocks {
        range: (usize, usize),
        of: usize,
        unlike: Option<usize>,
        text: String,
    },
}

/// A step of a block.
struct BlockStep {
    /// The position of its node in the block.
    at: usize,
    text: String,
    /// The text with nodes by their positions in the block: the same for equal steps of equal blocks.
    canonical: String,
}

/// The steps as text, with those of equal blocks once.
pub(super) fn parts(plan: &Plan<'_>, steps: &[(NodeId, String)], labels: &Labels) -> Vec<Part> {
    let blocks = blocks(plan);
    let in_blocks = steps_of_blocks(plan, steps, &blocks, labels);
    let mut out = Vec::new();
    let mut shown = BTreeSet::new();
    // The blocks that begin what is shown of a chain.
    let mut firsts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (node, text) in steps {
        let Some(&(chain, block)) = blocks.get(node) else {
            out.push(Part::Step(text.clone()));
            continue;
        };
        if !shown.insert((chain, block)) {
            continue;
        }
        let own = &in_blocks[&(chain, block)];
        let canonical =
            |steps: &[BlockStep]| steps.iter().map(|s| (s.at, s.canonical.clone())).collect::<Vec<_>>();
        let mut end = block + 1;
        while in_blocks.get(&(chain, end)).is_some_and(|other| canonical(other) == canonical(own)) {
            shown.insert((chain, end));
            end += 1;
        }
        // Blocks at the ends of a chain may differ from others in a few steps: then these alone are shown.
        let earlier = firsts.entry(chain).or_default();
        let unlike = |first: &usize| {
            let known = &in_blocks[&(chain, *first)];
            let is_unlike =
                |s: &&BlockStep| !known.iter().any(|f| f.at == s.at && f.canonical == s.canonical);
            let unlike: Vec<&BlockStep> = own.iter().filter(is_unlike).collect();
            (known.len() == own.len() && 2 * unlike.len() <= own.len()).then_some((*first, unlike))
        };
        let nearest = earlier.iter().filter_map(unlike).min_by_key(|(_, unlike)| unlike.len());
        earlier.push(block);
        let text = |steps: &mut dyn Iterator<Item = &BlockStep>| steps.map(|s| s.text.as_str()).collect();
        let (unlike, text) = match nearest {
            Some((first, unlike)) => (Some(first), text(&mut unlike.into_iter())),
            None => (None, text(&mut own.iter())),
        };
        let of = plan.options.chains[chain].len();
        out.push(Part::Blocks { range: (block, end), of, unlike, text });
    }
    out
}

/// The steps of each block of each chain.
fn steps_of_blocks(
    plan: &Plan<'_>,
    steps: &[(NodeId, String)],
    blocks: &BTreeMap<NodeId, (usize, usize)>,
    labels: &Labels,
) -> BTreeMap<(usize, usize), Vec<BlockStep>> {
    let mut out: BTreeMap<(usize, usize), Vec<BlockStep>> = BTreeMap::new();
    let mut canonical: BTreeMap<(usize, usize), BTreeMap<NodeId, String>> = BTreeMap::new();
    for (node, text) in steps {
        let Some(place @ (chain, block)) = blocks.get(node).copied() else { continue };
        let all = &plan.options.chains[chain];
        let canonical = canonical.entry(place).or_insert_with(|| {
            let of = |nodes: &[NodeId], mark: &str| {
                nodes.iter().enumerate().map(|(at, id)| (*id, format!("{mark}{at}"))).collect::<Vec<_>>()
            };
            // A kernel may name what the block before gives, too.
            let before = block.checked_sub(1).map_or_else(Vec::new, |before| of(&all[before], "before@"));
            let names = before.into_iter().chain(of(&all[block], "@"));
            let expressions = expressions(plan).renamed(names);
            let is_own = |id: NodeId| blocks.get(&id) == Some(&place);
            Printer { plan, labels, expressions }.steps(is_own).into_iter().collect()
        });
        let at = all[block].iter().position(|id| id == node).unwrap_or(usize::MAX);
        let canonical = canonical.get(node).cloned().unwrap_or_default();
        out.entry(place).or_default().push(BlockStep { at, text: text.clone(), canonical });
    }
    out
}

/// The nodes that belong to one block alone, each with its chain and its block.
fn blocks(plan: &Plan<'_>) -> BTreeMap<NodeId, (usize, usize)> {
    let mut out = BTreeMap::new();
    for (chain, all) in plan.options.chains.iter().enumerate() {
        let [first, second, ..] = all.as_slice() else { continue };
        let of_first: BTreeSet<NodeId> = first.iter().copied().collect();
        // What blocks share belongs to none, and what one reads of the one before belongs to that.
        let is_own = |at: usize| !of_first.contains(&second[at]);
        for (block, nodes) in all.iter().enumerate() {
            let own = nodes.iter().enumerate().filter(|(at, _)| is_own(*at));
            out.extend(own.map(|(_, id)| (*id, (chain, block))));
        }
    }
    out
}

/// The states, those of equal blocks on one line.
pub(super) fn states(expressions: &Expressions<'_>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<usize>, String)> = Vec::new();
    for (path, ty) in expressions.states() {
        let mut parts: Vec<&str> = path.split('.').collect();
        // The first number is that of the block.
        let at = parts.iter().position(|part| part.parse::<usize>().is_ok());
        let number = at.and_then(|at| parts[at].parse::<usize>().ok());
        if let Some(at) = at {
            parts[at] = "{}";
        }
        let stem = parts.join(".");
        match groups.iter_mut().find(|(known, numbers, of)| {
            *known == stem && *of == ty && numbers.last().map(|n| n + 1) == number
        }) {
            Some((_, numbers, _)) => numbers.extend(number),
            None => groups.push((stem, number.into_iter().collect(), ty)),
        }
    }
    let line = |(stem, numbers, ty): (String, Vec<usize>, String)| {
        let range = match numbers.as_slice() {
            [] => String::new(),
            [one] => one.to_string(),
            [first, .., last] => format!("{{{first} .. {}}}", last + 1),
        };
        format!("state {}: {ty}", stem.replace("{}", &range))
    };
    groups.into_iter().map(line).collect()
}
