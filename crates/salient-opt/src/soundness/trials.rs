//! How a rule is tried: what its variables stand for, the graph of both its sides, and data for that.

use crate::lang::{Tag, Term};
use crate::rules::{Guard, Holds, Rule, RuleRow, declared};
use egg::{ENodeOrVar, PatternAst};
use salient_ir::array::Array;
use salient_ir::{AxisId, Bindings, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// The axes that rules name, each with its extent as a dimension (none for one position) and one more or not; `c` is `j` with
/// `u` behind it.
const AXES: &[(&str, Option<&str>, i64)] = &[
    ("i", Some("N"), 0),
    ("j", Some("S"), 0),
    ("e", Some("E"), 0),
    ("f", Some("F"), 0),
    ("k", Some("K"), 0),
    ("u", None, 1),
    ("c", Some("S"), 1),
];

/// The values of those dimensions. `i` and `j` are equally long, so that a causal mask between them makes sense.
const SIZES: &[(&str, i64)] = &[("N", 3), ("S", 3), ("E", 2), ("F", 2), ("K", 4)];

/// The extent of an axis that rules name.
fn extent((_, symbol, more): &(&str, Option<&str>, i64)) -> Dim {
    let more = Dim::constant(*more);
    symbol.map_or(more.clone(), |symbol| &Dim::symbol(symbol) + &more)
}

/// What a variable is tried as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TrialData {
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
    /// A sum of products of inputs: for variables of which the rule asks that they are such.
    Summed,
    /// As `Summed`, -inf where a mask of data says so: whole rows of it too.
    SummedMasked,
    /// A logarithm of a plain input: NaN, -inf and numbers. Only for rules that hold exactly.
    NotFinite,
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
    /// What an axis without positions makes infinite or false.
    Over(Along, &'static str),
}

/// What runs along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Along {
    /// The greatest of an input: -inf where the axis has no positions.
    Greatest,
    /// One over the sum of an input.
    OverSum,
    /// One over the number of positions.
    OverExtent,
    /// True if there is a position.
    IsFilled,
}

const FLOATS: &[TrialData] = &[
    TrialData::Plain,
    TrialData::Masked,
    TrialData::Causal,
    TrialData::Positive,
    TrialData::NonNegative,
    TrialData::NotFinite,
    TrialData::Infinite,
    TrialData::Literal(-2e4),
    TrialData::Literal(-2.0),
    TrialData::Literal(0.5),
    TrialData::Literal(0.0),
    TrialData::Literal(f32::NEG_INFINITY),
];
/// Literals of which some are reciprocals of each other.
const RECIPROCALS: &[TrialData] = &[TrialData::Literal(0.5), TrialData::Literal(2.0)];
/// What variables are tried as together, beside the above: masked and missing operands under each other.
const OPEN_FLOATS: &[TrialData] =
    &[TrialData::Plain, TrialData::Open, TrialData::Outside, TrialData::Literal(0.0)];
const OPEN_BOOLS: &[TrialData] = &[TrialData::Plain, TrialData::Outside, TrialData::Within];
const BOOLS: &[TrialData] =
    &[TrialData::Plain, TrialData::Causal, TrialData::Always(true), TrialData::Always(false)];

/// What variables are tried as beside one that an axis without positions makes infinite.
const BESIDE_FLOATS: &[TrialData] = &[TrialData::Plain, TrialData::Positive, TrialData::Literal(-2e4)];
const BESIDE_BOOLS: &[TrialData] = &[TrialData::Plain, TrialData::Causal];

/// What a row is tried for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Everything that a type admits.
    Any,
    /// Masked and missing operands.
    Open,
    /// Operands that axes without positions make infinite.
    Empty,
}

fn forms(dtype: DType, row: &RuleRow, purpose: Purpose) -> Vec<TrialData> {
    let list = match (dtype, purpose) {
        (DType::F32, Purpose::Open) => OPEN_FLOATS,
        (DType::Bool, Purpose::Open) => OPEN_BOOLS,
        (DType::F32, Purpose::Any) => FLOATS,
        (DType::Bool, Purpose::Any) => BOOLS,
        (DType::F32, Purpose::Empty) => BESIDE_FLOATS,
        (DType::Bool, Purpose::Empty) => BESIDE_BOOLS,
        (DType::I64 | DType::I32, _) => &[TrialData::Index],
        (DType::F16 | DType::BF16, _) => &[],
    };
    let may_be_infinite_or_nan = |f: &TrialData| matches!(f, TrialData::NotFinite | TrialData::Infinite);
    list.iter().copied().filter(|f| row.holds <= Holds::ButSigns || !may_be_infinite_or_nan(f)).collect()
}

