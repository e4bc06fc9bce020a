//! What `salient report` shows of a model: its forms with what links their lines, the rules that fused it, the keys that its
//! attentions visit, what its kernels take, and the memory of a call.
//!
//! [`page`] compiles the model and runs it; how the page looks is [`salient_draw::page`]'s.

mod kernels;
mod masks;
mod memory;
mod panes;
mod walks;

use crate::compile::choose::{Candidates, Form, Reason, Verdict};
use crate::compile::options::Options;
use crate::compile::pipeline::{emit, lower, of_optimiser, threads};
use crate::compile::stage::Engine;
use crate::report::cost::{Condition, Cost};
use crate::report::error::Error;
use crate::session::Session;
use crate::session::model::Model;
use crate::session::weights::Weights;
use kernels::Kept;
use salient_draw::page::{self as shown, Machine, Page, Size, Total};
use salient_front::Sources;
use salient_io::Arrays;
use salient_ir::{Bindings, Dim};
use salient_jit::target::Isa;
use salient_jit::{IsaChoice, peak};
use salient_tile::plan::text::lines::Made;
use salient_tile::plan::text::summary::Summary;
use salient_tile::{Plan, program_of};
use std::time::{Duration, Instant};

/// With what a model is run for a report.
#[derive(Debug)]
pub struct Call<'a> {
    /// The inputs.
    pub inputs: &'a Arrays,
    /// The parameters.
    pub weights: Weights<'a>,
    /// Where these are from, in words.
    pub data: String,
    /// Attention weights that are shown.
    pub maps: Vec<shown::Weights>,
}

/// Runs that times are taken from, and how long these may take in all.
const RUNS: (usize, Duration) = (20, Duration::from_secs(2));

/// Working memory above which the model as written is not run, in bytes.
const MOST_WORKING: usize = 2 << 30;

/// What is shown of the first model of the sources, or of that which the options name.
///
/// # Errors
/// As [`lower`](crate::lower), [`Model::session`] and [`Session::run`].
pub fn page(sources: &Sources, options: &Options, call: &Call<'_>) -> Result<Page, Error> {
    let graph = lower(sources, options)?.graph;
    let walked = salient_opt::Options { walk: true, ..of_optimiser(options) };
    let optimised = salient_opt::optimise(&graph, &walked);
    let candidates = Candidates::new(&graph, &optimised, options);
    let (plan, verdict) = candidates.choose(true);

    let model = Model::from_sources(sources, options)?;
    let session = model.session(call.inputs, call.weights)?;
    let sizes = session.dimensions().clone();
    let other = verdict.alternative.as_ref().filter(|other| other.holds(&sizes)).map(|other| other.form);
    let form = other.unwrap_or(verdict.taken);
    let plan = if other.is_some() { candidates.plan(form) } else { plan };
    let measured = Measured::of(&session, call.inputs)?;

    let program = program_of(&plan, options.verify);
    let code = emit(program.clone(), options)?;
    let made = plan.made();
    let kept = kernels::kept(&made);
    let lines = panes::SourceLines::new(sources);
    let named = if form.is_fused() { optimised.report.named.as_slice() } else { &[] };
    let panes = panes::panes(&panes::Forms {
        lines: &lines,
        written: &graph,
        plan: &plan,
        named,
        program: &program,
        assembly: code.asm(),
        made: &made,
        kept: &kept,
    });
    let written = candidates.plan(Form::AsWritten);
    let totals = vec![
        total("as written", &written, (&sizes, options), of_unfused(sources, options, call)?),
        total(form.name(), &plan, (&sizes, options), (Some(measured.least), session.working_bytes())),
    ];
    Ok(Page {
        version: shown::VERSION,
        model: graph.name().to_string(),
        file: sources.user_files().first().map_or_else(String::new, |file| file.name.clone()),
        sizes: shown_sizes(options, &sizes),
        data: call.data.clone(),
        machine: machine(options),
        totals,
        taken: taken(form, &verdict),
        panes,
        kernels: kernels::kernels(&plan, &kept, (&sizes, options), &measured.kernels),
        walks: walks::walks(&optimised, &lines),
        masks: masks_of(sources, options, (&plan, &made, &kept), &sizes, call)?,
        memory: memory::memory(&plan, &made, (&sizes, options)),
        weights: call.maps.clone(),
    })
}

/// The lengths of the dimensions, those that the options fix first.
fn shown_sizes(options: &Options, sizes: &Bindings) -> Vec<Size> {
    let set = options.set.iter().filter_map(|(name, length)| Some((name.clone(), length.parse().ok()?)));
    let bound = sizes.iter().map(|(name, length)| (name.to_string(), *length));
    let mut out: Vec<Size> = Vec::new();
    for (name, length) in set.chain(bound) {
        if out.iter().all(|known| known.name != name) {
            out.push(Size { name, length });
        }
    }
    out
}

