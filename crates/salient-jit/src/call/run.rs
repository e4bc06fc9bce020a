//! Running code on arrays.
//!
//! All checks of dtypes and lengths are made before any kernel runs; a kernel trusts its addresses. Shapes are the
//! caller's business: a kernel needs the elements only.

use crate::call::arguments::{Arguments, Inputs, Loaded, checked, elements, elements_mut, narrow};
use crate::call::flush_to_zero::flush_to_zero;
use crate::call::plan::{Plan, SizedKernel, Workspace};
use crate::call::watch::{Complete, Watch};
use crate::compile::loops::ThreadCells;
use crate::compile::{Code, Compiled};
use crate::error::RunError;
use salient_ir::array::Array;
use salient_tile::memory::is_copied;
use salient_tile::{Role, Section};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

impl Compiled {
    /// Runs the program. Arrays are in the order of the graph's inputs, parameters and outputs, of the dtypes that the
    /// program computes with (16-bit floats widened) and of the shapes that it was bound to. `loaded` is of these
    /// parameters; where no call reads a parameter ([`Compiled::reads_param`]), any array may stand for it. A call after
    /// the first with the same plan allocates nothing. On an error the outputs hold anything.
    ///
    /// # Errors
    /// An array does not fit, an integer is too large, or an index leaves its axis: then the last such index of the
    /// first kernel that has one is reported, whatever the number of threads.
    pub fn run(
        &self,
        plan: &Plan,
        loaded: &Loaded,
        inputs: &[&Array],
        params: &[&Array],
        outputs: &mut [Array],
    ) -> Result<(), RunError> {
        self.run_watched(plan, loaded, Inputs::All(inputs), params, outputs, &mut Watch::default())
    }

    /// As [`Compiled::run`], with a look at what kernels do.
    ///
    /// # Errors
    /// As [`Compiled::run`]; and the first number that is not finite, where one is looked for.
    pub fn run_watched(
        &self,
        plan: &Plan,
        loaded: &Loaded,
        inputs: Inputs<'_>,
        params: &[&Array],
        outputs: &mut [Array],
        watch: &mut Watch<'_>,
    ) -> Result<(), RunError> {
        if plan.compiled != self.id {
            return Err(RunError::Plan);
        }
        self.fits(plan, loaded)?;
        let mut w = plan.take(self)?;
        let given = Arguments { loaded, inputs, params };
        let result = self.run_in(plan, &mut w, given, outputs, watch);
        plan.give(w);
        result
    }

    /// Runs the kernels of the plan's section.
    pub(crate) fn run_in(
        &self,
        plan: &Plan,
        w: &mut Workspace,
        given: Arguments<'_>,
        outputs: &mut [Array],
        watch: &mut Watch<'_>,
    ) -> Result<(), RunError> {
        let Arguments { loaded, inputs, params } = given;
        let formulas = self.formulas(plan.section);
        // Where nothing lies elsewhere than at the last call, no address is written again.
        let places = Some((plan.placed, loaded.id));
        let mut has_moved = w.places.take() != places;
        if has_moved {
            // In the plan every offset lies with its bytes inside the arena, with which the region begins; and so it is with
            // what was loaded. What has no place is the caller's, or nobody's where no kernel touches it.
            for ((address, own), kept) in w.buffers.iter_mut().zip(&plan.offsets).zip(&loaded.offsets) {
                let place = match (own, kept) {
                    (Some(offset), _) => w.region.start().wrapping_add(*offset),
                    (None, Some(offset)) => loaded.region.start().wrapping_add(*offset),
                    (None, None) => std::ptr::null_mut(),
                };
                *address = place as i64;
            }
        }
        for &at in &formulas.border {
            let (buffer, count) = (&self.program.buffers[at], plan.counts[at]);
            let given = match buffer.role {
                // It lies in its output.
                Role::Input(k) if inputs.in_place(k) && self.appended(at).is_some() => continue,
                Role::Input(k) => elements(checked(buffer, count, inputs.get(k))?).cast_mut(),
                Role::Param(k) => elements(checked(buffer, count, params.get(k).copied())?).cast_mut(),
                Role::Output(k) => {
                    checked(buffer, count, outputs.get(k))?;
                    elements_mut(&mut outputs[k])
                }
                Role::Temporary | Role::Loaded | Role::Coded(_) => continue,
            };
            if !is_copied(buffer) {
                has_moved |= w.put(at, given as i64);
            }
        }
        has_moved |= self.begin_states(plan, w, inputs);
        let code = &self.code[self.program.section(plan.section)];
        if has_moved {
            let taken = code.iter().flat_map(|code| &code.buffers);
            w.addresses.iter_mut().zip(taken).for_each(|(cell, id)| *cell = w.buffers[id.0]);
        }
        w.places = places;
        self.narrow_inputs(plan, w, inputs)?;
        let mut from = 0;
        let mut complete = watch.finite.then(|| Complete::new(&self.program, plan.section));
        for (at, (code, kind)) in code.iter().zip(&formulas.kernels).enumerate() {
            let range = from..from + code.buffers.len();
            from = range.end;
            let before = Instant::now();
            let kind = &plan.kinds[*kind];
            self.run_kernel(plan, w, code, kind, range)?;
            if let Some(timed) = &mut watch.timed {
                timed(at, before.elapsed());
            }
            if let Some(complete) = &mut complete {
                let written = complete.after(at, kind.cost.threads > 0);
                written.into_iter().try_for_each(|id| self.is_finite(plan, w, id))?;
            }
        }
        self.widen_outputs(plan, w, outputs);
        Ok(())
    }

