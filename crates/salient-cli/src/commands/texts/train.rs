//! `salient train`: makes steps of a model that moves its parameters, shows how that goes, and keeps what comes of it.
//!
//! What a step is, the model says; batches, checkpoints and what stops a run are the library's ([`Trainer`]).

mod data;
mod log;

use self::data::{Examples, Sizes, Units};
use self::log::{Log, Size};
use crate::input::call::without_others;
use crate::input::numbers::{not_negative, probability};
use crate::input::options::{Compile, pair};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::profile::{Profile, fma_peak};
use crate::output::terminal;
use salient::{
    Array, Arrays, Course, Decay, Evaluation, IsaChoice, Model, Options, Port, Schedule, Trainer, Weights,
    read_wanted, replace_text, write_safetensors,
};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Arguments of `salient train`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file: a model with the result loss that moves its parameters
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    /// What to train on: tokens (.npy, or .bin of 16-bit numbers), a text, or examples (.npz, .safetensors) whose arrays are inputs by name
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// A tokenizer.json for a text
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// What the tokens of a text are without a tokenizer
    #[arg(long, value_name = "UNITS", value_enum, default_value_t = Units::Characters)]
    units: Units,
    /// Steps in all, those of the run that it goes on with too
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Windows, or examples, of a step
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = count)]
    batch: usize,
    /// Tokens of a window
    #[arg(long, value_name = "N", value_parser = count)]
    length: Option<usize>,
    /// The greatest rate, for the input `rate`
    #[arg(long, value_name = "X", default_value_t = 1e-3, value_parser = not_negative)]
    rate: f64,
    /// How the rate falls after it has risen: constant, linear or cosine
    #[arg(long, value_name = "KIND", default_value = "constant", value_parser = decay)]
    schedule: Decay,
    /// Steps over which the rate rises
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm_up: u64,
    /// The least rate
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = not_negative)]
    least_rate: f64,
    /// An input that is the same number at every step; may be given several times
    #[arg(long, value_name = "NAME=NUMBER", value_parser = pair)]
    input: Vec<(String, String)>,
    /// Parameters to begin with, by path; those that the file lacks are drawn, and what the model does not have is named
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The share of the data, at its end, that is kept for validation
    #[arg(long, value_name = "SHARE", value_parser = probability)]
    val: Option<f64>,
    /// Steps between validations; the last step is followed by one too
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = count)]
    eval_every: usize,
    /// Batches of a validation, at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = count)]
    eval_batches: usize,
    /// Where the parameters go, as .safetensors
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where checkpoints go, from which --resume goes on
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Steps between checkpoints; the last step is followed by one too
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count, requires = "checkpoint")]
    checkpoint_every: usize,
    /// Go on from this checkpoint
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// A line of JSON for each step
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Draw the losses, as .svg
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Where a tokenizer.json of the characters of the text goes, which `generate` reads
    #[arg(long, value_name = "FILE")]
    write_tokenizer: Option<PathBuf>,
    /// Draws batches, dropout, and the parameters that no file gives
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u32,
    /// Threads; as many as the machine has if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Which vectors compiled code uses: auto, baseline, avx2 or avx512
    #[arg(long, value_name = "ISA", default_value = "auto")]
    isa: IsaChoice,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Whether the user has asked to stop.
static STOP: AtomicBool = AtomicBool::new(false);

/// The result that is made small.
const LOSS: &str = "loss";

fn decay(text: &str) -> Result<Decay, String> {
    Decay::from_name(text).ok_or_else(|| "this is constant, linear or cosine".to_owned())
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("this is at least 1".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err("this is no count".to_owned()),
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Stopped,
}

/// Trains a model.
pub(crate) fn run(args: &Args) -> Outcome {
    let sources = read_sources(&args.file)?;
    let options = |train: bool| -> Outcome<Options> {
        Ok(Options {
            train: train.then_some(args.seed),
            isa: args.isa,
            threads: args.threads.map(usize::from),
            ..args.compile.options()?
        })
    };
    let sizes = Sizes {
        batch: args.batch,
        length: args.length,
        seed: u64::from(args.seed),
        kept: args.val.unwrap_or(0.0),
    };
    let examples = data::read(&args.data, args.tokenizer.as_deref(), args.units, &sizes)?;
    write_tokenizer(args, &examples)?;
    let sized = options(true)?.for_batches(&sources, &*examples.train)?;
    let model = Model::from_sources(&sources, &sized)?;
    terminal::excerpts(&model.warnings(terminal::stderr_colour()));
    let course = course(args, &model)?;
    let evaluation = match &examples.kept {
        None => None,
        Some(kept) => {
            let calm = Model::from_sources(&sources, &options(false)?)?;
            Some((Evaluation::new(&calm, LOSS, &options(false)?)?, kept.in_order(args.eval_batches)?))
        }
    };
    let others = course.inputs.clone();
    let weights = weights(args, &model)?;
    let weights = weights.as_ref().map_or(Weights::none(), Weights::from);
    let mut trainer = Trainer::new(&model, weights, &*examples.train, course)?;
    if let Some(path) = &args.resume {
        trainer.resume(path)?;
    }
    terminal::note(&format!("{}; {}\n", examples.words, parameters(&trainer)?));
    // Twice is for those who cannot wait: then the process ends as it does without us.
    let handler = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    });
    handler.map_err(|e| Failure::call(format!("Ctrl-C cannot be heard: {e}")))?;
    let size = Size {
        in_batch: examples.in_batch,
        unit: examples.unit,
        flops: Profile::new(trainer.session().kernels()).flops(),
        peak: fma_peak(args.isa) * 1e9 * trainer.session().threads() as f64,
    };
    let mut log = Log::new(args.log.as_deref(), args.resume.is_some(), args.steps, size)?;
    let mut check = |trainer: &Trainer<'_>, log: &mut Log| -> Outcome {
        let Some((evaluation, batches)) = &evaluation else { return Ok(()) };
        log.validation(trainer.made(), evaluation.mean(&trainer.parameters()?, batches, &others)?)
    };
    let end = go(args, &mut trainer, &mut log, &mut check);
    log.end();
    if let (Err(_), Some(path)) = (&end, &args.checkpoint) {
        // What broke a step has been taken back.
        trainer.save(path)?;
        terminal::note(&format!("the state before that step is in {}\n", path.display()));
    }
    finish(args, &trainer, &log, end?)
}

