//! The table of scalar operators: what is true of each, in one row.
//!
//! A pass reads the row, and has an arm of its own only for an operator of which it knows more than the row says. What a pass
//! does with all others is right for any operator: it takes nothing to be known of them.

use super::Typing;
use super::curve::Curve;
use super::math;
use super::notation::{Binding, Notation};
use crate::dim::range::Range;
use crate::ty::DType;

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

/// A row of the table of scalar operators.
#[derive(Debug)]
pub struct MapInfo {
    /// The operator that the row describes.
    pub op: MapOp,
    /// The name in every text.
    pub name: &'static str,
    /// How it is written.
    pub notation: Notation,
    /// Number of arguments.
    pub arity: usize,
    /// Typing rule: by it an operator gives numbers, integers or truth values.
    pub typing: Typing,
    /// Whether swapping its two arguments leaves the value unchanged.
    pub commutative: bool,
    /// About how many additions take as long as one application: 10 or more for a function that is a polynomial and its
    /// preparation, a few for a division.
    pub additions: u32,
    /// Whether the result is never rounded, and so neither overflows nor underflows.
    pub exact: bool,
    /// The integers that it gives, from what its arguments may be; truth values are 0 and 1. `None` if it gives no integers.
    pub range: Option<fn(&[Range]) -> Range>,
    /// What is true of it as a function of one number.
    pub curve: Option<Curve>,
    /// The value in f64: booleans are 0 and 1, integers are exact up to 2^53.
    pub eval: fn(&[f64]) -> f64,
    /// One line of documentation.
    pub doc: &'static str,
}

impl MapInfo {
    /// Whether one application costs more than reading its result: a transcendental function.
    pub fn is_costly(&self) -> bool {
        self.additions >= 10
    }
}

/// A row with nothing in it but what every operator has.
const fn row(
    op: MapOp,
    name: &'static str,
    (arity, typing): (usize, Typing),
    eval: fn(&[f64]) -> f64,
    doc: &'static str,
) -> MapInfo {
    MapInfo {
        op,
        name,
        notation: Notation::Call,
        arity,
        typing,
        commutative: false,
        additions: 1,
        exact: false,
        range: None,
        curve: None,
        eval,
        doc,
    }
}

/// `row!(operator, name, arguments, value, documentation; field: value, …)`: what a row does not say is as in [`row`].
macro_rules! row {
    ($op:ident, $name:literal, $args:expr, $eval:expr, $doc:literal $(; $($field:ident: $value:expr),+)?) => {
        MapInfo { $($($field: $value,)+)? ..row(MapOp::$op, $name, $args, $eval, $doc) }
    };
}

/// `function!(operator, name, additions, curve, value, documentation)`: a function of one number.
macro_rules! function {
    ($op:ident, $name:literal, $additions:literal, $curve:expr, $eval:expr, $doc:literal) => {
        row!($op, $name, ONE, $eval, $doc;
            notation: Notation::Function, additions: $additions, curve: Some($curve))
    };
}

const ONE: (usize, Typing) = (1, Typing::Float);
const SIGNED: (usize, Typing) = (1, Typing::Arithmetic);
const ARITHMETIC: (usize, Typing) = (2, Typing::Arithmetic);
const COMPARE: (usize, Typing) = (2, Typing::Compare);
const LOGIC: (usize, Typing) = (2, Typing::Logic);

/// The most arguments that an operator has.
pub const MOST_ARGUMENTS: usize = 4;

