//! How large a dimension may become: everything that walks one relies on it, and no arithmetic goes beyond it in silence.

use super::Atom;
use std::fmt;

/// Sums of so many monomials, at most.
const TERMS: usize = 256;
/// Products of so many factors, at most.
const FACTORS: usize = 32;
/// Quotients inside each other, at most.
const NESTING: u32 = 24;
/// Factors in all, those inside of quotients included, at most.
const SIZE: u32 = 4096;
/// Products of two monomials that one multiplication makes, at most.
pub(super) const PRODUCTS: usize = TERMS * 16;

/// A limit that a dimension has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limit {
    /// A number in it does not fit 64 bits.
    Value,
    /// It is a sum of too many terms.
    Terms,
    /// One of its terms is a product of too many factors.
    Factors,
    /// Quotients in it stand inside too many others.
    Nesting,
    /// It is too long in all.
    Size,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Value => f.write_str("a number beyond 64 bits"),
            Limit::Terms => write!(f, "more than {TERMS} terms"),
            Limit::Factors => write!(f, "a product of more than {FACTORS} factors"),
            Limit::Nesting => write!(f, "more than {NESTING} quotients inside each other"),
            Limit::Size => write!(f, "more than {SIZE} factors in all"),
        }
    }
}

/// How large a dimension is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Size {
    /// Factors in all.
    factors: u32,
    /// Quotients inside each other.
    nesting: u32,
}

impl Size {
    /// The size of a sum of these terms, or the limit that it leaves.
    pub(super) fn of(terms: &[(Vec<Atom>, i64)]) -> Result<Size, Limit> {
        if terms.len() > TERMS {
            return Err(Limit::Terms);
        }
        let mut out = Size::default();
        for (atoms, _) in terms {
            if atoms.len() > FACTORS {
                return Err(Limit::Factors);
            }
            for atom in atoms {
                let (factors, nesting) = match atom {
                    Atom::Symbol(_) => (1, 0),
                    Atom::Exact(a, b) | Atom::Floor(a, b) => {
                        (1 + a.size.factors + b.size.factors, 1 + a.size.nesting.max(b.size.nesting))
                    }
                    Atom::Beyond(limit) => return Err(*limit),
                };
                out.factors += factors;
                out.nesting = out.nesting.max(nesting);
            }
            if out.factors > SIZE {
                return Err(Limit::Size);
            }
        }
        if out.nesting > NESTING { Err(Limit::Nesting) } else { Ok(out) }
    }
}
