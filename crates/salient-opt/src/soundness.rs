//! The soundness harness: every rule is instantiated on random and hostile data, and both sides are evaluated by the
//! oracle. A guard is as much under test as the equation: each variable is tried as everything that its type admits,
//! and wherever the guards let the rule through, the sides must agree.
//!
//! Adding a row to a table adds its test; `wrong` holds rules that the harness must reject.

mod wrong;

use crate::facts::{Known, Property};
use crate::fp::Fp;
use crate::lang::{Tag, Term, variable};
use crate::normalise::{Classes, insert};
use crate::rules::{Holds, Row, Rule, declared, rows};
use egg::{ENodeOrVar, Id, Language, PatternAst, Searcher, Subst, Var};
use salient_ir::array::Array;
use salient_ir::eval::{Data, Oracle};
use salient_ir::{AxisId, AxisSet, Bindings, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// The axes that rules name, each with its extent as a dimension (none for one position) and one more or not. `i` and `j`
/// have one extent, so that a causal mask between them makes sense; `c` is `j` with `u` behind it.
const AXES: &[(&str, Option<&str>, i64)] = &[
    ("i", Some("N"), 0),
    ("j", Some("N"), 0),
    ("e", Some("E"), 0),
    ("f", Some("F"), 0),
    ("k", Some("K"), 0),
    ("u", None, 1),
    ("c", Some("N"), 1),
];

/// The values of those dimensions.
const SIZES: &[(&str, i64)] = &[("N", 3), ("E", 2), ("F", 2), ("K", 4)];

/// The extent of an axis that rules name.
fn extent((_, symbol, more): &(&str, Option<&str>, i64)) -> Dim {
    let more = Dim::constant(*more);
    symbol.map_or(more.clone(), |symbol| &Dim::symbol(symbol) + &more)
}

/// What a variable is tried as.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// An input with finite values, zeros of both signs and, for exact rules, huge values among them.
    Plain,
    /// As `Plain`, -inf where a mask of data says so: whole rows of it too.
    Masked,
    /// As `Plain`, -inf after the diagonal of `i` and `j`: each row along `j` keeps a key.
    Causal,
    /// An exponential: above zero.
    Positive,
    /// An exponential, zero where a mask of data says so: whole rows of it too.
    NonNegative,
    /// A logarithm of a plain input: NaN, -inf and numbers. Only for rules that hold exactly.
    Wild,
    /// A reciprocal of an input with zeros: infinities. Only for rules that hold exactly.
    Infinite,
    /// A literal.
    Literal(f32),
    /// A truth value that is given.
    Always(bool),
    /// `0 <= index < extent of i`.
    Index,
}

const FLOATS: &[Form] = &[
    Form::Plain,
    Form::Masked,
    Form::Causal,
    Form::Positive,
    Form::NonNegative,
    Form::Wild,
    Form::Infinite,
    Form::Literal(-2e4),
    Form::Literal(-2.0),
    Form::Literal(0.5),
    Form::Literal(0.0),
    Form::Literal(f32::NEG_INFINITY),
];
const BOOLS: &[Form] = &[Form::Plain, Form::Causal, Form::Always(true), Form::Always(false)];

fn forms(dtype: DType, row: &Row) -> Vec<Form> {
    let list = match dtype {
        DType::F32 => FLOATS,
        DType::Bool => BOOLS,
        DType::I64 | DType::I32 => &[Form::Index],
        DType::F16 | DType::BF16 => &[],
    };
    let wild = |f: &Form| matches!(f, Form::Wild | Form::Infinite);
    list.iter().copied().filter(|f| row.holds == Holds::Exactly || !wild(f)).collect()
}

/// One way of trying a rule: a form and the axes of each variable.
type Trial = Vec<(&'static str, DType, Form, Vec<&'static str>)>;

fn axis_variables(row: &Row) -> BTreeSet<&'static str> {
    let mut out = BTreeSet::new();
    for part in row.left.split('@').skip(1) {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        out.insert(&part[..end]);
    }
    out
}

