//! The soundness harness: every rule is instantiated on random and hostile data, and both sides are evaluated by the
//! oracle. A guard is as much under test as the equation: each variable is tried as everything that its type admits,
//! and wherever the guards let the rule through, the sides must agree.
//!
//! Adding a row to a table adds its test; `wrong` holds rules that the harness must reject. The passes have a harness of their
//! own kind, `passes`.

mod demand;
mod facts;
mod magnitudes;
mod passes;
mod single;
mod trials;
mod wrong;

use crate::egraph::normalise::insert;
use crate::facts::{Classes, Known};
use crate::lang::{Tag, Term, variable};
use crate::options::Fp;
use crate::rules::{Holds, Rule, RuleRow, all_rules};
use egg::{ENodeOrVar, Id, Language, Searcher, Subst, Var};
use salient_ir::eval::{Data, Oracle};
use salient_ir::{AxisId, Bindings, Graph};
use std::collections::{BTreeMap, BTreeSet};
use trials::{OPEN, both_sides, build, dims, dims_with_a_zero, hostile, instantiate, keeps_contract, trials};

/// Whether the right value may stand for the left one.
fn agrees(holds: Holds, left: f64, right: f64, scale: f64) -> bool {
    let equal = left == right || (left.is_nan() && right.is_nan());
    let near = (left - right).abs() <= 1e-9 * scale;
    match holds {
        Holds::Exactly => equal && (left != 0.0 || left.is_sign_negative() == right.is_sign_negative()),
        Holds::ButSigns => equal,
        Holds::Rounding => equal || near,
        Holds::Refining => equal || near || (!left.is_finite() && !right.is_nan()),
    }
}

/// Tries a rule in every way. The error says on what the sides differ; `Ok` is the number of trials that it fired on.
fn check(row: &RuleRow) -> Result<usize, String> {
    check_in(row, true)
}

/// As [`check`], or in f64 alone and with positions along every axis.
fn check_in(row: &RuleRow, all: bool) -> Result<usize, String> {
    let rule = Rule::new(row);
    let mut fired = 0;
    for trial in trials(row) {
        let Some(mut instance) = instantiate(&trial) else { continue };
        let axes = instance.axes.clone();
        let Some(graph) = both_sides(&mut instance, &rule).transpose() else { continue };
        // A right side that cannot be built matters only where the guards let the rule through.
        let (graph, fault) = match graph {
            Ok(g) => (g, None),
            Err(fault) => {
                let mut again = instantiate(&trial).expect("instantiated before");
                let left = build(&mut again, &rule.left.ast).expect("built before");
                let listed: Vec<AxisId> = again.b.node(left).axes.iter().collect();
                again.b.output("left", &listed, left).expect("lists its axes");
                for (name, node) in again.vars.clone() {
                    let listed: Vec<AxisId> = again.b.node(node).axes.iter().collect();
                    again.b.output(name, &listed, node).expect("lists its axes");
                }
                (again.b.finish(), Some(fault))
            }
        };
        if !passes_guards(&rule, &graph, &axes) {
            continue;
        }
        let describe = |what: String| format!("{}: {what}, with {trial:?}", row.name);
        if let Some(fault) = fault {
            return Err(describe(fault));
        }
        fired += 1;
        for seed in 0..4 {
            compare(row, row.holds, &graph, &dims(), seed).map_err(describe)?;
        }
        if !all {
            continue;
        }
        for sizes in dims_with_a_zero().filter(|sizes| keeps_contract(row, &trial, sizes)) {
            // What is NaN or infinite for want of positions may become a number.
            let holds = if row.holds <= Holds::ButSigns { row.holds } else { Holds::Refining };
            compare(row, holds, &graph, &sizes, 0)
                .map_err(|what| describe(format!("{what} at {sizes:?}")))?;
        }
        if magnitudes::is_ordinary(row, &trial) {
            magnitudes::compare(row, &graph).map_err(describe)?;
        }
    }
    Ok(fired)
}

/// The value of an output at each position, in order; none where an index leaves its axis.
fn cells(oracle: &Oracle<'_>, graph: &Graph, dims: &Bindings, output: usize) -> Vec<Option<f64>> {
    let out = &graph.outputs()[output];
    let shape: Vec<i64> = out.axes.iter().map(|a| graph.extent(*a).eval(dims).unwrap()).collect();
    let mut at = vec![0; graph.axes().count()];
    let cell = |mut flat: i64| {
        for (axis, n) in out.axes.iter().zip(&shape).rev() {
            at[axis.index()] = flat % n;
            flat /= n;
        }
        oracle.value(out.node, &mut at).ok()
    };
    (0..shape.iter().product()).map(cell).collect()
}

