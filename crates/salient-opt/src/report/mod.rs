//! What a user may ask of an optimised graph: which rules led to each fused operator, what was not proved, and what norms and
//! activations it has. It explains the result and changes nothing.

pub(crate) mod certificate;
pub(crate) mod named;
pub(crate) mod walk;

use crate::blocks::join::{Joined, JoinedFrom};
use crate::egraph::{Searched, saturate::Stop};
use crate::rules::{self, Rule};
use certificate::{Certificate, Miss, certify};
use named::{Named, named};
use salient_ir::Graph;

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
    /// Norms and activations that have a name.
    pub named: Vec<Named>,
    /// The chains of equal blocks in the model, each of which was optimised as one block.
    pub repeated: Vec<Repeated>,
}

/// A chain of equal blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// What the paths of their parameters have in common, before the number of the block.
    pub path: String,
    /// How many there are.
    pub times: usize,
}

impl Report {
    /// The report of a graph that was optimised as a whole: `graph` is what the passes after the e-graph made of it.
    pub(crate) fn new(graph: &Graph, searched: &Searched, rules: &[Rule]) -> Report {
        let classes = &searched.classes;
        let (certificates, misses) = certify(graph, searched, rules);
        let mut counts = vec![0; rules.len()];
        classes.analysis.applied.iter().for_each(|a| counts[a.rule] += 1);
        let used = rules.iter().zip(counts).filter(|(_, n)| *n > 0);
        Report {
            rules: used.map(|(rule, n)| (rule.row.name, n)).collect(),
            iterations: searched.iterations,
            nodes: classes.total_size(),
            classes: classes.number_of_classes(),
            stop: searched.stop,
            certificates,
            misses,
            named: named(graph),
            repeated: Vec::new(),
        }
    }

    /// The report of a graph that was put together; each certificate is there for every block.
    pub(crate) fn of_parts(block: &Report, around: &Report, joined: &Joined, repeated: Repeated) -> Report {
        let mut rules = around.rules.clone();
        for (name, n) in &block.rules {
            match rules.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += n,
                None => rules.push((name, *n)),
            }
        }
        let order: Vec<&str> = rules::all_rules().map(|row| row.name).collect();
        rules.sort_by_key(|(name, _)| order.iter().position(|known| known == name));
        let (mut certificates, mut misses, mut named) = (Vec::new(), Vec::new(), Vec::new());
        for (at, origin) in joined.graph.ids().zip(&joined.origins) {
            let (report, node, number) = match origin {
                Some(JoinedFrom::Around(id)) => (around, *id, None),
                Some(JoinedFrom::Block(number, id)) => (block, *id, Some(*number)),
                None => continue,
            };
            let certificate = report.certificates.iter().find(|c| c.node == node);
            let within = |block: Option<usize>| number.or(block);
            certificates.extend(certificate.map(|c| Certificate {
                node: at,
                block: within(c.block),
                ..c.clone()
            }));
            let miss = report.misses.iter().find(|m| m.node == node);
            misses.extend(miss.map(|m| Miss { node: at, block: within(m.block), ..m.clone() }));
            let form = report.named.iter().find(|f| f.node == node);
            named.extend(form.map(|f| Named { node: at, block: within(f.block), ..f.clone() }));
        }
        Report {
            rules,
            iterations: block.iterations.max(around.iterations),
            nodes: block.nodes + around.nodes,
            classes: block.classes + around.classes,
            stop: block.stop.max(around.stop),
            certificates,
            misses,
            named,
            repeated: around.repeated.iter().cloned().chain([repeated]).collect(),
        }
    }
}
