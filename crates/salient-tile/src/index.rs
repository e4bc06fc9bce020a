//! Index arithmetic: what is known of integers inside a kernel.
//!
//! Every index that can be written as a polynomial of loop variables and dimensions is; quotients and remainders vanish
//! where the ranges of the variables prove it (`(h * E + e) / E` is `h`). What cannot be written so is computed by the
//! bodies, element by element.

use salient_ir::{AxisId, Dim, DimNode, Graph, MapOp, NodeId, Op, Symbol};
use salient_vector::I32;
use std::collections::BTreeMap;

/// Expressions deeper than this are no polynomials: the walk through one, and what it gives, stay small.
pub(crate) const DEEPEST_INDEX: u32 = 64;

/// What an axis stands for where an expression is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AxisValue {
    /// A polynomial of loop variables and dimensions, inside the axis.
    Poly(Dim),
    /// A polynomial that may leave the axis: nothing is read there.
    Loose(Dim),
    /// An index computed in the body.
    Vector(I32),
}

/// The meaning of every free axis of an expression.
pub(crate) type Env = BTreeMap<AxisId, AxisValue>;

/// The ranges of loop variables: each lies in `0..below`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    below: BTreeMap<Symbol, Dim>,
}

impl Ranges {
    /// States that the variable lies in `0..extent`.
    pub(crate) fn insert(&mut self, variable: &Symbol, extent: &Dim) {
        self.below.insert(variable.clone(), extent.clone());
    }

    /// The variables that occur in a dimension or in the extents of others that do, and what each is below.
    pub(crate) fn of(&self, node: &DimNode) -> BTreeMap<Symbol, DimNode> {
        let mut out = BTreeMap::new();
        self.collect(node, &mut out);
        out
    }