/// Every combination of forms over the declared axes, and every single variable over other axes.
fn trials(row: &Row) -> Vec<Trial> {
    let mut combinations: Vec<Trial> = vec![vec![]];
    for (name, text) in row.vars {
        let (dtype, axes) = declared(text);
        let mut next = Vec::new();
        for trial in &combinations {
            for form in forms(dtype, row) {
                let mut trial = trial.clone();
                trial.push((*name, dtype, form, axes.clone()));
                next.push(trial);
            }
        }
        combinations = next;
    }
    let mut out = combinations.clone();
    for (n, (_, text)) in row.vars.iter().enumerate() {
        let (_, axes) = declared(text);
        let mut others: Vec<Vec<&str>> = vec![vec![]];
        others.extend(axis_variables(row).into_iter().filter(|a| !axes.contains(a)).map(|a| {
            let mut more = axes.clone();
            more.push(a);
            more
        }));
        for other in others {
            for trial in &combinations {
                let mut trial = trial.clone();
                trial[n].3 = other.clone();
                out.push(trial);
            }
        }
    }
    out
}

/// A trial made concrete: the node of each variable.
struct Instance {
    b: Builder,
    vars: BTreeMap<&'static str, NodeId>,
    axes: BTreeMap<&'static str, AxisId>,
}

fn instantiate(trial: &Trial) -> Option<Instance> {
    let mut b = Builder::new("trial");
    let axes: BTreeMap<&str, AxisId> =
        AXES.iter().map(|axis| (axis.0, b.axis_id(axis.0, &extent(axis)))).collect();
    let mut vars = BTreeMap::new();
    for (name, dtype, form, own) in trial {
        let ids: Vec<AxisId> = own.iter().map(|a| axes[a]).collect();
        let word = name.trim_start_matches('?');
        let causal = |b: &mut Builder| {
            let (i, j) = (b.iota(axes["i"]), b.iota(axes["j"]));
            b.map(MapOp::Le, &[j, i]).ok()
        };
        let masked = |b: &mut Builder, keep: NodeId, x: NodeId, other: f32| {
            let other = b.constant(Const::f32(other));
            b.map(MapOp::Select, &[keep, x, other]).ok()
        };
        // Not a name that `hostile` fills with huge values: an exponential must stay inside the range of floats.
        let log = format!("log_{word}");
        let both = own.contains(&"i") && own.contains(&"j");
        let node = match form {
            Form::Plain | Form::Index => b.input(word, &ids, *dtype, None),
            Form::Causal if !both => return None,
            Form::Causal if *dtype == DType::Bool => causal(&mut b)?,
            Form::Causal => {
                let x = b.input(word, &ids, *dtype, None);
                let keep = causal(&mut b)?;
                masked(&mut b, keep, x, f32::NEG_INFINITY)?
            }
            Form::Masked => {
                let x = b.input(word, &ids, *dtype, None);
                let keep = b.input(&format!("{word}_keep"), &ids, DType::Bool, None);
                masked(&mut b, keep, x, f32::NEG_INFINITY)?
            }
            Form::Positive => {
                let x = b.input(&log, &ids, *dtype, None);
                b.map(MapOp::Exp, &[x]).ok()?
            }
            Form::NonNegative => {
                let x = b.input(&log, &ids, *dtype, None);
                let e = b.map(MapOp::Exp, &[x]).ok()?;
                let keep = b.input(&format!("{word}_keep"), &ids, DType::Bool, None);
                masked(&mut b, keep, e, 0.0)?
            }
            Form::Wild => {
                let x = b.input(word, &ids, *dtype, None);
                b.map(MapOp::Log, &[x]).ok()?
            }
            Form::Infinite => {
                let x = b.input(word, &ids, *dtype, None);
                b.map(MapOp::Recip, &[x]).ok()?
            }
            Form::Literal(_) | Form::Always(_) if !own.is_empty() => return None,
            Form::Literal(x) => b.constant(Const::f32(*x)),
            Form::Always(x) => b.constant(Const::Bool(*x)),
        };
        vars.insert(*name, node);
    }
    Some(Instance { b, vars, axes })
}

