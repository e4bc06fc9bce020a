//! `salient run`: compiles a model, runs it on arrays, shows, writes or checks what comes out.

use crate::input::arrays::{CallArrays, Sources};
use crate::input::drawn::{self, Drawing};
use crate::input::numbers::{bytes, not_negative};
use crate::input::options::{Compile, Machine, pair};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::profile::{Peaks, Profile};
use crate::output::report::{Checked, Report, all_json};
use crate::output::terminal;
use salient::compare::{Tolerance, compare};
use salient::{
    Arrays, Bindings, Model, Options, Session, Step, Weights, nearest, write_npy, write_npz,
    write_safetensors,
};
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `salient run`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    #[command(flatten)]
    arrays: Sources,
    #[command(flatten)]
    drawing: Drawing,
    /// Give an inner value as a result too: a name that a `let` defines, behind the path under which its block declares parameters or without that; `*` stands for any letters; may be given several times
    #[arg(long, value_name = "NODE")]
    print: Vec<String>,
    /// Write an output to a .npy file; may be given several times
    #[arg(long, value_name = "NAME=FILE", value_parser = pair)]
    output: Vec<(String, String)>,
    /// Write every output to a .npz or .safetensors file
    #[arg(long, value_name = "FILE")]
    outputs: Option<PathBuf>,
    /// Deviation that a comparison allows, relative to the expected element
    #[arg(long, value_name = "X", default_value_t = Tolerance::default().rtol, value_parser = not_negative, allow_negative_numbers = true)]
    rtol: f64,
    /// Deviation that a comparison allows, absolute
    #[arg(long, value_name = "X", default_value_t = Tolerance::default().atol, value_parser = not_negative, allow_negative_numbers = true)]
    atol: f64,
    #[command(flatten)]
    machine: Machine,
    /// Refuse to run in more working memory than this, beside inputs, weights and outputs: bytes, or with K, M or G
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    max_memory: Option<usize>,
    /// Stop at the first number that is NaN or infinite, in inputs, parameters, inner values that a kernel stores for others, and results, and say which value of the source it is in, with its line and its index; -inf passes where it may be a mask
    #[arg(long)]
    check_finite: bool,
    /// Show how long each part took, in milliseconds
    #[arg(long, alias = "timings")]
    time: bool,
    /// Show what each kernel takes, beside what the machine can do: the least times of a few more runs
    #[arg(long)]
    profile: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs that a profile takes the least times of.
const PROFILED: usize = 7;

