//! What becomes of each example: its graph, its fused graph and its kernels, to be read in review.

use salient::{Isa, IsaChoice, Options, PASSES, Sources, Stage, Timings, lower, print_after, print_stage};
use salient_tests::examples::{self, Example, is_published, is_training, settings};
use salient_tests::snapshot;
use std::fmt::Write;

/// Examples of which the loops are shown, one for each kind of kernel: element by element, rows with what is held of them, a
/// running sum, a softmax of rows, a table, a product, products of the same rows, and attentions in tiles, split over keys,
/// split for heads in groups, with a mask that is probed, with the cache of a model.
const LOOPS: [&str; 11] = [
    "bench/rows/activation",
    "bench/rows/norm",
    "bench/rows/running",
    "bench/rows/weights",
    "bench/rows/lookup",
    "bench/product",
    "seeds/001_self_attention_v2",
    "variants/attention_sink",
    "variants/grouped_heads",
    "variants/document_mask",
    "models/gpt2/gpt2",
];

/// The stages that are shown of an example; of a published model or a step of training, which is long, what it comes to.
fn shown(name: &str) -> Vec<Stage> {
    let is_long = is_published(name) || is_training(name);
    let before: &[Stage] = if is_long { &[] } else { &[Stage::Graph, Stage::Fused] };
    let loops = LOOPS.contains(&name).then_some(Stage::Kernels);
    before.iter().copied().chain([Stage::Plan]).chain(loops).collect()
}

#[test]
fn examples_become_what_was_reviewed() {
    examples::each(|example| {
        let (name, sources) = (&example.name, example.sources()?);
        for stage in shown(name) {
            // The portable vectors: snapshots must not depend on the machine.
            let isa = IsaChoice::Only(Isa::Baseline);
            // The layers of a model are equal: a plan shows them once.
            let set = if stage == Stage::Plan { Vec::new() } else { settings(name) };
            let options = Options { isa, set, ..example.options() };
            let text =
                print_stage(&sources, stage, &options, &mut Timings::default()).map_err(|e| e.to_string())?;
            snapshot::assert("examples", &format!("{name}/{stage}"), &text);
        }
        Ok(())
    });
}

#[test]
fn every_snapshot_belongs_to_an_example() {
    let of = |example: Example| {
        let name = example.name;
        shown(&name).into_iter().map(|stage| format!("{name}/{stage}")).collect::<Vec<_>>()
    };
    let names = examples::examples().into_iter().flat_map(of);
    snapshot::assert_all_referenced("examples", names);
}

/// A plan is read at once: of most examples within thirty lines, of the largest model within 120, of a step of training within 700.
#[test]
fn plans_are_short() {
    let lengths = |example: Example| {
        let sources = example.sources().expect("it is there");
        let options = Options { isa: IsaChoice::Only(Isa::Baseline), ..example.options() };
        let plan =
            print_stage(&sources, Stage::Plan, &options, &mut Timings::default()).expect("it compiles");
        (plan.lines().count(), example.name)
    };
    let mut lengths: Vec<(usize, String)> = examples::examples().into_iter().map(lengths).collect();
    lengths.sort();
    let median = &lengths[lengths.len() / 2];
    // A step of training has states and kernels for each parameter, and no block of it is equal to another yet.
    let (trains, others): (Vec<_>, Vec<_>) = lengths.iter().partition(|(_, name)| is_training(name));
    let most = |of: Vec<&(usize, String)>| of.last().map_or(0, |(length, _)| *length);
    assert!(median.0 <= 30, "median {median:?}");
    assert!(most(others) <= 120 && most(trains) <= 700, "{lengths:?}");
}

/// Heads one after the other, weights that no softmax makes, and a softmax of which the columns are summed: most passes have
/// something to do.
const HEADS: &str = "
block head[E](x: f32[T, D]) -> f32[T, E] {
    let q = linear[E, bias = false](x) as query
    let k = linear[E, bias = false](x) as key
    let v = linear[E, bias = false](x) as value
    return relu(q @ k.T) @ v
}

model heads[H = 2, E = 4](x: f32[T, D], other: f32[T, E]) -> (y: f32[T, D], seen: f32[T]) {
    let heads = concat(head[E](x) as heads.{h} for h in 0..H)
    let weights = softmax(other @ other.T)
    let seen[j: T] = sum[i](weights[i, j])
    return linear[D, bias = false](heads) as out, seen
}
";

#[test]
fn a_small_attention_is_shown_after_each_pass() {
    let mut sources = Sources::new();
    sources.add("heads.attn", HEADS);
    let options = Options::default();
    let (mut shown, mut last) = (String::new(), String::new());
    for pass in PASSES {
        let text = print_after(&sources, pass, &options, &mut Timings::default()).expect("it compiles");
        let now = if text == last { "as before\n" } else { &text };
        write!(shown, "# {}: {}\n{now}\n", pass.name, pass.purpose).expect("a string takes it");
        last = text;
    }
    snapshot::assert("passes", "heads", &shown);
    snapshot::assert_all_referenced("passes", ["heads".to_owned()]);
    let fused = print_stage(&sources, Stage::Fused, &options, &mut Timings::default());
    assert_eq!(last, fused.expect("it compiles"));
}

/// Equal blocks are optimised as one; between any two passes what became of it and of the rest fits together.
#[test]
fn every_example_is_one_graph_after_each_pass() {
    examples::each(|example| {
        let graph = lower(&example.sources()?, &example.options()).map_err(|e| e.to_string())?.graph;
        for (pass, graphs) in salient_opt::trace(&graph, &salient_opt::Options::default()) {
            if graphs.len() != 1 {
                return Err(format!("{} graphs after {}", graphs.len(), pass.name));
            }
        }
        Ok(())
    });
}
