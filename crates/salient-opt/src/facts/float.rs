//! The facts about f32 values from those about their arguments: one function for each kind of elementwise operator.

use super::affine::Affine;
use super::witness::Witnesses;
use super::{Facts, Known, Proof, Properties, Property};
use crate::options::Fp;
use Property::{Finite, NonNegative, Positive, Score, Unit, Unmasked};
use salient_ir::op::Curve;
use salient_ir::{Const, DType, Dim, MapOp};

/// What is known of the elements of an f32 value.
#[derive(Default)]
pub(super) struct Floats {
    pub(super) properties: Properties,
    pub(super) finite_at: Witnesses,
    pub(super) positive_at: Witnesses,
}

/// What may stand in a product by the contract: numbers as they were given, and what is known not to be -inf.
pub(super) fn is_factor(x: &Facts) -> Proof {
    Proof::from(x.given) | x.has(Property::Unmasked)
}

/// What is known of the result of an operator.
#[expect(clippy::wildcard_enum_match_arm, reason = "of other operators their rows say what is known")]
pub(super) fn float(op: MapOp, args: &[&Facts], known: &Known) -> Floats {
    let args = Args(args);
    match op {
        MapOp::Neg => negative(&args),
        MapOp::Abs => magnitude(&args),
        MapOp::Recip => reciprocal(&args),
        MapOp::Exp => exponential(&args),
        MapOp::Log => logarithm(&args),
        MapOp::Sqrt => root(&args),
        MapOp::ToF32 => number(args.0[0], known),
        MapOp::Add => sum(&args),
        MapOp::Sub => difference(&args),
        MapOp::Mul => product(&args),
        MapOp::Div => quotient(&args),
        MapOp::Min | MapOp::Max => extreme(op, &args),
        MapOp::Select => choice(&args),
        _ => curve(op, &args),
    }
}

/// The facts about the arguments.
struct Args<'a>(&'a [&'a Facts]);

impl Args<'_> {
    fn has(&self, n: usize, property: Property) -> Proof {
        self.0[n].has(property)
    }

    fn all(&self, property: Property) -> Proof {
        self.every(|x| x.has(property))
    }

    /// Where something is known of all.
    fn every(&self, of: impl Fn(&Facts) -> Proof) -> Proof {
        self.0.iter().fold(Proof::ALWAYS, |all, x| all & of(x))
    }

    /// Where all are finite.
    fn finite_at(&self) -> Witnesses {
        self.0.iter().fold(Witnesses::everywhere_if(true), |at, x| at.and(&x.finite_at))
    }

    /// Where all are above zero.
    fn positive_at(&self) -> Witnesses {
        self.0.iter().fold(Witnesses::everywhere_if(true), |at, x| at.and(&x.positive_at))
    }

    /// Where all are finite, as the factors of a product.
    fn factors_finite_at(&self) -> Witnesses {
        let number = |x: &Facts| Witnesses::everywhere_if(is_factor(x) & x.has(Finite));
        let of = |x: &Facts| number(x).or(&x.finite_at);
        self.0.iter().fold(Witnesses::everywhere_if(true), |at, x| at.and(&of(x)))
    }

    /// The value of a literal.
    fn literal(&self, n: usize) -> Option<f64> {
        self.0[n].constant.map(Const::value)
    }
}

/// The negative of a number.
fn negative(args: &Args<'_>) -> Floats {
    let finite = args.has(0, Finite);
    // What is at most -inf's opposite: +inf is outside of the contract.
    let properties = Properties::default().with_if(finite, Finite).with_if(finite, Unmasked);
    Floats { properties, finite_at: args.finite_at(), ..Floats::default() }
}

/// What the row says of a function that is defined everywhere; of others nothing is known.
fn curve(op: MapOp, args: &Args<'_>) -> Floats {
    let Some(curve) = op.info().curve.filter(Curve::is_total) else { return Floats::default() };
    let properties = Properties::default()
        .with_if(args.has(0, Finite), Finite)
        .with_if(curve.least.is_finite(), Unmasked)
        .with_if(Proof::from(curve.rises) & args.has(0, Unmasked), Unmasked)
        .with_if(Proof::from(curve.least >= 0.0) & args.has(0, Score), NonNegative);
    Floats { properties, finite_at: args.finite_at(), ..Floats::default() }
}

fn magnitude(args: &Args<'_>) -> Floats {
    let has = |property| args.has(0, property);
    let none = Properties::default();
    let properties = none.with_if(has(Finite), Finite).with_if(has(Score), NonNegative).with(Unmasked);
    Floats { properties, finite_at: args.finite_at(), ..Floats::default() }
}

fn reciprocal(args: &Args<'_>) -> Floats {
    let has = |property| args.has(0, property);
    let properties = Properties::default()
        .with_if(has(Positive) & has(Finite), Positive)
        .with_if(has(Positive), Finite)
        .with_if(has(Positive), Unmasked);
    Floats { properties, ..Floats::default() }
}

fn exponential(args: &Args<'_>) -> Floats {
    let has = |property| args.has(0, property);
    let properties = Properties::default()
        .with_if(has(Score), Finite)
        .with_if(has(Score), NonNegative)
        .with_if(has(Finite) & has(Unmasked), Positive)
        .with(Unmasked);
    Floats { properties, finite_at: args.finite_at(), positive_at: args.finite_at() }
}

fn logarithm(args: &Args<'_>) -> Floats {
    let number = args.has(0, Positive) & args.has(0, Finite);
    let properties = Properties::default().with_if(number, Finite).with_if(number, Unmasked);
    Floats { properties, ..Floats::default() }
}

