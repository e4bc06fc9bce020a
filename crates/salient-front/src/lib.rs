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
pub use library::library_place;
pub use lower::{DRAW_STEP, Inner, Lowered, Settings, Shape, Shapes};
pub use resolve::{Definition, DefinitionKind, Definitions, Import, Meaning, Use};
pub use source::{SourceFile, SourceId, Sources, Span};
pub use syntax::format::format;
pub use syntax::parse::parse;
pub use syntax::tokens::{is_code, names_in, word_at};
pub use syntax::{ast, limits};

use program::{Parsed, Program};
use std::collections::BTreeSet;

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
    let mut lowered = checked(lowered, unknown_names(&program, &reached))?;
    lowered.warnings.extend(said_in_vain(sources, &parsed, &program));
    Ok(lowered)
}

/// What lowering gives, unless what it does not reach has names that are not known.
fn checked(
    lowered: Result<Lowered, Vec<Diagnostic>>,
    unknown: Vec<Diagnostic>,
) -> Result<Lowered, Vec<Diagnostic>> {
    if unknown.is_empty() {
        return lowered;
    }
    let mut errors = lowered.err().unwrap_or_default();
    errors.extend(unknown);
    Err(errors)
}

/// Lowering reports on what the model reaches; the rest is at least read for its names.
fn unknown_names(program: &Program<'_>, reached: &BTreeSet<String>) -> Vec<Diagnostic> {
    let unreached = program.user_functions().into_iter().filter(|f| !reached.contains(&f.name.name));
    unreached.flat_map(|f| resolve::unknown::check(program, f)).collect()
}

/// Warnings that the text gives, without being lowered.
fn said_in_vain(sources: &Sources, parsed: &Parsed, program: &Program<'_>) -> Vec<Diagnostic> {
    let slips = sources.user_files().iter().flat_map(syntax::slips::check);
    let unused = program.user_functions().into_iter().flat_map(syntax::unused::of_function);
    slips.chain(unused).chain(syntax::unused::imports(&parsed.files(sources))).collect()
}

/// What the text of a program says, as far as it can be read.
#[derive(Debug, Default)]
pub struct Outline {
    /// The declarations of each of the caller's files that parse.
    pub files: Vec<ast::File>,
    /// The syntax errors of the others.
    pub errors: Vec<Diagnostic>,
    /// What its names mean.
    pub definitions: Definitions,
}

/// Reads a program that may be wrong, without compiling it.
pub fn outline(sources: &Sources) -> Outline {
    let mut out = Outline::default();
    for file in sources.user_files() {
        let (tree, errors) = syntax::parse::parse_in_part(file);
        out.files.push(tree);
        out.errors.extend(errors);
    }
    out.definitions = resolve::definitions(sources, &out.files);
    out
}

/// What compiling a program shows, right or wrong.
#[derive(Debug, Default)]
pub struct Examined {
    /// What is told of all its models, each once: errors, or else warnings. Files without a model are parsed alone.
    pub diagnostics: Vec<Diagnostic>,
    /// What expressions and definitions are, as far as lowering came.
    pub shapes: Shapes,
}

/// Compiles every model of a program for what there is to tell, leaving out declarations that do not parse.
pub fn examine(sources: &Sources) -> Examined {
    let outline = outline(sources);
    let mut out = Examined { diagnostics: outline.errors, ..Examined::default() };
    let parses = out.diagnostics.is_empty();
    let texts = sources.user_files().iter().map(|file| file.text.as_str());
    let parsed = match library::reached(texts) {
        Ok(library) => Parsed { library, files: outline.files },
        Err(errors) => return Examined { diagnostics: errors, ..out },
    };
    let mut told = Vec::new();
    let program = match program::collect(&parsed) {
        Ok(program) => program,
        Err(errors) => {
            out.diagnostics.extend(errors.into_iter().filter(|_| parses));
            return out;
        }
    };
    // It is the same for every model.
    let said_in_vain = std::cell::LazyCell::new(|| said_in_vain(sources, &parsed, &program));
    let models = program.user_functions().into_iter().filter(|f| f.kind == ast::Kind::Model);
    for model in models {
        let (lowered, reached) =
            lower::lower_noting(sources, &program, model, &Settings::default(), &mut out.shapes);
        match checked(lowered, unknown_names(&program, &reached)) {
            Ok(lowered) => {
                told.extend(lowered.warnings);
                told.extend(said_in_vain.iter().cloned());
            }
            Err(errors) => told.extend(errors),
        }
        if uses_training(sources) {
            let settings = Settings { train: Some(0), ..Settings::default() };
            // What is not reached at inference has shapes too.
            let _ = lower::lower_noting(sources, &program, model, &settings, &mut out.shapes);
        }
    }
    for d in told.into_iter().filter(|_| parses) {
        if !out.diagnostics.contains(&d) {
            out.diagnostics.push(d);
        }
    }
    out
}

/// Whether a program asks if it is compiled for training.
fn uses_training(sources: &Sources) -> bool {
    sources.user_files().iter().any(|file| file.text.contains("training"))
}

/// The files that a text imports: each path with its place in the text. Text that does not parse has them too.
pub fn imports(text: &str) -> Vec<(std::ops::Range<usize>, &str)> {
    if text.len() > limits::MAX_BYTES { Vec::new() } else { syntax::tokens::imports(text) }
}
