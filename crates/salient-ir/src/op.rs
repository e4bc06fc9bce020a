//! The operators: one closed vocabulary and the one table of what is true of each.
//!
//! A row's mnemonic is *the* name: the builtin of the language, the word of the text form and the symbol in the
//! optimiser's rules. Typing, evaluation and code generation go by class. Nothing here knows about graphs.

use crate::axis::AxisId;
use crate::dim::Dim;
use crate::range::Range;
use crate::ty::DType;
use smallvec::SmallVec;

/// A scalar operator, applied element by element over the union of its arguments' axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the table below documents each")]
pub enum MapOp {
    Neg,
    Recip,
    Abs,
    Floor,
    Exp,
    Log,
    Sqrt,
    Tanh,
    Erf,
    Sin,
    Cos,
    Not,
    ToF32,
    ToI32,
    ToI64,
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Min,
    Max,
    IntDiv,
    Mod,
    Eq,
    Ne,
    Lt,
    Le,
    And,
    Or,
    Select,
    Philox,
}

/// How the dtypes of a scalar operator's arguments give the dtype of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// `f32 … -> f32`.
    Float,
    /// The same arithmetic type (`f32` or an integer) in and out.
    Arithmetic,
    /// The same integer type in and out.
    Integer,
    /// The same type twice, `bool` out.
    Compare,
    /// `bool … -> bool`.
    Logic,
    /// `bool, t, t -> t`.
    Select,
    /// Any type to the given one.
    Cast(DType),
    /// The same integer type throughout, `f32` out.
    Draw,
}

/// A row of the table of scalar operators.
#[derive(Debug)]
pub struct MapInfo {
    /// The operator that the row describes.
    pub op: MapOp,
    /// The name in every text.
    pub name: &'static str,
    /// The sign in the text form, for operators written between (or, with one argument, before) their arguments.
    pub sign: Option<&'static str>,
    /// Number of arguments.
    pub arity: usize,
    /// Typing rule.
    pub typing: Typing,
    /// Whether swapping its two arguments leaves the value unchanged.
    pub commutative: bool,
    /// The value in f64: booleans are 0 and 1, integers are exact up to 2^53.
    pub eval: fn(&[f64]) -> f64,
    /// One line of documentation.
    pub doc: &'static str,
}

fn truth(b: bool) -> f64 {
    f64::from(u8::from(b))
}

macro_rules! row {
    ($op:ident, $name:literal, $sign:expr, $arity:literal, $typing:expr, $comm:literal, $eval:expr, $doc:literal) => {
        MapInfo {
            op: MapOp::$op,
            name: $name,
            sign: $sign,
            arity: $arity,
            typing: $typing,
            commutative: $comm,
            eval: $eval,
            doc: $doc,
        }
    };
}

