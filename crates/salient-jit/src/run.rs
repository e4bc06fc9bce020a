//! Programs as callable code: compiled once, bound to dimensions, run any number of times.
//!
//! All checks of shapes and dtypes are made before any kernel runs; a kernel trusts its addresses.

use crate::bodies;
use crate::loops::{self, Layout};
use crate::pool::Pool;
use crate::target::{IsaChoice, Target, TargetError};
use cranelift_codegen::Context;
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Linkage, Module};
use salient_ir::array::{Array, Data};
use salient_ir::{Bindings, DType, DimError};
use salient_tile::memory::{self, round_up};
use salient_tile::{Buffer, Program, Role};
use salient_vector::Body;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Mutex;

/// How a program is compiled and run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which vectors to use.
    pub isa: IsaChoice,
    /// How many threads run a kernel; at least one.
    pub threads: usize,
}

/// Why there is no code for a program.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The machine, or what was asked of it.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A bug: a body or a loop program that cannot be compiled.
    #[error("the kernel `{kernel}` cannot be compiled: {why}")]
    Kernel {
        /// Which.
        kernel: String,
        /// What the code generator says.
        why: String,
    },
    /// Threads cannot be started.
    #[error("no threads: {0}")]
    Threads(String),
}

/// Why a bound program does not run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// A dimension that cannot be computed.
    #[error(transparent)]
    Dim(#[from] DimError),
    /// A dimension that is negative.
    #[error("`{tensor}` has an axis of negative length")]
    Negative {
        /// The tensor.
        tensor: String,
    },
    /// The number of tensors given, or the dtype or number of elements of one.
    #[error("`{tensor}` is not what the program was bound to: {why}")]
    Mismatch {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        why: String,
    },
    /// An integer that compiled code cannot hold.
    #[error("`{tensor}` holds {value}, which does not fit 32 bits")]
    TooLarge {
        /// The tensor.
        tensor: String,
        /// The value.
        value: i64,
    },
    /// An index that leaves its axis.
    #[error("index {index} is outside the axis `{axis}` of length {extent} of `{tensor}`")]
    OutOfRange {
        /// The tensor that is indexed.
        tensor: String,
        /// The axis.
        axis: String,
        /// Its length.
        extent: i64,
        /// The index.
        index: i32,
    },
}

type KernelFn = unsafe extern "C" fn(*const i64, *const i64, i64, i64);

/// Machine code of a program, for any dimensions.
pub struct Compiled {
    program: Program,
    target: Target,
    functions: Vec<KernelFn>,
    pool: Pool,
    /// Freed when dropped; `functions` point into it. Behind a lock only because a module is not `Sync`: nothing uses it
    /// after compilation.
    module: Mutex<Option<JITModule>>,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("program", &self.program.name).field("target", &self.target).finish()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let module = self.module.get_mut().ok().and_then(Option::take);
        if let Some(module) = module {
            // SAFETY: the only pointers into the module's code are `self.functions`, which are called only through
            // `&self` and so by nobody any more.
            unsafe { module.free_memory() };
        }
    }
}

/// Bodies that are the same in several kernels are compiled once.
struct Bodies<'p> {
    known: Vec<(&'p Body, FuncId)>,
}

impl<'p> Bodies<'p> {
    fn define(
        &mut self,
        module: &mut JITModule,
        target: &Target,
        kernel: &str,
        body: &'p Body,
    ) -> Result<FuncId, CompileError> {
        if let Some((_, id)) = self.known.iter().find(|(known, _)| *known == body) {
            return Ok(*id);
        }
        let name = format!("body.{}.{}", self.known.len(), body.name);
        let id = bodies::define(module, target, &name, body).map_err(|e| failure(kernel, &e))?;
        self.known.push((body, id));
        Ok(id)
    }
}

fn failure(kernel: &str, why: &dyn std::fmt::Display) -> CompileError {
    CompileError::Kernel { kernel: kernel.to_owned(), why: why.to_string() }
}

