//! A program with its dimensions: everything about a call, or about binding parameters, that does not depend on arrays.

use crate::bodies;
use crate::call::region::Region;
use crate::compile::Compiled;
use crate::compile::formulas::{Formulas, KernelFormulas, Values};
use crate::compile::loops::ThreadCells;
use crate::error::{Part, RunError};
use salient_ir::{Bindings, DimAt, DimError, Name};
use salient_tile::{Kind, Section, Sizes};
use std::sync::{Mutex, PoisonError};

/// What one kernel needs for one set of dimensions.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    pub(crate) items: usize,
    /// Bytes from the start of a thread's scratch memory, by slot.
    pub(crate) slots: Vec<usize>,
    pub(crate) cost: Cost,
}

/// What one kernel does at one set of dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Bytes, by buffer; nothing where it has no place in the arena.
    sizes: Vec<usize>,
    /// Bytes from the start of the arena, by buffer: temporaries, and 32-bit copies of integers at the border.
    pub(crate) offsets: Vec<Option<usize>>,
    /// How often places were given.
    pub(crate) placed: u64,
    /// Bytes of the arena.
    pub(crate) arena: usize,
    /// Bytes of scratch memory of one thread.
    pub(crate) scratch: usize,
    /// By kind of kernel: see [`Formulas::kinds`].
    pub(crate) kinds: Vec<Bound>,
    /// The length of the axis of each check.
    pub(crate) extents: Vec<i64>,
    /// Bytes that the memory of a call is larger than needed, for plans that grow.
    slack: usize,
    /// Memory of calls that have ended, for calls to come.
    idle: Mutex<Vec<Workspace>>,
}

/// The memory of one call.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The arena, then the scratch memory of each thread.
    pub(crate) region: Region,
    /// For which places of the plan, and for which parameters, addresses were written.
    pub(crate) places: Option<(u64, u64)>,
    /// The address of each buffer.
    pub(crate) buffers: Vec<i64>,
    /// What each kernel takes of them, one kernel after the other.
    pub(crate) addresses: Vec<i64>,
    /// [`ThreadCells`] of each thread.
    pub(crate) cells: Vec<i64>,
    /// The status of each thread.
    pub(crate) status: Vec<[i32; 2]>,
}

impl Workspace {
    /// Writes the address of a buffer; whether it was another.
    pub(crate) fn put(&mut self, buffer: usize, address: i64) -> bool {
        std::mem::replace(&mut self.buffers[buffer], address) != address
    }
}

impl Compiled {
    /// Everything about a call that depends on the dimensions: sizes, counts, the places of temporaries.
    ///
    /// # Errors
    /// A dimension is missing, negative or too large.
    pub fn bind(&self, dimensions: &Bindings) -> Result<Plan, RunError> {
        self.plan(Section::Call, dimensions)
    }

    /// What each kernel of a plan does, in order.
    pub fn costs(&self, plan: &Plan) -> impl Iterator<Item = Cost> {
        let kernels = &self.formulas(plan.section).kernels;
        // Of another program's plan nothing is known.
        kernels.iter().map(|kind| plan.kinds.get(*kind).map_or_else(Cost::default, |bound| bound.cost))
    }

    /// Makes a plan one for other dimensions; it keeps its memory, which grows by half where that is too little, and its places
    /// where tensors are as large as before. On an error it stays as it was.
    ///
    /// # Errors
    /// As [`Compiled::bind`]; the plan is of another program.
    pub fn rebind(&self, plan: &mut Plan, dimensions: &Bindings) -> Result<(), RunError> {
        if plan.compiled != self.id {
            return Err(RunError::Plan);
        }
        let (symbols, values) = self.evaluate(plan.section, dimensions)?;
        plan.fill(self, symbols, &values);
        Ok(())
    }

