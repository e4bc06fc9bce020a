//! Published models at small sizes: every way of running them agrees with what transformers computes.
//!
//! The archives in `tests/models` were written by `tools/reference/tiny.py`, with random parameters under the names that
//! the published checkpoints use. Checkpoints themselves are the subject of `checkpoints.rs`.

use salient::{Options, lower, read_data};
use salient_tests::agree::matches_record;
use salient_tests::files::{files_under, root, sources};
use salient_tests::ways::{Call, Ways};

/// Runs a program of `examples/models` at these sizes on the arrays of `tests/models`.
fn check(file: &str, model: &str, sizes: &str) {
    let sources = sources(&format!("examples/models/{file}.attn")).unwrap_or_else(|e| panic!("{e}"));
    let pair = |set: &str| {
        let (name, value) = set.split_once('=').expect("NAME=VALUE");
        (name.to_owned(), value.to_owned())
    };
    let set = sizes.split(' ').map(pair).collect();
    let options = Options { model: Some(model.to_owned()), set, ..Options::default() };
    let graph = lower(&sources, &options).unwrap_or_else(|e| panic!("{e}")).graph;
    let data = read_data(root().join(format!("tests/models/{model}.npz"))).unwrap_or_else(|e| panic!("{e}"));
    let ways = Ways::new(&graph).unwrap_or_else(|e| panic!("{e}"));
    let call = Call { inputs: data.inputs, params: data.params, ..Call::default() };
    for (way, outputs) in ways.outputs(&call).unwrap_or_else(|e| panic!("{e}")) {
        if let Err(why) = matches_record(&outputs, &data.outputs) {
            panic!("{way}: {why}");
        }
    }
    ways.check(&call).unwrap_or_else(|e| panic!("{e}"));
}

/// A test for each model, and the list of them.
macro_rules! models {
    ($($model:ident in $file:literal with $sizes:literal),+ $(,)?) => {
        $(#[test] fn $model() { check($file, stringify!($model), $sizes); })+
        const MODELS: &[&str] = &[$(stringify!($model)),+];
    };
}

models! {
    gpt2 in "gpt2" with "V=50 P=16 D=24 H=3 L=2",
    llama in "llama" with "V=50 D=24 H=6 G=2 F=40 L=2",
    minilm in "minilm" with "V=50 P=16 D=24 H=3 F=40 L=2",
    t5 in "t5" with "V=50 D=24 H=3 E=8 F=40 L=2 N=8 max_distance=20",
    vit in "vit" with "N=7 S=12 P=4 D=24 H=3 F=40 L=2",
}

#[test]
fn every_published_model_is_compared() {
    let names = |folder: &str, extension: &str| -> Vec<String> {
        let files = files_under(folder, extension).into_iter();
        files.map(|f| f.strip_suffix(&format!(".{extension}")).expect("has it").to_owned()).collect()
    };
    assert_eq!(names("examples/models", "attn"), MODELS, "programs");
    assert_eq!(names("tests/models", "npz"), MODELS, "data");
}
