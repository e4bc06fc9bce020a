//! Times of contestants that take turns.

use super::programs::{Canonical, Program, allowed_beside, options, sizes_of};
use salient::{Array, Engine, Isa, Model, Session, Weights, peak, verdict};
use salient_tests::generate::{self, Data};
use salient_tests::ways::Call;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Turns of each contestant in a row.
const TURNS: usize = 3;
/// Turns that are added where a row is beyond what is allowed, all of them whatever they show: the least of few calls is often noise.
const TURNS_BEYOND: usize = 20 * TURNS;
/// How many times as long as unfused code fused code may take.
pub(crate) const ALLOWED: f64 = 1.1;

/// The least and the median time of a contestant, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) least: f64,
    pub(crate) median: f64,
}

/// A program at a length and on a number of threads.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) family: Option<&'static str>,
    pub(crate) length: i64,
    pub(crate) threads: usize,
    pub(crate) fused: Times,
    pub(crate) unfused: Times,
    /// The attention that its family is compared with.
    pub(crate) canonical: Option<Times>,
}

impl Row {
    /// How many times as long as unfused code fused code takes, by the minima.
    pub(crate) fn ratio(&self) -> f64 {
        self.fused.least / self.unfused.least
    }

    /// Whether fused code takes longer than it may, beside unfused code or beside the attention of its family.
    fn is_beyond(&self) -> bool {
        let allowed = self.family.and_then(allowed_beside).unwrap_or(f64::INFINITY);
        self.ratio() > ALLOWED || self.of_canonical().is_some_and(|ratio| ratio > allowed)
    }

    /// How many times as long as the attention that its family is compared with, by the minima.
    pub(crate) fn of_canonical(&self) -> Option<f64> {
        self.canonical.map(|times| self.fused.least / times.least)
    }
}

/// The fused multiply-adds of one core, measured between rows.
pub(crate) struct Peak {
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Peak {
    pub(crate) fn new() -> Peak {
        Peak { least: f64::INFINITY, most: 0.0 }
    }

    pub(crate) fn measure(&mut self) {
        let now = peak::fma_peak(Isa::detect());
        (self.least, self.most) = (self.least.min(now), self.most.max(now));
    }
}

/// A session with the times of its calls.
struct Contestant<'m> {
    call: &'m Call,
    session: Session<'m>,
    calls: Vec<f64>,
}

impl<'m> Contestant<'m> {
    fn new(model: &'m Model, call: &'m Call) -> Result<Contestant<'m>, String> {
        let session = model.session_with(&call.inputs, Weights::from(&call.params), &call.dimensions);
        let session = session.map_err(|e| e.to_string())?;
        Ok(Contestant { call, session, calls: Vec::new() })
    }

    /// Arrays that its outputs, or those of another contestant with the same program, are written to.
    fn outputs(&self) -> Result<Vec<Array>, String> {
        self.session.outputs().map_err(|e| e.to_string())
    }

    /// Calls for so many seconds, at least one; the first of all does not count.
    fn turn(&mut self, outputs: &mut [Array], seconds: f64) -> Result<(), String> {
        let mut run = || self.session.run(&self.call.inputs, outputs).map_err(|e| e.to_string());
        if self.calls.is_empty() {
            run()?;
        }
        let start = Instant::now();
        loop {
            let before = Instant::now();
            run()?;
            self.calls.push(before.elapsed().as_secs_f64() * 1e3);
            if start.elapsed().as_secs_f64() >= seconds {
                return Ok(());
            }
        }
    }

    fn times(&self) -> Times {
        let mut calls = self.calls.clone();
        calls.sort_unstable_by(f64::total_cmp);
        Times { least: calls[0], median: calls[calls.len() / 2] }
    }
}