fn compare(row: &RuleRow, holds: Holds, graph: &Graph, dims: &Bindings, seed: u64) -> Result<(), String> {
    let (inputs, params) = (hostile(graph, dims, seed, row.holds <= Holds::ButSigns), BTreeMap::new());
    let data = Data { inputs: &inputs, params: &params };
    let oracle = Oracle::new(graph, dims, data).map_err(|e| e.to_string())?;
    let (left, right) = (cells(&oracle, graph, dims, 0), cells(&oracle, graph, dims, 1));
    let scale = left.iter().flatten().filter(|x| x.is_finite()).fold(1e-6f64, |m, x| m.max(x.abs()));
    // What the left side does not compute is nobody's business, and of NaN in data anything may be made.
    let open = graph.inputs().iter().any(|p| p.name.starts_with(OPEN));
    let matters = |l: f64| !open || l.is_finite() || l == f64::NEG_INFINITY;
    for (l, r) in left.iter().zip(&right) {
        match (l, r) {
            (Some(l), None) if matters(*l) => return Err(format!("{l} became a read outside of an axis")),
            (Some(l), Some(r)) if matters(*l) && !agrees(holds, *l, *r, scale) => {
                return Err(format!("{l} became {r}"));
            }
            (Some(_), _) | (None, _) => {}
        }
    }
    Ok(())
}

/// Whether every guard says yes to the variables of the graph, which are its outputs after the first ones.
fn passes_guards(rule: &Rule, graph: &Graph, axes: &BTreeMap<&'static str, AxisId>) -> bool {
    let mut classes = Classes::new(Known::of(graph));
    let ids = insert(graph, &mut classes, Fp::Default, &[]);
    classes.rebuild();
    let mut subst = Subst::with_capacity(8);
    for out in graph.outputs().iter().filter(|o| o.name.starts_with('?')) {
        subst.insert(variable(&out.name), classes.find(ids[out.node.index()]));
    }
    for (name, axis) in axes {
        let class = classes.add(Term::new(Tag::Axis(*axis), &[]));
        subst.insert(variable(&format!("@{name}")), class);
    }
    let bound: Vec<Var> = rule.left.vars();
    assert!(bound.iter().all(|v| subst.get(*v).is_some()), "{}: a variable is not declared", rule.row.name);
    let root = classes.find(ids[graph.outputs()[0].node.index()]);
    rule.refused_by(&classes, root, &subst).is_none()
}

#[test]
fn every_rule_agrees_with_the_oracle_wherever_its_guards_let_it_through() {
    let mut faults = Vec::new();
    for row in all_rules() {
        match check(row) {
            Ok(0) => faults.push(format!("{}: never fires", row.name)),
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_wrong_rule_is_rejected() {
    assert!(wrong::ROWS.len() >= 30);
    let accepted: Vec<&str> =
        wrong::ROWS.iter().filter(|row| check(row).is_ok()).map(|row| row.name).collect();
    assert!(accepted.is_empty(), "accepted: {accepted:?}");
}

#[test]
fn rules_that_lose_digits_or_overflow_are_rejected_in_single_precision_alone() {
    assert!(wrong::IN_SINGLE.len() >= 6);
    let mut faults = Vec::new();
    for row in wrong::IN_SINGLE {
        match check_in(row, false) {
            Ok(0) => faults.push(format!("{}: never fires", row.name)),
            Ok(_) if check(row).is_ok() => faults.push(format!("{}: accepted", row.name)),
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_rule_is_found_on_its_own_left_side() {
    for row in all_rules() {
        let rule = Rule::new(row);
        // Among the trials is one whose guards hold; on it the search must find the left side.
        let found = trials(row).iter().filter_map(instantiate).any(|mut instance| {
            let axes = instance.axes.clone();
            let Ok(Some(graph)) = both_sides(&mut instance, &rule) else { return false };
            passes_guards(&rule, &graph, &axes) && is_found(&rule, &graph, &axes)
        });
        assert!(found, "{}", row.name);
    }
}

/// Whether the left side, put into an e-graph term by term, is a match of the rule.
fn is_found(rule: &Rule, graph: &Graph, axes: &BTreeMap<&'static str, AxisId>) -> bool {
    let mut classes = Classes::new(Known::of(graph));
    let ids = insert(graph, &mut classes, Fp::Default, &[]);
    let mut terms: Vec<Id> = Vec::new();
    for node in rule.left.ast.iter() {
        let id = match node {
            ENodeOrVar::Var(v) => {
                let name = v.to_string();
                match name.strip_prefix("?@") {
                    Some(axis) => classes.add(Term::new(Tag::Axis(axes[axis]), &[])),
                    None => {
                        let out = graph.outputs().iter().find(|o| *o.name == *name).expect("declared");
                        ids[out.node.index()]
                    }
                }
            }
            ENodeOrVar::ENode(term) => {
                let term = term.clone().map_children(|c| terms[usize::from(c)]);
                classes.add(term)
            }
        };
        terms.push(id);
    }
    classes.rebuild();
    let root = classes.find(*terms.last().expect("a side has a root"));
    rule.left.search_eclass(&classes, root).is_some()
}

#[test]
fn names_of_rules_are_unique_and_tell_the_family() {
    let mut seen = BTreeSet::new();
    for (family, rows) in crate::rules::FAMILIES {
        for row in *rows {
            assert!(row.name.starts_with(&format!("{family}/")), "{}", row.name);
            assert!(seen.insert(row.name), "{}", row.name);
            assert!(!row.why.is_empty(), "{}", row.name);
        }
    }
}
