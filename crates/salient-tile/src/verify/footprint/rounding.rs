//! Quotients that are rounded down, as bodies make them of those that round toward zero.

use super::{Def, Known, Run};
use crate::dims::n;
use salient_vector::{Op, Value};

impl Run<'_> {
    /// The arguments of an operator, if it is the one that defines the value.
    fn args<const N: usize>(&self, value: Value, op: Op) -> Option<[Value; N]> {
        let (found, args) = self.ops.get(&value)?;
        if *found == op { args.as_slice().try_into().ok() } else { None }
    }

    fn is(&self, value: Value, number: i64) -> bool {
        *self.get(value) == Known::Number(n(number))
    }

    /// The value of [`div_floor`](salient_vector::math::div_floor) or [`rem_floor`](salient_vector::math::rem_floor), which
    /// correct what rounds toward zero.
    pub(super) fn rounded_down(&mut self, value: Value) -> Option<Known> {
        if let Some(known) = self.by_a_power(value) {
            return Some(known);
        }
        if let Some([none, zero, quotient]) = self.args(value, Op::Select) {
            let ([by, nothing], [rounded, step]) = (self.args(none, Op::Eq)?, self.args(quotient, Op::Sub)?);
            let ([x, y], [down, one, other]) = (self.args(rounded, Op::Div)?, self.args(step, Op::Select)?);
            let is_it = by == y && self.is(nothing, 0) && self.is(zero, 0) && self.is(one, 1);
            if is_it && self.is(other, 0) && self.is_down(down, x, y) {
                let [x, y] = [x, y].map(|v| self.number(v));
                return Some(Known::Number(self.define(Def::Quotient(x, y))));
            }
        }
        let [rest, step] = self.args(value, Op::Add)?;
        let ([x, y], [down, more, zero]) = (self.args(rest, Op::Rem)?, self.args(step, Op::Select)?);
        if more != y || !self.is(zero, 0) || !self.is_down(down, x, y) {
            return None;
        }
        let [x, y] = [x, y].map(|v| self.number(v));
        let quotient = self.define(Def::Quotient(x.clone(), y.clone()));
        Some(Known::Number(&x - &(&y * &quotient)))
    }

    /// The same by a constant power of two: a shift, or the lower bits.
    fn by_a_power(&mut self, value: Value) -> Option<Known> {
        let constant = |run: &Self, value: Value| match run.get(value) {
            Known::Number(d) => d.as_constant(),
            Known::Pointer(..) | Known::Mask(_) | Known::Other => None,
        };
        if let Some([x, by]) = self.args(value, Op::Shr) {
            let log = constant(self, by).filter(|log| (0..31).contains(log))?;
            let x = self.number(x);
            return Some(Known::Number(self.define(Def::Quotient(x, n(1 << log)))));
        }
        let [x, mask] = self.args(value, Op::And)?;
        let power = constant(self, mask)?.checked_add(1).filter(|power| power.count_ones() == 1)?;
        let x = self.number(x);
        let quotient = self.define(Def::Quotient(x.clone(), n(power)));
        Some(Known::Number(&x - &(&n(power) * &quotient)))
    }

    /// Whether a mask says that the quotient rounded toward zero is above the one rounded down: there is a remainder, and its
    /// sign is not the divisor's.
    fn is_down(&self, mask: Value, x: Value, y: Value) -> bool {
        let found = || {
            let [inexact, differ] = self.args(mask, Op::And)?;
            let ([rest, zero], [signs, nothing]) = (self.args(inexact, Op::Ne)?, self.args(differ, Op::Lt)?);
            let [sign, by] = self.args(signs, Op::Xor)?;
            let is_rest = [rest, sign].iter().all(|v| self.args(*v, Op::Rem) == Some([x, y]));
            Some(is_rest && by == y && self.is(zero, 0) && self.is(nothing, 0))
        };
        found() == Some(true)
    }
}
