//! How states begin, and what a session holds of them.
//!
//! A state begins as zeros. One with an initialiser, as a parameter has it that a step of training moves, begins as weights
//! say that hold its path, else as its initialiser says.

use crate::report::error::Error;
use crate::report::fault::{Fault, Side, Tensor};
use crate::session::bind::{self, Shapes};
use crate::session::init::initial;
use crate::session::sizes::Sizes;
use crate::session::weights::Weights;
use crate::session::{Session, converts, widened, zeros};
use salient_io::{Arrays, Stored};
use salient_ir::array::Array;
use salient_ir::{Graph, Init, Port};
use std::borrow::Cow;

/// The ports of states with an initialiser.
pub(crate) fn begun(graph: &Graph) -> impl Iterator<Item = &Port> {
    let inputs = graph.states().iter().map(|s| s.input);
    inputs.filter(|at| graph.is_moved_parameter(*at)).map(|at| &graph.inputs()[at])
}

/// Whether weights of that path are for a state.
pub(crate) fn is_begun(graph: &Graph, path: &str) -> bool {
    begun(graph).any(|port| *port.name == *path)
}

/// The shapes of states that weights hold.
pub(crate) fn given<'s>(graph: &'s Graph, weights: Weights<'s>) -> Shapes<'s> {
    let arrays = weights.arrays();
    begun(graph).filter_map(|port| Some((&*port.name, arrays?.get(&port.name)?.shape()))).collect()
}

/// What is wrong with the weights of states: types that do not convert, and states that nothing gives.
pub(crate) fn faults(graph: &Graph, weights: Weights<'_>, inputs: &Arrays) -> Vec<Fault> {
    let none = Arrays::new();
    let arrays = weights.arrays().unwrap_or(&none);
    let mut out = Vec::new();
    for port in begun(graph) {
        let tensor = || Tensor { side: Side::Param, name: port.name.clone() };
        let draws = matches!(port.init, Some(Init::Normal(_) | Init::Uniform(..)));
        match arrays.get(&port.name) {
            Some(array) if !converts(array.dtype(), port.dtype) => {
                let found = arrays.stored(&port.name).unwrap_or(Stored::of(array.dtype()));
                out.push(Fault::DType { tensor: tensor(), expected: port.dtype, found });
            }
            Some(_) => {}
            None if weights.seed().is_some() || inputs.get(&port.name).is_some() => {}
            None if weights.arrays().is_some() || draws => {
                let declared = bind::declared(graph, port);
                out.push(Fault::Missing { tensor: tensor(), declared, nearest: None });
            }
            None => {}
        }
    }
    out
}

/// The states as they are before the first call.
pub(crate) fn begin(graph: &Graph, sizes: &Sizes, weights: Weights<'_>) -> Result<Vec<Array>, Error> {
    graph.states().iter().map(|state| one(graph, state.input, sizes, weights)).collect()
}

/// One state, by the position of its input, as it is before the first call.
pub(crate) fn one(graph: &Graph, input: usize, sizes: &Sizes, weights: Weights<'_>) -> Result<Array, Error> {
    let (port, shape) = (&graph.inputs()[input], &sizes.inputs[input]);
    if let Some(array) = weights.arrays().filter(|_| port.init.is_some()).and_then(|all| all.get(&port.name))
    {
        return widened(array, port).map(Cow::into_owned);
    }
    let drawn = initial(graph, port, &sizes.dimensions, weights.seed().unwrap_or(0));
    match drawn.map_err(|e| Error::Run(format!("state `{}`: {e}", port.name)))? {
        Some(drawn) => widened(&drawn, port).map(Cow::into_owned),
        None => zeros(port.dtype, shape, &port.name),
    }
}

impl Session<'_> {
    /// Holds these states, which the next step begins with, by path. States that are not among them begin as they do.
    ///
    /// # Errors
    /// [`Error::Call`] with every path that the model does not have and every array that does not fit: what is held stays as
    /// it was.
    pub fn hold(&mut self, states: &Arrays) -> Result<(), Error> {
        let graph = self.model.graph();
        let mut held = begin(graph, &self.sizes, self.weights)?;
        let mut faults = Vec::new();
        for (path, array) in states.iter() {
            let at = graph.states().iter().position(|s| *graph.inputs()[s.input].name == *path);
            let Some(at) = at else {
                let known = graph.states().iter().map(|s| graph.inputs()[s.input].name.clone()).collect();
                let tensor = Tensor { side: Side::State, name: path.into() };
                faults.push(Fault::Unknown { tensor, known, nearest: None });
                continue;
            };
            let state = graph.states()[at];
            let port = &graph.inputs()[state.input];
            let tensor = Tensor { side: Side::State, name: port.name.clone() };
            let (expected, found) = (&self.sizes.inputs[state.input], array.shape());
            if !converts(array.dtype(), port.dtype) {
                let found = Stored::of(array.dtype());
                faults.push(Fault::DType { tensor, expected: port.dtype, found });
            } else if graph.growth(state).is_none() && found != expected.as_slice() {
                faults.push(Fault::Shape { tensor, expected: expected.clone(), found: found.to_vec() });
            } else {
                held[at] = widened(array, port)?.into_owned();
            }
        }
        if !faults.is_empty() {
            return Err(Error::Call(faults));
        }
        self.held = Some(held);
        Ok(())
    }

    /// Takes the last step back: states are again what they were before it. Only once, and not where a state grows.
    ///
    /// # Errors
    /// [`Error::Run`] if there is no such step.
    pub fn take_back(&mut self) -> Result<(), Error> {
        let graph = self.model.graph();
        if !self.may_take_back || graph.states().iter().any(|s| graph.growth(*s).is_some()) {
            return Err(Error::Run("there is no step to take back".to_owned()));
        }
        self.may_take_back = false;
        for (held, state) in self.held.iter_mut().flatten().zip(graph.states()) {
            std::mem::swap(held, &mut self.results[state.output]);
        }
        Ok(())
    }
}
