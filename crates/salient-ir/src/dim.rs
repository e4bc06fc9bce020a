//! Symbolic dimensions: exact integer arithmetic over names such as `B`, `T` and `D`, in a normal form.
//!
//! Two dimensions are equal as values of [`Dim`] exactly when their normal forms are; nothing here guesses.
//! Does not know about axes or tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// An interned-enough name: cheap to clone, ordered by text.
pub type Name = Arc<str>;

/// What is known about the symbols when a dimension is evaluated.
pub type Bindings = BTreeMap<Name, i64>;

/// A dimension: a polynomial with integer coefficients over symbols and quotients.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dim {
    /// Sorted by monomial, no zero coefficient; the empty monomial is the constant term.
    terms: Vec<(Vec<Atom>, i64)>,
}

/// What a polynomial is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Atom {
    /// A named dimension.
    Symbol(Name),
    /// A quotient that must come out even, such as `D / H`; never reducible to a polynomial.
    Exact(Box<Dim>, Box<Dim>),
    /// A quotient rounded down, as extents of strided slices are.
    Floor(Box<Dim>, Box<Dim>),
}

impl Atom {
    fn mentions(&self, symbol: &str) -> bool {
        match self {
            Atom::Symbol(name) => &**name == symbol,
            Atom::Exact(a, b) | Atom::Floor(a, b) => a.mentions(symbol) || b.mentions(symbol),
        }
    }
}

/// Why a dimension has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DimError {
    /// A symbol without a binding.
    #[error("the dimension {0} is not known")]
    Unbound(Name),
    /// A quotient that leaves a remainder.
    #[error("{num} = {num_value} is not divisible by {den} = {den_value}")]
    NotDivisible {
        /// The dividend as written.
        num: Dim,
        /// Its value.
        num_value: i64,
        /// The divisor as written.
        den: Dim,
        /// Its value.
        den_value: i64,
    },
    /// A division by zero.
    #[error("{0} is zero and divides")]
    ZeroDivisor(Dim),
    /// A value outside the range of 64-bit integers.
    #[error("{0} is too large")]
    Overflow(Dim),
}

impl Dim {
    /// The constant `n`.
    pub fn constant(n: i64) -> Dim {
        if n == 0 { Dim { terms: Vec::new() } } else { Dim { terms: vec![(Vec::new(), n)] } }
    }

    /// The named dimension.
    pub fn symbol(name: &str) -> Dim {
        Dim { terms: vec![(vec![Atom::Symbol(name.into())], 1)] }
    }

    fn atom(atom: Atom) -> Dim {
        Dim { terms: vec![(vec![atom], 1)] }
    }

    fn from_map(map: BTreeMap<Vec<Atom>, i64>) -> Dim {
        Dim { terms: map.into_iter().filter(|(_, c)| *c != 0).collect() }
    }

