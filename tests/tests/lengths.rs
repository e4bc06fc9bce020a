//! Every example at odd lengths: compiled code on all vectors and on one, two and three threads, against the interpreter.
//!
//! Each example is given some of the lengths that `salient verify --each-length` gives it, another selection each; lengths
//! of single kernels are the business of `kernels`.

use salient::verify::{Lengths, Trials, verify};
use salient::{Form, Isa, IsaChoice, Options, lower};
use salient_tests::examples::{self, Example, small};

/// Trials of one model.
const TRIALS: usize = 6;
/// Trials of a form of its plan.
const TRIALS_OF_FORM: usize = 3;

/// Longer ones are left to `salient verify --each-length`: the interpreter does some millions of operations a second.
const MOST_WORK: i64 = 4_000_000;

/// What an example is compiled with: published models are small, but for the positions that they know.
fn set(example: &Example) -> Vec<(String, String)> {
    let name = &*example.stem;
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

/// Verifies every example in so many trials, with options that may depend on its number.
fn each_agrees(count: usize, options: impl Fn(u64, Options) -> Options + Sync) {
    let names: Vec<String> = examples::examples().into_iter().map(|example| example.name).collect();
    examples::each(|example| {
        let seed = names.iter().position(|name| *name == example.name).expect("one of them") as u64;
        let options = options(seed, Options { set: set(example), ..example.options() });
        let graph = lower(&example.sources()?, &options).map_err(|e| e.to_string())?.graph;
        let trials =
            Trials { count, seed, lengths: Lengths::Each, most_work: MOST_WORK, ..Trials::default() };
        let verified = verify(&graph, &options, trials, &mut |_| {}).map_err(|e| e.to_string())?;
        let finding = verified.findings.first();
        finding.map_or(Ok(()), |finding| Err(format!("{finding:?}")))
    });
}

#[test]
fn every_example_agrees_at_odd_lengths() {
    each_agrees(TRIALS, |_, options| options);
}

/// Users get the form of plan that costs the least; every other form must be right too. The examples take turns with three of them.
#[test]
fn every_example_agrees_in_a_form_that_is_not_the_cheapest() {
    let forms = [Form::Joined, Form::Apart, Form::OneSum];
    each_agrees(TRIALS_OF_FORM, |seed, options| {
        let form = Some(forms[seed as usize % forms.len()]);
        Options { form, isa: IsaChoice::Only(Isa::Baseline), ..options }
    });
}