/// One way of trying a rule: what each variable is.
pub(super) type Trial = Vec<Variable>;

/// What a variable is in a trial.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: &'static str,
    dtype: DType,
    pub(super) form: TrialData,
    pub(super) axes: Vec<&'static str>,
}

fn axis_variables(row: &RuleRow) -> BTreeSet<&'static str> {
    let mut out = BTreeSet::new();
    for part in row.left.split('@').skip(1) {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        out.insert(&part[..end]);
    }
    out
}

/// Every combination of forms over the declared axes, and every single variable over other axes.
pub(super) fn trials(row: &RuleRow) -> Vec<Trial> {
    let is_open = |trial: &Trial| {
        trial
            .iter()
            .any(|variable| matches!(variable.form, TrialData::Open | TrialData::Outside | TrialData::Within))
    };
    let mut all = trials_of(row, Purpose::Any);
    all.extend(trials_of(row, Purpose::Open).into_iter().filter(is_open));
    all.extend(trials_without_positions(row));
    all
}

/// Each variable by itself as what an axis without positions makes infinite or false: one of the rule's, or another one.
fn trials_without_positions(row: &RuleRow) -> Vec<Trial> {
    let axes: Vec<&str> = axis_variables(row).into_iter().chain(["k"]).collect();
    let mut out = Vec::new();
    for trial in combinations_of(row, Purpose::Empty) {
        for (n, variable) in trial.iter().enumerate().filter(|(_, v)| v.form == TrialData::Plain) {
            for axis in axes.iter().filter(|axis| !variable.axes.contains(axis)) {
                let made: &[Along] = match variable.dtype {
                    DType::F32 => &[Along::Greatest, Along::OverSum, Along::OverExtent],
                    DType::Bool => &[Along::IsFilled],
                    DType::I32 | DType::I64 | DType::F16 | DType::BF16 => &[],
                };
                for made in made {
                    let mut trial = trial.clone();
                    trial[n].form = TrialData::Over(*made, axis);
                    out.push(trial);
                }
            }
        }
    }
    out
}

fn combinations_of(row: &RuleRow, purpose: Purpose) -> Vec<Trial> {
    let mut combinations: Vec<Trial> = vec![vec![]];
    for (name, text) in row.vars {
        let (dtype, axes) = declared(text);
        let mut next = Vec::new();
        for trial in &combinations {
            let factor = row.when.contains(&Guard::Factor(name));
            let rounded = row.when.contains(&Guard::Rounded(name)) && purpose == Purpose::Any;
            let summed: &[TrialData] =
                if rounded { &[TrialData::Summed, TrialData::SummedMasked] } else { &[] };
            let is_reciprocal =
                |guard: &Guard| matches!(guard, Guard::Reciprocals(x, y) if [x, y].contains(&name));
            let is_literal = row.when.iter().any(is_reciprocal);
            let of_type = if is_literal { RECIPROCALS.to_vec() } else { forms(dtype, row, purpose) };
            let forms = of_type.into_iter().chain(summed.iter().copied());
            for form in forms.filter(|f| !factor || *f != TrialData::Open) {
                let mut trial = trial.clone();
                trial.push(Variable { name, dtype, form, axes: axes.clone() });
                next.push(trial);
            }
        }
        combinations = next;
    }
    combinations
}

fn trials_of(row: &RuleRow, purpose: Purpose) -> Vec<Trial> {
    let combinations = combinations_of(row, purpose);
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
                trial[n].axes = other.clone();
                out.push(trial);
            }
        }
    }
    out
}

/// Whether the operands are such at sizes of which one is zero that the sides must agree: factors are numbers, and what is
/// made of a dimension is so by the contract.
pub(super) fn keeps_contract(row: &RuleRow, trial: &Trial, sizes: &Bindings) -> bool {
    trial.iter().all(|variable| {
        let factor = row.when.contains(&Guard::Factor(variable.name));
        match variable.form {
            TrialData::Masked
            | TrialData::SummedMasked
            | TrialData::Causal
            | TrialData::Open
            | TrialData::Literal(f32::NEG_INFINITY) => !factor,
            TrialData::Over(Along::OverExtent, axis) => {
                let axis = AXES.iter().find(|known| known.0 == axis).expect("an axis that rules name");
                extent(axis).eval(sizes) != Ok(0)
            }
            TrialData::Plain
            | TrialData::Summed
            | TrialData::Positive
            | TrialData::NonNegative
            | TrialData::NotFinite
            | TrialData::Infinite => true,
            TrialData::Literal(_)
            | TrialData::Always(_)
            | TrialData::Index
            | TrialData::Outside
            | TrialData::Within => true,
            TrialData::Over(Along::Greatest | Along::OverSum | Along::IsFilled, _) => true,
        }
    })
}

