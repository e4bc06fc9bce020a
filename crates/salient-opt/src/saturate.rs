//! Saturation: the rules are applied until nothing changes or a limit is met. Never until a clock says so.
//!
//! The loop is our own because it records what egg does not: which rule changed which class, which guard refused, and
//! which left sides have a normal form and are not to be extracted again.

use crate::facts::{Application, Known, Refusal};
use crate::lang::Term;
use crate::normalise::Classes;
use crate::rules::{Holds, Kind, Row, Rule};
use egg::{Applier, ENodeOrVar, Id, Language, PatternAst, SearchMatches, Searcher, Subst, Symbol};

/// How much freedom with floats the rules have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fp {
    /// Real arithmetic: sums may be reordered, softmaxes shifted.
    #[default]
    Default,
    /// Only rules that hold exactly.
    Strict,
}

/// Limits of saturation. Counts, so that the same model gives the same result everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// E-nodes above which no further rule is applied.
    pub nodes: usize,
    /// Rounds.
    pub iterations: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { nodes: 100_000, iterations: 40 }
    }
}

/// Why saturation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No rule has anything left to do.
    Saturated,
    /// The limit on nodes was met.
    Nodes,
    /// The limit on rounds was met.
    Iterations,
}

/// The rules that may be used.
pub(crate) fn rule_set<'a>(rows: impl Iterator<Item = &'a Row>, fp: Fp) -> Vec<Rule> {
    rows.filter(|row| fp == Fp::Default || row.holds == Holds::Exactly).map(Rule::new).collect()
}

/// Applies the rules; says why it ended and after how many rounds.
pub(crate) fn saturate(classes: &mut Classes, rules: &[Rule], limits: Limits) -> (Stop, usize) {
    classes.rebuild();
    for round in 0..limits.iterations {
        let before = (classes.total_size(), classes.number_of_classes(), classes.analysis.applied.len());
        let found: Vec<Vec<SearchMatches<'_, Term>>> = rules.iter().map(|r| r.left.search(classes)).collect();
        let found: Vec<Vec<(Id, Vec<Subst>)>> = found
            .into_iter()
            .map(|matches| matches.into_iter().map(|m| (m.eclass, m.substs)).collect())
            .collect();
        for (n, (rule, matches)) in rules.iter().zip(found).enumerate() {
            for (class, substs) in matches {
                for subst in substs {
                    apply(classes, n, rule, class, &subst);
                }
            }
            if classes.total_size() > limits.nodes {
                classes.rebuild();
                return (Stop::Nodes, round + 1);
            }
        }
        classes.rebuild();
        let after = (classes.total_size(), classes.number_of_classes(), classes.analysis.applied.len());
        if before == after {
            return (Stop::Saturated, round + 1);
        }
    }
    (Stop::Iterations, limits.iterations)
}

/// One match of one rule.
fn apply(classes: &mut Classes, n: usize, rule: &Rule, class: Id, subst: &Subst) {
    if let Some(guard) = rule.refused_by(classes, subst) {
        classes.analysis.refused.insert(Refusal { rule: n, guard, class });
        return;
    }
    let changed = rule.right.apply_one(classes, class, subst, None, Symbol::from("rule"));
    if changed.is_empty() {
        return;
    }
    let (root, inside) = interior(classes, &rule.left.ast, subst);
    if rule.row.kind == Kind::Directed {
        classes.analysis.retired.insert(root);
    }
    classes.analysis.applied.push(Application { rule: n, class, inside });
}

/// The term at the root of a matched left side, and the classes of the terms below it (variables not counted).
fn interior(classes: &Classes, pattern: &PatternAst<Term>, subst: &Subst) -> (Term, Vec<Id>) {
    let mut ids: Vec<Id> = Vec::with_capacity(pattern.len());
    let mut inside = Vec::new();
    let mut root = None;
    for node in pattern.iter() {
        let id = match node {
            ENodeOrVar::Var(v) => subst[*v],
            ENodeOrVar::ENode(term) => {
                let term = term.clone().map_children(|c| ids[usize::from(c)]);
                let id = classes.lookup(term.clone());
                inside.extend(id.filter(|_| !term.children.is_empty()));
                root = Some(term);
                id.unwrap_or_else(|| Id::from(usize::MAX))
            }
        };
        ids.push(id);
    }
    inside.pop();
    (root.expect("a pattern has a root"), inside)
}

/// Left sides of directed rules, over the classes as they are now.
pub(crate) fn retired(classes: &Classes) -> std::collections::HashSet<Term> {
    let known: &Known = &classes.analysis;
    known.retired.iter().map(|t| t.clone().map_children(|c| classes.find(c))).collect()
}
