//! Programs to functions: every body and every loop nest once, in one module.
//!
//! What a function is called with is the business of [`run`](crate::Compiled::run).
//!
//! [`loops`] makes the functions of a program by means of [`code`], which call those of [`bodies`]; [`formulas`] are what its calls need
//! of it.

pub(crate) mod code;
pub(crate) mod formulas;
pub(crate) mod loops;

use self::formulas::Formulas;
use self::loops::Nest;
use crate::bodies;
use crate::machine_code::{self, MachineCode};
use crate::pool::Pool;
use crate::target::{IsaChoice, Target, TargetError};
use crate::tuning::Threading;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{Function, Signature};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Linkage, Module};
use salient_tile::{BufferId, Kernel, Program};
use salient_vector::Body;
use salient_vector::body::Section;
use std::fmt::{Debug, Display, Formatter, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// How a program is compiled and run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which vectors to use.
    pub isa: IsaChoice,
    /// How many threads run a kernel; at least one.
    pub threads: usize,
    /// When they are called.
    pub threading: Threading,
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

impl CompileError {
    fn kernel(kernel: &str, why: impl Display) -> CompileError {
        CompileError::Kernel { kernel: kernel.to_owned(), why: why.to_string() }
    }
}

/// A loop nest in memory: see [`loops`] for its parameters.
pub(crate) type NestFn = unsafe extern "C" fn(*const i64, *const i64, *const i64, i64, i64);

/// The code of a kernel.
pub(crate) struct Code {
    pub(crate) function: NestFn,
    /// Whose addresses it takes.
    pub(crate) buffers: Vec<BufferId>,
}

/// Machine code of a program, for any dimensions. Any number of threads may use it at once.
pub struct Compiled {
    /// Tells which plans are its own.
    pub(crate) id: u64,
    pub(crate) program: Program,
    pub(crate) target: Target,
    /// Of loading and of a call.
    pub(crate) formulas: [OnceLock<Formulas>; 2],
    /// By kernel.
    pub(crate) code: Vec<Code>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) threading: Threading,
    /// Freed when dropped; `code` points into it. Behind a lock only because a module is not `Sync`: nothing uses it after
    /// compilation.
    module: Mutex<Option<JITModule>>,
}

impl Debug for Compiled {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("program", &self.program.name).field("target", &self.target).finish()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let module = self.module.get_mut().ok().and_then(Option::take);
        if let Some(module) = module {
            // SAFETY: the only pointers into the module's code are in `self.code`, which are called only through `&self` and
            // so by nobody any more.
            unsafe { module.free_memory() };
        }
    }
}

/// The functions of a program's bodies and nests. Those that are the same in several kernels exist once.
struct Functions<'p> {
    program: &'p Program,
    /// The first body with that code, and the kernel that has it.
    bodies: Vec<(&'p Body, &'p Kernel, FuncId)>,
    nests: Vec<(Nest, FuncId)>,
}