/// A trial made concrete: the node of each variable.
pub(super) struct Instance {
    pub(super) b: Builder,
    pub(super) vars: BTreeMap<&'static str, NodeId>,
    pub(super) axes: BTreeMap<&'static str, AxisId>,
}

pub(super) fn instantiate(trial: &Trial) -> Option<Instance> {
    let mut b = Builder::new("trial");
    let axes: BTreeMap<&str, AxisId> =
        AXES.iter().map(|axis| (axis.0, b.axis_id(axis.0, &extent(axis)))).collect();
    let mut vars = BTreeMap::new();
    for Variable { name, dtype, form, axes: own } in trial {
        let ids: Vec<AxisId> = own.iter().map(|a| axes[a]).collect();
        let word = name.trim_start_matches('?');
        let causal = |b: &mut Builder| {
            let (i, j) = (b.iota(axes["i"]), b.iota(axes["j"]));
            b.map(MapOp::Le, &[j, i]).ok()
        };
        // Not a name that `hostile` fills with huge values: an exponential must stay inside the range of floats.
        let log = format!("log_{word}");
        let both = own.contains(&"i") && own.contains(&"j");
        let node = match form {
            TrialData::Plain | TrialData::Index => b.input(word, &ids, *dtype, None),
            TrialData::Open => b.input(&format!("{OPEN}{word}"), &ids, *dtype, None),
            TrialData::Outside | TrialData::Within if ids.is_empty() => return None,
            TrialData::Outside => {
                let x = b.input(&log, &ids, *dtype, None);
                let next = one_further(&mut b, ids[0])?;
                b.at(x, ids[0], next).ok()?
            }
            TrialData::Within => {
                let (next, length) = (one_further(&mut b, ids[0])?, extent_of(&mut b, ids[0]));
                b.map(MapOp::Lt, &[next, length]).ok()?
            }
            TrialData::Causal if !both => return None,
            TrialData::Causal if *dtype == DType::Bool => causal(&mut b)?,
            TrialData::Causal => {
                let x = b.input(word, &ids, *dtype, None);
                let keep = causal(&mut b)?;
                masked(&mut b, keep, x, f32::NEG_INFINITY)?
            }
            TrialData::Masked | TrialData::SummedMasked => {
                let given = *form == TrialData::Masked;
                let x = if given {
                    b.input(word, &ids, *dtype, None)
                } else {
                    summed(&mut b, &axes, word, &ids)?
                };
                let keep = b.input(&format!("{word}_keep"), &ids, DType::Bool, None);
                masked(&mut b, keep, x, f32::NEG_INFINITY)?
            }
            TrialData::Summed => summed(&mut b, &axes, word, &ids)?,
            TrialData::Positive => {
                // Of data alone it is not known that they are above -inf.
                let x = b.input(&log, &ids, *dtype, None);
                let (x, four) = (b.map(MapOp::Tanh, &[x]).ok()?, b.constant(Const::f32(4.0)));
                let x = b.map(MapOp::Mul, &[x, four]).ok()?;
                b.map(MapOp::Exp, &[x]).ok()?
            }
            TrialData::NonNegative => {
                let x = b.input(&log, &ids, *dtype, None);
                let e = b.map(MapOp::Exp, &[x]).ok()?;
                let keep = b.input(&format!("{word}_keep"), &ids, DType::Bool, None);
                masked(&mut b, keep, e, 0.0)?
            }
            TrialData::NotFinite => {
                let x = b.input(word, &ids, *dtype, None);
                b.map(MapOp::Log, &[x]).ok()?
            }
            TrialData::Infinite => {
                let x = b.input(word, &ids, *dtype, None);
                b.map(MapOp::Recip, &[x]).ok()?
            }
            TrialData::Over(along, axis) => {
                let all: Vec<AxisId> = ids.iter().copied().chain([axes[axis]]).collect();
                let x = b.input(&format!("{word}_along"), &all, *dtype, None);
                over(&mut b, *along, axes[axis], x)?
            }
            TrialData::Literal(_) | TrialData::Always(_) if !own.is_empty() => return None,
            TrialData::Literal(x) => b.constant(Const::f32(*x)),
            TrialData::Always(x) => b.constant(Const::Bool(*x)),
        };
        vars.insert(*name, node);
    }
    Some(Instance { b, vars, axes })
}

