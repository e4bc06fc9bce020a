//! One random program in several ways: whatever is made of it, it gives what is written.

use crate::agree::TOLERANCE;
use crate::generate::{self, Data};
use crate::judge::range::Fault;
use crate::judge::{self, Freedom, Judged, Verdict};
use crate::ways::Call;
use salient::{Arrays, Bindings, Engine, Error, Form, Fp, Graph, Isa, IsaChoice, Model, Options};
use salient_ir::{Op, text};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A compilation and a call that take longer than this are a failure.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Evaluations above which the oracle is not asked: it computes a value anew for each reader.
const ORACLE: f64 = 5e6;

/// A way of running a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// What runs it.
    pub engine: Engine,
    /// What rewriting may do.
    pub fp: Fp,
    /// The vectors.
    pub isa: IsaChoice,
    /// With how many threads; more than one are also compared with one.
    pub threads: usize,
    /// The form of its plan, if not that which costs the least.
    pub form: Option<Form>,
}

/// What kind of failure there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A number that is not what is written.
    Value,
    /// Code refuses what the program means.
    Refused,
    /// Code accepts what the program does not mean.
    Accepted,
    /// The number of threads changes the result.
    Threads,
    /// A panic.
    Panic,
    /// It takes too long.
    Slow,
    /// No code is made for it, or its text is refused.
    Compile,
    /// The oracle is not where the judge says that numbers lie.
    Judge,
}

/// A failure, with what to look at.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its kind.
    pub kind: Kind,
    /// In which way of running, if in one.
    pub way: Option<Way>,
    /// What was found.
    pub text: String,
}

/// What a trial came to, beside failures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Calls that every way ran.
    pub ran: usize,
    /// Calls that every way refused.
    pub refused: usize,
    /// Calls that were too large to be judged, or whose refusal hangs on rounding.
    pub open: usize,
    /// Texts that the language refuses.
    pub unread: usize,
    /// Elements of which a finite number or an infinity was asked.
    pub judged: usize,
    /// Elements of which anything was let pass.
    pub free: usize,
}

impl Report {
    /// Adds what another came to.
    pub fn add(&mut self, other: Report) {
        self.ran += other.ran;
        self.refused += other.refused;
        self.open += other.open;
        self.unread += other.unread;
        self.judged += other.judged;
        self.free += other.free;
    }
}

/// A program with its data.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The program.
    pub graph: Graph,
    /// From which its data is drawn.
    pub seed: u64,
    /// Its sizes, a call each.
    pub sizes: Vec<Bindings>,
    /// What its inputs hold.
    pub data: Data,
}

fn widths() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect()).collect()
}

/// All ways on this machine.
pub fn all_ways() -> Vec<Way> {
    let way = |engine, fp, isa, threads| Way { engine, fp, isa, threads, form: None };
    let mut out = vec![way(Engine::Unfused, Fp::Default, IsaChoice::Auto, 1)];
    for isa in widths() {
        out.push(way(Engine::Jit, Fp::Default, IsaChoice::Only(isa), 1));
    }
    out.push(way(Engine::Unfused, Fp::Default, IsaChoice::Only(Isa::Baseline), 2));
    out.push(way(Engine::Jit, Fp::Strict, IsaChoice::Auto, 1));
    out.push(way(Engine::Jit, Fp::Default, IsaChoice::Auto, 2));
    out.push(way(Engine::Jit, Fp::Default, IsaChoice::Auto, 3));
    out.extend(ways_of_forms());
    out
}

/// Every form of plan, for the narrowest vectors; the other ways compile the cheapest form alone.
pub fn ways_of_forms() -> Vec<Way> {
    let isa = IsaChoice::Only(Isa::Baseline);
    let of = |form| Way { engine: Engine::Jit, fp: Fp::Default, isa, threads: 1, form: Some(form) };
    Form::ALL.map(of).to_vec()
}

/// A few of the ways, others for each number: code as written, fused code, and one more.
pub fn some_ways(turn: u64) -> Vec<Way> {
    let all = all_ways();
    let widths = widths().len();
    let more = &all[1 + widths..];
    let turn = turn as usize;
    vec![all[1 + turn % widths], more[turn / widths % more.len()], all[0]]
}

impl Trial {
    /// The call of each size.
    pub fn calls(&self) -> Vec<Call> {
        self.sizes.iter().map(|s| generate::call(&self.graph, self.seed, s, self.data)).collect()
    }

