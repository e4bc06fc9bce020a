//! What a step of a session gives.

use crate::report::error::Error;
use crate::session::{Session, zeros};
use salient_ir::array::Array;
use salient_ir::{DType, Graph};

/// What a step gave: the outputs that are no states.
#[derive(Clone, Copy, Debug)]
pub struct Results<'s> {
    pub(crate) graph: &'s Graph,
    /// In the order of the graph's outputs; those of states hold nothing of meaning.
    pub(crate) arrays: &'s [Array],
}

impl<'s> Results<'s> {
    /// The output of that name.
    pub fn get(&self, name: &str) -> Option<&'s Array> {
        self.iter().find(|(known, _)| *known == name).map(|(_, array)| array)
    }

    /// Names and arrays in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'s str, &'s Array)> + use<'s> {
        let graph = self.graph;
        let outputs = graph.outputs().iter().zip(self.arrays).enumerate();
        let others = outputs.filter(|(n, _)| graph.states().iter().all(|s| s.output != *n));
        others.map(|(_, (output, array))| (&*output.name, array))
    }
}

impl Session<'_> {
    /// What the last step gave, by name and in order, for the caller to keep: the next step makes new memory for its results.
    ///
    /// # Errors
    /// [`Error::Run`] if there is no memory.
    pub fn take_results(&mut self) -> Result<Vec<(String, Array)>, Error> {
        let graph = self.model.graph();
        let is_state = |at: usize| graph.states().iter().any(|state| state.output == at);
        let outputs = graph.outputs().iter().zip(&mut self.results).enumerate();
        let others = outputs.filter(|(at, _)| !is_state(*at));
        others
            .map(|(_, (output, array))| {
                let nothing = zeros(DType::F32, &[0], &output.name)?;
                Ok((output.name.to_string(), std::mem::replace(array, nothing)))
            })
            .collect()
    }
}
