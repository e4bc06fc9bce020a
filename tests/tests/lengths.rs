//! Every example at odd lengths: compiled code on all vectors and on one, two and three threads, against the interpreter.
//!
//! Each file is given some of the lengths that `salient verify --each-length` gives it, another selection a file; lengths
//! of single kernels are the business of `kernels`.

use salient::verify::{Lengths, Trials, verify};
use salient::{Options, lower, models};
use salient_tests::examples::small;
use salient_tests::files::{files_under, sources};
use salient_tests::sweep;

/// Trials of one model.
const TRIALS: usize = 6;

/// Longer ones are left to `salient verify --each-length`: the interpreter does some millions of operations a second.
const MOST_WORK: i64 = 4_000_000;

/// What an example is compiled with: published models are small, but for the positions that they know.
fn set(file: &str) -> Vec<(String, String)> {
    let name = file.strip_suffix(".attn").expect("listed by it");
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    if name == "bench/gpt2" {
        return [("V", "50"), ("N", "1100"), ("D", "24"), ("H", "3")].map(pair).to_vec();
    }
    let Some(program) = name.strip_prefix("models/") else { return Vec::new() };
    let sizes = small(program).into_iter().map(|(name, value)| match (program, &*name) {
        ("gpt2" | "minilm", "P") => (name, "1100".to_owned()),
        _ => (name, value),
    });
    sizes.collect()
}

#[test]
fn every_example_agrees_at_odd_lengths() {
    let files = files_under("examples", "attn");
    sweep::each(&files, |file| {
        let sources = sources(&format!("examples/{file}"))?;
        let seed = files.iter().position(|f| f == file).expect("one of them") as u64;
        for model in models(&sources).map_err(|e| e.to_string())? {
            let options = Options { model: Some(model.clone()), set: set(file), ..Options::default() };
            let graph = lower(&sources, &options).map_err(|e| e.to_string())?.graph;
            let trials = Trials { count: TRIALS, seed, lengths: Lengths::Each, most_work: MOST_WORK };
            let verified = verify(&graph, &options, trials, &mut |_| {}).map_err(|e| e.to_string())?;
            if let Some(finding) = verified.findings.first() {
                return Err(format!("{model}: {finding:?}"));
            }
        }
        Ok(())
    });
}