    /// The value, if no symbol is in it.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(m, c)] if m.is_empty() => Some(*c),
            _ => None,
        }
    }

    /// The name, if it is a single symbol.
    pub fn as_symbol(&self) -> Option<&Name> {
        match self.terms.as_slice() {
            [(m, 1)] => match m.as_slice() {
                [Atom::Symbol(name)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Every symbol in it, sorted.
    pub fn symbols(&self) -> BTreeSet<Name> {
        let mut out = BTreeSet::new();
        self.collect_symbols(&mut out);
        out
    }

    fn collect_symbols(&self, out: &mut BTreeSet<Name>) {
        for atom in self.terms.iter().flat_map(|(m, _)| m) {
            match atom {
                Atom::Symbol(name) => {
                    out.insert(name.clone());
                }
                Atom::Exact(a, b) | Atom::Floor(a, b) => {
                    a.collect_symbols(out);
                    b.collect_symbols(out);
                }
            }
        }
    }

    /// `self / by` where it must come out even. Reduced where that is provable, kept as a quotient (checked when
    /// evaluated) where it is not; `None` if it provably leaves a remainder or divides by zero.
    pub fn exact_div(&self, by: &Dim) -> Option<Dim> {
        if by.as_constant() == Some(0) {
            return None;
        }
        if let (Some(a), Some(b)) = (self.as_constant(), by.as_constant()) {
            return (a % b == 0).then(|| Dim::constant(a / b));
        }
        if let Some(q) = self.reduce_div(by) {
            return Some(q);
        }
        // (a / b) / c = a / (b * c), so that the same quotient has one form.
        if let [(m, 1)] = self.terms.as_slice()
            && let [Atom::Exact(num, den)] = m.as_slice()
        {
            return num.exact_div(&(&**den * by));
        }
        Some(Dim::atom(Atom::Exact(Box::new(self.clone()), Box::new(by.clone()))))
    }

    /// `self / by`, rounded down.
    pub fn floor_div(&self, by: &Dim) -> Option<Dim> {
        if by.as_constant() == Some(0) {
            return None;
        }
        if let (Some(a), Some(b)) = (self.as_constant(), by.as_constant()) {
            return Some(Dim::constant(a.div_euclid(b)));
        }
        if let Some(q) = self.reduce_div(by) {
            return Some(q);
        }
        Some(Dim::atom(Atom::Floor(Box::new(self.clone()), Box::new(by.clone()))))
    }

    /// The quotient, where polynomial division proves that it is even.
    fn reduce_div(&self, by: &Dim) -> Option<Dim> {
        if self == by {
            return Some(Dim::constant(1));
        }
        let [(by_atoms, by_coef)] = by.terms.as_slice() else {
            // A divisor of several terms: only a constant multiple of it.
            let (c0, c1) = (self.terms.first()?.1, by.terms.first()?.1);
            return (c1 != 0 && c0 % c1 == 0 && *self == by * &Dim::constant(c0 / c1))
                .then(|| Dim::constant(c0 / c1));
        };
        let mut out = BTreeMap::new();
        for (atoms, coef) in &self.terms {
            if coef % by_coef != 0 {
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

    /// Every symbol that `with` maps is replaced by its dimension.
    pub fn substitute(&self, with: &BTreeMap<Name, Dim>) -> Dim {
        let mut out = Dim::constant(0);
        for (atoms, coef) in &self.terms {
            let mut term = Dim::constant(*coef);
            for atom in atoms {
                let value = match atom {
                    Atom::Symbol(name) => with.get(name).cloned().unwrap_or_else(|| Dim::symbol(name)),
                    Atom::Exact(a, b) => {
                        let (a, b) = (a.substitute(with), b.substitute(with));
                        a.exact_div(&b).unwrap_or_else(|| Dim::atom(Atom::Exact(Box::new(a), Box::new(b))))
                    }
                    Atom::Floor(a, b) => {
                        let (a, b) = (a.substitute(with), b.substitute(with));
                        a.floor_div(&b).unwrap_or_else(|| Dim::atom(Atom::Floor(Box::new(a), Box::new(b))))
                    }
                };
                term = &term * &value;
            }
            out = &out + &term;
        }
        out
    }

    /// The value under `bindings`.
    pub fn eval(&self, bindings: &Bindings) -> Result<i64, DimError> {
        let overflow = || DimError::Overflow(self.clone());
        let mut sum = 0i64;
        for (atoms, coef) in &self.terms {
            let mut product = *coef;
            for atom in atoms {
                let value = match atom {
                    Atom::Symbol(name) => {
                        *bindings.get(name).ok_or_else(|| DimError::Unbound(name.clone()))?
                    }
                    Atom::Exact(a, b) => {
                        let (n, d) = (a.eval(bindings)?, b.eval(bindings)?);
                        if d == 0 {
                            return Err(DimError::ZeroDivisor((**b).clone()));
                        }
                        if n % d != 0 {
                            let (num, den) = ((**a).clone(), (**b).clone());
                            return Err(DimError::NotDivisible { num, num_value: n, den, den_value: d });
                        }
                        n / d
                    }
                    Atom::Floor(a, b) => {
                        let (n, d) = (a.eval(bindings)?, b.eval(bindings)?);
                        if d == 0 {
                            return Err(DimError::ZeroDivisor((**b).clone()));
                        }
                        n.div_euclid(d)
                    }
                };
                product = product.checked_mul(value).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(product).ok_or_else(overflow)?;
        }
        Ok(sum)
    }

    /// Whether it is proved that the value is never negative, every symbol being at least zero.
    pub fn is_nonnegative(&self) -> bool {
        self.terms.iter().all(|(_, c)| *c >= 0)
    }

    /// Whether `self <= other` is proved, every symbol being at least zero.
    pub fn provably_le(&self, other: &Dim) -> bool {
        (other - self).is_nonnegative()
    }

    /// Whether the symbol occurs anywhere in it.
    pub fn mentions(&self, symbol: &str) -> bool {
        self.terms.iter().flat_map(|(m, _)| m).any(|atom| atom.mentions(symbol))
    }

    /// `(a, b)` with `self = a * symbol + b` and the symbol in neither; `None` if it is not of that form.
    pub fn linear_in(&self, symbol: &str) -> Option<(Dim, Dim)> {
        let (mut slope, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (atoms, coef) in &self.terms {
            let (with, without): (Vec<Atom>, Vec<Atom>) =
                atoms.iter().cloned().partition(|a| a.mentions(symbol));
            match with.as_slice() {
                [] => rest.insert(without, *coef),
                [Atom::Symbol(_)] => slope.insert(without, *coef),
                _ => return None,
            };
        }
        Some((Dim::from_map(slope), Dim::from_map(rest)))
    }

    /// `(q, r)` with `self = q * by + r`, where `q` gathers the terms that `by` provably divides.
    pub fn split_multiple(&self, by: &Dim) -> (Dim, Dim) {
        let (mut quotient, mut rest) = (Dim::constant(0), Dim::constant(0));
        for term in &self.terms {
            let term = Dim { terms: vec![term.clone()] };
            match (term.as_constant(), by.as_constant()) {
                (Some(c), Some(b)) if b != 0 => {
                    quotient = &quotient + &Dim::constant(c.div_euclid(b));
                    rest = &rest + &Dim::constant(c.rem_euclid(b));
                }
                _ => match term.reduce_div(by) {
                    Some(q) => quotient = &quotient + &q,
                    None => rest = &rest + &term,
                },
            }
        }
        (quotient, rest)
    }

    /// An inclusive upper bound, where each symbol of `below` lies in `0..below[symbol]` and every other symbol stays
    /// as it is (at least zero). Terms with a negative sign count as zero where a bounded symbol is in them.
    pub fn upper_bound(&self, below: &BTreeMap<Name, Dim>) -> Dim {
        let bounded = |atom: &Atom| below.keys().any(|s| atom.mentions(s));
        let mut out = Dim::constant(0);
        for (atoms, coef) in &self.terms {
            let term = Dim { terms: vec![(atoms.clone(), *coef)] };
            if !atoms.iter().any(bounded) {
                out = &out + &term;
            } else if *coef > 0 {
                let most = below.iter().map(|(s, d)| (s.clone(), d - &Dim::constant(1))).collect();
                out = &out + &term.substitute(&most);
            }
        }
        out
    }

    /// `q` where it is proved that `self` is the remainder of a division by `q`: `p - q * (p // q)`.
    pub fn remainder_of(&self) -> Option<Dim> {
        self.terms.iter().flat_map(|(m, _)| m).find_map(|atom| match atom {
            Atom::Floor(p, q) if *self == &**p - &(&**q * &Dim::atom(atom.clone())) => Some((**q).clone()),
            Atom::Floor(..) | Atom::Symbol(_) | Atom::Exact(..) => None,
        })
    }

    /// `(p, q)` where `self` is `p // q`, rounded down, and nothing else.
    pub fn quotient_of(&self) -> Option<(Dim, Dim)> {
        match self.terms.as_slice() {
            [(atoms, 1)] => match atoms.as_slice() {
                [Atom::Floor(p, q)] => Some(((**p).clone(), (**q).clone())),
                _ => None,
            },
            _ => None,
        }
    }

    /// The structure, for passes that turn dimensions into code: see [`DimNode`].
    pub fn to_node(&self) -> DimNode {
        let mut sum: Option<DimNode> = None;
        for (atoms, coef) in &self.terms {
            let mut product: Option<DimNode> = None;
            for atom in atoms {
                let node = match atom {
                    Atom::Symbol(name) => DimNode::Symbol(name.clone()),
                    Atom::Exact(a, b) | Atom::Floor(a, b) => {
                        DimNode::Div(Box::new(a.to_node()), Box::new(b.to_node()))
                    }
                };
                product = Some(match product {
                    None => node,
                    Some(p) => DimNode::Mul(Box::new(p), Box::new(node)),
                });
            }
            let term = match (product, *coef) {
                (None, c) => DimNode::Constant(c),
                (Some(p), 1) => p,
                (Some(p), c) => DimNode::Mul(Box::new(p), Box::new(DimNode::Constant(c))),
            };
            sum = Some(match sum {
                None => term,
                Some(s) => DimNode::Add(Box::new(s), Box::new(term)),
            });
        }
        sum.unwrap_or(DimNode::Constant(0))
    }
}

/// A dimension as an expression tree; quotients round down (an exact one has been checked at binding).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimNode {
    /// A number.
    Constant(i64),
    /// A named dimension.
    Symbol(Name),
    /// A sum.
    Add(Box<DimNode>, Box<DimNode>),
    /// A product.
    Mul(Box<DimNode>, Box<DimNode>),
    /// A quotient, rounded down.
    Div(Box<DimNode>, Box<DimNode>),
}

impl std::ops::Add for &Dim {
    type Output = Dim;
    fn add(self, other: &Dim) -> Dim {
        let mut map: BTreeMap<Vec<Atom>, i64> = self.terms.iter().cloned().collect();
        // Equal quotients that add up may come out even: three times `D / 3` is `D`.
        let mut quotients = Vec::new();
        for (atoms, coef) in &other.terms {
            let sum = map.get(atoms).map(|c| c + coef);
            match sum {
                Some(sum) if atoms.iter().any(|a| matches!(a, Atom::Exact(..))) => {
                    map.remove(atoms);
                    quotients.push((atoms.clone(), sum));
                }
                _ => *map.entry(atoms.clone()).or_insert(0) += coef,
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
            let ([(dividend, 1)], Some(by)) = (num.terms.as_slice(), den.as_constant()) else { return None };
            let mut rest = atoms.to_vec();
            rest.remove(at);
            let mut whole: Vec<Atom> = dividend.iter().chain(&rest).cloned().collect();
            whole.sort();
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
        for (atoms, coef) in &self.terms {
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
                *rest.entry(atoms).or_insert(0) += coef;
            }
        }
        Some(Dim::from_map(rest))
    }
}

impl Fraction {
    /// The monomial that is so large a part of the whole.
    fn part(&self, by: i64) -> Vec<Atom> {
        let (dividend, rest) = &self.of;
        let dividend = Dim { terms: vec![(dividend.clone(), 1)] };
        let mut atoms = rest.clone();
        atoms.push(Atom::Exact(Box::new(dividend), Box::new(Dim::constant(by))));
        atoms.sort();
        atoms
    }
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
        self + &(other * &Dim::constant(-1))
    }
}

impl std::ops::Mul for &Dim {
    type Output = Dim;
    fn mul(self, other: &Dim) -> Dim {
        let mut terms = Vec::new();
        for (xa, xc) in &self.terms {
            for (ya, yc) in &other.terms {
                let mut atoms: Vec<Atom> = xa.iter().chain(ya).cloned().collect();
                atoms.sort();
                terms.push(cancel(atoms, xc.wrapping_mul(*yc)));
            }
        }
        terms.iter().fold(Dim::constant(0), |sum, term| &sum + term)
    }
}

/// The monomial `coef * atoms` with every exact quotient cancelled against what it is multiplied by:
/// `(D / H) * H` is `D`.
fn cancel(atoms: Vec<Atom>, coef: i64) -> Dim {
    for (at, atom) in atoms.iter().enumerate() {
        let Atom::Exact(num, den) = atom else { continue };
        let mut rest = atoms.clone();
        rest.remove(at);
        let rest = Dim { terms: vec![(rest, coef)] };
        if let Some(q) = rest.reduce_div(den) {
            return &**num * &q;
        }
    }
    Dim::from_map(BTreeMap::from([(atoms, coef)]))
}

impl From<i64> for Dim {
    fn from(n: i64) -> Dim {
        Dim::constant(n)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // Longer monomials first, the constant last: `2 * T + 1`.
        let mut terms: Vec<_> = self.terms.iter().collect();
        terms.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.0.cmp(&b.0)));
        if terms[0].1 < 0
            && let Some(at) = terms.iter().position(|t| t.1 > 0)
        {
            let first = terms.remove(at);
            terms.insert(0, first);
        }
        for (n, (atoms, coef)) in terms.into_iter().enumerate() {
            match (n, *coef < 0) {
                (0, false) => {}
                (0, true) => f.write_str("-")?,
                (_, false) => f.write_str(" + ")?,
                (_, true) => f.write_str(" - ")?,
            }
            let coef = coef.unsigned_abs();
            if atoms.is_empty() || coef != 1 {
                write!(f, "{coef}")?;
            }
            for (k, atom) in atoms.iter().enumerate() {
                if k > 0 || coef != 1 {
                    f.write_str(" * ")?;
                }
                match atom {
                    Atom::Symbol(name) => f.write_str(name)?,
                    Atom::Exact(a, b) if k > 0 || coef != 1 => {
                        write!(f, "({} / {})", Operand(a), Operand(b))?;
                    }
                    Atom::Exact(a, b) => write!(f, "{} / {}", Operand(a), Operand(b))?,
                    Atom::Floor(a, b) => write!(f, "({a}) // ({b})")?,
                }
            }
        }
        Ok(())
    }
}

/// An operand of a quotient: in parentheses unless it is one symbol or one number.
struct Operand<'a>(&'a Dim);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simple = self.0.as_symbol().is_some() || self.0.as_constant().is_some_and(|c| c >= 0);
        if simple { write!(f, "{}", self.0) } else { write!(f, "({})", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(name: &str) -> Dim {
        Dim::symbol(name)
    }

    #[test]
    fn sums_and_products_have_one_form() {
        let a = &(&s("T") + &s("S")) * &s("D");
        let b = &(&s("D") * &s("T")) + &(&s("S") * &s("D"));
        assert_eq!(a, b);
        assert_eq!(&a - &b, Dim::constant(0));
    }

    #[test]
    fn quotients_cancel() {
        let e = s("D").exact_div(&s("H")).unwrap();
        assert_eq!(&e * &s("H"), s("D"));
        assert_eq!(&s("H") * &(&e * &Dim::constant(2)), &s("D") * &Dim::constant(2));
        assert_eq!((&s("D") * &s("H")).exact_div(&s("H")), Some(s("D")));
        assert_eq!(e.exact_div(&Dim::constant(2)), s("D").exact_div(&(&s("H") * &Dim::constant(2))));
        assert_eq!(Dim::constant(7).exact_div(&Dim::constant(2)), None);
    }

    #[test]
    fn fractions_of_one_dimension_join() {
        let part = |n: i64| s("D").exact_div(&Dim::constant(n)).unwrap();
        assert_eq!(&s("D") - &part(2), part(2));
        assert_eq!(&part(2) - &part(4), part(4));
        assert_eq!(&part(2) - &s("D"), &part(2) * &Dim::constant(-1));
        assert_eq!(&(&s("D") * &Dim::constant(2)) - &part(4), &s("D") + &(&part(4) * &Dim::constant(3)));
        assert_eq!(&(&s("T") * &s("D")) - &(&s("T") * &part(2)), &s("T") * &part(2));
        assert_eq!(&(&part(3) + &part(2)) + &s("T"), &s("T") + &(&part(6) * &Dim::constant(5)));
        // A quotient by what is no number stays what it is.
        let e = s("D").exact_div(&s("H")).unwrap();
        assert_eq!((&s("D") - &e).to_string(), "D - D / H");
    }

    #[test]
    fn evaluation_checks_divisibility() {
        let e = s("D").exact_div(&s("H")).unwrap();
        let bind = |d, h| Bindings::from([("D".into(), d), ("H".into(), h)]);
        assert_eq!(e.eval(&bind(12, 3)), Ok(4));
        let err = e.eval(&bind(10, 3)).unwrap_err();
        assert_eq!(err.to_string(), "D = 10 is not divisible by H = 3");
        assert!(matches!(e.eval(&bind(10, 0)), Err(DimError::ZeroDivisor(_))));
        assert!(matches!(s("Q").eval(&bind(1, 1)), Err(DimError::Unbound(_))));
    }

    #[test]
    fn indices_split_into_multiples_and_rests() {
        let e = s("D").exact_div(&s("H")).unwrap();
        let index = &(&s("h") * &e) + &s("x");
        assert_eq!(index.split_multiple(&e), (s("h"), s("x")));
        assert_eq!(index.linear_in("h"), Some((e.clone(), s("x"))));
        assert_eq!(index.floor_div(&s("Q")).unwrap().linear_in("h"), None);
        let below = BTreeMap::from([("h".into(), s("H")), ("x".into(), e)]);
        assert_eq!(index.upper_bound(&below), &s("D") - &Dim::constant(1));
        let rest = &index - &(&s("F") * &index.floor_div(&s("F")).unwrap());
        assert_eq!(rest.remainder_of(), Some(s("F")));
        assert_eq!(index.remainder_of(), None);
    }

    #[test]
    fn display_reads_as_written() {
        let e = s("D").exact_div(&s("H")).unwrap();
        assert_eq!(e.to_string(), "D / H");
        assert_eq!((&(&s("T") * &Dim::constant(2)) + &Dim::constant(1)).to_string(), "2 * T + 1");
        assert_eq!((&s("T") - &s("W")).to_string(), "T - W");
        assert_eq!((&s("B") * &e).to_string(), "B * (D / H)");
    }
}
