//! `salient translate`: texts to texts, by an encoder and a decoder.
//!
//! What the models have to look like is said by [`Translator`], how continuations are chosen by [`Beams`].

use crate::input::checkpoint::{Checkpoint, lines};
use crate::input::numbers::finite;
use crate::input::options::{Compile, Machine};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{Model, Options, lower};
use salient_text::{Beams, Hypothesis, Tokenizer, Translator};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `salient translate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file: an encoder from src to memory, and a decoder from memory and tgt to logits
    file: PathBuf,
    /// The texts
    texts: Vec<String>,
    #[command(flatten)]
    compile: Compile,
    /// The model that encodes; --model is the one that decodes
    #[arg(long, value_name = "NAME")]
    encoder: String,
    #[command(flatten)]
    checkpoint: Checkpoint,
    /// Texts from a file, a line each; `-` is standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Continuations that are kept at every step; 1 takes the most probable token
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    beams: u16,
    /// What the number of tokens is raised to that a continuation's score is divided by: above 0, long ones are favoured
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = finite, allow_negative_numbers = true)]
    length_penalty: f64,
    /// The most tokens of a translation
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_tokens: usize,
    /// The token that a translation begins with, such as `<pad>`
    #[arg(long, value_name = "TOKEN")]
    start: String,
    /// A token that ends a translation, such as `</s>`; may be given several times
    #[arg(long, value_name = "TOKEN", required = true)]
    end: Vec<String>,
    /// Print every text with all that was found for it as JSON, a line each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// Translates all texts.
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
    let of_encoder = Options { model: Some(args.encoder.clone()), ..options.clone() };
    let graphs = [lower(&sources, &options)?.graph, lower(&sources, &of_encoder)?.graph];
    let given = args.checkpoint.read(&graphs.each_ref())?;
    let decoder = Model::from_sources(&sources, &given.options(options))?;
    let encoder = Model::from_sources(&sources, &given.options(of_encoder))?;
    terminal::excerpts(&encoder.warnings(terminal::stderr_colour()));
    terminal::excerpts(&decoder.warnings(terminal::stderr_colour()));
    let tokenizer = args.checkpoint.tokenizer()?;
    given.note_others(&[encoder.graph(), decoder.graph()]);
    let (for_encoder, for_decoder) =
        (given.clone().used_by(encoder.graph())?, given.used_by(decoder.graph())?);
    let mut translator =
        Translator::new((&encoder, for_encoder.weights()), (&decoder, for_decoder.weights()))?;
    let beams = Beams {
        width: usize::from(args.beams),
        length_penalty: args.length_penalty,
        max_tokens: args.max_tokens,
        start: id(&tokenizer, &args.start)?,
        ends: args.end.iter().map(|end| id(&tokenizer, end)).collect::<Outcome<_>>()?,
    };
    for text in &texts {
        let found = translator.translate(&tokenizer.encode(text)?.ids, &beams)?;
        terminal::print(&line(args, &tokenizer, text, &found)?)?;
    }
    Ok(())
}

fn id(tokenizer: &Tokenizer, token: &str) -> Outcome<u32> {
    tokenizer.id(token).ok_or_else(|| Failure::call(format!("`{token}` is no token of the tokenizer")))
}

fn line(args: &Args, tokenizer: &Tokenizer, text: &str, found: &[Hypothesis]) -> Outcome<String> {
    if !args.json {
        let best = found.first().map_or(Ok(String::new()), |best| tokenizer.decode(&best.ids))?;
        return Ok(format!("{best}\n"));
    }
    let mut hypotheses = Vec::new();
    for one in found {
        hypotheses.push(json!({
            "text": tokenizer.decode(&one.ids)?, "ids": one.ids, "score": one.score, "ended": one.has_ended,
        }));
    }
    Ok(format!("{}\n", json!({ "text": text, "hypotheses": hypotheses })))
}
