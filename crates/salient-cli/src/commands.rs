//! The commands, one file each: its flags, and a `run` that is thin over the library.

mod bench;
mod check;
mod doc;
mod embed;
mod explain;
mod fmt;
mod generate;
mod ir;
mod models;
mod run;
mod serve;
mod translate;
mod tune;
mod verify;

use crate::output::failure::Outcome;
use clap::Subcommand;

/// What is asked of `salient`.
#[derive(Subcommand)]
pub(crate) enum Command {
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
    /// Explain a word of the language, a function or an operator.
    Doc(doc::Args),
    /// Format source files.
    Fmt(fmt::Args),
    /// Time a model on random arrays, fused beside unfused.
    Bench(bench::Args),
    /// List the tensors and the metadata of a checkpoint.
    Models(models::Args),
    /// Make vectors of texts.
    Embed(Box<embed::Args>),
    /// Continue a text.
    Generate(Box<generate::Args>),
    /// Translate texts, by an encoder and a decoder.
    Translate(Box<translate::Args>),
    /// Measure this machine, and keep the sizes that suit it in a file that every command reads.
    Tune(tune::Args),
    /// Answer requests for timed turns, line by line, for benchmarks beside other systems.
    Serve(Box<serve::Args>),
}

/// Does what is asked.
pub(crate) fn dispatch(command: &Command) -> Outcome {
    match command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::run(args),
        Command::Ir(args) => ir::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Doc(args) => doc::run(args),
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
