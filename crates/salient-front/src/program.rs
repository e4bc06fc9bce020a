//! The declarations of a compilation: which name means which function or constant.
//!
//! Knows nothing of values or shapes.

use crate::diag::{Diagnostic, did_you_mean, listed};
use crate::library;
use crate::source::{SourceFile, Sources};
use crate::syntax::ast::{Const, File, Function, Item, Kind, Results};
use crate::syntax::parse::parse;
use crate::value::Builtin;
use std::collections::BTreeMap;

/// The declarations of a compilation: those of the library that it can reach, then those of each file.
pub(crate) struct Parsed {
    pub(crate) library: Vec<Item>,
    pub(crate) files: Vec<File>,
}

impl Parsed {
    /// The files of the caller, as texts and as trees.
    pub(crate) fn files<'a>(&'a self, sources: &'a Sources) -> Vec<(&'a SourceFile, &'a File)> {
        sources.user_files().iter().zip(&self.files).collect()
    }
}

/// The names of a compilation.
pub(crate) struct Program<'a> {
    functions: BTreeMap<&'a str, &'a Function>,
    /// The constants, in the order of their declaration.
    pub(crate) constants: Vec<&'a Const>,
}

/// Parses every file that the caller added, and of the library what they can reach.
pub(crate) fn read(sources: &Sources) -> Result<Parsed, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut files = Vec::new();
    for file in sources.user_files() {
        match parse(file) {
            Ok(tree) => files.push(tree),
            Err(found) => errors.extend(found),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let library = library::reached(sources.user_files().iter().map(|file| file.text.as_str()))?;
    Ok(Parsed { library, files })
}

/// Collects the declarations; two of one name are an error, but a user's may stand in for the library's.
pub(crate) fn collect(parsed: &Parsed) -> Result<Program<'_>, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut functions: BTreeMap<&str, (&Function, bool)> = BTreeMap::new();
    let mut constants: Vec<&Const> = Vec::new();
    let library = std::iter::once((true, &parsed.library));
    for (library, items) in library.chain(parsed.files.iter().map(|file| (false, &file.items))) {
        for item in items {
            match item {
                Item::Import(_) => {}
                Item::Const(c) => {
                    if let Some(first) = constants.iter().find(|o| o.name.name == c.name.name) {
                        errors.push(twice(&c.name.name, c.name.span, first.name.span));
                    }
                    constants.push(c);
                }
                Item::Function(f) => {
                    errors.extend(repeated_names(f));
                    errors.extend(paths_of_results(f));
                    let name = f.name.name.as_str();
                    if Builtin::from_name(name).is_some() {
                        errors.push(
                            Diagnostic::error(
                                f.name.span,
                                format!("`{name}` is an operator of the language"),
                            )
                            .saying("this name is taken")
                            .help("choose another name"),
                        );
                    }
                    match functions.get(name) {
                        Some((first, from_library)) if *from_library == library => {
                            errors.push(twice(name, f.name.span, first.name.span));
                        }
                        _ => {
                            functions.insert(name, (f, library));
                        }
                    }
                }
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let functions = functions.into_iter().map(|(name, (f, _))| (name, f)).collect();
    Ok(Program { functions, constants })
}

/// Paths of results where there is no file or call that knows results by them: those of functions and blocks.
fn paths_of_results(f: &Function) -> Vec<Diagnostic> {
    let Some(Results::Named(list)) = f.results.as_ref().filter(|_| f.kind != Kind::Model) else {
        return Vec::new();
    };
    let with_path = list.iter().filter(|result| result.path.is_some());
    let told = with_path.map(|result| {
        Diagnostic::error(result.name.span, "only a result of a model has a path")
            .help("the caller gives what is returned a name: `let a, b = …`")
    });
    told.collect()
}

/// Names that a function gives to two of the things that it takes, or that it gives.
fn repeated_names(f: &Function) -> Vec<Diagnostic> {
    let names: Vec<&crate::syntax::ast::Ident> =
        f.statics.iter().map(|s| &s.name).chain(f.params.iter().map(|p| &p.name)).collect();
    let results: Vec<&crate::syntax::ast::Ident> = match &f.results {
        Some(Results::Named(list)) => list.iter().map(|result| &result.name).collect(),
        Some(Results::One(_)) | None => Vec::new(),
    };
    let repeated = |names: Vec<&crate::syntax::ast::Ident>| {
        let first = |n: usize| names[..n].iter().find(|o| o.name == names[n].name);
        let told =
            (0..names.len()).filter_map(|n| Some(twice(&names[n].name, names[n].span, first(n)?.span)));
        told.collect::<Vec<_>>()
    };
    [repeated(names), repeated(results)].concat()
}

fn twice(name: &str, second: crate::Span, first: crate::Span) -> Diagnostic {
    Diagnostic::error(second, format!("`{name}` is declared twice"))
        .saying("here again")
        .also(first, "first declared here")
}

impl<'a> Program<'a> {
    /// The function of that name.
    pub(crate) fn function(&self, name: &str) -> Option<&'a Function> {
        self.functions.get(name).copied()
    }

    /// The names of all functions, and of what else the library declares: to be suggested.
    pub(crate) fn function_names(&self) -> impl Iterator<Item = &'a str> {
        self.functions.keys().copied().chain(library::names())
    }

    /// Whether the function is the library's.
    pub(crate) fn is_library(&self, f: &Function) -> bool {
        (f.name.span.source.0 as usize) < crate::embedded::FILES.len()
    }

    /// The user's functions, in the order of their declaration.
    pub(crate) fn user_functions(&self) -> Vec<&'a Function> {
        let mut out: Vec<_> = self.functions.values().copied().filter(|f| !self.is_library(f)).collect();
        out.sort_by_key(|f| f.span);
        out
    }

    /// The model to compile: the one of that name, or the only one.
    pub(crate) fn model(&self, name: Option<&str>) -> Result<&'a Function, Box<Diagnostic>> {
        let mut models = self.user_functions();
        models.retain(|f| f.kind == Kind::Model);
        let names: Vec<&str> = models.iter().map(|f| f.name.name.as_str()).collect();
        let Some(wanted) = name else {
            // What the program imports may have models too; the program's own come first.
            let main = models.iter().map(|f| f.span.source).min();
            models.retain(|f| Some(f.span.source) == main);
            let names: Vec<&str> = models.iter().map(|f| f.name.name.as_str()).collect();
            return match models.as_slice() {
                [one] => Ok(one),
                [] => Err(Diagnostic::placeless("there is no model here")
                    .help("a model is an entry point: `model NAME(x: f32[T, D]) { … }`")
                    .into()),
                _ => Err(Diagnostic::placeless(format!(
                    "there are several models: {}",
                    listed(names.iter().copied())
                ))
                .help("say which one with --model NAME")
                .into()),
            };
        };
        match models.iter().find(|f| f.name.name == wanted) {
            Some(f) => Ok(f),
            None => Err(Diagnostic::placeless(format!(
                "there is no model `{wanted}`; the models here are {}",
                listed(names.iter().copied())
            ))
            .help_if(did_you_mean(wanted, names.iter().copied()))
            .into()),
        }
    }
}
