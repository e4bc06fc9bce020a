//! The stages one after the other: source, graph, fused graph, kernels, code.
//!
//! Each function is one step of the way and returns what the next one takes. What the steps do is decided in the crates
//! below; which of them a model needs, by its engine.

use crate::compile::choose::{Alternative, Candidates, Form, Verdict, coded, plan_of};
use crate::compile::options::Options;
use crate::compile::stage::{Engine, Stage};
use crate::report::error::Error;
use crate::report::timings::{Step, Timings};
use salient_front::{Diagnostic, Lowered, Settings, Sources, format, parse};
use salient_ir::integers::Integers;
use salient_ir::quantised::Coding;
use salient_ir::{Const, Graph, MapOp, NodeId, Op, text};
use salient_jit::Compiled;
use salient_jit::target::{Isa, Target};
use salient_opt::{Fp, Named, Optimised, Pass};
use salient_tile::plan::price::Machine;
use salient_tile::plan::text::read::ReadPlan;
use salient_tile::{Plan, Program, Tiling, memory, program_of};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The models of the source, in order; those of imported files come after.
///
/// # Errors
/// [`Error::Source`] if a file does not parse.
pub fn models(sources: &Sources) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    let mut faults = Vec::new();
    for file in sources.user_files() {
        match parse(file) {
            Ok(tree) => names.extend(tree.models().map(|m| m.name.name.clone())),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(names) } else { Err(Error::source(faults, sources.clone())) }
}

/// Source to graph, with warnings.
///
/// # Errors
/// [`Error::Source`] with every mistake that could be told apart.
pub fn lower(sources: &Sources, options: &Options) -> Result<Lowered, Error> {
    let settings = Settings {
        set: options.set.clone(),
        train: options.train,
        inner: options.inner.clone(),
        normal_form: Some(normal_form(options.fp)),
    };
    let lowered = salient_front::compile(sources, options.model.as_deref(), &settings)
        .map_err(|faults| Error::source(faults, sources.clone()))?;
    if options.deny_warnings && !lowered.warnings.is_empty() {
        let denied = lowered.warnings.into_iter().map(Diagnostic::denied).collect();
        return Err(Error::source(denied, sources.clone()));
    }
    Ok(lowered)
}

/// What gives a loss the form in which it is differentiated.
pub(crate) fn normal_form(fp: Fp) -> fn(&Graph) -> Graph {
    match fp {
        Fp::Default => |graph| salient_opt::normal_form(graph, Fp::Default),
        Fp::Strict => |graph| salient_opt::normal_form(graph, Fp::Strict),
    }
}

/// Graph to fused graph, with the report of how it came about.
pub fn optimise(graph: &Graph, options: &Options) -> Optimised {
    salient_opt::optimise(graph, &of_optimiser(options))
}

/// The options of the optimiser that follow from those of the user.
pub(crate) fn of_optimiser(options: &Options) -> salient_opt::Options {
    salient_opt::Options { fp: options.fp, verify: options.verify, ..Default::default() }
}

/// Graph to fused graph; an engine that does not rewrite keeps it as written.
pub fn fuse<'a>(graph: &'a Graph, options: &Options) -> Cow<'a, Graph> {
    match options.engine {
        Engine::Jit => Cow::Owned(optimise(graph, options).graph),
        Engine::Unfused | Engine::Oracle => Cow::Borrowed(graph),
    }
}

/// Fused graph to kernels; unfused, every operator is a kernel of its own. Register tiles are those of the vectors that
/// the options ask for, where this machine has them.
pub fn schedule(fused: &Graph, options: &Options) -> Program {
    schedule_blocks(fused, &[], options)
}

/// As [`schedule`], of a graph with equal blocks, whose kernels are made once: see [`Optimised::chains`].
pub fn schedule_blocks(fused: &Graph, chains: &[Vec<Vec<NodeId>>], options: &Options) -> Program {
    let coded = coded(fused, options);
    program_of(&plan_of(fused, is_fused(options), chains, &coded, options), options.verify)
}

/// The plan as text; norms and activations have the names that the optimiser found.
pub(crate) fn print_plan(plan: &Plan<'_>, named: &[Named]) -> String {
    let labels = named.iter().map(|n| (n.node, n.form.name().to_owned())).collect();
    salient_tile::plan::text::print(plan, &labels)
}

