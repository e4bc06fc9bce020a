//! `salient new`: a model to begin with.

use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `salient new`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file to write, such as `my_attention.attn`; the ending may be left out
    name: PathBuf,
}

/// The model, with `NAME` for its name.
const MODEL: &str = "\
// An attention to change. B, H, T and E are dimensions: the batch, the heads, the length, the width of a head.

/// Causal attention: each position reads itself and those before it.
model NAME(q: f32[B, H, T, E], k: f32[B, H, T, E], v: f32[B, H, T, E]) -> (y: f32[B, H, T, E]) {
    // One score for every query i and every key j.
    let score = q @ k.T / sqrt(E)

    // A variant is a change here: `i - j < 128` for a window, `score - 0.1 * (i - j)` for a bias of the distance.
    let keep[i: T, j: T] = j <= i
    return softmax(if keep then score else -inf) @ v
}
";

/// Writes the model; a file that is there stays as it is.
pub(crate) fn run(args: &Args) -> Outcome {
    let path = match args.name.extension() {
        Some(ending) if ending == "attn" => args.name.clone(),
        Some(_) => return Err(Failure::call(format!("{}: a model is a file `.attn`", args.name.display()))),
        None => args.name.with_extension("attn"),
    };
    let refused = |e: std::io::Error| Failure::call(format!("{}: cannot be written: {e}", path.display()));
    let text = MODEL.replace("NAME", &model_name(&path));
    // Nothing that is there is overwritten.
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path).map_err(refused)?;
    file.write_all(text.as_bytes()).map_err(refused)?;
    let shown = path.display();
    terminal::print(&format!(
        "{shown} is written. What to try:\n    salient check {shown}\n    salient explain {shown}\n    salient verify {shown}\n    salient bench {shown} --set B=1 --set H=4 --set T=512 --set E=64\n"
    ))
}

/// A name that the language takes, of the file's.
fn model_name(path: &Path) -> String {
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().to_lowercase());
    let mut name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "model_");
    }
    name
}
