//! Random programs through the whole pipeline: whatever is made of one, it has the oracle's values.

use salient::{Arrays, Engine, Graph, Isa, IsaChoice, Model, Options};
use salient_ir::Op;
use salient_ir::text::print;
use salient_tests::agree::TOLERANCE;
use salient_tests::ways::Call;
use salient_tests::{generate, sweep};
use std::collections::BTreeSet;

/// How many programs; `PROGRAMS` in the environment asks for more.
fn count() -> u64 {
    std::env::var("PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(150)
}

/// Steps of a program: the longer, the more of the pipeline meets in it.
const STEPS: [usize; 4] = [4, 8, 16, 32];

/// Compares with the oracle. Programs are made so that every value is near one: their scale is one or that of the tensor.
fn same(found: &Arrays, expected: &Arrays) -> Result<(), String> {
    for ((name, found), (_, expected)) in found.iter().zip(expected.iter()) {
        let (have, want) = (found.to_f64_vec(), expected.to_f64_vec());
        let scale = want.iter().filter(|x| x.is_finite()).fold(1.0f64, |m, x| m.max(x.abs()));
        for (at, (h, w)) in have.iter().zip(&want).enumerate() {
            let off = (h - w).abs();
            if !(h == w || h.is_nan() && w.is_nan() || off <= TOLERANCE * scale) {
                return Err(format!("`{name}`[{at}] is {h}, expected {w}"));
            }
        }
    }
    Ok(())
}

fn check(graph: &Graph, calls: &[Call]) -> Result<(), String> {
    let faults = salient_ir::verify::verify(graph);
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    let compile = |engine, isa, threads| {
        let options = Options { engine, isa, threads: Some(threads), ..Options::default() };
        Model::from_graph(graph.clone(), &options).map_err(|e| format!("{engine}: {e}"))
    };
    let oracle = compile(Engine::Oracle, IsaChoice::Auto, 1)?;
    let wanted: Vec<Arrays> =
        calls.iter().map(|c| c.run(&oracle).map_err(|e| format!("oracle: {e}"))).collect::<Result<_, _>>()?;
    let mut first: Option<Vec<Arrays>> = None;
    for (engine, isa, threads) in [
        (Engine::Unfused, IsaChoice::Auto, 1),
        (Engine::Jit, IsaChoice::Only(Isa::Baseline), 1),
        (Engine::Jit, IsaChoice::Auto, 1),
        (Engine::Jit, IsaChoice::Auto, 3),
    ] {
        let model = compile(engine, isa, threads)?;
        let mut results = Vec::new();
        for (n, (call, wanted)) in calls.iter().zip(&wanted).enumerate() {
            let at = format!("{engine} on {isa:?} with {threads} threads at {:?}", call.dimensions);
            let found = call.run(&model).map_err(|e| format!("{at}: {e}"))?;
            same(&found, wanted).map_err(|why| format!("{at}: {why}"))?;
            if threads > 1 && first.as_ref().is_some_and(|f| !f[n].same_bits(&found)) {
                return Err(format!("{at}: the number of threads changes the result"));
            }
            results.push(found);
        }
        first = Some(results);
    }
    Ok(())
}

/// The smallest part of a program that fails. A part may have no value at all, where the whole guards what it reads.
fn smallest(graph: &Graph, seed: u64) -> Option<(Graph, String)> {
    generate::parts(graph).find_map(|part| {
        let calls: Vec<Call> = (0..5).map(|n| generate::call(&part, seed, n)).collect();
        checked(&part, &calls).err().filter(|why| !why.starts_with("oracle:")).map(|why| (part, why))
    })
}

/// A panic of the compiler is a failure like another.
fn checked(graph: &Graph, calls: &[Call]) -> Result<(), String> {
    let run = std::panic::AssertUnwindSafe(|| check(graph, calls));
    std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without a message")))
    })
}

#[test]
fn random_programs_have_the_values_of_the_oracle() {
    let names: Vec<String> = (0..count()).map(|seed| format!("seed {seed}")).collect();
    sweep::each(&names, |name| {
        let seed: u64 = name.trim_start_matches("seed ").parse().expect("made above");
        let graph = generate::program(seed, STEPS[seed as usize % STEPS.len()]);
        let calls: Vec<Call> = (0..2).map(|n| generate::call(&graph, seed, seed as usize / 4 + n)).collect();
        checked(&graph, &calls).map_err(|why| match smallest(&graph, seed) {
            Some((part, why)) => format!("{why}\n{}", print(&part)),
            None => format!("{why}\n{}", print(&graph)),
        })
    });
}

/// Programs are worth running only if they hold what there is to get wrong.
#[test]
fn random_programs_reach_every_operator() {
    let mut seen = BTreeSet::new();
    for seed in 0..count() {
        let graph = generate::program(seed, STEPS[seed as usize % STEPS.len()]);
        let fused = salient::optimise(&graph, &Options::default()).graph;
        for id in fused.ids() {
            seen.insert(match fused.op(id) {
                Op::Map(op) => op.info().name,
                Op::Reduce(op, _) => op.info().name,
                Op::Fused(op, _) => op.info().name,
                Op::At(_) => "at",
                Op::Concat(..) => "concat",
                Op::CumSum(_) => "cumsum",
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => continue,
            });
        }
    }
    let wanted = [
        "at", "concat", "cumsum", "sum", "max", "min", "argmax", "softmax", "attend", "int_div", "mod",
        "select", "and", "or", "not",
    ];
    let missing: Vec<_> = wanted.iter().filter(|w| !seen.contains(*w)).collect();
    assert!(missing.is_empty(), "no program has {missing:?}; there are {seen:?}");
}
