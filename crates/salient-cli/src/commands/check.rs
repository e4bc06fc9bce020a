//! `salient check`: what is wrong with a source file.

use crate::input::options::{Compile, Timed};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{
    Diagnostic, Error, Options, Rejected, Severity, Sources, Span, Step, Timings, lower, models,
    price_warning, require_fused,
};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `salient check`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    #[command(flatten)]
    timed: Timed,
    /// Print diagnostics as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Checks every model of the file, or the one that is named.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut rejected = Rejected { diagnostics: Vec::new(), sources: Sources::new() };
    let mut fine = Vec::new();
    let mut timings = Timings::default();
    match read_sources(&args.file) {
        Ok(sources) => {
            let names = match &args.compile.model {
                Some(name) => vec![name.clone()],
                None => models(&sources)?,
            };
            for name in names {
                let options = Options { model: Some(name.clone()), ..args.compile.options()? };
                match timings.time(Step::Lower, || lower(&sources, &options)) {
                    Ok(lowered) => {
                        // Without it the plan that is compiled is never dearer.
                        if options.require_fused {
                            let graph = &lowered.graph;
                            timings.time(Step::Optimise, || require_fused(&sources, graph, &options))?;
                            let warning = price_warning(graph, &options);
                            let dearer = warning.map(dearer);
                            let denied = |d: Diagnostic| if options.deny_warnings { d.denied() } else { d };
                            rejected.diagnostics.extend(dearer.map(denied));
                        }
                        extend(&mut rejected.diagnostics, lowered.warnings);
                        fine.push(name);
                    }
                    Err(Error::Source(r)) => {
                        extend(&mut rejected.diagnostics, r.diagnostics);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            rejected.sources = sources;
        }
        Err(Error::Source(r)) => rejected = *r,
        Err(error) => return Err(error.into()),
    }
    args.timed.show(&timings);
    let failed = rejected.diagnostics.iter().any(is_error);
    if args.json {
        let all: Vec<Value> = rejected.diagnostics.iter().map(|d| diagnostic(d, &rejected.sources)).collect();
        terminal::print(&format!("{:#}\n", json!({ "ok": !failed, "models": fine, "diagnostics": all })))?;
        return if failed { Err(Failure::reported()) } else { Ok(()) };
    }
    if failed {
        return Err(Error::Source(Box::new(rejected)).into());
    }
    terminal::excerpts(&rejected.render(terminal::stderr_colour()));
    let list: Vec<String> = fine.iter().map(|n| format!("model {n}")).collect();
    let checked = if list.is_empty() {
        "no model; functions are checked where models call them".into()
    } else {
        list.join(", ")
    };
    terminal::print(&format!("{}: ok ({checked})\n", args.file.display()))
}

/// Adds what is new: models that share a function share its mistakes.
fn extend(all: &mut Vec<Diagnostic>, more: Vec<Diagnostic>) {
    for d in more {
        if !all.contains(&d) {
            all.push(d);
        }
    }
}

/// A plan that is dearer than that of the program as written.
fn dearer(words: String) -> Diagnostic {
    let help = "without `--require-fused` the cheaper plan is compiled";
    Diagnostic { severity: Severity::Warning, ..Diagnostic::placeless(words).help(help) }
}

fn is_error(d: &Diagnostic) -> bool {
    d.severity == Severity::Error
}

fn diagnostic(d: &Diagnostic, sources: &Sources) -> Value {
    let place = |(span, words): &(Span, String)| {
        let (file, line, column) = sources.position(*span);
        json!({ "file": file, "line": line, "column": column, "bytes": [span.start, span.end], "label": words })
    };
    json!({
        "severity": if is_error(d) { "error" } else { "warning" },
        "message": d.message,
        "at": d.primary.as_ref().map(place),
        "also": d.secondary.iter().map(place).collect::<Vec<_>>(),
        "notes": d.notes,
        "help": d.help,
    })
}