impl Compiled {
    /// Compiles every kernel for this machine.
    ///
    /// # Errors
    /// See [`CompileError`].
    pub fn new(program: Program, options: &Options) -> Result<Compiled, CompileError> {
        let target = Target::host(options.isa)?;
        let pool = Pool::new(options.threads).map_err(CompileError::Threads)?;
        let mut module = target.module()?;
        let mut known = Bodies { known: Vec::new() };
        let mut ids = Vec::new();
        for (at, kernel) in program.kernels.iter().enumerate() {
            let mut bodies = Vec::new();
            for body in &kernel.bodies {
                bodies.push(known.define(&mut module, &target, &kernel.name, body)?);
            }
            let function =
                loops::emit(&program, kernel, &bodies, bodies::lanes(&target), &mut module, &target);
            let id = module
                .declare_function(
                    &format!("kernel.{at}.{}", kernel.name),
                    Linkage::Local,
                    &loops::signature(&target),
                )
                .map_err(|e| failure(&kernel.name, &e))?;
            let mut context = Context::for_function(function);
            module.define_function(id, &mut context).map_err(|e| failure(&kernel.name, &e))?;
            ids.push(id);
        }
        module.finalize_definitions().map_err(|e| failure(&program.name, &e))?;
        let functions = ids
            .into_iter()
            .map(|id| {
                let code = module.get_finalized_function(id);
                // SAFETY: the function was defined with `loops::signature`, of which `KernelFn` is the Rust form.
                unsafe { std::mem::transmute::<*const u8, KernelFn>(code) }
            })
            .collect();
        Ok(Compiled { program, target, functions, pool, module: Mutex::new(Some(module)) })
    }

    /// What was compiled.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The machine that it was compiled for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Everything that depends on the dimensions: sizes, counts, the places of temporaries.
    ///
    /// # Errors
    /// A dimension is missing, negative or too large.
    pub fn bind(&self, dimensions: &Bindings) -> Result<Plan, RunError> {
        Plan::new(self, dimensions)
    }

    /// Cranelift's form of every loop nest and of every body.
    pub fn clif(&self) -> String {
        self.listing(&|context| context.func.display().to_string(), &|body| {
            bodies::text(&self.target, body).unwrap_or_else(|e| e.to_string())
        })
    }

    /// The machine code of every loop nest and of every body, as assembly.
    pub fn asm(&self) -> String {
        let loops = |context: &mut Context| {
            context.set_disasm(true);
            match context.compile(&**self.target.cranelift(), &mut Default::default()) {
                Ok(code) => code.vcode.clone().unwrap_or_default(),
                Err(e) => e.inner.to_string(),
            }
        };
        self.listing(&loops, &|body| bodies::assembly(&self.target, body).unwrap_or_else(|e| e.to_string()))
    }

    fn listing(&self, loops: &dyn Fn(&mut Context) -> String, body: &dyn Fn(&Body) -> String) -> String {
        let mut out = String::new();
        let Ok(mut module) = self.target.module() else { return out };
        let mut shown: Vec<&Body> = Vec::new();
        for (number, kernel) in self.program.kernels.iter().enumerate() {
            let mut ids = Vec::new();
            for (at, b) in kernel.bodies.iter().enumerate() {
                let name = format!("{number}.{at}.{}", b.name);
                let signature = bodies::signature(b, &self.target);
                ids.push(module.declare_function(&name, Linkage::Import, &signature).expect("names differ"));
            }
            let lanes = bodies::lanes(&self.target);
            let function = loops::emit(&self.program, kernel, &ids, lanes, &mut module, &self.target);
            let _ = writeln!(out, "; kernel {}", kernel.name);
            let _ = writeln!(out, "{}", loops(&mut Context::for_function(function)).trim_end());
            for b in &kernel.bodies {
                if !shown.contains(&b) {
                    shown.push(b);
                    let _ = writeln!(out, "\n; body {} of {}\n{}", b.name, kernel.name, body(b).trim_end());
                }
            }
            out.push('\n');
        }
        // SAFETY: nothing of this module was ever given out.
        unsafe { module.free_memory() };
        out
    }
}

