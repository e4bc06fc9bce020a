//! A random program of any kind from its seed, tried and, where it fails, made smaller: what the bounded run of the tests
//! and the long runs of `soak` share.

use crate::generate::{self, Data};
use crate::judge;
use crate::trial::{self, Failure, Kind, Report, Trial, Way, guarded};
use crate::ways::Call;
use salient::{Arrays, Bindings, Engine, Fp, Graph, Model, Options, Sources, Weights};
use salient_ir::text::print;
use salient_ir::{MapOp, NodeId, Op};

/// Steps of a program: the longer, the more of the pipeline meets in it.
const STEPS: [usize; 5] = [4, 8, 12, 20, 32];

/// What is done with a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// It runs as it is.
    Graph,
    /// Several expressions read one part of its scores; it runs as it is.
    Readers,
    /// It is printed and read back, as written and fused.
    Printed,
    /// It keeps states over several calls.
    States,
    /// It is made as text.
    Text,
    /// Its gradients run, by all that goes in, with what it gives or without.
    Gradients,
}

impl Part {
    /// The part of a seed.
    pub fn of(seed: u64) -> Part {
        match seed % 10 {
            0..3 => Part::Graph,
            3 => Part::Gradients,
            4 => Part::Readers,
            5 | 6 => Part::Text,
            7 | 8 => Part::Printed,
            _ => Part::States,
        }
    }
}

/// The failure of a seed, as a text that says how to see it again.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its kind.
    pub kind: Kind,
    /// All there is to say.
    pub text: String,
}

/// The program of a seed with its data; nothing where the language refuses its text.
///
/// # Errors
/// It cannot be made.
pub fn trial_of(seed: u64, data: Data) -> Result<Option<Trial>, Failure> {
    let steps = STEPS[(seed / 10) as usize % STEPS.len()];
    let made = guarded(|| {
        Ok(match Part::of(seed) {
            Part::Graph | Part::Printed => Some(generate::program(seed, steps)),
            Part::Readers => Some(generate::readers(seed)),
            Part::States => Some(generate::stateful(seed, steps)),
            Part::Text => compile_text(&generate::source(seed, steps / 3 + 2)).ok(),
            Part::Gradients => gradients(seed, steps),
        })
    });
    Ok(made?.map(|graph| {
        let sizes = (0..2).map(|n| generate::sizes(&graph, (seed / 50) as usize + n * 5));
        // What a program requires of its dimensions it refuses otherwise, before anything is computed.
        let is_allowed = |sizes: &Bindings| {
            let is_gradient = Part::of(seed) == Part::Gradients;
            graph.requirements().iter().all(|r| r.check(sizes).is_ok())
                && !(is_gradient && has_zero_as_number(&graph, sizes))
        };
        let sizes = sizes.filter(is_allowed).collect();
        Trial { graph, seed, sizes, data }
    }))
}

/// Whether a dimension that is used as a number is zero: of what it divides nothing is promised (`docs/semantics.md`), and the gradient of a
/// mean is divided by the length of its axis.
fn has_zero_as_number(graph: &Graph, sizes: &Bindings) -> bool {
    let is_number = |id| graph.users(id).iter().any(|user| *graph.op(*user) == Op::Map(MapOp::ToF32));
    graph.ids().any(|id| match graph.op(id) {
        Op::Extent(dim) => is_number(id) && dim.eval(sizes).is_ok_and(|extent| extent < 1),
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Map(_) | Op::Reduce(..) => false,
        Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => false,
    })
}

/// The gradients of a program; nothing where it has none.
fn gradients(seed: u64, steps: usize) -> Option<Graph> {
    let kind = seed / 10;
    let graph =
        if kind.is_multiple_of(3) { generate::program(seed, steps) } else { generate::attention(seed) };
    let made = if kind.is_multiple_of(2) {
        salient_grad::backward(&graph)
    } else {
        salient_grad::of_results(&graph)
    };
    made.ok()
}