/// A value where a mask keeps it, and another one elsewhere.
fn masked(b: &mut Builder, keep: NodeId, x: NodeId, other: f32) -> Option<NodeId> {
    let other = b.constant(Const::f32(other));
    b.map(MapOp::Select, &[keep, x, other]).ok()
}

/// A sum of products, which is rounded at the scale of what it is made of.
fn summed(
    b: &mut Builder,
    axes: &BTreeMap<&'static str, AxisId>,
    word: &str,
    ids: &[AxisId],
) -> Option<NodeId> {
    let all: Vec<AxisId> = ids.iter().copied().chain([axes["k"]]).collect();
    let [x, y] = ["left", "right"].map(|side| b.input(&format!("{word}_{side}"), &all, DType::F32, None));
    let product = b.map(MapOp::Mul, &[x, y]).ok()?;
    b.reduce(ReduceOp::Sum, axes["k"], product).ok()
}

/// What runs along an axis, over `x` if it is over a value.
fn over(b: &mut Builder, along: Along, axis: AxisId, x: NodeId) -> Option<NodeId> {
    match along {
        Along::Greatest => b.reduce(ReduceOp::Max, axis, x).ok(),
        Along::OverSum => {
            let sum = b.reduce(ReduceOp::Sum, axis, x).ok()?;
            b.map(MapOp::Recip, &[sum]).ok()
        }
        Along::OverExtent => {
            let extent = extent_of(b, axis);
            let number = b.map(MapOp::ToF32, &[extent]).ok()?;
            b.map(MapOp::Recip, &[number]).ok()
        }
        Along::IsFilled => {
            let (at, zero) = (b.iota(axis), b.constant(Const::I64(0)));
            let inside = b.map(MapOp::Le, &[zero, at]).ok()?;
            b.reduce(ReduceOp::Any, axis, inside).ok()
        }
    }
}

/// How the names of inputs begin that hold -inf and NaN.
pub(super) const OPEN: &str = "open_";

fn one_further(b: &mut Builder, axis: AxisId) -> Option<NodeId> {
    let (at, one) = (b.iota(axis), b.constant(Const::I64(1)));
    b.map(MapOp::Add, &[at, one]).ok()
}

fn extent_of(b: &mut Builder, axis: AxisId) -> NodeId {
    let extent = b.extent(axis).clone();
    b.extent_of(&extent)
}

/// A side of a rule as a node; `None` if it is not well-typed on this instance.
pub(super) fn build(instance: &mut Instance, side: &PatternAst<Term>) -> Option<NodeId> {
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
                    Tag::CumSum(direction) => Op::CumSum(direction, axes[0]),
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
pub(super) fn both_sides(instance: &mut Instance, rule: &Rule) -> Result<Option<Graph>, String> {
    let Some(left) = build(instance, &rule.left.ast) else { return Ok(None) };
    let right = build(instance, &rule.right).ok_or("the right side is not well-typed")?;
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

pub(super) fn dims() -> Bindings {
    SIZES.iter().map(|(symbol, n)| ((*symbol).into(), *n)).collect()
}

/// The same with each dimension in turn zero.
pub(super) fn dims_with_a_zero() -> impl Iterator<Item = Bindings> {
    SIZES.iter().map(|(zero, _)| {
        SIZES.iter().map(|(symbol, n)| ((*symbol).into(), if symbol == zero { 0 } else { *n })).collect()
    })
}

/// Values for every input: the first seed has no special values, later ones have zeros and empty rows.
pub(super) fn hostile(g: &Graph, dims: &Bindings, seed: u64, huge: bool) -> BTreeMap<String, Array> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut out = BTreeMap::new();
    for port in g.inputs() {
        let shape: Vec<usize> = port.axes.iter().map(|a| g.extent(*a).eval(dims).unwrap() as usize).collect();
        let count: usize = shape.iter().product();
        let row = shape.last().copied().unwrap_or(1).max(1);
        let huge = huge && !port.name.starts_with("log_");
        let empty_row = rng.usize(0..count.div_ceil(row).max(1));
        let open = port.name.starts_with(OPEN);
        let not_finite = if seed == 3 { f64::NAN } else { f64::NEG_INFINITY };
        let values: Vec<f64> = (0..count)
            .map(|n| match port.dtype {
                DType::Bool => f64::from(u8::from(rng.bool() && !(seed > 0 && n / row == empty_row))),
                DType::I64 | DType::I32 => f64::from(rng.u32(0..3)),
                _ if open && (rng.u8(0..4) == 0 || seed > 1 && n / row == empty_row) => not_finite,
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
