//! What the kernels of a plan do, as formulas in the dimensions: operations and bytes moved. Memory is counted once for each
//! kernel that reads or writes it, and what a mask hides is not subtracted. What that takes is the plan's price.

use salient_ir::Dim;
use salient_tile::LANES;
use salient_tile::plan::text::summary::Summary;
use std::collections::BTreeMap;
use std::fmt;

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
}
