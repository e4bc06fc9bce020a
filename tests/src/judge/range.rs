//! Between which numbers a value of an f32 program may lie, whatever the order in which it is computed.

/// The greatest finite f32.
const MOST: f64 = f32::MAX as f64;
/// Half the distance of neighbouring f32 near one, with room for functions that are off by a few ulps.
const STEP: f64 = 4.0 * 1.2e-7 / 2.0;
/// What may be lost below the smallest normal number where a function gives zero there.
pub const SMALL: f64 = 1.2e-38;
/// The least normal number: a result nearer to zero may be zero (`docs/semantics.md`).
const NORMAL: f64 = f32::MIN_POSITIVE as f64;
/// The distance of neighbouring numbers near zero.
const LEAST: f64 = 3.0e-45;

/// What is known of a value: a number between two, NaN, or nothing at all, since an index has left its axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least; above `hi` where the value can be no number.
    pub lo: f64,
    /// The greatest.
    pub hi: f64,
    /// Whether it may be NaN.
    pub nan: bool,
    /// Whether something overflowed on the way, or was computed of NaN, of +inf, or of a factor beyond the bounds of the
    /// contract: fused code may then give something else.
    pub wild: bool,
    /// Whether a product in a sum overflowed on the way: what is multiplied and added in one step is not rounded between.
    pub contracted: bool,
    /// Whether an index outside its axis is read for it.
    pub fault: Fault,
}

/// Whether the value has no meaning because an index outside its axis is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It is not.
    No,
    /// That depends on how numbers are rounded.
    Maybe,
    /// It is.
    Yes,
}

impl Range {
    /// Nothing is known.
    pub const ANY: Range = Range {
        lo: f64::NEG_INFINITY,
        hi: f64::INFINITY,
        nan: true,
        wild: true,
        contracted: false,
        fault: Fault::No,
    };
    /// An index outside its axis.
    pub const OUTSIDE: Range = Range { fault: Fault::Yes, ..Range::ANY };

    /// A number that is known, or NaN.
    pub fn exactly(x: f64) -> Range {
        let (lo, hi) = if x.is_nan() { (f64::INFINITY, f64::NEG_INFINITY) } else { (x, x) };
        Range { lo, hi, nan: x.is_nan(), wild: false, contracted: false, fault: Fault::No }
    }

    /// Whether it may be NaN, or the infinity above.
    pub fn is_hostile(self) -> bool {
        self.nan || self.hi == f64::INFINITY
    }

    /// Some number between two.
    pub fn between(lo: f64, hi: f64) -> Range {
        Range { lo, hi, nan: false, wild: false, contracted: false, fault: Fault::No }
    }

    /// The number, if it is known.
    pub fn exact(self) -> Option<f64> {
        (self.lo == self.hi && !self.nan).then_some(self.lo)
    }

    /// Whether it can be a number.
    pub fn is_number(self) -> bool {
        self.lo <= self.hi
    }

    /// Whether it is certainly a finite number.
    pub fn is_finite(self) -> bool {
        !self.nan && self.is_number() && self.lo.is_finite() && self.hi.is_finite()
    }

    /// The greatest magnitude.
    pub fn magnitude(self) -> f64 {
        if self.is_number() { self.lo.abs().max(self.hi.abs()) } else { 0.0 }
    }

    /// With what is true of the arguments that it was computed from.
    #[must_use]
    pub fn of(self, args: &[Range]) -> Range {
        Range {
            wild: self.wild || args.iter().any(|a| a.wild),
            contracted: self.contracted || args.iter().any(|a| a.contracted),
            fault: args.iter().map(|a| a.fault).fold(self.fault, Fault::max),
            ..self
        }
    }

    /// Either of two.
    #[must_use]
    pub fn or(self, other: Range) -> Range {
        let fault = if self.fault == other.fault {
            self.fault
        } else {
            self.fault.max(other.fault).min(Fault::Maybe)
        };
        Range {
            lo: self.lo.min(other.lo),
            hi: self.hi.max(other.hi),
            nan: self.nan || other.nan,
            wild: self.wild || other.wild,
            contracted: self.contracted || other.contracted,
            fault,
        }
    }

    /// Wider by an absolute error.
    #[must_use]
    pub fn wider(self, by: f64) -> Range {
        if !self.is_number() {
            return self;
        }
        Range { lo: self.lo - by, hi: self.hi + by, ..self }.in_f32()
    }

    /// As a sum or a product of f32 is rounded.
    #[must_use]
    pub fn rounded(self) -> Range {
        self.within(1.0, LEAST)
    }

    /// As a function gives it that is off by a few ulps and may give zero for what is too small.
    #[must_use]
    pub fn approximate(self) -> Range {
        self.within(2.0, SMALL)
    }

    fn within(self, steps: f64, least: f64) -> Range {
        if !self.is_number() {
            return self;
        }
        // Zero is exact, and rounding changes no sign.
        let off = |x: f64| if x.is_finite() && x != 0.0 { x.abs() * STEP * steps + least } else { 0.0 };
        let (mut lo, mut hi) = (self.lo - off(self.lo), self.hi + off(self.hi));
        if self.lo >= 0.0 {
            lo = lo.max(0.0);
        }
        if self.hi <= 0.0 {
            hi = hi.min(0.0);
        }
        if lo > 0.0 && lo < NORMAL {
            lo = 0.0;
        }
        if hi < 0.0 && hi > -NORMAL {
            hi = 0.0;
        }
        Range { lo, hi, ..self }.in_f32()
    }