    fn collect(&self, node: &DimNode, out: &mut BTreeMap<Symbol, DimNode>) {
        match node {
            DimNode::Constant(_) => {}
            DimNode::Symbol(name) => {
                if let (Some(extent), false) = (self.below.get(name), out.contains_key(name)) {
                    let extent = extent.to_node();
                    out.insert(name.clone(), extent.clone());
                    self.collect(&extent, out);
                }
            }
            DimNode::Add(x, y) | DimNode::Mul(x, y) | DimNode::Div(x, y) => {
                self.collect(x, out);
                self.collect(y, out);
            }
        }
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

    /// Whether the polynomial is provably at least zero.
    pub(crate) fn nonnegative(&self, p: &Dim) -> bool {
        let zero = Dim::constant(0);
        p.is_nonnegative() || self.most(&(&zero - p)).provably_le(&zero)
    }

    /// An inclusive upper bound. A variable that lies below what another one says, as keys under a causal mask lie below the row,
    /// is taken at its most first: a key at a distance from its row is then at most what that distance is at its end.
    fn most(&self, p: &Dim) -> Dim {
        let depends = |bound: &Dim| self.below.keys().any(|symbol| bound.mentions(symbol));
        let dependent = self.below.iter().filter(|(symbol, bound)| p.mentions(symbol) && depends(bound));
        let mut p = p.clone();
        for (symbol, bound) in dependent {
            if let Some((slope, rest)) = p.linear_in(symbol)
                && slope.is_nonnegative()
            {
                p = &rest + &(&slope * &(bound - &Dim::constant(1)));
            }
        }
        match self.without_remainders(&p) {
            Some((rest, most)) => &self.most(&rest) + &most,
            None => p.upper_bound(&self.below),
        }
    }

    /// What is left of a polynomial without a remainder that is in it once, or taken off it once, and the most that the remainder adds:
    /// what is added and taken off again for the quotient, `j - W * (j // W)`, lies below `W` all the same.
    fn without_remainders(&self, p: &Dim) -> Option<(Dim, Dim)> {
        let (zero, one) = (Dim::constant(0), Dim::constant(1));
        let of = p.remainders();
        of.iter().filter(|(rest, by)| self.is_positive(by, rest)).find_map(|(rest, by)| {
            let (added, taken_off) = (p - rest, p + rest);
            let is_gone = |left: &Dim| !left.remainders().iter().any(|(other, _)| other == rest);
            let added = is_gone(&added).then(|| (added, by - &one));
            added.or_else(|| is_gone(&taken_off).then_some((taken_off, zero.clone())))
        })
    }

    /// Whether a divisor is at least one wherever an index has a value: it is a number, or an axis that the index runs along
    /// is a multiple of it, which has no positions otherwise.
    fn is_positive(&self, divisor: &Dim, index: &Dim) -> bool {
        let parts = match divisor.to_node() {
            DimNode::Div(_, parts) => polynomial(&parts),
            DimNode::Constant(_) | DimNode::Symbol(_) | DimNode::Add(..) | DimNode::Mul(..) => None,
        };
        // An exact quotient times its divisor is the dividend; one that is rounded is not.
        let is_multiple = |extent: &Dim| {
            extent.split_multiple(divisor).1 == Dim::constant(0)
                || parts.as_ref().is_some_and(|parts| divisor * parts == *extent)
        };
        divisor.as_constant().is_some_and(|n| n > 0)
            || index.symbols().iter().any(|symbol| self.below.get(symbol).is_some_and(is_multiple))
    }

    /// Whether the index provably lies in `0..extent`.
    pub(crate) fn inside(&self, index: &Dim, extent: &Dim) -> bool {
        if index.remainder_of().as_ref() == Some(extent) && self.is_positive(extent, index) {
            return true;
        }
        // `p // q` is less than what `p` is less than so many times `q`: the head of a column.
        if let Some((p, q)) = index.quotient_of()
            && p.is_nonnegative()
            && self.inside(&p, &(&q * extent))
        {
            return true;
        }
        let most = &self.most(index) + &Dim::constant(1);
        self.nonnegative(index) && most.provably_le(extent)
    }

    /// The value of an integer node as a polynomial, if it is one under `env`.
    pub(crate) fn evaluate(&self, g: &Graph, id: NodeId, env: &Env) -> Option<Dim> {
        self.evaluate_once(g, id, env, &mut Known::new())
    }

    /// As [`Ranges::evaluate`], each node once for each place.
    fn evaluate_once(&self, g: &Graph, id: NodeId, env: &Env, known: &mut Known) -> Option<Dim> {
        match g.op(id) {
            Op::Iota(axis) => {
                return match env.get(axis)? {
                    AxisValue::Poly(d) | AxisValue::Loose(d) => Some(d.clone()),
                    AxisValue::Vector(_) => None,
                };
            }
            Op::Extent(dim) => return Some(dim.clone()),
            Op::Const(c) if c.dtype().is_int() => return Some(Dim::constant(c.value() as i64)),
            Op::Map(_) if g.node(id).dtype.is_int() => {}
            Op::At(_) => {}
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Map(_) | Op::Reduce(..) => return None,
            Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => return None,
        }
        if g.node(id).depth > DEEPEST_INDEX {
            return None;
        }
        // An operator on indices costs less than it does to look it up.
        let is_leaf = |a: &NodeId| matches!(g.op(*a), Op::Iota(_) | Op::Extent(_) | Op::Const(_));
        if g.args(id).iter().all(is_leaf) {
            return self.evaluate_composite(g, id, env, known);
        }
        let axes = &g.node(id).axes;
        let place: Vec<(AxisId, Option<AxisValue>)> =
            axes.iter().map(|a| (a, env.get(&a).cloned())).collect();
        if let Some((.., value)) = known.iter().find(|(node, at, _)| *node == id && *at == place) {
            return value.clone();
        }
        let value = self.evaluate_composite(g, id, env, known);
        known.push((id, place, value.clone()));
        value
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others are not of integers, or no polynomials")]
    fn evaluate_composite(&self, g: &Graph, id: NodeId, env: &Env, known: &mut Known) -> Option<Dim> {
        let args = g.args(id);
        if let Op::At(axis) = g.op(id) {
            let index = self.evaluate_once(g, args[1], env, known)?;
            let mut inner = env.clone();
            inner.insert(*axis, AxisValue::Poly(index));
            return self.evaluate_once(g, args[0], &inner, known);
        }
        let Op::Map(map) = g.op(id) else { return None };
        let mut arg = |n: usize| self.evaluate_once(g, args[n], env, known);
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
            _ => None,
        }
    }
}

/// A polynomial without quotients.
fn polynomial(node: &DimNode) -> Option<Dim> {
    Some(match node {
        DimNode::Constant(n) => Dim::constant(*n),
        DimNode::Symbol(name) => Dim::symbol(name),
        DimNode::Add(a, b) => &polynomial(a)? + &polynomial(b)?,
        DimNode::Mul(a, b) => &polynomial(a)? * &polynomial(b)?,
        DimNode::Div(..) => return None,
    })
}

/// The values of nodes at places, as far as they are known.
type Known = Vec<(NodeId, Vec<(AxisId, Option<AxisValue>)>, Option<Dim>)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_and_merging_heads_cancels() {
        let (h, e) = (Dim::symbol("h"), Dim::symbol("e"));
        let width = Dim::symbol("D").exact_div(&Dim::symbol("H")).unwrap();
        let mut r = Ranges::default();
        r.insert(&"h".into(), &Dim::symbol("H"));
        r.insert(&"e".into(), &width);
        let d = &(&h * &width) + &e;
        assert_eq!(r.quotient(&d, &width), Some(h));
        assert_eq!(r.remainder(&d, &width), Some(e));
        assert!(r.inside(&d, &Dim::symbol("D")));
        r.insert(&"column".into(), &Dim::symbol("D"));
        let head = r.quotient(&Dim::symbol("column"), &width).unwrap();
        assert!(r.inside(&head, &Dim::symbol("H")));
        assert!(!r.inside(&(&d + &Dim::constant(1)), &Dim::symbol("D")));
        // Heads in groups: h // (H / G) is one of G.
        let group =
            Dim::symbol("h").floor_div(&Dim::symbol("H").exact_div(&Dim::symbol("G")).unwrap()).unwrap();
        assert!(r.inside(&group, &Dim::symbol("G")));
        assert!(!r.inside(&group, &Dim::symbol("K")));
        // A remainder lies below its divisor where that is no zero: `column % (D / H)`, but not `h % K`.
        let rest = r.remainder(&Dim::symbol("column"), &width).unwrap();
        assert!(r.inside(&rest, &width));
        let rest = r.remainder(&Dim::symbol("h"), &Dim::symbol("K")).unwrap();
        assert!(!r.inside(&rest, &Dim::symbol("K")));
    }

