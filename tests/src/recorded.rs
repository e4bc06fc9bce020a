//! Programs beside arrays that something else computed: `FOLDER/NAME.attn` and `FOLDER/data/NAME.npz`.
//!
//! What lies in a folder is the tests' to say.

use crate::agree::{matches_gradients, matches_record};
use crate::files::{root, sources};
use crate::ways::{Call, Ways};
use salient::{Arrays, Graph, Options, lower, read_data};
use salient_grad::backward;

/// Runs the program on the recorded inputs in every way: each must give the recorded outputs, and all must agree.
///
/// # Errors
/// The program does not compile, or a way deviates.
pub fn check(folder: &str, name: &str) -> Result<(), String> {
    let (call, outputs) = arrays(&format!("{folder}/data/{name}.npz"))?;
    let ways = gives(&graph(folder, name)?, &call, &outputs, matches_record)?;
    ways.check(&call).map(|_| ())
}

/// As [`check`], for the backward pass of the program: its cotangents, and the gradients that they give, lie in another folder.
///
/// # Errors
/// As [`check`]; if the program has no gradient.
pub fn check_gradients(folder: &str, gradients: &str, name: &str) -> Result<(), String> {
    let (mut call, mut outputs) = arrays(&format!("{folder}/data/{name}.npz"))?;
    let (cotangents, found) = arrays(&format!("{gradients}/{name}.npz"))?;
    for (all, more) in [(&mut call.inputs, &cotangents.inputs), (&mut outputs, &found)] {
        for (name, array) in more.iter() {
            all.insert(name, array.clone()).map_err(|e| e.to_string())?;
        }
    }
    let graph = backward(&graph(folder, name)?).map_err(|e| e.to_string())?;
    gives(&graph, &call, &outputs, matches_gradients).map(|_| ())
}

fn graph(folder: &str, name: &str) -> Result<Graph, String> {
    let sources = sources(&format!("{folder}/{name}.attn"))?;
    Ok(lower(&sources, &Options::default()).map_err(|e| e.to_string())?.graph)
}

/// What goes in, and what must come out.
fn arrays(file: &str) -> Result<(Call, Arrays), String> {
    let data = read_data(root().join(file)).map_err(|e| e.to_string())?;
    Ok((Call { inputs: data.inputs, params: data.params, ..Call::default() }, data.outputs))
}

/// Every way gives what was recorded.
fn gives(
    graph: &Graph,
    call: &Call,
    recorded: &Arrays,
    matches: fn(&Arrays, &Arrays) -> Result<(), String>,
) -> Result<Ways, String> {
    let ways = Ways::new(graph)?;
    for (way, outputs) in ways.outputs(call)? {
        matches(&outputs, recorded).map_err(|why| format!("{way}: {why}"))?;
    }
    Ok(ways)
}
