//! `salient completions`: what shells and `man` read.

use crate::Cli;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::PathBuf;

/// Arguments of `salient completions`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell, as in `salient completions bash > ~/.local/share/bash-completion/completions/salient`
    #[arg(required_unless_present = "man")]
    shell: Option<Shell>,
    /// Write manual pages to this folder instead: one for the program and one for each command
    #[arg(long, value_name = "DIR", conflicts_with = "shell")]
    man: Option<PathBuf>,
}

/// Prints completions, or writes manual pages.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut command = Cli::command();
    if let Some(folder) = &args.man {
        let refused =
            |e: std::io::Error| Failure::call(format!("{}: cannot be written: {e}", folder.display()));
        std::fs::create_dir_all(folder).map_err(refused)?;
        return clap_mangen::generate_to(command, folder).map_err(refused);
    }
    let Some(shell) = args.shell else { unreachable!("the parser asks for one") };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "salient", &mut text);
    terminal::print(&String::from_utf8_lossy(&text))
}
