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
    // The lesser and the greater of two limits, if it is known which is which.
    let order = |x: &Dim, y: &Dim| {
        if at_least(y, x) {
            return Some((x.clone(), y.clone()));
        }
        at_least(x, y).then(|| (y.clone(), x.clone()))
    };
    // What divides is at least one where anything is divided: see `docs/semantics.md`.
    let divides = |by: &Dim| known.assumptions.is_nonnegative(&(by - &one), known.extents.iter());
    match op {
        MapOp::Add => Some((&of(0)?.0 + &of(1)?.0, &of(0)?.1 + &of(1)?.1)),
        MapOp::Sub => Some((&of(0)?.0 - &of(1)?.1, &of(0)?.1 - &of(1)?.0)),
        MapOp::Neg => Some((&zero - &of(0)?.1, &zero - &of(0)?.0)),
        MapOp::Mul => {
            let ((a, b), (c, d)) = (of(0)?, of(1)?);
            if at_least(&a, &zero) && at_least(&c, &zero) {
                return Some((&a * &c, &b * &d));
            }
            // What is at least zero times what is not.
            let ((least, most), (from, upto)) =
                if at_least(&zero, &d) { ((a, b), (c, d)) } else { ((c, d), (a, b)) };
            let has_signs = at_least(&least, &zero) && at_least(&zero, &upto);
            has_signs.then(|| (&most * &from, &least * &upto))
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
        MapOp::Min | MapOp::Max => extremum(op, (of(0)?, of(1)?), order),
        MapOp::Select => {
            let ((a, b), (c, d)) = (of(1)?, of(2)?);
            Some((order(&a, &c)?.0, order(&b, &d)?.1))
        }
        MapOp::Abs => {
            let (least, most) = of(0)?;
            let back = &zero - &least;
            if at_least(&least, &zero) {
                return Some((least, most));
            }
            if at_least(&zero, &most) {
                return Some((&zero - &most, back));
            }
            // The larger of the limits; where it is not known which that is, their sum: neither has the wrong sign, but that `most` may
            // be -1 where an axis is empty.
            let above = &most + &one;
            let together = || (at_least(&back, &zero) && at_least(&above, &zero)).then(|| &above + &back);
            let larger = order(&back, &most).map(|(_, more)| more).or_else(together);
            Some((zero, larger?))
        }
        MapOp::ToI32 | MapOp::ToI64 => of(0),
        _ => None,
    }
}

/// The limits of the lesser or the greater of two numbers by theirs; `order` gives the lesser and the greater of two limits where it is
/// known which is which.
fn extremum(
    op: MapOp,
    ((a, b), (c, d)): ((Dim, Dim), (Dim, Dim)),
    order: impl Fn(&Dim, &Dim) -> Option<(Dim, Dim)>,
) -> Option<(Dim, Dim)> {
    // Both limits hold: where it is not known which is the tighter one, a constant is taken.
    let either = |x: &Dim, y: &Dim| if y.as_constant().is_some() { y.clone() } else { x.clone() };
    if op == MapOp::Min {
        let most = order(&b, &d).map_or_else(|| either(&b, &d), |(less, _)| less);
        Some((order(&a, &c)?.0, most))
    } else {
        let least = order(&a, &c).map_or_else(|| either(&a, &c), |(_, more)| more);
        Some((least, order(&b, &d)?.1))
    }
}
