//! Witnesses: positions along an axis at which something holds in every row.
//!
//! "Each row keeps a key" is not closed under `and`: two masks may each keep a key and together none. A common witness
//! is: `j <= i` and `i - j < W` both hold at `j = i`.

use super::proof::Proof;
use super::{Facts, Known};
use salient_ir::AxisId;
use smallvec::SmallVec;

/// A position along one axis, as a function of the row. Always inside the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Position {
    /// The first.
    First,
    /// The last.
    Last,
    /// The same position as along the given axis, which has the same extent.
    Along(AxisId),
    /// As far from the end as the position along the given axis is from its end.
    FromEnd(AxisId),
}

/// Where something is known to hold, and in which calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witnesses {
    places: Places,
    /// In which calls; in all of them if there is no place.
    proof: Proof,
}

/// Where something holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    /// Everywhere.
    Everywhere,
    /// At these positions of these axes, whatever the other indices are; sorted. Nothing is known if empty.
    At(SmallVec<[(AxisId, Position); 2]>),
}

impl Default for Places {
    fn default() -> Places {
        Places::At(SmallVec::new())
    }
}

impl Witnesses {
    /// Nothing is known.
    pub fn nowhere() -> Witnesses {
        Witnesses::default()
    }

    /// Everywhere, where that is known.
    pub fn everywhere_if(known: impl Into<Proof>) -> Witnesses {
        let proof = known.into();
        if proof.is_some() { Witnesses { places: Places::Everywhere, proof } } else { Witnesses::nowhere() }
    }

    /// At these positions.
    pub fn at(positions: impl IntoIterator<Item = (AxisId, Position)>) -> Witnesses {
        let mut positions: SmallVec<_> = positions.into_iter().collect();
        positions.sort_unstable();
        positions.dedup();
        Witnesses { places: Places::At(positions), proof: Proof::ALWAYS }
    }

    /// The places.
    #[cfg(test)]
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Where it is known to hold everywhere.
    pub fn everywhere(&self) -> Proof {
        if self.places == Places::Everywhere { self.proof } else { Proof::NONE }
    }

    /// Where it is known that every row along the axis has such a position.
    pub fn any_along(&self, known: &Known, axis: AxisId) -> Proof {
        let one = |position: &Position| match position {
            Position::First | Position::Last => known.filled(axis),
            // The row has a position of that axis, so this one has one too.
            Position::Along(_) | Position::FromEnd(_) => Proof::ALWAYS,
        };
        let found = match &self.places {
            Places::Everywhere => known.filled(axis),
            Places::At(list) => {
                let along = list.iter().filter(|(a, _)| *a == axis);
                along.fold(Proof::NONE, |proof, (_, position)| proof | one(position))
            }
        };
        found & self.proof
    }

    /// The same, where this is known too.
    #[must_use]
    pub fn only(&self, known: Proof) -> Witnesses {
        let proof = self.proof & known;
        if !proof.is_some() || self.is_nowhere() {
            return Witnesses::nowhere();
        }
        Witnesses { places: self.places.clone(), proof }
    }

    fn is_nowhere(&self) -> bool {
        matches!(&self.places, Places::At(list) if list.is_empty())
    }

    /// Where both hold.
    #[must_use]
    pub fn and(&self, other: &Witnesses) -> Witnesses {
        match (&self.places, &other.places) {
            (Places::Everywhere, _) => other.only(self.proof),
            (_, Places::Everywhere) => self.only(other.proof),
            (Places::At(a), Places::At(b)) => {
                let places = Places::At(a.iter().copied().filter(|w| b.contains(w)).collect());
                Witnesses { places, proof: self.proof }.only(other.proof)
            }
        }
    }

    /// Where one holds.
    #[must_use]
    pub fn or(&self, other: &Witnesses) -> Witnesses {
        let proof = match (&self.places, &other.places) {
            (Places::Everywhere, Places::Everywhere) => self.proof | other.proof,
            (Places::Everywhere, _) => return self.clone(),
            (_, Places::Everywhere) => return other.clone(),
            (Places::At(a), Places::At(b)) => {
                let all = Witnesses::at(a.iter().chain(b).copied());
                return all.only(self.proof & other.proof);
            }
        };
        Witnesses { places: Places::Everywhere, proof }
    }

    /// Where a choice has something, by where its condition holds and where each arm has it.
    #[must_use]
    pub fn of_choice(condition: &Facts, yes: &Witnesses, no: &Witnesses) -> Witnesses {
        condition.true_at.and(yes).or(&condition.false_at.and(no)).or(&yes.and(no))
    }

    /// What is left once the axis is gone from the expression: no position along it, none that mentions it.
    #[must_use]
    pub fn without(&self, axis: AxisId) -> Witnesses {
        let Places::At(list) = &self.places else { return self.clone() };
        let mentions = |p: &Position| match p {
            Position::First | Position::Last => false,
            Position::Along(a) | Position::FromEnd(a) => *a == axis,
        };
        let left = list.iter().copied().filter(|(a, p)| *a != axis && !mentions(p));
        Witnesses { places: Places::At(left.collect()), proof: Proof::ALWAYS }.only(self.proof)
    }
}
