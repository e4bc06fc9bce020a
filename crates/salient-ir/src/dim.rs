//! Symbolic dimensions: exact integer arithmetic over symbols such as `B`, `T` and `D`, in a normal form.
//!
//! Two dimensions are equal as values of [`Dim`] exactly when their normal forms are; nothing here guesses.
//! Does not know about axes or tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod arithmetic;
mod display;
mod factor;
mod limit;
pub mod range;
pub(crate) mod set;
mod symbol;

pub use factor::Factor;
pub use limit::Limit;
use limit::Size;
pub use symbol::{Numbers, Symbol, SymbolKind};

/// An interned-enough name: cheap to clone, ordered by text.
pub type Name = Arc<str>;

/// The lengths of the dimensions of a model.
pub type Bindings = BTreeMap<Name, i64>;

/// A dimension: a polynomial with integer coefficients over symbols and quotients.
///
/// Arithmetic never wraps and never grows without end: what leaves a [`Limit`] is a dimension that is *beyond* it, which
/// has no value, of which nothing is proved, and which stays beyond whatever is added to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dim {
    /// Sorted by monomial, no zero coefficient; the empty monomial is the constant term. Shared: kernels of equal blocks
    /// are full of equal dimensions.
    terms: Arc<[(Vec<Atom>, i64)]>,
    /// How large it is when written out: follows from the terms.
    size: Size,
}

/// What a polynomial is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Atom {
    /// A number that has a name.
    Symbol(Symbol),
    /// A quotient that must come out even, such as `D / H`; never reducible to a polynomial.
    Exact(Dim, Dim),
    /// A quotient rounded down, as extents of strided slices are.
    Floor(Dim, Dim),
    /// What has left a limit; it is the whole dimension.
    Beyond(Limit),
}

impl Atom {
    fn mentions(&self, symbol: &Symbol) -> bool {
        match self {
            Atom::Symbol(own) => own == symbol,
            Atom::Exact(a, b) | Atom::Floor(a, b) => a.mentions(symbol) || b.mentions(symbol),
            Atom::Beyond(_) => false,
        }
    }
}

/// A dimension with its value: `D = 10`, or a number alone.
pub(crate) fn said(dim: &Dim, value: i64) -> String {
    if dim.as_constant() == Some(value) { value.to_string() } else { format!("{dim} = {value}") }
}

/// Why a dimension has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DimError {
    /// A symbol without a binding.
    #[error("the dimension {0} is not known")]
    Unbound(Symbol),
    /// A quotient that leaves a remainder.
    #[error("{} is not divisible by {}", said(num, *num_value), said(den, *den_value))]
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
    #[error("{0} is too large for an integer of 64 bits")]
    Overflow(Dim),
    /// A dimension that has left a limit while it was computed.
    #[error("a dimension has {0}")]
    Beyond(Limit),
}

impl Atom {
    /// Whether a symbol that is mapped occurs in it.
    fn mentions_any<T>(&self, with: &BTreeMap<Symbol, T>) -> bool {
        let any = |d: &Dim| d.terms.iter().flat_map(|(atoms, _)| atoms).any(|atom| atom.mentions_any(with));
        match self {
            Atom::Symbol(symbol) => with.contains_key(symbol),
            Atom::Exact(a, b) | Atom::Floor(a, b) => any(a) || any(b),
            Atom::Beyond(_) => false,
        }
    }
}

impl Dim {
    /// The constant `n`.
    pub fn constant(n: i64) -> Dim {
        if n == 0 { Dim::of(Arc::default()) } else { Dim::term(Vec::new(), n) }
    }

    /// The symbol; a text is the name of a dimension.
    pub fn symbol(symbol: impl Into<Symbol>) -> Dim {
        Dim::atom(Atom::Symbol(symbol.into()))
    }

    fn atom(atom: Atom) -> Dim {
        Dim::term(vec![atom], 1)
    }

    /// One monomial, its atoms sorted, with a coefficient that is not zero.
    fn term(atoms: Vec<Atom>, coef: i64) -> Dim {
        Dim::of(Arc::new([(atoms, coef)]))
    }

    fn from_map(map: BTreeMap<Vec<Atom>, i64>) -> Dim {
        Dim::of(map.into_iter().filter(|(_, c)| *c != 0).collect())
    }

    /// A dimension of these terms, or one beyond the limit that they leave.
    fn of(terms: Arc<[(Vec<Atom>, i64)]>) -> Dim {
        match Size::of(&terms) {
            Ok(size) => Dim { terms, size },
            Err(limit) => Dim::beyond(limit),
        }
    }

