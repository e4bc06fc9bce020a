//! `salient embed`: texts in, vectors out.
//!
//! What the model has to look like is said by [`Embedder`]; whether texts are cut, by the tokenizer's file.

use crate::input::checkpoint::{Checkpoint, lines};
use crate::input::fitting;
use crate::input::options::{Compile, Machine};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{Model, lower, write_npy};
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
    /// Write the vectors to a .npy file, f32[texts, width]; if not given, they are printed as JSON, a line for each text
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
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
    terminal::note(&model.warnings(terminal::stderr_colour()));
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

    if let Some(path) = &args.output {
        return Ok(write_npy(path, &vectors)?);
    }
    let width = vectors.shape()[1];
    let values = vectors.as_f32().expect("vectors are f32");
    let mut out = String::new();
    for (text, vector) in texts.iter().zip(values.chunks(width.max(1))) {
        let _ = writeln!(out, "{}", json!({ "text": text, "embedding": vector }));
    }
    terminal::print(&out)
}