/// The table of scalar operators, in the order of [`MapOp`].
pub const MAPS: &[MapInfo] = &[
    row!(Neg, "neg", Some("-"), 1, Typing::Arithmetic, false, |a| -a[0], "The negative."),
    row!(Recip, "recip", None, 1, Typing::Float, false, |a| 1.0 / a[0], "One divided by the value."),
    row!(Abs, "abs", None, 1, Typing::Arithmetic, false, |a| a[0].abs(), "The absolute value."),
    row!(Floor, "floor", None, 1, Typing::Float, false, |a| a[0].floor(), "The largest integer not above."),
    row!(Exp, "exp", None, 1, Typing::Float, false, |a| a[0].exp(), "e to the power of the value."),
    row!(Log, "log", None, 1, Typing::Float, false, |a| a[0].ln(), "The natural logarithm."),
    row!(Sqrt, "sqrt", None, 1, Typing::Float, false, |a| a[0].sqrt(), "The square root."),
    row!(Tanh, "tanh", None, 1, Typing::Float, false, |a| a[0].tanh(), "The hyperbolic tangent."),
    row!(Erf, "erf", None, 1, Typing::Float, false, |a| crate::math::erf(a[0]), "The error function."),
    row!(Sin, "sin", None, 1, Typing::Float, false, |a| a[0].sin(), "The sine of an angle in radians."),
    row!(Cos, "cos", None, 1, Typing::Float, false, |a| a[0].cos(), "The cosine of an angle in radians."),
    row!(Not, "not", Some("not "), 1, Typing::Logic, false, |a| truth(a[0] == 0.0), "Logical negation."),
    row!(ToF32, "f32", None, 1, Typing::Cast(DType::F32), false, |a| a[0], "To f32; true is 1."),
    row!(ToI32, "i32", None, 1, Typing::Cast(DType::I32), false, |a| a[0].trunc(), "To i32, toward zero."),
    row!(ToI64, "i64", None, 1, Typing::Cast(DType::I64), false, |a| a[0].trunc(), "To i64, toward zero."),
    row!(Add, "add", Some("+"), 2, Typing::Arithmetic, true, |a| a[0] + a[1], "The sum."),
    row!(Sub, "sub", Some("-"), 2, Typing::Arithmetic, false, |a| a[0] - a[1], "The difference."),
    row!(Mul, "mul", Some("*"), 2, Typing::Arithmetic, true, |a| a[0] * a[1], "The product."),
    row!(Div, "div", Some("/"), 2, Typing::Float, false, |a| a[0] / a[1], "The quotient."),
    row!(Pow, "pow", Some("**"), 2, Typing::Float, false, |a| a[0].powf(a[1]), "The power."),
    row!(
        Min,
        "min",
        None,
        2,
        Typing::Arithmetic,
        true,
        |a| lesser(a[0], a[1]),
        "The lesser; NaN if either is."
    ),
    row!(
        Max,
        "max",
        None,
        2,
        Typing::Arithmetic,
        true,
        |a| greater(a[0], a[1]),
        "The greater; NaN if either is."
    ),
    row!(
        IntDiv,
        "int_div",
        Some("/"),
        2,
        Typing::Integer,
        false,
        |a| quotient(a[0], a[1]),
        "The quotient, rounded down; zero if the second argument is."
    ),
    row!(
        Mod,
        "mod",
        Some("%"),
        2,
        Typing::Integer,
        false,
        |a| a[0] - a[1] * quotient(a[0], a[1]),
        "The remainder of the quotient rounded down; the first argument if the second is zero."
    ),
    row!(Eq, "eq", Some("=="), 2, Typing::Compare, true, |a| truth(a[0] == a[1]), "Whether equal."),
    row!(Ne, "ne", Some("!="), 2, Typing::Compare, true, |a| truth(a[0] != a[1]), "Whether different."),
    row!(Lt, "lt", Some("<"), 2, Typing::Compare, false, |a| truth(a[0] < a[1]), "Whether less."),
    row!(Le, "le", Some("<="), 2, Typing::Compare, false, |a| truth(a[0] <= a[1]), "Whether less or equal."),
    row!(
        And,
        "and",
        Some("and"),
        2,
        Typing::Logic,
        true,
        |a| truth(a[0] != 0.0 && a[1] != 0.0),
        "Whether both hold."
    ),
    row!(
        Or,
        "or",
        Some("or"),
        2,
        Typing::Logic,
        true,
        |a| truth(a[0] != 0.0 || a[1] != 0.0),
        "Whether one holds."
    ),
    row!(
        Select,
        "select",
        None,
        3,
        Typing::Select,
        false,
        |a| if a[0] != 0.0 { a[1] } else { a[2] },
        "The second argument where the first holds, else the third; the arm not taken is not evaluated."
    ),
    row!(
        Philox,
        "philox",
        None,
        3,
        Typing::Draw,
        false,
        |a| crate::math::unit(crate::math::philox([low(a[0]), 0, 0, 0], [low(a[1]), low(a[2])])[0]),
        "A number in [0, 1) drawn by Philox4x32-10 from a counter and the two words of a key; the low 32 bits of each."
    ),
];

fn low(a: f64) -> u32 {
    a as i64 as u32
}

fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { (a / b).floor() }
}

