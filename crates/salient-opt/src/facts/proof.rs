//! Where something is known: in every call, or in calls in which some axes have positions.
//!
//! Any dimension may be zero. The greatest of no numbers is -inf, their sum is zero and has no reciprocal: what is known of
//! a reduction and of all that is made of it often holds only where its axis has positions. So each fact says of which
//! extents it takes that, and a rule asks whether they have some wherever it reads the value.

use super::{Facts, Known};
#[cfg(test)]
use salient_ir::Bindings;
use salient_ir::{AxisId, Dim};
use std::ops::{BitAnd, BitOr};

/// Where something is known: where each of some extents is at least one. A bit for each extent as the length of an axis, and
/// one for each as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(u64);

/// Extents that are told apart; all further ones are one.
const EXTENTS: usize = 31;
/// The bits of extents as lengths of axes; those of extents as numbers stand above.
const LENGTHS: u64 = (1 << EXTENTS) - 1;

impl Proof {
    /// It is known in every call.
    pub const ALWAYS: Proof = Proof(0);
    /// It is not known.
    pub const NONE: Proof = Proof(u64::MAX);

    /// Whether it is known of some calls.
    pub fn is_some(self) -> bool {
        self != Proof::NONE
    }

    /// The same where it is known too where this axis has no positions.
    #[must_use]
    pub(super) fn also_without(self, axis: Proof) -> Proof {
        if self.is_some() { Proof(self.0 & !axis.0) } else { self }
    }
}

impl Default for Proof {
    fn default() -> Proof {
        Proof::ALWAYS
    }
}

impl From<bool> for Proof {
    fn from(known: bool) -> Proof {
        if known { Proof::ALWAYS } else { Proof::NONE }
    }
}

/// Where both are known.
impl BitAnd for Proof {
    type Output = Proof;

    #[expect(clippy::suspicious_arithmetic_impl, reason = "both take what either takes")]
    fn bitand(self, other: Proof) -> Proof {
        Proof(self.0 | other.0)
    }
}

/// Where one of two is known that say the same: the one that takes fewer extents to be at least one.
impl BitOr for Proof {
    type Output = Proof;

    fn bitor(self, other: Proof) -> Proof {
        let order = |proof: Proof| (proof.0.count_ones(), proof.0);
        if order(other) < order(self) { other } else { self }
    }
}

/// The extents of a model that are not proved to be at least one.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenExtents {
    /// Each once.
    extents: Vec<Dim>,
    /// The bit of the extent of each axis.
    of_axes: Vec<Proof>,
}

impl OpenExtents {
    /// Those among the extents of axes.
    pub(super) fn of(known: &Known) -> OpenExtents {
        let mut open = OpenExtents::default();
        for extent in &known.extents {
            let proof = if known.is_proved_filled(extent, &[]) { Proof::ALWAYS } else { open.add(extent) };
            open.of_axes.push(proof);
        }
        open
    }

    fn add(&mut self, extent: &Dim) -> Proof {
        let at = self.extents.iter().position(|e| e == extent).unwrap_or_else(|| {
            self.extents.push(extent.clone());
            self.extents.len() - 1
        });
        Proof(1 << at.min(EXTENTS - 1))
    }

    /// The extents of a bit.
    fn of_bit(&self, bit: usize) -> &[Dim] {
        if bit + 1 < EXTENTS { &self.extents[bit..=bit] } else { &self.extents[bit..] }
    }

    /// The bits of the extents of which this is true.
    fn bits(&self, is: impl Fn(&Dim) -> bool) -> u64 {
        let count = self.extents.len().min(EXTENTS);
        (0..count).filter(|bit| self.of_bit(*bit).iter().all(&is)).fold(0, |bits, bit| bits | 1 << bit)
    }
}

impl Known {
    /// Whether an extent is proved to be at least one where axes of other extents have positions.
    fn is_proved_filled(&self, extent: &Dim, where_filled: &[&Dim]) -> bool {
        self.assumptions.is_nonnegative(&(extent - &Dim::constant(1)), where_filled.iter().copied())
    }

    /// Where an axis has positions.
    pub(super) fn filled(&self, axis: AxisId) -> Proof {
        self.open.of_axes[axis.index()]
    }

    /// Where all axes have positions.
    pub(super) fn all_filled(&self) -> Proof {
        let bits = self.open.bits(|_| true);
        Proof(bits | bits << EXTENTS)
    }

    /// Where a number that is made of this dimension is above zero, if it is in calls in which all axes have positions.
    pub(super) fn counted(&self, dim: &Dim) -> Proof {
        let symbols = dim.symbols();
        let bits = !self.open.bits(|extent| extent.symbols().is_disjoint(&symbols));
        Proof((bits & self.open.bits(|_| true)) << EXTENTS)
    }

    /// Whether something is known wherever these axes have positions. A dimension that is used as a number is at least one by
    /// the contract.
    pub(crate) fn is_shown(&self, proof: Proof, filled: &[AxisId]) -> bool {
        proof.is_some() && self.is_shown_of_lengths(proof.0 & LENGTHS, filled)
    }

    fn is_shown_of_lengths(&self, lengths: u64, filled: &[AxisId]) -> bool {
        if lengths == 0 {
            return true;
        }
        let extents: Vec<&Dim> = filled.iter().map(|axis| self.extent(*axis)).collect();
        lengths & !self.open.bits(|extent| self.is_proved_filled(extent, &extents)) == 0
    }

    /// Whether something is known at these sizes.
    #[cfg(test)]
    pub(crate) fn is_known_at(&self, proof: Proof, sizes: &Bindings) -> bool {
        let filled = self.open.bits(|extent| extent.eval(sizes).is_ok_and(|n| n > 0));
        proof.is_some() && proof.0 & !(filled | filled << EXTENTS) == 0
    }

    /// Whether a value is a number where the axis `empty` has no positions and these have some. What is made of dimensions
    /// alone is one by the contract, but not a mean over that axis.
    pub(crate) fn is_number_without(&self, x: &Facts, empty: AxisId, filled: &[AxisId]) -> bool {
        let symbols = self.extent(empty).symbols();
        // What is zero with that axis, as a number.
        let zero = !self.open.bits(|extent| extent.symbols().is_disjoint(&symbols));
        let (proof, reduces) = (x.regular.0, x.filled.0 & LENGTHS != 0);
        let is_mean = reduces && (proof >> EXTENTS) & zero != 0;
        !is_mean && self.is_shown_of_lengths(proof & LENGTHS, filled)
    }
}
