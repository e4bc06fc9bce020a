//! Saturation: the rules are applied until nothing changes or a limit is met. Never until a clock says so.
//!
//! The loop is our own because it records what egg does not: which rule changed which class, which guard refused, and
//! which left sides have a normal form and are not to be extracted again.

use crate::egraph::associate::join;
use crate::facts::Classes;
use crate::facts::{Application, Refusal};
use crate::lang::{Tag, Term};
use crate::options::Fp;
use crate::options::Options;
use crate::rules::{self, Holds, Kind, Rule, RuleRow};
use egg::{ENodeOrVar, Id, Language, PatternAst, Searcher, Subst};
use std::collections::HashSet;
use std::sync::LazyLock;

/// Why saturation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// No rule has anything left to do.
    Saturated,
    /// The limit on nodes was met.
    Nodes,
    /// The limit on rounds was met.
    Iterations,
}

/// The rules that may be used.
pub(crate) fn rule_set<'a>(rows: impl Iterator<Item = &'a RuleRow>, fp: Fp) -> Vec<Rule> {
    rows.filter(|row| fp == Fp::Default || row.holds == Holds::Exactly).map(Rule::new).collect()
}

/// Every rule, parsed once in the life of the process.
pub(crate) fn all_rules(fp: Fp) -> &'static [Rule] {
    static DEFAULT: LazyLock<Vec<Rule>> = LazyLock::new(|| rule_set(rules::all_rules(), Fp::Default));
    static STRICT: LazyLock<Vec<Rule>> = LazyLock::new(|| rule_set(rules::all_rules(), Fp::Strict));
    match fp {
        Fp::Default => &DEFAULT,
        Fp::Strict => &STRICT,
    }
}

/// Applies the rules; says why it ended and after how many rounds.
pub(crate) fn saturate(classes: &mut Classes, rules: &[Rule], options: &Options) -> (Stop, usize) {
    classes.rebuild();
    join(classes, options.fp);
    for round in 0..options.iteration_limit {
        let before = (classes.total_size(), classes.number_of_classes(), classes.analysis.applied.len());
        let found: Vec<Vec<Match>> = rules.iter().map(|rule| search(classes, rule)).collect();
        for (n, (rule, matches)) in rules.iter().zip(found).enumerate() {
            for found in matches {
                apply(classes, n, rule, found);
                // Checked here and not by round: a round may multiply the e-graph.
                if classes.total_size() > options.node_limit {
                    classes.rebuild();
                    return (Stop::Nodes, round + 1);
                }
            }
        }
        classes.rebuild();
        join(classes, options.fp);
        let after = (classes.total_size(), classes.number_of_classes(), classes.analysis.applied.len());
        if before == after {
            return (Stop::Saturated, round + 1);
        }
    }
    (Stop::Iterations, options.iteration_limit)
}

/// A place where the left side of a rule was found.
struct Match {
    class: Id,
    subst: Subst,
    /// The term at the root of the instance of the left side.
    left: Term,
    /// The classes of the terms below it, variables not counted.
    inside: Vec<Id>,
}

/// Every match of a rule. The e-graph must be clean: instances are looked up in it.
fn search(classes: &Classes, rule: &Rule) -> Vec<Match> {
    let mut out = Vec::new();
    if !rule.may_be_found(classes) {
        return out;
    }
    for found in rule.left.search(classes) {
        for subst in found.substs {
            let mut inside = Vec::new();
            let (left, _) = instance(&rule.left.ast, &subst, |term| {
                let id = classes.lookup(term.clone()).expect("what was matched is in the e-graph");
                inside.extend((!term.children.is_empty()).then_some(id));
                id
            });
            inside.pop();
            let left = left.expect("the left side of a rule is no variable");
            out.push(Match { class: found.eclass, subst, left, inside });
        }
    }
    out
}

/// One match of one rule.
fn apply(classes: &mut Classes, n: usize, rule: &Rule, found: Match) {
    let Match { class, subst, left, inside } = found;
    if let Some(guard) = rule.refused_by(classes, class, &subst) {
        classes.analysis.refused.insert(Refusal { rule: n, guard, class });
        return;
    }
    let (right, id) = instance(&rule.right, &subst, |term| classes.add(term.clone()));
    // A rule retires its left side even where another rule has made the sides equal before.
    if rule.row.kind == Kind::Directed {
        // So is the same term with its arguments swapped, which is in the class by the law of commutativity.
        if let Tag::Map(op) = left.tag
            && op.info().commutative
        {
            let swapped = Term::new(left.tag, &[left.children[1], left.children[0]]);
            classes.analysis.retired.insert((swapped, right.clone()));
        }
        classes.analysis.retired.insert((left, right));
    }
    if classes.union(class, id) {
        classes.analysis.applied.push(Application { rule: n, class, inside, subst });
    }
}

/// The term at the root of an instance of a pattern (none if the pattern is a variable) and its class; `add` gives the
/// class of each term.
fn instance(
    pattern: &PatternAst<Term>,
    subst: &Subst,
    mut add: impl FnMut(&Term) -> Id,
) -> (Option<Term>, Id) {
    let mut ids: Vec<Id> = Vec::with_capacity(pattern.len());
    let mut root = None;
    for node in pattern.iter() {
        let id = match node {
            ENodeOrVar::Var(v) => subst[*v],
            ENodeOrVar::ENode(term) => {
                let term = term.clone().map_children(|c| ids[usize::from(c)]);
                let id = add(&term);
                root = Some(term);
                id
            }
        };
        ids.push(id);
    }
    (root, *ids.last().expect("a pattern has a root"))
}

/// Left sides of directed rules, over the classes as they are now: without those that have become their right side.
pub(crate) fn retired(classes: &Classes) -> HashSet<Term> {
    let now = |t: &Term| t.clone().map_children(|c| classes.find(c));
    let sides = classes.analysis.retired.iter();
    sides.filter(|(l, r)| r.as_ref().map(now) != Some(now(l))).map(|(l, _)| now(l)).collect()
}