    #[test]
    fn a_distance_between_remainders_lies_inside_of_twice_the_divisor() {
        let (eight, seven) = (Dim::constant(8), Dim::constant(7));
        let mut r = Ranges::default();
        for variable in ["i", "j"] {
            r.insert(&variable.into(), &Dim::constant(64));
        }
        let rest = |variable: &str| r.remainder(&Dim::symbol(variable), &eight).unwrap();
        let quotient = |variable: &str| r.quotient(&Dim::symbol(variable), &eight).unwrap();
        for distance in [&rest("j") - &rest("i"), &quotient("j") - &quotient("i")] {
            assert!(r.inside(&(&distance + &seven), &Dim::constant(15)), "{distance}");
            assert!(!r.inside(&(&distance + &seven), &Dim::constant(14)), "{distance}");
            assert!(!r.inside(&(&distance + &Dim::constant(6)), &Dim::constant(15)), "{distance}");
        }
        // Rows of an image whose width is no number.
        let width = Dim::symbol("W");
        r.insert(&"k".into(), &(&width * &Dim::symbol("Y")));
        let column = r.remainder(&Dim::symbol("k"), &width).unwrap();
        assert!(r.inside(&(&column + &width), &(&width + &width)));
        assert!(!r.inside(&(&column + &width), &(&(&width + &width) - &Dim::constant(1))));
    }

    #[test]
    fn a_key_before_its_row_lies_at_a_distance_inside_of_the_axis() {
        let (row, key, keys) = (Dim::symbol("row"), Dim::symbol("key"), Dim::symbol("T"));
        let one = Dim::constant(1);
        let mut r = Ranges::default();
        r.insert(&"row".into(), &keys);
        r.insert(&"key".into(), &keys);
        let from_last = &(&key + &(&keys - &one)) - &row;
        assert!(!r.inside(&from_last, &keys) && !r.inside(&(&row - &key), &keys));
        r.insert(&"key".into(), &(&row + &one));
        assert!(r.inside(&from_last, &keys) && r.inside(&(&row - &key), &keys));
        assert!(!r.inside(&(&from_last + &one), &keys) && !r.inside(&(&(&row - &key) - &one), &keys));
    }
}
