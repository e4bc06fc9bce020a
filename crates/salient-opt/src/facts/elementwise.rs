//! The facts about elementwise operators: literals are folded, the rest goes by the type of the result.

use super::affine::Affine;
use super::float::{float, is_factor, regular};
use super::witness::{Position, Witnesses};
use super::{Classes, Facts, Proof, Properties, Property, integers, literal};
use crate::options::Fp;
use egg::Id;
use salient_ir::op::MOST_ARGUMENTS;
use salient_ir::{AxisSet, Const, DType, Dim, MapOp};

/// The facts about the result of an operator on the values of these classes.
pub(super) fn map(egraph: &Classes, op: MapOp, args: &[&Facts], ids: &[Id]) -> Facts {
    let known = &egraph.analysis;
    let dtype = literal::dtype(op, |n| args[n].dtype);
    let axes = args.iter().fold(AxisSet::new(), |s, a| s.union(&a.axes));
    let mut f = Facts::new(dtype, axes);
    f.constant = fold(op, dtype, args);
    f.filled = args.iter().fold(Proof::ALWAYS, |all, x| all & x.filled);
    f.regular = regular(op, args);
    match dtype {
        DType::F32 => {
            let floats = float(op, args, known);
            f = Facts {
                properties: floats.properties,
                finite_at: floats.finite_at,
                positive_at: floats.positive_at,
                ..f
            };
            let square = op == MapOp::Mul && egraph.find(ids[0]) == egraph.find(ids[1]);
            f.properties = f
                .properties
                .with_if(Proof::from(square) & args[0].has(Property::Score), Property::NonNegative);
            f.properties = f.properties.with_if(is_number(op, args, f.properties), Property::Number);
            if known.fp == Fp::Strict && !op.info().exact {
                // It may overflow and underflow: what is at least zero stays so.
                f.properties = f.properties.and(Properties::of(&[Property::NonNegative]));
                (f.finite_at, f.positive_at) = (Witnesses::nowhere(), Witnesses::nowhere());
            }
            f.rounded = rounds(op, args);
            f.given = matches!(op, MapOp::Select) && args[1..].iter().all(|a| is_factor(a) == Proof::ALWAYS);
        }
        DType::I32 | DType::I64 => {
            f.affine = integers::affine(op, args);
            f.bounds = integers::bounds(known, &f.axes, op, |n| args[n].bounds.clone());
        }
        DType::Bool => {
            truth(egraph, op, args, ids, &mut f);
            let is = |at: &Witnesses| at.everywhere() == Proof::ALWAYS;
            if is(&f.true_at) || is(&f.false_at) {
                f.constant = Some(Const::Bool(is(&f.true_at)));
            }
        }
        DType::F16 | DType::BF16 => unreachable!("storage types are widened where they are read"),
    }
    f
}

/// Whether the result was rounded at its own scale: a factor and an addend round as what they are made of is rounded.
#[expect(clippy::wildcard_enum_match_arm, reason = "of other operators it is not taken to be so")]
fn rounds(op: MapOp, args: &[&Facts]) -> bool {
    match op {
        MapOp::Add | MapOp::Sub | MapOp::Mul | MapOp::Div | MapOp::Neg => args.iter().any(|a| a.rounded),
        MapOp::Select => {
            let is = |a: &&Facts| a.rounded || a.constant.is_some();
            args[1..].iter().all(is) && args[1..].iter().any(|a| a.rounded)
        }
        _ => false,
    }
}

/// The value of an operator on literals.
fn fold(op: MapOp, dtype: DType, args: &[&Facts]) -> Option<Const> {
    let mut values = [0.0; MOST_ARGUMENTS];
    for (v, arg) in values.iter_mut().zip(args) {
        *v = arg.constant?.value();
    }
    literal::value(op, dtype, &values[..args.len()])
}

#[expect(clippy::wildcard_enum_match_arm, reason = "nothing is known of other operators")]
fn truth(egraph: &Classes, op: MapOp, args: &[&Facts], ids: &[Id], f: &mut Facts) {
    let known = &egraph.analysis;
    // `b - a + by`, of which the sign decides a comparison of `a` with `b`.
    let gap = |a: usize, b: usize, by: i64| -> Option<Affine> {
        let mut gap = args[b].affine.as_ref()?.plus(args[a].affine.as_ref()?, -1)?;
        gap.offset = &gap.offset + &Dim::constant(by);
        Some(gap)
    };
    let at_least_zero = |gap: Option<Affine>| gap.map(|g| known.nonnegative_at(&g)).unwrap_or_default();
    match op {
        MapOp::Le => {
            f.true_at = at_least_zero(gap(0, 1, 0));
            f.false_at = at_least_zero(gap(1, 0, -1));
        }
        MapOp::Lt => {
            f.true_at = at_least_zero(gap(0, 1, -1));
            f.false_at = at_least_zero(gap(1, 0, 0));
        }
        MapOp::Eq | MapOp::Ne => {
            let both = at_least_zero(gap(0, 1, 0)).and(&at_least_zero(gap(1, 0, 0)));
            let equal = both.or(&equal_where_renamed(egraph, args, ids));
            let apart = at_least_zero(gap(0, 1, -1)).or(&at_least_zero(gap(1, 0, -1)));
            (f.true_at, f.false_at) = if op == MapOp::Eq { (equal, apart) } else { (apart, equal) };
        }
        MapOp::And => {
            f.true_at = args[0].true_at.and(&args[1].true_at);
            f.false_at = args[0].false_at.or(&args[1].false_at);
        }
        MapOp::Or => {
            f.true_at = args[0].true_at.or(&args[1].true_at);
            f.false_at = args[0].false_at.and(&args[1].false_at);
        }
        MapOp::Not => {
            f.true_at = args[0].false_at.clone();
            f.false_at = args[0].true_at.clone();
        }
        MapOp::Select => {
            let [c, a, b] = args else { unreachable!("select takes three arguments") };
            f.true_at = Witnesses::of_choice(c, &a.true_at, &b.true_at);
            f.false_at = Witnesses::of_choice(c, &a.false_at, &b.false_at);
        }
        _ => {}
    }
}

/// `document[i] == document[j]` holds at `j = i`.
fn equal_where_renamed(egraph: &Classes, args: &[&Facts], ids: &[Id]) -> Witnesses {
    let mut out = Witnesses::nowhere();
    for (n, m) in [(0, 1), (1, 0)] {
        if let Some((base, from, to)) = args[n].renamed
            && egraph.find(base) == egraph.find(ids[m])
            && args[n].dtype != DType::F32
        {
            out = out.or(&Witnesses::at([(from, Position::Along(to)), (to, Position::Along(from))]));
        }
    }
    out
}

/// Where a value with these properties is NaN only where a factor is.
fn is_number(op: MapOp, args: &[&Facts], known: Properties) -> Proof {
    let number = |a: &Facts| Proof::from(a.dtype != DType::F32) | a.has(Property::Number);
    let all = |of: &dyn Fn(&Facts) -> Proof| args.iter().fold(Proof::ALWAYS, |all, a| all & of(a));
    let factor = |a: &Facts| Proof::from(a.constant.is_none()) & (Proof::from(a.given) | number(a));
    let product = Proof::from(op == MapOp::Mul) & all(&factor);
    // What is not known to be finite or -inf may be NaN by itself.
    known.has(Property::Score) & (product | all(&number))
}
