//! `salient explain`: the fusion certificate of a model.

use crate::input::options::{Compile, Timed};
use crate::input::program::read_sources;
use crate::output::failure::Outcome;
use crate::output::terminal;
use salient::{Timings, explain, lower, require_fused};
use std::path::PathBuf;

/// Arguments of `salient explain`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    /// Only what concerns the value of that name, as `salient ir --stage fused` shows it
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    #[command(flatten)]
    timed: Timed,
}

/// Prints the explanation on standard output.
pub(crate) fn run(args: &Args) -> Outcome {
    let options = args.compile.options()?;
    let sources = read_sources(&args.file)?;
    let mut timings = Timings::default();
    terminal::print(&explain(&sources, &options, args.node.as_deref(), &mut timings)?)?;
    args.timed.show(&timings);
    if options.require_fused {
        require_fused(&sources, &lower(&sources, &options)?.graph, &options)?;
    }
    Ok(())
}