/// Tries the program of a seed in those ways, and makes it smaller if it fails.
///
/// # Errors
/// The failure.
pub fn run(seed: u64, data: Data, ways: &[Way], tries: usize) -> Result<Report, Found> {
    let part = Part::of(seed);
    let found = |f: &Failure, text: String| Found {
        kind: f.kind,
        text: format!("seed {seed} {part:?} {data:?}\n{text}"),
    };
    let Some(trial) = trial_of(seed, data).map_err(|f| found(&f, f.text.clone()))? else {
        return Ok(Report { unread: 1, ..Report::default() });
    };
    let outcome = match part {
        Part::Graph | Part::Readers | Part::Text | Part::Gradients => trial.check(ways),
        Part::Printed => guarded(|| read_back(&trial, ways)),
        Part::States => guarded(|| over_calls(&trial, ways)),
    };
    outcome.map_err(|failure| {
        // What fails as a single graph is made smaller as one.
        let alone = match part {
            Part::Graph | Part::Readers | Part::Text | Part::Gradients => Some(failure.clone()),
            Part::Printed | Part::States => trial.check(ways).err(),
        };
        match alone.filter(|_| tries > 0) {
            Some(failure) => {
                let (trial, failure) = trial::smallest(&trial, &failure, tries);
                found(&failure, trial::describe(&trial, &failure))
            }
            None => found(&failure, trial::describe(&trial, &failure)),
        }
    })
}

/// Makes a program smaller that ends its process: `ends` says whether the program with this text does, called with these
/// sizes and that seed.
pub fn smallest_that_ends(trial: &Trial, tries: usize, ends: impl Fn(&str, &Bindings) -> bool) -> String {
    let mut shown = String::from("it does so only as it was made:\n") + &print(&trial.graph);
    for sizes in &trial.sizes {
        if ends(&print(&trial.graph), sizes) {
            let small = crate::shrink::shrink(&trial.graph, tries, |g| ends(&print(g), sizes));
            shown = format!("{}\nat {sizes:?}", print(&small));
            break;
        }
    }
    shown
}

/// Tries a program that is given as text.
///
/// # Errors
/// The failure.
pub fn run_text(text: &str, seed: u64, sizes: &Bindings, data: Data) -> Result<Report, String> {
    let trial = Trial { graph: compile_text(text)?, seed, sizes: vec![sizes.clone()], data };
    trial.check(&trial::all_ways()).map_err(|failure| trial::describe(&trial, &failure))
}

fn compile_text(text: &str) -> Result<Graph, String> {
    let mut sources = Sources::new();
    sources.add("printed.attn", text);
    salient::lower(&sources, &Options::default()).map(|l| l.graph).map_err(|e| e.to_string())
}

/// What the language says of an index that no axis of that length has.
const ALWAYS_OUTSIDE: &str = "is outside an axis";

/// The program as written and as it is fused read back as what they are, and what reads back gives the same.
fn read_back(trial: &Trial, ways: &[Way]) -> Result<Report, Failure> {
    let fused = salient::optimise(&trial.graph, &Options::default()).graph;
    let fail = |text: String| Failure { kind: Kind::Compile, way: None, text };
    let mut report = Report::default();
    // What is fused may be mended, however it then runs.
    let mended = Way { engine: Engine::Jit, fp: Fp::Default, ..ways[0] };
    for (name, graph, way) in [("as written", &trial.graph, ways[0]), ("fused", &fused, mended)] {
        // A quotient of dimensions is exact in the language; one that is rounded down has no spelling.
        if graph.ids().any(|id| is_rounded_quotient(graph, id)) {
            continue;
        }
        let text = print(graph);
        let again = match compile_text(&text) {
            // The language says at once what a graph made by hand says in every call.
            Err(e) if e.contains(ALWAYS_OUTSIDE) && trial.judged(None).is_ok() => continue,
            again => again.map_err(|e| fail(format!("{name}, does not read back: {e}\n{text}")))?,
        };
        // What is simplified when it is read is so once and for all.
        let second = print(&again);
        let third = compile_text(&second).map(|g| print(&g));
        if third.as_ref() != Ok(&second) {
            return Err(fail(format!("{name}, is not stable: {text}\nas\n{second}\nas\n{third:?}")));
        }
        // What divides an index is at least one in the language, which a graph made by hand does not ask for.
        let is_asked = |sizes: &Bindings| again.requirements().iter().all(|r| r.check(sizes).is_ok());
        let sizes = trial.sizes.iter().filter(|sizes| is_asked(sizes)).cloned().collect();
        report.add(Trial { sizes, ..trial.clone() }.check_as(&again, &[way])?);
    }
    Ok(report)
}

/// Whether a node divides a dimension, or the remainder of one, and nothing else.
fn is_rounded_quotient(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.op(id), Op::Map(MapOp::IntDiv | MapOp::Mod)) && graph.node(id).axes.is_empty()
}

/// How many tokens each call of a program with states brings.
const CALLS: [i64; 4] = [3, 1, 2, 1];

