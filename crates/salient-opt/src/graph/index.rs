//! Integer expressions as sums over indices, with symbolic factors: `h * E + e + 1`. What can be read off that form: steps
//! between places, and quotients and remainders that come out even.
//!
//! Unlike [`Affine`](crate::facts::affine::Affine), which serves proofs of signs, factors may be dimensions.

use crate::facts::{Known, integers};
use salient_ir::{AxisId, Builder, DType, Dim, Graph, MapOp, NodeId, Op};
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Operators of an index that are looked at, at most.
const LARGEST: usize = 128;

/// Terms of a sum of integers that are compared with each other, at most.
const LARGEST_SUM: usize = 8;

/// An index: so many times each axis's own, and what does not depend on one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AffineIndex {
    /// The factor of each axis's own index; none is zero.
    pub(crate) terms: BTreeMap<AxisId, Dim>,
    /// What does not depend on an axis.
    pub(crate) offset: Dim,
}

impl AffineIndex {
    /// A place that is the same everywhere.
    pub(crate) fn fixed(offset: Dim) -> AffineIndex {
        AffineIndex { terms: BTreeMap::new(), offset }
    }

    /// An axis's own index.
    pub(crate) fn own(axis: AxisId) -> AffineIndex {
        AffineIndex { terms: BTreeMap::from([(axis, Dim::constant(1))]), offset: Dim::constant(0) }
    }

    /// The place that an integer expression is, if it is one and no larger than what a source writes.
    pub(crate) fn of(g: &Graph, id: NodeId) -> Option<AffineIndex> {
        AffineIndex::within(g, id, &mut { LARGEST })
    }

