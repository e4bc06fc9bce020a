//! Every spelling and every variant of attention, and random programs of that shape, fused beside unfused:
//! `cargo bench -p salient-tests --bench variants -- [OPTIONS]`.
//!
//! ```text
//! --family WORD       only programs whose path contains the word; `random` for the random ones
//! --lengths 512,64    lengths of sequences
//! --threads 1,2       numbers of threads
//! --seconds 0.1       seconds for a program, length and number of threads, shared by the contestants
//! --random 300        how many random programs
//! --worst 40          rows of the table
//! --write             puts the tables into docs/benchmarks.md
//! --show              prints the programs instead
//! --kernels           prints the prices of plans and the least time of each kernel instead, both contestants
//! ```
//!
//! Contestants take turns within a row: fused code, unfused code and, for spellings, the attention of the same shape and mask that
//! their family is compared with. A row in which fused code takes longer than is allowed has more turns.

mod measure;
mod programs;
mod table;

use measure::{Peak, kernels_of, rows_of};
use programs::{Canonical, programs};
use salient_ir::text;
use std::process::ExitCode;

/// What is run.
struct Settings {
    family: Option<String>,
    lengths: Vec<i64>,
    threads: Vec<usize>,
    seconds: f64,
    random: u64,
    worst: usize,
    write: bool,
    show: bool,
    kernels: bool,
}

/// What was asked for, as it was written.
fn arguments() -> String {
    let given: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    given.join(" ")
}

impl Settings {
    /// Reads the arguments.
    fn of(mut args: impl Iterator<Item = String>) -> Result<Settings, String> {
        let mut out = Settings {
            family: None,
            lengths: vec![512, 64],
            threads: vec![1, 2],
            seconds: 0.1,
            random: 300,
            worst: 40,
            write: false,
            show: false,
            kernels: false,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("`{arg}` takes a value"));
            match arg.as_str() {
                "--family" => out.family = Some(value()?),
                "--lengths" => out.lengths = list(&value()?)?,
                "--threads" => out.threads = list(&value()?)?,
                "--seconds" => out.seconds = number(&value()?)?,
                "--random" => out.random = number(&value()?)?,
                "--worst" => out.worst = number(&value()?)?,
                "--write" => out.write = true,
                "--show" => out.show = true,
                "--kernels" => out.kernels = true,
                // Cargo adds it.
                "--bench" => {}
                other => return Err(format!("no option `{other}`")),
            }
        }
        Ok(out)
    }

    /// Whether a program is asked for, by its path.
    fn wants(&self, name: &str) -> bool {
        self.family.as_ref().is_none_or(|word| name.contains(word.as_str()))
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is no number that fits"))
}

fn list<N: std::str::FromStr>(text: &str) -> Result<Vec<N>, String> {
    text.split(',').map(number).collect()
}

fn run() -> Result<(), String> {
    let settings = Settings::of(std::env::args().skip(1))?;
    let wanted: Vec<_> =
        programs(settings.random)?.into_iter().filter(|program| settings.wants(&program.name)).collect();
    if settings.show {
        wanted.iter().for_each(|program| println!("// {}\n{}", program.name, text::print(&program.graph)));
        return Ok(());
    }
    if settings.kernels {
        for (threads, program) in settings.threads.iter().flat_map(|n| wanted.iter().map(move |p| (n, p))) {
            print!("{}", kernels_of(program, &settings.lengths, *threads, settings.seconds)?);
        }
        return Ok(());
    }
    let (mut rows, mut skipped, mut peak) = (Vec::new(), Vec::new(), Peak::new());
    for threads in &settings.threads {
        let canonical = Canonical::of(*threads)?;
        for (at, program) in wanted.iter().enumerate() {
            match rows_of(program, &canonical, &settings.lengths, *threads, settings.seconds) {
                Ok(found) => rows.extend(found),
                Err(why) => skipped.push(format!("{} on {threads} thread(s): {why}", program.name)),
            }
            if at % 16 == 0 {
                peak.measure();
                eprintln!("{threads} thread(s): {} of {}", at + 1, wanted.len());
            }
        }
    }
    peak.measure();
    let section = table::text(&rows, &peak, settings.worst, &arguments());
    print!("{section}");
    skipped.iter().for_each(|why| println!("not run: {why}"));
    if settings.write { table::write(&section) } else { Ok(()) }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