/// Call after call: each is what is written of the states that the call before left, and a session that keeps the states
/// itself gives the same.
fn over_calls(trial: &Trial, ways: &[Way]) -> Result<Report, Failure> {
    let mut report = Report::default();
    for way in ways {
        let fail = |kind, text| Failure { kind, way: Some(*way), text };
        let options = Options {
            engine: way.engine,
            fp: way.fp,
            isa: way.isa,
            threads: Some(way.threads),
            ..Options::default()
        };
        let model = Model::from_graph(trial.graph.clone(), &options)
            .map_err(|e| fail(Kind::Compile, e.to_string()))?;
        let calls: Vec<Call> = CALLS
            .iter()
            .enumerate()
            .map(|(n, t)| {
                let sizes = generate::call::of_program([*t, 3, 4]);
                generate::call(&trial.graph, trial.seed + n as u64, &sizes, trial.data)
            })
            .collect();
        let mut held = nothing_held(&trial.graph, &calls[0]);
        let params = calls[0].params.clone();
        let mut session = None;
        for (n, call) in calls.iter().enumerate() {
            let mut call = Call { params: params.clone(), ..call.clone() };
            let fresh = without_states(&trial.graph, &call);
            give(&mut call, &held);
            let explicit = call.run(&model);
            // What parameters alone refuse, making the session refuses.
            let made = match session.take() {
                Some(made) => Ok(made),
                None => model.session(&fresh, Weights::from(&params)),
            };
            let step = made.and_then(|made| session.insert(made).step(&fresh));
            let explicit = match (explicit, step) {
                (Ok(explicit), Ok(step)) => {
                    for (name, array) in explicit.iter() {
                        let kept = trial
                            .graph
                            .states()
                            .iter()
                            .any(|s| *trial.graph.outputs()[s.output].name == *name);
                        let same = kept || step.get(name).is_some_and(|s| s.same_bits(array));
                        if !same {
                            return Err(fail(
                                Kind::Value,
                                format!("call {n}: a step gives another `{name}` than the call"),
                            ));
                        }
                    }
                    explicit
                }
                (Err(e), Ok(_)) => {
                    return Err(fail(Kind::Refused, format!("call {n}, which a step accepts: {e}")));
                }
                (Ok(_), Err(e)) => return Err(fail(Kind::Refused, format!("a step of call {n}: {e}"))),
                // What refuses is judged below, and ends the calls.
                (Err(_), Err(_)) => Arrays::new(),
            };
            let Some(wanted) = judge::judge(&trial.graph, &call.dimensions, &call) else { break };
            let refused = explicit.names().next().is_none();
            let found =
                if refused { Err(salient::Error::Run("refused".to_owned())) } else { Ok(explicit.clone()) };
            let tolerant = trial.data == Data::Tame;
            let judged = trial::compare(&found, &wanted, *way, tolerant);
            report.add(judged.map_err(|(kind, text)| fail(kind, format!("call {n}: {text}")))?);
            if refused {
                break;
            }
            held = states_of(&trial.graph, &explicit);
        }
    }
    if trial.graph.states().is_empty() {
        Err(Failure { kind: Kind::Judge, way: None, text: "no states".to_owned() })
    } else {
        Ok(report)
    }
}

/// The names and values of states.
type Held = Vec<(String, salient::Array)>;

fn nothing_held(graph: &Graph, call: &Call) -> Held {
    let mut bindings = call.dimensions.clone();
    bindings.insert("R".into(), 0);
    let state = |s: &salient_ir::State| {
        let port = &graph.inputs()[s.input];
        let shape =
            graph.shape(&port.axes).iter().map(|d| d.eval(&bindings).expect("bound") as usize).collect();
        (port.name.to_string(), salient::Array::zeros(port.dtype, shape).expect("it is small"))
    };
    graph.states().iter().map(state).collect()
}

fn states_of(graph: &Graph, outputs: &Arrays) -> Held {
    let state = |s: &salient_ir::State| {
        let name = graph.outputs()[s.output].name.to_string();
        let array = outputs.get(&name).expect("every output is given").clone();
        (name, array)
    };
    graph.states().iter().map(state).collect()
}

fn without_states(graph: &Graph, call: &Call) -> Arrays {
    let mut out = Arrays::new();
    for (name, array) in call.inputs.iter() {
        if !graph.states().iter().any(|s| *graph.inputs()[s.input].name == *name) {
            out.insert(name, array.clone()).expect("named once");
        }
    }
    out
}

fn give(call: &mut Call, held: &Held) {
    let mut inputs = Arrays::new();
    for (name, array) in call.inputs.iter() {
        let array = held.iter().find(|(n, _)| n == name).map_or(array, |(_, a)| a);
        inputs.insert(name, array.clone()).expect("named once");
    }
    call.inputs = inputs;
    for (name, array) in held {
        if name.starts_with("held") {
            call.dimensions.insert("R".into(), array.shape()[0] as i64);
        }
    }
}
