//! What runs a model: compiled code or the interpreter, behind one pair of types.
//!
//! Checks nothing: a session hands over arrays that fit.

use crate::compile::integers::values_of;
use crate::compile::options::Options;
use crate::compile::pipeline::{Compilation, code, code_of_plan, threads};
use crate::compile::stage::Engine;
use crate::report::error::Error;
use crate::report::timings::Timings;
use crate::session::model::Model;
use salient_ir::array::Array;
use salient_ir::eval::{Data, eval};
use salient_ir::integers::Values;
use salient_ir::{Bindings, Graph};
use salient_jit::{CompileError, Compiled, Cost, Inputs, Loaded, Plan, RunError, Watch};
use salient_tile::coded::Codes;
use salient_tile::plan::text::read::ReadPlan;
use salient_tile::{Kernel, Section};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A model made ready for an engine. One for all dimensions.
#[derive(Debug)]
pub(crate) enum Code {
    /// Machine code.
    Native(Box<Native>),
    /// The interpreter needs the graph only.
    Oracle,
}

/// Machine code of a model: that which runs at most sizes, and that for others, if there is any.
#[derive(Debug)]
pub(crate) struct Native {
    plans: Vec<Compilation>,
    /// How many threads run a call.
    threads: usize,
}

impl Native {
    /// Which of its plans runs at these sizes.
    fn at(&self, dimensions: &Bindings) -> usize {
        let holds = |plan: &Compilation| plan.when.as_ref().is_some_and(|when| when.holds(dimensions));
        self.plans.iter().position(holds).unwrap_or(0)
    }

    /// The plan that runs at most sizes: the only one of a model with states.
    fn most(&self) -> &Compiled {
        &self.plans[0].compiled
    }

    /// Whether something holds of one of its plans.
    fn any(&self, holds: impl Fn(&Compiled) -> bool) -> bool {
        self.plans.iter().any(|plan| holds(&plan.compiled))
    }

    /// Whether the range of a parameter, by position, decides whether integers fit.
    fn bounds_param(&self, at: usize) -> bool {
        self.plans.iter().filter_map(|plan| plan.integers.as_ref()).any(|integers| integers.reads_param(at))
    }
}

/// Parameters bound to a model, for calls of any dimensions that agree with their shapes. Shared: a copy is a reference.
#[derive(Clone, Debug)]
pub(crate) enum BoundParameters<'a> {
    /// As compiled code takes them.
    Native(Arc<Parameters<'a>>),
    /// By path, as the interpreter takes them.
    Oracle(Arc<BTreeMap<String, Array>>),
}

/// Parameters that compiled code has seen.
#[derive(Debug)]
pub(crate) struct Parameters<'a> {
    /// What the code of each plan that may run made of them once: that for most sizes first.
    loaded: Vec<Loaded>,
    /// Those that calls still read; others are empty where they were ours.
    arrays: Vec<Cow<'a, Array>>,
    /// What those hold that integers follow from.
    held: Vec<Option<Values>>,
}

/// What an engine keeps for one set of dimensions.
#[derive(Debug)]
pub(crate) enum Prepared<'a> {
    /// The code, which of its plans runs, and the sizes and places in memory of that.
    Native(&'a Native, usize, Box<Plan>),
    /// Nothing.
    Oracle,
}

/// The borrowed arrays of one call, in the order of the graph's inputs and parameters, of the declared shapes
/// and of the dtypes in which they are computed with.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'c> {
    /// An input that is not there is a state that lies in the output which appends to it: see [`Prepared::appends`].
    pub(crate) inputs: &'c [Option<Cow<'c, Array>>],
    pub(crate) params: &'c BoundParameters<'c>,
}

impl Code {
    /// Makes code of a plan; adds how long each step took.
    pub(crate) fn of_plan(read: &ReadPlan, options: &Options, timings: &mut Timings) -> Result<Code, Error> {
        let plans = vec![code_of_plan(read, options, timings)?];
        Ok(Code::Native(Box::new(Native { plans, threads: threads(options) })))
    }

    /// Makes code; adds how long each step took.
    pub(crate) fn new(graph: &Graph, options: &Options, timings: &mut Timings) -> Result<Code, Error> {
        match options.engine {
            Engine::Oracle => Ok(Code::Oracle),
            Engine::Jit | Engine::Unfused => {
                let (most, other) = code(graph, options, timings)?;
                let plans = std::iter::once(most).chain(other).collect();
                Ok(Code::Native(Box::new(Native { plans, threads: threads(options) })))
            }
        }
    }
}

