//! What a step of a session gives.

use salient_ir::Graph;
use salient_ir::array::Array;

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
