//! `salient lsp`: the language server, for editors.

use crate::output::failure::{Failure, Outcome};
use salient_lsp::{Ended, serve_stdio};

/// Arguments of `salient lsp`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Speak over standard input and output, as is done anyway: some editors say so
    #[arg(long)]
    stdio: bool,
}

/// Answers an editor until it ends the conversation.
pub(crate) fn run(Args { stdio: _ }: &Args) -> Outcome {
    // Files of the library are written there when an editor wants to show them.
    let library = dirs::cache_dir().map(|folder| folder.join("salient").join(env!("CARGO_PKG_VERSION")));
    match serve_stdio(library) {
        Ok(Ended::Properly) => Ok(()),
        Ok(Ended::Abruptly) => Err(Failure::call("the editor left without saying so")),
        Err(words) => Err(Failure::call(words)),
    }
}
