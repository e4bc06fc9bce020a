//! `salient embed`: texts in, vectors out.
//!
//! What the model has to look like is said by [`Embedder`]; whether texts are cut, by the tokenizer's file.

use crate::input::checkpoint::{Checkpoint, lines};
use crate::input::fitting;
use crate::input::options::{Compile, Machine};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::picture::picture;
use crate::output::terminal;
use salient::{Model, lower, write_npy};
use salient_draw::heat::{Grid, Map, Row};
use salient_text::Embedder;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `salient embed`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file: a model with the inputs ids and keep, and the output embedding
    file: PathBuf,
    /// The texts
    texts: Vec<String>,
    #[command(flatten)]
    compile: Compile,
    #[command(flatten)]
    checkpoint: Checkpoint,
    /// Texts from a file, a line each; `-` is standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Write the vectors to a .npy file, f32[texts, width]; if neither this nor --plot is given, they are printed as JSON, a line for each text
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the cosine of each text with each other as a heat map, to a .svg or .png file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// The most texts of a batch; those of about one length go together
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,
    /// Cut texts to so many tokens; if not given, as the tokenizer's file says
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    #[command(flatten)]
    machine: Machine,
}

/// Embeds all texts.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut texts = args.texts.clone();
    if let Some(path) = &args.input {
        texts.extend(lines(path)?);
    }
    if texts.is_empty() {
        return Err(Failure::call("there are no texts: give them behind the model, or with --input"));
    }
    let sources = read_sources(&args.file)?;
    let options = args.compile.options_for(&args.machine)?;
    let options = fitting::chosen(&sources, options, &|graph| Embedder::check(graph).is_ok())?;
    let given = args.checkpoint.read(&[&lower(&sources, &options)?.graph])?;
    let options = given.options(options);
    let model = Model::from_sources(&sources, &options)?;
    terminal::excerpts(&model.warnings(terminal::stderr_colour()));
    let mut tokenizer = args.checkpoint.tokenizer()?;
    if args.max_tokens.is_some() {
        tokenizer.truncate(args.max_tokens)?;
    }
    let given = given.of(model.graph())?;
    let mut embedder = Embedder::new(&model, given.weights())?;
    let mut ids = Vec::new();
    let mut cut = 0;
    for text in &texts {
        let encoded = tokenizer.encode(text)?;
        cut += usize::from(encoded.is_cut);
        ids.push(encoded.ids);
    }
    if cut > 0 {
        let longest = ids.iter().map(Vec::len).max().unwrap_or(0);
        terminal::note(&format!("note: {cut} of {} texts are cut to {longest} tokens\n", texts.len()));
    }

    let bar = terminal::progress(texts.len(), "{bar:40} {pos} of {len} texts, {per_sec}");
    let vectors = embedder.embed(&ids, usize::from(args.batch), &mut |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let vectors = vectors?;

    let width = vectors.shape()[1];
    let values = vectors.as_f32().expect("vectors are f32");
    if let Some(path) = &args.plot {
        picture(path, &similarities(&texts, values, width))?;
    }
    if let Some(path) = &args.output {
        return Ok(write_npy(path, &vectors)?);
    }
    if args.plot.is_some() {
        return Ok(());
    }
    let mut out = String::new();
    for (text, vector) in texts.iter().zip(values.chunks(width.max(1))) {
        let _ = writeln!(out, "{}", json!({ "text": text, "embedding": vector }));
    }
    terminal::print(&out)
}

/// The cosine of each text with each other.
fn similarities(texts: &[String], values: &[f32], width: usize) -> Grid {
    let vectors: Vec<&[f32]> = values.chunks(width.max(1)).collect();
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(x * y)).sum::<f64>();
    let cosine = |a: &[f32], b: &[f32]| product(a, b) / (product(a, a) * product(b, b)).sqrt();
    let cosines = vectors.iter().flat_map(|a| vectors.iter().map(|b| cosine(a, b) as f32)).collect();
    let map = Map { name: String::new(), rows: texts.len(), columns: texts.len(), values: cosines };
    Grid {
        title: format!("similarity of {} texts", texts.len()),
        note: "the cosine of the angle between two vectors".to_owned(),
        rows: vec![Row { name: String::new(), maps: vec![map] }],
        row_labels: texts.to_vec(),
        column_labels: texts.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarities_are_cosines() {
        let texts = ["a", "b", "c"].map(str::to_owned);
        let grid = similarities(&texts, &[3.0, 4.0, 6.0, 8.0, -4.0, 3.0], 2);
        let map = &grid.rows[0].maps[0];
        assert_eq!((map.rows, map.columns, &grid.row_labels), (3, 3, &texts.to_vec()));
        assert_eq!(map.values, [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    }
}
