//! `salient bench`: times a model on random arrays, engine beside engine, kernel by kernel.
//!
//! Engines take turns within one run, since clocks and neighbours change between runs; minimum and median are shown, and
//! the machine's own peak, measured between the turns.

use crate::failure::{Failure, Outcome};
use crate::options::{Compile, Timed};
use crate::terminal;
use salient::{
    Array, Arrays, DType, Engine, Isa, IsaChoice, Model, Options, Session, Weights, peak, read_sources,
};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `salient bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    /// Engines that take turns
    #[arg(long, value_delimiter = ',', value_parser = crate::options::engine(), default_value = "jit,unfused")]
    engines: Vec<Engine>,
    /// Which vectors compiled code uses: auto, baseline, avx2 or avx512
    #[arg(long, value_name = "ISA", default_value = "auto")]
    isa: IsaChoice,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Turns of each engine
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: u32,
    /// Seconds of one turn
    #[arg(long, value_name = "S", default_value_t = 0.3)]
    seconds: f64,
    /// Seed of the arrays
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    timed: Timed,
    /// Positions that states hold before the call, such as the tokens of a cache
    #[arg(long, value_name = "N", default_value_t = 0)]
    held: u32,
}

/// The times of one engine.
struct Contestant<'m> {
    engine: Engine,
    session: Session<'m>,
    outputs: Vec<Array>,
    calls: Vec<Duration>,
    /// The least time of each kernel.
    kernels: Vec<Duration>,
}

/// Runs the benchmark and prints the table.
pub(crate) fn run(args: &Args) -> Outcome {
    let sources = read_sources(&args.file)?;
    let options = |engine: Engine| Options {
        engine,
        isa: args.isa,
        threads: Some(usize::from(args.threads)),
        ..args.compile.options()
    };
    let models = args
        .engines
        .iter()
        .map(|e| Model::from_sources(&sources, &options(*e)).map(|m| (*e, m)))
        .collect::<Result<Vec<_>, _>>()?;
    for (engine, model) in models.iter().filter(|_| args.timed.wanted()) {
        terminal::note(&format!("{engine}\n{}", model.timings()));
    }
    let Some((_, first)) = models.first() else { return Ok(()) };
    let (inputs, params) = (
        random(first.graph().inputs(), first, args.seed, args.held)?,
        random(first.graph().params(), first, !args.seed, args.held)?,
    );
    let mut contestants = Vec::new();
    for (engine, model) in &models {
        let session = model.session(&inputs, Weights::from(&params))?;
        let outputs = session.outputs()?;
        let kernels = vec![Duration::MAX; session.kernels().len()];
        contestants.push(Contestant { engine: *engine, session, outputs, calls: Vec::new(), kernels });
    }
    let isa = match args.isa {
        IsaChoice::Auto => Isa::detect(),
        IsaChoice::Only(isa) => isa,
    };
    let mut fma = 0f64;
    for _ in 0..args.rounds {
        for c in &mut contestants {
            c.turn(&inputs, args.seconds)?;
        }
        fma = fma.max(peak::fma_peak(isa));
    }
    let memory = peak::memory_peak();
    terminal::print(&report(&contestants, isa, args.threads, fma, memory))
}

impl Contestant<'_> {
    /// One call that does not count, then calls for so many seconds, at least one.
    fn turn(&mut self, inputs: &Arrays, seconds: f64) -> Outcome {
        self.session.run(inputs, &mut self.outputs)?;
        let start = Instant::now();
        loop {
            let before = Instant::now();
            let kernels = &mut self.kernels;
            self.session.run_watched(inputs, &mut self.outputs, &mut |at, time| {
                kernels[at] = kernels[at].min(time)
            })?;
            self.calls.push(before.elapsed());
            if start.elapsed().as_secs_f64() >= seconds {
                break;
            }
        }
        self.calls.sort_unstable();
        Ok(())
    }

    fn median(&self) -> Duration {
        self.calls[self.calls.len() / 2]
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn report(contestants: &[Contestant<'_>], isa: Isa, threads: u16, fma: f64, memory: f64) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{threads} thread(s), {isa}; one core does {fma:.1} GF/s (fma) and reads {memory:.1} GB/s"
    );
    let last = contestants.last().map_or(0.0, |c| millis(c.median()));
    for c in contestants {
        let (least, median) = (millis(c.calls[0]), millis(c.median()));
        let kernels = c.session.kernels();
        let flops: i64 = kernels.iter().map(|k| k.flops).sum();
        let speed = |ms: f64| flops as f64 / ms / 1e6;
        let _ = writeln!(
            out,
            "{}: median {median:.3} ms, minimum {least:.3} ms of {} calls; {:.1} GF/s at the minimum ({:.2} of one core's peak); \
             median {:.2} times as fast as {}; {} bytes of working memory",
            c.engine,
            c.calls.len(),
            speed(least),
            speed(least) / fma,
            last / median,
            contestants.last().map_or(Engine::Jit, |c| c.engine),
            c.session.working_bytes().unwrap_or(0),
        );
        for (k, time) in kernels.iter().zip(&c.kernels) {
            let speed = k.flops as f64 / time.as_secs_f64() / 1e9;
            let _ = writeln!(
                out,
                "    {:<10} {:<24} {:>9.3} ms {speed:>7.1} GF/s {:>5.2} of peak",
                k.kind,
                k.name,
                millis(*time),
                speed / fma
            );
        }
    }
    out
}

/// Random arrays for inputs or parameters whose shapes are known where states hold so many positions: normal floats, small
/// integers, true.
fn random(ports: &[salient::Port], model: &Model, seed: u64, held: u32) -> Result<Arrays, Failure> {
    let lengths = model.graph().growths().into_iter().map(|growth| (growth.held, i64::from(held)));
    let lengths: salient::Bindings = lengths.collect();
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut out = Arrays::new();
    for port in ports {
        let mut shape = Vec::new();
        for dim in model.graph().shape(&port.axes) {
            let known = dim.eval(&lengths).ok().and_then(|n| usize::try_from(n).ok());
            let why = || {
                Failure::call(format!("the length {dim} of `{}` is not known: give it with --set", port.name))
            };
            shape.push(known.ok_or_else(why)?);
        }
        let count: usize = shape.iter().product();
        let array = match port.dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                // Box and Muller's normal numbers from uniform ones.
                let normal = |rng: &mut fastrand::Rng| {
                    let (u, v) = (1.0 - rng.f64(), rng.f64());
                    ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
                };
                Array::from_f32(shape, (0..count).map(|_| normal(&mut rng)).collect())
            }
            DType::I32 => Array::from_i32(shape, vec![0; count]),
            DType::I64 => Array::from_i64(shape, vec![0; count]),
            DType::Bool => Array::from_bool(shape, vec![true; count]),
        };
        let array = array.map_err(|e| Failure::call(format!("`{}`: {e}", port.name)))?;
        out.insert(&*port.name, array).map_err(salient::Error::from)?;
    }
    Ok(out)
}
