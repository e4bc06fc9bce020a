//! What is left of a value and of one: `x - (if m then x else 0)` is `if m then 0 else x`, and `1 - sigmoid(x)` is `sigmoid(-x)`,
//! which is known to be above zero, so that its logarithm is a number.

use super::Normaliser;
use crate::facts::Property;
use crate::lang::Tag;
use crate::options::Fp;
use egg::Id;
use salient_ir::{Const, MapOp};

impl Normaliser<'_> {
    /// `x - (if m then x else 0)`, in either order: `x` where `m` does not hold.
    pub(super) fn left_over(&mut self, args: &[Id]) -> Option<Id> {
        let zero = Some(Const::f32(0.0));
        let taken = |n: &Self, of: Id, opposite: Id| {
            let [part, sign] = n.parts(MapOp::Mul, opposite)?;
            let choice = n.written(part);
            let chosen = choice.tag == Tag::Map(MapOp::Select)
                && choice.children[1] == of
                && n.constant(choice.children[2]) == zero;
            (chosen && n.constant(sign) == Some(Const::f32(-1.0))).then(|| choice.children[0])
        };
        let [a, b] = [args[0], args[1]];
        let (of, mask) = match (taken(self, a, b), taken(self, b, a)) {
            (Some(mask), _) => (a, mask),
            (None, Some(mask)) => (b, mask),
            (None, None) => return None,
        };
        // Of NaN and infinities nothing is left but NaN; where the mask holds there is zero now.
        if self.fp == Fp::Strict || !self.classes[of].data.is_total() {
            return None;
        }
        let others = self.not(mask);
        let zero = self.literal(Const::f32(0.0));
        Some(self.select(others, of, zero))
    }

    /// `1 - 1 / (exp(x) + 1)`, where one of two terms is the literal.
    pub(super) fn complement(&mut self, args: &[Id]) -> Option<Id> {
        let one = Const::f32(1.0);
        let [a, b] = [args[0], args[1]];
        let negative = match [a, b].map(|id| self.constant(id) == Some(one)) {
            [true, false] => b,
            [false, true] => a,
            [true, true] | [false, false] => return None,
        };
        let [part, sign] = self.parts(MapOp::Mul, negative)?;
        // A quotient of one stands there as a product with one.
        let [part, other] = self.parts(MapOp::Mul, part).unwrap_or([part, sign]);
        let below = self.written(part);
        let plain = other == sign || self.constant(other) == Some(one);
        let negates = self.constant(sign) == Some(Const::f32(-1.0));
        if !negates || !plain || below.tag != Tag::Map(MapOp::Recip) {
            return None;
        }
        let [power, rest] = self.parts(MapOp::Add, below.children[0])?;
        let exponential = self.written(power);
        if self.constant(rest) != Some(one) || exponential.tag != Tag::Map(MapOp::Exp) {
            return None;
        }
        let exponent = exponential.children[0];
        let facts = &self.classes[exponent].data;
        let finite = self.classes.analysis.is_shown(facts.has(Property::Finite), facts.axes.as_slice());
        if !finite || self.fp == Fp::Strict {
            return None;
        }
        let negated = self.negative(exponent);
        let power = self.add(Tag::Map(MapOp::Exp), &[negated]);
        let one = self.literal(one);
        let sum = self.add(Tag::Map(MapOp::Add), &[power, one]);
        Some(self.add(Tag::Map(MapOp::Recip), &[sum]))
    }

    /// The opposite of a number, which of an opposite is the number.
    fn negative(&mut self, x: Id) -> Id {
        match self.parts(MapOp::Mul, x) {
            Some([of, sign]) if self.constant(sign) == Some(Const::f32(-1.0)) => of,
            Some(_) | None => self.map(MapOp::Neg, &[x]),
        }
    }
}
