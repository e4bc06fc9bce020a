//! A program with its dimensions: everything about a call, or about binding parameters, that does not depend on arrays.

use crate::bodies;
use crate::compile::Compiled;
use crate::loops::ThreadCells;
use crate::region::Region;
use crate::run::RunError;
use salient_ir::{Bindings, DimError};
use salient_tile::memory;
use salient_tile::{BufferId, Kernel, Kind, LANES, Section};
use std::sync::{Mutex, PoisonError};

/// What one kernel needs for one set of dimensions.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) items: usize,
    /// Bytes from the start of a thread's scratch memory, by slot.
    pub(crate) slots: Vec<usize>,
    pub(crate) cost: Cost,
}

/// What one kernel does at one set of dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Floating-point operations; what a mask hides is not subtracted.
    pub flops: u64,
    /// Bytes of the tensors that it reads and writes, each once.
    pub bytes: u64,
    /// At most so many threads run it; none where it has nothing to do.
    pub threads: usize,
}

/// A program with its dimensions. Any number of threads may run it at once.
#[derive(Debug)]
pub struct Plan {
    /// Of the code that it was made for.
    pub(crate) compiled: u64,
    /// Values of the program's symbols.
    pub(crate) symbols: Vec<i64>,
    /// Which kernels it is for.
    pub(crate) section: Section,
    /// Elements, by buffer; nothing where neither a kernel of the section nor the border needs it.
    pub(crate) counts: Vec<usize>,
    /// By buffer, whether a kernel of the section reads or writes it.
    pub(crate) touched: Vec<bool>,
    /// Bytes from the start of the arena, by buffer: temporaries, and 32-bit copies of integers at the border.
    pub(crate) offsets: Vec<Option<usize>>,
    /// Bytes of the arena.
    pub(crate) arena: usize,
    /// Bytes of scratch memory of one thread.
    pub(crate) scratch: usize,
    /// The kernels of the section.
    pub(crate) kernels: Vec<Bound>,
    /// The length of the axis of each check.
    pub(crate) extents: Vec<i64>,
    /// Memory of calls that have ended, for calls to come.
    idle: Mutex<Vec<Workspace>>,
}

/// The memory of one call.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The arena, then the scratch memory of each thread.
    pub(crate) region: Region,
    /// The address of each buffer.
    pub(crate) buffers: Vec<i64>,
    /// What each kernel takes of them, one kernel after the other.
    pub(crate) addresses: Vec<i64>,
    /// [`ThreadCells`] of each thread.
    pub(crate) cells: Vec<i64>,
    /// The status of each thread.
    pub(crate) status: Vec<[i32; 2]>,
}

impl Compiled {
    /// Everything about a call that depends on the dimensions: sizes, counts, the places of temporaries.
    ///
    /// # Errors
    /// A dimension is missing, negative or too large.
    pub fn bind(&self, dimensions: &Bindings) -> Result<Plan, RunError> {
        self.plan(Section::Call, dimensions)
    }

    /// Dimensions with the number of lanes, which is a symbol of loop programs and of packed operands.
    pub(crate) fn known(&self, dimensions: &Bindings) -> Bindings {
        let mut known = dimensions.clone();
        known.insert(LANES.into(), bodies::lanes(&self.target) as i64);
        known
    }

    /// What of a section's memory does not depend on dimensions; made when it is first asked for.
    fn outline(&self, section: Section) -> &memory::Outline {
        let cell = match section {
            Section::Load => &self.outlines[0],
            Section::Call => &self.outlines[1],
        };
        cell.get_or_init(|| memory::outline(&self.program, section))
    }

