//! The table of reductions.

use super::Typing;
use super::map::{greater, lesser, truth};
use crate::ty::DType;

/// An operator that combines all values along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the table below documents each")]
pub enum ReduceOp {
    Sum,
    Prod,
    Max,
    Min,
    Any,
    All,
    ArgMax,
}

/// A row of the table of reductions.
#[derive(Debug)]
pub struct ReduceInfo {
    /// The operator that the row describes.
    pub op: ReduceOp,
    /// The name in every text.
    pub name: &'static str,
    /// The value over an empty axis.
    pub empty: f64,
    /// One step: the value so far with one more element. `ArgMax` has none: it is evaluated by position.
    pub step: Option<fn(f64, f64) -> f64>,
    /// Typing of the element: `Float`/`Arithmetic` keep the dtype, `Logic` takes and gives `bool`.
    pub typing: Typing,
    /// One line of documentation.
    pub doc: &'static str,
}

/// The table of reductions, in the order of [`ReduceOp`].
pub const REDUCES: &[ReduceInfo] = &[
    ReduceInfo {
        op: ReduceOp::Sum,
        name: "sum",
        empty: 0.0,
        step: Some(|a, x| a + x),
        typing: Typing::Arithmetic,
        doc: "The sum; zero if empty.",
    },
    ReduceInfo {
        op: ReduceOp::Prod,
        name: "prod",
        empty: 1.0,
        step: Some(|a, x| a * x),
        typing: Typing::Arithmetic,
        doc: "The product; one if empty.",
    },
    ReduceInfo {
        op: ReduceOp::Max,
        name: "max",
        empty: f64::NEG_INFINITY,
        step: Some(greater),
        typing: Typing::Arithmetic,
        doc: "The greatest value; -inf if empty, NaN if one is.",
    },
    ReduceInfo {
        op: ReduceOp::Min,
        name: "min",
        empty: f64::INFINITY,
        step: Some(lesser),
        typing: Typing::Arithmetic,
        doc: "The least value; inf if empty, NaN if one is.",
    },
    ReduceInfo {
        op: ReduceOp::Any,
        name: "any",
        empty: 0.0,
        step: Some(|a, x| truth(a != 0.0 || x != 0.0)),
        typing: Typing::Logic,
        doc: "Whether one holds.",
    },
    ReduceInfo {
        op: ReduceOp::All,
        name: "all",
        empty: 1.0,
        step: Some(|a, x| truth(a != 0.0 && x != 0.0)),
        typing: Typing::Logic,
        doc: "Whether all hold.",
    },
    ReduceInfo {
        op: ReduceOp::ArgMax,
        name: "argmax",
        empty: 0.0,
        step: None,
        typing: Typing::Cast(DType::I64),
        doc: "The first position of the greatest value.",
    },
];

impl ReduceOp {
    /// The operator's row.
    pub fn info(self) -> &'static ReduceInfo {
        &REDUCES[self as usize]
    }

    /// The operator with that name.
    pub fn from_name(name: &str) -> Option<ReduceOp> {
        REDUCES.iter().find(|row| row.name == name).map(|row| row.op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_operator() {
        for (at, row) in REDUCES.iter().enumerate() {
            assert_eq!(row.op as usize, at, "{}", row.name);
            assert_eq!(ReduceOp::from_name(row.name), Some(row.op));
        }
    }
}
