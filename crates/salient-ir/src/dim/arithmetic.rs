//! Sums, products and quotients of dimensions, in normal form: what provably comes out even is cancelled, and fractions of
//! one monomial are joined.

use super::{Atom, Dim, Limit, limit};
use std::collections::{BTreeMap, BTreeSet};

impl Dim {
    /// `self / by` where it must come out even. Reduced where that is provable, kept as a quotient (checked when
    /// evaluated) where it is not; `None` if it provably leaves a remainder or divides by zero.
    pub fn exact_div(&self, by: &Dim) -> Option<Dim> {
        if by.as_constant() == Some(0) {
            return None;
        }
        if let Some(beyond) = self.limit_of(by) {
            return Some(beyond);
        }
        if let (Some(a), Some(b)) = (self.as_constant(), by.as_constant()) {
            let even = a.checked_rem(b).is_none_or(|rest| rest == 0);
            return even.then(|| checked(a.checked_div(b)));
        }
        if let Some(q) = self.reduce_div(by) {
            return Some(q);
        }
        // (a / b) / c = a / (b * c), so that the same quotient has one form.
        if let [(m, 1)] = &*self.terms
            && let [Atom::Exact(num, den)] = m.as_slice()
        {
            return num.exact_div(&(den * by));
        }
        Some(Dim::atom(Atom::Exact(self.clone(), by.clone())))
    }

    /// `self / by`, rounded down.
    pub fn floor_div(&self, by: &Dim) -> Option<Dim> {
        if by.as_constant() == Some(0) {
            return None;
        }
        if let Some(beyond) = self.limit_of(by) {
            return Some(beyond);
        }
        if let (Some(a), Some(b)) = (self.as_constant(), by.as_constant()) {
            return Some(checked(quotient_down(a, b)));
        }
        if let Some(q) = self.reduce_div(by) {
            return Some(q);
        }
        Some(Dim::atom(Atom::Floor(self.clone(), by.clone())))
    }

    /// `self / by`, rounded up.
    pub fn ceil_div(&self, by: &Dim) -> Option<Dim> {
        (self + by - Dim::constant(1)).floor_div(by)
    }

    /// The quotient, where polynomial division proves that it is even.
    pub(super) fn reduce_div(&self, by: &Dim) -> Option<Dim> {
        if self.limit_of(by).is_some() {
            return None;
        }
        if self == by {
            return Some(Dim::constant(1));
        }
        let [(by_atoms, by_coef)] = &*by.terms else {
            // A divisor of several terms: only a constant multiple of it.
            let (c0, c1) = (self.terms.first()?.1, by.terms.first()?.1);
            let even = c0.checked_rem(c1)? == 0;
            return (even && *self == by * &Dim::constant(c0 / c1)).then(|| Dim::constant(c0 / c1));
        };
        let mut out = BTreeMap::new();
        for (atoms, coef) in self.terms.iter() {
            if coef.checked_rem(*by_coef)? != 0 {
                return None;
            }
            let mut rest = atoms.clone();
            for atom in by_atoms {
                let at = rest.iter().position(|a| a == atom)?;
                rest.remove(at);
            }
            out.insert(rest, coef / by_coef);
        }
        Some(Dim::from_map(out))
    }
}

