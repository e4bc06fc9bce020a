//! `salient fmt`: source files in the one layout.

use crate::input::program::{is_standard_input, read_text};
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{format_source, replace_text};
use std::path::PathBuf;

/// Arguments of `salient fmt`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source files, rewritten in place; `-` formats standard input to standard output
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Change nothing; fail if a file is not in the layout
    #[arg(long)]
    check: bool,
}

/// Formats each file; one that does not parse is left as it is.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut unformatted = Vec::new();
    for path in &args.files {
        let (name, text) = read_text(path)?;
        let formatted = format_source(&name, &text)?;
        if is_standard_input(path) && !args.check {
            terminal::print(&formatted)?;
            continue;
        }
        if formatted == text {
            continue;
        }
        if args.check {
            unformatted.push(format!("{name} is not formatted"));
        } else {
            replace_text(path, &formatted)?;
            terminal::note(&format!("formatted {}\n", path.display()));
        }
    }
    if unformatted.is_empty() { Ok(()) } else { Err(Failure::model(unformatted.join("\n"))) }
}
