//! `salient bench`: times a model on random arrays, engine beside engine, kernel by kernel, or threads beside copies.
//!
//! Contestants take turns within one run, since clocks and neighbours change between runs; minimum and median are shown,
//! and the machine's own peaks, measured between the turns. What is shown of kernels is [`Profile`]'s.

mod plot;
pub(crate) mod server;

use crate::input::drawn::{self, Kind};
use crate::input::numbers::{seconds, times};
use crate::input::options::{Compile, Timed};
use crate::input::program::read_sources;
use crate::output::failure::Outcome;
use crate::output::profile::{Peaks, Profile};
use crate::output::terminal;
use salient::{
    Array, Arrays, Bindings, Engine, Form, Growth, IsaChoice, Model, Options, Port, Reason, Session, Sources,
    TIE, Verdict, Weights, nominal_sizes,
};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Arguments of `salient bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    /// Engines that take turns
    #[arg(long, value_delimiter = ',', value_parser = crate::input::options::engine(), default_value = "jit,unfused")]
    engines: Vec<Engine>,
    /// Which vectors compiled code uses: auto, baseline, avx2 or avx512
    #[arg(long, value_name = "ISA", default_value = "auto")]
    isa: IsaChoice,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Turns of each engine
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = times, allow_negative_numbers = true)]
    rounds: usize,
    /// Seconds of one turn
    #[arg(long, value_name = "S", default_value_t = 0.3, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,
    /// Seed of the arrays
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// What the elements of an input or a parameter are drawn from: normal, uniform(LOW,HIGH), LOW..HIGH, bool01, zeros or ones
    #[arg(long, value_name = "NAME=KIND", value_parser = drawn::named)]
    draw: Vec<(String, Kind)>,
    #[command(flatten)]
    timed: Timed,
    /// Positions that states hold before the call, such as the tokens of a cache
    #[arg(long, value_name = "N", default_value_t = 0)]
    held: u32,
    /// Instead of engines, fused code on one thread, on --threads of them, and as so many copies at once
    #[arg(long, conflicts_with = "engines")]
    scaling: bool,
    /// Go through these lengths of a dimension, and print a line for each and each engine
    #[arg(long, value_name = "NAME=LENGTHS", value_parser = plot::over, conflicts_with = "scaling")]
    over: Option<plot::Over>,
    /// Write a picture of times and shares of the peak over the lengths to a .svg file
    #[arg(long, value_name = "FILE", requires = "over")]
    plot: Option<PathBuf>,
}

/// The times of one session.
struct Contestant<'m> {
    engine: Engine,
    session: Session<'m>,
    outputs: Vec<Array>,
    calls: Vec<Duration>,
    profile: Profile,
}

/// Random arrays for a model.
struct RandomArrays {
    inputs: Arrays,
    params: Arrays,
}

impl RandomArrays {
    fn of(model: &Model, args: &Args) -> Outcome<RandomArrays> {
        let graph = model.graph();
        let held = |growth: Growth| (growth.held, i64::from(args.held));
        let held: Bindings = graph.growths().into_iter().map(held).collect();
        let lengths = nominal_sizes(graph, &held);
        let unset = graph.dimensions().into_iter().filter(|name| !held.contains_key(name));
        let of = |name| lengths.get(&name).map(|length| format!("{name} = {length}"));
        let unset: Vec<String> = unset.filter_map(of).collect();
        if !unset.is_empty() {
            let sizes = unset.join(", ");
            terminal::note(&format!("note: at {sizes}, as nothing gives them; `--set` gives others\n"));
        }
        let drawn = |ports: &[Port], seed| drawn::arrays(graph, ports.iter(), &lengths, (seed, &args.draw));
        Ok(RandomArrays {
            inputs: drawn(graph.inputs(), args.seed)?,
            params: drawn(graph.params(), !args.seed)?,
        })
    }
}

/// Runs the benchmark and prints the table.
pub(crate) fn run(args: &Args) -> Outcome {
    let sources = read_sources(&args.file)?;
    let out = match &args.over {
        Some(over) => plot::plot(args, &sources, over)?,
        None if args.scaling => scaling(args, &sources)?,
        None => engines(args, &sources)?,
    };
    terminal::print(&out)
}

fn compile(
    args: &Args,
    sources: &Sources,
    (engine, threads): (Engine, usize),
    set: &[(String, String)],
) -> Outcome<Model> {
    let mut options = Options { engine, isa: args.isa, threads: Some(threads), ..args.compile.options()? };
    options.set.extend_from_slice(set);
    let model = Model::from_sources(sources, &options)?;
    if args.timed.wanted() {
        terminal::say(&format!("{engine}\n{}", model.timings()));
    }
    Ok(model)
}

/// What is said of the engines after their turns; `set` are lengths beside those of the call.
fn with_contestants<T: Default>(
    args: &Args,
    sources: &Sources,
    set: &[(String, String)],
    say: impl FnOnce(&Model, &[Contestant<'_>], &Peaks) -> T,
) -> Outcome<T> {
    let threads = usize::from(args.threads);
    let model = |engine: &Engine| compile(args, sources, (*engine, threads), set).map(|m| (*engine, m));
    let models = args.engines.iter().map(model).collect::<Outcome<Vec<_>>>()?;
    let Some((_, first)) = models.first() else { return Ok(T::default()) };
    let given = RandomArrays::of(first, args)?;
    let mut contestants = Vec::new();
    for (engine, model) in &models {
        contestants.push(Contestant::new(*engine, model, &given)?);
    }
    let mut peaks = Peaks::of(args.isa);
    for _ in 0..args.rounds {
        for c in &mut contestants {
            c.turn(&given.inputs, args.seconds)?;
        }
        peaks.measure();
    }
    Ok(say(first, &contestants, &peaks))
}

/// Engine beside engine.
fn engines(args: &Args, sources: &Sources) -> Outcome<String> {
    let options = Options { engine: Engine::Jit, isa: args.isa, ..args.compile.options()? };
    with_contestants(args, sources, &[], |model, contestants, peaks| {
        let verdict = salient::verdict(model.graph(), &options);
        report(contestants, usize::from(args.threads), peaks) + &beside_prices(contestants, &verdict)
    })
}

/// What the engines' plans are priced at, and a warning where that which was chosen by price is the slower one.
fn beside_prices(contestants: &[Contestant<'_>], verdict: &Verdict) -> String {
    let of = |engine: Engine| {
        let form = match engine {
            Engine::Jit => verdict.taken,
            Engine::Unfused | Engine::Oracle => Form::AsWritten,
        };
        let contestant = contestants.iter().find(|c| c.engine == engine)?;
        Some((form, verdict.price(form)?, contestant.median()))
    };
    let (Some(taken), Some(written)) = (of(Engine::Jit), of(Engine::Unfused)) else { return String::new() };
    let mut out = String::new();
    for (form, price, time) in [taken, written] {
        let _ =
            writeln!(out, "{}: priced at {:.3} ms, median {:.3} ms", form.name(), price * 1e3, millis(time));
    }
    out + &warnings(verdict, taken.2, written.2)
}

/// What is to be said where the plan that is compiled is priced above that of the program as written, or took longer by the medians.
fn warnings(verdict: &Verdict, taken: Duration, written: Duration) -> String {
    let mut out = String::new();
    if let Some(warning) = verdict.warning() {
        let _ = writeln!(out, "warning: {warning}");
    }
    if taken.as_secs_f64() > TIE * written.as_secs_f64() {
        let why = match verdict.reason {
            Reason::LeastPrice | Reason::MuchLess => "was chosen by its price",
            Reason::FusionRequired => "is required to be fused",
            Reason::FormRequired => "was asked for",
        };
        let _ = writeln!(out, "warning: the plan that {why} is slower than that of the program as written");
    }
    out
}

/// One thread, several threads, and as many copies of the first at once.
fn scaling(args: &Args, sources: &Sources) -> Outcome<String> {
    let copies = usize::from(args.threads);
    let (single, several) =
        (compile(args, sources, (Engine::Jit, 1), &[])?, compile(args, sources, (Engine::Jit, copies), &[])?);
    let given = RandomArrays::of(&single, args)?;
    let new = |model| Contestant::new(Engine::Jit, model, &given);
    let (mut one, mut threads) = (new(&single)?, new(&several)?);
    // Each with parameters of its own, as processes would have them.
    let mut many = (0..copies).map(|_| new(&single)).collect::<Outcome<Vec<_>>>()?;
    let mut peaks = Peaks::of(args.isa);
    for _ in 0..args.rounds {
        one.turn(&given.inputs, args.seconds)?;
        threads.turn(&given.inputs, args.seconds)?;
        let (start, inputs) = (Barrier::new(copies), &given.inputs);
        std::thread::scope(|scope| {
            let turn = |copy| {
                start.wait();
                Contestant::turn(copy, inputs, args.seconds)
            };
            let turns: Vec<_> = many.iter_mut().map(|copy| scope.spawn(move || turn(copy))).collect();
            turns.into_iter().try_for_each(|turn| turn.join().expect("a turn does not panic"))
        })?;
        peaks.measure();
    }
    let times = |c: &Contestant<'_>| (millis(c.least()), millis(c.median()));
    let (one, threads) = (times(&one), times(&threads));
    let many = many.iter().map(times).fold((0.0, 0.0), |sum, t| (sum.0 + t.0, sum.1 + t.1));
    let many = (many.0 / copies as f64, many.1 / copies as f64);
    let mut out = peaks.text();
    let mut line = |what: &str, (least, median): (f64, f64), work: f64| {
        let _ = writeln!(
            out,
            "{what:<12} minimum {least:>9.4} ms, median {median:>9.4} ms; {:.2} and {:.2} times as much as one thread",
            work * one.0 / least,
            work * one.1 / median,
        );
    };
    line("one thread", one, 1.0);
    line(&format!("{copies} threads"), threads, 1.0);
    line(&format!("{copies} copies"), many, copies as f64);
    let _ = writeln!(
        out,
        "threads do {:.2} (minimum) and {:.2} (median) of what copies do",
        many.0 / threads.0 / copies as f64,
        many.1 / threads.1 / copies as f64,
    );
    Ok(out)
}

impl<'m> Contestant<'m> {
    fn new(engine: Engine, model: &'m Model, given: &'m RandomArrays) -> Outcome<Contestant<'m>> {
        let session = model.session(&given.inputs, Weights::from(&given.params))?;
        let outputs = session.outputs()?;
        let profile = Profile::new(session.kernels());
        Ok(Contestant { engine, session, outputs, calls: Vec::new(), profile })
    }

    /// One call that does not count, then calls for so many seconds, at least one.
    fn turn(&mut self, inputs: &Arrays, seconds: f64) -> Outcome {
        self.session.run(inputs, &mut self.outputs)?;
        let start = Instant::now();
        loop {
            let before = Instant::now();
            let profile = &mut self.profile;
            self.session.run_watched(inputs, &mut self.outputs, &mut |at, time| profile.note(at, time))?;
            self.calls.push(before.elapsed());
            if start.elapsed().as_secs_f64() >= seconds {
                break;
            }
        }
        self.calls.sort_unstable();
        Ok(())
    }

    fn least(&self) -> Duration {
        self.calls[0]
    }

    fn median(&self) -> Duration {
        self.calls[self.calls.len() / 2]
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// How a contestant does beside the last one, if that is another.
fn beside(c: &Contestant<'_>, all: &[Contestant<'_>]) -> String {
    let other = all.last().filter(|last| last.engine != c.engine);
    other.map_or_else(String::new, |last| {
        let times = millis(last.median()) / millis(c.median());
        format!("median {times:.2} times as fast as {}; ", last.engine)
    })
}

fn report(contestants: &[Contestant<'_>], threads: usize, peaks: &Peaks) -> String {
    let mut out = format!("{threads} thread(s), {}", peaks.text());
    for c in contestants {
        let (least, median) = (millis(c.least()), millis(c.median()));
        let speed = c.profile.flops() as f64 / least / 1e6;
        let _ = writeln!(
            out,
            "{}: median {median:.3} ms, minimum {least:.3} ms of {} calls; {speed:.1} GF/s at the minimum ({:.2} of one core's peak); \
             {}{} bytes of working memory",
            c.engine,
            c.calls.len(),
            speed / peaks.fma,
            beside(c, contestants),
            c.session.working_bytes().unwrap_or(0),
        );
        out += &c.profile.text(peaks);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(fused: f64, written: f64, reason: Reason) -> Verdict {
        let prices = vec![(Form::Fused, fused), (Form::AsWritten, written)];
        Verdict {
            sizes: salient::Bindings::new(),
            taken: Form::Fused,
            alternative: None,
            reason,
            floor: None,
            prices,
        }
    }

    #[test]
    fn a_plan_that_is_priced_or_measured_above_the_program_as_written_is_warned_of() {
        let [one, two] = [1, 2].map(Duration::from_millis);
        assert_eq!(warnings(&verdict(1e-3, 2e-3, Reason::LeastPrice), one, two), "");
        assert_eq!(warnings(&verdict(1e-3, 1e-3, Reason::LeastPrice), one, one), "");
        let measured = warnings(&verdict(1e-3, 2e-3, Reason::LeastPrice), two, one);
        assert!(
            measured.starts_with("warning: the plan that was chosen by its price is slower"),
            "{measured}"
        );
        let priced = warnings(&verdict(2e-3, 1e-3, Reason::FusionRequired), one, two);
        assert!(
            priced.starts_with("warning: the plan that is compiled (fused) is priced at 2.000 ms"),
            "{priced}"
        );
        let both = warnings(&verdict(2e-3, 1e-3, Reason::FusionRequired), two, one);
        assert_eq!(both.lines().count(), 2, "{both}");
        assert!(both.contains("the plan that is required to be fused is slower"), "{both}");
    }
}
