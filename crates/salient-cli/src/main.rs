//! The command line: `salient run`, `check`, `ir`, `explain`, `verify`, `fmt`, `bench`, `models`, `embed`,
//! `generate`, `translate`, `serve`, `tune`.
//!
//! One file a command; each is thin over the library. Exit codes: 0; 1 if the model or its result is wrong; 2 if the call
//! is wrong (also what the argument parser exits with). A broken invariant exits with 101 and asks to be reported.

mod arrays;
mod bench;
mod check;
mod checkpoint;
mod embed;
mod explain;
mod failure;
mod fitting;
mod fmt;
mod generate;
mod ir;
mod models;
mod numbers;
mod options;
mod profile;
mod report;
mod run;
mod serve;
mod terminal;
mod translate;
mod tune;
mod tuning;
mod verify;

use crate::failure::{Failure, Outcome};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A compiler for attention: plain tensor math to fused native code.
#[derive(Parser)]
#[command(name = "salient", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile a model and run it on arrays.
    Run(Box<run::Args>),
    /// Find what is wrong with a source file, without running it.
    Check(check::Args),
    /// Print a form of a model on its way to machine code.
    Ir(ir::Args),
    /// Say what was fused, by which rules, and why what was not was not.
    Explain(explain::Args),
    /// Compare compiled code with the interpreter on generated dimensions and data.
    Verify(verify::Args),
    /// Format source files.
    Fmt(fmt::Args),
    /// Time a model on random arrays, fused beside unfused.
    Bench(bench::Args),
    /// List the tensors and the metadata of a checkpoint.
    Models(models::Args),
    /// Make vectors of texts.
    Embed(Box<embed::Args>),
    /// Let a text go on.
    Generate(Box<generate::Args>),
    /// Translate texts, by an encoder and a decoder.
    Translate(Box<translate::Args>),
    /// Measure this machine, and keep the sizes that suit it in a file that every command reads.
    Tune(tune::Args),
    /// Answer requests for timed turns, line by line, for benchmarks beside other systems.
    Serve(Box<serve::Args>),
}

/// Bytes of stack. Passes recurse along chains of operators, which a program can make long; only what is used is touched.
const STACK: usize = 1 << 30;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(terminal::report_bug));
    let command = Cli::parse().command;
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

fn dispatch(command: &Command) -> Outcome {
    match command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::run(args),
        Command::Ir(args) => ir::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Fmt(args) => fmt::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Models(args) => models::run(args),
        Command::Embed(args) => embed::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Translate(args) => translate::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Serve(args) => serve::run(args),
    }
}
