//! Ranges of integers: what an operation on integers can give, from what goes in.
//!
//! Ranges are as wide as they must be and wider where two arguments depend on each other: what a range leaves out never
//! happens, and that is all it says. Ends are kept in 128 bits and stop there, far outside of what any element can hold.

use super::{DimNode, Symbol};

/// The integers from the least to the greatest, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub least: i128,
    /// The greatest, not below the least.
    pub greatest: i128,
}

impl Range {
    /// What 32 bits hold.
    pub const I32: Range = Range { least: i32::MIN as i128, greatest: i32::MAX as i128 };
    /// What 64 bits hold.
    pub const I64: Range = Range { least: i64::MIN as i128, greatest: i64::MAX as i128 };

    /// One number.
    pub fn only(n: impl Into<i128>) -> Range {
        let n = n.into();
        Range { least: n, greatest: n }
    }

    /// The positions of an axis of that length; of an empty one its beginning, where nothing is computed.
    pub fn below(extent: i128) -> Range {
        Range { least: 0, greatest: extent.saturating_sub(1).max(0) }
    }

    /// The least range that holds all of these numbers.
    fn around(ends: impl IntoIterator<Item = i128>) -> Range {
        let mut ends = ends.into_iter();
        let first = Range::only(ends.next().unwrap_or(0));
        ends.fold(first, |r, n| Range { least: r.least.min(n), greatest: r.greatest.max(n) })
    }

    /// Whether all of `other` is in it.
    pub fn holds(self, other: Range) -> bool {
        self.least <= other.least && other.greatest <= self.greatest
    }