/// Below so many floating-point operations a second thread costs more than it brings.
const WORTH_A_THREAD: i64 = 100_000;

/// What one kernel needs for one set of dimensions.
#[derive(Debug)]
struct Bound {
    items: usize,
    /// Parts that the items are split into.
    parts: usize,
    /// Bytes from the start of a thread's scratch memory, by slot.
    slots: Vec<usize>,
}

/// A program with its dimensions. Any number of threads may run it at once.
#[derive(Debug)]
pub struct Plan {
    symbols: Vec<i64>,
    /// Elements, by buffer.
    counts: Vec<usize>,
    /// Bytes from the start of the arena, by buffer: temporaries, and copies of integers at the border.
    offsets: Vec<Option<usize>>,
    arena: usize,
    /// Bytes of scratch memory of one thread.
    scratch: usize,
    kernels: Vec<Bound>,
    extents: Vec<i64>,
    /// Memory of calls that have ended, for calls to come.
    idle: Mutex<Vec<Workspace>>,
}

/// The memory of one call.
#[derive(Debug)]
struct Workspace {
    memory: Vec<Line>,
    context: Vec<i64>,
    slots: Vec<i64>,
    status: Box<[i32; 2]>,
}

/// A cache line: the unit of the workspace, so that everything in it is aligned.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Plan {
    fn new(compiled: &Compiled, dimensions: &Bindings) -> Result<Plan, RunError> {
        let program = &compiled.program;
        let symbols = program
            .symbols
            .iter()
            .map(|s| dimensions.get(s).copied().ok_or_else(|| DimError::Unbound(s.clone()).into()))
            .collect::<Result<Vec<i64>, RunError>>()?;
        let mut counts = Vec::new();
        for buffer in &program.buffers {
            let mut count = 1usize;
            for dim in &buffer.shape {
                let n = dim.eval(dimensions)?;
                let n = usize::try_from(n).map_err(|_| RunError::Negative { tensor: buffer.name.clone() })?;
                count = count.checked_mul(n).ok_or_else(|| DimError::Overflow(dim.clone()))?;
            }
            counts.push(count);
        }
        let mut arena = memory::plan(program, dimensions)?;
        for ((at, buffer), count) in program.buffers.iter().enumerate().zip(&counts) {
            if is_narrowed(buffer) {
                arena.offsets[at] = Some(arena.size);
                arena.size += round_up(count * 4);
            }
        }
        // Symbols of the loop programs that are no dimensions: the number of lanes.
        let mut known = dimensions.clone();
        known.insert(salient_tile::LANES.into(), bodies::lanes(&compiled.target) as i64);
        let mut kernels = Vec::new();
        let mut scratch = 0;
        for kernel in &program.kernels {
            let items = usize::try_from(kernel.items.eval(&known)?).unwrap_or(0);
            let mut used = 0;
            let mut slots = Vec::new();
            for slot in &kernel.scratch {
                slots.push(used);
                let count = usize::try_from(slot.count.eval(&known)?).unwrap_or(0);
                used += round_up(count * 4);
            }
            scratch = scratch.max(used);
            let flops = kernel.flops.eval(&known).unwrap_or(i64::MAX);
            let parts =
                usize::try_from(flops / WORTH_A_THREAD).unwrap_or(1).clamp(1, compiled.pool.threads());
            kernels.push(Bound { items, parts, slots });
        }
        let extents = program.checks.iter().map(|c| c.extent.eval(dimensions)).collect::<Result<_, _>>()?;
        let (offsets, arena) = (arena.offsets, arena.size);
        Ok(Plan { symbols, counts, offsets, arena, scratch, kernels, extents, idle: Mutex::new(Vec::new()) })
    }

    /// Bytes of working memory of a call: temporaries, copies at the border, and the scratch memory of every thread.
    pub fn working_bytes(&self, threads: usize) -> usize {
        self.arena + threads * self.scratch
    }

    fn workspace(&self, compiled: &Compiled) -> Workspace {
        if let Some(idle) = self.idle.lock().ok().and_then(|mut list| list.pop()) {
            return idle;
        }
        let threads = compiled.pool.threads();
        let lines = (self.arena + threads * self.scratch) / 64;
        let slots = compiled.program.kernels.iter().map(|k| k.scratch.len()).max().unwrap_or(0);
        Workspace {
            memory: vec![Line([0; 64]); lines],
            context: vec![0; Layout::of(&compiled.program).len()],
            slots: vec![0; slots * threads],
            status: Box::new([0; 2]),
        }
    }
}

