//! Programs of a few lines with what they must give, or how they must be refused, on every way of running them.

use crate::agree::agree;
use crate::data::Values;
use crate::ways::{Call, Ways};
use salient::{Arrays, Options, Sources, lower};

/// The sources of a program.
pub fn sources(program: &str) -> Sources {
    let mut sources = Sources::new();
    sources.add("ruling.attn", program);
    sources
}

/// The program, compiled in every way.
///
/// # Panics
/// As all of these: if what is expected is not what is found, with the way.
pub fn ways(program: &str) -> Ways {
    let graph = lower(&sources(program), &Options::default()).unwrap_or_else(|e| panic!("{e}")).graph;
    Ways::new(&graph).unwrap_or_else(|e| panic!("{e}"))
}

/// The inputs, each as its text form.
pub fn call(ways: &Ways, inputs: &[(&str, &str)]) -> Call {
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
pub fn outputs(program: &str, inputs: &[(&str, &str)]) -> Vec<(String, Arrays)> {
    let ways = ways(program);
    ways.outputs(&call(&ways, inputs)).unwrap_or_else(|e| panic!("{e}"))
}

/// Every way must give these values for the output `y`.
pub fn gives(program: &str, inputs: &[(&str, &str)], y: &str) {
    for (way, outputs) in outputs(program, inputs) {
        let found = outputs.get("y").expect("the output");
        let expected = Values::parse(y).and_then(|v| v.array(found.dtype(), found.shape(), "y"));
        let expected = expected.unwrap_or_else(|e| panic!("{way}: {e}"));
        agree(found, &expected).unwrap_or_else(|e| panic!("{way}: {e}\n{:?}", found.to_f64_vec()));
    }
}

/// The program is refused, with a message that holds the text.
pub fn refused(program: &str, text: &str) {
    let error =
        lower(&sources(program), &Options::default()).expect_err("the program is accepted").to_string();
    assert!(error.contains(text), "{error}");
}

/// Every way refuses the call, with a message that holds the text.
pub fn fails(program: &str, inputs: &[(&str, &str)], text: &str) {
    let ways = ways(program);
    for (way, message) in ways.refusals(&call(&ways, inputs)).unwrap_or_else(|e| panic!("{e}")) {
        assert!(message.contains(text), "{way}: {message}");
    }
}

/// The result of each way, as numbers.
pub fn numbers(program: &str, inputs: &[(&str, &str)]) -> Vec<(String, Vec<f64>)> {
    let all = outputs(program, inputs).into_iter();
    all.map(|(way, outputs)| (way, outputs.get("y").expect("the output").to_f64_vec())).collect()
}