fn lesser(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

fn greater(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

impl MapOp {
    /// The operator's row.
    pub fn info(self) -> &'static MapInfo {
        &MAPS[self as usize]
    }

    /// About how many additions take as long as one application: 10 or more for a function that is a polynomial and its
    /// preparation, a few for a division.
    pub fn additions(self) -> u32 {
        match self {
            MapOp::Neg
            | MapOp::Abs
            | MapOp::Floor
            | MapOp::Not
            | MapOp::ToF32
            | MapOp::ToI32
            | MapOp::ToI64
            | MapOp::Add
            | MapOp::Sub
            | MapOp::Mul
            | MapOp::Min
            | MapOp::Max
            | MapOp::Eq
            | MapOp::Ne
            | MapOp::Lt
            | MapOp::Le
            | MapOp::And
            | MapOp::Or
            | MapOp::Select => 1,
            MapOp::Recip | MapOp::Div | MapOp::Sqrt | MapOp::IntDiv | MapOp::Mod => 4,
            MapOp::Exp | MapOp::Log | MapOp::Tanh | MapOp::Erf | MapOp::Sin | MapOp::Cos => 10,
            MapOp::Pow => 30,
            MapOp::Philox => 300,
        }
    }

    /// The range of the integers that the operator gives, from the ranges of its arguments; truth values are 0 and 1. `None` where it gives
    /// no integers.
    pub fn range(self, of: &[Range]) -> Option<Range> {
        Some(match self {
            MapOp::Add => of[0].plus(of[1]),
            MapOp::Sub => of[0].plus(of[1].negated()),
            MapOp::Mul => of[0].times(of[1]),
            MapOp::Neg => of[0].negated(),
            MapOp::Abs => of[0].abs(),
            MapOp::Min => of[0].min(of[1]),
            MapOp::Max => of[0].max(of[1]),
            MapOp::IntDiv => of[0].over(of[1]),
            MapOp::Mod => of[0].modulo(of[1]),
            MapOp::Select => of[1].union(of[2]),
            MapOp::ToI32 | MapOp::ToI64 => of[0],
            MapOp::Recip | MapOp::Floor | MapOp::Exp | MapOp::Log | MapOp::Sqrt | MapOp::Tanh => return None,
            MapOp::Erf | MapOp::Sin | MapOp::Cos | MapOp::Div | MapOp::Pow | MapOp::ToF32 => return None,
            MapOp::Eq | MapOp::Ne | MapOp::Lt | MapOp::Le | MapOp::And | MapOp::Or | MapOp::Not => {
                return None;
            }
            MapOp::Philox => return None,
        })
    }

    /// The operator with that name.
    pub fn from_name(name: &str) -> Option<MapOp> {
        MAPS.iter().find(|row| row.name == name).map(|row| row.op)
    }
}

/// An operator that combines all values along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the table below documents each")]
pub enum ReduceOp {
    Sum,
    Prod,
    Max,
    Min,
    Any,
    All,
    ArgMax,
}

/// A row of the table of reductions.
#[derive(Debug)]
pub struct ReduceInfo {
    /// The operator that the row describes.
    pub op: ReduceOp,
    /// The name in every text.
    pub name: &'static str,
    /// The value over an empty axis.
    pub empty: f64,
    /// One step: the value so far with one more element. `ArgMax` has none: it is evaluated by position.
    pub step: Option<fn(f64, f64) -> f64>,
    /// Typing of the element: `Float`/`Arithmetic` keep the dtype, `Logic` takes and gives `bool`.
    pub typing: Typing,
    /// One line of documentation.
    pub doc: &'static str,
}

/// The table of reductions, in the order of [`ReduceOp`].
pub const REDUCES: &[ReduceInfo] = &[
    ReduceInfo {
        op: ReduceOp::Sum,
        name: "sum",
        empty: 0.0,
        step: Some(|a, x| a + x),
        typing: Typing::Arithmetic,
        doc: "The sum; zero if empty.",
    },
    ReduceInfo {
        op: ReduceOp::Prod,
        name: "prod",
        empty: 1.0,
        step: Some(|a, x| a * x),
        typing: Typing::Arithmetic,
        doc: "The product; one if empty.",
    },
    ReduceInfo {
        op: ReduceOp::Max,
        name: "max",
        empty: f64::NEG_INFINITY,
        step: Some(greater),
        typing: Typing::Arithmetic,
        doc: "The greatest value; -inf if empty, NaN if one is.",
    },
    ReduceInfo {
        op: ReduceOp::Min,
        name: "min",
        empty: f64::INFINITY,
        step: Some(lesser),
        typing: Typing::Arithmetic,
        doc: "The least value; inf if empty, NaN if one is.",
    },
    ReduceInfo {
        op: ReduceOp::Any,
        name: "any",
        empty: 0.0,
        step: Some(|a, x| truth(a != 0.0 || x != 0.0)),
        typing: Typing::Logic,
        doc: "Whether one holds.",
    },
    ReduceInfo {
        op: ReduceOp::All,
        name: "all",
        empty: 1.0,
        step: Some(|a, x| truth(a != 0.0 && x != 0.0)),
        typing: Typing::Logic,
        doc: "Whether all hold.",
    },
    ReduceInfo {
        op: ReduceOp::ArgMax,
        name: "argmax",
        empty: 0.0,
        step: None,
        typing: Typing::Cast(DType::I64),
        doc: "The first position of the greatest value.",
    },
];

impl ReduceOp {
    /// The operator's row.
    pub fn info(self) -> &'static ReduceInfo {
        &REDUCES[self as usize]
    }

    /// The operator with that name.
    pub fn from_name(name: &str) -> Option<ReduceOp> {
        REDUCES.iter().find(|row| row.name == name).map(|row| row.op)
    }
}

