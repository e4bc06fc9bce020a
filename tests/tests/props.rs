//! Random programs through the whole pipeline: whatever is made of one, it has the values that are written. Long runs are
//! those of `cargo run --release -p salient-tests --bin soak`.

use salient::{Engine, Fp, IsaChoice, Options};
use salient_ir::Op;
use salient_tests::fuzz::{TARGETS, mutate::mutant};
use salient_tests::generate::{self, Data};
use salient_tests::trial::{Report, Trial, Way, all_ways, describe, some_ways, ways_of_forms};
use salient_tests::{soak, sweep};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// How many programs; `PROGRAMS` in the environment asks for more.
fn count() -> u64 {
    std::env::var("PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(240)
}

/// Attempts at making a failure smaller.
const TRIES: usize = 60;

fn seeds(count: u64) -> Vec<String> {
    (0..count).map(|seed| format!("seed {seed}")).collect()
}

fn number(name: &str) -> u64 {
    name.trim_start_matches("seed ").parse().expect("made above")
}

/// Runs the programs of so many seeds; gives what they came to.
fn run(count: u64, data: Data) -> Report {
    let report = Mutex::new(Report::default());
    sweep::each(&seeds(count), |name| {
        let seed = number(name);
        let found = soak::run(seed, data, &some_ways(seed), TRIES).map_err(|found| found.text)?;
        report.lock().expect("no check holds it").add(found);
        Ok(())
    });
    report.into_inner().expect("no check holds it")
}

#[test]
fn random_programs_have_the_values_that_are_written() {
    let report = run(count(), Data::Tame);
    // A judge that lets everything pass judges nothing.
    assert!(report.free * 20 < report.judged, "{report:?}");
    assert!(report.ran > report.refused + report.open, "{report:?}");
}

#[test]
fn random_programs_agree_on_hostile_data() {
    let report = run(count() / 3, Data::Hostile);
    assert!(report.judged > report.free, "{report:?}");
}

/// All ways of running a program rather than three of them.
#[test]
fn random_programs_agree_in_all_ways() {
    let ways = all_ways();
    sweep::each(&seeds(count() / 16), |name| {
        soak::run(number(name) + 1000, Data::Tame, &ways, TRIES).map(|_| ()).map_err(|found| found.text)
    });
}

/// Every form of plan is right, not only the cheapest, which users get.
#[test]
fn random_attentions_agree_in_every_form_of_plan() {
    sweep::each(&seeds(count() / 4), |name| {
        let seed = number(name);
        let graph = generate::attention(seed);
        let sizes = [seed as usize, seed as usize + 5].map(|n| generate::sizes(&graph, n)).to_vec();
        let trial = Trial { graph, seed, sizes, data: Data::Tame };
        trial.check(&ways_of_forms()).map(|_| ()).map_err(|failure| describe(&trial, &failure))
    });
}

/// Programs are worth running only if they hold what there is to get wrong.
#[test]
fn random_programs_reach_every_operator() {
    let mut seen = BTreeSet::new();
    for seed in 0..4 * count() {
        let graph = generate::program(seed, 4 + seed as usize % 24);
        let fused = salient::optimise(&graph, &Options::default()).graph;
        let ops = [&graph, &fused].into_iter().flat_map(|g| g.ids().map(|id| g.op(id)));
        for op in ops {
            seen.insert(match op {
                Op::Map(op) => op.info().name,
                Op::Reduce(op, _) => op.info().name,
                Op::Fused(op, _) => op.info().name,
                Op::At(_) => "at",
                Op::Concat(..) => "concat",
                Op::CumSum(..) => "cumsum",
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => continue,
            });
        }
    }
    let wanted = [
        "at", "concat", "cumsum", "sum", "prod", "max", "min", "any", "all", "argmax", "softmax", "attend",
        "int_div", "mod", "select", "and", "or", "not", "pow", "log", "floor", "lt", "le", "eq",
    ];
    let missing: Vec<_> = wanted.iter().filter(|w| !seen.contains(*w)).collect();
    assert!(missing.is_empty(), "no program has {missing:?}; there are {seen:?}");
}

/// The judge tells wrong results from right ones: of a program with one operator changed it says so for most.
#[test]
fn the_judge_tells_wrong_programs_from_right_ones() {
    let way = Way { engine: Engine::Unfused, fp: Fp::Default, isa: IsaChoice::Auto, threads: 1, form: None };
    let (mut wrong, mut told) = (0, 0);
    for seed in 0..30 {
        let graph = generate::program(seed, 6);
        let Some(changed) = generate::changed(&graph) else { continue };
        let sizes = vec![generate::sizes(&graph, 2)];
        let right = Trial { graph, seed, sizes, data: Data::Tame };
        let outputs = right.outputs(way);
        let other = Trial { graph: changed, ..right.clone() };
        if outputs == other.outputs(way) {
            continue;
        }
        wrong += 1;
        told += usize::from(right.judged(other.outputs(way).as_deref()).is_err());
    }
    assert!(wrong >= 8, "{wrong} changes make a difference");
    assert!(told * 10 >= wrong * 9, "{told} of {wrong} are told");
}

/// A few mutants of each kind of input that others give: long runs are those of `salient-tests --bin fuzz`.
#[test]
fn changed_inputs_are_refused_and_nothing_worse() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} begins from something", target.name);
        let names: Vec<String> = (0..40).map(|n| format!("{} {n}", target.name)).collect();
        for (n, name) in names.iter().enumerate() {
            let bytes = mutant(&seeds, target.manner, n as u64);
            sweep::each(std::slice::from_ref(name), |_| {
                (target.run)(&bytes);
                Ok(())
            });
        }
    }
}
