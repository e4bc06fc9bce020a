//! What is known of the result of an operator on integers.

use super::affine::Affine;
use super::{Facts, Known};
use salient_ir::{AxisSet, Dim, MapOp};

/// The value of an operator on integers as a function of indices.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing is known of other operators")]
pub(super) fn affine(op: MapOp, args: &[&Facts]) -> Option<Affine> {
    let arg = |n: usize| args[n].affine.as_ref();
    let zero = || Affine::dim(Dim::constant(0));
    match op {
        MapOp::Add => arg(0)?.plus(arg(1)?, 1),
        MapOp::Sub => arg(0)?.plus(arg(1)?, -1),
        MapOp::Neg => zero().plus(arg(0)?, -1),
        MapOp::Mul => arg(0)?.times(arg(1)?),
        MapOp::ToI32 | MapOp::ToI64 => arg(0).cloned(),
        _ => None,
    }
}

/// The least and the greatest value of an operator on integers that runs along some axes, from those of its arguments.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing is known of other operators")]
pub(crate) fn bounds(
    known: &Known,
    along: &AxisSet,
    op: MapOp,
    of: impl Fn(usize) -> Option<(Dim, Dim)>,
) -> Option<(Dim, Dim)> {
    let (zero, one) = (Dim::constant(0), Dim::constant(1));
    let at_least = |x: &Dim, least: &Dim| known.is_nonnegative_along(&(x - least), along);
    // What divides is at least one where anything is divided: see `docs/semantics.md`.
    let divides = |by: &Dim| known.assumptions.is_nonnegative(&(by - &one), known.extents.iter());
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
            if !at_least(&least, &zero) || !divides(&by) {
                return None;
            }
            // What is below `n * by` has a quotient below `n`; what is at least zero is no greater for being divided.
            let (quotient, rest) = (&most + &one).split_multiple(&by);
            let even = rest.as_constant() == Some(0) && quotient.as_constant() != Some(0);
            Some((zero, if even { &quotient - &one } else { most }))
        }
        MapOp::Mod => {
            let (by, most) = of(1)?;
            divides(&by).then(|| (zero, &most - &one))
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
        _ => None,
    }
}
