//! Spelling does not matter: every way of writing a variant of attention reaches the identical fused graph and kernels.
//!
//! So do the norms and activations around it. `tests/equivalence/VARIANT/` holds the spellings; `reference.attn` is the one that the others are compared with, and its
//! `//! run:` lines give the sizes at which all must compute the same. Spellings that compute other numbers on the way, so
//! that their expressions must differ, stand in `KNOWN_MISSES` with the reason: they reach the plan of the reference all the
//! same, which is the same kernels in the same form over the same stored arrays.

use salient::{Engine, Graph, Model, Options, Stage, Timings, explain, fuse, lower, print_stage, schedule};
use salient_ir::{Builder, NodeId};
use salient_tests::agree::all_agree;
use salient_tests::case::Case;
use salient_tests::files::{files_under, sources, text};
use salient_tests::sweep;
use salient_tests::ways::Ways;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

const FOLDER: &str = "tests/equivalence";
const KNOWN_MISSES: &str = "tests/equivalence/KNOWN_MISSES";
const REFERENCE: &str = "reference";
/// What is no attention: norms and activations, each under the name that the optimiser must give to all of its spellings.
const PARTS: &[&str] = &["gelu_erf", "gelu_tanh", "layer_norm", "rms_norm", "silu", "swiglu"];

/// The spellings of each variant, the reference left out.
fn variants() -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files_under(FOLDER, "attn") {
        let (variant, spelling) =
            file.strip_suffix(".attn").and_then(|f| f.split_once('/')).expect("VARIANT/NAME");
        let spellings = out.entry(variant.to_owned()).or_default();
        if spelling != REFERENCE {
            spellings.push(spelling.to_owned());
        }
    }
    out
}

fn path(variant: &str, spelling: &str) -> String {
    format!("{FOLDER}/{variant}/{spelling}.attn")
}

/// The fused graph and the kernels of a spelling, which must be the same to the letter. The names of values and of axes are the
/// source's and are not carried into either.
fn forms(variant: &str, spelling: &str) -> Result<[String; 2], String> {
    let options = Options::default();
    let graph = lower(&sources(&path(variant, spelling))?, &options).map_err(|e| e.to_string())?.graph;
    let fused = without_names(&fuse(&graph, &options));
    let texts = [salient_ir::text::print(&fused), salient_tile::text::print(&schedule(&fused, &options))];
    Ok(texts.map(|text| with_axes_by_number(&text, &fused)))
}

/// The plan of a spelling without its expressions: the kind of each kernel, the axes of what it stores, the range of its keys
/// and its form.
fn plan_form(variant: &str, spelling: &str) -> Result<String, String> {
    let options = Options::default();
    let sources = sources(&path(variant, spelling))?;
    let fused = fuse(&lower(&sources, &options).map_err(|e| e.to_string())?.graph, &options).into_owned();
    let plan =
        print_stage(&sources, Stage::Plan, &options, &mut Timings::default()).map_err(|e| e.to_string())?;
    let kept = plan.lines().skip(1).map(str::trim).filter(|line| !line.starts_with("where "));
    let mut kernels: Vec<String> = Vec::new();
    for line in kept {
        match (line.split_once(" = "), line.split_once(' '), kernels.last_mut()) {
            // A kernel, what it stores and along which axes: its expression and the name of the value do not count.
            (Some((stored, _)), Some((kernel, _)), _) => {
                kernels.push(format!("{kernel} {}", stored.split_once('[').map_or("", |(_, axes)| axes)));
            }
            (_, _, Some(kernel)) => *kernel += &format!(" {line}"),
            (_, _, None) => kernels.push(line.to_owned()),
        }
    }
    // Axes are told apart within a kernel: which of two of one length the source gives a value does not count.
    Ok(kernels.iter().map(|kernel| with_axes_by_number(kernel, &fused) + "\n").collect())
}

/// A text about a graph in which each axis is called by the number of its first mention.
fn with_axes_by_number(text: &str, graph: &Graph) -> String {
    let names: BTreeSet<&str> = graph.axes().map(|(_, axis)| &*axis.name).collect();
    let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !of_name(c)).unwrap_or(rest.len());
        let (token, behind) = rest.split_at(word.max(rest.chars().next().map_or(0, char::len_utf8)));
        // A range has two points between its ends.
        let (token, behind) =
            token.find("..").filter(|at| *at > 0).map_or((token, behind), |at| rest.split_at(at));
        if names.contains(token) {
            let next = numbers.len();
            out += &format!("axis{}", numbers.entry(token).or_insert(next));
        } else {
            out += token;
        }
        rest = behind;
    }
    out
}

/// The same graph with no value named.
fn without_names(graph: &Graph) -> Graph {
    let mut b = Builder::like(graph);
    let mut ids: Vec<NodeId> = Vec::new();
    for id in graph.ids() {
        let args: Vec<NodeId> = graph.args(id).iter().map(|a| ids[a.index()]).collect();
        ids.push(b.add(graph.op(id).clone(), &args).expect("a node of a verified graph"));
    }
    for out in graph.outputs() {
        b.output(&out.name, &out.axes, ids[out.node.index()]).expect("an output of a verified graph");
    }
    b.finish()
}

/// `VARIANT/SPELLING` of every line that is no comment.
fn known_misses() -> BTreeSet<String> {
    let lines = text(KNOWN_MISSES);
    lines.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()).map(str::to_owned).collect()
}

