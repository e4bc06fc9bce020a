//! What runs a model: compiled code or the interpreter, behind one pair of types.
//!
//! Checks nothing: a session hands over arrays that fit.

use crate::error::Error;
use crate::options::Options;
use crate::stage::Engine;
use salient_ir::array::Array;
use salient_ir::eval::{Data, eval};
use salient_ir::{Bindings, Graph};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// A model made ready for an engine. One for all dimensions.
#[derive(Debug)]
pub(crate) enum Code {
    /// The interpreter needs the graph only.
    Oracle,
}

/// What an engine keeps for one set of dimensions and weights.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// The parameters by path, as the interpreter takes them.
    Oracle(BTreeMap<String, Array>),
}

impl Prepared {
    pub(crate) fn new(
        code: &Code,
        graph: &Graph,
        _dimensions: &Bindings,
        params: &[Cow<'_, Array>],
    ) -> Result<Prepared, Error> {
        match code {
            Code::Oracle => {
                let names = graph.params().iter().map(|p| p.name.to_string());
                Ok(Prepared::Oracle(names.zip(params.iter().map(|a| a.clone().into_owned())).collect()))
            }
        }
    }

    pub(crate) fn working_bytes(&self) -> Option<usize> {
        match self {
            Prepared::Oracle(_) => None,
        }
    }

    /// Arrays are in the order of the graph's inputs, parameters and outputs, of the declared dtypes and shapes.
    pub(crate) fn run(
        &mut self,
        _code: &Code,
        graph: &Graph,
        dimensions: &Bindings,
        inputs: &[Cow<'_, Array>],
        _params: &[Cow<'_, Array>],
        outputs: &mut [Array],
    ) -> Result<(), Error> {
        match self {
            Prepared::Oracle(params) => {
                let names = graph.inputs().iter().map(|p| p.name.to_string());
                let inputs = names.zip(inputs.iter().map(|a| a.clone().into_owned())).collect();
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

impl Code {
    /// Makes code; adds how long each step took.
    pub(crate) fn new(
        _graph: &Graph,
        options: &Options,
        _timings: &mut Vec<(&'static str, Duration)>,
    ) -> Result<Code, Error> {
        match options.engine {
            Engine::Oracle => Ok(Code::Oracle),
            engine @ (Engine::Jit | Engine::Unfused) => {
                Err(Error::Code(format!("the engine `{engine}` is not there yet")))
            }
        }
    }
}
