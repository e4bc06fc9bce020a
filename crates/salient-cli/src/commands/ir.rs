//! `salient ir`: a form of a model on its way to machine code.

use crate::input::options::{Compile, Machine, Timed, stage};
use crate::output::failure::Outcome;
use crate::output::terminal;
use salient::{Stage, Timings, print_stage, read_sources};
use std::path::PathBuf;

/// Arguments of `salient ir`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file
    file: PathBuf,
    /// Which form
    #[arg(long, value_parser = stage(), default_value = "fused")]
    stage: Stage,
    #[command(flatten)]
    compile: Compile,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    timed: Timed,
}

/// Prints the stage on standard output.
pub(crate) fn run(args: &Args) -> Outcome {
    let sources = read_sources(&args.file)?;
    let mut timings = Timings::default();
    let options = args.compile.options_for(&args.machine)?;
    terminal::print(&print_stage(&sources, args.stage, &options, &mut timings)?)?;
    args.timed.show(&timings);
    Ok(())
}
