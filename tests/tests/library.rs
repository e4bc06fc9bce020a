//! The language's own library: every function against what PyTorch, transformers or a plain loop gives for the same arrays,
//! in every way of running it. `tools/reference/library.py` records the arrays.

use salient_tests::files::{files_under, text};
use salient_tests::recorded::check;
use salient_tests::sweep;
use std::collections::BTreeSet;

const LIBRARY: &str = "crates/salient-front/src/std";

fn stems(folder: &str, extension: &str) -> BTreeSet<String> {
    let files = files_under(folder, extension).into_iter().filter(|f| !f.contains('/'));
    files.map(|f| f.strip_suffix(&format!(".{extension}")).expect("has it").to_owned()).collect()
}

/// The names that the library's files declare: a declaration begins its line.
fn functions() -> BTreeSet<String> {
    let texts = files_under(LIBRARY, "attn").into_iter().map(|f| text(&format!("{LIBRARY}/{f}")));
    let name = |line: &str| {
        let rest = line.strip_prefix("fn ").or_else(|| line.strip_prefix("block "))?;
        Some(rest.split(['[', '(']).next()?.to_owned())
    };
    texts.flat_map(|t| t.lines().filter_map(name).collect::<Vec<_>>()).collect()
}

#[test]
fn every_function_gives_what_was_recorded() {
    let names: Vec<String> = stems("tests/library", "attn").into_iter().collect();
    sweep::each(&names, |name| check("tests/library", name));
}

#[test]
fn every_function_has_a_program_that_calls_it() {
    let functions = functions();
    assert!(functions.contains("softmax") && functions.contains("linear"), "{functions:?}");
    assert_eq!(stems("tests/library", "attn"), functions, "programs in tests/library");
    assert_eq!(stems("tests/library/data", "npz"), functions, "arrays in tests/library/data");
    for name in &functions {
        let program = text(&format!("tests/library/{name}.attn"));
        let calls = [format!(" {name}("), format!(" {name}[")];
        assert!(calls.iter().any(|call| program.contains(call)), "{name}.attn does not call it");
    }
}