/// The table of scalar operators, in the order of [`MapOp`].
pub const MAPS: &[MapInfo] = {
    use Binding as B;
    use Notation::{Choice, Function, Sign};
    &[
        row!(Neg, "neg", SIGNED, |a| -a[0], "The negative.";
            notation: Sign("-", B::Sign), exact: true, range: Some(|r| r[0].negated())),
        row!(Recip, "recip", ONE, |a| 1.0 / a[0], "One divided by the value."; additions: 4),
        row!(Abs, "abs", SIGNED, |a| a[0].abs(), "The absolute value.";
            notation: Function, exact: true, range: Some(|r| r[0].abs())),
        row!(Floor, "floor", ONE, |a| a[0].floor(), "The largest integer not above.";
            notation: Function, exact: true, curve: Some(Curve::RISING)),
        function!(Exp, "exp", 10, Curve::EXP, |a| a[0].exp(), "e to the power of the value."),
        function!(Log, "log", 10, Curve::LOG, |a| a[0].ln(), "The natural logarithm."),
        function!(Sqrt, "sqrt", 4, Curve::SQRT, |a| a[0].sqrt(), "The square root."),
        function!(Tanh, "tanh", 10, Curve::SIGMOID, |a| a[0].tanh(), "The hyperbolic tangent."),
        function!(Erf, "erf", 10, Curve::SIGMOID, |a| math::erf(a[0]), "The error function."),
        function!(Sin, "sin", 10, Curve::WAVE, |a| a[0].sin(), "The sine of an angle in radians."),
        function!(Cos, "cos", 10, Curve::WAVE, |a| a[0].cos(), "The cosine of an angle in radians."),
        row!(Not, "not", (1, Typing::Logic), |a| truth(a[0] == 0.0), "Logical negation.";
            notation: Sign("not ", B::Not)),
        row!(ToF32, "f32", (1, Typing::Cast(DType::F32)), |a| a[0], "To f32; true is 1."; exact: true),
        row!(ToI32, "i32", (1, Typing::Cast(DType::I32)), |a| a[0].trunc(), "To i32, toward zero.";
            range: Some(|r| r[0])),
        row!(ToI64, "i64", (1, Typing::Cast(DType::I64)), |a| a[0].trunc(), "To i64, toward zero.";
            range: Some(|r| r[0])),
        row!(Add, "add", ARITHMETIC, |a| a[0] + a[1], "The sum.";
            notation: Sign("+", B::Sum), commutative: true, range: Some(|r| r[0].plus(r[1]))),
        row!(Sub, "sub", ARITHMETIC, |a| a[0] - a[1], "The difference.";
            notation: Sign("-", B::Sum), range: Some(|r| r[0].plus(r[1].negated()))),
        row!(Mul, "mul", ARITHMETIC, |a| a[0] * a[1], "The product.";
            notation: Sign("*", B::Product), commutative: true, range: Some(|r| r[0].times(r[1]))),
        row!(Div, "div", (2, Typing::Float), |a| a[0] / a[1], "The quotient.";
            notation: Sign("/", B::Product), additions: 4),
        row!(Pow, "pow", (2, Typing::Float), |a| a[0].powf(a[1]), "The power.";
            notation: Sign("**", B::Power), additions: 30),
        row!(Min, "min", ARITHMETIC, |a| lesser(a[0], a[1]), "The lesser; NaN if either is.";
            commutative: true, exact: true, range: Some(|r| r[0].min(r[1]))),
        row!(Max, "max", ARITHMETIC, |a| greater(a[0], a[1]), "The greater; NaN if either is.";
            commutative: true, exact: true, range: Some(|r| r[0].max(r[1]))),
        row!(IntDiv, "int_div", (2, Typing::Integer), |a| quotient(a[0], a[1]),
            "The quotient, rounded down; zero if the second argument is.";
            notation: Sign("/", B::Product), additions: 4, range: Some(|r| r[0].over(r[1]))),
        row!(Mod, "mod", (2, Typing::Integer), |a| a[0] - a[1] * quotient(a[0], a[1]),
            "The remainder of the quotient rounded down; the first argument if the second is zero.";
            notation: Sign("%", B::Product), additions: 4, range: Some(|r| r[0].modulo(r[1]))),
        row!(Eq, "eq", COMPARE, |a| truth(a[0] == a[1]), "Whether equal.";
            notation: Sign("==", B::Comparison), commutative: true),
        row!(Ne, "ne", COMPARE, |a| truth(a[0] != a[1]), "Whether different.";
            notation: Sign("!=", B::Comparison), commutative: true),
        row!(Lt, "lt", COMPARE, |a| truth(a[0] < a[1]), "Whether less."; notation: Sign("<", B::Comparison)),
        row!(Le, "le", COMPARE, |a| truth(a[0] <= a[1]), "Whether less or equal.";
            notation: Sign("<=", B::Comparison)),
        row!(And, "and", LOGIC, |a| truth(a[0] != 0.0 && a[1] != 0.0), "Whether both hold.";
            notation: Sign("and", B::And), commutative: true),
        row!(Or, "or", LOGIC, |a| truth(a[0] != 0.0 || a[1] != 0.0), "Whether one holds.";
            notation: Sign("or", B::Or), commutative: true),
        row!(Select, "select", (3, Typing::Select), |a| if a[0] != 0.0 { a[1] } else { a[2] },
            "The second argument where the first holds, else the third; the arm not taken is not evaluated.";
            notation: Choice, exact: true, range: Some(|r| r[1].union(r[2]))),
        row!(Philox, "philox", (4, Typing::Draw),
            |a| math::unit(math::philox([low(a[0]), low(a[1]), 0, 0], [low(a[2]), low(a[3])])[0]),
            "A number in [0, 1) drawn by Philox4x32-10 from two words of a counter and two of a key; the low 32 bits of each.";
            additions: 300),
    ]
};

