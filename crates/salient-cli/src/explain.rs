//! `salient explain`: the fusion certificate of a model.

use crate::failure::Outcome;
use crate::options::Compile;
use crate::terminal;
use salient::{explain, lower, read_sources, require_fused};
use std::path::PathBuf;

/// Arguments of `salient explain`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
}

/// Prints the explanation on standard output.
pub(crate) fn run(args: &Args) -> Outcome {
    let options = args.compile.options();
    let sources = read_sources(&args.file)?;
    terminal::print(&explain(&sources, &options)?)?;
    if options.require_fused {
        require_fused(&sources, &lower(&sources, &options)?.graph, &options)?;
    }
    Ok(())
}