/// Whether the caller's integers are wider than those of compiled code.
fn is_narrowed(buffer: &Buffer) -> bool {
    buffer.dtype == DType::I64 && buffer.role != Role::Temporary
}

/// The address of an array's elements, if they lie in memory as compiled code reads them.
fn elements(array: &Array) -> *const u8 {
    match array.data() {
        Data::F32(v) => v.as_ptr().cast(),
        Data::I32(v) => v.as_ptr().cast(),
        Data::I64(v) => v.as_ptr().cast(),
        Data::F16(v) | Data::BF16(v) => v.as_ptr().cast(),
        Data::Bool(v) => v.as_ptr().cast(),
    }
}

impl Compiled {
    /// Runs the program. Arrays are in the order of the graph's inputs, parameters and outputs, of the dtypes that the
    /// program computes with (16-bit floats widened) and of the shapes that it was bound to.
    ///
    /// # Errors
    /// An array does not fit, an integer is too large, or an index leaves its axis.
    pub fn run(
        &self,
        plan: &Plan,
        inputs: &[&Array],
        params: &[&Array],
        outputs: &mut [Array],
    ) -> Result<(), RunError> {
        let mut w = plan.workspace(self);
        let result = self.run_in(plan, &mut w, inputs, params, outputs);
        if let Ok(mut list) = plan.idle.lock() {
            list.push(w);
        }
        result
    }

    fn run_in(
        &self,
        plan: &Plan,
        w: &mut Workspace,
        inputs: &[&Array],
        params: &[&Array],
        outputs: &mut [Array],
    ) -> Result<(), RunError> {
        let layout = Layout::of(&self.program);
        *w.status = [0; 2];
        let base = w.memory.as_mut_ptr().cast::<u8>();
        for (at, buffer) in self.program.buffers.iter().enumerate() {
            let array = match buffer.role {
                Role::Input(k) => inputs.get(k).copied(),
                Role::Param(k) => params.get(k).copied(),
                Role::Output(k) => outputs.get(k),
                Role::Temporary => None,
            };
            if buffer.role != Role::Temporary {
                check(buffer, plan.counts[at], array)?;
            }
            let address: *mut u8 = match (plan.offsets[at], array) {
                (Some(offset), _) => {
                    // SAFETY: the plan places every offset, with its bytes, inside the arena, which `memory` covers.
                    unsafe { base.add(offset) }
                }
                (None, Some(array)) => match buffer.role {
                    Role::Output(k) => elements_mut(&mut outputs[k]),
                    Role::Input(_) | Role::Param(_) | Role::Temporary => elements(array).cast_mut(),
                },
                // A temporary that no kernel touches.
                (None, None) => std::ptr::null_mut(),
            };
            w.context[layout.buffer(at)] = address as i64;
        }
        for (at, value) in plan.symbols.iter().enumerate() {
            w.context[layout.symbol(at)] = *value;
        }
        w.context[layout.status()] = w.status.as_mut_ptr() as i64;
        self.narrow_inputs(plan, w, inputs, params)?;

        let per_thread = self.program.kernels.iter().map(|k| k.scratch.len()).max().unwrap_or(0);
        for (function, bound) in self.functions.iter().zip(&plan.kernels) {
            if bound.items == 0 {
                continue;
            }
            for part in 0..bound.parts {
                for (slot, offset) in bound.slots.iter().enumerate() {
                    // SAFETY: the scratch memory of thread `part` begins behind the arena and those before it, and the plan
                    // sized it for the slots of every kernel.
                    let at = unsafe { base.add(plan.arena + part * plan.scratch + offset) };
                    w.slots[part * per_thread + slot] = at as i64;
                }
            }
            let (context, slots) = (w.context.as_slice(), w.slots.as_slice());
            let work = |part: usize, range: Range<usize>| {
                let slots = &slots[part * per_thread..(part + 1) * per_thread];
                // SAFETY: the code was made for this context and these slots. Every buffer has the number of elements that
                // the loops were given, so that all addresses lie inside; items write disjoint memory, and parts have
                // scratch memory of their own.
                unsafe { function(context.as_ptr(), slots.as_ptr(), range.start as i64, range.end as i64) };
            };
            self.pool.run(bound.items, bound.parts, &work);
        }
        if w.status[0] != 0 {
            let site = w.status[0] as usize - 1;
            let check = &self.program.checks[site];
            let (tensor, axis) = (check.tensor.clone(), check.axis.to_string());
            return Err(RunError::OutOfRange {
                tensor,
                axis,
                extent: plan.extents[site],
                index: w.status[1],
            });
        }
        self.widen_outputs(plan, w, outputs);
        Ok(())
    }

