//! What is known of the result of an operator on integers.

use super::Facts;
use super::affine::Affine;
use salient_ir::{Dim, MapOp};

/// The value of an operator on integers as a function of indices.
pub(super) fn affine(op: MapOp, args: &[&Facts]) -> Option<Affine> {
    let arg = |n: usize| args[n].affine.as_ref();
    let zero = || Affine::dim(Dim::constant(0));
    match op {
        MapOp::Add => arg(0)?.plus(arg(1)?, 1),
        MapOp::Sub => arg(0)?.plus(arg(1)?, -1),
        MapOp::Neg => zero().plus(arg(0)?, -1),
        MapOp::Mul => arg(0)?.times(arg(1)?),
        MapOp::ToI32 | MapOp::ToI64 => arg(0).cloned(),
        MapOp::Recip
        | MapOp::Abs
        | MapOp::Floor
        | MapOp::Exp
        | MapOp::Log
        | MapOp::Sqrt
        | MapOp::Tanh
        | MapOp::Erf
        | MapOp::Sin
        | MapOp::Cos
        | MapOp::Not
        | MapOp::ToF32
        | MapOp::Div
        | MapOp::Pow
        | MapOp::Philox
        | MapOp::Min
        | MapOp::Max
        | MapOp::IntDiv
        | MapOp::Mod
        | MapOp::Eq
        | MapOp::Ne
        | MapOp::Lt
        | MapOp::Le
        | MapOp::And
        | MapOp::Or
        | MapOp::Select => None,
    }
}

/// The least and the greatest value of an operator on integers, from those of its arguments. `is_nonnegative` proves that a
/// dimension is at least zero.
pub(crate) fn bounds(
    is_nonnegative: impl Fn(&Dim) -> bool,
    op: MapOp,
    of: impl Fn(usize) -> Option<(Dim, Dim)>,
) -> Option<(Dim, Dim)> {
    let (zero, one) = (Dim::constant(0), Dim::constant(1));
    let at_least = |x: &Dim, least: &Dim| is_nonnegative(&(x - least));
    match op {
        MapOp::Add => Some((&of(0)?.0 + &of(1)?.0, &of(0)?.1 + &of(1)?.1)),
        MapOp::Sub => Some((&of(0)?.0 - &of(1)?.1, &of(0)?.1 - &of(1)?.0)),
        MapOp::Neg => Some((&zero - &of(0)?.1, &zero - &of(0)?.0)),
        MapOp::Mul => {
            let ((a, b), (c, d)) = (of(0)?, of(1)?);
            (at_least(&a, &zero) && at_least(&c, &zero)).then(|| (&a * &c, &b * &d))
        }
        MapOp::IntDiv => {
            let ((least, most), (by, _)) = (of(0)?, of(1)?);
            if !at_least(&least, &zero) || !at_least(&by, &one) {
                return None;
            }
            // What is below `n * by` has a quotient below `n`; what is at least zero is no greater for being divided.
            let (quotient, rest) = (&most + &one).split_multiple(&by);
            let even = rest.as_constant() == Some(0) && quotient.as_constant() != Some(0);
            Some((zero, if even { &quotient - &one } else { most }))
        }
        MapOp::Mod => {
            let (by, most) = of(1)?;
            at_least(&by, &one).then(|| (zero, &most - &one))
        }
        MapOp::Min | MapOp::Max => {
            let ((a, b), (c, d)) = (of(0)?, of(1)?);
            let pick = |x: Dim, y: Dim| {
                let (above, below) =
                    if at_least(&x, &y) { (x, y) } else { at_least(&y, &x).then_some((y, x))? };
                Some(if op == MapOp::Min { below } else { above })
            };
            Some((pick(a, c)?, pick(b, d)?))
        }
        MapOp::ToI32 | MapOp::ToI64 => of(0),
        MapOp::Recip
        | MapOp::Abs
        | MapOp::Floor
        | MapOp::Exp
        | MapOp::Log
        | MapOp::Sqrt
        | MapOp::Tanh
        | MapOp::Erf
        | MapOp::Sin
        | MapOp::Cos
        | MapOp::Not
        | MapOp::ToF32
        | MapOp::Div
        | MapOp::Pow
        | MapOp::Philox
        | MapOp::Eq
        | MapOp::Ne
        | MapOp::Lt
        | MapOp::Le
        | MapOp::And
        | MapOp::Or
        | MapOp::Select => None,
    }
}
