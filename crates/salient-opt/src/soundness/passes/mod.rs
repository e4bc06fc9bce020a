//! Each pass alone: the graph after it agrees with the graph before it, on random attentions and on hostile data, in the sense
//! that its row of the table says. Deliberately wrong versions of each pass are caught.
//!
//! A pass is tried on random graphs as they are, and on what the passes before it make of them.

mod data;
mod graphs;
#[path = "../../../tests/common/model.rs"]
mod model;
#[path = "../../../tests/common/program.rs"]
mod program;
mod wrong;

use super::agrees;
use crate::facts::SENTINEL;
use crate::graph::digest::digests;
use crate::options::{Fp, Options};
use crate::passes::{PASSES, Pass};
use crate::pipeline::alone;
use crate::rules::Holds;
use data::{Arrays, DataKind, SIZES, arrays, has_sentinel};
use graphs::random_graph;
use salient_ir::eval::{Data, Oracle};
use salient_ir::{AxisId, Bindings, Graph, NodeId, Op, Output, text};
use std::cell::LazyCell;
use std::collections::BTreeSet;

/// Random graphs on which each pass is tried.
const GRAPHS: u64 = 1000;

/// A pass that is tried, or a wrong version of one.
struct PassTrial<'a> {
    pass: &'a Pass,
    fp: Fp,
    run: &'a dyn Fn(&Graph) -> Graph,
}

impl PassTrial<'_> {
    fn options(&self) -> Options {
        Options { fp: self.fp, ..Options::default() }
    }

    /// In what sense values must be the same.
    fn holds(&self) -> Holds {
        match self.fp {
            Fp::Default => self.pass.holds,
            // The terms of a reduction are added in any order; nothing else may differ.
            Fp::Strict => self.pass.holds.min(Holds::Rounding),
        }
    }

    /// A random graph, every second time as the passes before make it.
    fn graph(&self, seed: u64) -> Graph {
        let graph = random_graph(seed / 2);
        if seed.is_multiple_of(2) {
            return graph;
        }
        let before = PASSES.iter().take_while(|pass| pass.name != self.pass.name);
        let before = before.filter(|pass| pass.runs_in(self.fp));
        before.fold(graph, |graph, pass| alone(pass, &graph, &self.options()))
    }

    /// On how many graphs the pass does something; an error says on what graph and data the values differ.
    fn outcome(&self) -> Result<usize, String> {
        let mut changed = 0;
        for seed in 0..GRAPHS {
            let before = self.graph(seed);
            let after = (self.run)(&before);
            // Views of views are one list of indices in the text, however they are put together.
            if text::print(&after) == text::print(&before) && digests(&after) == digests(&before) {
                continue;
            }
            changed += 1;
            self.compare(&before, &after, seed).map_err(|fault| {
                let (before, after) = (text::print(&before), text::print(&after));
                format!("{}, graph {seed}: {fault}\n{before}\nbecame\n{after}", self.pass.name)
            })?;
        }
        Ok(changed)
    }

    fn compare(&self, before: &Graph, after: &Graph, seed: u64) -> Result<(), String> {
        for kind in DataKind::ALL {
            // NaN and infinities in factors may make NaN of what depends on them, in the default mode.
            if kind == DataKind::NotFinite && self.holds() == Holds::Refining {
                continue;
            }
            let sizes: &[_] = if kind == DataKind::Ordinary { &SIZES } else { &SIZES[..1] };
            for sizes in sizes {
                let bindings: Bindings = sizes.iter().map(|(name, n)| ((*name).into(), *n)).collect();
                let arrays = arrays(before, &bindings, kind, seed);
                self.compare_on(before, after, &bindings, &arrays)
                    .map_err(|fault| format!("{fault}, on {kind:?} at {sizes:?}"))?;
            }
        }
        Ok(())
    }

    fn compare_on(
        &self,
        before: &Graph,
        after: &Graph,
        sizes: &Bindings,
        arrays: &Arrays,
    ) -> Result<(), String> {
        let data = Data { inputs: &arrays.inputs, params: &arrays.params };
        let oracle = |g| Oracle::new(g, sizes, data).map_err(|fault| fault.to_string());
        let (old, new) = (oracle(before)?, oracle(after)?);
        let (was, is) = match (outputs(before, &old), outputs(after, &new)) {
            (Ok(was), Ok(is)) => (was, is),
            (Err(_), Err(_)) => return Ok(()),
            (Ok(_), Err(refusal)) => return Err(format!("refused: {refusal}")),
            // Compiled code checks the reads of values that such an operator leaves out.
            (Err(_), Ok(_)) if leaving_values_out(after) > leaving_values_out(before) => return Ok(()),
            (Err(refusal), Ok(_)) => return Err(format!("no longer refused: {refusal}")),
        };
        for (output, (was, is)) in before.outputs().iter().zip(was.iter().zip(&is)) {
            let name = &output.name;
            // What cancels loses digits at the scale of what it is made of.
            let made_of = LazyCell::new(|| Magnitudes::of(before, &old, output.node));
            if was.len() != is.len() {
                return Err(format!("{name} has another shape"));
            }
            let scale = was.iter().filter(|x| x.is_finite()).fold(1e-6f64, |most, x| most.max(x.abs()));
            for (was, is) in was.iter().zip(is) {
                // Of what is NaN or +inf as written anything may be made.
                let mended = self.holds() == Holds::Refining && !was.is_finite() && *was != f64::NEG_INFINITY;
                let agrees = |scale| agrees(self.holds(), *was, *is, scale);
                if !mended && !agrees(scale) && !agrees(made_of.numbers) && !made_of.rounds(*was, *is) {
                    return Err(format!("{name}: {was} became {is}"));
                }
            }
        }
        Ok(())
    }
}

