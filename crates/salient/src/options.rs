//! What a caller may decide about a compilation.

use crate::stage::Engine;
use salient_jit::IsaChoice;

/// How a model is compiled.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The model's name; the only one of the source if none is given.
    pub model: Option<String>,
    /// Values of dimensions and of parameters in brackets, by name, as text: `T` and `128`.
    pub set: Vec<(String, String)>,
    /// How it is run.
    pub engine: Engine,
    /// Which vectors of the processor compiled code uses.
    pub isa: IsaChoice,
    /// Threads that run it; as many as the machine has if none is given.
    pub threads: Option<usize>,
}