fn root(args: &Args<'_>) -> Floats {
    let has = |property| args.has(0, property);
    let properties = Properties::default()
        .with(Unmasked)
        .with_if(has(NonNegative) & has(Finite), Finite)
        .with_if(has(NonNegative), NonNegative)
        .with_if(has(Positive), Positive);
    Floats { properties, ..Floats::default() }
}

/// A truth value or an integer as a number.
fn number(x: &Facts, known: &Known) -> Floats {
    let none = Properties::default();
    if x.dtype == DType::Bool {
        return Floats {
            properties: none.with(Unit),
            positive_at: x.true_at.clone(),
            finite_at: Witnesses::nowhere(),
        };
    }
    let at_least = |by: i64| {
        let Some(v) = &x.affine else { return Proof::NONE };
        let v = Affine { offset: &v.offset - &Dim::constant(by), ..v.clone() };
        let of = |axis| known.extent(axis);
        let here = x.axes.as_slice().iter().map(|a| of(*a));
        if known.assumptions.never_negative(&v, here, of) {
            return Proof::ALWAYS;
        }
        // A number made of a dimension is one of the contract: that of a filled axis.
        let by_contract =
            known.fp == Fp::Default && known.assumptions.never_negative(&v, known.extents.iter(), of);
        if by_contract { known.counted(&v.offset) } else { Proof::NONE }
    };
    let properties =
        none.with(Finite).with(Unmasked).with_if(at_least(0), NonNegative).with_if(at_least(1), Positive);
    Floats { properties, ..Floats::default() }
}

fn sum(args: &Args<'_>) -> Floats {
    let any_positive = args.has(0, Positive) | args.has(1, Positive);
    let properties = Properties::default()
        .with_if(args.all(Finite), Finite)
        .with_if(args.all(Score), Score)
        .with_if(args.all(Unmasked), Unmasked)
        .with_if(args.all(NonNegative), NonNegative)
        .with_if(args.all(NonNegative) & any_positive, Positive);
    Floats { properties, finite_at: args.finite_at(), ..Floats::default() }
}

fn difference(args: &Args<'_>) -> Floats {
    let properties = Properties::default()
        .with_if(args.all(Finite), Finite)
        .with_if(args.has(0, Score) & args.has(1, Finite), Score)
        .with_if(args.has(0, Unmasked) & args.has(1, Finite), Unmasked);
    Floats { properties, finite_at: args.finite_at(), ..Floats::default() }
}

fn product(args: &Args<'_>) -> Floats {
    let all = |property| args.all(property);
    let scales = |a: usize, b: usize| args.has(a, Score) & args.has(b, Positive) & args.has(b, Finite);
    let literals = (args.literal(0), args.literal(1));
    // A value and a literal are no product: -inf stays what it is, and becomes +inf by a negative one.
    let unmasked = match literals {
        (None, None) => args.every(is_factor),
        (Some(c), _) => (Proof::from(c < 0.0) | args.has(1, Unmasked)) & Proof::from(c != 0.0),
        (None, Some(c)) => (Proof::from(c < 0.0) | args.has(0, Unmasked)) & Proof::from(c != 0.0),
    };
    let properties = Properties::default()
        .with_if(all(Finite), Finite)
        .with_if(all(Finite) & unmasked, Unmasked)
        .with_if(scales(0, 1) | scales(1, 0), Score)
        .with_if(all(Finite) & all(NonNegative), NonNegative)
        .with_if(all(Finite) & all(Positive), Positive)
        .with_if(all(Unit), Unit);
    let finite_at = match literals {
        (None, None) => args.factors_finite_at(),
        (Some(_), _) | (None, Some(_)) => args.finite_at(),
    };
    let positive_at = args.positive_at().only(all(Finite));
    Floats { properties, finite_at, positive_at }
}

fn quotient(args: &Args<'_>) -> Floats {
    let safe = args.has(0, Finite) & args.has(1, Positive);
    let properties = Properties::default()
        .with_if(safe, Finite)
        .with_if(safe & is_factor(args.0[0]), Unmasked)
        .with_if(safe & args.has(0, NonNegative), NonNegative);
    Floats { properties, ..Floats::default() }
}

/// The lesser or the greater of two.
fn extreme(op: MapOp, args: &Args<'_>) -> Floats {
    // The greater of -inf and a number is a number.
    let greater = Proof::from(op == MapOp::Max);
    let lifts = |a: usize, b: usize| greater & args.has(a, Score) & args.has(b, Finite);
    let kept = greater & (args.has(0, Unmasked) | args.has(1, Unmasked));
    let both = args.0[0].properties.and(args.0[1].properties);
    let properties = both.with_if(lifts(0, 1) | lifts(1, 0), Finite).with_if(kept, Unmasked);
    Floats { properties, finite_at: args.finite_at(), positive_at: args.positive_at() }
}

fn choice(args: &Args<'_>) -> Floats {
    let [c, a, b] = args.0 else { unreachable!("select takes three arguments") };
    Floats {
        properties: a.properties.and(b.properties),
        finite_at: Witnesses::of_choice(c, &a.finite_at, &b.finite_at),
        positive_at: Witnesses::of_choice(c, &a.positive_at, &b.positive_at),
    }
}

/// Where an axis without positions makes no infinity or NaN of what was a number.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are finite for what is")]
pub(super) fn regular(op: MapOp, args: &[&Facts]) -> Proof {
    let args = Args(args);
    let positive = |n: usize| args.has(n, Positive) | args.0[n].filled;
    let numbers = args.every(|x| x.regular);
    match op {
        MapOp::Recip | MapOp::Log => numbers & positive(0),
        MapOp::Div => numbers & positive(1),
        MapOp::Pow => numbers & positive(0),
        // A number below zero has no root.
        MapOp::Sqrt => numbers & (args.has(0, NonNegative) | args.0[0].filled),
        _ => numbers,
    }
}