impl<'p> Functions<'p> {
    fn new(program: &'p Program) -> Functions<'p> {
        Functions { program, bodies: Vec::new(), nests: Vec::new() }
    }

    /// The nest of a kernel, the buffers that it numbers, and its function once it has one. New bodies are handed to `define`
    /// with a name unique in the module.
    fn nest(
        &mut self,
        kernel: &'p Kernel,
        define: &mut dyn FnMut(&str, &'p Body) -> Result<FuncId, CompileError>,
    ) -> Result<(Nest, Vec<BufferId>, Option<FuncId>), CompileError> {
        let mut ids = Vec::new();
        for body in &kernel.bodies {
            let known = self.bodies.iter().find(|(known, ..)| same_code(known, body));
            ids.push(match known {
                Some((_, _, id)) => *id,
                None => {
                    let id = define(&format!("body.{}.{}", self.bodies.len(), body.name), body)?;
                    self.bodies.push((body, kernel, id));
                    id
                }
            });
        }
        let (nest, buffers) = Nest::of(self.program, kernel, ids);
        let known = self.nests.iter().find(|(known, _)| *known == nest).map(|(_, id)| *id);
        Ok((nest, buffers, known))
    }
}

/// Whether two bodies differ in names only.
fn same_code(a: &Body, b: &Body) -> bool {
    std::ptr::eq(a, b)
        || a.types == b.types
            && a.sections == b.sections
            && a.params.iter().map(|p| p.value).eq(b.params.iter().map(|p| p.value))
}

impl Compiled {
    /// Compiles every kernel for this machine.
    ///
    /// # Errors
    /// See [`CompileError`].
    pub fn new(program: Program, options: &Options) -> Result<Compiled, CompileError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let target = Target::host(options.isa)?;
        let pool = Pool::shared(options.threads, options.threading.looks).map_err(CompileError::Threads)?;
        let mut module = target.module()?;
        let made = define(&program, &target, &mut module, &pool);
        let finalised = made.and_then(|made| {
            module.finalize_definitions().map_err(|e| CompileError::kernel(&program.name, e))?;
            Ok(made)
        });
        let made = match finalised {
            Ok(made) => made,
            Err(error) => {
                // SAFETY: no address of this module was ever asked for.
                unsafe { module.free_memory() };
                return Err(error);
            }
        };
        let code = made
            .into_iter()
            .map(|(id, buffers)| {
                let code = module.get_finalized_function(id);
                // SAFETY: the function was defined with `loops::signature`, of which `NestFn` is the Rust form.
                let function = unsafe { std::mem::transmute::<*const u8, NestFn>(code) };
                Code { function, buffers }
            })
            .collect();
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Compiled {
            id,
            program,
            target,
            formulas: Default::default(),
            code,
            pool,
            threading: options.threading,
            module: Mutex::new(Some(module)),
        })
    }

    /// What was compiled.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The machine that it was compiled for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Cranelift's form of every loop nest and of every body.
    pub fn clif(&self) -> String {
        let loops = |context: &mut Context| context.func.display().to_string();
        self.listing(&loops, &|body| bodies::text(&self.target, body).unwrap_or_else(|e| e.to_string()))
    }

    /// The machine code of every loop nest and of every body, as assembly.
    pub fn asm(&self) -> String {
        let loops = |context: &mut Context| {
            context.set_disasm(true);
            let compiler = self.target.compiler_of(&context.func);
            match context.compile(compiler, &mut Default::default()) {
                Ok(code) => code.vcode.clone().unwrap_or_default(),
                Err(e) => e.inner.to_string(),
            }
        };
        self.listing(&loops, &|body| bodies::assembly(&self.target, body).unwrap_or_else(|e| e.to_string()))
    }

    fn listing(&self, loops: &dyn Fn(&mut Context) -> String, body: &dyn Fn(&Body) -> String) -> String {
        let mut module = match self.target.module() {
            Ok(module) => module,
            Err(error) => return format!("; {error}\n"),
        };
        let out = self.print(&mut module, loops, body).unwrap_or_else(|error| format!("; {error}\n"));
        // SAFETY: no address of this module was ever asked for.
        unsafe { module.free_memory() };
        out
    }

    /// Each nest with the kernels that run it, and after it the bodies that no nest before it calls.
    fn print(
        &self,
        module: &mut JITModule,
        loops: &dyn Fn(&mut Context) -> String,
        body: &dyn Fn(&Body) -> String,
    ) -> Result<String, CompileError> {
        let mut functions = Functions::new(&self.program);
        // The text of each nest, and the names of the kernels that run it.
        let mut texts: Vec<(String, Vec<&str>)> = Vec::new();
        for (at, kernel) in self.program.kernels.iter().enumerate() {
            let before = functions.bodies.len();
            let (nest, _, known) = functions.nest(kernel, &mut |name, body| {
                let signature = bodies::signature(body, &self.target);
                declare(module, &kernel.name, name, &signature)
            })?;
            if let Some(at) = known.and_then(|id| functions.nests.iter().position(|(_, known)| *known == id))
            {
                texts[at].1.push(&kernel.name);
                continue;
            }
            let signature = loops::signature(&self.target);
            let id = declare(module, &kernel.name, &format!("kernel.{at}"), &signature)?;
            let function = loops::emit(&nest, &self.program.dimensions, module, &self.target);
            let mut text = loops(&mut Context::for_function(function)).trim_end().to_owned();
            text.push('\n');
            for (at, body) in kernel.bodies.iter().enumerate() {
                let _ = writeln!(text, "; function {at} is {}", body.name);
            }
            for (new, ..) in &functions.bodies[before..] {
                let _ = writeln!(text, "\n; body {} of {}\n{}", new.name, kernel.name, body(new).trim_end());
            }
            functions.nests.push((nest, id));
            texts.push((text, vec![&kernel.name]));
        }
        let with_names = texts.iter().map(|(text, names)| format!("; kernel {}\n{text}", names.join(", ")));
        Ok(with_names.collect::<Vec<String>>().join("\n"))
    }
}

