//! How the examples are compiled in tests.
//!
//! Knows settings alone; files are found by [`files`](crate::files).

/// The settings with which the models of an example are compiled: published models with one layer, since the others are
/// the same again. `file` is a path in the project, or below `examples`.
pub fn settings(file: &str) -> Vec<(String, String)> {
    let file = file.strip_prefix("examples/").unwrap_or(file);
    if is_published(file) { vec![("L".to_owned(), "1".to_owned())] } else { Vec::new() }
}

/// Sizes at which a published model can be run by the interpreter: those of the arrays in `tests/models`.
pub fn small(program: &str) -> Vec<(String, String)> {
    let sizes = match program {
        "gpt2" => "V=50 P=16 D=24 H=3 L=2",
        "llama" => "V=50 D=24 H=6 G=2 F=40 L=2",
        "minilm" => "V=50 P=16 D=24 H=3 F=40 L=2",
        "t5" => "V=50 D=24 H=3 E=8 F=40 L=2 N=8 max_distance=20",
        "translation" => "V=50 D=24 H=3 F=40 L=2",
        "vit" => "N=7 S=12 P=4 D=24 H=3 F=40 L=2",
        other => panic!("{other} has no small sizes"),
    };
    let pair = |set: &str| {
        let (name, value) = set.split_once('=').expect("NAME=VALUE");
        (name.to_owned(), value.to_owned())
    };
    sizes.split(' ').map(pair).collect()
}

/// Whether an example is a published model, by its path below `examples`.
pub fn is_published(file: &str) -> bool {
    file.starts_with("models/")
}
