//! The commands, one file each: its flags, and a `run` that is thin over the library.

mod bench;
mod check;
mod fmt;
mod help;
mod inspect;
mod run;
mod show;
mod snapshot;
mod texts;
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
    Ir(show::ir::Args),
    /// Say what was fused, by which rules, and why what was not was not.
    Explain(show::explain::Args),
    /// Draw the weights of a model's attentions as heat maps.
    View(Box<show::view::Args>),
    /// Write a page that shows a model's program, what became of it, and what it costs.
    Report(Box<show::report::Args>),
    /// Compare compiled code with the interpreter on generated dimensions and data.
    Verify(verify::Args),
    /// Compare what is made of models with what was made of them before.
    Snapshot(snapshot::Args),
    /// Explain a word of the language, a function or an operator.
    Doc(help::doc::Args),
    /// Format source files.
    Fmt(fmt::Args),
    /// Answer an editor: the language server, over standard input and output.
    Lsp(help::lsp::Args),
    /// Time a model on random arrays, fused beside unfused.
    Bench(bench::Args),
    /// List the tensors and the metadata of a checkpoint.
    #[command(alias = "models")]
    Inspect(inspect::Args),
    /// Make vectors of texts.
    Embed(Box<texts::embed::Args>),
    /// Train a model: make steps over batches of data, and keep the parameters.
    Train(Box<texts::train::Args>),
    /// Continue a text.
    Generate(Box<texts::generate::Args>),
    /// Translate texts, by an encoder and a decoder.
    Translate(Box<texts::translate::Args>),
    /// Measure this machine, and keep the sizes that suit it in a file that every command reads.
    Tune(tune::Args),
    /// Answer requests for timed turns, line by line, for benchmarks beside other systems.
    #[command(alias = "serve")]
    BenchServer(Box<bench::server::Args>),
    /// Write a model to begin with.
    New(help::new::Args),
    /// Print the completions of a shell, or write manual pages.
    Completions(help::completions::Args),
}

impl Command {
    /// Whether time may pass before it says anything. A server waits for others.
    pub(crate) fn shows_waiting(&self) -> bool {
        !matches!(self, Command::BenchServer(_))
    }
}

/// Does what is asked.
pub(crate) fn dispatch(command: &Command) -> Outcome {
    match command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::run(args),
        Command::Ir(args) => show::ir::run(args),
        Command::Explain(args) => show::explain::run(args),
        Command::View(args) => show::view::run(args),
        Command::Report(args) => show::report::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Doc(args) => help::doc::run(args),
        Command::Fmt(args) => fmt::run(args),
        Command::Lsp(args) => help::lsp::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Embed(args) => texts::embed::run(args),
        Command::Train(args) => texts::train::run(args),
        Command::Generate(args) => texts::generate::run(args),
        Command::Translate(args) => texts::translate::run(args),
        Command::Tune(args) => tune::run(args),
        Command::BenchServer(args) => bench::server::run(args),
        Command::New(args) => help::new::run(args),
        Command::Completions(args) => help::completions::run(args),
    }
}