/// An operator that only rewriting makes. Each binds one axis and has a definition in the other operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the table below documents each")]
pub enum FusedOp {
    Norm,
    Softmax,
    ExpNorm,
    Attend,
    ExpAttend,
    LogSumExp,
    SinkSoftmax,
    SinkAttend,
    WeightedSum,
    WeightedMean,
}

/// A row of the table of fused operators.
#[derive(Debug)]
pub struct FusedInfo {
    /// The operator that the row describes.
    pub op: FusedOp,
    /// The name in the text form, behind `fused.`.
    pub name: &'static str,
    /// Number of arguments.
    pub arity: usize,
    /// Whether the bound axis is gone from the result (as in a sum) or kept (as in a softmax).
    pub reduces: bool,
    /// The first argument of a position that is masked: where the operator sums values, such a position adds nothing,
    /// whatever its value.
    pub masked: f32,
    /// The definition, with `j` the bound axis.
    pub doc: &'static str,
}

/// The table of fused operators, in the order of [`FusedOp`].
pub const FUSED: &[FusedInfo] = &[
    FusedInfo {
        op: FusedOp::Norm,
        name: "norm",
        arity: 1,
        reduces: false,
        masked: 0.0,
        doc: "x / sum[j](x).",
    },
    FusedInfo {
        op: FusedOp::Softmax,
        name: "softmax",
        arity: 1,
        reduces: false,
        masked: f32::NEG_INFINITY,
        doc: "exp(s) / sum[j](exp(s)), computed from s - max[j](s); zeros where every s is -inf.",
    },
    FusedInfo {
        op: FusedOp::ExpNorm,
        name: "exp_norm",
        arity: 1,
        reduces: false,
        masked: f32::NEG_INFINITY,
        doc: "exp(s) / sum[j](exp(s)), computed from s - max[j](s); NaN where every s is -inf.",
    },
    FusedInfo {
        op: FusedOp::Attend,
        name: "attend",
        arity: 2,
        reduces: true,
        masked: f32::NEG_INFINITY,
        doc: "sum[j](softmax[j](s) * v), in one pass over j; a key of score -inf contributes nothing.",
    },
    FusedInfo {
        op: FusedOp::ExpAttend,
        name: "exp_attend",
        arity: 2,
        reduces: true,
        masked: f32::NEG_INFINITY,
        doc: "sum[j](exp_norm[j](s) * v), in one pass over j; NaN where every s is -inf.",
    },
    FusedInfo {
        op: FusedOp::LogSumExp,
        name: "log_sum_exp",
        arity: 1,
        reduces: true,
        masked: f32::NEG_INFINITY,
        doc: "log(sum[j](exp(s))), computed from s - max[j](s); -inf where every s is -inf.",
    },
    FusedInfo {
        op: FusedOp::SinkSoftmax,
        name: "sink_softmax",
        arity: 2,
        reduces: false,
        masked: f32::NEG_INFINITY,
        doc: "exp(s) / (sum[j](exp(s)) + exp(r)), computed from s - max(max[j](s), r); r is finite and does not depend on j.",
    },
    FusedInfo {
        op: FusedOp::SinkAttend,
        name: "sink_attend",
        arity: 3,
        reduces: true,
        masked: f32::NEG_INFINITY,
        doc: "Of s, v and r: sum[j](sink_softmax[j](s, r) * v), in one pass over j; a key of score -inf contributes nothing.",
    },
    FusedInfo {
        op: FusedOp::WeightedSum,
        name: "weighted_sum",
        arity: 2,
        reduces: true,
        masked: 0.0,
        doc: "Of w and v: sum[j](w * v), in one pass over j; a key of weight zero contributes nothing.",
    },
    FusedInfo {
        op: FusedOp::WeightedMean,
        name: "weighted_mean",
        arity: 2,
        reduces: true,
        masked: 0.0,
        doc: "Of w and v: sum[j](w * v) / sum[j](w), in one pass over j; a key of weight zero contributes nothing.",
    },
];

