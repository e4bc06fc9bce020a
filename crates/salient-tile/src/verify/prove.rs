//! Proofs that polynomials of integers are at least zero, from what is known of the integers.
//!
//! Variables stand in an order, and what bounds one is usually made of those before it: the order finds proofs, soundness does
//! not need it. A proof takes the last variable of the polynomial, finds the sign of what it is multiplied by, puts a bound in
//! its place, and goes on with what is left: each step gives something that is at most the polynomial. In the end no
//! coefficient may be negative. Quotients are variables: `f = p // q` lies between `(p - q + 1) / q` and `p / q`.
//!
//! Nothing here is shared with [`Ranges`](crate::index::Ranges), by which the compiler proves its own indices inside: who
//! checks must not lean on the proof that is checked.

use super::facts::{Facts, Nature, Sign};
use crate::dims::{n, var};
use salient_ir::{Dim, Symbol};
use std::collections::{BTreeMap, HashMap};

/// Steps after which a proof is given up.
const STEPS: u32 = 2000;

/// Steps that wait for one another, at most.
const DEPTH: u32 = 40;

/// The way of a proof so far.
#[derive(Default)]
struct Search {
    steps: u32,
    /// Steps that wait for others.
    depth: u32,
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
        self.is_never || self.search(p, &mut Search::default())
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
        if search.steps > STEPS || search.depth > DEPTH || p.limit().is_some() || self.fails(p) {
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
        Some(
            by_one
                || of_all.is_some_and(|all| all.iter().all(|d| self.search(&(&(&of * d) + &rest), search))),
        )
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
