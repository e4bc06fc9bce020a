//! Facts about every element of an f32 value, as a set.

use super::proof::Proof;

/// A fact about every element of an f32 value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Property {
    /// Neither NaN nor infinite.
    Finite,
    /// Finite or -inf, as a score whose masked keys are -inf.
    Score,
    /// At least zero; not NaN.
    NonNegative,
    /// Above zero; not NaN.
    Positive,
    /// Zero or one.
    Unit,
    /// Nowhere -inf, even if -inf stands in an input. It may be NaN or +inf as far as this fact goes.
    Unmasked,
    /// Nowhere NaN, even if NaN stands in an input that is no factor.
    Number,
}

impl Property {
    const COUNT: usize = 7;

    /// What follows from it.
    fn implies(self) -> &'static [Property] {
        use Property::{Finite, NonNegative, Number, Positive, Score, Unit, Unmasked};
        match self {
            Finite => &[Score],
            NonNegative => &[Unmasked],
            Positive => &[NonNegative, Unmasked],
            Unit => &[Unmasked, NonNegative, Finite, Score],
            Score | Unmasked | Number => &[],
        }
    }
}

/// A set of properties, each with where it is known, closed under what follows from what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties([Proof; Property::COUNT]);

impl Default for Properties {
    fn default() -> Properties {
        Properties([Proof::NONE; Property::COUNT])
    }
}

impl Properties {
    /// Those of the list, and what follows.
    pub fn of(list: &[Property]) -> Properties {
        list.iter().fold(Properties::default(), |set, p| set.with(*p))
    }

    /// One more, and what follows from it.
    pub fn with(self, property: Property) -> Properties {
        self.with_if(Proof::ALWAYS, property)
    }

    /// One more where it is known.
    pub(super) fn with_if(mut self, known: impl Into<Proof>, property: Property) -> Properties {
        let known = known.into();
        for property in property.implies().iter().chain([&property]) {
            let at = &mut self.0[*property as usize];
            *at = *at | known;
        }
        self
    }

    /// Where it is known.
    pub fn has(self, property: Property) -> Proof {
        self.0[property as usize]
    }

    /// Those of both.
    pub(super) fn and(self, other: Properties) -> Properties {
        Properties(std::array::from_fn(|n| self.0[n] & other.0[n]))
    }

    /// Those of either.
    pub(super) fn or(self, other: Properties) -> Properties {
        Properties(std::array::from_fn(|n| self.0[n] | other.0[n]))
    }

    /// The same, each where this is known too.
    pub(super) fn only(self, known: Proof) -> Properties {
        Properties(self.0.map(|at| at & known))
    }

    /// The same, each also where this axis has no positions.
    pub(super) fn also_without(self, axis: Proof) -> Properties {
        Properties(self.0.map(|at| at.also_without(axis)))
    }
}
