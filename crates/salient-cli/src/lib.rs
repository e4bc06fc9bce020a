//! The command line: `salient run`, `check`, `ir`, `explain`, `view`, `report`, `verify`, `snapshot`, `doc`, `fmt`, `lsp`, `bench`,
//! `inspect`, `embed`, `generate`, `translate`, `tune`, `bench-server`, `new`, `completions`.
//!
//! The program is a library, so that the package for Python has it too; the binary only calls it.
//!
//! `commands/` has a file for each, thin over the library; `input/` is what a call gives them, `output/` what they say.
//! Exit codes: 0; 1 if the model or its result is wrong; 2 if the call is wrong (also what the argument parser exits with).
//! A broken invariant exits with 101 and asks to be reported.

mod commands;
mod input;
mod output;

use crate::commands::{Command, dispatch};
use crate::output::failure::{self, Failure};
use crate::output::{terminal, waiting};
use clap::{ColorChoice, Parser};
use std::ffi::OsString;

/// A compiler for attention: plain tensor math to fused native code.
#[derive(Parser)]
#[command(name = "salient", version, max_term_width = 100)]
struct Cli {
    /// When to colour messages and results: where a terminal reads, unless `NO_COLOR` is set; always; or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: ColorChoice,
    /// Say nothing but results, warnings and errors: no notes and no progress
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

/// Bytes of stack. Passes recurse along chains of operators, which a program can make long; only what is used is touched.
const STACK: usize = 1 << 30;

/// Runs the program on its arguments, of which the first is its name, and gives the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    std::panic::set_hook(Box::new(terminal::report_bug));
    let Cli { color, quiet, command } = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(e) => {
            // Where standard output is closed there is nobody to be told.
            _ = e.print();
            return u8::try_from(e.exit_code()).unwrap_or(failure::BUG);
        }
    };
    terminal::set(color, quiet);
    if command.shows_waiting() {
        waiting::begin();
    }
    let run = || salient::with_stack(STACK, || dispatch(&command));
    let result = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(Ok(result)) => result,
        // The hook has said what there is to say.
        Err(_) => return failure::BUG,
        Ok(Err(e)) => Err(Failure::call(format!("no thread could be started: {e}"))),
    };
    waiting::end();
    match result {
        Ok(()) => 0,
        Err(failure) => {
            terminal::error(&failure.message);
            failure.code()
        }
    }
}