impl FusedOp {
    /// The operator's row.
    pub fn info(self) -> &'static FusedInfo {
        &FUSED[self as usize]
    }

    /// The operator with that name.
    pub fn from_name(name: &str) -> Option<FusedOp> {
        FUSED.iter().find(|row| row.name == name).map(|row| row.op)
    }
}

/// A literal. Floats are kept (and compared) by their bits, so that -0 and 0 stay two constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Const {
    /// The bits of an f32.
    F32(u32),
    /// A 32-bit integer.
    I32(i32),
    /// A 64-bit integer.
    I64(i64),
    /// A truth value.
    Bool(bool),
}

impl Const {
    /// The f32 constant `x`.
    pub fn f32(x: f32) -> Const {
        Const::F32(x.to_bits())
    }

    /// Its element type.
    pub fn dtype(self) -> DType {
        match self {
            Const::F32(_) => DType::F32,
            Const::I32(_) => DType::I32,
            Const::I64(_) => DType::I64,
            Const::Bool(_) => DType::Bool,
        }
    }

    /// Its value; a truth value is 0 or 1.
    pub fn value(self) -> f64 {
        match self {
            Const::F32(bits) => f64::from(f32::from_bits(bits)),
            Const::I32(n) => f64::from(n),
            Const::I64(n) => n as f64,
            Const::Bool(b) => truth(b),
        }
    }
}

/// What a node of the graph does. Arguments are edges of the graph, in the order that each variant states.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// The input with that position in the graph's list.
    Input(usize),
    /// The parameter with that position in the graph's list.
    Param(usize),
    /// A literal.
    Const(Const),
    /// The index along the axis, `i64`.
    Iota(AxisId),
    /// The value of a dimension, `i64`.
    Extent(Dim),
    /// A scalar operator over its arguments.
    Map(MapOp),
    /// A reduction of its one argument along the axis. An axis that is not free in the argument is still counted:
    /// the sum of ones over `T` is `T`.
    Reduce(ReduceOp, AxisId),
    /// Arguments `x, index`: `x` at position `index` of the axis. Renaming, slicing, splitting and gathering.
    At(AxisId),
    /// Its arguments one after the other along the first axis; argument `k` lies along `parts[k]`.
    Concat(AxisId, SmallVec<[AxisId; 2]>),
    /// The running sum of its argument along the axis, including the own position.
    CumSum(AxisId),
    /// A fused operator that binds the axis.
    Fused(FusedOp, AxisId),
}

/// What an operator is to a pass that treats all of a kind alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// An input or a parameter: a stored tensor.
    Port,
    /// A literal, an index or a dimension: known wherever it is read, and stored nowhere.
    Leaf,
    /// A scalar operator, element by element.
    Map,
    /// A tensor at positions that an index says.
    View,
    /// Parts one after the other.
    Concat,
    /// What combines the values along an axis that it binds: a reduction, a running sum or a fused operator.
    Bind,
}

/// The axes that an operator names, in order.
pub type OpAxes = SmallVec<[AxisId; 4]>;

impl Op {
    /// What kind of operator it is.
    pub fn class(&self) -> Class {
        match self {
            Op::Input(_) | Op::Param(_) => Class::Port,
            Op::Const(_) | Op::Iota(_) | Op::Extent(_) => Class::Leaf,
            Op::Map(_) => Class::Map,
            Op::At(_) => Class::View,
            Op::Concat(..) => Class::Concat,
            Op::Reduce(..) | Op::CumSum(_) | Op::Fused(..) => Class::Bind,
        }
    }

