//! Comparisons with the greater or the lesser of two numbers, and numbers that are held between two others: with indices these
//! are other ways of comparing indices.

use super::Normaliser;
use crate::facts::affine::Affine;
use crate::lang::Tag;
use crate::options::Fp;
use egg::Id;
use salient_ir::{AxisId, DType, Dim, MapOp};

/// Integers below this are numbers without rounding.
const EXACT: f64 = 16_777_216.0;

impl Normaliser<'_> {
    /// An integer, or a number that is made of indices without rounding as long as these are below 2^24, as a function of them.
    pub(super) fn integral(&self, id: Id) -> Option<Affine> {
        if !self.is_float(id) {
            return self.classes[id].data.affine.clone();
        }
        match self.constant(id) {
            Some(c) if self.fp == Fp::Default && c.value().fract() == 0.0 && c.value().abs() < EXACT => {
                Some(Affine::dim(Dim::constant(c.value() as i64)))
            }
            Some(_) => None,
            None => self.integral.get(&id).cloned(),
        }
    }

    /// Notes that a number is made of indices.
    pub(super) fn note_integral(&mut self, op: MapOp, args: &[Id], id: Id) {
        if self.fp != Fp::Default || !self.is_float(id) || self.integral.contains_key(&id) {
            return;
        }
        let of = |n: usize| self.integral(args[n]);
        #[expect(clippy::wildcard_enum_match_arm, reason = "others are not followed")]
        let value = match op {
            MapOp::ToF32 => of(0),
            MapOp::Add => of(0).zip(of(1)).and_then(|(x, y)| x.plus(&y, 1)),
            MapOp::Mul => of(0).zip(of(1)).and_then(|(x, y)| x.times(&y)),
            _ => None,
        };
        self.integral.extend(value.map(|value| (id, value)));
    }

    /// Notes the same of a number that is read at an index inside of its axis.
    pub(super) fn note_read(&mut self, axis: AxisId, args: &[Id], id: Id) {
        let index = &self.classes[args[1]].data;
        let at = index.affine.as_ref().filter(|_| self.classes.analysis.is_inside(index, axis));
        let value = self.integral.get(&args[0]).zip(at).and_then(|(x, at)| x.substitute(axis, at));
        self.integral.extend(value.map(|value| (id, value)));
    }

    /// Whether a value is an integer, so that of two of them one is less, or they are equal.
    fn is_whole(&self, id: Id) -> bool {
        matches!(self.classes[id].data.dtype, DType::I32 | DType::I64) || self.integral(id).is_some()
    }

    /// What a value is the greater or the lesser of.
    pub(super) fn parts(&self, op: MapOp, id: Id) -> Option<[Id; 2]> {
        let term = self.written(id);
        (term.tag == Tag::Map(op)).then(|| [term.children[0], term.children[1]])
    }

    /// The same, also of a value to which an integer made of indices is added or from which one is taken: `min(x, y) + z` is the
    /// lesser of `x + z` and `y + z`.
    fn shifted_parts(&mut self, extreme: MapOp, id: Id) -> Option<[Id; 2]> {
        if let Some(parts) = self.parts(extreme, id) {
            return Some(parts);
        }
        let term = self.written(id);
        let Tag::Map(op @ (MapOp::Add | MapOp::Sub)) = term.tag else { return None };
        let args = [term.children[0], term.children[1]];
        let is_shift = |this: &Self, z: Id| this.integral(z).is_some();
        let (parts, z) = match (self.parts(extreme, args[0]), self.parts(extreme, args[1])) {
            (Some(parts), _) if is_shift(self, args[1]) => (parts, args[1]),
            (_, Some(parts)) if op == MapOp::Add && is_shift(self, args[0]) => (parts, args[0]),
            _ => return None,
        };
        // Sums of indices do not overflow; those of data may.
        parts.iter().all(|part| self.integral(*part).is_some()).then_some(())?;
        Some(parts.map(|part| self.map(op, &[part, z])))
    }

    /// A comparison with the greater or the lesser of two integers, by comparisons with each.
    pub(super) fn compares_extreme(&mut self, op: MapOp, a: Id, b: Id) -> Option<Id> {
        if matches!(op, MapOp::Eq | MapOp::Ne) {
            return self
                .equals_extreme(a, b)
                .map(|equal| if op == MapOp::Eq { equal } else { self.not(equal) });
        }
        let sides = [(MapOp::Max, a, MapOp::And), (MapOp::Min, a, MapOp::Or)];
        let others = [(MapOp::Max, b, MapOp::Or), (MapOp::Min, b, MapOp::And)];
        for (extreme, side, both) in sides.into_iter().chain(others) {
            let Some(parts) = self.shifted_parts(extreme, side) else { continue };
            let other = if side == a { b } else { a };
            if ![parts[0], parts[1], other].iter().all(|id| self.is_whole(*id))
                || self.is_far(parts[1], other)
            {
                continue;
            }
            let [x, y] = parts.map(|part| {
                let (a, b) = if side == a { (part, other) } else { (other, part) };
                self.compare(op, a, b)
            });
            return Some(self.map(both, &[x, y]));
        }
        None
    }

    /// Whether a number that is held at one literal is compared with another that is not next to it, as the ends of buckets of
    /// distances are. That masks nothing, and comparisons of indices are what most is asked of.
    fn is_far(&self, held: Id, other: Id) -> bool {
        let literals = self.constant(held).zip(self.constant(other));
        literals.is_some_and(|(held, other)| (held.value() - other.value()).abs() > 1.0)
    }

    /// `max(x, z) == z` and `min(x, z) == z`.
    fn equals_extreme(&mut self, a: Id, b: Id) -> Option<Id> {
        for (value, z) in [(a, b), (b, a)] {
            for extreme in [MapOp::Max, MapOp::Min] {
                let Some([x, y]) = self.parts(extreme, value) else { continue };
                for (one, other) in [(x, y), (y, x)] {
                    if ![one, other, z].iter().all(|id| self.is_whole(*id)) {
                        continue;
                    }
                    let same =
                        one == z || self.integral(one).is_some_and(|one| Some(one) == self.integral(z));
                    if same && extreme == MapOp::Max {
                        return Some(self.compare(MapOp::Le, other, z));
                    }
                    if same {
                        return Some(self.compare(MapOp::Le, z, other));
                    }
                }
            }
        }
        None
    }

    /// `min(max(x, n), n + 1)` of an integer is a choice between the two.
    pub(super) fn step(&mut self, op: MapOp, args: &[Id]) -> Option<Id> {
        let inner = if op == MapOp::Min { MapOp::Max } else { MapOp::Min };
        let (held, bound) = match [0, 1].map(|n| self.constant(args[n]).is_some()) {
            [false, true] => (args[0], args[1]),
            [true, false] => (args[1], args[0]),
            [true, true] | [false, false] => return None,
        };
        let [x, other] = self.parts(inner, held)?;
        let (low, high) = if op == MapOp::Min { (other, bound) } else { (bound, other) };
        let is_next = self.constant(high)?.value() == self.constant(low)?.value() + 1.0;
        if !is_next || !self.is_whole(x) || !self.is_whole(other) {
            return None;
        }
        let above = self.compare(MapOp::Le, high, x);
        Some(self.select(above, high, low))
    }
}