    /// Both, and what lies between them.
    pub fn union(self, other: Range) -> Range {
        Range { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }

    /// Sums.
    pub fn plus(self, other: Range) -> Range {
        Range {
            least: self.least.saturating_add(other.least),
            greatest: self.greatest.saturating_add(other.greatest),
        }
    }

    /// Negatives.
    pub fn negated(self) -> Range {
        Range { least: self.greatest.saturating_neg(), greatest: self.least.saturating_neg() }
    }

    /// Products.
    pub fn times(self, other: Range) -> Range {
        let with = |n: i128| [self.least.saturating_mul(n), self.greatest.saturating_mul(n)];
        Range::around(with(other.least).into_iter().chain(with(other.greatest)))
    }

    /// Quotients, rounded down; a divisor of zero gives nothing.
    pub fn over(self, by: Range) -> Range {
        // Of each sign, the divisors next to zero and farthest from it give the ends.
        let divisors = [by.least, by.greatest, 1, -1];
        let divisors = divisors.into_iter().filter(|d| *d != 0 && by.least <= *d && *d <= by.greatest);
        let floor = |n: i128, d: i128| {
            let (q, r) = (n.saturating_div(d), n.checked_rem(d).unwrap_or(0));
            if r != 0 && (r < 0) != (d < 0) { q - 1 } else { q }
        };
        Range::around(divisors.flat_map(|d| [floor(self.least, d), floor(self.greatest, d)]))
    }

    /// Remainders of [`Range::over`], which have the sign of the divisor.
    pub fn modulo(self, by: Range) -> Range {
        if by.least > 0 && self.least >= 0 && self.greatest < by.least {
            return self;
        }
        let (least, greatest) = ((by.least + 1).min(0), (by.greatest - 1).max(0));
        Range { least, greatest }
    }

    /// Without their signs.
    pub fn abs(self) -> Range {
        let (least, greatest) = (self.least.saturating_abs(), self.greatest.saturating_abs());
        let nearest = if self.least <= 0 && 0 <= self.greatest { 0 } else { least.min(greatest) };
        Range { least: nearest, greatest: least.max(greatest) }
    }

    /// The lesser of two.
    pub fn min(self, other: Range) -> Range {
        Range { least: self.least.min(other.least), greatest: self.greatest.min(other.greatest) }
    }

    /// The greater of two.
    pub fn max(self, other: Range) -> Range {
        Range { least: self.least.max(other.least), greatest: self.greatest.max(other.greatest) }
    }

    /// Sums of at most so many of them, and every sum on the way.
    pub fn sums(self, count: i128) -> Range {
        self.union(Range::only(0)).times(Range { least: 0, greatest: count.max(0) })
    }

    /// Products of at most so many of them, and every product on the way.
    pub fn products(self, count: i128) -> Range {
        let mut out = Range::only(1);
        let most = self.abs().greatest;
        // Of numbers of at least two each factor doubles: after so many steps nothing changes any more.
        for _ in 0..count.clamp(0, 128) {
            out = out.union(out.times(self));
        }
        if most <= 1 { out.min(Range::only(1)).max(Range::only(-1)) } else { out }
    }

    /// The values of a dimension where its symbols have the values that `of` says; `None` where it says nothing.
    pub fn of_dim(node: &DimNode, of: &impl Fn(&Symbol) -> Option<Range>) -> Option<Range> {
        let both = |x: &DimNode, y: &DimNode| Some((Range::of_dim(x, of)?, Range::of_dim(y, of)?));
        Some(match node {
            DimNode::Constant(n) => Range::only(*n),
            DimNode::Symbol(symbol) => of(symbol)?,
            DimNode::Add(x, y) => both(x, y).map(|(x, y)| x.plus(y))?,
            DimNode::Mul(x, y) => both(x, y).map(|(x, y)| x.times(y))?,
            DimNode::Div(x, y) => both(x, y).map(|(x, y)| x.over(y))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dim;

    fn between(least: i128, greatest: i128) -> Range {
        Range { least, greatest }
    }

    /// Every operation against all pairs of numbers of small ranges.
    #[test]
    fn ranges_hold_what_their_numbers_give() {
        let ranges = (-4..=4).flat_map(|a| (a..=4).map(move |b| between(a, b)));
        let ranges: Vec<Range> = ranges.collect();
        let floor = |a: i128, b: i128| (a as f64 / b as f64).floor() as i128;
        for x in &ranges {
            for y in &ranges {
                for a in x.least..=x.greatest {
                    assert!(x.abs().holds(Range::only(a.abs())) && x.negated().holds(Range::only(-a)));
                    for b in y.least..=y.greatest {
                        let all = [
                            (x.plus(*y), a + b),
                            (x.times(*y), a * b),
                            (x.min(*y), a.min(b)),
                            (x.max(*y), a.max(b)),
                            (x.union(*y), a),
                            (x.union(*y), b),
                        ];
                        for (range, value) in all {
                            assert!(range.holds(Range::only(value)), "{x:?} {y:?}: {range:?}, {value}");
                        }
                        if b != 0 {
                            let q = floor(a, b);
                            assert!(x.over(*y).holds(Range::only(q)), "{a} / {b} of {x:?} {y:?}");
                            assert!(x.modulo(*y).holds(Range::only(a - q * b)), "{a} % {b} of {x:?} {y:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_are_no_wider_than_need_be() {
        assert_eq!(between(-3, 5).times(between(-2, 4)), between(-12, 20));
        assert_eq!(between(-7, 9).over(between(2, 3)), between(-4, 4));
        assert_eq!(between(-7, 9).over(between(-2, 3)), between(-9, 9));
        assert_eq!(between(5, 9).modulo(between(10, 12)), between(5, 9));
        assert_eq!(between(-5, 9).modulo(between(3, 4)), between(0, 3));
        assert_eq!(between(2, 3).sums(5), between(0, 15));
        assert_eq!(between(-2, 3).sums(5), between(-10, 15));
        assert_eq!(between(-2, 3).products(2), between(-6, 9));
        assert_eq!(between(-1, 1).products(1 << 40), between(-1, 1));
        assert_eq!(between(2, 2).products(3), between(1, 8));
        assert_eq!(between(2, 2).products(1 << 40).greatest, i128::MAX);
    }

    #[test]
    fn dimensions_have_the_range_of_their_variables() {
        let dim = &(&(&Dim::symbol("i") * &Dim::symbol("D")) - &Dim::symbol("j")) + &Dim::constant(1);
        let of = |symbol: &Symbol| match symbol.to_string().as_str() {
            "D" => Some(Range::only(1000)),
            "i" | "j" => Some(Range::below(5)),
            _ => None,
        };
        assert_eq!(Range::of_dim(&dim.to_node(), &of), Some(between(-3, 4001)));
        let half = dim.floor_div(&Dim::constant(2)).unwrap();
        assert_eq!(Range::of_dim(&half.to_node(), &of), Some(between(-2, 2000)));
        assert_eq!(Range::of_dim(&Dim::symbol("k").to_node(), &of), None);
    }
}
