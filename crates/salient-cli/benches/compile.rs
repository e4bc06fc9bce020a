//! How long a program takes from source to code that can be called, step by step:
//! `cargo bench -p salient-cli --bench compile -- [FILES] [--model NAME] [--set NAME=VALUE,VALUE...] [--threads N]
//! [--rounds N]`; without files, all of `examples/variants` and of `tests/equivalence`. Files are given by their whole paths. With
//! several values for a dimension, such as `L=12,24`, compilations alternate between them. The slowest stands in the last line.
//!
//! The least of several compilations in this process, and the median of them all together: what the first one pays besides,
//! such as the start of the program, is not in it. Threads are as many as the machine has unless they are given.

use salient::{Model, Options, Sources, Step, models, read_sources};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Compilations of each program, unless it is said how many.
const ROUNDS: usize = 20;

/// The steps of compiling, in order.
const STEPS: [Step; 4] = [Step::Lower, Step::Optimise, Step::Schedule, Step::Emit];

/// What is compiled.
struct Contest {
    files: Vec<PathBuf>,
    /// All models of the files, unless there is one.
    model: Option<String>,
    threads: Option<usize>,
    rounds: usize,
    /// The contestants: each has a value for the dimension.
    set: Vec<Option<(String, String)>>,
}

fn main() {
    let contest = contest();
    println!(
        "{:<56} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}  ms",
        "model", "graph", "fused", "kernels", "code", "in all", "median"
    );
    let mut slowest = (Duration::ZERO, String::new());
    for file in &contest.files {
        let sources = read_sources(file).unwrap_or_else(|e| panic!("{e}"));
        for model in models(&sources).unwrap_or_else(|e| panic!("{e}")) {
            if contest.model.as_ref().is_none_or(|only| *only == model) {
                let least = compare(file, &sources, &model, &contest);
                slowest = slowest.max((least, format!("{} {model}", name_of(file))));
            }
        }
    }
    println!("slowest: {} {:.2} ms", slowest.1, slowest.0.as_secs_f64() * 1e3);
}

/// The name of a file and of its folder.
fn name_of(file: &Path) -> String {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    format!("{folder}/{}", file.file_stem().unwrap_or_default().to_string_lossy())
}

/// What the command line asks for.
fn contest() -> Contest {
    let mut out = Contest { files: Vec::new(), model: None, threads: None, rounds: ROUNDS, set: vec![None] };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            // Cargo adds it.
            "--bench" => {}
            "--model" => out.model = Some(value()),
            "--threads" => out.threads = Some(value().parse().expect("a number of threads")),
            "--rounds" => out.rounds = value().parse().expect("a number of rounds"),
            "--set" => {
                let value = value();
                let (name, values) = value.split_once('=').expect("NAME=VALUE,VALUE");
                let each = |value: &str| Some((name.to_owned(), value.to_owned()));
                out.set = values.split(',').map(each).collect();
            }
            _ => out.files.push(PathBuf::from(arg)),
        }
    }
    if out.files.is_empty() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for folder in ["examples/variants", "tests/equivalence"] {
            add_programs(&root.join(folder), &mut out.files);
        }
        out.files.sort();
    }
    out
}

/// Adds the files of programs in a folder and in those inside of it.
fn add_programs(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            add_programs(&path, files);
        } else if path.extension().is_some_and(|end| end == "attn") {
            files.push(path);
        }
    }
}

/// Compiles a model in alternation with each of the values, and prints a line for each; the most of their least times.
fn compare(file: &Path, sources: &Sources, model: &str, contest: &Contest) -> Duration {
    // Four steps, then all of them.
    let mut least = vec![[Duration::MAX; STEPS.len() + 1]; contest.set.len()];
    let mut totals = vec![Vec::new(); contest.set.len()];
    for _ in 0..contest.rounds {
        for (at, set) in contest.set.iter().enumerate() {
            let options = Options {
                model: Some(model.to_owned()),
                set: set.iter().cloned().collect(),
                threads: contest.threads,
                ..Options::default()
            };
            let compiled = Model::from_sources(sources, &options).unwrap_or_else(|e| panic!("{e}"));
            let steps = compiled.timings().steps();
            let of = |step| steps.iter().filter(|(s, _)| *s == step).map(|(_, time)| *time).sum();
            let times = STEPS.map(of).into_iter().chain([compiled.timings().total()]);
            least[at].iter_mut().zip(times).for_each(|(least, time)| *least = time.min(*least));
            totals[at].push(compiled.timings().total());
        }
    }
    let slowest = least.iter().map(|times| times[STEPS.len()]).max().unwrap_or_default();
    for ((set, least), mut totals) in contest.set.iter().zip(least).zip(totals) {
        let set = set.as_ref().map_or_else(String::new, |(name, value)| format!(" {name}={value}"));
        totals.sort();
        print!("{:<56}", format!("{} {model}{set}", name_of(file)));
        let times = least.into_iter().chain([totals[totals.len() / 2]]);
        times.for_each(|time| print!(" {:>8.2}", time.as_secs_f64() * 1e3));
        println!();
    }
    slowest
}
