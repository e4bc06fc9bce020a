//! The command line: `salient run`, `check`, `ir`, `explain`, `verify`, `snapshot`, `doc`, `fmt`, `lsp`, `bench`, `inspect`,
//! `embed`, `generate`, `translate`, `tune`, `bench-server`, `new`, `completions`.
//!
//! `commands/` has a file for each, thin over the library; `input/` is what a call gives them, `output/` what they say.
//! Exit codes: 0; 1 if the model or its result is wrong; 2 if the call is wrong (also what the argument parser exits with).
//! A broken invariant exits with 101 and asks to be reported.

mod commands;
mod input;
mod output;

use crate::commands::{Command, dispatch};
use crate::output::failure::{self, Failure};
use crate::output::terminal;
use clap::{ColorChoice, Parser};
use std::process::ExitCode;

/// A compiler for attention: plain tensor math to fused native code.
#[derive(Parser)]
#[command(name = "salient", version, max_term_width = 100)]
struct Cli {
    /// When to colour messages and results: where a terminal reads, unless `NO_COLOR` is set; always; or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

/// Bytes of stack. Passes recurse along chains of operators, which a program can make long; only what is used is touched.
const STACK: usize = 1 << 30;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(terminal::report_bug));
    let Cli { color, command } = Cli::parse();
    terminal::set_colour(color);
    let run = || salient::with_stack(STACK, || dispatch(&command));
    let result = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(Ok(result)) => result,
        // The hook has said what there is to say.
        Err(_) => return ExitCode::from(failure::BUG),
        Ok(Err(e)) => Err(Failure::call(format!("no thread could be started: {e}"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::error(&failure.message);
            ExitCode::from(failure.code())
        }
    }
}
