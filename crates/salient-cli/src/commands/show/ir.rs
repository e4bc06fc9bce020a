//! `salient ir`: a form of a model on its way to machine code.

use crate::input::options::{Compile, Machine, Timed, stage};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{Engine, PASSES, Pass, Stage, Timings, drawing, print_after, print_stage, replace_text};
use salient_draw::graph::dot::dot;
use salient_draw::graph::picture::picture;
use std::path::PathBuf;

/// Arguments of `salient ir`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file; `-` is standard input
    file: PathBuf,
    /// Which form
    #[arg(long, value_parser = stage(), default_value = "fused")]
    stage: Stage,
    /// The graph after a pass of the optimiser
    #[arg(long, value_name = "PASS", value_parser = pass, conflicts_with = "stage")]
    #[arg(long_help = format!("The graph after a pass of the optimiser, one of\n{}", passes()))]
    after: Option<&'static Pass>,
    /// Draw it as SVG into a file: of graph, fused and plan
    #[arg(long, value_name = "FILE", conflicts_with = "after")]
    svg: Option<PathBuf>,
    /// Write it as DOT, for Graphviz, into a file: of graph, fused and plan
    #[arg(long, value_name = "FILE", conflicts_with = "after")]
    dot: Option<PathBuf>,
    #[command(flatten)]
    compile: Compile,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    timed: Timed,
}

/// Every pass with what it is for, a line each.
fn passes() -> String {
    PASSES.iter().map(|pass| format!("  {}: {}\n", pass.name, pass.purpose)).collect()
}

/// Parses the name of a pass.
fn pass(name: &str) -> Result<&'static Pass, String> {
    Pass::named(name).ok_or_else(|| format!("there is no such pass; there are\n{}", passes().trim_end()))
}

/// Prints the stage, or the graph after the pass, on standard output.
pub(crate) fn run(args: &Args) -> Outcome {
    let sources = read_sources(&args.file)?;
    let options = args.compile.options_for(&args.machine)?;
    if args.after.is_some() && options.engine != Engine::Jit {
        return Err(Failure::call(format!("--after: the engine `{}` runs no passes", options.engine)));
    }
    let mut timings = Timings::default();
    if args.svg.is_some() || args.dot.is_some() {
        let drawn = drawing(&sources, args.stage, &options, &mut timings)?.ok_or_else(|| {
            Failure::call(format!("--svg and --dot draw graph, fused and plan, and not `{}`", args.stage))
        })?;
        if let Some(path) = &args.svg {
            replace_text(path, &picture(&drawn))?;
        }
        if let Some(path) = &args.dot {
            replace_text(path, &dot(&drawn))?;
        }
        args.timed.show(&timings);
        return Ok(());
    }
    let text = match args.after {
        Some(pass) => print_after(&sources, pass, &options, &mut timings)?,
        None => print_stage(&sources, args.stage, &options, &mut timings)?,
    };
    terminal::print(&text)?;
    args.timed.show(&timings);
    Ok(())
}
