//! Programs beside arrays that something else computed: `FOLDER/NAME.attn` and `FOLDER/data/NAME.npz`.
//!
//! What lies in a folder is the tests' to say.

use crate::agree::matches_record;
use crate::files::{root, sources};
use crate::ways::{Call, Ways};
use salient::{Options, lower, read_data};

/// Runs the program on the recorded inputs in every way: each must give the recorded outputs, and all must agree.
///
/// # Errors
/// The program does not compile, or a way deviates.
pub fn check(folder: &str, name: &str) -> Result<(), String> {
    let sources = sources(&format!("{folder}/{name}.attn"))?;
    let graph = lower(&sources, &Options::default()).map_err(|e| e.to_string())?.graph;
    let data = read_data(root().join(format!("{folder}/data/{name}.npz"))).map_err(|e| e.to_string())?;
    let ways = Ways::new(&graph)?;
    let call = Call { inputs: data.inputs, params: data.params, ..Call::default() };
    for (way, outputs) in ways.outputs(&call)? {
        matches_record(&outputs, &data.outputs).map_err(|why| format!("{way}: {why}"))?;
    }
    ways.check(&call).map(|_| ())
}