    /// As [`AffineIndex::of`], where so many operators may still be looked at: an expression that shares its parts is large.
    fn within(g: &Graph, id: NodeId, looks: &mut usize) -> Option<AffineIndex> {
        *looks = looks.checked_sub(1)?;
        let args = g.args(id);
        match g.op(id) {
            Op::Iota(axis) => Some(AffineIndex::own(*axis)),
            Op::Extent(dim) => Some(AffineIndex::fixed(dim.clone())),
            Op::Const(c) if c.dtype().is_int() => Some(AffineIndex::fixed(Dim::constant(c.value() as i64))),
            Op::Map(MapOp::Add) => {
                let (mut a, c) =
                    (AffineIndex::within(g, args[0], looks)?, AffineIndex::within(g, args[1], looks)?);
                for (axis, times) in c.terms {
                    let term = a.terms.entry(axis).or_insert_with(|| Dim::constant(0));
                    *term = &*term + &times;
                }
                a.terms.retain(|_, times| times.as_constant() != Some(0));
                a.offset = &a.offset + &c.offset;
                Some(a)
            }
            Op::Map(MapOp::Sub) => {
                let (a, c) =
                    (AffineIndex::within(g, args[0], looks)?, AffineIndex::within(g, args[1], looks)?);
                Some(a.less(&c))
            }
            Op::Map(MapOp::Mul) => {
                let (a, c) =
                    (AffineIndex::within(g, args[0], looks)?, AffineIndex::within(g, args[1], looks)?);
                let (index, by) = if c.terms.is_empty() { (a, c.offset) } else { (c, a.offset.clone()) };
                // A product of two indices is no place.
                let alone = args.iter().any(|x| g.node(*x).axes.is_empty());
                let times = |(axis, times): (AxisId, Dim)| (axis, &times * &by);
                let terms: BTreeMap<AxisId, Dim> = index.terms.into_iter().map(times).collect();
                let zero = by.as_constant() == Some(0);
                alone.then(|| AffineIndex {
                    terms: if zero { BTreeMap::new() } else { terms },
                    offset: &index.offset * &by,
                })
            }
            // An index under another name: it leaves its axis nowhere.
            Op::At(axis) => {
                let Op::Iota(other) = *g.op(args[1]) else { return None };
                let is_name = g.extent(other) == g.extent(*axis);
                let of = if is_name { AffineIndex::within(g, args[0], looks) } else { None };
                Some(of?.with(*axis, &AffineIndex::own(other)))
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Map(_) | Op::Reduce(..) => None,
            Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
        }
    }

    /// The difference of two.
    pub(crate) fn less(&self, other: &AffineIndex) -> AffineIndex {
        let mut out = self.clone();
        for (axis, times) in &other.terms {
            let term = out.terms.entry(*axis).or_insert_with(|| Dim::constant(0));
            *term = &*term - times;
        }
        out.terms.retain(|_, times| times.as_constant() != Some(0));
        out.offset = &out.offset - &other.offset;
        out
    }

    /// The index taken off zero.
    pub(crate) fn negated(&self) -> AffineIndex {
        AffineIndex::fixed(Dim::constant(0)).less(self)
    }

    /// The same with an index in place of an axis's own.
    pub(crate) fn with(&self, axis: AxisId, index: &AffineIndex) -> AffineIndex {
        let mut out = self.clone();
        let Some(by) = out.terms.remove(&axis) else { return out };
        let minus = &Dim::constant(0) - &by;
        let times = |(axis, times): (&AxisId, &Dim)| (*axis, times * &minus);
        let moved =
            AffineIndex { terms: index.terms.iter().map(times).collect(), offset: &index.offset * &minus };
        out.less(&moved)
    }

    /// The expression for it, behind another one if there is one.
    pub(crate) fn add_to(&self, b: &mut Builder, from: Option<NodeId>) -> NodeId {
        let mut sum = from;
        let mut push = |b: &mut Builder, term: NodeId| {
            let all = sum.map_or(term, |sum| b.map(MapOp::Add, &[sum, term]).expect("integers"));
            sum = Some(all);
            all
        };
        for (axis, times) in &self.terms {
            let mut term = b.iota(*axis);
            if times.as_constant() != Some(1) {
                let times = b.extent_of(times);
                term = b.map(MapOp::Mul, &[term, times]).expect("integers");
            }
            push(b, term);
        }
        if self.offset.as_constant() != Some(0) {
            let offset = b.extent_of(&self.offset);
            push(b, offset);
        }
        sum.unwrap_or_else(|| b.extent_of(&self.offset))
    }

    /// `(q, r)` with `self = q * by + r`, where no multiple of `by` is left in `r` and neither is below zero anywhere.
    fn split(&self, by: &Dim) -> Option<(AffineIndex, AffineIndex)> {
        let (offset, left) = self.offset.split_multiple(by);
        let (mut quotient, mut rest) = (AffineIndex::fixed(offset), AffineIndex::fixed(left));
        for (axis, times) in &self.terms {
            let (times, left) = times.split_multiple(by);
            for (place, times) in [(&mut quotient, times), (&mut rest, left)] {
                if times.as_constant() != Some(0) {
                    place.terms.insert(*axis, times);
                }
            }
        }
        let is_least =
            |of: &AffineIndex| of.offset.is_nonnegative() && of.terms.values().all(Dim::is_nonnegative);
        (is_least(&quotient) && is_least(&rest)).then_some((quotient, rest))
    }

    /// Whether it is proved to lie below a bound everywhere; its factors are not below zero.
    fn is_below(&self, g: &Graph, bound: &Dim) -> bool {
        let last = |axis: &AxisId| g.extent(*axis) - &Dim::constant(1);
        let most =
            self.terms.iter().fold(self.offset.clone(), |most, (axis, times)| &most + &(times * &last(axis)));
        most.provably_le(&(bound - &Dim::constant(1)))
    }

    /// Whether it is proved not to be divided by zero, where it has an element: the quotient would be zero.
    fn has_divisor(&self, g: &Graph, by: &Dim) -> bool {
        Dim::constant(1).provably_le(by) || self.terms.keys().any(|axis| g.extent(*axis).vanishes_with(by))
    }

    /// Whether it is the first position.
    pub(crate) fn is_zero(&self) -> bool {
        self.terms.is_empty() && self.offset.as_constant() == Some(0)
    }
}

/// The least and the greatest values of the integers of a graph.
#[derive(Debug)]
pub(crate) struct Bounds<'g> {
    g: &'g Graph,
    known: OnceCell<Known>,
    of: BTreeMap<NodeId, Option<(Dim, Dim)>>,
}