    /// Runs the program in some ways.
    ///
    /// # Errors
    /// The first failure. A panic is one like another.
    pub fn check(&self, ways: &[Way]) -> Result<Report, Failure> {
        self.check_as(&self.graph, ways)
    }

    /// Runs another graph, which should mean the same: the program read back, say.
    ///
    /// # Errors
    /// As [`Trial::check`].
    pub fn check_as(&self, graph: &Graph, ways: &[Way]) -> Result<Report, Failure> {
        guarded(|| self.checked(graph, ways))
    }

    /// What a way of running makes of the first call.
    pub fn outputs(&self, way: Way) -> Option<Vec<Vec<f64>>> {
        let found = self.calls().first()?.run(&compiled(&self.graph, way).ok()?).ok()?;
        Some(found.iter().map(|(_, array)| array.to_f64_vec()).collect())
    }

    /// Whether outputs of the first call are what is written; `None` are those of a call that was refused.
    ///
    /// # Errors
    /// Where they are not.
    pub fn judged(&self, outputs: Option<&[Vec<f64>]>) -> Result<(), String> {
        let calls = self.calls();
        let call = calls.first().ok_or("there is no call")?;
        let Some(wanted) = judge::judge(&self.graph, &call.dimensions, call) else { return Ok(()) };
        match (outputs, judge::refused(&wanted)) {
            (None, Fault::No) => Err("it is refused".to_owned()),
            (None, Fault::Maybe | Fault::Yes) | (Some(_), Fault::Maybe) => Ok(()),
            (Some(_), Fault::Yes) => Err("it is accepted".to_owned()),
            (Some(found), Fault::No) => {
                let off = found.iter().zip(&wanted).find_map(|(found, wanted)| {
                    Verdict::of(found, wanted, Freedom::AsWritten, TOLERANCE * scale(wanted))
                });
                off.map_or(Ok(()), |verdict| Err(format!("{verdict:?}")))
            }
        }
    }

    fn checked(&self, graph: &Graph, ways: &[Way]) -> Result<Report, Failure> {
        let fail = |kind, way, text| Err(Failure { kind, way, text });
        let faults = salient_ir::verify::verify(&self.graph);
        if !faults.is_empty() {
            return fail(Kind::Compile, None, faults.join("\n"));
        }
        let (mut report, calls) = (Report::default(), self.calls());
        let large = self.sizes.first().is_some_and(|sizes| has_large_integers(graph, sizes));
        let wanted: Vec<Option<Vec<Judged>>> =
            calls.iter().map(|c| judge::judge(&self.graph, &c.dimensions, c)).collect();
        self.ask_oracle(&calls, &wanted)?;
        for way in ways {
            let model = match compiled(graph, *way) {
                Err(failure) if large && failure.text.contains(OF_32_BITS) => {
                    report.open += calls.len();
                    continue;
                }
                model => model?,
            };
            let single =
                if way.threads > 1 { Some(compiled(graph, Way { threads: 1, ..*way })?) } else { None };
            for (call, wanted) in calls.iter().zip(&wanted) {
                let started = Instant::now();
                let found = call.run(&model);
                if started.elapsed() > PATIENCE {
                    return fail(Kind::Slow, Some(*way), format!("a call takes {:?}", started.elapsed()));
                }
                if let (Some(single), Ok(found)) = (&single, &found)
                    && !call.run(single).is_ok_and(|one| one.same_bits(found))
                {
                    return fail(Kind::Threads, Some(*way), "threads change the result".to_owned());
                }
                let too_large = |e: &Error| large && e.to_string().contains(OF_32_BITS);
                let Some(wanted) = wanted.as_ref().filter(|_| !found.as_ref().is_err_and(too_large)) else {
                    report.open += 1;
                    continue;
                };
                let tolerant = self.data == Data::Tame;
                report.add(compare(&found, wanted, *way, tolerant).map_err(|(kind, text)| Failure {
                    kind,
                    way: Some(*way),
                    text: format!("at {:?}: {text}", call.dimensions),
                })?);
            }
        }
        Ok(report)
    }

