//! The fusion certificate: for every fused operator the rules that led to it, for every region that looks like
//! attention and stayed unfused the condition that was not proved.
//!
//! Recorded while the rules run, class by class; it explains, it is not a proof object.

use crate::egraph::Searched;
use crate::facts::{Application, Classes};
use crate::report::walk::{WalkStep, Walker};
use crate::rules::{Kind, Rule};
use egg::Id;
use salient_ir::{AxisId, FusedOp, Graph, MapOp, Name, NodeId, Op, Origin, ReduceOp};
use std::collections::{BTreeSet, HashMap, HashSet};

/// How one fused operator of the result came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The node in the optimised graph.
    pub node: NodeId,
    /// What it is.
    pub op: FusedOp,
    /// The source's name for its value.
    pub name: Option<Name>,
    /// Where that was written.
    pub origin: Option<Origin>,
    /// The rules, in the order in which they were used.
    pub rules: Vec<&'static str>,
    /// The same with what each found and put there, where [`Options::walk`](crate::Options::walk) asks for it.
    pub walk: Vec<WalkStep>,
    /// The block of a chain of equal blocks that it is in: see [`Report::repeated`](crate::Report::repeated).
    pub block: Option<usize>,
    /// Rules that would have led further, each with the condition that was not proved.
    pub not_proved: Vec<(&'static str, String)>,
}

/// A sum of weighted values that is not one pass over the keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// The sum in the optimised graph.
    pub node: NodeId,
    /// The source's name for its value.
    pub name: Option<Name>,
    /// Where that was written.
    pub origin: Option<Origin>,
    /// The block of a chain of equal blocks that it is in.
    pub block: Option<usize>,
    /// The rules that matched in the region, each with the condition that was not proved.
    pub not_proved: Vec<(&'static str, String)>,
}

/// Certificates and misses of an optimised graph, by node.
pub(crate) fn certify(g: &Graph, searched: &Searched, rules: &[Rule]) -> (Vec<Certificate>, Vec<Miss>) {
    let Searched { class_of, classes, source, .. } = searched;
    let record = Record::new(classes, rules);
    let walker = source.as_ref().map(|source| Walker { source, classes });
    let mut certificates = Vec::new();
    let mut misses = Vec::new();
    for id in g.ids() {
        let Some(class) = class_of.get(&id) else { continue };
        let node = g.node(id);
        if let Op::Fused(op, _) = node.op {
            let below = record.below(*class);
            let (name, origin) = described(g, id);
            let chain = record.chain(&below);
            let step = |(rule, used): &(&Rule, &Application)| Some(walker.as_ref()?.step(rule, used));
            certificates.push(Certificate {
                node: id,
                op,
                name,
                origin,
                walk: chain.iter().filter_map(step).collect(),
                rules: chain.iter().map(|(rule, _)| rule.row.name).collect(),
                block: None,
                not_proved: record.not_proved(&BTreeSet::from([classes.find(*class)])),
            });
        } else if let Op::Reduce(ReduceOp::Sum, axis) = node.op
            && is_weighted_sum(g, id, axis)
        {
            let around = weights(g, id, axis).into_iter().chain(scaled(g, id));
            let region = around.filter_map(|n| class_of.get(&n)).chain([class]);
            let region = region.flat_map(|c| record.below(*c)).collect();
            let (name, origin) = described(g, id);
            let not_proved = record.not_proved(&region);
            misses.push(Miss { node: id, name, origin, block: None, not_proved });
        }
    }
    (certificates, misses)
}

/// What the rules did, by class as classes are now.
struct Record<'a> {
    classes: &'a Classes,
    rules: &'a [Rule],
    /// For each class the uses of rules on it: position in the record.
    by_class: HashMap<Id, Vec<usize>>,
    /// Every rule with every class on which it changed something.
    used: HashSet<(usize, Id)>,
    /// For each class the guards that refused it: rule and guard.
    refused: HashMap<Id, BTreeSet<(usize, usize)>>,
}

