//! `salient doc`: what a word, a sign or a function of the language means.

use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::nearest;
use salient::reference::{Entry, Kind, entries, named};

/// Arguments of `salient doc`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A keyword, an operator or a function, or any word that its description mentions; without it, everything is listed
    #[arg(allow_hyphen_values = true)]
    name: Option<String>,
}

/// Shows the entry of that name; else those that mention it, a line each.
pub(crate) fn run(args: &Args) -> Outcome {
    let Some(name) = &args.name else { return terminal::print(&list(&entries())) };
    if let Some(entry) = named(name) {
        return terminal::print(&whole(&entry));
    }
    let all = entries();
    let found: Vec<Entry> = all.iter().filter(|entry| entry.mentions(name)).cloned().collect();
    if name.trim().is_empty() || found.is_empty() {
        let near = nearest(name, all.iter().map(|entry| entry.name));
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(Failure::call(format!("nothing in the language mentions `{name}`{near}")));
    }
    terminal::print(&list(&found))
}

/// Everything that is known of one.
fn whole(entry: &Entry) -> String {
    let Entry { name, kind, signature, meaning, example } = entry;
    let indented: String = example.lines().map(|line| format!("    {line}\n")).collect();
    let about = match kind {
        Kind::Library => "definition",
        Kind::Keyword | Kind::Operator | Kind::Builtin => "example",
    };
    format!("{name}: {}\n\n    {signature}\n\n{meaning}\n\n{about}:\n\n{indented}", kind.name())
}

/// The names with the first line of their meanings, kind by kind.
fn list(entries: &[Entry]) -> String {
    let width = entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for kind in Kind::ALL {
        let mut of_kind = entries.iter().filter(|entry| entry.kind == kind).peekable();
        if of_kind.peek().is_some() {
            out += &format!("{}{}\n", if out.is_empty() { "" } else { "\n" }, kind.name());
        }
        for entry in of_kind {
            let first = entry.meaning.lines().next().unwrap_or_default();
            out += &format!("  {:<width$}  {first}\n", entry.name);
        }
    }
    out
}