/// How many operators a graph has of which the oracle does not look at values that are masked.
fn leaving_values_out(g: &Graph) -> usize {
    g.ids().filter(|id| matches!(g.op(*id), Op::Fused(op, _) if op.info().has_values())).count()
}

/// The values of every output.
fn outputs(g: &Graph, oracle: &Oracle<'_>) -> Result<Vec<Vec<f64>>, String> {
    let values = |output: &Output| oracle.tensor(output.node, &output.axes).map_err(|e| e.to_string());
    g.outputs().iter().map(values).collect()
}

/// The greatest magnitudes of what a value is made of.
struct Magnitudes {
    /// Of finite numbers, sentinels and what holds one not counted.
    numbers: f64,
    /// Of all that is finite.
    all: f64,
}

impl Magnitudes {
    fn of(g: &Graph, oracle: &Oracle<'_>, value: NodeId) -> Magnitudes {
        let mut made_of = Magnitudes { numbers: 0.0, all: 0.0 };
        let (mut seen, mut stack) = (BTreeSet::new(), vec![value]);
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            stack.extend(g.args(id));
            let axes: Vec<AxisId> = g.node(id).axes.iter().collect();
            let values = if g.node(id).dtype.is_float() { oracle.tensor(id, &axes).ok() } else { None };
            for x in values.into_iter().flatten().filter(|x| x.is_finite()) {
                made_of.all = made_of.all.max(x.abs());
                if !has_sentinel(g) || x.abs() < -SENTINEL {
                    made_of.numbers = made_of.numbers.max(x.abs());
                }
            }
        }
        made_of
    }

    /// Whether the values differ by the rounding of a sentinel and of what is added to it.
    fn rounds(&self, was: f64, is: f64) -> bool {
        (was - is).abs() <= 16.0 * f64::EPSILON * self.all
    }
}

/// Tries a pass of the table in every mode in which it runs.
fn keeps_values(name: &str) {
    let pass = Pass::named(name).expect("a pass of the table");
    for fp in [Fp::Default, Fp::Strict] {
        if pass.runs_in(fp) {
            let options = Options { fp, ..Options::default() };
            let trial = PassTrial { pass, fp, run: &|g| alone(pass, g, &options) };
            let changed = trial.outcome().unwrap_or_else(|fault| panic!("{fault}"));
            assert!(changed >= 20, "{name}: {changed} of the graphs are changed");
        }
    }
}

macro_rules! passes {
    ($($test:ident: $name:literal;)*) => {
        $(#[test] fn $test() { keeps_values($name); })*

        #[test]
        fn every_pass_is_tried_alone() {
            assert_eq!(PASSES.iter().map(|pass| pass.name).collect::<Vec<_>>(), [$($name),*]);
        }
    };
}

passes! {
    batching_heads_keeps_values: "batch-heads";
    one_axis_of_heads_keeps_values: "head-axes";
    one_axis_of_keys_keeps_values: "key-axes";
    reads_of_joined_parts_keep_values: "reads-of-parts";
    columns_apart_from_scores_keep_values: "columns-apart";
    operators_before_merges_keep_values: "merges-last";
    running_sums_keep_values: "running-sums";
    indices_under_guards_keep_values: "guarded-indices";
    sums_in_place_of_running_sums_keep_values: "sums-at-the-end";
    sums_over_distances_keep_values: "sums-over-distances";
    products_with_all_distances_keep_values: "relative-products";
    canonical_axes_keep_values: "canonical-axes";
    sharing_keeps_values: "share";
    sums_over_columns_keep_values: "transposed-sums";
    nested_sums_keep_values: "nested-sums";
    sums_of_what_is_behind_keep_values: "what-is-behind";
    the_e_graph_keeps_values: "saturate";
    summing_keys_first_keeps_values: "keys-first";
    merging_sums_keeps_values: "merge-sums";
    ordering_factors_keeps_values: "order-factors";
    means_of_products_keep_values: "mean-products";
    weights_from_their_log_sum_exp_keep_values: "log-sum-exp";
    weighted_sums_in_one_pass_keep_values: "weighted-sums";
    joined_attentions_keep_values: "joined-attentions";
    one_axis_of_columns_keeps_values: "value-columns";
    values_side_by_side_keep_values: "values-together";
    one_axis_of_columns_of_parameters_keeps_values: "parameter-columns";
    masks_around_weights_keep_values: "masks-outermost";
    tables_of_distances_keep_values: "distance-tables";
    sums_over_diagonals_keep_values: "diagonal-sums";
    tables_under_one_name_keep_values: "tables";
    names_around_views_keep_values: "names-outermost";
}