    fn run_kernel(
        &self,
        plan: &Plan,
        w: &mut Workspace,
        code: &Code,
        sized: &SizedKernel,
        addresses: Range<usize>,
    ) -> Result<(), RunError> {
        if sized.cost.threads == 0 {
            return Ok(());
        }
        let per_thread = plan.cells();
        let status = w.status.as_mut_ptr();
        for (thread, cells) in w.cells.chunks_exact_mut(per_thread).take(sized.cost.threads).enumerate() {
            // The scratch memory of a thread begins behind the arena and that of the threads before it.
            let scratch = w.region.start().wrapping_add(plan.arena + thread * plan.scratch);
            for (slot, offset) in sized.slots.iter().enumerate() {
                cells[ThreadCells::slot(slot)] = scratch.wrapping_add(*offset) as i64;
            }
            let own = status.wrapping_add(thread);
            cells[ThreadCells::STATUS] = own as i64;
            // SAFETY: the workspace has a status for each thread of the pool, and no kernel is running.
            unsafe { *own = [0; 2] };
        }
        let (addresses, cells) = (&w.addresses[addresses], w.cells.as_slice());
        // The last chunk in which an index left its axis, and what the status says of it.
        let failed: Mutex<Option<(usize, [i32; 2])>> = Mutex::new(None);
        self.pool.run(sized.items, sized.cost.threads, &|thread, items| {
            let cells = &cells[thread * per_thread..][..per_thread];
            let (begin, end) = (items.start as i64, items.end as i64);
            // SAFETY: the code was made for these tables. Every buffer has the number of elements that the loops are told,
            // so that all addresses lie inside; items write disjoint memory, and this thread has scratch memory and a
            // status of its own, the address of which is in its first cell. Nothing of the arrays or the workspace is
            // used by others: they are borrowed for the time of the call, what is written exclusively.
            let status = unsafe {
                flush_to_zero(|| {
                    (code.function)(addresses.as_ptr(), plan.symbols.as_ptr(), cells.as_ptr(), begin, end);
                });
                let own = cells[ThreadCells::STATUS] as *mut [i32; 2];
                own.replace([0; 2])
            };
            if status[0] != 0 {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.is_none_or(|(start, _)| start < items.start) {
                    *failed = Some((items.start, status));
                }
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some((_, [site, index])) => {
                // Sites are numbered from one.
                let site = site as usize - 1;
                let check = &self.program.checks[site];
                let (tensor, axis) = (check.tensor.clone(), check.axis.to_string());
                let (extent, origin) = (plan.extents[site], check.origin);
                Err(RunError::OutOfRange { tensor, axis, extent, index, origin })
            }
        }
    }

    /// Puts every state to which the program appends where its output begins, if it does not lie there. Whether any address
    /// changed.
    fn begin_states(&self, plan: &Plan, w: &mut Workspace, inputs: Inputs<'_>) -> bool {
        if plan.section == Section::Load {
            return false;
        }
        let mut has_moved = false;
        for append in &self.program.appends {
            let buffer = self.program.buffer(append.input);
            let (Role::Input(k), output) = (buffer.role, w.buffers[append.output.0]) else { continue };
            if inputs.in_place(k) {
                has_moved |= w.put(append.input.0, output);
                continue;
            }
            let (from, to) = (w.buffers[append.input.0] as *const u8, output as *mut u8);
            let bytes = plan.counts[append.input.0] * buffer.elem().size() as usize;
            assert!(plan.counts[append.input.0] <= plan.counts[append.output.0], "the output is the longer");
            // SAFETY: both are arrays of so many elements, as was checked, and not the same: one is borrowed exclusively.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        }
        has_moved
    }

    /// The output that begins with an input, both by position among the buffers.
    fn appended(&self, input: usize) -> Option<usize> {
        self.program.appends.iter().find(|a| a.input.0 == input).map(|a| a.output.0)
    }

    /// Whether the program appends to an input, by its position: then the output that begins with it may hold it already.
    pub fn appends(&self, input: usize) -> bool {
        self.program.with_role(Role::Input(input)).is_some_and(|id| self.appended(id.0).is_some())
    }

    /// The 32-bit copy of a buffer at the border.
    fn narrowed<'w>(&self, plan: &Plan, w: &'w mut Workspace, at: usize) -> &'w mut [i32] {
        let offset = plan.offsets[at].expect("integers at the border have a place");
        w.region.words(offset, plan.counts[at])
    }

    fn narrow_inputs(&self, plan: &Plan, w: &mut Workspace, inputs: Inputs<'_>) -> Result<(), RunError> {
        for &at in &self.formulas(plan.section).border {
            let buffer = &self.program.buffers[at];
            let (Role::Input(k), Section::Call) = (buffer.role, plan.section) else { continue };
            let (true, Some(values)) = (is_copied(buffer), inputs.get(k).and_then(Array::as_i64)) else {
                continue;
            };
            narrow(buffer, values, self.narrowed(plan, w, at))?;
        }
        Ok(())
    }

    fn widen_outputs(&self, plan: &Plan, w: &mut Workspace, outputs: &mut [Array]) {
        for &at in &self.formulas(plan.section).border {
            let buffer = &self.program.buffers[at];
            let (true, Role::Output(k)) = (is_copied(buffer), buffer.role) else { continue };
            if plan.section == Section::Load {
                continue;
            }
            if let Some(to) = outputs[k].as_i64_mut() {
                let from = self.narrowed(plan, w, at);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = i64::from(*from));
            }
        }
    }
}
