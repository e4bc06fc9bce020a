//! Dimensions as they are written in a source.

use super::{Atom, Dim};
use std::fmt;

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
                    Atom::Symbol(symbol) => write!(f, "{symbol}")?,
                    Atom::Exact(a, b) if k > 0 || coef != 1 => {
                        write!(f, "({} / {})", Operand(a), Operand(b))?;
                    }
                    Atom::Exact(a, b) => write!(f, "{} / {}", Operand(a), Operand(b))?,
                    Atom::Floor(a, b) => match rounded_up(a, b) {
                        Some(of) => write!(f, "ceil_div({of}, {b})")?,
                        None if k > 0 || coef != 1 => write!(f, "({} // {})", Operand(a), Operand(b))?,
                        None => write!(f, "{} // {}", Operand(a), Operand(b))?,
                    },
                    Atom::Beyond(limit) => write!(f, "({limit})")?,
                }
            }
        }
        Ok(())
    }
}

/// What is divided and rounded up, where a quotient that is rounded down is written for it: `x` of `(x + by - 1) // by`. Only
/// where that is shorter than what is written, which has the same value in any case.
fn rounded_up(dividend: &Dim, by: &Dim) -> Option<Dim> {
    let of = dividend - by + Dim::constant(1);
    let is_shorter = of.terms.len() < dividend.terms.len() && of.limit().is_none();
    let has_constant = of.terms.iter().any(|(atoms, _)| atoms.is_empty());
    (is_shorter && !has_constant && !of.terms.is_empty()).then_some(of)
}

/// An operand of a quotient: in parentheses unless it is one symbol, one number or a call.
struct Operand<'a>(&'a Dim);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_call = self.0.quotient_of().is_some_and(|(of, by)| rounded_up(&of, &by).is_some());
        let simple = is_call || self.0.as_symbol().is_some() || self.0.as_constant().is_some_and(|c| c >= 0);
        if simple { write!(f, "{}", self.0) } else { write!(f, "({})", self.0) }
    }
}
