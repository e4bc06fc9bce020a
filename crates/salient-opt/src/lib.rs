//! A graph to a cheaper equal graph, by equality saturation.
//!
//! [`optimise`] is the whole of it: canonical axes, sharing up to renaming, normal forms, saturation, extraction, and
//! back to a graph, with a report of what happened. Which kernels the result becomes is not decided here.

mod axes;
mod batch;
mod certificate;
mod cost;
mod extract;
mod facts;
mod heads;
mod index;
mod join;
mod lang;
mod merge;
mod normalise;
pub mod rules;
mod saturate;
mod share;
#[cfg(test)]
mod soundness;
mod tidy;

pub use certificate::{Certificate, Miss};
pub use facts::Property;
pub use saturate::{Fp, Stop};

use salient_ir::{Graph, NodeId};
use std::collections::HashMap;

/// How to optimise. Limits are counts, so that the same model gives the same result everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Freedom with floats.
    pub fp: Fp,
    /// E-nodes above which no further rule is applied. A small graph has a smaller limit: see [`Report::stop`].
    pub node_limit: usize,
    /// Rounds of saturation.
    pub iteration_limit: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { fp: Fp::Default, node_limit: 200_000, iteration_limit: 40 }
    }
}

/// What optimising did.
#[derive(Clone, Debug)]
pub struct Report {
    /// How often each rule changed something, in the order of the tables; rules that did nothing are left out.
    pub rules: Vec<(&'static str, usize)>,
    /// Rounds of saturation.
    pub iterations: usize,
    /// E-nodes at the end.
    pub nodes: usize,
    /// Classes at the end.
    pub classes: usize,
    /// Why saturation ended. Beside the limits of the options there is one by the size of the graph, which only programs
    /// meet that multiply by themselves, or by what turns out to be zero, over and over.
    pub stop: Stop,
    /// How each fused operator came about.
    pub certificates: Vec<Certificate>,
    /// Sums of weighted values that stayed apart from their weights.
    pub misses: Vec<Miss>,
}

/// A graph with the report of how it came about.
#[derive(Clone, Debug)]
pub struct Optimised {
    /// The graph: the same inputs, parameters, outputs and requirements, over canonical axes.
    pub graph: Graph,
    /// What happened.
    pub report: Report,
}

/// The best equal graph that the rules and the limits reach. The same graph gives the same result on every run, and
/// graphs that spell the same mathematics differently give the same graph where the rules can see it.
pub fn optimise(graph: &Graph, options: &Options) -> Optimised {
    run(saturate::all_rules(options.fp), graph, options)
}

/// As [`optimise`], with the given rules only: for tests of single rules and families.
pub fn optimise_with<'a>(
    rows: impl Iterator<Item = &'a rules::Row>,
    graph: &Graph,
    options: &Options,
) -> Optimised {
    run(&saturate::rule_set(rows, options.fp), graph, options)
}

/// E-nodes that any graph may grow to.
const SMALLEST_LIMIT: usize = 2_000;
/// E-nodes for each node of the graph above that. Models of all kinds saturate at two to four.
const GROWTH: usize = 30;

fn run(rules: &[rules::Rule], graph: &Graph, options: &Options) -> Optimised {
    let source = share::share(&axes::canonicalise(&heads::heads(&batch::batch(graph))));
    let mut classes = normalise::Classes::new(facts::Known::of(&source));
    let ids = normalise::insert(&source, &mut classes, options.fp);
    let roots: Vec<egg::Id> = source.outputs().iter().map(|o| ids[o.node.index()]).collect();
    let node_limit = options.node_limit.min(SMALLEST_LIMIT + GROWTH * source.len());
    let (stop, iterations) = saturate::saturate(&mut classes, rules, &Options { node_limit, ..*options });
    let choice = extract::extract(&classes, &source);
    let (tidied, class_of): (Graph, HashMap<NodeId, egg::Id>) =
        tidy::rebuild(&source, &classes, &choice, &roots);
    let (graph, moved) = merge::merge_sums(&tidied);
    let class_of =
        class_of.into_iter().filter_map(|(old, class)| Some((moved[old.index()]?, class))).collect();
    let (certificates, misses) = certificate::certify(&graph, &class_of, &classes, rules);
    let mut counts = vec![0; rules.len()];
    classes.analysis.applied.iter().for_each(|a| counts[a.rule] += 1);
    let rules = rules.iter().zip(counts).filter(|(_, n)| *n > 0).map(|(r, n)| (r.row.name, n)).collect();
    let (nodes, classes) = (classes.total_size(), classes.number_of_classes());
    let report = Report { rules, iterations, nodes, classes, stop, certificates, misses };
    Optimised { graph, report }
}