impl<'g> Bounds<'g> {
    pub(crate) fn new(g: &'g Graph) -> Bounds<'g> {
        Bounds { g, known: OnceCell::new(), of: BTreeMap::new() }
    }

    fn known(&self) -> &Known {
        self.known.get_or_init(|| Known::of(self.g))
    }

    /// Whether an index is proved to be a position of the axis wherever it has a value.
    pub(crate) fn is_inside(&mut self, index: NodeId, axis: AxisId) -> bool {
        let (along, extent) = (&self.g.node(index).axes, self.g.extent(axis));
        let bounds = self.of(index, &mut { LARGEST });
        if bounds.is_some_and(|bounds| self.known().lie_inside(&bounds, along, extent)) {
            return true;
        }
        // The quotient of what is less than so many times the divisor.
        if *self.g.op(index) != Op::Map(MapOp::IntDiv) {
            return false;
        }
        let [p, q] = [0, 1].map(|n| self.of(self.g.args(index)[n], &mut { LARGEST }));
        let (Some(p), Some((least, most))) = (p, q) else { return false };
        least == most && self.known().lie_inside(&p, along, &(&most * extent))
    }

    fn of(&mut self, id: NodeId, looks: &mut usize) -> Option<(Dim, Dim)> {
        *looks = looks.checked_sub(1)?;
        if let Some(known) = self.of.get(&id) {
            return known.clone();
        }
        let g = self.g;
        let found = match g.op(id) {
            Op::Iota(axis) => Some((Dim::constant(0), g.extent(*axis) - &Dim::constant(1))),
            Op::Extent(dim) => Some((dim.clone(), dim.clone())),
            Op::Const(c) if c.dtype().is_int() => {
                let n = Dim::constant(c.value() as i64);
                Some((n.clone(), n))
            }
            Op::Map(op) if g.node(id).dtype.is_int() => {
                let args: Vec<Option<(Dim, Dim)>> = g.args(id).iter().map(|a| self.of(*a, looks)).collect();
                integers::bounds(self.known(), &g.node(id).axes, *op, |n| args[n].clone())
            }
            Op::At(_) => self.of(g.args(id)[0], looks),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Map(_) | Op::Reduce(..) => None,
            Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
        };
        self.of.insert(id, found.clone());
        found
    }
}

/// Where each of several axes, the outermost first, is at a position along one that stands for all of them: from the last on the
/// remainder by its extent, then the quotient for those before it.
pub(crate) fn parts_of(b: &mut Builder, whole: AxisId, axes: &[AxisId]) -> Vec<(AxisId, NodeId)> {
    let mut rest = b.iota(whole);
    let mut parts = Vec::new();
    for (n, axis) in axes.iter().enumerate().rev() {
        if n == 0 {
            parts.push((*axis, rest));
            continue;
        }
        let extent = b.extent(*axis).clone();
        let by = b.extent_of(&extent);
        let index = b.map(MapOp::Mod, &[rest, by]).expect("integers");
        rest = b.map(MapOp::IntDiv, &[rest, by]).expect("integers");
        parts.push((*axis, index));
    }
    parts
}

/// How many positions there are along several axes.
pub(crate) fn positions(g: &Graph, axes: &[AxisId]) -> Dim {
    axes.iter().fold(Dim::constant(1), |all, axis| &all * g.extent(*axis))
}

/// A simpler expression for an operator on integers: `(h * E + e) / E` is `h`, `(h * E + e) % E` is `e` and, where `e` may be longer
/// than that, `h + e / E` and `e % E`; and `x / E * E + x % E` is `x`.
#[expect(clippy::wildcard_enum_match_arm, reason = "others have no simpler form")]
pub(crate) fn simpler(b: &mut Builder, op: MapOp, args: &[NodeId]) -> Option<NodeId> {
    if args.iter().any(|a| b.node(*a).dtype != DType::I64) {
        return None;
    }
    match op {
        MapOp::IntDiv | MapOp::Mod => {
            let by = AffineIndex::of(b, args[1]).filter(|by| by.terms.is_empty())?.offset;
            let index = AffineIndex::of(b, args[0])?;
            let (quotient, rest) = index.split(&by)?;
            if rest.is_below(b, &by) {
                let place = if op == MapOp::IntDiv { quotient } else { rest };
                return Some(place.add_to(b, None));
            }
            if quotient.is_zero() || !index.has_divisor(b, &by) {
                return None;
            }
            let rest = rest.add_to(b, None);
            let of_rest = b.map(op, &[rest, args[1]]).expect("integers");
            Some(if op == MapOp::IntDiv { quotient.add_to(b, Some(of_rest)) } else { of_rest })
        }
        MapOp::Add => without_quotients(b, args),
        _ => None,
    }
}

/// A sum of integers with `x` for `x / q * q` and `x % q` among what is added up.
fn without_quotients(b: &mut Builder, args: &[NodeId]) -> Option<NodeId> {
    let (mut added, mut stack) = (Vec::new(), args.to_vec());
    while let Some(id) = stack.pop() {
        if b.op(id) == &Op::Map(MapOp::Add) && added.len() + stack.len() < LARGEST_SUM {
            stack.extend(b.args(id));
        } else {
            added.push(id);
        }
    }
    let pairs = (0..added.len()).flat_map(|n| (0..added.len()).map(move |m| (n, m)));
    let (n, m, whole) =
        pairs.into_iter().find_map(|(n, m)| Some((n, m, undivided(b, added[n], added[m])?)))?;
    let rest = added.iter().enumerate().filter(|(at, _)| *at != n && *at != m).map(|(_, id)| *id);
    // As they were added, the last one first.
    rest.collect::<Vec<NodeId>>().into_iter().try_fold(whole, |sum, id| b.map(MapOp::Add, &[id, sum]).ok())
}

/// `x` of `x / q * q` and `x % q`.
fn undivided(g: &Graph, product: NodeId, rest: NodeId) -> Option<NodeId> {
    let args_of = |id: NodeId, op: MapOp| (g.op(id) == &Op::Map(op)).then(|| (g.args(id)[0], g.args(id)[1]));
    let (x, q) = args_of(rest, MapOp::Mod)?;
    let (a, c) = args_of(product, MapOp::Mul)?;
    let is = |quotient: NodeId, by: NodeId| by == q && args_of(quotient, MapOp::IntDiv) == Some((x, q));
    (is(a, c) || is(c, a)).then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(b: &mut Builder, a: AxisId, times: &Dim, c: AxisId) -> NodeId {
        let (a, times, c) = (b.iota(a), b.extent_of(times), b.iota(c));
        let product = b.map(MapOp::Mul, &[a, times]).unwrap();
        b.map(MapOp::Add, &[product, c]).unwrap()
    }

    #[test]
    fn the_parts_of_a_merged_index_come_back_where_they_fit() {
        let mut b = Builder::new("m");
        let (e, f) = (Dim::symbol("E"), Dim::symbol("F"));
        let (h, i) = (b.axis_id("h", &Dim::constant(4)), b.axis_id("i", &e));
        let (j, k) = (b.axis_id("j", &(&f * &e)), b.axis_id("k", &f));
        let by = b.extent_of(&e);
        let (head, place) = (b.iota(h), b.iota(i));
        let merged = index(&mut b, h, &e, i);
        assert_eq!(simpler(&mut b, MapOp::IntDiv, &[merged, by]), Some(head));
        assert_eq!(simpler(&mut b, MapOp::Mod, &[merged, by]), Some(place));
        // What may be longer than the divisor is divided alone.
        let other = index(&mut b, h, &e, j);
        let long = b.iota(j);
        let [of_quotient, of_rest] = [MapOp::IntDiv, MapOp::Mod].map(|op| b.map(op, &[long, by]).unwrap());
        let quotient = b.map(MapOp::Add, &[of_quotient, head]).unwrap();
        assert_eq!(simpler(&mut b, MapOp::IntDiv, &[other, by]), Some(quotient));
        assert_eq!(simpler(&mut b, MapOp::Mod, &[other, by]), Some(of_rest));
        assert_eq!(simpler(&mut b, MapOp::Mod, &[long, by]), None);
        // With elements where the divisor is zero the quotient of the whole is zero, and no head.
        let other = index(&mut b, h, &e, k);
        assert_eq!(simpler(&mut b, MapOp::IntDiv, &[other, by]), None);
        // An index that may be below zero does too.
        let one = b.constant(salient_ir::Const::I64(-1));
        let before = b.map(MapOp::Add, &[merged, one]).unwrap();
        assert_eq!(simpler(&mut b, MapOp::IntDiv, &[before, by]), None);
    }

    /// Whether a function of the distance of a row from a key is a position of so many.
    fn is_inside(count: &Dim, of: impl FnOnce(&mut Builder, NodeId) -> NodeId) -> bool {
        let mut b = Builder::new("m");
        let [i, j] = ["i", "j"].map(|name| b.axis_id(name, &Dim::symbol("T")));
        let positions = b.axis_id("n", count);
        let (row, key) = (b.iota(i), b.iota(j));
        let distance = b.map(MapOp::Sub, &[row, key]).unwrap();
        let index = of(&mut b, distance);
        Bounds::new(&b).is_inside(index, positions)
    }

    #[test]
    fn distances_without_their_sign_and_their_buckets_stay_inside() {
        let (t, number) = (Dim::symbol("T"), |b: &mut Builder, n: i64| b.constant(salient_ir::Const::I64(n)));
        let away = |b: &mut Builder, distance: NodeId| b.map(MapOp::Abs, &[distance]).unwrap();
        let at_most = |b: &mut Builder, distance: NodeId, most: i64| {
            let (away, most) = (away(b, distance), number(b, most));
            b.map(MapOp::Min, &[away, most]).unwrap()
        };
        let bucket = |b: &mut Builder, distance: NodeId| {
            let near = at_most(b, distance, 2);
            let (zero, three) = (number(b, 0), number(b, 3));
            let is_behind = b.map(MapOp::Lt, &[distance, zero]).unwrap();
            let side = b.map(MapOp::Select, &[is_behind, zero, three]).unwrap();
            b.map(MapOp::Add, &[near, side]).unwrap()
        };
        let back = |b: &mut Builder, distance: NodeId| {
            let away = away(b, distance);
            let (minus, last) = (number(b, -1), b.extent_of(&(&Dim::symbol("T") - &Dim::constant(1))));
            let negative = b.map(MapOp::Mul, &[away, minus]).unwrap();
            b.map(MapOp::Add, &[negative, last]).unwrap()
        };
        assert!(is_inside(&t, away) && is_inside(&t, back));
        assert!(is_inside(&Dim::constant(6), bucket) && !is_inside(&Dim::constant(5), bucket));
        assert!(!is_inside(&(&t - &Dim::constant(1)), away) && !is_inside(&t, |_, distance| distance));
    }

    #[test]
    fn a_quotient_and_its_remainder_are_the_whole() {
        let mut b = Builder::new("m");
        let h = b.axis_id("h", &Dim::symbol("H"));
        let (two, three) = (b.constant(salient_ir::Const::I64(2)), b.constant(salient_ir::Const::I64(3)));
        let h = b.iota(h);
        let quotient = b.map(MapOp::IntDiv, &[h, two]).unwrap();
        let rest = b.map(MapOp::Mod, &[h, two]).unwrap();
        let product = b.map(MapOp::Mul, &[two, quotient]).unwrap();
        assert_eq!(simpler(&mut b, MapOp::Add, &[rest, product]), Some(h));
        let other = b.map(MapOp::Mod, &[h, three]).unwrap();
        assert_eq!(simpler(&mut b, MapOp::Add, &[other, product]), None);
        // Something else may be added between the two.
        let from = b.extent_of(&Dim::symbol("T"));
        let behind = b.map(MapOp::Add, &[product, from]).unwrap();
        let whole = b.map(MapOp::Add, &[from, h]).unwrap();
        assert_eq!(simpler(&mut b, MapOp::Add, &[behind, rest]), Some(whole));
        assert_eq!(simpler(&mut b, MapOp::Add, &[behind, other]), None);
    }
}
