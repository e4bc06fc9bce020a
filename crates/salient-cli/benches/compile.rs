//! How long a program takes from source to code that can be called, step by step:
//! `cargo bench -p salient-cli --bench compile -- [FILES]`; without files, all of `examples/variants`.
//!
//! The least of several compilations in this process: what the first one pays besides, such as the start of the program, is
//! not in it. Threads are as many as the machine has.

use salient::{Model, Options, Step, models, read_sources};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Compilations of each program.
const ROUNDS: usize = 20;

/// The steps of compiling, in order.
const STEPS: [Step; 4] = [Step::Lower, Step::Optimise, Step::Schedule, Step::Emit];

fn main() {
    // Cargo adds `--bench`.
    let mut files: Vec<PathBuf> =
        std::env::args().skip(1).filter(|a| !a.starts_with('-')).map(PathBuf::from).collect();
    if files.is_empty() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/variants");
        let entries = std::fs::read_dir(folder).expect("the examples are there");
        files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        files.retain(|file| file.extension().is_some_and(|end| end == "attn"));
        files.sort();
    }
    println!(
        "{:<42} {:>8} {:>8} {:>8} {:>8} {:>8}  ms",
        "model", "graph", "fused", "kernels", "code", "in all"
    );
    for file in files {
        let sources = read_sources(&file).unwrap_or_else(|e| panic!("{e}"));
        for model in models(&sources).unwrap_or_else(|e| panic!("{e}")) {
            let options = Options { model: Some(model.clone()), ..Options::default() };
            // Four steps, then all of them.
            let mut least = [Duration::MAX; STEPS.len() + 1];
            for _ in 0..ROUNDS {
                let compiled = Model::from_sources(&sources, &options).unwrap_or_else(|e| panic!("{e}"));
                let steps = compiled.timings().steps();
                let of = |step| steps.iter().filter(|(s, _)| *s == step).map(|(_, time)| *time).sum();
                let times = STEPS.map(of).into_iter().chain([compiled.timings().total()]);
                least.iter_mut().zip(times).for_each(|(least, time)| *least = time.min(*least));
            }
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            print!("{:<42}", format!("{name} {model}"));
            least.iter().for_each(|time| print!(" {:>8.2}", time.as_secs_f64() * 1e3));
            println!();
        }
    }
}
