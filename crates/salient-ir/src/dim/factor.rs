//! What the terms of a dimension are products of, for those who replace it by something of their own.

use super::{Atom, Dim, Symbol};

/// A factor of a term that is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor<'d> {
    /// A number that has a name.
    Symbol(&'d Symbol),
    /// A quotient that must come out even.
    Exact(&'d Dim, &'d Dim),
    /// A quotient rounded down.
    Floor(&'d Dim, &'d Dim),
}

impl Dim {
    /// The same sum of products with every factor replaced by what `with` gives for it. A dimension beyond a limit stays so.
    #[must_use]
    pub fn replaced(&self, with: &mut dyn FnMut(Factor<'_>) -> Dim) -> Dim {
        let mut sum = Dim::constant(0);
        for (atoms, coef) in self.terms.iter() {
            let mut product = Dim::constant(*coef);
            for atom in atoms {
                let factor = match atom {
                    Atom::Symbol(symbol) => with(Factor::Symbol(symbol)),
                    Atom::Exact(a, b) => with(Factor::Exact(a, b)),
                    Atom::Floor(a, b) => with(Factor::Floor(a, b)),
                    Atom::Beyond(limit) => Dim::beyond(*limit),
                };
                product = &product * &factor;
            }
            sum = &sum + &product;
        }
        sum
    }

    /// The terms of which it is the sum.
    pub fn terms(&self) -> impl Iterator<Item = Dim> + '_ {
        self.terms.iter().map(|(atoms, coef)| Dim::term(atoms.clone(), *coef))
    }

    /// The term that is a number; zero if there is none.
    pub fn constant_term(&self) -> i64 {
        self.terms.first().filter(|(atoms, _)| atoms.is_empty()).map_or(0, |(_, n)| *n)
    }

    /// Its terms: each as a number, and the symbols that it is multiplied by. `None` if there are quotients in it, or if it is
    /// beyond a limit.
    pub fn monomials(&self) -> Option<Vec<(i64, Vec<&Symbol>)>> {
        let mut terms = Vec::with_capacity(self.terms.len());
        for (atoms, coef) in self.terms.iter() {
            let mut symbols = Vec::with_capacity(atoms.len());
            for atom in atoms {
                let Atom::Symbol(symbol) = atom else { return None };
                symbols.push(symbol);
            }
            terms.push((*coef, symbols));
        }
        Some(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_replaced_where_they_stand() {
        let (d, h) = (Dim::symbol("D"), Dim::symbol("H"));
        let width = d.exact_div(&h).unwrap();
        let tiles = d.floor_div(&Dim::constant(4)).unwrap();
        let sum = &(&(&width * &Dim::symbol("T")) + &(&tiles * &Dim::constant(3))) - &h;
        assert_eq!(sum.monomials(), None);
        let replaced = sum.replaced(&mut |factor| match factor {
            Factor::Symbol(symbol) => Dim::symbol(symbol),
            Factor::Exact(a, b) => {
                assert_eq!((a, b), (&d, &h));
                Dim::symbol("e")
            }
            Factor::Floor(a, b) => {
                assert_eq!((a, b), (&d, &Dim::constant(4)));
                Dim::symbol("f")
            }
        });
        assert_eq!(replaced.to_string(), "T * e - H + 3 * f");
        let terms: Vec<String> = replaced.terms().map(|term| term.to_string()).collect();
        assert_eq!(terms, ["-H", "T * e", "3 * f"]);
        assert_eq!([replaced.constant_term(), (&replaced - &Dim::constant(4)).constant_term()], [0, -4]);
        assert_eq!(&replaced + &-&replaced, Dim::constant(0));
        let monomials = replaced.monomials().unwrap();
        assert_eq!(monomials.iter().map(|(n, _)| *n).sum::<i64>(), 3);
        assert!(monomials.iter().any(|(n, symbols)| *n == 1 && symbols.len() == 2));
    }
}