impl Code {
    /// Whether a parameter, by position among the graph's, is read as an array.
    pub(crate) fn needs_param(&self, at: usize) -> bool {
        match self {
            Code::Native(native) => native.any(|plan| plan.needs_param(at)),
            Code::Oracle => true,
        }
    }
}

impl<'a> BoundParameters<'a> {
    /// Makes parameters ready, given in the order of the graph's. What no call reads and nobody else holds is given up.
    pub(crate) fn new(
        code: &Code,
        graph: &Graph,
        dimensions: &Bindings,
        mut params: Vec<Cow<'a, Array>>,
        codes: &Codes<'a>,
    ) -> Result<BoundParameters<'a>, Error> {
        match code {
            Code::Native(native) => {
                let held = held(native, &params, codes);
                if let Some(integers) = &native.plans[0].integers {
                    integers.check(dimensions, |_| None, |at| held[at])?;
                }
                let all: Vec<&Array> = params.iter().map(|a| &**a).collect();
                let load = |plan: &Compilation| plan.compiled.load(dimensions, &all, codes);
                // A plan that no call runs holds nothing.
                let runs =
                    |plan: &&Compilation| plan.when.as_ref().is_none_or(|when| when.may_be_held(dimensions));
                let loaded = native.plans.iter().filter(runs).map(load).collect::<Result<_, _>>()?;
                for (at, array) in params.iter_mut().enumerate() {
                    if let Cow::Owned(own) = array
                        && !native.any(|plan| plan.reads_param(at))
                        && let Ok(empty) = Array::zeros(own.dtype(), vec![0])
                    {
                        *own = empty;
                    }
                }
                Ok(BoundParameters::Native(Arc::new(Parameters { loaded, arrays: params, held })))
            }
            Code::Oracle => {
                let names = graph.params().iter().map(|p| p.name.to_string());
                Ok(BoundParameters::Oracle(Arc::new(
                    names.zip(params.into_iter().map(Cow::into_owned)).collect(),
                )))
            }
        }
    }

    /// A parameter as an array, by its position and its path, where calls may read it so.
    pub(crate) fn array(&self, at: usize, path: &str) -> Option<&Array> {
        match self {
            BoundParameters::Native(bound) => bound.arrays.get(at).map(|array| &**array),
            BoundParameters::Oracle(params) => params.get(path),
        }
    }

    /// Bytes of what was made of the parameters; `None` for the interpreter.
    pub(crate) fn bytes(&self) -> Option<usize> {
        match self {
            BoundParameters::Native(bound) => Some(bound.loaded.iter().map(Loaded::bytes).sum()),
            BoundParameters::Oracle(_) => None,
        }
    }
}