/// A side of a rule as a node; `None` if it is not well-typed on this instance.
fn build(instance: &mut Instance, side: &PatternAst<Term>) -> Option<NodeId> {
    enum Value {
        Node(NodeId),
        Axis(AxisId),
    }
    let mut values: Vec<Value> = Vec::new();
    for node in side.iter() {
        let value = match node {
            ENodeOrVar::Var(v) => {
                let name = v.to_string();
                match name.strip_prefix("?@") {
                    Some(axis) => Value::Axis(instance.axes[axis]),
                    None => Value::Node(instance.vars[name.as_str()]),
                }
            }
            ENodeOrVar::ENode(term) => {
                let mut axes = Vec::new();
                let mut args = Vec::new();
                for child in &term.children {
                    match &values[usize::from(*child)] {
                        Value::Node(n) => args.push(*n),
                        Value::Axis(a) => axes.push(*a),
                    }
                }
                let op = match term.tag {
                    Tag::Const(c) => Op::Const(c),
                    Tag::Iota => Op::Iota(axes[0]),
                    Tag::Map(op) => Op::Map(op),
                    Tag::Reduce(op) => Op::Reduce(op, axes[0]),
                    Tag::At => Op::At(axes[0]),
                    Tag::CumSum => Op::CumSum(axes[0]),
                    Tag::Fused(op) => Op::Fused(op, axes[0]),
                    Tag::Concat => Op::Concat(axes[0], axes[1..].into()),
                    Tag::Axis(_) | Tag::Input(_) | Tag::Param(_) | Tag::Extent(_) => {
                        panic!("{} has no text", term.tag)
                    }
                };
                Value::Node(instance.b.add(op, &args).ok()?)
            }
        };
        values.push(value);
    }
    match values.pop()? {
        Value::Node(n) => Some(n),
        Value::Axis(_) => None,
    }
}

/// The graph of both sides as two outputs over the same axes.
fn both_sides(instance: &mut Instance, rule: &Rule) -> Result<Option<Graph>, String> {
    let Some(left) = build(instance, &rule.left.ast) else { return Ok(None) };
    let right = build(instance, &rule.right.ast).ok_or("the right side is not well-typed")?;
    let (l, r) = (instance.b.node(left), instance.b.node(right));
    if l.dtype != r.dtype {
        return Err(format!("{} became {}", l.dtype, r.dtype));
    }
    if !r.axes.is_subset(&l.axes) {
        return Err("the right side depends on more axes".to_owned());
    }
    let axes: Vec<AxisId> = l.axes.iter().collect();
    instance.b.output("left", &axes, left).map_err(|e| e.to_string())?;
    instance.b.output("right", &axes, right).map_err(|e| e.to_string())?;
    // Variables that a side drops are kept, so that their facts can be asked for.
    for (name, node) in instance.vars.clone() {
        let axes: Vec<AxisId> = instance.b.node(node).axes.iter().collect();
        instance.b.output(name, &axes, node).map_err(|e| e.to_string())?;
    }
    Ok(Some(std::mem::replace(&mut instance.b, Builder::new("")).finish()))
}

fn dims() -> Bindings {
    SIZES.iter().map(|(symbol, n)| ((*symbol).into(), *n)).collect()
}

/// Values for every input: the first seed has no special values, later ones have zeros and empty rows.
fn hostile(g: &Graph, seed: u64, huge: bool) -> BTreeMap<String, Array> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let dims = dims();
    let mut out = BTreeMap::new();
    for port in g.inputs() {
        let shape: Vec<usize> =
            port.axes.iter().map(|a| g.extent(*a).eval(&dims).unwrap() as usize).collect();
        let count: usize = shape.iter().product();
        let row = shape.last().copied().unwrap_or(1);
        let huge = huge && !port.name.starts_with("log_");
        let empty_row = rng.usize(0..count.div_ceil(row));
        let values: Vec<f64> = (0..count)
            .map(|n| match port.dtype {
                DType::Bool => f64::from(u8::from(rng.bool() && !(seed > 0 && n / row == empty_row))),
                DType::I64 | DType::I32 => f64::from(rng.u32(0..3)),
                DType::F32 | DType::F16 | DType::BF16 => match rng.u8(0..8) {
                    0 if seed > 1 => 0.0,
                    1 if seed > 1 => -0.0,
                    2 if seed > 1 && huge => 1e30,
                    3 if seed > 1 && huge => -1e30,
                    _ => f64::from(rng.f32() * 8.0 - 4.0),
                },
            })
            .collect();
        out.insert(port.name.to_string(), Array::from_f64(port.dtype, shape, &values).unwrap());
    }
    out
}

