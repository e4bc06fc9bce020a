//! What a caller may decide about a compilation.

use crate::compile::choose::Form;
use crate::compile::stage::Engine;
use crate::compile::tuning::Tuning;
use salient_io::Coded;
use salient_ir::quantised::Coding;
use salient_jit::IsaChoice;
use salient_opt::Fp;
use std::collections::BTreeMap;

/// How a model is compiled.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The model's name; the only one of the source if none is given.
    pub model: Option<String>,
    /// Values of dimensions and of parameters in brackets, by name, as text: `T` and `128`.
    pub set: Vec<(String, String)>,
    /// Compiles for training, with what is drawn from this seed: `dropout` drops, at each step other elements. At inference, `None`, it is the identity.
    pub train: Option<u32>,
    /// Values inside of the model that are to be results too, by name: see [`Model::inner`](crate::Model::inner).
    pub inner: Vec<String>,
    /// How it is run.
    pub engine: Engine,
    /// How much freedom with floats the optimiser has.
    pub fp: Fp,
    /// Whether a sum of weighted values that does not become one pass over the keys is an error.
    pub require_fused: bool,
    /// Whether one plan serves calls of all sizes. Else a model without states and with few parameters may have another one for few
    /// rows, where that costs much less, and the same row may differ in its last bits from call to call of other sizes.
    pub one_plan: bool,
    /// The form of plan that is compiled, at any price and for calls of all sizes; that which costs the least where none is named.
    /// Forms other than the fused ones do not read parameters in blocks.
    pub form: Option<Form>,
    /// Whether what is only warned of is an error.
    pub deny_warnings: bool,
    /// Whether the graph after each pass, the plan and the kernels are verified in a release build too, and in any build that
    /// no address of a kernel is shown to lie outside. A fault is one of the compiler, which panics.
    pub verify: bool,
    /// Which vectors of the processor compiled code uses.
    pub isa: IsaChoice,
    /// Parameters, by path, that will be given in blocks of few bits ([`Weights::coded`](crate::Weights::coded)): products
    /// read them so, and memory holds them so.
    pub coded: BTreeMap<String, Coding>,
    /// Threads that run it; as many as the machine has if none is given.
    pub threads: Option<usize>,
    /// What is known of the machine. Only time depends on it.
    pub tuning: Tuning,
    /// Whether plans are made and priced for a usual core, with vectors of 256 bits, whatever this machine is and is tuned to: so
    /// they can be compared with those of other machines. For plans that are looked at and not run.
    pub usual_core: bool,
}

impl Options {
    /// For the parameters of a checkpoint that holds some in blocks.
    #[must_use]
    pub fn for_coded(self, coded: &Coded) -> Options {
        Options { coded: coded.iter().map(|(path, q)| (path.clone(), q.coding())).collect(), ..self }
    }
}