#[test]
fn there_are_enough_of_them() {
    let variants = variants();
    let parts = |variant: &str| PARTS.contains(&variant);
    assert_eq!(variants.keys().filter(|v| parts(v)).count(), PARTS.len());
    assert!(variants.len() >= 10 + PARTS.len(), "{} variants", variants.len());
    for (variant, spellings) in variants {
        let wanted = if parts(&variant) { 5 } else { 11 };
        assert!(
            spellings.len() >= wanted,
            "{variant} has {} spellings beside the reference",
            spellings.len()
        );
    }
}

#[test]
fn every_spelling_reaches_the_same_kernels() {
    let known = known_misses();
    let missed = Mutex::new(BTreeSet::new());
    let references: BTreeMap<String, _> =
        variants().into_keys().map(|v| (v.clone(), forms(&v, REFERENCE))).collect();
    let all: Vec<String> =
        variants().into_iter().flat_map(|(v, s)| s.into_iter().map(move |s| format!("{v}/{s}"))).collect();
    sweep::each(&all, |name| {
        let (variant, spelling) = name.split_once('/').expect("VARIANT/NAME");
        let (wanted, found) = (references[variant].clone()?, forms(variant, spelling)?);
        if wanted == found {
            return match known.contains(name) {
                true => Err(format!("reaches the reference: take it out of {KNOWN_MISSES}")),
                false => Ok(()),
            };
        }
        missed.lock().expect("no check holds it").insert(name.to_owned());
        if known.contains(name) {
            let [wanted, found] = [REFERENCE, spelling].map(|spelling| plan_form(variant, spelling));
            return match (wanted?, found?) {
                (wanted, found) if wanted == found => Ok(()),
                (wanted, found) => Err(format!("another plan:\n{found}The reference:\n{wanted}")),
            };
        }
        // Where the graphs are the same, it is the kernels that differ.
        let stage = usize::from(wanted[0] == found[0]);
        Err(format!("does not reach the reference:\n{}The reference:\n{}", found[stage], wanted[stage]))
    });
    if std::env::var("ONLY").is_err() {
        assert_eq!(*missed.lock().expect("no check holds it"), known, "{KNOWN_MISSES} names what is there");
    }
}

/// A norm or an activation is called what it is, however it is spelled.
#[test]
fn norms_and_activations_are_named_in_every_spelling() {
    let all: Vec<String> = variants()
        .into_iter()
        .filter(|(variant, _)| PARTS.contains(&variant.as_str()))
        .flat_map(|(v, s)| s.into_iter().chain([REFERENCE.to_owned()]).map(move |s| format!("{v}/{s}")))
        .collect();
    sweep::each(&all, |name| {
        let (variant, spelling) = name.split_once('/').expect("VARIANT/NAME");
        let file = sources(&path(variant, spelling))?;
        let text = explain(&file, &Options::default(), None, &mut Timings::default());
        let text = text.map_err(|e| e.to_string())?;
        match text.contains(&format!(" is {variant}")) {
            true => Ok(()),
            false => Err(format!("is not called {variant}:\n{text}")),
        }
    });
}

/// Norms that follow each other in one model share terms, and each is still called what it is.
#[test]
fn every_norm_of_a_model_is_named() {
    let sources = sources("examples/seeds/002_encoder_block.attn").expect("a file");
    let text = explain(&sources, &Options::default(), None, &mut Timings::default()).expect("a model");
    assert_eq!(text.matches(" is layer_norm").count(), 2, "{text}");
    assert_eq!(text.matches(" is rms_norm").count(), 0, "{text}");
}

/// Spellings of one thing compute one thing: the oracle on each gives the reference's values, and so does compiled code.
#[test]
fn every_spelling_computes_the_same() {
    let all: Vec<String> =
        variants().into_iter().flat_map(|(v, s)| s.into_iter().map(move |s| format!("{v}/{s}"))).collect();
    let graph = |variant: &str, spelling: &str| {
        let lowered = lower(&sources(&path(variant, spelling))?, &Options::default());
        lowered.map(|l| l.graph).map_err(|e| e.to_string())
    };
    // By the oracle, and by compiled code where it is not the reference's code anyway.
    let known = known_misses();
    let references = Mutex::new(BTreeMap::new());
    sweep::each(&variants().into_keys().collect::<Vec<_>>(), |variant| {
        let case = Case::parse(&text(&path(variant, REFERENCE)))?;
        let ways = Ways::new(&graph(variant, REFERENCE)?)?;
        let run = |run| {
            let call = case.call(ways.graph(), run)?;
            ways.check(&call).map(|outputs| (call, outputs))
        };
        let runs = case.runs.iter().map(run).collect::<Result<Vec<_>, String>>()?;
        references.lock().expect("no check holds it").insert(variant.to_owned(), runs);
        Ok(())
    });
    let references = references.into_inner().expect("no check holds it");
    sweep::each(&all, |name| {
        let (variant, spelling) = name.split_once('/').expect("VARIANT/NAME");
        let graph = graph(variant, spelling)?;
        let engines: &[Engine] =
            if known.contains(name) { &[Engine::Oracle, Engine::Jit] } else { &[Engine::Oracle] };
        for engine in engines {
            let options = Options { engine: *engine, ..Options::default() };
            let model = Model::from_graph(graph.clone(), &options).map_err(|e| e.to_string())?;
            for (call, wanted) in &references[variant] {
                all_agree(&call.run(&model).map_err(|e| e.to_string())?, wanted)?;
            }
        }
        Ok(())
    });
}
