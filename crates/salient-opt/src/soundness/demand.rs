//! Which positions of its operands each side of a rule reads. Where the two differ, one side may refuse a call, for an index
//! outside its axis inside of the operand, that the other accepts: the rule has to say why no call is.

use crate::lang::{Tag, Term, variable};
use crate::rules::{Guard, Rule, RuleRow, all_rules, axis_of};
use egg::{ENodeOrVar, Id, PatternAst, Var};
use salient_ir::{Const, MapOp};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;

/// Truth values of conditions, by their text, that all hold.
type Path = BTreeMap<String, bool>;
/// One of its paths holds.
type Demand = Vec<Path>;

/// The positions at which a side of a rule reads each of its variables.
#[derive(Default)]
struct Reads {
    by_var: BTreeMap<Var, Demand>,
}

/// Both paths, unless they contradict each other.
fn both(a: &Path, b: &Path) -> Option<Path> {
    let mut all = a.clone();
    for (condition, holds) in b {
        if *all.entry(condition.clone()).or_insert(*holds) != *holds {
            return None;
        }
    }
    Some(all)
}

/// The paths on which a condition is `holds`.
fn paths(ast: &PatternAst<Term>, condition: Id, holds: bool) -> Demand {
    let atom = || vec![Path::from([(text(ast, condition), holds)])];
    let ENodeOrVar::ENode(term) = &ast[condition] else { return atom() };
    let parts = || term.children.iter().map(|part| paths(ast, *part, holds));
    match (term.tag, holds) {
        (Tag::Const(Const::Bool(value)), _) if value == holds => vec![Path::new()],
        (Tag::Const(Const::Bool(_)), _) => vec![],
        (Tag::Map(MapOp::Not), _) => paths(ast, term.children[0], !holds),
        (Tag::Map(MapOp::And), true) | (Tag::Map(MapOp::Or), false) => parts()
            .fold(vec![Path::new()], |all, part| {
                all.iter().flat_map(|a| part.iter().filter_map(move |b| both(a, b))).collect()
            }),
        (Tag::Map(MapOp::And), false) | (Tag::Map(MapOp::Or), true) => parts().flatten().collect(),
        _ => atom(),
    }
}

/// A part of a side, as a text.
fn text(ast: &PatternAst<Term>, id: Id) -> String {
    match &ast[id] {
        ENodeOrVar::Var(var) => var.to_string(),
        ENodeOrVar::ENode(term) => {
            let children: String = term.children.iter().map(|c| format!(" {}", text(ast, *c))).collect();
            format!("({}{children})", term.tag)
        }
    }
}

/// The condition that an axis has positions.
fn some(axis: Var) -> String {
    format!("some {axis}")
}

impl Reads {
    fn of(ast: &PatternAst<Term>) -> Reads {
        let mut out = Reads::default();
        out.read(ast, Id::from(ast.len() - 1), &Path::new());
        out
    }

    fn read(&mut self, ast: &PatternAst<Term>, id: Id, path: &Path) {
        match &ast[id] {
            ENodeOrVar::Var(var) => self.by_var.entry(*var).or_default().push(path.clone()),
            ENodeOrVar::ENode(term) if term.tag == Tag::Map(MapOp::Select) => {
                let [condition, yes, no] = term.children[..] else { panic!("a choice has three arguments") };
                self.read(ast, condition, path);
                for (arm, holds) in [(yes, true), (no, false)] {
                    for taken in paths(ast, condition, holds).iter().filter_map(|p| both(path, p)) {
                        self.read(ast, arm, &taken);
                    }
                }
            }
            ENodeOrVar::ENode(term) => {
                // What sums over an axis without positions reads nothing.
                for (n, child) in term.children.iter().enumerate() {
                    let mut inside = path.clone();
                    inside.extend(term.combines(n).then(|| (some(axis_of(ast, term)), true)));
                    self.read(ast, *child, &inside);
                }
            }
        }
    }

