//! The public face: compile a model, look at every stage, run it.
//!
//! 1. Source text becomes a [`Model`], once: machine code for all lengths.
//! 2. A [`Session`] binds it to lengths and [`Weights`], and checks every tensor.
//! 3. [`Session::run`] takes borrowed inputs and writes memory of the caller; [`Session::step`] also keeps states, such as a cache.
//!
//! ```
//! use salient::{Array, Arrays, Model, Options, Weights};
//!
//! let source = "model attend(x: f32[T, D]) -> (context: f32[T, D]) {
//!     return softmax(x @ x.T / sqrt(D)) @ x
//! }";
//! let model = Model::compile(source, &Options::default())?;
//!
//! let mut inputs = Arrays::new();
//! inputs.insert("x", Array::from_f32(vec![2, 2], vec![1.0, 0.0, 0.0, 1.0]).unwrap())?;
//! let session = model.session(&inputs, Weights::none())?;
//! let mut outputs = session.outputs()?;
//! session.run(&inputs, &mut outputs)?;
//!
//! let context = outputs[0].as_f32().unwrap();
//! assert!((context[0] - 0.670).abs() < 1e-3 && (context[1] - 0.330).abs() < 1e-3);
//! # Ok::<(), salient::Error>(())
//! ```
//!
//! What goes wrong is an [`Error`], by who can mend it; [`Options`] say how a model is compiled. `docs/library.md` of the project goes
//! through threads, states and errors; its programs are the crate's examples.
//!
//! The stages themselves are in the crates below; nothing is decided here about graphs, kernels or code.

mod compile;
mod report;
mod session;
mod show;
pub mod snapshot;
pub mod tune;
pub mod verify;

pub use compile::choose::{Alternative, Form, Reason, TIE, Verdict};
pub use compile::drawing::drawing;
pub use compile::explain::{explain, require_fused};
pub use compile::options::Options;
pub use compile::pipeline::{
    compilations, format_source, fuse, lower, models, optimise, price_warning, print_after, print_stage,
    schedule, schedule_blocks, verdict,
};
pub use compile::plan_text::read_plan;
pub use compile::sources::{read_source, read_source_text, read_sources, with_imports, with_imports_by};
pub use compile::stage::{Engine, Stage};
pub use compile::tuning::{PRICES, Tuning};
pub use report::error::{Error, Rejected};
pub use report::fault::Fault;
pub use report::timings::{Step, Timings};
pub use report::{compare, cost, fault};
pub use salient_front::diag::{listed, nearest};
pub use salient_front::{
    Definition, DefinitionKind, Definitions, Diagnostic, Examined, Import, Inner, Lowered, Meaning, Outline,
    Severity, Shape, Shapes, SourceFile, SourceId, Sources, Span, Use,
};
pub use salient_front::{ast, examine, is_code, library_place, names_in, outline, reference, word_at};
pub use salient_io::GgufValue as Metadata;
pub use salient_io::{
    Arrays, Coded, Contents, DataFile, Entry, Format, Group, IoError, Stored, decode_text, format_of,
    read_arrays, read_bytes, read_contents, read_data, read_gguf_coded, read_npy, read_stored_npy, read_text,
    read_wanted, read_wanted_data, replace_text, without_mark, write_npy, write_npz, write_safetensors,
};
pub use salient_ir::array::{Array, ArrayError, Data, Elements, Memory};
pub use salient_ir::graph::Growth;
pub use salient_ir::quantised::{Bits, Coding, Quantised, Scales};
pub use salient_ir::stack::with_stack;
pub use salient_ir::{AxisId, Bindings, DType, Dim, Graph, Name, Port};
pub use salient_jit::target::Isa;
pub use salient_jit::target::processor;
pub use salient_jit::{Cost, IsaChoice, THREADING, Threading, peak};
pub use salient_opt::{Fp, PASSES, Pass};
pub use salient_tile::plan::price::{Bottleneck, Machine, nominal_sizes};
pub use salient_tile::verify::unfused::rewriting;
pub use salient_tile::{Knob, TILING, Tiling};
pub use session::model::Model;
pub use session::results::Results;
pub use session::train::batches::{Batches, RowBatches, TokenBatches, split_tokens};
pub use session::train::evaluation::Evaluation;
pub use session::train::schedule::{Decay, Schedule};
pub use session::train::{Course, Progress, Trainer};
pub use session::weights::Weights;
pub use session::{KernelInfo, Session};
pub use show::{page, view};

/// The README's program, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