/// What the parameters hold of which that has to be known.
fn held(native: &Native, params: &[Cow<'_, Array>], codes: &Codes<'_>) -> Vec<Option<Values>> {
    let of = |(at, array): (usize, &Cow<'_, Array>)| match native.bounds_param(at) {
        false => None,
        true if codes.contains_key(&at) => Some(Values::Numbers(f64::NEG_INFINITY, f64::INFINITY)),
        true => Some(values_of(array)),
    };
    params.iter().enumerate().map(of).collect()
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(code: &'a Code, dimensions: &Bindings) -> Result<Prepared<'a>, Error> {
        match code {
            Code::Native(native) => {
                let at = native.at(dimensions);
                Ok(Prepared::Native(native, at, Box::new(native.plans[at].compiled.bind(dimensions)?)))
            }
            Code::Oracle => Ok(Prepared::Oracle),
        }
    }

    /// For other dimensions; on an error it stays as it was.
    pub(crate) fn rebind(&mut self, dimensions: &Bindings) -> Result<(), Error> {
        match self {
            Prepared::Native(native, at, plan) => {
                let now = native.at(dimensions);
                let compiled = &native.plans[now].compiled;
                if now == *at {
                    compiled.rebind(plan, dimensions)?;
                } else {
                    **plan = compiled.bind(dimensions)?;
                    *at = now;
                }
                Ok(())
            }
            Prepared::Oracle => Ok(()),
        }
    }

    pub(crate) fn working_bytes(&self) -> Option<usize> {
        match self {
            Prepared::Native(native, _, plan) => Some(plan.working_bytes(native.threads)),
            Prepared::Oracle => None,
        }
    }

    /// How many threads run a call at most.
    pub(crate) fn threads(&self) -> usize {
        match self {
            Prepared::Native(native, ..) => native.threads,
            Prepared::Oracle => 1,
        }
    }

    /// Whether an input, by position, is a state that may lie in the output which appends to it.
    pub(crate) fn appends(&self, input: usize) -> bool {
        match self {
            Prepared::Native(native, ..) => native.most().appends(input),
            Prepared::Oracle => false,
        }
    }

    /// The kernels of a call, and what each does; none for the interpreter.
    pub(crate) fn kernels(&self) -> Vec<(&Kernel, Cost)> {
        match self {
            Prepared::Native(native, at, plan) => {
                let compiled = &native.plans[*at].compiled;
                let program = compiled.program();
                program.kernels[program.section(Section::Call)].iter().zip(compiled.costs(plan)).collect()
            }
            Prepared::Oracle => Vec::new(),
        }
    }

    /// Runs the model with a look at its kernels, of which the interpreter has none.
    pub(crate) fn run(
        &self,
        model: &Model,
        dimensions: &Bindings,
        arguments: Arguments<'_>,
        outputs: &mut [Array],
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let (graph, places) = (model.graph(), model.places());
        match (self, arguments.params) {
            (Prepared::Native(native, at, plan), BoundParameters::Native(bound)) => {
                let Compilation { compiled, integers, .. } = &native.plans[*at];
                let Parameters { loaded, arrays: params, held } = &**bound;
                if let Some(integers) = integers {
                    let input = |at: usize| match &arguments.inputs[at] {
                        Some(array) => Some(values_of(array)),
                        // It lies in the output that appends to it.
                        None => graph
                            .states()
                            .iter()
                            .find(|s| s.input == at)
                            .map(|s| values_of(&outputs[s.output])),
                    };
                    integers.check(dimensions, input, |at| held[at])?;
                }
                let inputs: Vec<Option<&Array>> = arguments.inputs.iter().map(Option::as_deref).collect();
                let params: Vec<&Array> = params.iter().map(|a| &**a).collect();
                let mut computed = Computed::of(outputs)?;
                let result = compiled.run_watched(
                    plan,
                    &loaded[*at],
                    Inputs::InPlace(&inputs),
                    &params,
                    outputs,
                    watch,
                );
                computed.round_into(outputs);
                result.map_err(|e| Error::Run(places.after(&e, e.origin())))
            }
            (Prepared::Native(..), BoundParameters::Oracle(_))
            | (Prepared::Oracle, BoundParameters::Native(_)) => {
                unreachable!("a session has one engine")
            }
            (Prepared::Oracle, BoundParameters::Oracle(params)) => {
                let names = graph.inputs().iter().map(|p| p.name.to_string());
                let given =
                    arguments.inputs.iter().map(|a| a.clone().expect("nothing is in place").into_owned());
                let inputs = names.zip(given).collect();
                let results = eval(graph, dimensions, Data { inputs: &inputs, params })
                    .map_err(|e| Error::Run(places.after(&e, e.origin())))?;
                for (memory, (_, array)) in outputs.iter_mut().zip(results) {
                    memory.fill_from(array);
                }
                Ok(())
            }
        }
    }
}

/// The outputs of 16 bits of a call of compiled code, which computes them in 32: while it runs, memory of that width stands
/// in their place.
struct Computed(Vec<(usize, Array)>);

impl Computed {
    /// Puts memory to compute in into the places of those outputs.
    fn of(outputs: &mut [Array]) -> Result<Computed, Error> {
        let mut own = Vec::new();
        for (at, output) in outputs.iter_mut().enumerate() {
            let dtype = output.dtype();
            if dtype != dtype.compute() {
                let wide = Array::zeros(dtype.compute(), output.shape().to_vec());
                let wide = wide.map_err(|e| Error::Run(e.to_string()))?;
                own.push((at, std::mem::replace(output, wide)));
            }
        }
        Ok(Computed(own))
    }

    /// Puts the outputs back, with what was computed rounded into them.
    fn round_into(&mut self, outputs: &mut [Array]) {
        for (at, own) in self.0.drain(..) {
            let wide = std::mem::replace(&mut outputs[at], own);
            let dtype = outputs[at].dtype();
            outputs[at].fill_from(wide.rounded_to(dtype));
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
