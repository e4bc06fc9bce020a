//! Integer expressions that are affine in indices, and proofs that one is never negative.
//!
//! An extent that occurs is taken to be at least one: where an axis is empty there is no row for which a fact could be
//! used. What is not affine has no form here, and nothing is proved of it.

use salient_ir::{AxisId, Dim};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// `sum of coefficient * index, plus offset`: no zero coefficients, sorted by axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// Coefficient of the index of each axis.
    pub terms: SmallVec<[(AxisId, i64); 2]>,
    /// What does not depend on an index.
    pub offset: Dim,
}

impl Affine {
    /// The index along an axis.
    pub fn index(axis: AxisId) -> Affine {
        Affine { terms: [(axis, 1)].into_iter().collect(), offset: Dim::constant(0) }
    }

    /// A value without indices.
    pub fn dim(offset: Dim) -> Affine {
        Affine { terms: SmallVec::new(), offset }
    }

    /// The value, if it is a number.
    pub fn as_constant(&self) -> Option<i64> {
        if self.terms.is_empty() { self.offset.as_constant() } else { None }
    }

    /// `self + by * other`; `None` on overflow.
    pub fn plus(&self, other: &Affine, by: i64) -> Option<Affine> {
        let mut terms: BTreeMap<AxisId, i64> = self.terms.iter().copied().collect();
        for (axis, c) in &other.terms {
            let term = terms.entry(*axis).or_insert(0);
            *term = term.checked_add(c.checked_mul(by)?)?;
        }
        Some(Affine {
            terms: terms.into_iter().filter(|(_, c)| *c != 0).collect(),
            offset: &self.offset + &(&other.offset * &Dim::constant(by)),
        })
    }

    /// The product, where one factor is a number.
    pub fn times(&self, other: &Affine) -> Option<Affine> {
        match (self.as_constant(), other.as_constant()) {
            (_, Some(c)) => Affine::dim(Dim::constant(0)).plus(self, c),
            (Some(c), None) => Affine::dim(Dim::constant(0)).plus(other, c),
            (None, None) if self.terms.is_empty() && other.terms.is_empty() => {
                Some(Affine::dim(&self.offset * &other.offset))
            }
            (None, None) => None,
        }
    }

    /// The coefficient of the index of an axis.
    pub fn coefficient(&self, axis: AxisId) -> i64 {
        self.terms.iter().find(|(a, _)| *a == axis).map_or(0, |(_, c)| *c)
    }

    /// The value with the index of `axis` replaced.
    pub fn substitute(&self, axis: AxisId, with: &Affine) -> Option<Affine> {
        let c = self.coefficient(axis);
        let mut rest = self.clone();
        rest.terms.retain(|(a, _)| *a != axis);
        rest.plus(with, c)
    }
}

/// Dimensions of which it is known that they are never negative, beside what their form shows.
#[derive(Clone, Debug, Default)]
pub struct Assumptions {
    /// Each is at least zero wherever there is a row.
    pub nonnegative: Vec<Dim>,
    /// Each is at least zero, since the model requires it.
    pub required: Vec<Dim>,
}

impl Assumptions {
    /// Whether the dimension is proved to be at least zero, every symbol being at least zero.
    pub fn is_never_negative(&self, dim: &Dim) -> bool {
        dim.is_nonnegative() || self.required.iter().any(|known| (dim - known).is_nonnegative())
    }

    /// Whether the dimension is proved to be at least zero, every symbol being at least one.
    pub fn is_nonnegative(&self, dim: &Dim) -> bool {
        let positive = |dim: &Dim| {
            let with: BTreeMap<_, _> = dim
                .symbols()
                .into_iter()
                .map(|s| {
                    let more = &Dim::symbol(&s) + &Dim::constant(1);
                    (s, more)
                })
                .collect();
            dim.is_nonnegative() || dim.substitute(&with).is_nonnegative()
        };
        positive(dim) || self.nonnegative.iter().any(|known| positive(&(dim - known)))
    }

    /// Whether the value is proved to be at least zero at every position. `extent` gives the length of an axis.
    pub fn never_negative<'a>(&self, value: &Affine, extent: impl Fn(AxisId) -> &'a Dim) -> bool {
        let mut least = value.offset.clone();
        for (axis, c) in &value.terms {
            if *c < 0 {
                let last = extent(*axis) - &Dim::constant(1);
                least = &least + &(&last * &Dim::constant(*c));
            }
        }
        self.is_nonnegative(&least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_at_least_one() {
        let known = Assumptions::default();
        let (t, s) = (Dim::symbol("T"), Dim::symbol("S"));
        assert!(known.is_nonnegative(&(&t - &Dim::constant(1))));
        assert!(!known.is_nonnegative(&(&t - &Dim::constant(2))));
        assert!(!known.is_nonnegative(&(&s - &t)));
        let known = Assumptions { nonnegative: vec![&s - &t], ..Assumptions::default() };
        assert!(known.is_nonnegative(&(&s - &t)));
        assert!(!known.is_nonnegative(&(&(&s - &t) - &Dim::constant(1))));
    }
}
