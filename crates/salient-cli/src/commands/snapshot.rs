//! `salient snapshot`: what is made of models, compared with what was made of them before.

use crate::input::options::Compile;
use crate::output::difference::difference;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::snapshot::changes::changes;
use salient::snapshot::facts::Facts;
use salient::snapshot::{Snapshot, file};
use salient::{IoError, Options, read_sources, read_text, replace_text};
use std::fs;
use std::path::{Path, PathBuf};

/// The most bytes of a snapshot.
const MOST_BYTES: u64 = 64 << 20;

/// Arguments of `salient snapshot`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source files; the snapshot of m.attn is m.attn.snap beside it
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Take what is made now for what is to be made from now on
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    compile: Compile,
}

/// Compares each file with its snapshot. All are compared before the command fails.
pub(crate) fn run(args: &Args) -> Outcome {
    let options = args.compile.options()?;
    let mut worst: Outcome = Ok(());
    for path in &args.files {
        if let Err(failure) = of_file(path, args.accept, &options) {
            terminal::error(&failure.message);
            worst = Err(failure.said());
        }
    }
    worst
}

fn of_file(source: &Path, accept: bool, options: &Options) -> Outcome {
    let now = Snapshot::of(&read_sources(source)?, options)?;
    let (kept, pending, shown) = (file::kept(source), file::pending(source), source.display());
    let before = if kept.exists() { Some(read(&kept)?) } else { None };
    let before = before.map(|text| file::without_header(&text).unwrap_or(text));
    if before.as_deref() == Some(&now.text) {
        remove(&pending)?;
        return terminal::print(&format!("{shown}: unchanged\n"));
    }
    let is_new = before.is_none();
    if let Some(before) = &before {
        terminal::print(&said(source, before, &now))?;
    }
    let text = file::with_header(source, &now.text);
    if accept {
        replace_text(&kept, &text)?;
        remove(&pending)?;
        let done = if is_new { "written" } else { "renewed" };
        return terminal::print(&format!("{shown}: {} is {done}\n", kept.display()));
    }
    if is_new {
        let kept = kept.display();
        return Err(Failure::model(format!(
            "{shown} has no snapshot {kept}; `salient snapshot --accept {shown}` writes it"
        )));
    }
    replace_text(&pending, &text)?;
    let (kept, pending) = (kept.display(), pending.display());
    Err(Failure::model(format!(
        "{shown} is not what {kept} says; what it is now is in {pending}, and `salient snapshot --accept {shown}` takes it"
    )))
}

/// What has changed and what it means, then the lines.
fn said(source: &Path, before: &str, now: &Snapshot) -> String {
    let mut out = format!("{}: changed\n", source.display());
    let meanings = match Facts::parse(before) {
        Ok(facts) => changes(&facts, &now.facts),
        Err(why) => vec![format!("the facts of the old snapshot cannot be read: {why}")],
    };
    meanings.iter().for_each(|meaning| out.push_str(&format!("  {meaning}\n")));
    if meanings.is_empty() {
        out.push_str(
            "  it fuses, costs and stores what it did before; its program or plan is written otherwise\n",
        );
    }
    format!("{out}\n{}", difference(before, &now.text, terminal::stdout_colour()))
}

fn read(path: &Path) -> Outcome<String> {
    read_text(path, MOST_BYTES).map_err(|e: IoError| Failure::call(e.to_string()))
}

/// Removes a snapshot that was left for review and is none any more.
fn remove(pending: &Path) -> Outcome {
    match fs::remove_file(pending) {
        Err(e) if pending.exists() => {
            Err(Failure::call(format!("{} cannot be removed: {e}", pending.display())))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
