//! `salient ir`: a form of a model on its way to machine code.

use crate::input::options::{Compile, Machine, Timed, stage};
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{Engine, PASSES, Pass, Stage, Timings, print_after, print_stage, read_sources};
use std::path::PathBuf;

/// Arguments of `salient ir`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file
    file: PathBuf,
    /// Which form
    #[arg(long, value_parser = stage(), default_value = "fused")]
    stage: Stage,
    /// The graph after a pass of the optimiser
    #[arg(long, value_name = "PASS", value_parser = pass, conflicts_with = "stage")]
    #[arg(long_help = format!("The graph after a pass of the optimiser, one of\n{}", passes()))]
    after: Option<&'static Pass>,
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
    let text = match args.after {
        Some(pass) => print_after(&sources, pass, &options, &mut timings)?,
        None => print_stage(&sources, args.stage, &options, &mut timings)?,
    };
    terminal::print(&text)?;
    args.timed.show(&timings);
    Ok(())
}
