//! Proofs that polynomials of integers are at least zero, from what is known of the integers.
//!
//! Variables stand in an order, and what bounds one is usually made of those before it: the order finds proofs, soundness does
//! not need it. A proof takes the last variable of the polynomial, finds the sign of what it is multiplied by, puts a bound in
//! its place, and goes on with what is left: each step gives something that is at most the polynomial. In the end no
//! coefficient may be negative. Quotients are variables: `f = p // q` lies between `(p - q + 1) / q` and `p / q`.
//!
//! Nothing here is shared with [`Ranges`](crate::index::Ranges), by which the compiler proves its own indices inside: who
//! checks must not lean on the proof that is checked.

use super::facts::{Bound, Facts, Nature, Sign};
use crate::dims::{n, var};
use salient_ir::{Dim, Symbol};
use std::collections::{BTreeMap, HashMap};

/// Steps after which a proof is given up at one depth. Those that are found for the programs of this repository take 400 at most.
const STEPS: u32 = 1000;

/// The most steps that wait for one another, tried in turn: most proofs are short, and a shallow search leaves wrong branches early.
const DEPTHS: [u32; 3] = [6, 12, 40];

/// The way of a proof so far.
#[derive(Default)]
struct Search {
    steps: u32,
    /// Steps that wait for others, and how many may.
    depth: u32,
    most: u32,
    known: HashMap<Dim, bool>,
}

impl Facts {
    /// The variables of a polynomial, the last first.
    pub(super) fn last_first(&self, p: &Dim) -> Vec<Symbol> {
        let mut all: Vec<Symbol> = p.symbols().into_iter().collect();
        all.sort_by_key(|name| std::cmp::Reverse(self.position.get(name)));
        all
    }

    /// Whether the polynomial is seen to be at least zero: no coefficient is negative once every variable is counted from the
    /// least number that it can be.
    pub(super) fn is_plain(&self, p: &Dim) -> bool {
        let Some(terms) = p.monomials() else { return false };
        let mut counted: BTreeMap<Symbol, Dim> = BTreeMap::new();
        for name in terms.iter().flat_map(|(_, of)| of) {
            match self.least(name) {
                Some(0) => {}
                Some(least) if least > 0 => _ = counted.insert((*name).clone(), &var(name) + &n(least)),
                Some(_) | None => return false,
            }
        }
        p.is_nonnegative() || p.substitute(&counted).is_nonnegative()
    }

    /// Whether it is proved that the polynomial is at least zero.
    pub(super) fn prove(&self, p: &Dim) -> bool {
        let within = |most: u32| self.search(p, &mut Search { most, ..Search::default() });
        self.is_never || DEPTHS.into_iter().any(within)
    }

    /// Whether it is proved that the one is at most the other.
    pub(super) fn at_most(&self, p: &Dim, q: &Dim) -> bool {
        self.prove(&(q - p))
    }

    /// Whether it is proved that the polynomial is at least one.
    pub(super) fn is_positive(&self, p: &Dim) -> bool {
        self.prove(&(p - &n(1)))
    }

    fn search(&self, p: &Dim, search: &mut Search) -> bool {
        if let Some(value) = p.as_constant() {
            return value >= 0;
        }
        if let Some(known) = search.known.get(p) {
            return *known;
        }
        if self.is_plain(p) {
            return true;
        }
        search.steps += 1;
        if search.steps > STEPS || search.depth > search.most || p.limit().is_some() || self.fails(p) {
            search.known.insert(p.clone(), false);
            return false;
        }
        // While it is looked for it does not follow from itself.
        search.known.insert(p.clone(), false);
        search.depth += 1;
        let found = self.last_first(p).iter().find_map(|name| self.without(name, p, search)) == Some(true);
        search.depth -= 1;
        search.known.insert(p.clone(), found);
        found
    }

    /// Proves it with bounds in place of a variable; `None` if it is not known on which side they would have to be.
    fn without(&self, name: &Symbol, p: &Dim, search: &mut Search) -> Option<bool> {
        let (variable, (of, rest)) = (self.get(name)?, p.linear_in(name)?);
        let (bounds, of_all) = match (self.sign(&of, search)?, &variable.nature) {
            (Sign::Plus, Nature::Least(all)) => (&variable.lower, Some(all)),
            (Sign::Plus, _) => (&variable.lower, None),
            (Sign::Minus, Nature::Greatest(all)) => (&variable.upper, Some(all)),
            (Sign::Minus, _) => (&variable.upper, None),
        };
        // Where more cancels, more was meant to.
        let mut left: Vec<Dim> = bounds.iter().map(|bound| bound.put(&of, &rest)).collect();
        left.sort_by_cached_key(|p| p.monomials().map(|terms| terms.len()));
        let by_one = left.iter().any(|p| self.search(p, search));
        let by_two = |search: &mut Search| bounds.len() > 1 && self.by_two(bounds, &of, &rest, search);
        Some(
            by_one
                || by_two(search)
                || of_all.is_some_and(|all| all.iter().all(|d| self.search(&(&(&of * d) + &rest), search))),
        )
    }

    /// Proves it with one bound for a part of what a variable is multiplied by, and another one for all else: the last of some rows
    /// may be within its tile, times a stride, and within the tensor besides. A part is a term, or so much of the number among
    /// them as the other bound does not cancel.
    fn by_two(&self, bounds: &[Bound], of: &Dim, rest: &Dim, search: &mut Search) -> bool {
        if bounds.iter().any(|bound| bound.times.as_constant() != Some(1)) {
            return false;
        }
        let number = of.constant_term();
        let mut pairs =
            bounds.iter().flat_map(|a| bounds.iter().map(move |b| (a, b))).filter(|(a, b)| a != b);
        pairs.any(|(a, b)| {
            let left = cancelling(&a.than, rest).into_iter().map(|times| n(number + times));
            let parts: Vec<Dim> = of.terms().chain(left).filter(|part| part != of).collect();
            parts.iter().any(|part| {
                let other = of - part;
                // A bound may stand in the place of what is multiplied by a number of its sign alone.
                let have_sign = |sign: i64| [part, &other].iter().all(|x| self.is_plain(&(*x * &n(sign))));
                let with = &(&(&other * &a.than) + &(part * &b.than)) + rest;
                (have_sign(1) || have_sign(-1)) && self.search(&with, search)
            })
        })
    }

    fn sign(&self, of: &Dim, search: &mut Search) -> Option<Sign> {
        let minus = -of;
        if self.is_plain(of) {
            Some(Sign::Plus)
        } else if self.is_plain(&minus) {
            Some(Sign::Minus)
        } else if of.as_constant().is_some() {
            None
        } else if self.search(of, search) {
            Some(Sign::Plus)
        } else if self.search(&minus, search) {
            Some(Sign::Minus)
        } else {
            None
        }
    }
}

/// How often the first has to be taken from the second for a term of both to cancel.
fn cancelling(bound: &Dim, rest: &Dim) -> Vec<i64> {
    let (Some(bound), Some(rest)) = (bound.monomials(), rest.monomials()) else { return Vec::new() };
    let of_term = |(times, of): &(i64, Vec<&Symbol>)| {
        let same = rest.iter().find(|(_, other)| other == of)?;
        (!of.is_empty() && *times != 0 && same.0 % times == 0).then(|| same.0 / times)
    };
    bound.iter().filter_map(of_term).collect()
}
