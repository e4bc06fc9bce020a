//! Integer expressions that are affine in indices, and proofs that one is never negative.
//!
//! Axes that an expression runs along have positions: where one is empty there is no row for which a fact could be used. Any
//! other dimension may be zero. What is not affine has no form here, and nothing is proved of it.

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
    /// Each is at least zero, since the model requires it.
    pub required: Vec<Dim>,
}

impl Assumptions {
    /// Whether the dimension is proved to be at least zero where axes of the extents `filled` have positions. Every other
    /// dimension may be zero.
    pub fn is_nonnegative<'a>(&self, dim: &Dim, filled: impl Iterator<Item = &'a Dim> + Clone) -> bool {
        let (zero, one) = (Dim::constant(0), Dim::constant(1));
        let is_proved = |dim: &Dim, shows: &dyn Fn(&Dim) -> bool| {
            shows(dim) || self.required.iter().any(|known| shows(&(dim - known)))
        };
        if is_proved(dim, &Dim::is_nonnegative) {
            return true;
        }
        // A symbol without which an axis is empty is at least one.
        let mut with = BTreeMap::new();
        for extent in filled.clone() {
            for symbol in extent.symbols() {
                let without = extent.substitute(&BTreeMap::from([(symbol.clone(), zero.clone())]));
                if without == zero {
                    let more = &Dim::symbol(&symbol) + &one;
                    with.insert(symbol, more);
                }
            }
        }
        let shows =
            |dim: &Dim| dim.is_nonnegative() || !with.is_empty() && dim.substitute(&with).is_nonnegative();
        let positive = |dim: &Dim| is_proved(dim, &shows);
        // An extent is at least one, also where it is a quotient such as `D / H`.
        positive(dim) || filled.filter(|e| e.as_constant().is_none()).any(|e| positive(&(dim - &(e - &one))))
    }

    /// Whether the value is proved to be at least zero at every position where axes of the extents `filled` have some.
    /// `extent` gives the length of an axis.
    pub fn never_negative<'a>(
        &self,
        value: &Affine,
        filled: impl Iterator<Item = &'a Dim> + Clone,
        extent: impl Fn(AxisId) -> &'a Dim,
    ) -> bool {
        let mut least = value.offset.clone();
        for (axis, c) in &value.terms {
            if *c < 0 {
                let last = extent(*axis) - &Dim::constant(1);
                least = &least + &(&last * &Dim::constant(*c));
            }
        }
        self.is_nonnegative(&least, filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_at_least_one_where_an_axis_is_filled() {
        let known = Assumptions::default();
        let (t, s, d) = (Dim::symbol("T"), Dim::symbol("S"), Dim::symbol("D"));
        let one = Dim::constant(1);
        let width = d.exact_div(&Dim::symbol("H")).unwrap();
        assert!(known.is_nonnegative(&t, [].into_iter()));
        assert!(!known.is_nonnegative(&(&t - &one), [].into_iter()));
        assert!(!known.is_nonnegative(&(&t - &one), [&s].into_iter()));
        assert!(known.is_nonnegative(&(&t - &one), [&t].into_iter()));
        assert!(known.is_nonnegative(&(&t - &one), [&(&t * &s)].into_iter()));
        assert!(!known.is_nonnegative(&(&t - &one), [&(&t + &s)].into_iter()));
        assert!(known.is_nonnegative(&(&width - &one), [&width].into_iter()));
        assert!(!known.is_nonnegative(&(&t - &Dim::constant(2)), [&t].into_iter()));
        assert!(!known.is_nonnegative(&(&s - &t), [&s, &t].into_iter()));
        let known = Assumptions { required: vec![&s - &t] };
        assert!(known.is_nonnegative(&(&s - &t), [].into_iter()));
        assert!(known.is_nonnegative(&(&s - &one), [&t].into_iter()));
        assert!(!known.is_nonnegative(&(&(&s - &t) - &one), [&s, &t].into_iter()));
        // What is required counts once, though the axis is filled.
        let known = Assumptions { required: vec![&t - &one] };
        assert!(known.is_nonnegative(&(&t - &one), [&t].into_iter()));
        assert!(!known.is_nonnegative(&(&t - &Dim::constant(2)), [&t].into_iter()));
    }
}