/// Whether the right value may stand for the left one.
fn agrees(holds: Holds, left: f64, right: f64, scale: f64) -> bool {
    let equal = left == right || (left.is_nan() && right.is_nan());
    let near = (left - right).abs() <= 1e-9 * scale;
    match holds {
        Holds::Exactly => equal,
        Holds::Rounding => equal || near,
        Holds::Refining => equal || near || (!left.is_finite() && !right.is_nan()),
    }
}

/// Tries a rule in every way. The error says on what the sides differ; `Ok` is the number of trials that it fired on.
fn check(row: &Row) -> Result<usize, String> {
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
            compare(row, &graph, seed).map_err(describe)?;
        }
    }
    Ok(fired)
}

fn compare(row: &Row, graph: &Graph, seed: u64) -> Result<(), String> {
    let (inputs, params) = (hostile(graph, seed, row.holds == Holds::Exactly), BTreeMap::new());
    let dims = dims();
    let data = Data { inputs: &inputs, params: &params };
    let oracle = Oracle::new(graph, &dims, data).map_err(|e| e.to_string())?;
    let side = |n: usize| {
        let out = &graph.outputs()[n];
        oracle.tensor(out.node, &out.axes).map_err(|e| e.to_string())
    };
    let (left, right) = (side(0)?, side(1)?);
    let scale = left.iter().filter(|x| x.is_finite()).fold(1e-6f64, |m, x| m.max(x.abs()));
    match left.iter().zip(&right).find(|(l, r)| !agrees(row.holds, **l, **r, scale)) {
        Some((l, r)) => Err(format!("{l} became {r}")),
        None => Ok(()),
    }
}

/// Whether every guard says yes to the variables of the graph, which are its outputs after the first ones.
fn passes_guards(rule: &Rule, graph: &Graph, axes: &BTreeMap<&'static str, AxisId>) -> bool {
    let mut classes = Classes::new(Known::of(graph));
    let ids = insert(graph, &mut classes, Fp::Default);
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
    rule.refused_by(&classes, &subst).is_none()
}

