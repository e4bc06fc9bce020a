//! `salient generate`: continues a text, shown as it is made.
//!
//! What the model has to look like is said by [`Generator`]. Standard output gets the text alone; how fast it came is
//! told on standard error.

use crate::input::checkpoint::{Checkpoint, text};
use crate::input::fitting;
use crate::input::numbers::{not_negative, probability};
use crate::input::options::{Compile, Machine};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{Model, lower};
use salient_text::{ChatTemplate, End, Generated, Generator, Message, Sampling, Settings, Tokenizer};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `salient generate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file: a model with the input ids and the output logits
    file: PathBuf,
    /// The beginning of the text
    prompt: Option<String>,
    #[command(flatten)]
    compile: Compile,
    #[command(flatten)]
    checkpoint: Checkpoint,
    /// The beginning of the text, from a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    input: Option<PathBuf>,
    /// Put the prompt into the checkpoint's chat template, as what the user says
    #[arg(long)]
    chat: bool,
    /// What the system says in the chat template
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// The most tokens that are added
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_tokens: usize,
    /// Draw tokens, more evenly the greater this is; 0 takes the most probable
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = not_negative, allow_negative_numbers = true)]
    temperature: f64,
    /// Draw from so many of the most probable tokens alone; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    top_k: usize,
    /// Draw from the most probable tokens that together reach this probability
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = probability, allow_negative_numbers = true)]
    top_p: f64,
    /// What draws repeat by
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    sampling_seed: u64,
    /// End before this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Print a report as JSON instead of the text as it comes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// Generates once.
pub(crate) fn run(args: &Args) -> Outcome {
    let prompt = match (&args.prompt, &args.input) {
        (Some(prompt), _) => prompt.clone(),
        (None, Some(path)) => text(path)?,
        (None, None) => {
            return Err(Failure::call("there is no prompt: give it behind the model, or with --input"));
        }
    };
    let sources = read_sources(&args.file)?;
    let options = args.compile.options_for(&args.machine)?;
    let options = fitting::chosen(&sources, options, &|graph| Generator::check(graph).is_ok())?;
    let given = args.checkpoint.read(&[&lower(&sources, &options)?.graph])?;
    let options = given.options(options);
    let model = Model::from_sources(&sources, &options)?;
    terminal::excerpts(&model.warnings(terminal::stderr_colour()));
    let tokenizer = args.checkpoint.tokenizer()?;
    let prompt = if args.chat { in_template(args, &tokenizer, prompt)? } else { prompt };
    let given = given.of(model.graph())?;
    let mut generator = Generator::new(&model, given.weights())?;

    let sampling = if args.temperature == 0.0 {
        Sampling::Greedy
    } else {
        Sampling::Random { temperature: args.temperature, top_k: args.top_k, top_p: args.top_p }
    };
    let settings = Settings {
        max_tokens: args.max_tokens,
        sampling,
        seed: args.sampling_seed,
        stop: args.stop.clone(),
        ends: tokenizer.ends().to_vec(),
    };
    let encoded = tokenizer.encode(&prompt)?;
    let ids = encoded.ids;
    if encoded.is_cut {
        terminal::note(&format!(
            "note: the prompt is cut to {} tokens, as the tokenizer's file says\n",
            ids.len()
        ));
    }
    let mut unwritten = None;
    let mut show = |piece: &str| {
        if !args.json
            && let Err(failure) = terminal::print(piece)
        {
            unwritten = Some(failure);
        }
        unwritten.is_none()
    };
    let generated = generator.generate(&ids, &tokenizer, &settings, &mut show)?;
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    if args.json {
        return terminal::print(&format!("{:#}\n", report(&ids, &generated)));
    }
    terminal::print("\n")?;
    terminal::note(&format!(
        "{} tokens of prompt in {}; {} tokens in {}\n",
        ids.len(),
        speed(ids.len(), generated.prefill),
        generated.ids.len(),
        speed(generated.ids.len().saturating_sub(1), generated.decode)
    ));
    Ok(())
}

fn in_template(args: &Args, tokenizer: &Tokenizer, prompt: String) -> Outcome<String> {
    let source = tokenizer.chat_template();
    let source =
        source.ok_or_else(|| Failure::call("the tokenizer's file has no chat template: leave out --chat"))?;
    let says = |role: &str, content: String| Message { role: role.to_owned(), content };
    let system = args.system.clone().map(|text| says("system", text));
    let messages: Vec<Message> = system.into_iter().chain([says("user", prompt)]).collect();
    Ok(ChatTemplate::new(source)?.render(&messages)?)
}

/// `0.250 s (80.0 tokens/s)`; the first token is the prompt's.
fn speed(tokens: usize, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    format!("{seconds:.3} s ({:.1} tokens/s)", if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 })
}

fn report(prompt: &[u32], generated: &Generated) -> serde_json::Value {
    let end = match generated.end {
        End::Length => "length",
        End::Token => "token",
        End::Stop => "stop",
        End::Caller => "caller",
    };
    json!({
        "text": generated.text,
        "end": end,
        "prompt_ids": prompt,
        "ids": generated.ids,
        "prefill_ms": generated.prefill.as_secs_f64() * 1e3,
        "decode_ms": generated.decode.as_secs_f64() * 1e3,
    })
}