/// The parameters to begin with, if a file is named.
fn weights(args: &Args, model: &Model) -> Outcome<Option<Arrays>> {
    let graph = model.graph();
    let moved = (0..graph.inputs().len()).filter(|at| graph.is_moved_parameter(*at));
    let known: Vec<&Port> = graph.params().iter().chain(moved.map(|at| &graph.inputs()[at])).collect();
    let is_known = |name: &str| known.iter().any(|port| *port.name == *name);
    let Some(path) = &args.weights else { return Ok(None) };
    Ok(Some(without_others(read_wanted(path, &is_known)?)?))
}

/// The steps of a run, with what comes between them.
fn go(
    args: &Args,
    trainer: &mut Trainer<'_>,
    log: &mut Log,
    check: &mut dyn FnMut(&Trainer<'_>, &mut Log) -> Outcome,
) -> Outcome<End> {
    while trainer.made() < args.steps {
        if STOP.load(Ordering::SeqCst) {
            return Ok(End::Stopped);
        }
        let before = Instant::now();
        let progress = trainer.step()?;
        log.step(&progress, before.elapsed())?;
        let made = trainer.made();
        let is_last = made == args.steps;
        if made.is_multiple_of(args.eval_every as u64) || is_last {
            check(trainer, log)?;
        }
        if let Some(path) = &args.checkpoint
            && made.is_multiple_of(args.checkpoint_every as u64)
            && !is_last
        {
            trainer.save(path)?;
        }
    }
    Ok(End::Done)
}

/// Writes what a run leaves.
fn finish(args: &Args, trainer: &Trainer<'_>, log: &Log, end: End) -> Outcome {
    if let Some(path) = &args.checkpoint {
        trainer.save(path)?;
    }
    if let Some(path) = &args.out {
        write_safetensors(path, &trainer.parameters()?)?;
    }
    if let Some(path) = &args.plot {
        log.plot(path, &format!("{}: {} steps", args.file.display(), trainer.made()))?;
    }
    let loss = log.losses.last().map(|(_, loss)| *loss);
    let kept = log.kept.last().map(|(_, loss)| *loss);
    if args.json {
        let report = json!({
            "steps": trainer.made(),
            "end": match end { End::Done => "done", End::Stopped => "stopped" },
            "loss": loss,
            "validation": kept,
            "per_second": log.speed(),
            "of_peak": log.share(),
        });
        terminal::print(&format!("{report:#}\n"))?;
    } else {
        let number = |name: &str, value: Option<f64>| value.map(|value| format!(", {name} {value:.4}"));
        let said = [number("loss", loss), number("validation loss", kept)];
        let said: String = said.into_iter().flatten().collect();
        let (speed, share) = (log.speed(), log.share());
        terminal::print(&format!(
            "{} steps{said}, {speed:.0} per second, {share:.2} of peak\n",
            trainer.made()
        ))?;
    }
    if end == End::Stopped {
        let said = match &args.checkpoint {
            Some(path) => format!("stopped; --resume {} goes on", path.display()),
            None => "stopped; with --checkpoint it could go on".to_owned(),
        };
        return Err(Failure::model(said));
    }
    Ok(())
}

/// The rates and the inputs that are the same at every step.
fn course(args: &Args, model: &Model) -> Outcome<Course> {
    let least = if args.rate > 0.0 { args.least_rate / args.rate } else { 0.0 };
    let schedule =
        Schedule { rate: args.rate, warm_up: args.warm_up, decay: args.schedule, total: args.steps, least };
    let mut course = Course::new(u64::from(args.seed), schedule);
    let mut inputs = Arrays::new();
    for (name, text) in &args.input {
        let port = model.graph().inputs().iter().find(|port| *port.name == **name);
        let Some(port) = port.filter(|port| port.axes.is_empty()) else {
            return Err(Failure::call(format!(
                "--input {name}: the model has no input of this name that is one number"
            )));
        };
        let value: f64 =
            text.parse().map_err(|_| Failure::call(format!("--input {name}={text}: this is no number")))?;
        let array = Array::from_f64(port.dtype.compute(), vec![], &[value]);
        inputs.insert(name.clone(), array.map_err(|e| Failure::call(format!("--input {name}: {e}")))?)?;
    }
    course.inputs = inputs;
    Ok(course)
}

fn write_tokenizer(args: &Args, examples: &Examples) -> Outcome {
    match (&args.write_tokenizer, &examples.vocabulary) {
        (None, _) => Ok(()),
        (Some(path), Some(known)) => Ok(replace_text(path, &data::character_tokenizer(known))?),
        (Some(_), None) => Err(Failure::call("--write-tokenizer is for a text that is taken by characters")),
    }
}

/// How many parameters there are, in words.
fn parameters(trainer: &Trainer<'_>) -> Outcome<String> {
    let count: usize = trainer.parameters()?.iter().map(|(_, array)| array.len()).sum();
    Ok(format!("{count} parameters"))
}