    /// The dimension that has left a limit.
    fn beyond(limit: Limit) -> Dim {
        Dim { terms: Arc::new([(vec![Atom::Beyond(limit)], 1)]), size: Size::default() }
    }

    /// The limit that it has left, if it has left one.
    pub fn limit(&self) -> Option<Limit> {
        let [(atoms, _)] = &*self.terms else { return None };
        if let [Atom::Beyond(limit)] = atoms.as_slice() { Some(*limit) } else { None }
    }

    /// The first of two dimensions that has left a limit.
    fn limit_of(&self, other: &Dim) -> Option<Dim> {
        self.limit().or_else(|| other.limit()).map(Dim::beyond)
    }

    /// The value, if no symbol is in it.
    pub fn as_constant(&self) -> Option<i64> {
        match &*self.terms {
            [] => Some(0),
            [(m, c)] if m.is_empty() => Some(*c),
            _ => None,
        }
    }

    /// Whether it has several terms, as `S + T` has and `E * H` has not.
    pub fn is_sum(&self) -> bool {
        self.terms.len() > 1
    }

    /// The symbol, if it is a single one.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match &*self.terms {
            [(m, 1)] => match m.as_slice() {
                [Atom::Symbol(symbol)] => Some(symbol),
                _ => None,
            },
            _ => None,
        }
    }

    /// The name, if it is a single dimension of a model.
    pub fn as_dimension(&self) -> Option<&Name> {
        self.as_symbol()?.as_dimension()
    }

    /// Every symbol in it, sorted.
    pub fn symbols(&self) -> BTreeSet<Symbol> {
        let mut out = BTreeSet::new();
        self.collect_symbols(&mut out);
        out
    }

    /// Every dimension of a model in it, sorted.
    pub fn dimensions(&self) -> BTreeSet<Name> {
        self.symbols().iter().filter_map(Symbol::as_dimension).cloned().collect()
    }

    fn collect_symbols(&self, out: &mut BTreeSet<Symbol>) {
        for atom in self.terms.iter().flat_map(|(m, _)| m) {
            match atom {
                Atom::Symbol(symbol) => {
                    out.insert(symbol.clone());
                }
                Atom::Exact(a, b) | Atom::Floor(a, b) => {
                    a.collect_symbols(out);
                    b.collect_symbols(out);
                }
                Atom::Beyond(_) => {}
            }
        }
    }

    /// Every symbol that `with` maps as the one that it maps it to. No two symbols may become one.
    #[must_use]
    pub fn renamed(&self, with: &BTreeMap<Symbol, Symbol>) -> Dim {
        if !self.terms.iter().flat_map(|(atoms, _)| atoms).any(|atom| atom.mentions_any(with)) {
            return self.clone();
        }
        let atom = |atom: &Atom| match atom {
            Atom::Symbol(symbol) => Atom::Symbol(with.get(symbol).unwrap_or(symbol).clone()),
            Atom::Exact(a, b) => Atom::Exact(a.renamed(with), b.renamed(with)),
            Atom::Floor(a, b) => Atom::Floor(a.renamed(with), b.renamed(with)),
            Atom::Beyond(limit) => Atom::Beyond(*limit),
        };
        let term = |(atoms, coef): &(Vec<Atom>, i64)| {
            let mut atoms: Vec<Atom> = atoms.iter().map(atom).collect();
            atoms.sort_unstable();
            (atoms, *coef)
        };
        let mut terms: Vec<(Vec<Atom>, i64)> = self.terms.iter().map(term).collect();
        terms.sort_unstable();
        Dim { terms: terms.into(), size: self.size }
    }

    /// Every symbol that `with` maps is replaced by its dimension.
    pub fn substitute(&self, with: &BTreeMap<Symbol, Dim>) -> Dim {
        let stays = |(atoms, _): &&(Vec<Atom>, i64)| !atoms.iter().any(|atom| atom.mentions_any(with));
        let kept = self.terms.iter().filter(stays).count();
        if kept == self.terms.len() {
            return self.clone();
        }
        let mut out = if kept == 0 {
            Dim::constant(0)
        } else {
            Dim::of(self.terms.iter().filter(stays).cloned().collect())
        };
        for (atoms, coef) in self.terms.iter().filter(|term| !stays(term)) {
            let mut term = Dim::constant(*coef);
            for atom in atoms {
                let value = match atom {
                    Atom::Symbol(symbol) => with.get(symbol).cloned().unwrap_or_else(|| Dim::symbol(symbol)),
                    Atom::Exact(a, b) => {
                        let (a, b) = (a.substitute(with), b.substitute(with));
                        a.exact_div(&b).unwrap_or_else(|| Dim::atom(Atom::Exact(a, b)))
                    }
                    Atom::Floor(a, b) => {
                        let (a, b) = (a.substitute(with), b.substitute(with));
                        a.floor_div(&b).unwrap_or_else(|| Dim::atom(Atom::Floor(a, b)))
                    }
                    Atom::Beyond(limit) => Dim::beyond(*limit),
                };
                term = &term * &value;
            }
            out = &out + &term;
        }
        out
    }

    /// The value where symbols stand for these numbers.
    pub fn eval(&self, numbers: &impl Numbers) -> Result<i64, DimError> {
        let overflow = || DimError::Overflow(self.clone());
        let mut sum = 0i64;
        for (atoms, coef) in self.terms.iter() {
            let mut product = *coef;
            for atom in atoms {
                let value = match atom {
                    Atom::Symbol(symbol) => {
                        numbers.number(symbol).ok_or_else(|| DimError::Unbound(symbol.clone()))?
                    }
                    Atom::Exact(a, b) => {
                        let (n, d) = (a.eval(numbers)?, b.eval(numbers)?);
                        if d == 0 {
                            return Err(DimError::ZeroDivisor(b.clone()));
                        }
                        if n.checked_rem(d).ok_or_else(overflow)? != 0 {
                            let (num, den) = (a.clone(), b.clone());
                            return Err(DimError::NotDivisible { num, num_value: n, den, den_value: d });
                        }
                        n / d
                    }
                    Atom::Floor(a, b) => {
                        let (n, d) = (a.eval(numbers)?, b.eval(numbers)?);
                        if d == 0 {
                            return Err(DimError::ZeroDivisor(b.clone()));
                        }
                        arithmetic::quotient_down(n, d).ok_or_else(overflow)?
                    }
                    Atom::Beyond(limit) => return Err(DimError::Beyond(*limit)),
                };
                product = product.checked_mul(value).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(product).ok_or_else(overflow)?;
        }
        Ok(sum)
    }

    /// Whether it is proved that the value is never negative, every symbol being at least zero.
    pub fn is_nonnegative(&self) -> bool {
        self.limit().is_none() && self.terms.iter().all(|(_, c)| *c >= 0)
    }

    /// Whether `self <= other` is proved, every symbol being at least zero.
    pub fn provably_le(&self, other: &Dim) -> bool {
        (other - self).is_nonnegative()
    }

    /// Whether the symbol occurs anywhere in it.
    pub fn mentions(&self, symbol: &Symbol) -> bool {
        self.terms.iter().flat_map(|(m, _)| m).any(|atom| atom.mentions(symbol))
    }

    /// `(a, b)` with `self = a * symbol + b` and the symbol in neither; `None` if it is not of that form.
    pub fn linear_in(&self, symbol: &Symbol) -> Option<(Dim, Dim)> {
        let (mut slope, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (atoms, coef) in self.terms.iter() {
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

    /// For each term that is a quotient, rounded down, times a number: what is divided, by what, and that number.
    pub fn quotient_terms(&self) -> Vec<(Dim, Dim, i64)> {
        let quotient = |(atoms, coef): &(Vec<Atom>, i64)| match atoms.as_slice() {
            [Atom::Floor(p, q)] => Some((p.clone(), q.clone(), *coef)),
            _ => None,
        };
        self.terms.iter().filter_map(quotient).collect()
    }

    /// `(q, r)` with `self = q * by + r`, where `q` gathers the terms that `by` provably divides.
    pub fn split_multiple(&self, by: &Dim) -> (Dim, Dim) {
        let (mut quotient, mut rest) = (Dim::constant(0), Dim::constant(0));
        for term in self.terms.iter() {
            let term = Dim::term(term.0.clone(), term.1);
            match (term.as_constant(), by.as_constant()) {
                (Some(c), Some(b)) if b > 0 => {
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
    pub fn upper_bound(&self, below: &BTreeMap<Symbol, Dim>) -> Dim {
        let bounded = |atom: &Atom| below.keys().any(|s| atom.mentions(s));
        let mut out = Dim::constant(0);
        for (atoms, coef) in self.terms.iter() {
            let term = Dim::term(atoms.clone(), *coef);
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
        self.remainders().into_iter().find_map(|(rest, by)| (*self == rest).then_some(by))
    }

    /// For each quotient in it that is rounded down, the remainder `p - q * (p // q)` that belongs to it, and `q`.
    pub fn remainders(&self) -> Vec<(Dim, Dim)> {
        let mut out = Vec::new();
        for atom in self.terms.iter().flat_map(|(m, _)| m) {
            if let Atom::Floor(p, q) = atom {
                let of = (p - &(q * &Dim::atom(atom.clone())), q.clone());
                if !out.contains(&of) {
                    out.push(of);
                }
            }
        }
        out
    }

    /// `(p, q)` where `self` is `p // q`, rounded down, and nothing else.
    pub fn quotient_of(&self) -> Option<(Dim, Dim)> {
        match &*self.terms {
            [(atoms, 1)] => match atoms.as_slice() {
                [Atom::Floor(p, q)] => Some((p.clone(), q.clone())),
                _ => None,
            },
            _ => None,
        }
    }

    /// Every quotient in it that must come out even, with what it is divided by.
    pub fn exact_quotients(&self) -> Vec<(Dim, Dim)> {
        let mut out = Vec::new();
        for atom in self.terms.iter().flat_map(|(m, _)| m) {
            match atom {
                Atom::Symbol(_) | Atom::Beyond(_) => {}
                Atom::Exact(a, b) | Atom::Floor(a, b) => {
                    out.extend(a.exact_quotients());
                    out.extend(b.exact_quotients());
                    if let Atom::Exact(..) = atom {
                        out.push((a.clone(), b.clone()));
                    }
                }
            }
        }
        out
    }

    /// Whether it is proved that this is zero where `other` is: it is a multiple of it, or of what `other` is a part of.
    pub fn vanishes_with(&self, other: &Dim) -> bool {
        let parts = other.exact_quotients();
        let whole = parts.iter().find(|(a, b)| a.exact_div(b).as_ref() == Some(other));
        self.reduce_div(other).is_some() || whole.is_some_and(|(a, _)| self.vanishes_with(a))
    }

    /// The structure, for passes that turn dimensions into code: see [`DimNode`].
    pub fn to_node(&self) -> DimNode {
        let mut sum: Option<DimNode> = None;
        for (atoms, coef) in self.terms.iter() {
            let mut product: Option<DimNode> = None;
            for atom in atoms {
                let node = match atom {
                    Atom::Symbol(symbol) => DimNode::Symbol(symbol.clone()),
                    Atom::Exact(a, b) | Atom::Floor(a, b) => {
                        DimNode::Div(Box::new(a.to_node()), Box::new(b.to_node()))
                    }
                    // Without a value: a call that asks for it is refused before anything runs.
                    Atom::Beyond(_) => DimNode::Constant(0),
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
    /// A number that has a name.
    Symbol(Symbol),
    /// A sum.
    Add(Box<DimNode>, Box<DimNode>),
    /// A product.
    Mul(Box<DimNode>, Box<DimNode>),
    /// A quotient, rounded down.
    Div(Box<DimNode>, Box<DimNode>),
}

impl From<i64> for Dim {
    fn from(n: i64) -> Dim {
        Dim::constant(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(name: &str) -> Dim {
        Dim::symbol(name)
    }

    /// Other names may stand in another order, within a product and within a sum.
    #[test]
    fn renaming_is_substitution_by_names() {
        let sum = &(&s("T") * &s("A")) + &(&s("S") - &Dim::constant(3));
        let d = &sum + &(&sum * &s("D")).floor_div(&(&s("S") + &s("B"))).unwrap();
        let names =
            [("T", "b"), ("S", "a"), ("D", "Z")].map(|(old, new)| (Symbol::from(old), Symbol::from(new)));
        let dims = names.clone().map(|(old, new)| (old, Dim::symbol(new)));
        assert_eq!(d.renamed(&names.into()), d.substitute(&dims.into()));
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
    fn arithmetic_never_wraps() {
        let (most, least, two, minus) = (i64::MAX, i64::MIN, Dim::constant(2), Dim::constant(-1));
        for beyond in [
            &Dim::constant(most) + &Dim::constant(1),
            &Dim::constant(least) - &Dim::constant(1),
            &Dim::constant(0) - &Dim::constant(least),
            &(&s("T") * &Dim::constant(most)) + &s("T"),
            &(&s("T") * &Dim::constant(1 << 40)) * &(&s("S") * &Dim::constant(1 << 40)),
            Dim::constant(least).exact_div(&minus).unwrap(),
            Dim::constant(least).floor_div(&minus).unwrap(),
        ] {
            assert_eq!(beyond.limit(), Some(Limit::Value));
            assert_eq!(beyond.eval(&Bindings::new()), Err(DimError::Beyond(Limit::Value)));
            // It stays beyond, and nothing is proved of it.
            assert_eq!((&beyond - &beyond).limit(), Some(Limit::Value));
            assert_eq!((&beyond * &two).limit(), Some(Limit::Value));
            assert_eq!(beyond.exact_div(&beyond).unwrap().limit(), Some(Limit::Value));
            assert!(!beyond.is_nonnegative() && !beyond.provably_le(&beyond));
            assert_eq!(beyond.as_constant(), None);
        }
        assert_eq!(&Dim::constant(least) + &Dim::constant(most), minus);
        let square = &s("T") * &s("T");
        let large = Bindings::from([("T".into(), 1 << 32)]);
        assert_eq!(square.eval(&large), Err(DimError::Overflow(square.clone())));
        let quotient = s("T").floor_div(&s("S")).unwrap();
        let bind = |t, s| Bindings::from([("T".into(), t), ("S".into(), s)]);
        assert_eq!(quotient.eval(&bind(least, -1)), Err(DimError::Overflow(quotient.clone())));
        assert_eq!(quotient.eval(&bind(7, -2)), Ok(-4));
        assert_eq!(quotient.eval(&bind(-7, 2)), Ok(-4));
        assert_eq!(s("T").exact_div(&s("S")).unwrap().eval(&bind(least, -1)).ok(), None);
    }

    #[test]
    fn dimensions_do_not_grow_without_end() {
        let sum =
            ["A", "B", "C", "D", "E", "F", "G", "H"].map(s).iter().fold(Dim::constant(1), |a, b| &a + b);
        let power = |base: &Dim, n: usize| (0..n).fold(Dim::constant(1), |p, _| &p * base);
        assert_eq!(power(&sum, 3).limit(), None);
        assert_eq!(power(&sum, 14).limit(), Some(Limit::Terms));
        assert_eq!(power(&(&s("T") + &s("D")), 60).limit(), Some(Limit::Factors));
        let halved = |d: Dim| &d.floor_div(&Dim::constant(2)).unwrap() + &Dim::constant(1);
        assert_eq!((0..100).fold(s("T"), |d, _| halved(d)).limit(), Some(Limit::Nesting));
        let squared = |d: Dim| &d * &halved(d.clone());
        assert_eq!((0..20).fold(s("T"), |d, _| squared(d)).limit(), Some(Limit::Size));
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
        assert_eq!(index.linear_in(&"h".into()), Some((e.clone(), s("x"))));
        assert_eq!(index.floor_div(&s("Q")).unwrap().linear_in(&"h".into()), None);
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

    #[test]
    fn quotients_that_are_rounded_up_are_written_so() {
        let (t, lanes, one) = (Dim::symbol("T"), Dim::symbol("L"), Dim::constant(1));
        let width = &Dim::constant(8) * &lanes;
        let up = t.ceil_div(&width).unwrap();
        assert_eq!(up, (&t + &width - &one).floor_div(&width).unwrap());
        assert_eq!(up.to_string(), "ceil_div(T, 8 * L)");
        assert_eq!((&lanes * &up).to_string(), "L * ceil_div(T, 8 * L)");
        assert_eq!((&t + &lanes).ceil_div(&Dim::constant(512)).unwrap().to_string(), "ceil_div(L + T, 512)");
        let down = t.floor_div(&Dim::constant(4)).unwrap();
        assert_eq!(down.to_string(), "T // 4");
        assert_eq!((Dim::constant(4) * &down).to_string(), "4 * (T // 4)");
        assert_eq!((&t - &one).floor_div(&width).unwrap().to_string(), "(T - 1) // (8 * L)");
        for (rows, lanes, blocks) in [(0, 4, 0), (1, 4, 1), (32, 4, 1), (33, 4, 2)] {
            assert_eq!(up.eval(&Bindings::from([("T".into(), rows), ("L".into(), lanes)])), Ok(blocks));
        }
    }

    #[test]
    fn operators_take_values_and_references() {
        let (t, two) = (Dim::symbol("T"), Dim::constant(2));
        let all = [&t + &two, t.clone() + &two, &t + two.clone(), t.clone() + two.clone()];
        assert!(all.iter().all(|sum| sum.to_string() == "T + 2"));
        assert_eq!(((&t + &two) * &t - &two).to_string(), "T * T + 2 * T - 2");
    }
}