/// What is said of the plan that is compiled, and of the norms and activations that the optimiser found in it; and of the one that
/// is compiled beside it for other sizes, if there is one, with these sizes before.
fn of_plans(
    graph: &Graph,
    options: &Options,
    timings: &mut Timings,
    say: impl Fn(&Plan<'_>, &[Named]) -> String,
) -> String {
    match options.engine {
        Engine::Jit => {
            let optimised = timings.time(Step::Optimise, || optimise(graph, options));
            timings.time(Step::Schedule, || {
                let candidates = Candidates::new(graph, &optimised, options);
                let (plan, verdict) = candidates.choose(false);
                let named = &optimised.report.named;
                of_chosen(&candidates, (&plan, &verdict), named, options, say)
            })
        }
        Engine::Unfused | Engine::Oracle => timings.time(Step::Schedule, || {
            let plan = plan_of_unfused(graph, options);
            say(verified(&plan, options), &[])
        }),
    }
}

/// What is said of a plan that was chosen, and of the one beside it.
fn of_chosen(
    candidates: &Candidates<'_>,
    (plan, verdict): (&Plan<'_>, &Verdict),
    named: &[Named],
    options: &Options,
    say: impl Fn(&Plan<'_>, &[Named]) -> String,
) -> String {
    let say_of = |form: Form, plan: &Plan<'_>| {
        say(verified(plan, options), if form.is_optimised() { named } else { &[] })
    };
    let other = verdict.alternative.as_ref().map(|other| {
        let plan = candidates.plan(other.form);
        format!("\n// {other}\n{}", say_of(other.form, &plan))
    });
    say_of(verdict.taken, plan) + &other.unwrap_or_default()
}

/// The plan that was chosen as text, and the one beside it.
pub(crate) fn print_chosen(
    candidates: &Candidates<'_>,
    chosen: (&Plan<'_>, &Verdict),
    named: &[Named],
    options: &Options,
) -> String {
    of_chosen(candidates, chosen, named, options, print_plan)
}

/// The plan of an engine that does not rewrite.
pub(crate) fn plan_of_unfused<'g>(graph: &'g Graph, options: &'g Options) -> Plan<'g> {
    plan_of(graph, false, &[], NOT_CODED, options)
}

const NOT_CODED: &BTreeMap<usize, Coding> = &BTreeMap::new();

/// A plan of which something is told and no program is made, verified where that is asked for.
pub(crate) fn verified<'p, 'g>(plan: &'p Plan<'g>, options: &Options) -> &'p Plan<'g> {
    if options.verify || cfg!(debug_assertions) {
        salient_tile::verify::assert_plan(plan);
    }
    plan
}

/// Whether an engine rewrites graphs and joins operators.
pub(crate) fn is_fused(options: &Options) -> bool {
    match options.engine {
        Engine::Jit => true,
        Engine::Unfused | Engine::Oracle => false,
    }
}

/// The prices of the plans of a model, and which of them is compiled.
pub fn verdict(graph: &Graph, options: &Options) -> Verdict {
    let optimised = optimise(graph, options);
    Candidates::new(graph, &optimised, options).choose(true).1
}

/// What is to be said of the price of a model's plan where fusion is required: without that, no plan is compiled that is dearer than
/// that of the program as written.
pub fn price_warning(graph: &Graph, options: &Options) -> Option<String> {
    let optimised = optimise(graph, options);
    Candidates::new(graph, &optimised, options).warning()
}

/// Sizes of tiles: those of the vectors that the options ask for, where this machine has them.
pub(crate) fn tiling(options: &Options) -> Tiling {
    if options.usual_core {
        return *salient_jit::Tuning::default().of(Isa::Avx2);
    }
    Target::host(options.isa).map(|t| options.tuning.machine.tiling(&t)).unwrap_or_default()
}

/// Lanes of the vectors that the options ask for; of the portable ones where this machine has not those.
pub(crate) fn lanes(options: &Options) -> usize {
    if options.usual_core {
        return Machine::default().lanes as usize;
    }
    Target::host(options.isa)
        .map_or(salient_jit::bodies::cranelift::LANES, |t| salient_jit::bodies::lanes(&t))
}

/// Source text in the one layout of the language.
///
/// # Errors
/// [`Error::Source`] if it does not parse.
pub fn format_source(name: &str, text: &str) -> Result<String, Error> {
    let mut sources = Sources::new();
    let id = sources.add(name, text);
    format(sources.file(id)).map_err(|faults| Error::source(faults, sources))
}

/// A stage of a model as text, ending in a line break, noting how long each step took. Kernels come without their vector
/// bodies.
///
/// # Errors
/// As [`lower`], and [`Error::Code`] for the stages that are made from code.
pub fn print_stage(
    sources: &Sources,
    stage: Stage,
    options: &Options,
    timings: &mut Timings,
) -> Result<String, Error> {
    if stage == Stage::Source {
        let texts = sources.user_files().iter().map(|f| format_source(&f.name, &f.text));
        return texts.collect();
    }
    let graph = timings.time(Step::Lower, || lower(sources, options))?.graph;
    let printed = match stage {
        Stage::Source | Stage::Graph => text::print(&graph),
        Stage::Fused => text::print(&timings.time(Step::Optimise, || fuse(&graph, options))),
        Stage::Plan => of_plans(&graph, options, timings, print_plan),
        Stage::Kernels => salient_tile::text::print(&kernels(&graph, options, timings).0.program),
        Stage::Memory => {
            of_plans(&graph, options, timings, |plan, _| memory::contract(&plan.usage()).to_string())
        }
        Stage::Clif => code(&graph, options, timings)?.0.compiled.clif(),
        Stage::Asm => code(&graph, options, timings)?.0.compiled.asm(),
    };
    Ok(format!("{}\n", printed.trim_end()))
}

/// The graph of a model after a pass of the optimiser as text, ending in a line break.
///
/// # Errors
/// As [`lower`].
pub fn print_after(
    sources: &Sources,
    pass: &Pass,
    options: &Options,
    timings: &mut Timings,
) -> Result<String, Error> {
    let graph = timings.time(Step::Lower, || lower(sources, options))?.graph;
    let steps = timings.time(Step::Optimise, || salient_opt::trace(&graph, &of_optimiser(options)));
    let after = steps.into_iter().find(|(known, _)| known.name == pass.name);
    let (_, graphs) = after.expect("a pass of the table");
    Ok(graphs.iter().map(|graph| format!("{}\n", text::print(graph).trim_end())).collect())
}

/// Kernels of a plan of a model.
struct Lowering {
    program: Program,
    /// The integers that must fit what the kernels have for them, if any may not.
    integers: Option<Integers>,
    /// The sizes at which it runs; none for the plan that runs at all others.
    when: Option<Alternative>,
}

/// Graph to kernels: those that run at most sizes, and those for others.
fn kernels(graph: &Graph, options: &Options, timings: &mut Timings) -> (Lowering, Option<Lowering>) {
    match options.engine {
        Engine::Jit => {
            let optimised = timings.time(Step::Optimise, || optimise(graph, options));
            timings.time(Step::Schedule, || {
                let candidates = Candidates::new(graph, &optimised, options);
                let (plan, verdict) = candidates.choose(false);
                let of = |plan: &Plan<'_>, form: Form, when: Option<Alternative>| Lowering {
                    program: program_of(plan, options.verify),
                    integers: Integers::new(candidates.graph(form)),
                    when,
                };
                let other = verdict.alternative.clone();
                let other = other.map(|other| of(&candidates.plan(other.form), other.form, Some(other)));
                (of(&plan, verdict.taken, None), other)
            })
        }
        Engine::Unfused | Engine::Oracle => {
            let program = timings.time(Step::Schedule, || schedule(graph, options));
            (Lowering { program, integers: Integers::new(graph), when: None }, None)
        }
    }
}

/// Refuses literals that compiled code, which has 32 bits for an integer, would cut. The words of a key are cut on purpose.
fn integers_fit(graph: &Graph) -> Result<(), Error> {
    for id in graph.ids() {
        let Op::Const(Const::I64(n)) = *graph.op(id) else { continue };
        let is_word = |user: &NodeId| *graph.op(*user) == Op::Map(MapOp::Philox);
        if i32::try_from(n).is_err() && !graph.users(id).iter().all(is_word) {
            return Err(Error::Code(format!("the integer {n} does not fit 32 bits")));
        }
    }
    Ok(())
}

/// Machine code of a plan of a model.
#[derive(Debug)]
pub(crate) struct Compilation {
    pub(crate) compiled: Compiled,
    /// The integers that must fit it, if any may not.
    pub(crate) integers: Option<Integers>,
    /// The sizes at which it runs; none for the plan that runs at all others.
    pub(crate) when: Option<Alternative>,
}

/// Graph to machine code: that which runs at most sizes, and that for others.
pub(crate) fn code(
    graph: &Graph,
    options: &Options,
    timings: &mut Timings,
) -> Result<(Compilation, Option<Compilation>), Error> {
    integers_fit(graph)?;
    let (most, other) = kernels(graph, options, timings);
    timings.time(Step::Emit, || {
        let of = |Lowering { program, integers, when }: Lowering| -> Result<Compilation, Error> {
            Ok(Compilation { compiled: emit(program, options)?, integers, when })
        };
        Ok((of(most)?, other.map(of).transpose()?))
    })
}

/// A plan to machine code.
pub(crate) fn code_of_plan(
    read: &ReadPlan,
    options: &Options,
    timings: &mut Timings,
) -> Result<Compilation, Error> {
    integers_fit(read.graph())?;
    let program = timings.time(Step::Schedule, || program_of(&read.plan(), options.verify));
    let compiled = timings.time(Step::Emit, || emit(program, options))?;
    Ok(Compilation { compiled, integers: Integers::new(read.graph()), when: None })
}

static COMPILATIONS: AtomicUsize = AtomicUsize::new(0);

/// How often this process has made machine code so far: once for each model that runs on it, whatever shapes it is
/// called with.
pub fn compilations() -> usize {
    COMPILATIONS.load(Ordering::Relaxed)
}

/// Kernels to machine code.
pub(crate) fn emit(program: Program, options: &Options) -> Result<Compiled, Error> {
    COMPILATIONS.fetch_add(1, Ordering::Relaxed);
    let threading = options.tuning.machine.threading;
    let options = salient_jit::Options { isa: options.isa, threads: threads(options), threading };
    Ok(Compiled::new(program, &options)?)
}

pub(crate) fn threads(options: &Options) -> usize {
    options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}