/// The masks of a plan. Where the call fixes dimensions, they are those of the plan without that, so that they can be shown at
/// other lengths, if it has the same attentions.
fn masks_of(
    sources: &Sources,
    options: &Options,
    (plan, made, kept): (&Plan<'_>, &[Made], &Kept),
    sizes: &Bindings,
    call: &Call<'_>,
) -> Result<Vec<shown::Mask>, Error> {
    let own = masks::masks(plan, kept, (made, sizes), options, call)?;
    let all = Options { set: Vec::new(), ..options.clone() };
    let Ok(graph) = lower(sources, &all).map(|lowered| lowered.graph) else { return Ok(own) };
    let dimensions = graph.dimensions();
    let is_length = |name: &str| dimensions.iter().any(|known| **known == *name);
    let (lengths, set): (Vec<_>, Vec<_>) = options.set.iter().cloned().partition(|(name, _)| is_length(name));
    let lengths: Vec<_> = lengths
        .iter()
        .filter_map(|(name, length)| Some((name.as_str().into(), length.parse().ok()?)))
        .collect();
    let free = Options { set, ..options.clone() };
    let Ok(graph) = lower(sources, &free).map(|lowered| lowered.graph) else { return Ok(own) };
    if lengths.is_empty() {
        return Ok(own);
    }
    let optimised = crate::compile::pipeline::optimise(&graph, &free);
    let candidates = Candidates::new(&graph, &optimised, &free);
    let plan = candidates.choose(false).0;
    let (made, mut sizes) = (plan.made(), sizes.clone());
    sizes.extend(lengths);
    let mut other = masks::masks(&plan, &kernels::kept(&made), (&made, &sizes), &free, call)?;
    if other.len() != own.len() {
        return Ok(own);
    }
    other.iter_mut().zip(&own).for_each(|(other, own)| other.kernel = own.kernel);
    Ok(other)
}

/// Times of a session.
struct Measured {
    /// The least time of a call, in milliseconds.
    least: f64,
    /// The least time of each kernel, in milliseconds, by position among the session's.
    kernels: Vec<(String, f64)>,
}

impl Measured {
    fn of(session: &Session<'_>, inputs: &Arrays) -> Result<Measured, Error> {
        let mut outputs = session.outputs()?;
        let infos = session.kernels();
        let mut kernels: Vec<(String, f64)> =
            infos.into_iter().map(|info| (info.name, f64::INFINITY)).collect();
        let (runs, most) = RUNS;
        let (start, mut least) = (Instant::now(), f64::INFINITY);
        session.run(inputs, &mut outputs)?;
        for _ in 0..runs {
            let before = Instant::now();
            session.run_watched(inputs, &mut outputs, &mut |at, time| {
                if let Some((_, least)) = kernels.get_mut(at) {
                    *least = least.min(millis(time));
                }
            })?;
            least = least.min(millis(before.elapsed()));
            if start.elapsed() > most {
                break;
            }
        }
        Ok(Measured { least, kernels })
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// How long the model as written takes, where it fits into memory, and what it works in.
fn of_unfused(
    sources: &Sources,
    options: &Options,
    call: &Call<'_>,
) -> Result<(Option<f64>, Option<usize>), Error> {
    let options = Options { engine: Engine::Unfused, require_fused: false, ..options.clone() };
    let model = Model::from_sources(sources, &options)?;
    let session = model.session(call.inputs, call.weights)?;
    let working = session.working_bytes();
    if working.is_some_and(|bytes| bytes > MOST_WORKING) {
        return Ok((None, working));
    }
    Ok((Some(Measured::of(&session, call.inputs)?.least), working))
}

/// Why a form is compiled.
fn taken(form: Form, verdict: &Verdict) -> String {
    let prices: Vec<String> = verdict
        .prices
        .iter()
        .map(|(form, seconds)| format!("{} {:.3} ms", form.name(), seconds * 1e3))
        .collect();
    let at: Vec<String> = verdict.sizes.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
    let why = match verdict.reason {
        Reason::LeastPrice => "The plan of the least price is compiled.",
        Reason::MuchLess => "The fused plan costs much more, and stores no fewer arrays of scores.",
        Reason::FusionRequired => "Fusion was required.",
        Reason::FormRequired => "This form was asked for.",
    };
    format!("Compiled: {}. {why} Prices of a call{at}: {}.", form.name(), prices.join("; "))
}

fn machine(options: &Options) -> Machine {
    let isa = match options.isa {
        IsaChoice::Auto => Isa::detect(),
        IsaChoice::Only(isa) => isa,
    };
    Machine {
        isa: isa.to_string(),
        threads: threads(options),
        gflops: peak::fma_peak(isa),
        gbytes: peak::memory_peak(1),
    }
}

/// A number of the dimensions, at lengths; zero where it has none.
fn number(dim: &Dim, sizes: &Bindings) -> f64 {
    dim.eval(sizes).map_or(0.0, |n| n as f64)
}

/// Whether a kernel runs at these sizes.
fn runs(kernel: &Summary, sizes: &Bindings) -> bool {
    kernel.when.as_ref().is_none_or(|(left, right)| match (left.eval(sizes), right.eval(sizes)) {
        (Ok(left), Ok(right)) => left < right,
        (Err(_), _) | (_, Err(_)) => true,
    })
}

/// The condition under which a kernel runs, in words.
fn when(kernel: &Summary) -> Option<String> {
    Condition::of(kernel).map(|condition| condition.to_string())
}

/// A plan as a whole.
fn total(
    name: &str,
    plan: &Plan<'_>,
    (sizes, options): (&Bindings, &Options),
    (measured, working): (Option<f64>, Option<usize>),
) -> Total {
    let summary = plan.summary();
    let lanes = crate::compile::pipeline::lanes(options);
    let called: Vec<Cost> = summary
        .iter()
        .filter(|kernel| !kernel.once && runs(kernel, sizes))
        .map(|kernel| Cost::of_kernel(kernel, lanes))
        .collect();
    let price = plan.price(sizes, &options.tuning.peaks).map(|price| price.seconds() * 1e3);
    Total {
        name: name.to_owned(),
        kernels: called.len(),
        flops: called.iter().map(|cost| number(&cost.flops, sizes)).sum(),
        bytes: called.iter().map(|cost| number(&cost.bytes, sizes)).sum(),
        working: working.and_then(|bytes| u64::try_from(bytes).ok()),
        priced: price,
        measured,
    }
}
