//! Source text to a verified graph, or diagnostics.

pub mod diag;
mod embedded;
pub mod habits;
mod library;
mod lower;
mod program;
pub mod reference;
mod resolve;
pub mod source;
mod syntax;
mod value;

pub use diag::{Diagnostic, Severity, render};
pub use lower::{Inner, Lowered, Settings};
pub use source::{SourceFile, SourceId, Sources, Span};
pub use syntax::format::format;
pub use syntax::parse::parse;
pub use syntax::{ast, limits};

/// The names of the functions that are operators of the graph; those of the library are written in the language.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    value::Builtin::functions()
}

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
    let (lowered, reached) = lower::lower(sources, &program, model, settings);
    // Lowering reports on what the model reaches; the rest is at least read for its names.
    let unreached = program.user_functions().into_iter().filter(|f| !reached.contains(&f.name.name));
    let unknown: Vec<Diagnostic> = unreached.flat_map(|f| resolve::check(&program, f)).collect();
    if unknown.is_empty() {
        let slips = sources.user_files().iter().flat_map(syntax::slips::check);
        let unused = program.user_functions().into_iter().flat_map(syntax::unused::of_function);
        let imports = syntax::unused::imports(&parsed.files(sources));
        return lowered.map(|mut lowered| {
            lowered.warnings.extend(slips.chain(unused).chain(imports));
            lowered
        });
    }
    let mut errors = lowered.err().unwrap_or_default();
    errors.extend(unknown);
    Err(errors)
}
