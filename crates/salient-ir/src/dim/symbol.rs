//! What dimensions are polynomials of: dimensions of a model, variables of a program that counts, and what else whoever
//! computes with polynomials lets stand for a number.
//!
//! The three are told apart by their type. How they print is for people: a dimension of a model begins with a capital
//! letter, a variable with a small one, and anything else with a sign that neither has.

use super::{Bindings, Name};
use std::collections::BTreeMap;
use std::fmt;

/// What stands for a number in a polynomial. The order is that of the factors of a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Symbol {
    /// One of a kind, by its number.
    Special(SymbolKind, u32),
    /// A dimension of a model, by its name.
    Dimension(Name),
    /// A variable: the word that it is called by, and which one of that word it is; the first is 1.
    Variable(Name, u32),
}

/// A kind of symbols that no model and no loop has. Who computes with them declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolKind {
    /// Where it stands among the kinds that are computed with together.
    rank: u8,
    /// How it prints, behind a sign.
    word: &'static str,
}

impl SymbolKind {
    /// A kind that stands behind those of lower rank, and prints as the word.
    pub const fn new(rank: u8, word: &'static str) -> SymbolKind {
        SymbolKind { rank, word }
    }

    /// The only symbol of its kind.
    pub const fn only(self) -> Symbol {
        Symbol::Special(self, 0)
    }

    /// The symbol of its kind with that number.
    pub const fn number(self, number: u32) -> Symbol {
        Symbol::Special(self, number)
    }
}

impl Symbol {
    /// The first variable of that word, which begins with no capital letter.
    pub fn variable(word: &str) -> Symbol {
        Symbol::Variable(word.into(), 1)
    }

    /// The name, if it is a dimension of a model.
    pub fn as_dimension(&self) -> Option<&Name> {
        match self {
            Symbol::Dimension(name) => Some(name),
            Symbol::Special(..) | Symbol::Variable(..) => None,
        }
    }

    /// Whether it is of that kind.
    pub fn is_of(&self, kind: SymbolKind) -> bool {
        matches!(self, Symbol::Special(own, _) if *own == kind)
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Symbol::Special(SymbolKind { word, .. }, 0) => write!(f, "%{word}"),
            Symbol::Special(SymbolKind { word, .. }, number) => write!(f, "%{word}{number}"),
            Symbol::Dimension(name) | Symbol::Variable(name, 1) => f.write_str(name),
            Symbol::Variable(word, number) => write!(f, "{word}{number}"),
        }
    }
}

/// A name is that of a dimension.
impl From<&str> for Symbol {
    fn from(name: &str) -> Symbol {
        Symbol::Dimension(name.into())
    }
}

impl From<&Name> for Symbol {
    fn from(name: &Name) -> Symbol {
        Symbol::Dimension(name.clone())
    }
}

impl From<&Symbol> for Symbol {
    fn from(symbol: &Symbol) -> Symbol {
        symbol.clone()
    }
}

/// What says which numbers symbols stand for.
pub trait Numbers {
    /// The number that a symbol stands for, if it is known.
    fn number(&self, of: &Symbol) -> Option<i64>;
}

impl Numbers for Bindings {
    fn number(&self, of: &Symbol) -> Option<i64> {
        self.get(of.as_dimension()?).copied()
    }
}

impl Numbers for BTreeMap<Symbol, i64> {
    fn number(&self, of: &Symbol) -> Option<i64> {
        self.get(of).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dim;

    #[test]
    fn symbols_of_one_spelling_are_different() {
        const KIND: SymbolKind = SymbolKind::new(0, "T");
        let all =
            [KIND.only(), KIND.number(1), SymbolKind::new(1, "T").only(), "T".into(), Symbol::variable("T")];
        let dims: Vec<Dim> = all.iter().map(Dim::symbol).collect();
        for (at, d) in dims.iter().enumerate() {
            assert_eq!(dims.iter().position(|other| other == d), Some(at));
            assert_eq!(d.as_symbol(), Some(&all[at]));
        }
        let known = Bindings::from([("T".into(), 3)]);
        let values: Vec<_> = all.iter().map(|symbol| known.number(symbol)).collect();
        assert_eq!(values, [None, None, None, Some(3), None]);
    }

    #[test]
    fn variables_after_the_first_print_their_number() {
        let of = |number| Symbol::Variable("key".into(), number).to_string();
        assert_eq!([of(1), of(2), of(12)], ["key", "key2", "key12"]);
        assert!(Symbol::Variable("key".into(), 2) < Symbol::Variable("key".into(), 12));
        assert_eq!(
            [SymbolKind::new(0, "L").only(), SymbolKind::new(0, "p").number(3)].map(|s| s.to_string()),
            ["%L", "%p3"]
        );
    }
}