    /// Whether it has no arguments.
    pub fn is_source(&self) -> bool {
        matches!(self.class(), Class::Port | Class::Leaf)
    }

    /// The axis that it binds in its arguments: that of a reduction, a running sum or a fused operator.
    pub fn bound(&self) -> Option<AxisId> {
        match self {
            Op::Reduce(_, axis) | Op::CumSum(axis) | Op::Fused(_, axis) => Some(*axis),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => None,
            Op::Map(_) | Op::At(_) | Op::Concat(..) => None,
        }
    }

    /// Every axis that the operator itself names, in the order in which [`Op::map_axes`] goes through them; those of its
    /// arguments are not among them. Of a concatenation the whole comes first, then its parts.
    pub fn axes(&self) -> OpAxes {
        let mut named = OpAxes::new();
        self.map_axes(|axis| {
            named.push(axis);
            axis
        });
        named
    }

    /// The same operator over other axes.
    pub fn map_axes(&self, mut to: impl FnMut(AxisId) -> AxisId) -> Op {
        match self {
            Op::Iota(axis) => Op::Iota(to(*axis)),
            Op::Reduce(op, axis) => Op::Reduce(*op, to(*axis)),
            Op::At(axis) => Op::At(to(*axis)),
            Op::Concat(axis, parts) => Op::Concat(to(*axis), parts.iter().map(|part| to(*part)).collect()),
            Op::CumSum(axis) => Op::CumSum(to(*axis)),
            Op::Fused(op, axis) => Op::Fused(*op, to(*axis)),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Extent(_) | Op::Map(_) => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_operator() {
        for (at, row) in MAPS.iter().enumerate() {
            assert_eq!(row.op as usize, at, "{}", row.name);
            assert_eq!(MapOp::from_name(row.name), Some(row.op));
        }
        for (at, row) in REDUCES.iter().enumerate() {
            assert_eq!(row.op as usize, at, "{}", row.name);
            assert_eq!(ReduceOp::from_name(row.name), Some(row.op));
        }
        for (at, row) in FUSED.iter().enumerate() {
            assert_eq!(row.op as usize, at, "{}", row.name);
            assert_eq!(FusedOp::from_name(row.name), Some(row.op));
        }
    }

    #[test]
    fn the_axes_of_an_operator_are_those_that_are_replaced() {
        let [a, b, c] = [0, 1, 2].map(AxisId::new);
        let operators = [
            (Op::Input(0), Class::Port, vec![], None),
            (Op::Extent(Dim::symbol("T")), Class::Leaf, vec![], None),
            (Op::Iota(a), Class::Leaf, vec![a], None),
            (Op::Map(MapOp::Add), Class::Map, vec![], None),
            (Op::At(b), Class::View, vec![b], None),
            (Op::Concat(c, [a, b].into_iter().collect()), Class::Concat, vec![c, a, b], None),
            (Op::Reduce(ReduceOp::Sum, a), Class::Bind, vec![a], Some(a)),
            (Op::CumSum(b), Class::Bind, vec![b], Some(b)),
            (Op::Fused(FusedOp::Attend, c), Class::Bind, vec![c], Some(c)),
        ];
        for (op, class, axes, bound) in operators {
            assert_eq!((op.class(), op.axes().to_vec(), op.bound()), (class, axes, bound), "{op:?}");
            assert_eq!(op.is_source(), matches!(class, Class::Port | Class::Leaf), "{op:?}");
            let next = |axis: AxisId| AxisId::new(axis.index() + 1);
            let moved: Vec<AxisId> = op.axes().into_iter().map(next).collect();
            assert_eq!(op.map_axes(next).axes().to_vec(), moved, "{op:?}");
        }
    }

    #[test]
    fn integer_division_rounds_down() {
        let div = MapOp::IntDiv.info().eval;
        let rem = MapOp::Mod.info().eval;
        assert_eq!((div(&[-1.0, 4.0]), rem(&[-1.0, 4.0])), (-1.0, 3.0));
        assert_eq!((div(&[7.0, 4.0]), rem(&[7.0, 4.0])), (1.0, 3.0));
        assert_eq!((div(&[7.0, -4.0]), rem(&[7.0, -4.0])), (-2.0, -1.0));
        assert_eq!((div(&[7.0, 0.0]), rem(&[7.0, 0.0])), (0.0, 7.0));
    }
}
