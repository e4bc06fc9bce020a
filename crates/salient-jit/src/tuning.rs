//! What a machine is tuned by: sizes of tiles for each kind of vectors, and when threads are worth calling.
//!
//! One place for every figure that suits one processor and not another, with defaults that serve without a tuning. Nothing
//! but time depends on them. Reading and writing files, and measuring, are not done here.

use crate::bodies::{Emitter, emitter};
use crate::target::{Isa, Target};
use salient_tile::{Knob, Tiling, knob};
use salient_vector::tile::Shape;

/// Everything that is tuned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// For 128-bit vectors, 256 and 512, in the order of [`Isa::ALL`].
    pub tilings: [Tiling; 3],
    /// The use of threads.
    pub threading: Threading,
}

/// When threads are called, and how long they look for work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threading {
    /// A thread is worth calling for so many nanoseconds of work.
    pub worth_ns: i64,
    /// Floating-point operations that a core does in a nanosecond, for guessing at that work.
    pub flops_per_ns: i64,
    /// Bytes that a core moves in a nanosecond, for the same.
    pub bytes_per_ns: i64,
    /// How often an idle thread looks for work before it sleeps.
    pub looks: i64,
}

impl Default for Tuning {
    /// Register tiles near the peak of each kind of vectors, with few rows left over in a block, and columns that divide the
    /// usual widths of heads: measured by `cargo bench -p salient-jit --bench tiles`.
    fn default() -> Tuning {
        let tilings = [
            Tiling::default(),
            Tiling::of(Shape { rows: 6, vectors: 2 }),
            Tiling::of(Shape { rows: 4, vectors: 4 }),
        ];
        Tuning { tilings, threading: Threading::default() }
    }
}

impl Default for Threading {
    /// Of a slow core. A helper that looks for work begins in a third of a microsecond, and has to fetch what another thread
    /// wrote; it looks for longer than it takes to wake one, and than what a model does between two kernels.
    fn default() -> Threading {
        Threading { worth_ns: 5_000, flops_per_ns: 16, bytes_per_ns: 8, looks: 4096 }
    }
}

/// Every field of [`Threading`].
pub const THREADING: &[Knob<Threading>] = &[
    knob!(worth_ns, (1, 1_000_000_000), "nanoseconds of work for which a thread is called"),
    knob!(flops_per_ns, (1, 1_000), "operations of a core in a nanosecond, for guessing at work"),
    knob!(bytes_per_ns, (1, 1_000), "bytes that a core moves in a nanosecond, for guessing at work"),
    knob!(looks, (0, 1_000_000_000), "how often an idle thread looks for work before it sleeps"),
];

impl Tuning {
    /// The sizes for a target: those of the vectors that are emitted for it.
    pub fn tiling(&self, target: &Target) -> Tiling {
        *self.of(match emitter(target) {
            Emitter::Cranelift => Isa::Baseline,
            Emitter::Avx2 | Emitter::Avx512Of256 => Isa::Avx2,
            Emitter::Avx512 => Isa::Avx512,
        })
    }

    /// The sizes for a kind of vectors.
    pub fn of(&self, isa: Isa) -> &Tiling {
        &self.tilings[isa as usize]
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, isa: Isa) -> &mut Tiling {
        &mut self.tilings[isa as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_tile::TILING;

    fn rows_are_of_their_own<T: Default>(knobs: &[Knob<T>]) {
        for (at, knob) in knobs.iter().enumerate() {
            let mut changed = T::default();
            let (least, most) = knob.range;
            let default = (knob.get)(&changed);
            assert!(
                (least..=most).contains(&default),
                "{}: the default {default} is out of range",
                knob.name
            );
            (knob.set)(&mut changed, least.max(default / 2) + 1);
            for (other, same) in knobs.iter().enumerate() {
                let moved = (same.get)(&changed) != (same.get)(&T::default());
                assert_eq!(moved, other == at, "{} changes {}", knob.name, same.name);
            }
        }
    }

    #[test]
    fn every_knob_changes_its_own_field_from_a_default_within_its_range() {
        rows_are_of_their_own(TILING);
        rows_are_of_their_own(THREADING);
    }

    #[test]
    fn each_instruction_set_has_sizes_of_its_own() {
        for (at, isa) in Isa::ALL.into_iter().enumerate() {
            let mut tuning = Tuning::default();
            tuning.of_mut(isa).product_rows = 1;
            let changed = tuning.tilings.iter().map(|t| t.product_rows == 1);
            assert!(changed.enumerate().all(|(n, changed)| changed == (n == at)), "{isa}");
        }
    }
}