impl std::ops::Add for &Dim {
    type Output = Dim;
    fn add(self, other: &Dim) -> Dim {
        match (self.as_constant(), other.as_constant()) {
            (Some(0), _) => return other.clone(),
            (_, Some(0)) => return self.clone(),
            (Some(_) | None, _) => {}
        }
        if let Some(beyond) = self.limit_of(other) {
            return beyond;
        }
        let mut map: BTreeMap<Vec<Atom>, i64> = self.terms.iter().cloned().collect();
        // Equal quotients that add up may come out even: three times `D / 3` is `D`.
        let mut quotients = Vec::new();
        for (atoms, coef) in other.terms.iter() {
            let known = map.get(atoms).copied();
            let Some(sum) = known.unwrap_or(0).checked_add(*coef) else { return Dim::beyond(Limit::Value) };
            if known.is_some() && atoms.iter().any(|a| matches!(a, Atom::Exact(..))) {
                map.remove(atoms);
                quotients.push((atoms.clone(), sum));
            } else {
                map.insert(atoms.clone(), sum);
            }
        }
        let rest = Dim::from_map(map);
        let nonzero = quotients.into_iter().filter(|(_, c)| *c != 0);
        nonzero.fold(rest, |sum, (atoms, c)| &sum + &cancel(atoms, c)).with_fractions_joined()
    }
}

/// A monomial that is a fraction of another one by a number, as `T * (D / 2)` is of `T * D`.
struct Fraction {
    /// The monomial of which it is a fraction.
    whole: Vec<Atom>,
    /// The dividend, which is a product of symbols, and what the quotient is multiplied by.
    of: (Vec<Atom>, Vec<Atom>),
    by: i64,
}

impl Fraction {
    fn of(atoms: &[Atom]) -> Option<Fraction> {
        atoms.iter().enumerate().find_map(|(at, atom)| {
            let Atom::Exact(num, den) = atom else { return None };
            let ([(dividend, 1)], Some(by)) = (&*num.terms, den.as_constant()) else { return None };
            let mut rest = atoms.to_vec();
            rest.remove(at);
            let mut whole: Vec<Atom> = dividend.iter().chain(&rest).cloned().collect();
            whole.sort_unstable();
            Some(Fraction { whole, of: (dividend.clone(), rest), by })
        })
    }
}

impl Dim {
    /// Fractions of one monomial by numbers are one fraction in lowest terms, beside the monomial itself: `D - D / 2` is
    /// `D / 2`, and of slices that are halves of one axis both are as long.
    fn with_fractions_joined(self) -> Dim {
        let mut joined = self;
        let mut done = BTreeSet::new();
        while let Some(first) = joined
            .terms
            .iter()
            .filter_map(|(atoms, _)| Fraction::of(atoms))
            .find(|f| f.by > 0 && !done.contains(&f.whole))
        {
            done.insert(first.whole.clone());
            joined = joined.joined(&first).unwrap_or(joined);
        }
        joined
    }

    /// As [`Dim::with_fractions_joined`] for the fractions of one monomial; `None` on overflow and if there is nothing to
    /// join.
    fn joined(&self, first: &Fraction) -> Option<Dim> {
        let (mut num, mut den, mut parts) = (0i64, 1i64, 0);
        let mut rest = BTreeMap::new();
        for (atoms, coef) in self.terms.iter() {
            let by = match Fraction::of(atoms) {
                Some(f) if f.whole == first.whole && f.by > 0 => f.by,
                Some(_) | None if *atoms == first.whole => 1,
                Some(_) | None => {
                    rest.insert(atoms.clone(), *coef);
                    continue;
                }
            };
            parts += 1;
            num = num.checked_mul(by)?.checked_add(coef.checked_mul(den)?)?;
            den = den.checked_mul(by)?;
            let common = gcd(num, den);
            (num, den) = (num / common, den / common);
        }
        if parts < 2 {
            return None;
        }
        // What is left over has the sign of the whole, so that a sign that was plain stays plain.
        for (atoms, coef) in [(first.whole.clone(), num / den), (first.part(den), num % den)] {
            if coef != 0 {
                let sum: &mut i64 = rest.entry(atoms).or_insert(0);
                *sum = sum.checked_add(coef)?;
            }
        }
        Some(Dim::from_map(rest))
    }
}

impl Fraction {
    /// The monomial that is so large a part of the whole.
    fn part(&self, by: i64) -> Vec<Atom> {
        let (dividend, rest) = &self.of;
        let dividend = Dim::term(dividend.clone(), 1);
        let mut atoms = rest.clone();
        atoms.push(Atom::Exact(dividend, Dim::constant(by)));
        atoms.sort_unstable();
        atoms
    }
}

