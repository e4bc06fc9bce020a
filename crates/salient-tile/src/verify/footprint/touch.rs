//! What a body touches through one pointer: where accesses begin and end, under which conditions, and without those that others
//! imply.

use crate::dims::{LANES, n};
use salient_ir::{Dim, Symbol};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What a variable of a body is.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::verify) enum Def {
    /// The index of a loop that runs so often.
    LoopIndex(Dim),
    /// A lane.
    Lane,
    /// Read from memory, or computed by what is no polynomial.
    Data,
    /// The least of these.
    Least(Vec<Dim>),
    /// The greatest of these.
    Greatest(Vec<Dim>),
    /// The first divided by the second, rounded down, where the second is positive.
    Quotient(Dim, Dim),
}

/// One end of an access, in bytes from the pointer.
#[derive(Clone, Debug)]
pub(in crate::verify) struct Reach {
    pub(in crate::verify) at: Dim,
    /// The instruction, as text.
    pub(in crate::verify) line: String,
}

/// Accesses through one pointer under the same conditions.
#[derive(Clone, Debug)]
pub(in crate::verify) struct Touch {
    /// The position of the pointer among the body's parameters.
    pub(in crate::verify) pointer: usize,
    pub(in crate::verify) writes: bool,
    /// Whether it may touch less than it seems to: some lanes are masked.
    pub(in crate::verify) is_masked: bool,
    /// Whether it is of one element, for each vector of a strip: no mask of its own is why it may touch less.
    pub(in crate::verify) is_of_vectors: bool,
    /// The variables of the body in what follows, in order.
    pub(in crate::verify) defs: Vec<(Symbol, Def)>,
    /// What is at least zero wherever memory is touched.
    pub(in crate::verify) facts: Vec<Dim>,
    /// Where accesses begin, without those that others imply.
    pub(in crate::verify) starts: Vec<Reach>,
    /// One past where they end, likewise.
    pub(in crate::verify) ends: Vec<Reach>,
}

impl Touch {
    /// Without ends that others imply, and without variables that nothing mentions.
    pub(super) fn reduced(mut self) -> Touch {
        self.starts = extremes(self.starts, 1);
        self.ends = extremes(self.ends, -1);
        let mut used: BTreeSet<Symbol> = BTreeSet::new();
        let mentioned = self.starts.iter().chain(&self.ends).map(|reach| &reach.at).chain(&self.facts);
        used.extend(mentioned.flat_map(Dim::symbols));
        for (name, def) in self.defs.iter().rev() {
            if used.contains(name) {
                match def {
                    Def::LoopIndex(d) => used.extend(d.symbols()),
                    Def::Least(of) | Def::Greatest(of) => used.extend(of.iter().flat_map(Dim::symbols)),
                    Def::Quotient(p, q) => used.extend([p, q].into_iter().flat_map(Dim::symbols)),
                    Def::Lane | Def::Data => {}
                }
            }
        }
        self.defs.retain(|(name, _)| used.contains(name));
        self
    }
}

/// The outermost of some places: least ones for a sign of 1, greatest ones for -1.
fn extremes(all: Vec<Reach>, sign: i64) -> Vec<Reach> {
    // Of places a fixed distance apart, in elements and in vectors, only those that no other is beyond.
    let mut by_rest: BTreeMap<Dim, Vec<(i64, i64, Reach)>> = BTreeMap::new();
    for reach in all {
        let (vectors, rest) = reach.at.linear_in(&LANES).unwrap_or((n(0), reach.at.clone()));
        let vectors = vectors.as_constant();
        let rest = if vectors.is_some() { rest } else { reach.at.clone() };
        let constant = rest.constant_term();
        let of = by_rest.entry(&rest - &n(constant)).or_default();
        let place = (sign * vectors.unwrap_or(0), sign * constant);
        // One vector has at least one element.
        let implies = |a: (i64, i64), b: (i64, i64)| a.0 <= b.0 && a.1 + a.0 <= b.1 + b.0;
        if of.iter().all(|other| !implies((other.0, other.1), place)) {
            of.retain(|other| !implies(place, (other.0, other.1)));
            of.push((place.0, place.1, reach));
        }
    }
    let left: Vec<Reach> = by_rest.into_values().flatten().map(|(.., reach)| reach).collect();
    // What lies in the middle between two others lies between them.
    let places: HashSet<&Dim> = left.iter().map(|reach| &reach.at).collect();
    let is_between = |reach: &Reach| {
        places.iter().any(|other| **other != reach.at && places.contains(&(&(&reach.at * &n(2)) - *other)))
    };
    let kept: Vec<bool> = left.iter().map(|reach| !is_between(reach)).collect();
    left.into_iter().zip(kept).filter_map(|(reach, kept)| kept.then_some(reach)).collect()
}
