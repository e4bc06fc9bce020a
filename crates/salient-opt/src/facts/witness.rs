//! Witnesses: positions along an axis at which something holds in every row.
//!
//! "Each row keeps a key" is not closed under `and`: two masks may each keep a key and together none. A common witness
//! is: `j <= i` and `i - j < W` both hold at `j = i`.

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

/// Where something is known to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witnesses {
    /// Everywhere.
    Everywhere,
    /// At these positions of these axes, whatever the other indices are; sorted. Nothing is known if empty.
    At(SmallVec<[(AxisId, Position); 2]>),
}

impl Default for Witnesses {
    fn default() -> Witnesses {
        Witnesses::nowhere()
    }
}

impl Witnesses {
    /// Nothing is known.
    pub fn nowhere() -> Witnesses {
        Witnesses::At(SmallVec::new())
    }

    /// Everywhere if `known`, else nothing is known.
    pub fn everywhere_if(known: bool) -> Witnesses {
        if known { Witnesses::Everywhere } else { Witnesses::nowhere() }
    }

    /// Whether every row along the axis has such a position.
    pub fn any_along(&self, axis: AxisId) -> bool {
        match self {
            Witnesses::Everywhere => true,
            Witnesses::At(list) => list.iter().any(|(a, _)| *a == axis),
        }
    }

    /// Where both hold.
    pub fn and(&self, other: &Witnesses) -> Witnesses {
        match (self, other) {
            (Witnesses::Everywhere, x) | (x, Witnesses::Everywhere) => x.clone(),
            (Witnesses::At(a), Witnesses::At(b)) => {
                Witnesses::At(a.iter().copied().filter(|w| b.contains(w)).collect())
            }
        }
    }

    /// Where one holds.
    pub fn or(&self, other: &Witnesses) -> Witnesses {
        match (self, other) {
            (Witnesses::Everywhere, _) | (_, Witnesses::Everywhere) => Witnesses::Everywhere,
            (Witnesses::At(a), Witnesses::At(b)) => {
                let mut all: SmallVec<_> = a.iter().chain(b).copied().collect();
                all.sort();
                all.dedup();
                Witnesses::At(all)
            }
        }
    }

    /// What is left once the axis is gone from the expression: no position along it, none that mentions it.
    pub fn without(&self, axis: AxisId) -> Witnesses {
        match self {
            Witnesses::Everywhere => Witnesses::Everywhere,
            Witnesses::At(list) => {
                let mentions = |p: &Position| match p {
                    Position::First | Position::Last => false,
                    Position::Along(a) | Position::FromEnd(a) => *a == axis,
                };
                Witnesses::At(list.iter().copied().filter(|(a, p)| *a != axis && !mentions(p)).collect())
            }
        }
    }

    /// Whether it says more than `other` does: for merging what is known of one value by two ways.
    pub fn adds_to(&self, other: &Witnesses) -> bool {
        match (self, other) {
            (_, Witnesses::Everywhere) => false,
            (Witnesses::Everywhere, Witnesses::At(_)) => true,
            (Witnesses::At(a), Witnesses::At(b)) => a.iter().any(|w| !b.contains(w)),
        }
    }
}