    /// Whether the variable is read where the conditions have these values.
    fn reads(&self, var: Var, at: &Path) -> bool {
        let holds = |path: &Path| path.iter().all(|(condition, holds)| at.get(condition) == Some(holds));
        self.by_var.get(&var).is_some_and(|demand| demand.iter().any(holds))
    }

    fn conditions(&self) -> BTreeSet<String> {
        self.by_var.values().flatten().flat_map(|path| path.keys().cloned()).collect()
    }
}

/// Every assignment of truth values.
fn assignments(conditions: &BTreeSet<String>) -> Vec<Path> {
    conditions.iter().fold(vec![Path::new()], |all, condition| {
        let with =
            |path: &Path, holds| path.clone().into_iter().chain(once((condition.clone(), holds))).collect();
        all.iter().flat_map(|path| [with(path, true), with(path, false)]).collect()
    })
}

/// The variables that the sides read at different positions without a guard that says why that refuses and accepts the same
/// calls.
fn unexplained(row: &RuleRow) -> Vec<String> {
    let rule = Rule::new(row);
    let (left, right) = (Reads::of(&rule.left.ast), Reads::of(&rule.right));
    let all = assignments(&left.conditions().union(&right.conditions()).cloned().collect());
    let vars = rule.left.vars();
    let mut out = Vec::new();
    for var in vars.into_iter().filter(|v| !v.to_string().starts_with("?@")) {
        let differ: Vec<&Path> =
            all.iter().filter(|at| left.reads(var, at) != right.reads(var, at)).collect();
        let explains = |guard: &Guard, at: &Path| {
            let why = match *guard {
                Guard::Total(_) | Guard::Sentinel(_) | Guard::Reciprocals(..) => true,
                Guard::TotalOrFilled(_, axis) => at.get(&some(variable(axis))) == Some(&false),
                Guard::Covered(_, other) => {
                    [&left, &right].iter().all(|side| side.reads(variable(other), at))
                }
                Guard::Free(..)
                | Guard::Along(..)
                | Guard::Within(..)
                | Guard::Narrower(..)
                | Guard::Beyond(..)
                | Guard::Scalar(_)
                | Guard::Tensor(_) => false,
                Guard::Data(_)
                | Guard::Unread(_)
                | Guard::Factor(_)
                | Guard::Rounded(_)
                | Guard::Is(..)
                | Guard::KeepsKey(..) => false,
                Guard::LetsThrough(..) | Guard::One(_) | Guard::Filled(_) => false,
                Guard::NumberWithout(..) => false,
            };
            why && variable(guard.names().0) == var
        };
        if !differ.iter().all(|at| row.when.iter().any(|guard| explains(guard, at))) {
            out.push(var.to_string());
        }
    }
    out
}

#[test]
fn both_sides_of_a_rule_read_their_operands_at_the_same_positions() {
    let found = all_rules().map(|row| (row.name, unexplained(row))).filter(|(_, vars)| !vars.is_empty());
    assert_eq!(found.collect::<Vec<_>>(), []);
}

/// Two rows of this kind stood in the tables: the random programs found what they refuse and accept.
#[test]
fn a_side_that_reads_more_or_less_is_found() {
    let row = |left, right, when| RuleRow { left, right, when, ..*all_rules().next().expect("a rule") };
    let factor = row("(mul (select ?m ?x 0) ?c)", "(select ?m (mul ?x ?c) 0)", &[]);
    assert_eq!(unexplained(&factor), ["?c"]);
    let nested = row("(select ?a (select ?b ?x ?y) ?y)", "(select (and ?a ?b) ?x ?y)", &[]);
    assert_eq!(unexplained(&nested), ["?b"]);
    let decided = row("(select true ?x ?y)", "?x", &[]);
    assert_eq!(unexplained(&decided), [] as [&str; 0]);
    let dropped = row("(mul ?x 0)", "0", &[]);
    assert_eq!(unexplained(&dropped), ["?x"]);
    let elsewhere = row("(add (select ?m ?x 0) ?c)", "(select ?m ?x 0)", &[Guard::Covered("?c", "?x")]);
    assert_eq!(unexplained(&elsewhere), ["?c"]);
}
