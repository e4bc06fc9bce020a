//! `salient tune`: the sizes that suit this machine, measured and kept in a file.
//!
//! What is tried, and how it is judged, is the library's; here are the file and the table.

use crate::input::tuning;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::tune::{Effort, Measured, Trial, Tuned, tune};
use salient::{IsaChoice, processor};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Arguments of `salient tune`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which vectors to tune: auto, baseline, avx2 or avx512; what the file says of others stays
    #[arg(long, value_name = "ISA", default_value = "auto")]
    isa: IsaChoice,
    /// Some seconds instead of about a minute
    #[arg(long)]
    quick: bool,
    /// The file to write instead of the user's own, which every command reads
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Only show the table
    #[arg(long, conflicts_with = "out")]
    dry_run: bool,
}

/// Measures, shows the table and writes the file.
pub(crate) fn run(args: &Args) -> Outcome {
    let file = args.out.clone().or_else(tuning::user_file);
    let file = file.filter(|_| !args.dry_run);
    if file.is_none() && !args.dry_run {
        return Err(Failure::call("this platform has no folder for configurations: give a file with --out"));
    }
    // Before the time is spent.
    file.as_deref().map_or(Ok(()), writable)?;
    let known = file.as_deref().map(tuning::existing).unwrap_or_default();
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let bar = terminal::progress(0, "{bar:40} {pos} of {len}: {msg}");
    let tuned = tune(args.isa, effort, &known, &mut |at, all, what| {
        bar.set_length(all as u64);
        bar.set_position(at as u64);
        bar.set_message(what.to_owned());
    });
    bar.finish_and_clear();
    let tuned = tuned?;
    terminal::print(&table(&tuned))?;
    let Some(file) = file else { return Ok(()) };
    tuned.tuning.write(&file)?;
    let read = if args.out.is_some() { "give it with --tuning" } else { "every command reads it" };
    terminal::print(&format!("\nwritten to {}: {read}\n", file.display()))
}

fn unwritable(file: &Path, why: &io::Error) -> Failure {
    Failure::call(format!("{}: cannot be written: {why}", file.display()))
}

/// Makes the file's folder, and checks that the file can be written; what it holds stays.
fn writable(file: &Path) -> Outcome {
    let is_new = !file.exists();
    let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    let opened = folder.and_then(|()| std::fs::OpenOptions::new().append(true).create(true).open(file));
    opened
        .and_then(|_| if is_new { std::fs::remove_file(file) } else { Ok(()) })
        .map_err(|e| unwritable(file, &e))
}

fn table(tuned: &Tuned) -> String {
    let mut out = machine(&tuned.measured);
    tuned.trials.iter().for_each(|t| trial(&mut out, t));
    out.push_str("\nall answers beside all defaults\n");
    for (work, gain) in &tuned.gains {
        let _ = writeln!(out, "  {work:<24} {gain:>5.2} times as fast");
    }
    out
}

fn machine(of: &Measured) -> String {
    let mut out = format!("{}\n", processor());
    for (isa, fma) in &of.fma {
        let _ = writeln!(out, "  {isa:<8} {fma:>7.1} GF/s on one core");
    }
    let _ = writeln!(
        out,
        "  memory   {:>7.1} GB/s on one core, {:.1} on {} threads\n  a call of the least kernel takes {:.2} us",
        of.memory,
        of.memory_of_all,
        of.threads,
        of.launch.as_secs_f64() * 1e6,
    );
    out
}

/// Candidate by time, the default first.
fn trial(out: &mut String, of: &Trial) {
    let _ = write!(out, "\n{} ({})\n  {:<10}", of.about, of.names.join(" x "), "");
    for work in &of.works {
        let _ = write!(out, " {work:>24}");
    }
    out.push_str("  of the default's time\n");
    for (at, candidate) in of.candidates.iter().enumerate() {
        let values: Vec<String> = candidate.values.iter().map(i64::to_string).collect();
        let _ = write!(out, "  {:<10}", values.join("x"));
        for time in &candidate.times {
            let _ = write!(out, " {:>21.2} us", time.as_secs_f64() * 1e6);
        }
        let _ = write!(out, "  {:.3}", candidate.part);
        if let Some((_, part)) = of.again.filter(|(candidate, _)| *candidate == at) {
            let _ = write!(out, ", again {part:.3}");
        }
        let word = match (at == of.chosen, at) {
            (true, 0) => "  chosen (the default)",
            (true, _) => "  chosen",
            (false, 0) => "  the default",
            (false, _) => "",
        };
        let _ = writeln!(out, "{word}");
    }
}