fn declare(
    module: &mut JITModule,
    kernel: &str,
    name: &str,
    signature: &Signature,
) -> Result<FuncId, CompileError> {
    let id = module.declare_function(name, Linkage::Local, signature);
    id.map_err(|e| CompileError::kernel(kernel, e))
}

/// The buffer of a copy of a kernel that stands for one of the kernel's.
fn counterpart(of: &Kernel, copy: &Kernel, buffer: BufferId) -> BufferId {
    let pairs = of.reads.iter().zip(&copy.reads).chain(of.writes.iter().zip(&copy.writes));
    let found = pairs.into_iter().find(|(own, _)| **own == buffer);
    *found.expect("a kernel reads or writes the buffers whose addresses it takes").1
}

/// A function that is to be compiled.
enum Job<'p> {
    Body(&'p Body),
    Nest(Box<Function>),
}

impl Job<'_> {
    /// How many instructions it has, to which the time that it takes is about proportional.
    fn size(&self) -> usize {
        match self {
            Job::Body(body) => (body.sections.iter())
                .map(|section| match section {
                    Section::Straight(insts) => insts.len(),
                    Section::Loop(l) => l.insts.len() * l.unroll as usize,
                })
                .sum(),
            Job::Nest(function) => function.dfg.num_insts(),
        }
    }
}

/// Defines every function of a program; gives that of each kernel, with the buffers whose addresses it takes. Functions are
/// declared one after the other, compiled on all threads of the pool, and put into the module in the order in which they
/// were declared: the code is the same for any number of threads.
fn define(
    program: &Program,
    target: &Target,
    module: &mut JITModule,
    pool: &Pool,
) -> Result<Vec<(FuncId, Vec<BufferId>)>, CompileError> {
    let mut functions = Functions::new(program);
    let mut made: Vec<(FuncId, Vec<BufferId>)> = Vec::new();
    let mut jobs: Vec<(&Kernel, FuncId, Job<'_>)> = Vec::new();
    for (at, kernel) in program.kernels.iter().enumerate() {
        if let Some(Some(of)) = program.copies.get(at)
            && let Some((id, buffers)) = made.get(*of)
        {
            let original = &program.kernels[*of];
            made.push((*id, buffers.iter().map(|b| counterpart(original, kernel, *b)).collect()));
            continue;
        }
        let (nest, buffers, known) = functions.nest(kernel, &mut |name, body| {
            let id = declare(module, &kernel.name, name, &bodies::signature(body, target))?;
            jobs.push((kernel, id, Job::Body(body)));
            Ok(id)
        })?;
        let id = match known {
            Some(id) => id,
            None => {
                let name = format!("kernel.{at}.{}", kernel.name);
                let id = declare(module, &kernel.name, &name, &loops::signature(target))?;
                let function = loops::emit(&nest, &program.dimensions, module, target);
                jobs.push((kernel, id, Job::Nest(Box::new(function))));
                functions.nests.push((nest, id));
                id
            }
        };
        made.push((id, buffers));
    }
    // The longest first, so that no thread begins one while others have nothing left.
    let mut order = Vec::from_iter(0..jobs.len());
    order.sort_by_key(|at| std::cmp::Reverse(jobs[*at].2.size()));
    let compiled = machine_code::on_all(pool, jobs.len(), |at| {
        let (kernel, id, job) = &jobs[order[at]];
        let code = match job {
            Job::Body(body) => bodies::compile(target, *id, body).map_err(|e| e.to_string()),
            Job::Nest(function) => MachineCode::of_function(*id, (**function).clone(), target),
        };
        code.map_err(|why| CompileError::kernel(&kernel.name, why))
    });
    let mut compiled = Vec::from_iter(order.into_iter().zip(compiled));
    compiled.sort_by_key(|(at, _)| *at);
    for ((kernel, ..), (_, code)) in jobs.iter().zip(compiled) {
        code?.define(module).map_err(|why| CompileError::kernel(&kernel.name, why))?;
    }
    Ok(made)
}
