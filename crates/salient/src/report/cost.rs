//! What the kernels of a plan cost by the roofline: operations, bytes moved, and the least time that a machine needs for them.
//!
//! An estimate to compare forms of a program with, not a measurement: memory is counted once for each kernel that reads
//! or writes it, caches are not modelled, and what a mask hides is not subtracted.

use salient_ir::{Bindings, Dim};
use salient_tile::LANES;
use salient_tile::plan::text::summary::Summary;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What one core does at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// Floating-point operations per second.
    pub flops: f64,
    /// Bytes per second between memory and the core.
    pub bytes: f64,
    /// What starting a kernel takes.
    pub launch: Duration,
}

/// A core of 3 GHz with two 256-bit fused multiply-adds a cycle, before a memory of 10 GB/s.
impl Default for Peaks {
    fn default() -> Peaks {
        Peaks { flops: 96e9, bytes: 10e9, launch: Duration::from_micros(1) }
    }
}

/// What bounds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Arithmetic takes longer than memory.
    Arithmetic,
    /// Memory takes longer than arithmetic.
    Memory,
}

impl Bound {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Arithmetic => "arithmetic",
            Bound::Memory => "memory",
        }
    }
}

/// What must hold for a kernel to run: `left < right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'p> {
    left: &'p Dim,
    right: &'p Dim,
}

impl<'p> Condition<'p> {
    /// That of a kernel, if it does not always run.
    pub fn of(kernel: &'p Summary) -> Option<Condition<'p>> {
        kernel.when.as_ref().map(|(left, right)| Condition { left, right })
    }
}

impl fmt::Display for Condition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < {}", self.left, self.right)
    }
}

/// Operations and bytes, as formulas in the dimensions that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: Dim,
    /// Bytes read and written, each buffer once for a kernel.
    pub bytes: Dim,
    /// Kernels.
    pub kernels: usize,
}

impl Cost {
    /// Of one kernel, at vectors of so many lanes.
    pub fn of_kernel(kernel: &Summary, lanes: usize) -> Cost {
        let lanes = BTreeMap::from([(LANES.clone(), Dim::constant(lanes as i64))]);
        Cost { flops: kernel.flops.substitute(&lanes), bytes: kernel.bytes.substitute(&lanes), kernels: 1 }
    }

    /// Of all that a call runs, at vectors of so many lanes: what always runs, and apart from it what runs where a condition
    /// holds, in the order of the plan. Conditions are alternatives: a kernel for few rows and one for many are never both run.
    pub fn of_call(kernels: &[Summary], lanes: usize) -> Vec<(Option<Condition<'_>>, Cost)> {
        let nothing = Cost { flops: Dim::constant(0), bytes: Dim::constant(0), kernels: 0 };
        let mut sums: Vec<(Option<Condition<'_>>, Cost)> = Vec::new();
        for kernel in kernels.iter().filter(|k| !k.once) {
            let (cost, condition) = (Cost::of_kernel(kernel, lanes), Condition::of(kernel));
            let known = sums.iter().position(|(c, _)| *c == condition);
            let at = known.unwrap_or_else(|| {
                sums.push((condition, nothing.clone()));
                sums.len() - 1
            });
            let sum = &mut sums[at].1;
            sum.flops = &sum.flops + &cost.flops;
            sum.bytes = &sum.bytes + &cost.bytes;
            sum.kernels += 1;
        }
        sums
    }

    /// The least time at these peaks, and what it is bound by; `None` where a dimension is not known.
    pub fn time(&self, peaks: &Peaks) -> Option<(Duration, Bound)> {
        let value = |d: &Dim| d.eval(&Bindings::new()).ok().map(|n| n as f64);
        let (flops, bytes) = (value(&self.flops)? / peaks.flops, value(&self.bytes)? / peaks.bytes);
        let bound = if flops > bytes { Bound::Arithmetic } else { Bound::Memory };
        let work = Duration::try_from_secs_f64(flops.max(bytes)).ok()?;
        Some((work + peaks.launch * u32::try_from(self.kernels).ok()?, bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_arithmetic_and_memory_bounds() {
        let peaks = Peaks { flops: 1e9, bytes: 1e9, launch: Duration::ZERO };
        let cost =
            |flops, bytes| Cost { flops: Dim::constant(flops), bytes: Dim::constant(bytes), kernels: 1 };
        let millis = Duration::from_millis;
        assert_eq!(cost(3_000_000, 1_000_000).time(&peaks), Some((millis(3), Bound::Arithmetic)));
        assert_eq!(cost(1_000_000, 2_000_000).time(&peaks), Some((millis(2), Bound::Memory)));
        let symbolic = Cost { flops: Dim::symbol("T"), ..cost(0, 1) };
        assert_eq!(symbolic.time(&peaks), None);
    }
}
