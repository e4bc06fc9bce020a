//! Extraction: one term for each class that the outputs need, shared subterms counted once.
//!
//! Greedy over the DAG: classes are settled in order of their cost, which is the sum over the *set* of classes below,
//! and a class takes the cheapest term all of whose children are settled. Ties are broken by a digest of the term's
//! text, so that no numbering of classes can show. Left sides of directed rules are the last resort.

use crate::egraph::cost::own_cost;
use crate::egraph::saturate::retired;
use crate::facts::Classes;
use crate::facts::free_axes;
use crate::graph::digest::digest;
use crate::graph::sizes::nominal_extents;
use crate::lang::{Tag, Term};
use egg::{Id, Language};
use salient_ir::Graph;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// What was chosen for every class that can be computed.
pub(crate) type Choice = HashMap<Id, Chosen>;

/// The term of a class.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// The term.
    pub(crate) term: Term,
    /// A digest of its text down to the leaves.
    pub(crate) digest: u64,
    /// When it was chosen: after everything that it needs.
    pub(crate) turn: usize,
}

/// Added to the cost of a left side of a directed rule: chosen only where the normal forms alone would be circular, as
/// where two directed rules undo each other.
const RETIRED: u64 = 1 << 50;

/// Added to the cost of a term with a free axis on which its value is known not to depend.
const IDLE_AXIS: u64 = 1 << 56;

/// Chooses a term for every class that can be computed. `g` gives the names of axes and dimensions for breaking ties.
pub(crate) fn extract(classes: &Classes, g: &Graph) -> Choice {
    settle(classes, g, &retired(classes))
}

/// A class that has been given its term.
struct Settled {
    /// Every class below, itself included, as a bit set over positions.
    below: Vec<u64>,
    digest: u64,
}

struct Candidate<'a> {
    class: usize,
    term: &'a Term,
    own: u64,
    /// Children that are not settled yet, each counted once.
    waiting: usize,
}

fn settle(classes: &Classes, g: &Graph, retired: &HashSet<Term>) -> Choice {
    let extents = nominal_extents(&classes.analysis);
    let ids: Vec<Id> = classes.classes().map(|c| c.id).collect();
    let position: HashMap<Id, usize> = ids.iter().enumerate().map(|(n, id)| (*id, n)).collect();
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let mut waits: Vec<Vec<usize>> = vec![Vec::new(); ids.len()];
    // (cost, digest, candidate): the cheapest first.
    let mut heap: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
    let mut own_of: Vec<u64> = vec![0; ids.len()];
    let mut settled: Vec<Option<Settled>> = ids.iter().map(|_| None).collect();
    let mut choice = Choice::new();

    for (n, id) in ids.iter().enumerate() {
        for term in classes[*id].iter() {
            let mut children: Vec<usize> =
                term.children.iter().map(|c| position[&classes.find(*c)]).collect();
            children.sort_unstable();
            children.dedup();
            let mut own = own_cost(classes, &extents, term);
            if !term.children.is_empty() && retired.contains(&term.clone().map_children(|c| classes.find(c)))
            {
                own = own.saturating_add(RETIRED);
            }
            if !free_axes(classes, term).is_subset(&classes[*id].data.axes) {
                own = own.saturating_add(IDLE_AXIS);
            }
            let at = candidates.len();
            candidates.push(Candidate { class: n, term, own, waiting: children.len() });
            if children.is_empty() {
                heap.push(Reverse((own, digest_of(g, classes, &position, &settled, term), at)));
            }
            children.iter().for_each(|c| waits[*c].push(at));
        }
    }
    let words = ids.len().div_ceil(64);
    while let Some(Reverse((_, key, at))) = heap.pop() {
        let (class, term, own) = (candidates[at].class, candidates[at].term, candidates[at].own);
        if settled[class].is_some() {
            continue;
        }
        let mut below = union(&settled, &position, classes, term, words);
        below[class / 64] |= 1 << (class % 64);
        own_of[class] = own;
        settled[class] = Some(Settled { below, digest: key });
        let turn = choice.len();
        choice.insert(ids[class], Chosen { term: term.clone(), digest: key, turn });
        for user in std::mem::take(&mut waits[class]) {
            candidates[user].waiting -= 1;
            if candidates[user].waiting > 0 || settled[candidates[user].class].is_some() {
                continue;
            }
            let (term, own) = (candidates[user].term, candidates[user].own);
            let below = union(&settled, &position, classes, term, words);
            let total = cost_of(&below, &own_of).saturating_add(own);
            heap.push(Reverse((total, digest_of(g, classes, &position, &settled, term), user)));
        }
    }
    choice
}

/// The classes below the children of a term.
fn union(
    settled: &[Option<Settled>],
    position: &HashMap<Id, usize>,
    classes: &Classes,
    term: &Term,
    words: usize,
) -> Vec<u64> {
    let mut out = vec![0u64; words];
    for child in &term.children {
        let child = settled[position[&classes.find(*child)]].as_ref().expect("children are settled first");
        out.iter_mut().zip(&child.below).for_each(|(o, b)| *o |= b);
    }
    out
}

fn cost_of(below: &[u64], own: &[u64]) -> u64 {
    let mut total = 0u64;
    for (n, word) in below.iter().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            let bit = rest.trailing_zeros() as usize;
            total = total.saturating_add(own[n * 64 + bit]);
            rest &= rest - 1;
        }
    }
    total
}

/// A digest of the text of a term: the same for the same program however it was written down.
fn digest_of(
    g: &Graph,
    classes: &Classes,
    position: &HashMap<Id, usize>,
    settled: &[Option<Settled>],
    term: &Term,
) -> u64 {
    let text = match term.tag {
        Tag::Axis(a) => format!("@{} {}", g.axis(a).name, g.axis(a).extent),
        Tag::Extent(n) => format!("{}", classes.analysis.dims[n as usize]),
        Tag::Input(_)
        | Tag::Param(_)
        | Tag::Const(_)
        | Tag::Iota
        | Tag::Map(_)
        | Tag::Reduce(_)
        | Tag::At
        | Tag::Concat
        | Tag::CumSum(_)
        | Tag::Fused(_) => term.tag.to_string(),
    };
    let below = term.children.iter().map(|child| {
        let child = settled[position[&classes.find(*child)]].as_ref();
        child.expect("children are settled first").digest
    });
    digest(&text, below)
}