    /// The oracle lies where the judge says that values lie: of tame data, so that both are known to be right.
    fn ask_oracle(&self, calls: &[Call], wanted: &[Option<Vec<Judged>>]) -> Result<(), Failure> {
        for (call, wanted) in calls.iter().zip(wanted) {
            let Some(wanted) = wanted else { continue };
            if evaluations(&self.graph, call) > ORACLE {
                continue;
            }
            let options = Options { engine: Engine::Oracle, ..Options::default() };
            let fail = |kind, text| Failure { kind, way: None, text };
            let oracle = Model::from_graph(self.graph.clone(), &options)
                .map_err(|e| fail(Kind::Compile, format!("oracle: {e}")))?;
            let found = call.run(&oracle);
            let wrong = match (&found, judge::refused(wanted)) {
                (Ok(_), Fault::Yes) => Some("the oracle accepts what the judge refuses".to_owned()),
                // The oracle has no infinity to give where f32 overflows.
                (Err(e), Fault::No) if e.to_string().contains("which f32 cannot hold") => None,
                (Err(e), Fault::No) => Some(format!("the oracle refuses what the judge accepts: {e}")),
                (Ok(found), _) if self.data == Data::Tame => {
                    // And nothing overflows there.
                    first_wrong(found, wanted, Freedom::Mended, true)
                }
                (Ok(_) | Err(_), _) => None,
            };
            if let Some(text) = wrong {
                return Err(fail(Kind::Judge, format!("at {:?}: {text}", call.dimensions)));
            }
        }
        Ok(())
    }
}

/// How compiled code refuses an integer of which it cannot prove that it holds it.
const OF_32_BITS: &str = "32 bits";

/// Whether literals may make integers that compiled code does not hold: those of mutants, not of what is generated.
fn has_large_integers(graph: &Graph, sizes: &Bindings) -> bool {
    let large = |n: i64| n.unsigned_abs() >= 1 << 15;
    graph.ids().any(|id| match graph.op(id) {
        Op::Const(c) if c.dtype().is_int() => large(c.value() as i64),
        Op::Extent(dim) => dim.eval(sizes).map_or(true, large),
        Op::Const(_) | Op::Input(_) | Op::Param(_) | Op::Iota(_) | Op::Map(_) | Op::Reduce(..) => false,
        Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => false,
    })
}

fn compiled(graph: &Graph, way: Way) -> Result<Model, Failure> {
    let Way { engine, fp, isa, threads, form } = way;
    let options = Options { engine, fp, isa, threads: Some(threads), form, ..Options::default() };
    let started = Instant::now();
    let model = Model::from_graph(graph.clone(), &options).map_err(|e| Failure {
        kind: Kind::Compile,
        way: Some(way),
        text: e.to_string(),
    })?;
    if started.elapsed() > PATIENCE {
        let text = format!("compiling takes {:?}", started.elapsed());
        return Err(Failure { kind: Kind::Slow, way: Some(way), text });
    }
    Ok(model)
}

/// Compares what was found with what is wanted; an error is a refusal.
///
/// # Errors
/// What is wrong.
pub fn compare(
    found: &Result<Arrays, Error>,
    wanted: &[Judged],
    way: Way,
    tolerant: bool,
) -> Result<Report, (Kind, String)> {
    let mut report = Report::default();
    let fused = way.engine == Engine::Jit && way.fp == Fp::Default;
    match (found, judge::refused(wanted)) {
        (Err(_), Fault::Yes) => report.refused += 1,
        (Ok(_) | Err(_), Fault::Maybe) => report.open += 1,
        (Err(_), Fault::No) if wanted.iter().any(|w| w.beyond_checks) => report.open += 1,
        (Err(e), Fault::No) => return Err((Kind::Refused, e.to_string())),
        (Ok(_), Fault::Yes) => {
            return Err((Kind::Accepted, "an index outside its axis is accepted".to_owned()));
        }
        (Ok(found), Fault::No) => {
            report.ran += 1;
            let freedom = if fused { Freedom::Mended } else { Freedom::AsWritten };
            if let Some(text) = first_wrong(found, wanted, freedom, tolerant) {
                return Err((Kind::Value, text));
            }
            let all = wanted.iter().flat_map(|w| &w.ranges);
            let free = all.clone().filter(|r| r.nan || r.lo < r.hi && r.magnitude().is_infinite()).count();
            report.free = free;
            report.judged = all.count() - free;
        }
    }
    Ok(report)
}

fn first_wrong(found: &Arrays, wanted: &[Judged], freedom: Freedom, tolerant: bool) -> Option<String> {
    found.iter().zip(wanted).find_map(|((name, array), judged)| {
        let have = array.to_f64_vec();
        let tolerance = if tolerant { TOLERANCE * scale(judged) } else { 0.0 };
        let Verdict { at, found, range } = Verdict::of(&have, judged, freedom, tolerance)?;
        Some(format!("`{name}`[{at}] of {:?} is {found:e}, expected {}", array.shape(), shown(range)))
    })
}

