//! The examples, and how they are compiled in tests.

use crate::files::{files_under, root, sources};
use crate::sweep;
use salient::{Engine, Options, Sources, fuse, lower, models};
use salient_ir::Requirement;
use salient_tile::{Program, Tiling};
use salient_vector::tile::Shape;
use std::path::PathBuf;

/// A model of an example.
#[derive(Clone, Debug)]
pub struct Example {
    /// Its file, by its path in the project.
    pub file: String,
    /// The path of its file below the folder, without the extension.
    pub stem: String,
    /// The name of the model.
    pub model: String,
    /// The stem, and of a file with several models the name of this one.
    pub name: String,
}

impl Example {
    /// Its file and what that imports.
    ///
    /// # Errors
    /// The rendered diagnostics of a file that does not parse.
    pub fn sources(&self) -> Result<Sources, String> {
        sources(&self.file)
    }

    /// The options that choose it.
    pub fn options(&self) -> Options {
        Options { model: Some(self.model.clone()), ..Options::default() }
    }

    /// The arrays beside its file, if there are some.
    pub fn data(&self) -> Option<PathBuf> {
        let file = root().join(&self.file).with_extension("npz");
        let data = file.parent()?.join("data").join(file.file_name()?);
        data.exists().then_some(data)
    }
}

/// Every model of every example, in the order of their files.
pub fn examples() -> Vec<Example> {
    models_under("examples")
}

/// Every model of every file below a folder of the project, in the order of the files.
pub fn models_under(folder: &str) -> Vec<Example> {
    let mut out = Vec::new();
    for below in files_under(folder, "attn") {
        let file = format!("{folder}/{below}");
        let stem = below.strip_suffix(".attn").expect("listed by it");
        let sources = sources(&file).unwrap_or_else(|e| panic!("{e}"));
        let names = models(&sources).unwrap_or_else(|e| panic!("{e}"));
        let alone = names.len() == 1;
        out.extend(names.into_iter().map(|model| {
            let name = if alone { stem.to_owned() } else { format!("{stem}/{model}") };
            Example { file: file.clone(), stem: stem.to_owned(), model, name }
        }));
    }
    out
}

/// Checks every example: see [`sweep::each`].
pub fn each(check: impl Fn(&Example) -> Result<(), String> + Sync) {
    sweep::each_of(&examples(), |example| &example.name, check);
}

/// Engines, and the register tiles of the programs that they run: those of the portable vectors, and one of several rows,
/// which has edges of all kinds.
const SCHEDULES: [(Engine, Shape); 3] = [
    (Engine::Jit, Shape { rows: 1, vectors: 8 }),
    (Engine::Jit, Shape { rows: 4, vectors: 4 }),
    (Engine::Unfused, Shape { rows: 4, vectors: 4 }),
];

/// Checks every program that an example becomes, with what its model requires of dimensions: see [`each`].
pub fn each_program(check: impl Fn(&Example, &Program, &[Requirement]) -> Result<(), String> + Sync) {
    each(|example| {
        let sources = example.sources()?;
        for (engine, tile) in SCHEDULES {
            let options = Options { engine, set: settings(&example.file), ..example.options() };
            let lowered = lower(&sources, &options).map_err(|e| e.to_string())?;
            let graph = fuse(&lowered.graph, &options);
            let tiling = Tiling::of(tile);
            let fuse = engine == Engine::Jit;
            let options = salient_tile::Options { fuse, tiling, ..salient_tile::Options::default() };
            let program = salient_tile::schedule(&graph, options);
            check(example, &program, graph.requirements())
                .map_err(|why| format!("{engine}, {tile:?}:\n{why}"))?;
        }
        Ok(())
    });
}

/// The settings with which the models of an example are compiled: those that have layers with one, since the others are
/// the same again. `file` is a path in the project, or below `examples`.
pub fn settings(file: &str) -> Vec<(String, String)> {
    let file = file.strip_prefix("examples/").unwrap_or(file);
    let has_layers = is_published(file) || ["train/gpt.attn", "train/adapters.attn"].contains(&file);
    if has_layers { vec![("L".to_owned(), "1".to_owned())] } else { Vec::new() }
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

/// Whether an example is a step of training, or what it trains, by its path below `examples`.
pub fn is_training(file: &str) -> bool {
    file.starts_with("train/")
}

/// Whether an example is a published model, by its path below `examples`.
pub fn is_published(file: &str) -> bool {
    file.starts_with("models/")
}