/// Compiles the model, and runs it once for each set of arrays.
pub(crate) fn run(args: &Args) -> Outcome {
    let options = Options { inner: args.print.clone(), ..args.compile.options_for(&args.machine)? };
    let sources = read_sources(&args.file)?;
    let model = Model::from_sources(&sources, &options)?;
    terminal::excerpts(&model.warnings(terminal::stderr_colour()));

    let before = Instant::now();
    let mut given = args.arrays.read(model.graph())?;
    if let Some(seed) = args.drawing.random {
        given.iter_mut().try_for_each(|given| {
            drawn::fill(model.graph(), given, (seed, &args.drawing.draw), &Bindings::new())
        })?;
    }
    let read = before.elapsed();
    if given.len() > 1 && !(args.output.is_empty() && args.outputs.is_none()) {
        return Err(Failure::call(
            "the outputs of several runs would be written to one file; give one --data",
        ));
    }
    for given in &given {
        check_names(args, &model, given.expected.as_ref())?;
    }
    let (mut wrong, mut documents) = (Vec::new(), Vec::new());
    for given in &given {
        let mut times = Vec::new();
        if documents.is_empty() {
            times.extend(model.timings().steps().iter().map(|(step, time)| (step.name(), *time)));
            times.push(("read arrays", read));
        }
        let (document, complaints) = run_on(args, &model, given, times)?;
        documents.push(document);
        wrong.extend(complaints);
    }
    if args.json {
        terminal::print(&all_json(documents))?;
    } else if given.len() > 1 {
        let (runs, compilations) = (given.len(), salient::compilations());
        terminal::print(&format!("{runs} runs, {compilations} compilation{}\n", plural(compilations)))?;
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::model(wrong.join("\n"))) }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// One run: prints its report for people, gives the one for programs, and what is wrong with the outputs.
fn run_on(
    args: &Args,
    model: &Model,
    given: &CallArrays,
    mut times: Vec<(&'static str, Duration)>,
) -> Outcome<(Value, Vec<String>)> {
    let mut timed = |part: &'static str, since: Instant| times.push((part, since.elapsed()));
    let before = Instant::now();
    let mut weights = Weights::from(&given.weights);
    if let Some(seed) = args.drawing.seed() {
        weights = weights.or_seeded(seed);
    }
    let session = model.session(&given.inputs, weights)?;
    timed("bind", before);
    let loaded = session.loaded_bytes().unwrap_or(0);
    if let (Some(needed), Some(most)) = (session.working_bytes().map(|n| n + loaded), args.max_memory)
        && needed > most
    {
        return Err(Failure::call(format!(
            "the model works in {needed} bytes beside inputs, weights and outputs; --max-memory allows {most}"
        )));
    }
    let before = Instant::now();
    let outputs = called(args, model, &session, &given.inputs)?;
    timed("run", before);

    write(args, &outputs)?;
    let tolerance = Tolerance { rtol: args.rtol, atol: args.atol };
    let checked = given.expected.as_ref().map(|expected| check(&outputs, expected, tolerance));
    let report = Report {
        model: model.graph().name(),
        engine: args.machine.engine,
        dimensions: session.dimensions(),
        outputs: &outputs,
        excerpts: args.output.is_empty() && args.outputs.is_none() && checked.is_none(),
        checked: checked.as_deref(),
        tolerance,
        working_bytes: session.working_bytes(),
        times: args.time.then_some(times.as_slice()),
        optimiser: model.timings().share(Step::Optimise),
    };
    let profile = args.profile.then(|| profile(args, &session, &given.inputs)).transpose()?;
    let mut document = report.json();
    let narrowed = given.narrowed();
    if !narrowed.is_empty() {
        document["narrowed"] = narrowed.into();
    }
    if !args.json {
        terminal::print(&report.text(terminal::stdout_colour()))?;
    }
    if let Some((profile, peaks)) = profile {
        document["profile"] = profile.json(&peaks);
        if !args.json {
            terminal::print(&(peaks.text() + &profile.text(&peaks)))?;
        }
    }
    Ok((document, checked.iter().flatten().filter_map(Checked::complaint).collect()))
}

/// The outputs of a call by name, with a look at its numbers if that is asked for.
fn called(args: &Args, model: &Model, session: &Session<'_>, inputs: &Arrays) -> Outcome<Arrays> {
    if !args.check_finite {
        return Ok(session.call(inputs)?);
    }
    let mut outputs = session.outputs()?;
    session.run_finite(inputs, &mut outputs)?;
    let mut named = Arrays::new();
    for (output, array) in model.graph().outputs().iter().zip(outputs) {
        named.insert(&*output.name, array)?;
    }
    Ok(named)
}

/// Runs a few times more, into memory of its own.
fn profile(args: &Args, session: &Session<'_>, inputs: &Arrays) -> Outcome<(Profile, Peaks)> {
    let (mut profile, mut outputs) = (Profile::new(session.kernels()), session.outputs()?);
    for _ in 0..PROFILED {
        session.run_watched(inputs, &mut outputs, &mut |at, time| profile.note(at, time))?;
    }
    let mut peaks = Peaks::of(args.machine.isa);
    peaks.measure();
    Ok((profile, peaks))
}

/// Outputs that flags and expectations name must be there before anything runs.
fn check_names(args: &Args, model: &Model, expected: Option<&Arrays>) -> Outcome {
    let known: Vec<&str> = model.graph().outputs().iter().map(|o| &*o.name).collect();
    let wanted = args.output.iter().map(|(name, _)| name.as_str());
    let others = expected.into_iter().flat_map(|e| e.passed_over().iter().map(String::as_str));
    let expected = expected.into_iter().flat_map(Arrays::names).chain(others);
    let unknown: Vec<String> = wanted
        .chain(expected)
        .filter(|name| !known.contains(name))
        .map(|name| match nearest(name, known.iter().copied()) {
            Some(near) => format!("the model has no output `{name}`; did you mean `{near}`?"),
            None => format!(
                "the model has no output `{name}`; its outputs are {}",
                salient::listed(known.iter().copied())
            ),
        })
        .collect();
    if unknown.is_empty() { Ok(()) } else { Err(Failure::call(unknown.join("\n"))) }
}

fn write(args: &Args, outputs: &Arrays) -> Outcome {
    for (name, path) in &args.output {
        write_npy(path, outputs.get(name).expect("names were checked"))?;
    }
    if let Some(path) = &args.outputs {
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            write_safetensors(path, outputs)?;
        } else {
            write_npz(path, outputs)?;
        }
    }
    Ok(())
}

fn check(outputs: &Arrays, expected: &Arrays, tolerance: Tolerance) -> Vec<Checked> {
    let pairs = expected.iter().filter_map(|(name, e)| outputs.get(name).map(|o| (name, o, e)));
    pairs.map(|(name, o, e)| Checked { name: name.to_owned(), result: compare(o, e, tolerance) }).collect()
}
