//! The rulings of `docs/semantics.md`: what programs mean where systems disagree, on every way of running them.
//!
//! Expected values are written out, not computed by any of the ways.

use salient::{Arrays, Options, Sources, lower};
use salient_tests::agree::agree;
use salient_tests::data::Values;
use salient_tests::ways::{Call, Ways};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn sources(program: &str) -> Sources {
    let mut sources = Sources::new();
    sources.add("ruling.attn", program);
    sources
}

fn ways(program: &str) -> Ways {
    let graph = lower(&sources(program), &Options::default()).unwrap_or_else(|e| panic!("{e}")).graph;
    Ways::new(&graph).unwrap_or_else(|e| panic!("{e}"))
}

/// The inputs, each as its text form.
fn call(ways: &Ways, inputs: &[(&str, &str)]) -> Call {
    let mut call = Call { seed: Some(1), ..Call::default() };
    for (name, text) in inputs {
        let port = ways.graph().inputs().iter().find(|p| *p.name == **name).expect("an input of the program");
        let values = Values::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let Values::Literal(shape, _) = &values else { panic!("{text}: a literal") };
        let array = values.array(port.dtype, shape, name).unwrap_or_else(|e| panic!("{e}"));
        call.inputs.insert(*name, array).expect("named once");
    }
    call
}

/// The outputs of every way.
fn outputs(program: &str, inputs: &[(&str, &str)]) -> Vec<(String, Arrays)> {
    let ways = ways(program);
    ways.outputs(&call(&ways, inputs)).unwrap_or_else(|e| panic!("{e}"))
}

/// Every way must give these values for the output `y`.
fn gives(program: &str, inputs: &[(&str, &str)], y: &str) {
    for (way, outputs) in outputs(program, inputs) {
        let found = outputs.get("y").expect("the output");
        let expected = Values::parse(y).and_then(|v| v.array(found.dtype(), found.shape(), "y"));
        let expected = expected.unwrap_or_else(|e| panic!("{way}: {e}"));
        agree(found, &expected).unwrap_or_else(|e| panic!("{way}: {e}\n{:?}", found.to_f64_vec()));
    }
}

/// The program is refused, with a message that holds the text.
fn refused(program: &str, text: &str) {
    let error = lower(&sources(program), &Options::default()).expect_err("the program is accepted").to_string();
    assert!(error.contains(text), "{error}");
}

/// Every way refuses the call, with a message that holds the text.
fn fails(program: &str, inputs: &[(&str, &str)], text: &str) {
    let ways = ways(program);
    for (way, message) in ways.refusals(&call(&ways, inputs)).unwrap_or_else(|e| panic!("{e}")) {
        assert!(message.contains(text), "{way}: {message}");
    }
}

// ---- rows without a key

const MASKED: &[(&str, &str)] = &[
    ("s", "[[1, 2, 3], [1, 2, 3]]"),
    ("keep", "[[true, true, false], [false, false, false]]"),
    ("v", "[[1, 10], [2, 20], [4, 40]]"),
];

#[test]
fn a_row_without_a_key_is_zeros_by_softmax() {
    gives(
        "model m(s: f32[T, S], keep: bool[T, S], v: f32[S, F]) -> (y: f32[T, S]) {
             return softmax(if keep then s else -inf)
         }",
        &[MASKED[0], MASKED[1], MASKED[2]][..2].iter().copied().chain([MASKED[2]]).collect::<Vec<_>>(),
        "[[0.268941421, 0.731058579, 0], [0, 0, 0]]",
    );
    gives(
        "model m(s: f32[T, S], keep: bool[T, S], v: f32[S, F]) -> (y: f32[T, F]) {
             return softmax(if keep then s else -inf) @ v
         }",
        MASKED,
        "[[1.731058579, 17.31058579], [0, 0]]",
    );
}
