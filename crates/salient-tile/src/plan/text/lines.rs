//! Which kernels each line of a plan's text is about, and which values each kernel computes: what links one view of a model with
//! another.

use super::words::{KernelWord, OperandForm};
use super::{Labels, Printer, chains, expressions, name_outputs};
use crate::plan::{Anchor, KernelPlan, Plan};
use crate::program::kernel::BufferId;
use salient_ir::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// A kernel as it runs, with the values that it computes.
#[derive(Clone, Debug)]
pub struct Made {
    /// What the program calls it.
    pub name: String,
    /// The values of the plan's graph that it computes.
    pub nodes: BTreeSet<NodeId>,
    /// The kernel of the first of several equal blocks that it is, if it is of one of the others: its position among those
    /// that [`Plan::made`] gives.
    pub repeats: Option<usize>,
}

impl Plan<'_> {
    /// The kernels in the order in which they run, which is that of [`Plan::summary`].
    pub fn made(&self) -> Vec<Made> {
        let sets = self.sets();
        let of_set = |(at, set): (usize, &Vec<usize>)| {
            let kernels: Vec<&KernelPlan> = set.iter().map(|k| &self.kernels[*k]).collect();
            let nodes = kernels.iter().flat_map(|k| k.expression.computes.iter().copied().chain([k.node]));
            let names: Vec<&str> = kernels.iter().map(|k| self.buffers[k.buffer.0].name.as_str()).collect();
            let first = set.first().and_then(|k| sets.get(&self.first_of(*k))).copied();
            Made {
                name: names.join("+"),
                nodes: nodes.collect(),
                repeats: first.filter(|first| *first != at),
            }
        };
        self.order.iter().enumerate().map(of_set).collect()
    }

    /// For each kernel of the plan where it runs.
    fn sets(&self) -> BTreeMap<usize, usize> {
        self.order.iter().enumerate().flat_map(|(at, set)| set.iter().map(move |k| (*k, at))).collect()
    }

    /// The kernel of the first equal block that does the same.
    fn first_of(&self, kernel: usize) -> usize {
        let mut at = kernel;
        while let Some(step) = self.steps.iter().find(|step| step.kernels.contains(&at))
            && let Some(copy) = &step.copy
        {
            at = self.steps[copy.of].kernels.start + (at - step.kernels.start);
        }
        at
    }

    /// For each line of the plan's text the kernels that it is about, by their positions in [`Plan::made`]; of equal blocks
    /// those of the first.
    pub fn kernels_of_lines(&self, text: &str) -> Vec<Vec<usize>> {
        let by_name = self.kernels_by_name();
        let mut current: Vec<usize> = Vec::new();
        let kernels_of = |line: &str| {
            let line = line.trim_start();
            let line = line.strip_prefix("once ").unwrap_or(line);
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            if matches!(word, "over" | "where") {
                return current.clone();
            }
            let name = rest.split(['[', ' ']).next().unwrap_or_default();
            let is_kernel = KernelWord::ALL.iter().any(|known| known.text() == word);
            current = by_name.get(name).filter(|_| is_kernel).cloned().unwrap_or_default();
            current.clone()
        };
        text.lines().map(kernels_of).collect()
    }

    /// Where the kernels run that are printed under each name.
    fn kernels_by_name(&self) -> BTreeMap<String, Vec<usize>> {
        let mut names = self.names.clone();
        let _ = chains(self, &mut names);
        let copies: BTreeMap<BufferId, String> = name_outputs(self, &mut names);
        let labels = Labels::new();
        let printer = Printer {
            plan: self,
            labels: &labels,
            expressions: expressions(self, names),
            copies,
            chosen: None,
        };
        let sets = self.sets();
        let mut stored: BTreeSet<NodeId> = self.buffers[..self.sources].iter().map(|b| b.node).collect();
        let mut out: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for step in self.steps.iter() {
            for at in step.kernels.clone() {
                let Some(set) = sets.get(&at) else { continue };
                let k = &self.kernels[at];
                let operand = |form: OperandForm| {
                    let node = printer.below_views(k.node, &stored);
                    format!("{}~{}", printer.expressions.name(node).unwrap_or("value"), form.text())
                };
                let name = match &k.anchor {
                    Anchor::Pack(_) if !printer.is_stored_view(k.node, &stored) => {
                        operand(printer.form_of(k.buffer))
                    }
                    Anchor::Map(_) if k.buffer != step.buffer => operand(OperandForm::Rows),
                    Anchor::Map(_)
                    | Anchor::Append(_)
                    | Anchor::Alias(_)
                    | Anchor::Rows { .. }
                    | Anchor::Reduction { .. }
                    | Anchor::Columns { .. }
                    | Anchor::Scatter(_)
                    | Anchor::Gemm(_)
                    | Anchor::Pack(_)
                    | Anchor::Tiled(_)
                    | Anchor::WholeRows(_)
                    | Anchor::SplitKv(_)
                    | Anchor::Merge(_)
                    | Anchor::Beside(_)
                    | Anchor::SumParts(_) => printer.step_name(step.node, step.buffer).to_owned(),
                };
                let known = out.entry(name).or_default();
                if !known.contains(set) && step.copy.is_none() {
                    known.push(*set);
                }
            }
            stored.insert(step.node);
        }
        out
    }
}
