//! Source text to a verified graph, or diagnostics.

pub mod ast;
pub mod diag;
mod format;
mod library;
pub mod limits;
mod lower;
mod parse;
mod program;
pub mod source;
mod value;

pub use diag::{Diagnostic, Severity, render};
pub use format::format;
pub use lower::{Lowered, Settings};
pub use parse::parse;
pub use source::{SourceFile, SourceId, Sources, Span};

/// Compiles a model to a graph: the one of that name, or the only one there is.
///
/// Every file of `sources` takes part. On failure, every mistake that could be told apart.
pub fn compile(
    sources: &Sources,
    model: Option<&str>,
    settings: &Settings,
) -> Result<Lowered, Vec<Diagnostic>> {
    let parsed = program::read(sources)?;
    let program = program::collect(&parsed)?;
    let model = program.model(model).map_err(|d| vec![*d])?;
    lower::lower(sources, &program, model, settings)
}