/// The scale of an output of a program whose values are near one: one, or its greatest magnitude.
fn scale(judged: &Judged) -> f64 {
    judged.ranges.iter().filter(|r| r.is_finite()).fold(1.0f64, |m, r| m.max(r.magnitude()))
}

fn shown(range: judge::range::Range) -> String {
    let nan = if range.nan { " or NaN" } else { "" };
    if range.lo > range.hi { "NaN".to_owned() } else { format!("{:e} to {:e}{nan}", range.lo, range.hi) }
}

/// How many values the oracle computes.
fn evaluations(graph: &Graph, call: &Call) -> f64 {
    let extent = |axis| graph.extent(axis).eval(&call.dimensions).map_or(1.0, |n| n.max(1) as f64);
    let elements = |axes: &[salient_ir::AxisId]| axes.iter().map(|a| extent(*a)).product::<f64>();
    let (mut each, mut total) = (Vec::<f64>::new(), 0.0);
    for id in graph.ids() {
        let below: f64 = graph.args(id).iter().map(|a| each[a.index()]).sum();
        let kept = |length: f64| elements(graph.node(id).axes.as_slice()) * length * below;
        each.push(match graph.op(id) {
            Op::Reduce(_, axis) | Op::CumSum(_, axis) | Op::Fused(_, axis) => {
                total += kept(extent(*axis));
                1.0
            }
            Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Iota(_)
            | Op::Extent(_)
            | Op::Map(_)
            | Op::At(_)
            | Op::Concat(..) => 1.0 + below,
        });
    }
    total + graph.outputs().iter().map(|o| elements(&o.axes) * each[o.node.index()]).sum::<f64>()
}

/// A panic as a failure.
pub fn guarded<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        Err(Failure { kind: Kind::Panic, way: None, text: text.to_owned() })
    })
}

/// A trial that fails, made smaller while it fails in the same manner: fewer nodes, one call, smaller sizes, tame data.
pub fn smallest(trial: &Trial, failure: &Failure, tries: usize) -> (Trial, Failure) {
    let ways: Vec<Way> = match failure.way {
        Some(way) => vec![way],
        None => all_ways(),
    };
    let again = |t: &Trial| {
        t.check(&ways).err().filter(|f| f.kind == failure.kind && f.way.is_some() == failure.way.is_some())
    };
    let mut best = trial.clone();
    let mut reason = failure.clone();
    let accept = |candidate: Trial, best: &mut Trial, reason: &mut Failure| {
        let Some(why) = again(&candidate) else { return false };
        (*best, *reason) = (candidate, why);
        true
    };
    for sizes in &trial.sizes {
        let one = Trial { sizes: vec![sizes.clone()], ..best.clone() };
        if accept(one, &mut best, &mut reason) {
            break;
        }
    }
    let tame = Trial { data: Data::Tame, ..best.clone() };
    accept(tame, &mut best, &mut reason);
    let probe = best.clone();
    let graph = crate::shrink::shrink(&best.graph, tries, |graph| {
        again(&Trial { graph: graph.clone(), ..probe.clone() }).is_some()
    });
    accept(Trial { graph, ..best.clone() }, &mut best, &mut reason);
    for symbol in trial.sizes[0].keys() {
        for size in [0, 1, 2, 3, 5, 9, 17] {
            let mut sizes = best.sizes[0].clone();
            if best.sizes.len() > 1 || size >= sizes[symbol] {
                break;
            }
            sizes.insert(symbol.clone(), size);
            if accept(Trial { sizes: vec![sizes], ..best.clone() }, &mut best, &mut reason) {
                break;
            }
        }
    }
    (best, reason)
}

/// A trial and its failure as a text that says how to see it again.
pub fn describe(trial: &Trial, failure: &Failure) -> String {
    let way = failure.way.map_or_else(String::new, |w| {
        let form = w.form.map_or("", Form::name);
        format!(" ({} {:?} on {:?} with {} threads {form})", w.engine, w.fp, w.isa, w.threads)
    });
    let mut out = format!("{:?}{way}: {}\n{}", failure.kind, failure.text, text::print(&trial.graph));
    for call in trial.calls() {
        out += &format!("at {:?}\n", call.dimensions);
        let few = trial.graph.inputs().len() + trial.graph.params().len() <= 6;
        for (name, array) in call.inputs.iter().chain(call.params.iter()) {
            if few && array.len() <= 700 {
                out += &format!("  {name}{:?} = {:?}\n", array.shape(), array.to_f64_vec());
            }
        }
    }
    out
}
