//! Index arithmetic: what is known of integers inside a kernel.
//!
//! Every index that can be written as a polynomial of loop variables and dimensions is; quotients and remainders vanish
//! where the ranges of the variables prove it (`(h * E + e) / E` is `h`). What cannot be written so is computed by the
//! bodies, element by element.

use salient_ir::{AxisId, Dim, Graph, MapOp, Name, NodeId, Op};
use salient_vector::I32;
use std::collections::BTreeMap;

/// What an axis stands for where an expression is evaluated.
#[derive(Clone, PartialEq)]
pub(crate) enum Bound {
    /// A polynomial of loop variables and dimensions.
    Poly(Dim),
    /// An index computed in the body.
    Vector(I32),
}

/// The meaning of every free axis of an expression.
pub(crate) type Env = BTreeMap<AxisId, Bound>;

/// The ranges of loop variables: each lies in `0..below`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    below: BTreeMap<Name, Dim>,
}

impl Ranges {
    /// States that the variable lies in `0..extent`.
    pub(crate) fn insert(&mut self, variable: &str, extent: &Dim) {
        self.below.insert(variable.into(), extent.clone());
    }

    /// `p / q` rounded down, for `p >= 0`; `None` where `q` is zero.
    pub(crate) fn quotient(&self, p: &Dim, q: &Dim) -> Option<Dim> {
        let (multiple, rest) = p.split_multiple(q);
        if self.inside(&rest, q) { Some(multiple) } else { p.floor_div(q) }
    }

    /// The remainder that belongs to [`Ranges::quotient`].
    pub(crate) fn remainder(&self, p: &Dim, q: &Dim) -> Option<Dim> {
        Some(p - &(q * &self.quotient(p, q)?))
    }

    /// Whether the index provably lies in `0..extent`.
    pub(crate) fn inside(&self, index: &Dim, extent: &Dim) -> bool {
        if index.remainder_of().as_ref() == Some(extent) {
            return true;
        }
        // `p // q` is less than what `p` is less than so many times `q`: the head of a column.
        if let Some((p, q)) = index.quotient_of()
            && p.is_nonnegative()
            && self.inside(&p, &(&q * extent))
        {
            return true;
        }
        let most = &index.upper_bound(&self.below) + &Dim::constant(1);
        index.is_nonnegative() && most.provably_le(extent)
    }

    /// The value of an integer node as a polynomial, if it is one under `env`.
    pub(crate) fn evaluate(&self, g: &Graph, id: NodeId, env: &Env) -> Option<Dim> {
        let args = g.args(id);
        match g.op(id) {
            Op::Iota(axis) => match env.get(axis)? {
                Bound::Poly(d) => Some(d.clone()),
                Bound::Vector(_) => None,
            },
            Op::Extent(dim) => Some(dim.clone()),
            Op::Const(c) if c.dtype().is_int() => Some(Dim::constant(c.value() as i64)),
            Op::Map(map) if g.node(id).dtype.is_int() => {
                let arg = |n: usize| self.evaluate(g, args[n], env);
                match map {
                    MapOp::Add => Some(&arg(0)? + &arg(1)?),
                    MapOp::Sub => Some(&arg(0)? - &arg(1)?),
                    MapOp::Mul => Some(&arg(0)? * &arg(1)?),
                    MapOp::Neg => Some(&Dim::constant(0) - &arg(0)?),
                    MapOp::IntDiv | MapOp::Mod => {
                        let (p, q) = (arg(0)?, arg(1)?);
                        // Loops divide by what is positive: a dimension that divides is at least one, or the call is refused.
                        if q.as_constant().is_some_and(|by| by <= 0) {
                            return None;
                        }
                        if !p.is_nonnegative() && p.remainder_of().is_none() {
                            return None;
                        }
                        if *map == MapOp::Mod { self.remainder(&p, &q) } else { self.quotient(&p, &q) }
                    }
                    // Not of integers, or not a polynomial.
                    MapOp::Recip | MapOp::Exp | MapOp::Log | MapOp::Sqrt | MapOp::Tanh | MapOp::Erf => None,
                    MapOp::Sin | MapOp::Cos | MapOp::Div | MapOp::Pow | MapOp::Floor => None,
                    MapOp::ToF32 | MapOp::Philox => None,
                    MapOp::ToI32 | MapOp::ToI64 | MapOp::Abs | MapOp::Min | MapOp::Max | MapOp::Select => {
                        None
                    }
                    MapOp::Not | MapOp::Eq | MapOp::Ne | MapOp::Lt | MapOp::Le | MapOp::And | MapOp::Or => {
                        None
                    }
                }
            }
            Op::At(axis) => {
                let index = self.evaluate(g, args[1], env)?;
                let mut inner = env.clone();
                inner.insert(*axis, Bound::Poly(index));
                self.evaluate(g, args[0], &inner)
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Map(_) | Op::Reduce(..) => None,
            Op::Concat(..) | Op::CumSum(_) | Op::Fused(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_and_merging_heads_cancels() {
        let (h, e) = (Dim::symbol("h"), Dim::symbol("e"));
        let width = Dim::symbol("D").exact_div(&Dim::symbol("H")).unwrap();
        let mut r = Ranges::default();
        r.insert("h", &Dim::symbol("H"));
        r.insert("e", &width);
        let d = &(&h * &width) + &e;
        assert_eq!(r.quotient(&d, &width), Some(h));
        assert_eq!(r.remainder(&d, &width), Some(e));
        assert!(r.inside(&d, &Dim::symbol("D")));
        r.insert("column", &Dim::symbol("D"));
        let head = r.quotient(&Dim::symbol("column"), &width).unwrap();
        assert!(r.inside(&head, &Dim::symbol("H")));
        assert!(!r.inside(&(&d + &Dim::constant(1)), &Dim::symbol("D")));
        // Heads in groups: h // (H / G) is one of G.
        let group =
            Dim::symbol("h").floor_div(&Dim::symbol("H").exact_div(&Dim::symbol("G")).unwrap()).unwrap();
        assert!(r.inside(&group, &Dim::symbol("G")));
        assert!(!r.inside(&group, &Dim::symbol("K")));
    }
}