#[test]
fn every_rule_agrees_with_the_oracle_wherever_its_guards_let_it_through() {
    let mut faults = Vec::new();
    for row in rows() {
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
    assert!(wrong::ROWS.len() >= 20);
    let accepted: Vec<&str> =
        wrong::ROWS.iter().filter(|row| check(row).is_ok()).map(|row| row.name).collect();
    assert!(accepted.is_empty(), "accepted: {accepted:?}");
}

#[test]
fn every_rule_is_found_on_its_own_left_side() {
    for row in rows() {
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
    let ids = insert(graph, &mut classes, Fp::Default);
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

/// What the analysis says of the values of a graph must be true of them on hostile data.
fn check_facts(graph: &Graph) {
    let mut classes = Classes::new(Known::of(graph));
    let ids = insert(graph, &mut classes, Fp::Default);
    classes.rebuild();
    let (dims, params) = (dims(), BTreeMap::new());
    for seed in 0..4 {
        let inputs = hostile(graph, seed, false);
        let data = Data { inputs: &inputs, params: &params };
        let oracle = Oracle::new(graph, &dims, data).unwrap();
        for id in graph.ids() {
            let facts = &classes[ids[id.index()]].data;
            let axes: Vec<AxisId> = graph.node(id).axes.iter().collect();
            let free: AxisSet = axes.iter().copied().collect();
            assert!(facts.axes.is_subset(&free));
            for x in oracle.tensor(id, &axes).unwrap() {
                let holds = |p: Property, so: bool| assert!(!facts.has(p) || so, "{p:?} of {x}");
                holds(Property::Finite, x.is_finite());
                holds(Property::Score, x.is_finite() || x == f64::NEG_INFINITY);
                holds(Property::NonNegative, x >= 0.0);
                holds(Property::Positive, x > 0.0);
                holds(Property::Unit, x == 0.0 || x == 1.0);
                if let Some(c) = facts.constant {
                    assert!(c.value() == x || (c.value() - x).abs() <= 1e-6 * x.abs(), "{c:?} of {x}");
                }
            }
        }
    }
}

#[test]
fn facts_are_true_of_values() {
    for row in rows() {
        for trial in trials(row) {
            // The exponential of a stand-in for -inf underflows, which facts may ignore.
            if trial.iter().any(|(_, _, form, _)| *form == Form::Literal(-2e4)) {
                continue;
            }
            let Some(mut instance) = instantiate(&trial) else { continue };
            if let Ok(Some(graph)) = both_sides(&mut instance, &Rule::new(row))
                && graph.len() % 3 == 0
            {
                check_facts(&graph);
            }
        }
    }
}

/// A mask over `i` and `j` for the test of witnesses.
type Mask = fn(&mut Builder, NodeId, NodeId, NodeId) -> NodeId;

const MASKS: &[Mask] = &[
    |b, i, j, _| b.map(MapOp::Le, &[j, i]).unwrap(),
    |b, i, j, _| b.map(MapOp::Lt, &[j, i]).unwrap(),
    |b, i, j, _| b.map(MapOp::Eq, &[i, j]).unwrap(),
    |b, i, j, _| b.map(MapOp::Ne, &[i, j]).unwrap(),
    |b, i, j, n| {
        let shifted = b.map(MapOp::Add, &[i, n]).unwrap();
        b.map(MapOp::Le, &[j, shifted]).unwrap()
    },
    |b, i, j, n| {
        let gap = b.map(MapOp::Sub, &[i, j]).unwrap();
        let near = b.map(MapOp::Lt, &[gap, n]).unwrap();
        let past = b.map(MapOp::Le, &[j, i]).unwrap();
        b.map(MapOp::And, &[near, past]).unwrap()
    },
    |b, i, j, _| {
        let two = b.constant(Const::I64(2));
        let twice = b.map(MapOp::Mul, &[j, two]).unwrap();
        let le = b.map(MapOp::Le, &[twice, i]).unwrap();
        b.map(MapOp::Not, &[le]).unwrap()
    },
    |b, i, j, _| {
        let three = b.constant(Const::I64(3));
        let first = b.map(MapOp::Lt, &[j, three]).unwrap();
        let past = b.map(MapOp::Le, &[j, i]).unwrap();
        b.map(MapOp::Or, &[first, past]).unwrap()
    },
];

#[test]
fn witnesses_are_true_positions() {
    use crate::facts::witness::{Position, Witnesses};
    // The extents of `i` and `j`, and a number for the mask.
    for (rows, keys) in [(3, 3), (2, 5), (5, 2), (1, 1)] {
        for number in [-1, 0, 2] {
            for mask in MASKS {
                let mut b = Builder::new("mask");
                let (ai, aj) = (b.axis_id("i", &Dim::constant(rows)), b.axis_id("j", &Dim::constant(keys)));
                let (i, j, n) = (b.iota(ai), b.iota(aj), b.constant(Const::I64(number)));
                let m = mask(&mut b, i, j, n);
                b.output("m", &[ai, aj], m).unwrap();
                let g = b.finish();
                let mut classes = Classes::new(Known::of(&g));
                let ids = insert(&g, &mut classes, Fp::Default);
                classes.rebuild();
                let out = &g.outputs()[0];
                let facts = &classes[ids[out.node.index()]].data;
                let (none, dims) = (BTreeMap::new(), Bindings::new());
                let oracle = Oracle::new(&g, &dims, Data { inputs: &none, params: &none }).unwrap();
                let values = oracle.tensor(out.node, &out.axes).unwrap();
                let value = |at: &[(AxisId, i64); 2]| {
                    let of = |a: AxisId| at.iter().find(|(b, _)| *b == a).expect("both axes").1;
                    values[(of(ai) * keys + of(aj)) as usize]
                };
                for (list, truth) in [(&facts.true_at, 1.0), (&facts.false_at, 0.0)] {
                    let Witnesses::At(list) = list else {
                        assert!(values.iter().all(|v| *v == truth));
                        continue;
                    };
                    for (axis, position) in list {
                        let (other, count) = if *axis == aj { (ai, rows) } else { (aj, keys) };
                        let extent = rows + keys - count;
                        for at in 0..count {
                            let here = match position {
                                Position::First => 0,
                                Position::Last => extent - 1,
                                Position::Along(_) => at,
                                Position::FromEnd(_) => extent - count + at,
                            };
                            assert!((0..extent).contains(&here));
                            assert_eq!(value(&[(*axis, here), (other, at)]), truth);
                        }
                    }
                }
            }
        }
    }
}