    /// The 32-bit copy of a buffer at the border.
    fn narrowed<'w>(&self, plan: &Plan, w: &'w mut Workspace, at: usize) -> &'w mut [i32] {
        let offset = plan.offsets[at].expect("integers at the border have a place");
        let base = w.memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the plan gave the copy `counts[at]` 32-bit elements at this offset of the arena, aligned to a line;
        // all bytes of the arena are initialised, and nothing else refers to them while `w` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(base.add(offset).cast::<i32>(), plan.counts[at]) }
    }

    fn narrow_inputs(
        &self,
        plan: &Plan,
        w: &mut Workspace,
        inputs: &[&Array],
        params: &[&Array],
    ) -> Result<(), RunError> {
        for (at, buffer) in self.program.buffers.iter().enumerate() {
            let array = match buffer.role {
                Role::Input(k) => inputs[k],
                Role::Param(k) => params[k],
                Role::Output(_) | Role::Temporary => continue,
            };
            let (true, Some(values)) = (is_narrowed(buffer), array.as_i64()) else { continue };
            for (to, value) in self.narrowed(plan, w, at).iter_mut().zip(values) {
                *to = i32::try_from(*value)
                    .map_err(|_| RunError::TooLarge { tensor: buffer.name.clone(), value: *value })?;
            }
        }
        Ok(())
    }

    fn widen_outputs(&self, plan: &Plan, w: &mut Workspace, outputs: &mut [Array]) {
        for (at, buffer) in self.program.buffers.iter().enumerate() {
            let (true, Role::Output(k)) = (is_narrowed(buffer), buffer.role) else { continue };
            if let Some(to) = outputs[k].as_i64_mut() {
                let from = self.narrowed(plan, w, at);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = i64::from(*from));
            }
        }
    }
}

fn check(buffer: &Buffer, count: usize, array: Option<&Array>) -> Result<(), RunError> {
    let why = match array {
        None => "it was not given".to_owned(),
        Some(a) if a.dtype() != buffer.dtype => format!("it holds {}, expected {}", a.dtype(), buffer.dtype),
        Some(a) if a.len() != count => format!("it has {} elements, expected {count}", a.len()),
        Some(_) => return Ok(()),
    };
    Err(RunError::Mismatch { tensor: buffer.name.clone(), why })
}

/// As [`elements`], to be written.
fn elements_mut(array: &mut Array) -> *mut u8 {
    match array.dtype() {
        DType::F32 => array.as_f32_mut().map(|v| v.as_mut_ptr().cast()),
        DType::I32 => array.as_i32_mut().map(|v| v.as_mut_ptr().cast()),
        DType::Bool => array.as_bool_mut().map(|v| v.as_mut_ptr().cast()),
        // Written by way of a narrowed copy; 16-bit floats are never computed.
        DType::I64 | DType::F16 | DType::BF16 => None,
    }
    .unwrap_or(std::ptr::null_mut())
}
