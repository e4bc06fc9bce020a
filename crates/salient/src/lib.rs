//! The public face: compile a model, look at every stage, run it.
//!
//! Source text becomes a [`Model`] once; a [`Session`] binds it to dimensions and weights; running a session takes
//! borrowed inputs and writes memory of the caller.
//!
//! The stages themselves are in the crates below; nothing is decided here about graphs, kernels or code.

mod bind;
pub mod compare;
pub mod cost;
mod engine;
mod error;
mod explain;
pub mod fault;
mod init;
mod integers;
mod model;
mod options;
mod pipeline;
mod results;
mod session;
mod sizes;
mod sources;
mod stage;
mod timings;
pub mod tune;
mod tuning;
pub mod verify;
mod weights;

pub use error::{Error, Rejected};
pub use explain::{explain, require_fused};
pub use fault::Fault;
pub use model::Model;
pub use options::Options;
pub use pipeline::{
    compilations, format_source, fuse, lower, models, optimise, print_after, print_stage, schedule,
    schedule_blocks,
};
pub use results::Results;
pub use salient_front::diag::{listed, nearest};
pub use salient_front::{Diagnostic, Lowered, Severity, Sources, Span};
pub use salient_io::GgufValue as Metadata;
pub use salient_io::{
    Arrays, Coded, Contents, DataFile, Entry, Format, Group, IoError, Stored, decode_text, format_of,
    read_arrays, read_bytes, read_contents, read_data, read_gguf_coded, read_npy, read_stored_npy, read_text,
    read_wanted, read_wanted_data, replace_text, without_mark, write_npy, write_npz, write_safetensors,
};
pub use salient_ir::array::Array;
pub use salient_ir::quantised::{Bits, Coding, Quantised, Scales};
pub use salient_ir::stack::with_stack;
pub use salient_ir::{Bindings, DType, Graph, Port};
pub use salient_jit::target::Isa;
pub use salient_jit::target::processor;
pub use salient_jit::{Cost, IsaChoice, THREADING, Threading, peak};
pub use salient_opt::{Fp, PASSES, Pass};
pub use salient_tile::{Knob, TILING, Tiling};
pub use session::{KernelInfo, Session};
pub use sources::{read_source, read_sources};
pub use stage::{Engine, Stage};
pub use timings::{Step, Timings};
pub use tuning::{PRICES, Tuning};
pub use weights::Weights;

/// The README's program, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
