//! `salient bench-server`: a model bound to its arrays once, timed turn by turn at the word of another program.
//!
//! Benchmarks that let several systems take turns within one run need each of them to stay loaded between its turns.
//! A line of standard input is a request, a line of standard output its answer, in JSON:
//!
//! | request | answer |
//! |---|---|
//! | `turn SECONDS` | `{"ms": […]}`: one call that does not count, then calls for so many seconds |
//! | `steps SECONDS` | as `turn`, of a model with state: from the states among the inputs, each call continues with the states that the call before it left |
//! | `write FILE` | `{"written": FILE}`: the outputs of the last call as a .npz file |
//! | `peak` | `{"fma": GF/s, "memory": GB/s}` of one core |
//!
//! Before the first request comes `{"compile_ms", "bind_ms", "isa"}`. A request that cannot be met is answered with
//! `{"error"}`, and the next one is waited for. Nothing here reports or compares: that is for who asks.

use crate::input::arrays::Sources;
use crate::input::numbers::seconds;
use crate::input::options::{Compile, Machine};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{Array, Arrays, Bindings, Isa, IsaChoice, Model, Session, Weights, peak, write_npz};
use serde_json::{Value, json};
use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `salient bench-server`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    #[command(flatten)]
    arrays: Sources,
    /// Draw the parameters that no file gives from their initialisers, with this seed
    #[arg(long, value_name = "SEED")]
    init: Option<u64>,
    #[command(flatten)]
    machine: Machine,
}

/// A request has less than so many bytes.
const MOST_BYTES: u64 = 1 << 16;

/// The most calls of one turn.
const CALLS: usize = 4000;

/// Binds the model, then answers until standard input ends.
pub(crate) fn run(args: &Args) -> Outcome {
    let options = args.compile.options_for(&args.machine)?;
    let before = Instant::now();
    let sources = read_sources(&args.file)?;
    let model = Model::from_sources(&sources, &options)?;
    let compile = before.elapsed();
    let given = args.arrays.read_one(model.graph())?;
    let before = Instant::now();
    let mut weights = Weights::from(&given.weights);
    if let Some(seed) = args.init {
        weights = weights.or_seeded(seed);
    }
    let session = model.session(&given.inputs, weights)?;
    let bind = before.elapsed();
    let isa = match options.isa {
        IsaChoice::Auto => Isa::detect(),
        IsaChoice::Only(isa) => isa,
    };
    let mut served =
        Served { outputs: session.outputs()?, model: &model, session, inputs: given.inputs, isa };
    answer(&json!({"compile_ms": millis(compile), "bind_ms": millis(bind), "isa": isa.to_string()}))?;
    let mut requests = std::io::stdin().lock();
    loop {
        let line = next_line(&mut requests)
            .map_err(|e| Failure::call(format!("standard input cannot be read: {e}")))?;
        let Some(line) = line else { return Ok(()) };
        let met = line.map_err(Failure::call).and_then(|line| served.request(line.trim()));
        answer(&met.unwrap_or_else(|failure| json!({"error": failure.text()})))?;
    }
}

/// The next line, or what is wrong with it; `None` at the end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Result<String, String>>> {
    let mut line = Vec::new();
    input.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() as u64 == MOST_BYTES && line.last() != Some(&b'\n') {
        // The rest of it is no request of its own.
        input.skip_until(b'\n')?;
        return Ok(Some(Err(format!("a request has less than {MOST_BYTES} bytes"))));
    }
    Ok(Some(String::from_utf8(line).map_err(|_| "a request is UTF-8".to_owned())))
}

/// What answers requests.
struct Served<'m> {
    model: &'m Model,
    session: Session<'m>,
    inputs: Arrays,
    outputs: Vec<Array>,
    isa: Isa,
}

impl Served<'_> {
    fn request(&mut self, line: &str) -> Outcome<Value> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let time = || seconds(rest).map_err(|what| Failure::call(format!("`{line}`: {what}")));
        match word {
            "turn" => Ok(json!({"ms": self.turn(time()?)?})),
            "steps" => Ok(json!({"ms": self.steps(time()?)?})),
            "write" if !rest.is_empty() => {
                self.write(rest)?;
                Ok(json!({"written": rest}))
            }
            "peak" => Ok(json!({"fma": peak::fma_peak(self.isa), "memory": peak::memory_peak(1)})),
            _ => Err(Failure::call(format!(
                "`{line}` is none of: turn SECONDS, steps SECONDS, write FILE, peak"
            ))),
        }
    }

    /// The milliseconds of each call of a turn.
    fn turn(&mut self, seconds: f64) -> Outcome<Vec<f64>> {
        self.session.run(&self.inputs, &mut self.outputs)?;
        timed(seconds, || Ok(self.session.run(&self.inputs, &mut self.outputs)?))
    }

    /// The milliseconds of each step of a turn: states grow where they lie, and are not copied.
    fn steps(&self, seconds: f64) -> Outcome<Vec<f64>> {
        let graph = self.model.graph();
        let mut session = self.session.reshaped(&self.inputs, &Bindings::new())?;
        // States lie in two memories in turn: after two steps the system has given the pages of both.
        session.step(&self.inputs)?;
        session.step(&self.inputs)?;
        let mut others = Arrays::new();
        for (name, array) in self.inputs.iter() {
            if graph.states().iter().all(|s| &*graph.inputs()[s.input].name != name) {
                others.insert(name, array.clone()).map_err(salient::Error::from)?;
            }
        }
        timed(seconds, || Ok(session.step(&others).map(|_| ())?))
    }

    fn write(&self, path: &str) -> Outcome {
        let mut arrays = Arrays::new();
        for (output, array) in self.model.graph().outputs().iter().zip(&self.outputs) {
            arrays.insert(&*output.name, array.clone()).map_err(salient::Error::from)?;
        }
        Ok(write_npz(path, &arrays)?)
    }
}

/// The milliseconds of each call, of which there is one at least.
fn timed(seconds: f64, mut call: impl FnMut() -> Outcome) -> Outcome<Vec<f64>> {
    let mut calls = Vec::new();
    let start = Instant::now();
    while calls.is_empty() || start.elapsed().as_secs_f64() < seconds && calls.len() < CALLS {
        let before = Instant::now();
        call()?;
        calls.push(millis(before.elapsed()));
    }
    Ok(calls)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn answer(value: &Value) -> Outcome {
    terminal::print(&format!("{value}\n"))
}
