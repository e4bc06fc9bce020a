//! Equality saturation: a graph becomes classes of equal terms, the rules add what is equal until nothing is new, and the
//! cheapest term of each class becomes a graph again.
//!
//! In this order: [`normalise`] (terms in one form), [`saturate`] (the rules of [`crate::rules`]; [`associate`] joins what
//! is equal by associativity), [`extract`] (by [`cost`]) and [`raise`] (terms to a graph).

mod associate;
mod cost;
mod extract;
pub(crate) mod normalise;
mod raise;
pub(crate) mod saturate;

use crate::facts::{Classes, Known, Property};
use crate::graph::border::Border;
use crate::graph::demanded::DemandedRead;
use crate::options::Options;
use crate::rules::Rule;
use egg::Id;
use raise::Raised;
use salient_ir::{DType, Graph, NodeId};
use saturate::Stop;
use std::collections::HashMap;

/// What the e-graph knows of the graph that was extracted from it.
pub(crate) struct Searched {
    /// The class of each node of the graph that has one.
    pub(crate) class_of: HashMap<NodeId, Id>,
    /// The e-graph, with the record of what the rules did.
    pub(crate) classes: Classes,
    /// The classes of the outputs.
    roots: Vec<Id>,
    /// Why saturation ended.
    pub(crate) stop: Stop,
    /// Rounds of saturation.
    pub(crate) iterations: usize,
    /// The graph that the e-graph was filled with, where a walk is asked for.
    pub(crate) source: Option<Graph>,
}

/// E-nodes that any graph may grow to.
const SMALLEST_LIMIT: usize = 2_000;
/// E-nodes for each node of the graph above that. Models of all kinds saturate at two to four.
const GROWTH: usize = 30;

/// The cheapest equal graph that the rules and the limits reach. `border` says what is known of its inputs, `demanded` are the
/// reads that are made in any case. With it comes what the e-graph knows.
pub(crate) fn search(
    source: &Graph,
    rules: &[Rule],
    options: &Options,
    border: &Border,
    demanded: &[DemandedRead],
) -> (Graph, Searched) {
    let (unsure, computed) = (border.unsure.clone(), border.computed.clone());
    let known = Known { fp: options.fp, unsure, computed, ..Known::of(source) };
    let mut classes = Classes::new(known);
    let ids = normalise::insert(source, &mut classes, options.fp, demanded);
    let roots: Vec<Id> = source.outputs().iter().map(|o| ids[o.node.index()]).collect();
    let node_limit = options.node_limit.min(SMALLEST_LIMIT + GROWTH * source.len());
    let options = &Options { node_limit, ..*options };
    let (stop, iterations) = without_clock(|| saturate::saturate(&mut classes, rules, options));
    let choice = extract::extract(&classes, source);
    let Raised { graph, class_of } = raise::raise(source, &classes, &choice, &roots);
    let source = options.walk.then(|| source.clone());
    (graph, Searched { class_of, classes, roots, stop, iterations, source })
}

/// Runs code with a clock that stands still. egg times its steps for a log that nobody reads, by a clock whose first use
/// calibrates it for up to 200 ms.
fn without_clock<T>(code: impl FnOnce() -> T) -> T {
    let (still, _) = quanta::Clock::mock();
    quanta::with_clock(&still, code)
}

impl Searched {
    /// Of each output whether it is finite.
    pub(crate) fn finite(&self) -> Vec<bool> {
        let finite = |root: &Id| {
            let facts = &self.classes[*root].data;
            facts.dtype != DType::F32 || facts.has(Property::Finite).is_some()
        };
        self.roots.iter().map(finite).collect()
    }

    /// The same after a pass, which moved the nodes.
    pub(crate) fn follow(&mut self, moved: &[Option<NodeId>]) {
        let classes = std::mem::take(&mut self.class_of).into_iter();
        self.class_of = classes.filter_map(|(old, class)| Some((moved[old.index()]?, class))).collect();
    }
}