    pub(crate) fn plan(&self, section: Section, dimensions: &Bindings) -> Result<Plan, RunError> {
        let program = &self.program;
        let symbols = program
            .symbols
            .iter()
            .map(|s| match (section, dimensions.get(s)) {
                (_, Some(value)) => Ok(*value),
                // Kernels that run once need those that the shapes of parameters fix, and no others.
                (Section::Load, None) => Ok(0),
                (Section::Call, None) => Err(DimError::Unbound(s.clone()).into()),
            })
            .collect::<Result<Vec<i64>, RunError>>()?;
        let known = self.known(dimensions);
        let touched = program.touched(section);
        let outline = self.outline(section);
        let mut counts = Vec::new();
        for (at, (buffer, touched)) in program.buffers.iter().zip(&touched).enumerate() {
            let needed = match section {
                Section::Load => *touched || memory::is_kept(buffer),
                Section::Call => true,
            };
            if !needed {
                counts.push(0);
                continue;
            }
            for dim in &buffer.shape {
                if dim.eval(&known)? < 0 {
                    return Err(RunError::Negative { tensor: buffer.name.clone() });
                }
            }
            // Where the bytes fit, so do the elements.
            let count = outline.count(at);
            memory::bytes(count, buffer.elem().size(), &known)?;
            counts.push(count.eval(&known)? as usize);
        }
        let arena = outline.place(program, &known)?;
        let mut kernels = Vec::new();
        let mut scratch = 0;
        for kernel in &program.kernels[program.section(section)] {
            let mut used = 0;
            let mut slots = Vec::new();
            for slot in &kernel.scratch {
                slots.push(used);
                used += memory::bytes(&slot.count, 4, &known)?;
            }
            scratch = scratch.max(used);
            let items = usize::try_from(kernel.items.eval(&known)?).unwrap_or(0);
            let cost = self.cost(kernel, items, &counts, &known);
            kernels.push(Bound { items, slots, cost });
        }
        let extent = |c: &salient_tile::Check| match (section, c.extent.eval(&known)) {
            (_, Ok(extent)) => Ok(extent),
            (Section::Load, Err(_)) => Ok(0),
            (Section::Call, Err(e)) => Err(e),
        };
        let extents = program.checks.iter().map(extent).collect::<Result<_, _>>()?;
        Ok(Plan {
            compiled: self.id,
            symbols,
            section,
            counts,
            touched,
            offsets: arena.offsets,
            arena: arena.size,
            scratch,
            kernels,
            extents,
            idle: Mutex::new(Vec::new()),
        })
    }

    /// What a kernel does, and how many threads are worth it.
    fn cost(&self, kernel: &Kernel, items: usize, counts: &[usize], known: &Bindings) -> Cost {
        if items == 0 || kernel.is_idle(known) {
            return Cost { flops: 0, bytes: 0, threads: 0 };
        }
        let flops = kernel.flops.eval(known).map_or(u64::MAX, |flops| u64::try_from(flops).unwrap_or(0));
        let written = kernel.writes.iter().map(|id| counts[id.0]).max().unwrap_or(0);
        let moved = |id: &BufferId| {
            let count = match kernel.kind {
                // Of a table, the rows that are looked up.
                Kind::Map => counts[id.0].min(written),
                Kind::Attention | Kind::Product | Kind::Rows | Kind::Pack => counts[id.0],
            };
            count as u64 * self.program.buffer(*id).elem().size() as u64
        };
        let bytes = kernel.reads.iter().chain(&kernel.writes).map(moved).sum();
        // A guess at the time that one thread needs: the longer of computing and of moving.
        let rate = |n: i64| u64::try_from(n).unwrap_or(1).max(1);
        let of = self.threading;
        let nanoseconds = (flops / rate(of.flops_per_ns)).max(bytes / rate(of.bytes_per_ns));
        let worth = usize::try_from(nanoseconds / rate(of.worth_ns)).unwrap_or(usize::MAX);
        Cost { flops, bytes, threads: worth.clamp(1, self.pool.threads().min(items)) }
    }
}

impl Plan {
    /// What each kernel of the plan does, in order.
    pub fn costs(&self) -> impl Iterator<Item = Cost> {
        self.kernels.iter().map(|kernel| kernel.cost)
    }

    /// Bytes of working memory of a call on so many threads: temporaries, copies at the border, and scratch memory.
    pub fn working_bytes(&self, threads: usize) -> usize {
        self.arena + threads * self.scratch
    }

    /// Memory for a call: that of one which has ended, or new.
    pub(crate) fn take(&self, compiled: &Compiled) -> Result<Workspace, RunError> {
        if let Some(idle) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(idle);
        }
        let threads = compiled.pool.threads();
        let bytes = self.working_bytes(threads);
        let cells = self.cells();
        Ok(Workspace {
            region: Region::new(bytes).ok_or(RunError::Memory { bytes })?,
            buffers: vec![0; compiled.program.buffers.len()],
            addresses: vec![0; compiled.code.iter().map(|code| code.buffers.len()).sum()],
            cells: vec![0; cells * threads],
            status: vec![[0; 2]; threads],
        })
    }

    /// Gives memory back.
    pub(crate) fn give(&self, workspace: Workspace) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
    }

    /// How many cells each thread has: enough for the kernel with most.
    pub(crate) fn cells(&self) -> usize {
        ThreadCells::slot(self.kernels.iter().map(|k| k.slots.len()).max().unwrap_or(0))
    }
}