/// The constant, or a dimension beyond 64 bits where there is none.
fn checked(n: Option<i64>) -> Dim {
    n.map_or_else(|| Dim::beyond(Limit::Value), Dim::constant)
}

/// `n / d` rounded down, whatever the signs; `None` for a divisor of zero and beyond 64 bits.
pub(super) fn quotient_down(n: i64, d: i64) -> Option<i64> {
    let quotient = n.checked_div(d)?;
    let rest = n % d;
    Some(if rest != 0 && (rest < 0) != (d < 0) { quotient - 1 } else { quotient })
}

/// The greatest number that divides both; one if both are zero.
fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1).max(1)
}

impl std::ops::Sub for &Dim {
    type Output = Dim;
    fn sub(self, other: &Dim) -> Dim {
        self + &-other
    }
}

impl std::ops::Neg for &Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        self * &Dim::constant(-1)
    }
}

impl std::ops::Mul for &Dim {
    type Output = Dim;
    fn mul(self, other: &Dim) -> Dim {
        match (self.as_constant(), other.as_constant()) {
            (Some(1), _) => return other.clone(),
            (_, Some(1)) => return self.clone(),
            (Some(_) | None, _) => {}
        }
        if let Some(beyond) = self.limit_of(other) {
            return beyond;
        }
        if self.terms.len() * other.terms.len() > limit::PRODUCTS {
            return Dim::beyond(Limit::Terms);
        }
        // Monomials that no quotient is in are gathered; what a quotient makes of others is added up.
        let mut plain: BTreeMap<Vec<Atom>, i64> = BTreeMap::new();
        let mut others = Vec::new();
        for (xa, xc) in self.terms.iter() {
            for (ya, yc) in other.terms.iter() {
                let Some(coef) = xc.checked_mul(*yc) else { return Dim::beyond(Limit::Value) };
                let mut atoms: Vec<Atom> = xa.iter().chain(ya).cloned().collect();
                atoms.sort_unstable();
                if atoms.iter().any(|a| matches!(a, Atom::Exact(..))) {
                    others.push(cancel(atoms, coef));
                    continue;
                }
                let sum = plain.entry(atoms).or_insert(0);
                let Some(both) = sum.checked_add(coef) else { return Dim::beyond(Limit::Value) };
                *sum = both;
            }
        }
        others.iter().fold(Dim::from_map(plain), |sum, term| &sum + term)
    }
}

/// The same operators on values and on a value and a reference, so that a formula is written without parentheses around its
/// parts.
macro_rules! on_values {
    ($($operator:ident $method:ident),+) => {$(
        impl std::ops::$operator for Dim {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                std::ops::$operator::$method(&self, &other)
            }
        }

        impl std::ops::$operator<&Dim> for Dim {
            type Output = Dim;
            fn $method(self, other: &Dim) -> Dim {
                std::ops::$operator::$method(&self, other)
            }
        }

        impl std::ops::$operator<Dim> for &Dim {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                std::ops::$operator::$method(self, &other)
            }
        }
    )+};
}

on_values!(Add add, Sub sub, Mul mul);

/// The monomial `coef * atoms` with every exact quotient cancelled against what it is multiplied by:
/// `(D / H) * H` is `D`.
fn cancel(atoms: Vec<Atom>, coef: i64) -> Dim {
    for (at, atom) in atoms.iter().enumerate() {
        let Atom::Exact(num, den) = atom else { continue };
        let mut rest = atoms.clone();
        rest.remove(at);
        let rest = Dim::term(rest, coef);
        if let Some(q) = rest.reduce_div(den) {
            return num * &q;
        }
    }
    Dim::from_map(BTreeMap::from([(atoms, coef)]))
}