    /// Dimensions with the number of lanes, which is a symbol of loop programs and of packed operands.
    pub(crate) fn known<'d>(&self, dimensions: &'d Bindings) -> Sizes<'d> {
        Sizes { dimensions, lanes: bodies::lanes(&self.target) }
    }

    /// The formulas of a section; made when they are first asked for.
    pub(crate) fn formulas(&self, section: Section) -> &Formulas {
        let cell = match section {
            Section::Load => &self.formulas[0],
            Section::Call => &self.formulas[1],
        };
        cell.get_or_init(|| Formulas::new(&self.program, section))
    }

    /// That there are no `bytes` of memory for what buffers take, each so many bytes.
    pub(crate) fn no_memory(
        &self,
        bytes: usize,
        known: Sizes<'_>,
        taken: impl Iterator<Item = usize>,
    ) -> RunError {
        let largest = self.program.buffers.iter().zip(taken).max_by_key(|(_, bytes)| *bytes);
        let largest = largest.filter(|(_, bytes)| *bytes > 0).map(|(buffer, bytes)| Part {
            tensor: buffer.name.clone(),
            shape: buffer.shape.iter().map(|d| d.eval(&known).unwrap_or(0)).collect(),
            bytes,
        });
        RunError::Memory { bytes, largest }
    }

    pub(crate) fn plan(&self, section: Section, dimensions: &Bindings) -> Result<Plan, RunError> {
        let (symbols, values) = self.evaluate(section, dimensions)?;
        let mut plan = Plan {
            compiled: self.id,
            symbols: Vec::new(),
            section,
            counts: Vec::new(),
            sizes: Vec::new(),
            offsets: Vec::new(),
            placed: 0,
            arena: 0,
            scratch: 0,
            kinds: Vec::new(),
            extents: Vec::new(),
            slack: 0,
            idle: Mutex::new(Vec::new()),
        };
        plan.fill(self, symbols, &values);
        Ok(plan)
    }

    /// The values of the program's symbols and of a section's formulas.
    fn evaluate(&self, section: Section, dimensions: &Bindings) -> Result<(Vec<i64>, Values), RunError> {
        let symbol = |s: &Name| match (section, dimensions.get(s)) {
            (_, Some(value)) => Ok(*value),
            // Kernels that run once need those that the shapes of parameters fix, and no others.
            (Section::Load, None) => Ok(0),
            (Section::Call, None) => Err(DimError::Unbound(s.into())),
        };
        let symbols = self.program.dimensions.iter().map(symbol).collect::<Result<_, DimError>>()?;
        Ok((symbols, self.formulas(section).values(&self.program, self.known(dimensions))?))
    }

    /// What a kernel does, and how many threads are worth it.
    fn cost(&self, of: &KernelFormulas, items: usize, sizes: &[(DimAt, i64)], values: &Values) -> Cost {
        let value = |at: DimAt| values.wished[at];
        let is_idle = match of.condition.map(|(left, right)| (value(left), value(right))) {
            Some((Some(left), Some(right))) => left >= right,
            Some((None, _) | (_, None)) | None => false,
        };
        if items == 0 || is_idle {
            return Cost::default();
        }
        let flops = value(of.flops).map_or(u64::MAX, |flops| u64::try_from(flops).unwrap_or(0));
        let count = |size: &usize| values.sizes[*size].0;
        let written = of.writes.iter().map(count).max().unwrap_or(0);
        let moved = |size: &usize| {
            let count = match of.kind {
                // Of a table, the rows that are looked up.
                Kind::Map => count(size).min(written),
                Kind::Attention | Kind::Gemm | Kind::Rows | Kind::Pack => count(size),
            };
            count as u64 * sizes[*size].1 as u64
        };
        let bytes = of.reads.iter().chain(&of.writes).map(moved).sum();
        // A guess at the time that one thread needs: the longer of computing and of moving.
        let rate = |n: i64| u64::try_from(n).unwrap_or(1).max(1);
        let of = self.threading;
        let nanoseconds = (flops / rate(of.flops_per_ns)).max(bytes / rate(of.bytes_per_ns));
        let worth = usize::try_from(nanoseconds / rate(of.worth_ns)).unwrap_or(usize::MAX);
        Cost { flops, bytes, threads: worth.clamp(1, self.pool.threads().min(items)) }
    }
}

impl Plan {
    /// Takes over the values of its section's formulas.
    fn fill(&mut self, compiled: &Compiled, symbols: Vec<i64>, values: &Values) {
        let formulas = compiled.formulas(self.section);
        self.symbols = symbols;
        let size = |of: &Option<usize>| of.map_or((0, 0), |size| values.sizes[size]);
        self.counts.clear();
        self.counts.extend(formulas.buffers.iter().map(|of| size(of).0));
        let bytes = || {
            let sizes = formulas.buffers.iter().enumerate();
            sizes.map(|(at, of)| if formulas.outline.has_place(at) { size(of).1 } else { 0 })
        };
        if !self.sizes.iter().copied().eq(bytes()) {
            self.sizes.clear();
            self.sizes.extend(bytes());
            let arena = formulas.outline.place(&self.sizes);
            (self.offsets, self.arena) = (arena.offsets, arena.size);
            self.placed += 1;
        }
        self.kinds.resize_with(formulas.kinds.len(), Bound::default);
        self.scratch = 0;
        for (bound, of) in self.kinds.iter_mut().zip(&formulas.kinds) {
            let mut used = 0;
            bound.slots.clear();
            for size in &of.slots {
                bound.slots.push(used);
                used += values.sizes[*size].1;
            }
            self.scratch = self.scratch.max(used);
            bound.items = usize::try_from(values.needed[of.items]).unwrap_or(0);
            bound.cost = compiled.cost(of, bound.items, &formulas.sizes, values);
        }
        self.extents.clear();
        // Where there is no value, no kernel of the section checks against it.
        self.extents.extend(formulas.extents.iter().map(|at| values.wished[*at].unwrap_or(0)));
        let bytes = self.working_bytes(compiled.pool.threads());
        let idle = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner);
        let held = idle.len();
        idle.retain(|workspace| workspace.region.bytes() >= bytes);
        if idle.len() < held {
            self.slack = bytes / 2;
        }
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
        let region = Region::new(bytes + self.slack).or_else(|| Region::new(bytes));
        let region = region.ok_or_else(|| {
            let symbols = compiled.program.dimensions.iter().cloned().zip(self.symbols.iter().copied());
            let placed = self.offsets.iter().zip(&self.sizes);
            let taken = placed.map(|(offset, size)| offset.map_or(0, |_| *size));
            compiled.no_memory(bytes, compiled.known(&symbols.collect()), taken)
        })?;
        let cells = self.cells();
        Ok(Workspace {
            region,
            places: None,
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
        ThreadCells::slot(self.kinds.iter().map(|k| k.slots.len()).max().unwrap_or(0))
    }
}
