//! What runs a model: compiled code or the interpreter, behind one pair of types.
//!
//! Checks nothing: a session hands over arrays that fit.

use crate::error::Error;
use crate::options::Options;
use crate::pipeline::{fuse, schedule};
use crate::stage::Engine;
use salient_ir::array::Array;
use salient_ir::eval::{Data, eval};
use salient_ir::{Bindings, Graph};
use salient_jit::{CompileError, Compiled, Plan, RunError};
use salient_tile::Program;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long each step took, in order.
pub(crate) type Timings = Vec<(&'static str, Duration)>;

/// A model made ready for an engine. One for all dimensions.
#[derive(Debug)]
pub(crate) enum Code {
    /// Machine code, and how many threads run it.
    Native(Box<Compiled>, usize),
    /// The interpreter needs the graph only.
    Oracle,
}

/// What an engine keeps for one set of dimensions and weights.
#[derive(Debug)]
pub(crate) enum Prepared<'a> {
    /// Sizes and places in memory, and how many bytes of it a call works in.
    Native(&'a Compiled, Box<Plan>, usize),
    /// The parameters by path, as the interpreter takes them.
    Oracle(BTreeMap<String, Array>),
}

/// The borrowed arrays of one call, in the order of the graph's inputs and parameters, of the declared shapes
/// and of the dtypes in which they are computed with.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'c> {
    pub(crate) inputs: &'c [Cow<'c, Array>],
    pub(crate) params: &'c [Cow<'c, Array>],
}

impl Code {
    /// Makes code; adds how long each step took.
    pub(crate) fn new(graph: &Graph, options: &Options, timings: &mut Timings) -> Result<Code, Error> {
        match options.engine {
            Engine::Oracle => Ok(Code::Oracle),
            Engine::Jit | Engine::Unfused => {
                let mut timed = |step, since: Instant| timings.push((step, since.elapsed()));
                let before = Instant::now();
                let fused = fuse(graph, options);
                timed("graph to fused graph", before);
                let before = Instant::now();
                let program = schedule(&fused, options);
                timed("fused graph to kernels", before);
                let before = Instant::now();
                let compiled = emit(program, options)?;
                timed("kernels to machine code", before);
                Ok(Code::Native(Box::new(compiled), threads(options)))
            }
        }
    }
}

/// Kernels to machine code.
pub(crate) fn emit(program: Program, options: &Options) -> Result<Compiled, Error> {
    let options = salient_jit::Options { isa: options.isa, threads: threads(options) };
    Ok(Compiled::new(program, &options)?)
}

fn threads(options: &Options) -> usize {
    options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(
        code: &'a Code,
        graph: &Graph,
        dimensions: &Bindings,
        params: &[Cow<'_, Array>],
    ) -> Result<Prepared<'a>, Error> {
        match code {
            Code::Native(compiled, threads) => {
                let plan = compiled.bind(dimensions)?;
                let bytes = plan.working_bytes(*threads);
                Ok(Prepared::Native(compiled, Box::new(plan), bytes))
            }
            Code::Oracle => {
                let names = graph.params().iter().map(|p| p.name.to_string());
                Ok(Prepared::Oracle(names.zip(params.iter().map(|a| a.clone().into_owned())).collect()))
            }
        }
    }

    pub(crate) fn working_bytes(&self) -> Option<usize> {
        match self {
            Prepared::Native(_, _, bytes) => Some(*bytes),
            Prepared::Oracle(_) => None,
        }
    }

    /// The program that runs, if there is one.
    pub(crate) fn program(&self) -> Option<&Program> {
        match self {
            Prepared::Native(compiled, ..) => Some(compiled.program()),
            Prepared::Oracle(_) => None,
        }
    }

    /// `watch` is told of each kernel, by position, and how long it took.
    pub(crate) fn run(
        &self,
        graph: &Graph,
        dimensions: &Bindings,
        arguments: Arguments<'_>,
        outputs: &mut [Array],
        watch: &mut dyn FnMut(usize, Duration),
    ) -> Result<(), Error> {
        match self {
            Prepared::Native(compiled, plan, _) => {
                let inputs: Vec<&Array> = arguments.inputs.iter().map(|a| &**a).collect();
                let params: Vec<&Array> = arguments.params.iter().map(|a| &**a).collect();
                Ok(compiled.run_watched(plan, &inputs, &params, outputs, watch)?)
            }
            Prepared::Oracle(params) => {
                let names = graph.inputs().iter().map(|p| p.name.to_string());
                let inputs = names.zip(arguments.inputs.iter().map(|a| a.clone().into_owned())).collect();
                let results = eval(graph, dimensions, Data { inputs: &inputs, params })
                    .map_err(|e| Error::Run(e.to_string()))?;
                for (memory, (_, array)) in outputs.iter_mut().zip(results) {
                    *memory = array;
                }
                Ok(())
            }
        }
    }
}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Error {
        match error {
            // The machine, or what was asked of it.
            CompileError::Target(e) => Error::Target(e.to_string()),
            CompileError::Kernel { .. } | CompileError::Threads(_) => Error::Code(error.to_string()),
        }
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Error {
        Error::Run(error.to_string())
    }
}
