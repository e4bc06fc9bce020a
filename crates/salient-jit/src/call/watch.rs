//! What a run tells of its kernels while it goes on: how long each takes, and whether what it stores is finite.

use crate::call::plan::{Plan, Workspace};
use crate::compile::Compiled;
use crate::error::RunError;
use salient_ir::Bindings;
use salient_tile::{BufferId, Kernel, Program, Section};
use std::time::Duration;

/// A look at the kernels of a call.
#[derive(Default)]
pub struct Watch<'w> {
    /// Called with each kernel, by position among those of a call, and how long it took.
    pub timed: Option<&'w mut dyn FnMut(usize, Duration)>,
    /// Whether the run stops at the first number that is NaN or infinite, in what kernels store.
    pub finite: bool,
}

/// Which buffers are written to their end when a kernel has run: several kernels may write parts of one, or one of several in
/// its place.
pub(crate) struct Complete<'p> {
    kernels: &'p [Kernel],
    /// By buffer: the last kernel that writes it, and whether any that does has run.
    last: Vec<(Option<usize>, bool)>,
}

impl<'p> Complete<'p> {
    pub(crate) fn new(program: &'p Program, section: Section) -> Complete<'p> {
        let kernels = &program.kernels[program.section(section)];
        let mut last = vec![(None, false); program.buffers.len()];
        for (at, kernel) in kernels.iter().enumerate() {
            kernel.writes.iter().for_each(|id| last[id.0].0 = Some(at));
        }
        Complete { kernels, last }
    }

    /// The buffers that are complete after a kernel, which had something to do or not.
    pub(crate) fn after(&mut self, at: usize, has_run: bool) -> Vec<BufferId> {
        let writes = &self.kernels[at].writes;
        writes.iter().for_each(|id| self.last[id.0].1 |= has_run);
        writes.iter().copied().filter(|id| self.last[id.0] == (Some(at), true)).collect()
    }
}

impl Compiled {
    /// Refuses a buffer that holds a number which is NaN or infinite, if it holds a value of the source.
    pub(crate) fn is_finite(&self, plan: &Plan, w: &Workspace, id: BufferId) -> Result<(), RunError> {
        let (Some(Some(value)), Some(address)) = (self.program.values.get(id.0), w.buffers.get(id.0)) else {
            return Ok(());
        };
        let count = plan.counts[id.0];
        if *address == 0 || count == 0 {
            return Ok(());
        }
        // SAFETY: a kernel has just been given this address as that of so many elements of 32 bits, in memory of this call; no
        // kernel is running.
        let numbers = unsafe { std::slice::from_raw_parts(*address as *const f32, count) };
        let is_odd = |n: &f32| !(n.is_finite() || value.may_be_minus_infinity && *n == f32::NEG_INFINITY);
        let Some(position) = numbers.iter().position(is_odd) else { return Ok(()) };
        let names = self.program.dimensions.iter().cloned();
        let dimensions: Bindings = names.zip(plan.symbols.iter().copied()).collect();
        let shape = self.program.buffer(id).shape.iter();
        let shape = shape.map(|dim| dim.eval(&dimensions)).collect::<Result<Vec<i64>, _>>()?;
        let mut rest = position as i64;
        let mut index = vec![0; shape.len()];
        for (at, extent) in index.iter_mut().zip(&shape).rev() {
            (*at, rest) = (rest % extent, rest / extent);
        }
        Err(RunError::NotFinite { value: value.clone(), index, number: numbers[position] })
    }
}
