//! Facts about every element of an f32 value, as a set.

/// A fact about every element of an f32 value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Property {
    /// Neither NaN nor infinite.
    Finite = 1,
    /// Finite or -inf, as a score whose masked keys are -inf.
    Score = 2,
    /// At least zero; not NaN.
    NonNegative = 4,
    /// Above zero; not NaN.
    Positive = 8,
    /// Zero or one.
    Unit = 16,
    /// Nowhere -inf, even if -inf stands in an input. It may be NaN or +inf as far as this fact goes.
    Unmasked = 32,
    /// Nowhere NaN, even if NaN stands in an input that is no factor.
    Number = 64,
}

/// A set of properties, closed under what follows from what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties(u8);

impl Properties {
    /// Those of the list, and what follows.
    pub fn of(list: &[Property]) -> Properties {
        list.iter().fold(Properties(0), |set, p| set.with(*p))
    }

    /// One more, and what follows from it.
    pub fn with(self, property: Property) -> Properties {
        let more = match property {
            Property::Finite => Property::Finite as u8 | Property::Score as u8,
            Property::Score => Property::Score as u8,
            Property::Unmasked | Property::Number => property as u8,
            Property::NonNegative => Property::NonNegative as u8 | Property::Unmasked as u8,
            Property::Positive => {
                Property::Positive as u8 | Property::NonNegative as u8 | Property::Unmasked as u8
            }
            Property::Unit => {
                Property::Unit as u8
                    | Property::Unmasked as u8
                    | Property::NonNegative as u8
                    | Property::Finite as u8
                    | Property::Score as u8
            }
        };
        Properties(self.0 | more)
    }

    /// One more if it is known.
    pub(super) fn with_if(self, known: bool, property: Property) -> Properties {
        if known { self.with(property) } else { self }
    }

    /// Whether it is known.
    pub fn has(self, property: Property) -> bool {
        self.0 & property as u8 != 0
    }

    /// Those of both.
    pub(super) fn and(self, other: Properties) -> Properties {
        Properties(self.0 & other.0)
    }

    /// Those of either.
    pub(super) fn or(self, other: Properties) -> Properties {
        Properties(self.0 | other.0)
    }
}