/// The rows of a program on so many threads, one for each length.
pub(crate) fn rows_of(
    program: &Program,
    canonical: &Canonical,
    lengths: &[i64],
    threads: usize,
    seconds: f64,
) -> Result<Vec<Row>, String> {
    let compile = |engine| {
        Model::from_graph(program.graph.clone(), &options(engine, threads)).map_err(|e| e.to_string())
    };
    let (fused, unfused) = (compile(Engine::Jit)?, compile(Engine::Unfused)?);
    let mut rows = Vec::new();
    for length in lengths {
        let sizes = sizes_of(&program.graph, *length);
        let call = generate::call(&program.graph, 1, &sizes, Data::Tame);
        let beside = program.family.map(|(_, mask)| {
            let model = canonical.with(mask);
            (model, generate::call(model.graph(), 1, &sizes_of(model.graph(), *length), Data::Tame))
        });
        let mut contestants = vec![Contestant::new(&fused, &call)?, Contestant::new(&unfused, &call)?];
        // Both write to the same memory: how large arrays lie in pages changes the time of what is mostly written.
        let (mut own, mut of_canonical) = (contestants[0].outputs()?, Vec::new());
        if let Some((model, call)) = &beside {
            contestants.push(Contestant::new(model, call)?);
            of_canonical = contestants[2].outputs()?;
        }
        let turn = seconds / (TURNS * contestants.len()) as f64;
        let mut measured = |turns: usize| -> Result<Row, String> {
            for _ in 0..turns {
                for (at, contestant) in contestants.iter_mut().enumerate() {
                    contestant.turn(if at < 2 { &mut own } else { &mut of_canonical }, turn)?;
                }
            }
            let times: Vec<Times> = contestants.iter().map(Contestant::times).collect();
            Ok(Row {
                name: program.name.clone(),
                family: program.family.map(|(name, _)| name),
                length: *length,
                threads,
                fused: times[0],
                unfused: times[1],
                canonical: times.get(2).copied(),
            })
        };
        let row = measured(TURNS)?;
        rows.push(if row.is_beyond() { measured(TURNS_BEYOND)? } else { row });
    }
    Ok(rows)
}

/// The prices of the forms of a program's plan at usual sizes, and the least time of each kernel of fused and of unfused code, in
/// microseconds.
pub(crate) fn kernels_of(
    program: &Program,
    lengths: &[i64],
    threads: usize,
    seconds: f64,
) -> Result<String, String> {
    let mut out = format!("{} on {threads} thread(s)\n", program.name);
    let found = verdict(&program.graph, &options(Engine::Jit, threads));
    for (form, price) in &found.prices {
        let _ = writeln!(out, "    priced {:9.1}: {}", price * 1e6, form.name());
    }
    let other = found.alternative.map_or(String::new(), |other| format!("; {other}"));
    let _ = writeln!(out, "    taken: {}{other}", found.taken.name());
    for engine in [Engine::Jit, Engine::Unfused] {
        let model = Model::from_graph(program.graph.clone(), &options(engine, threads));
        let model = model.map_err(|e| e.to_string())?;
        for length in lengths {
            let sizes = sizes_of(&program.graph, *length);
            let call = generate::call(&program.graph, 1, &sizes, Data::Tame);
            let mut contestant = Contestant::new(&model, &call)?;
            let mut outputs = contestant.outputs()?;
            contestant.turn(&mut outputs, seconds)?;
            let kernels = contestant.session.kernels();
            let mut least = vec![Duration::MAX; kernels.len()];
            for _ in 0..contestant.calls.len().max(3) {
                let mut note = |at: usize, time: Duration| least[at] = least[at].min(time);
                let run = contestant.session.run_watched(&call.inputs, &mut outputs, &mut note);
                run.map_err(|e| e.to_string())?;
            }
            let _ = writeln!(out, "  {engine} at {length}: {:.1}", contestant.times().least * 1e3);
            for (kernel, time) in kernels.iter().zip(least).filter(|(_, time)| *time < Duration::MAX) {
                let time = time.as_secs_f64() * 1e6;
                let _ = writeln!(out, "    {time:9.1} {} {}", kernel.kind, kernel.name);
            }
        }
    }
    Ok(out)
}