/// A truth value as a number.
pub(super) fn truth(b: bool) -> f64 {
    f64::from(u8::from(b))
}

fn low(a: f64) -> u32 {
    a as i64 as u32
}

fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { (a / b).floor() }
}

/// The lesser of two; NaN if either is.
pub(super) fn lesser(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

/// The greater of two; NaN if either is.
pub(super) fn greater(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

impl MapOp {
    /// The operator's row.
    pub fn info(self) -> &'static MapInfo {
        &MAPS[self as usize]
    }

    /// The operator with that name.
    pub fn from_name(name: &str) -> Option<MapOp> {
        MAPS.iter().find(|row| row.name == name).map(|row| row.op)
    }
}

impl MapInfo {
    /// The sign in the text form, for operators written between (or, with one argument, before) their arguments.
    pub fn sign(&self) -> Option<&'static str> {
        match self.notation {
            Notation::Sign(sign, _) => Some(sign),
            Notation::Function | Notation::Call | Notation::Choice => None,
        }
    }

    /// How tightly it binds where it is written.
    pub fn binding(&self) -> Binding {
        match self.notation {
            Notation::Sign(_, binding) => binding,
            Notation::Choice => Binding::Choice,
            Notation::Function | Notation::Call => Binding::Atom,
        }
    }

    /// Whether an integer that it gives may lie outside of the 32 bits in which its arguments lie.
    pub fn widens(&self) -> bool {
        self.range.is_some_and(|range| !Range::I32.holds(range(&[Range::I32; 3])))
    }
}

/// The functions of one number that the language has by their names, in the order of the table.
pub fn functions() -> impl Iterator<Item = &'static MapInfo> {
    MAPS.iter().filter(|row| row.notation == Notation::Function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_operator() {
        for (at, row) in MAPS.iter().enumerate() {
            assert_eq!(row.op as usize, at, "{}", row.name);
            assert_eq!(MapOp::from_name(row.name), Some(row.op));
            assert!(row.arity <= super::MOST_ARGUMENTS, "{}", row.name);
        }
    }

    #[test]
    fn what_gives_integers_has_a_range_of_them() {
        for row in MAPS {
            let gives = match row.typing {
                Typing::Arithmetic | Typing::Integer | Typing::Select => true,
                Typing::Cast(to) => to.is_int(),
                Typing::Float | Typing::Compare | Typing::Logic | Typing::Draw => false,
            };
            assert_eq!(row.range.is_some(), gives, "{}", row.name);
        }
        let wide = MAPS.iter().filter(|row| row.widens()).map(|row| row.name);
        assert_eq!(wide.collect::<Vec<_>>(), ["neg", "abs", "add", "sub", "mul", "int_div"]);
    }

    /// On small integers.
    #[test]
    fn ranges_hold_the_values_of_their_operators() {
        let few = [-3.0, -1.0, 0.0, 1.0, 2.0, 5.0];
        for row in MAPS {
            let Some(range) = row.range else { continue };
            let triples = few.iter().flat_map(|a| few.iter().map(move |b| [*a, *b, 1.0]));
            for args in triples.filter(|args| args[1] != 0.0) {
                let of = args.map(|a| Range::only(a as i64));
                let value = (row.eval)(&args[..row.arity]);
                assert!(range(&of).holds(Range::only(value as i64)), "{} of {args:?}: {value}", row.name);
            }
        }
    }

    #[test]
    fn those_that_commute_do() {
        let few = [-3.0, -0.5, 0.0, 1.0, 2.0];
        for row in MAPS.iter().filter(|row| row.arity == 2) {
            let pairs = few.iter().flat_map(|a| few.iter().map(move |b| (*a, *b)));
            let same = |(a, b): (f64, f64)| (row.eval)(&[a, b]) == (row.eval)(&[b, a]);
            assert_eq!(pairs.into_iter().all(same), row.commutative, "{}", row.name);
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