impl<'a> Record<'a> {
    fn new(classes: &'a Classes, rules: &'a [Rule]) -> Record<'a> {
        let mut by_class: HashMap<Id, Vec<usize>> = HashMap::new();
        for (n, used) in classes.analysis.applied.iter().enumerate() {
            by_class.entry(classes.find(used.class)).or_default().push(n);
        }
        let applied = classes.analysis.applied.iter();
        let used = applied.map(|a| (a.rule, classes.find(a.class))).collect();
        let mut refused: HashMap<Id, BTreeSet<(usize, usize)>> = HashMap::new();
        for r in &classes.analysis.refused {
            refused.entry(classes.find(r.class)).or_default().insert((r.rule, r.guard));
        }
        Record { classes, rules, by_class, used, refused }
    }

    /// The class and every class inside the left sides that led to it.
    fn below(&self, class: Id) -> BTreeSet<Id> {
        let mut seen = BTreeSet::new();
        let mut stack = vec![self.classes.find(class)];
        while let Some(class) = stack.pop() {
            if !seen.insert(class) {
                continue;
            }
            for used in self.by_class.get(&class).into_iter().flatten() {
                let inside = &self.classes.analysis.applied[*used].inside;
                stack.extend(inside.iter().map(|c| self.classes.find(*c)));
            }
        }
        seen
    }

    /// The directed rules used on these classes, each once, in order.
    fn chain(&self, region: &BTreeSet<Id>) -> Vec<(&'a Rule, &'a Application)> {
        let mut used: Vec<usize> =
            region.iter().flat_map(|c| self.by_class.get(c).into_iter().flatten()).copied().collect();
        used.sort_unstable();
        let mut chain: Vec<(&Rule, &Application)> = Vec::new();
        for n in used {
            let used = &self.classes.analysis.applied[n];
            let rule = &self.rules[used.rule];
            if rule.row.kind == Kind::Directed
                && chain.iter().all(|(known, _)| known.row.name != rule.row.name)
            {
                chain.push((rule, used));
            }
        }
        chain
    }

    /// Guards that refused directed rules on these classes and never came to be known.
    fn not_proved(&self, region: &BTreeSet<Id>) -> Vec<(&'static str, String)> {
        let mut refused = BTreeSet::new();
        for class in region {
            let here = self.refused.get(class).into_iter().flatten();
            refused.extend(here.filter(|(rule, _)| !self.used.contains(&(*rule, *class))).copied());
        }
        refused
            .into_iter()
            .map(|(rule, guard)| (&self.rules[rule].row, guard))
            .filter(|(row, guard)| row.kind == Kind::Directed && row.when[*guard].asks_for_proof())
            .map(|(row, guard)| (row.name, row.when[guard].text()))
            .collect()
    }
}

/// The source's name and place for a node, or else for the nearest user that has them.
fn described(g: &Graph, id: NodeId) -> (Option<Name>, Option<Origin>) {
    let found = g.nearest_user(id, |node| node.name.is_some() || node.origin.is_some());
    found.map_or((None, None), |node| (node.name.clone(), node.origin))
}

/// Whether it is a sum over `axis` of a product in which an exponential that depends on the axis is a factor.
fn is_weighted_sum(g: &Graph, id: NodeId, axis: AxisId) -> bool {
    let product = g.args(id)[0];
    let weight = |n: &NodeId| match *g.op(*n) {
        Op::Map(op) => op == MapOp::Exp,
        Op::Fused(FusedOp::Norm, _) => *g.op(g.args(*n)[0]) == Op::Map(MapOp::Exp),
        Op::Fused(op, _) => op.info().weights.is_exponential() && !op.info().reduces,
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => false,
    };
    matches!(g.op(product), Op::Map(MapOp::Mul | MapOp::Div)) && weights(g, id, axis).iter().any(weight)
}

/// The products and quotients in which a sum is used: normalisation may come last.
fn scaled(g: &Graph, sum: NodeId) -> Vec<NodeId> {
    let product = |id: &NodeId| matches!(g.op(*id), Op::Map(MapOp::Mul | MapOp::Div));
    g.users(sum).into_iter().filter(product).collect()
}

/// What the summed product is made of: elementwise, down to what is none of these or does not depend on the index.
fn weights(g: &Graph, sum: NodeId, axis: AxisId) -> Vec<NodeId> {
    let (mut out, mut seen) = (Vec::new(), HashSet::new());
    let mut stack = vec![g.args(sum)[0]];
    while let Some(id) = stack.pop() {
        if !g.node(id).axes.contains(axis) || !seen.insert(id) {
            continue;
        }
        out.push(id);
        if matches!(g.op(id), Op::Map(MapOp::Mul | MapOp::Div | MapOp::Select | MapOp::Sub | MapOp::Add)) {
            stack.extend(g.args(id));
        }
    }
    out
}