    /// What lies beyond the greatest f32 is an infinity, and has overflowed.
    fn in_f32(self) -> Range {
        let fit = |x: f64| {
            if x.is_finite() && x.abs() > MOST { x.signum() * f64::INFINITY } else { x }
        };
        let (lo, hi) = (fit(self.lo), fit(self.hi));
        // The end that was not beyond it with its error may stay where it was.
        let (lo, hi) =
            (if lo == f64::INFINITY { MOST } else { lo }, if hi == f64::NEG_INFINITY { -MOST } else { hi });
        let lo = if self.lo > MOST * (1.0 + 1e-5) { f64::INFINITY } else { lo };
        let hi = if self.hi < -MOST * (1.0 + 1e-5) { f64::NEG_INFINITY } else { hi };
        let grew = |before: f64, now: f64| before.is_finite() && !now.is_finite();
        Range { lo, hi, wild: self.wild || grew(self.lo, lo) || grew(self.hi, hi), ..self }
    }

    /// Whether a number that was computed may be this one.
    pub fn holds(self, found: f64) -> bool {
        if found.is_nan() {
            return self.nan;
        }
        let off = |x: f64| if x.is_finite() { x.abs() * STEP + LEAST } else { 0.0 };
        self.is_number() && self.lo - off(self.lo) <= found && found <= self.hi + off(self.hi)
    }
}

/// The range of a function of two ranges that is monotone in each: it lies between its values at the corners. A corner
/// without a value makes NaN possible.
pub fn corners(a: Range, b: Range, f: impl Fn(f64, f64) -> f64) -> Range {
    let mut out = Range {
        lo: f64::INFINITY,
        hi: f64::NEG_INFINITY,
        nan: a.nan || b.nan,
        wild: false,
        contracted: false,
        fault: Fault::No,
    };
    if a.is_number() && b.is_number() {
        for x in [a.lo, a.hi] {
            for y in [b.lo, b.hi] {
                let z = f(x, y);
                if z.is_nan() {
                    out.nan = true;
                    out.wild = true;
                } else {
                    out.lo = out.lo.min(z);
                    out.hi = out.hi.max(z);
                }
            }
        }
    }
    out.of(&[a, b])
}

/// The range of a function that grows with its argument.
pub fn growing(a: Range, f: impl Fn(f64) -> f64) -> Range {
    if !a.is_number() {
        return a;
    }
    let (lo, hi) = (f(a.lo), f(a.hi));
    if lo.is_nan() || hi.is_nan() { Range::ANY.of(&[a]) } else { Range { lo, hi, ..a } }
}

/// The range of a sum of two, which is rounded once.
pub fn added(a: Range, b: Range) -> Range {
    let mut out = corners(a, b, |x, y| x + y);
    out.wild |= a.is_hostile() || b.is_hostile();
    let (up, down) = (f64::INFINITY, f64::NEG_INFINITY);
    let may = |x: Range, end: f64| x.is_number() && (x.lo == end || x.hi == end);
    if may(a, up) && may(b, down) || may(a, down) && may(b, up) {
        out.nan = true;
        out.wild = true;
    }
    out.rounded()
}

/// The range of a sum, in any order and any grouping.
pub fn sum(terms: &[Range]) -> Range {
    let (mut lo, mut hi, mut weight) = (0.0, 0.0, 0.0);
    let (mut up, mut down, mut certain) = (false, false, (false, false));
    let mut out = Range::exactly(0.0);
    for t in terms {
        out = out.of(&[*t]);
        out.nan |= t.nan;
        out.wild |= t.is_hostile();
        if !t.is_number() {
            (out.lo, out.hi) = (f64::INFINITY, f64::NEG_INFINITY);
            continue;
        }
        up |= t.hi == f64::INFINITY;
        down |= t.lo == f64::NEG_INFINITY;
        certain.0 |= t.hi == f64::NEG_INFINITY;
        certain.1 |= t.lo == f64::INFINITY;
        lo += t.lo.max(-f64::MAX);
        hi += t.hi.min(f64::MAX);
        weight += [t.lo, t.hi].into_iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
    }
    if !out.is_number() {
        return out;
    }
    if up && down {
        out.nan = true;
        out.wild = true;
    }
    // Each of the additions may lose what is below the least normal number.
    let steps = terms.len() as f64 + 2.0;
    let error = if weight == 0.0 { 0.0 } else { steps * (STEP * weight + NORMAL) };
    let least = if lo >= 0.0 && terms.iter().all(|t| t.lo >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
    out.lo = if certain.1 {
        f64::INFINITY
    } else if down {
        f64::NEG_INFINITY
    } else {
        (lo - error).max(least)
    };
    out.hi = if certain.0 {
        f64::NEG_INFINITY
    } else if up {
        f64::INFINITY
    } else {
        hi + error
    };
    if certain.0 && certain.1 {
        return Range { wild: true, fault: out.fault, ..Range::exactly(f64::NAN) }.of(terms);
    }
    if out.lo > out.hi {
        std::mem::swap(&mut out.lo, &mut out.hi);
    }
    if weight * (1.0 + error / weight.max(1.0)) > MOST && terms.len() > 1 {
        // Whether a part of the sum overflows depends on the order.
        let one_sign = terms.iter().all(|t| t.lo >= 0.0) || terms.iter().all(|t| t.hi <= 0.0);
        if !one_sign {
            return Range { fault: out.fault, ..Range::ANY }.of(terms);
        }
    }
    out.in_f32()
}
