//! `salient serve`: a model bound to its arrays once, timed turn by turn at the word of another program.
//!
//! Benchmarks that let several systems take turns within one run need each of them to stay loaded between its turns.
//! A line of standard input is a request, a line of standard output its answer, in JSON:
//!
//! | request | answer |
//! |---|---|
//! | `turn SECONDS` | `{"ms": […]}`: one call that does not count, then calls for so many seconds |
//! | `steps SECONDS` | as `turn`, of a model with state: from the states among the inputs on, each call goes on from what the one before held |
//! | `write FILE` | `{"written": FILE}`: the outputs of the last call as a .npz file |
//! | `peak` | `{"fma": GF/s, "memory": GB/s}` of one core |
//!
//! Before the first request comes `{"compile_ms", "bind_ms", "isa"}`. A request that cannot be met is answered with
//! `{"error"}`. Nothing here reports or compares: that is for who asks.

use crate::arrays::Sources;
use crate::failure::{Failure, Outcome};
use crate::options::{Compile, Machine};
use crate::terminal;
use salient::{
    Array, Arrays, Bindings, Isa, IsaChoice, Model, Session, Weights, peak, read_sources, write_npz,
};
use serde_json::{Value, json};
use std::io::BufRead;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `salient serve`.
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

/// The most calls of one turn.
const CALLS: usize = 4000;

/// Binds the model, then answers until standard input ends.
pub(crate) fn run(args: &Args) -> Outcome {
    let options = args.compile.options_for(&args.machine)?;
    let before = Instant::now();
    let sources = read_sources(&args.file)?;
    let model = Model::from_sources(&sources, &options)?;
    let compile = before.elapsed();
    let given = args.arrays.read_one()?;
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
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| Failure::call(format!("standard input cannot be read: {e}")))?;
        answer(&served.request(line.trim())?)?;
    }
    Ok(())
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
        Ok(match (word, rest.parse::<f64>()) {
            ("turn", Ok(seconds)) => json!({"ms": self.turn(seconds)?}),
            ("steps", Ok(seconds)) => json!({"ms": self.steps(seconds)?}),
            ("write", _) if !rest.is_empty() => {
                self.write(rest)?;
                json!({"written": rest})
            }
            ("peak", _) => json!({"fma": peak::fma_peak(self.isa), "memory": peak::memory_peak(1)}),
            _ => {
                json!({"error": format!("`{line}` is none of: turn SECONDS, steps SECONDS, write FILE, peak")})
            }
        })
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
