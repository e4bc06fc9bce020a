//! A plan from its text: `print(read(print(p))) = print(p)`.
//!
//! The text is two things. Its expressions are a flat program of the language, which the front end reads as it reads any
//! other ([`PlanText::program`]); that gives the graph. The words around them say which values are stored, in which order and
//! layout, by which kernels and in which forms: choices, from which the steps of the planner make the plan. What follows from
//! the choices is not taken from the text but compared with it: a plan that does not print as it was written is refused, with
//! the line and what it would have to say. So are plans with [faults](crate::verify::plan).
//!
//! Sizes of tiles are not in the text, and are given by the caller.

pub(crate) mod choices;
mod graph;
mod lines;
mod program;

use super::blocks::Blocks;
use super::{Labels, Parts, print_blocks};
use crate::defined;
use crate::plan::materialise::Choices;
use crate::plan::{Options, Plan, decide, order};
use crate::tiling::Tiling;
use crate::verify;
use choices::{choices, products_elsewhere};
use graph::{Found, Values};
use lines::Document;
use program::Translation;
use salient_ir::quantised::Coding;
use salient_ir::{Graph, NodeId};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with the text of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The line, counted from one.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {} of the plan: {}", self.line, self.what)
    }
}

impl std::error::Error for ReadError {}

/// An error at a line.
fn error<T>(line: usize, what: impl Into<String>) -> Result<T, ReadError> {
    Err(ReadError { line, what: what.into() })
}

/// The text of a plan, taken apart.
#[derive(Clone, Debug)]
pub struct PlanText {
    text: String,
    document: Document,
    translation: Translation,
}

/// A plan that was read, with the graph that it is of.
#[derive(Clone, Debug)]
pub struct ReadPlan {
    graph: Graph,
    names: Vec<Option<String>>,
    parts: Parts,
    labels: Labels,
    blocks: Vec<Blocks>,
    coded: BTreeMap<usize, Coding>,
    choices: Choices,
    tiling: Tiling,
    keeps_order: bool,
}

impl PlanText {
    /// Takes a text apart.
    ///
    /// # Errors
    /// [`ReadError`] if a line is none of a plan.
    pub fn parse(text: &str) -> Result<PlanText, ReadError> {
        let document = lines::parse(text)?;
        let translation = program::translate(&document)?;
        Ok(PlanText { text: text.to_owned(), document, translation })
    }

    /// The expressions as a program of the language, which returns every value that has a name.
    pub fn program(&self) -> &str {
        &self.translation.program
    }

    /// The line of the plan from which a line of the program is made; both are counted from one.
    pub fn line_of(&self, line: usize) -> usize {
        let lines = &self.translation.lines;
        lines.get(line.saturating_sub(1)).or(lines.last()).copied().unwrap_or(1)
    }

    /// The plan; `graph` is what the front end makes of [the program](PlanText::program).
    ///
    /// # Errors
    /// [`ReadError`] if the text says what cannot be, or not what the plan comes to.
    pub fn read(&self, graph: &Graph, tiling: Tiling) -> Result<ReadPlan, ReadError> {
        let read = self.of(&Values::of(&self.document, &self.translation, graph)?, tiling)?;
        let plan = read.plan();
        same_text(&self.text, &read.print(&plan))?;
        let faults = verify::plan::verify(&plan).into_iter().map(|fault| fault.to_string());
        match faults.chain(products_elsewhere(&plan)).next() {
            Some(fault) => error(1, fault),
            None => Ok(read),
        }
    }

    /// The plan of the values, not yet compared with the text.
    fn of(&self, values: &Values<'_>, tiling: Tiling) -> Result<ReadPlan, ReadError> {
        let Found { graph, names, stored, homes, parts, labels, coded } = values.graph(&self.document)?;
        let choices = choices(&self.document, &graph, &stored, &homes)?;
        let blocks = self.blocks(&stored, &names);
        let keeps_order = self.document.keeps_order;
        Ok(ReadPlan { graph, names, parts, labels, blocks, coded, choices, tiling, keeps_order })
    }

    /// The blocks of the text, with the nodes that their kernels store.
    fn blocks(&self, stored: &[NodeId], names: &[Option<String>]) -> Vec<Blocks> {
        let mut out: Vec<Blocks> = Vec::new();
        for chain in &self.document.chains {
            out.push(Blocks { chain: chain.clone(), nodes: Vec::new() });
        }
        // A part that is the same value in every block belongs to none: it has the name that it has in the first one.
        let known: BTreeSet<&str> = names.iter().flatten().map(String::as_str).collect();
        for kernel in &self.document.kernels {
            let Some((chain, _)) = kernel.of else { continue };
            for part in kernel.parts.iter().filter(|part| !known.contains(part.name.as_str())) {
                let base = part.name.split('@').next().unwrap_or(&part.name);
                out[chain].chain.own.remove(base);
            }
        }
        for (kernel, node) in self.document.kernels.iter().zip(stored) {
            let Some((chain, block)) = kernel.of else { continue };
            let at = block - out[chain].chain.first;
            let nodes = &mut out[chain].nodes;
            nodes.resize(nodes.len().max(at + 1), BTreeSet::new());
            if kernel.form.is_none() {
                nodes[at].insert(*node);
            }
        }
        out
    }
}

/// Refuses a plan that does not print as it was written: the first line that differs.
fn same_text(written: &str, printed: &str) -> Result<(), ReadError> {
    let mut others = printed.trim_end().lines();
    for (at, line) in written.trim_end().lines().enumerate() {
        match others.next() {
            Some(other) if other == line => {}
            Some(other) => return error(at + 1, format!("the plan comes to `{}` here", other.trim())),
            None => return error(at + 1, "the plan ends before this line"),
        }
    }
    match others.next() {
        None => Ok(()),
        Some(other) => error(written.lines().count(), format!("the plan goes on with `{}`", other.trim())),
    }
}

impl ReadPlan {
    /// The graph of the plan.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The plan as the planner holds it.
    pub fn plan(&self) -> Plan<'_> {
        let ReadPlan { graph, choices, coded, .. } = self;
        let keeps_order = self.keeps_order;
        let options = Options { fuse: true, tiling: self.tiling, keeps_order, coded, chains: &[] };
        let defined = defined::known(graph);
        let decided = decide::decide(graph, &defined, &self.names, options, Some(choices));
        let decide::Decided { sources, mut buffers, steps, kernels, appends } = decided;
        let joins = |a: usize, b: usize| choices.are_joint(kernels[a].node, kernels[b].node);
        let (order, loads) = order::order(graph, &mut buffers, &kernels, joins);
        let (graph, names) = (Cow::Borrowed(graph), self.names.clone());
        Plan { graph, defined, names, options, sources, buffers, steps, kernels, order, loads, appends }
    }

    /// The text of the plan.
    pub fn print(&self, plan: &Plan<'_>) -> String {
        print_blocks(plan, &self.labels, self.names.clone(), (&self.blocks, Some(&self.parts)))
    }
}
