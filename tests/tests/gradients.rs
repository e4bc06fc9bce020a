//! Gradients of every program of the tree, against differences of the interpreter.

use salient::verify::{Lengths, Trials, verify, verify_gradients};
use salient::{Error, Options, lower};
use salient_grad::of_results;
use salient_ir::{Op, ReduceOp};
use salient_tests::examples::{Example, models_under};
use salient_tests::sweep;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Scalar operations of the interpreter beyond which a trial is left out.
const MOST_WORK: i64 = 1_000_000;

/// Compares the gradients of every model below a folder; gives how many directions were compared.
fn agree(folder: &str, count: usize) -> usize {
    let compared = AtomicUsize::new(0);
    sweep::each_of(
        &models_under(folder),
        |example: &Example| &example.name,
        |example| {
            let options = Options { model: Some(example.model.clone()), ..Options::default() };
            // Some cases are programs that are refused.
            let Ok(lowered) = lower(&example.sources()?, &options) else { return Ok(()) };
            let graph = lowered.graph;
            let trials = Trials { count, lengths: Lengths::Drawn, most_work: MOST_WORK, ..Trials::default() };
            match verify_gradients(&graph, trials, &mut |_| {}) {
                Ok(found) => {
                    compared.fetch_add(found.compared, Ordering::Relaxed);
                    let lines: Vec<String> = found.findings.iter().map(|f| format!("{f:?}")).collect();
                    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
                }
                // Nothing that goes in is a number that comes out.
                Err(Error::Run(why)) if why.contains("does not depend") || why.contains("one number") => {
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            }
        },
    );
    compared.into_inner()
}

#[test]
fn of_cases() {
    assert!(agree("tests/cases", 4) > 300);
}

#[test]
fn of_library_functions() {
    assert!(agree("tests/library", 4) > 100);
}

#[test]
fn of_examples() {
    assert!(agree("examples", 2) > 200);
}

#[test]
fn of_equivalent_spellings() {
    assert!(agree("tests/equivalence", 1) > 1000);
}

/// The maximum that a softmax subtracts cancels in every spelling of a causal attention.
#[test]
fn no_maximum_is_differentiated_in_any_spelling() {
    sweep::each_of(
        &models_under("tests/equivalence/causal"),
        |example| &example.name,
        |example| {
            let options = Options { model: Some(example.model.clone()), ..Options::default() };
            let graph = lower(&example.sources()?, &options).map_err(|e| e.to_string())?.graph;
            let graph = of_results(&graph).map_err(|e| e.to_string())?;
            let is_first = |id| matches!(graph.op(id), Op::Reduce(ReduceOp::ArgMax, _));
            if graph.ids().any(is_first) { Err("a maximum has a gradient".to_owned()) } else { Ok(()) }
        },
    );
}

/// Compiled gradients of every function of the library and every variant agree with the interpreter's, in every form of code.
#[test]
fn compiled_gradients_are_those_of_the_interpreter() {
    for folder in ["tests/library", "examples/variants"] {
        sweep::each_of(
            &models_under(folder),
            |example| &example.name,
            |example| {
                let options = Options { model: Some(example.model.clone()), ..Options::default() };
                let graph = lower(&example.sources()?, &options).map_err(|e| e.to_string())?.graph;
                let Ok(graph) = of_results(&graph) else { return Ok(()) };
                let trials = Trials { count: 2, ..Trials::default() };
                let found =
                    verify(&graph, &Options::default(), trials, &mut |_| {}).map_err(|e| e.to_string())?;
                let lines: Vec<String> = found.findings.iter().map(|f| format!("{f:?}")).collect();
                if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
            },
        );
    }
}
