//! The soundness harness: every rule is instantiated on random and hostile data, and both sides are evaluated by the
//! oracle. A guard is as much under test as the equation: each variable is tried as everything that its type admits,
//! and wherever the guards let the rule through, the sides must agree.
//!
//! Adding a row to a table adds its test; `wrong` holds rules that the harness must reject.

mod demand;
mod facts;
mod magnitudes;
mod passes;
mod single;
mod wrong;

use crate::egraph::normalise::insert;
use crate::facts::{Classes, Known};
use crate::lang::{Tag, Term, variable};
use crate::options::Fp;
use crate::rules::{Guard, Holds, Row, Rule, declared, rows};
use egg::{ENodeOrVar, Id, Language, PatternAst, Searcher, Subst, Var};
use salient_ir::array::Array;
use salient_ir::eval::{Data, Oracle};
use salient_ir::{AxisId, Bindings, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op};
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
    /// An input with -inf in it, whole rows too, or NaN: what no contract excludes where it is added to a score. Where
    /// the left side is a number or -inf, so must be the right one; NaN may be mended.
    Open,
    /// A view one position further on, which leaves its axis at the last one.
    Outside,
    /// True where such views stay within their axes.
    Within,
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
/// What variables are tried as together, beside the above: masked and missing operands under each other.
const OPEN_FLOATS: &[Form] = &[Form::Plain, Form::Open, Form::Outside, Form::Literal(0.0)];
const OPEN_BOOLS: &[Form] = &[Form::Plain, Form::Outside, Form::Within];
const BOOLS: &[Form] = &[Form::Plain, Form::Causal, Form::Always(true), Form::Always(false)];

fn forms(dtype: DType, row: &Row, open: bool) -> Vec<Form> {
    let list = match dtype {
        DType::F32 if open => OPEN_FLOATS,
        DType::Bool if open => OPEN_BOOLS,
        DType::F32 => FLOATS,
        DType::Bool => BOOLS,
        DType::I64 | DType::I32 => &[Form::Index],
        DType::F16 | DType::BF16 => &[],
    };
    let wild = |f: &Form| matches!(f, Form::Wild | Form::Infinite);
    list.iter().copied().filter(|f| row.holds <= Holds::ButSigns || !wild(f)).collect()
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
    let is_open = |trial: &Trial| {
        trial.iter().any(|(_, _, form, _)| matches!(form, Form::Open | Form::Outside | Form::Within))
    };
    let mut all = trials_of(row, false);
    all.extend(trials_of(row, true).into_iter().filter(is_open));
    all
}

fn trials_of(row: &Row, open: bool) -> Vec<Trial> {
    let mut combinations: Vec<Trial> = vec![vec![]];
    for (name, text) in row.vars {
        let (dtype, axes) = declared(text);
        let mut next = Vec::new();
        for trial in &combinations {
            let factor = row.when.contains(&Guard::Factor(name));
            for form in forms(dtype, row, open).into_iter().filter(|f| !factor || *f != Form::Open) {
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
            Form::Open => b.input(&format!("{OPEN}{word}"), &ids, *dtype, None),
            Form::Outside | Form::Within if ids.is_empty() => return None,
            Form::Outside => {
                let x = b.input(&log, &ids, *dtype, None);
                let next = one_further(&mut b, ids[0])?;
                b.at(x, ids[0], next).ok()?
            }
            Form::Within => {
                let (next, length) = (one_further(&mut b, ids[0])?, extent_of(&mut b, ids[0]));
                b.map(MapOp::Lt, &[next, length]).ok()?
            }
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
                // Of data alone it is not known that they are above -inf.
                let x = b.input(&log, &ids, *dtype, None);
                let (x, four) = (b.map(MapOp::Tanh, &[x]).ok()?, b.constant(Const::f32(4.0)));
                let x = b.map(MapOp::Mul, &[x, four]).ok()?;
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

/// How the names of inputs begin that hold -inf and NaN.
const OPEN: &str = "open_";

fn one_further(b: &mut Builder, axis: AxisId) -> Option<NodeId> {
    let (at, one) = (b.iota(axis), b.constant(Const::I64(1)));
    b.map(MapOp::Add, &[at, one]).ok()
}

fn extent_of(b: &mut Builder, axis: AxisId) -> NodeId {
    let extent = b.extent(axis).clone();
    b.extent_of(&extent)
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
        let open = port.name.starts_with(OPEN);
        let wild = if seed == 3 { f64::NAN } else { f64::NEG_INFINITY };
        let values: Vec<f64> = (0..count)
            .map(|n| match port.dtype {
                DType::Bool => f64::from(u8::from(rng.bool() && !(seed > 0 && n / row == empty_row))),
                DType::I64 | DType::I32 => f64::from(rng.u32(0..3)),
                _ if open && (rng.u8(0..4) == 0 || seed > 1 && n / row == empty_row) => wild,
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
        Holds::Exactly => equal && (left != 0.0 || left.is_sign_negative() == right.is_sign_negative()),
        Holds::ButSigns => equal,
        Holds::Rounding => equal || near,
        Holds::Refining => equal || near || (!left.is_finite() && !right.is_nan()),
    }
}

/// Tries a rule in every way. The error says on what the sides differ; `Ok` is the number of trials that it fired on.
fn check(row: &Row) -> Result<usize, String> {
    check_in(row, true)
}

/// As [`check`], in f32 too or in f64 alone.
fn check_in(row: &Row, single: bool) -> Result<usize, String> {
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
        if single && magnitudes::is_ordinary(row, &trial) {
            magnitudes::compare(row, &graph).map_err(describe)?;
        }
    }
    Ok(fired)
}

/// The value of an output at each position, in order; none where an index leaves its axis.
fn cells(oracle: &Oracle<'_>, graph: &Graph, output: usize) -> Vec<Option<f64>> {
    let (out, dims) = (&graph.outputs()[output], dims());
    let shape: Vec<i64> = out.axes.iter().map(|a| graph.extent(*a).eval(&dims).unwrap()).collect();
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

fn compare(row: &Row, graph: &Graph, seed: u64) -> Result<(), String> {
    let (inputs, params) = (hostile(graph, seed, row.holds <= Holds::ButSigns), BTreeMap::new());
    let dims = dims();
    let data = Data { inputs: &inputs, params: &params };
    let oracle = Oracle::new(graph, &dims, data).map_err(|e| e.to_string())?;
    let (left, right) = (cells(&oracle, graph, 0), cells(&oracle, graph, 1));
    let scale = left.iter().flatten().filter(|x| x.is_finite()).fold(1e-6f64, |m, x| m.max(x.abs()));
    // What the left side does not compute is nobody's business, and of NaN in data anything may be made.
    let open = graph.inputs().iter().any(|p| p.name.starts_with(OPEN));
    let matters = |l: f64| !open || l.is_finite() || l == f64::NEG_INFINITY;
    for (l, r) in left.iter().zip(&right) {
        match (l, r) {
            (Some(l), None) if matters(*l) => return Err(format!("{l} became a read outside of an axis")),
            (Some(l), Some(r)) if matters(*l) && !agrees(row.holds, *l, *r, scale) => {
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
