//! The meaning of each operator on concrete lanes: the reference that every emitter is tested against.

use crate::body::Const;
use crate::op::Op;

/// The most lanes that the interpreter can be asked for.
pub const MAX_LANES: usize = 16;

/// A concrete value. Vectors use the first `L` places of their array; the rest are zero.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Val {
    Ptr { buffer: usize, offset: i64 },
    Int(i64),
    F32([f32; MAX_LANES]),
    I32([i32; MAX_LANES]),
    Mask([bool; MAX_LANES]),
}

impl Val {
    pub(crate) fn of(value: Const, lanes: usize) -> Val {
        match value {
            Const::Int(value) => Val::Int(value),
            Const::F32(value) => Val::F32(fill(lanes, |_| value)),
            Const::I32(value) => Val::I32(fill(lanes, |_| value)),
            Const::Mask(value) => Val::Mask(fill(lanes, |_| value)),
        }
    }

    pub(crate) fn int(self) -> i64 {
        match self {
            Val::Int(value) => value,
            Val::Ptr { .. } | Val::F32(_) | Val::I32(_) | Val::Mask(_) => {
                panic!("{self:?} is no int: not verified")
            }
        }
    }

    pub(crate) fn mask(self) -> [bool; MAX_LANES] {
        match self {
            Val::Mask(value) => value,
            Val::Ptr { .. } | Val::F32(_) | Val::I32(_) | Val::Int(_) => {
                panic!("{self:?} is no mask: not verified")
            }
        }
    }

    pub(crate) fn i32s(self) -> [i32; MAX_LANES] {
        match self {
            Val::I32(value) => value,
            Val::Ptr { .. } | Val::F32(_) | Val::Mask(_) | Val::Int(_) => {
                panic!("{self:?} is no i32: not verified")
            }
        }
    }

    /// Lane by lane: `self` where `mask` is true, else `other`.
    pub(crate) fn select(self, mask: &[bool; MAX_LANES], other: Val, lanes: usize) -> Val {
        match (self, other) {
            (Val::F32(a), Val::F32(b)) => Val::F32(fill(lanes, |l| if mask[l] { a[l] } else { b[l] })),
            (Val::I32(a), Val::I32(b)) => Val::I32(fill(lanes, |l| if mask[l] { a[l] } else { b[l] })),
            (Val::Mask(a), Val::Mask(b)) => Val::Mask(fill(lanes, |l| if mask[l] { a[l] } else { b[l] })),
            (Val::Ptr { .. } | Val::Int(_) | Val::F32(_) | Val::I32(_) | Val::Mask(_), _) => {
                panic!("select of {self:?} and {other:?}: not verified")
            }
        }
    }
}

pub(crate) fn fill<T: Copy + Default>(lanes: usize, lane: impl Fn(usize) -> T) -> [T; MAX_LANES] {
    std::array::from_fn(|l| if l < lanes { lane(l) } else { T::default() })
}

/// `op(args)` on `lanes` lanes; `fused` says whether `fma` rounds once.
pub(crate) fn apply(op: Op, args: &[Val], lanes: usize, fused: bool) -> Val {
    let on = On { op, args, lanes };
    match op {
        Op::Add => on.numbers(|a, b| a + b, i32::wrapping_add, i64::wrapping_add),
        Op::Sub => on.numbers(|a, b| a - b, i32::wrapping_sub, i64::wrapping_sub),
        Op::Mul => on.numbers(|a, b| a * b, i32::wrapping_mul, i64::wrapping_mul),
        Op::Div => on.numbers(|a, b| a / b, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }, |_, _| 0),
        Op::Rem => on.integers(|a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
        Op::Fma => on.fma(fused),
        Op::Neg => on.number(|a| -a, i32::wrapping_neg, i64::wrapping_neg),
        Op::Abs => on.number(f32::abs, i32::wrapping_abs, i64::wrapping_abs),
        Op::Min => on.numbers(min, |a, b| a.min(b), |a, b| a.min(b)),
        Op::Max => on.numbers(max, |a, b| a.max(b), |a, b| a.max(b)),
        Op::Sqrt => on.float(f32::sqrt),
        Op::Floor => on.float(f32::floor),
        Op::Ceil => on.float(f32::ceil),
        Op::Nearest => on.float(f32::round_ties_even),
        Op::Trunc => on.float(f32::trunc),
        Op::Eq => on.test(|a, b| a == b, |a, b| a == b),
        Op::Ne => on.test(|a, b| a != b, |a, b| a != b),
        Op::Lt => on.test(|a, b| a < b, |a, b| a < b),
        Op::Le => on.test(|a, b| a <= b, |a, b| a <= b),
        Op::And => on.bits(|a, b| a & b, |a, b| a & b),
        Op::Or => on.bits(|a, b| a | b, |a, b| a | b),
        Op::Xor => on.bits(|a, b| a ^ b, |a, b| a ^ b),
        Op::Not => on.not(),
        Op::Shl => on.shift(i32::wrapping_shl),
        Op::Shr => on.shift(i32::wrapping_shr),
        Op::ShrU => on.shift(|a, n| (a as u32).wrapping_shr(n) as i32),
        Op::Select => on.select(),
        Op::ToI32 => on.to_i32(),
        Op::ToF32 => on.to_f32(),
        Op::BitsI32 | Op::BitsF32 => on.same_bits(),
        Op::Splat => Val::I32(fill(lanes, |_| args[0].int() as i32)),
        Op::LaneId => Val::I32(fill(lanes, |l| l as i32)),
        Op::LaneCount => Val::Int(lanes as i64),
        Op::FirstLane => Val::Int(i64::from(args[0].i32s()[0])),
        Op::First => Val::Mask(fill(lanes, |l| (l as i64) < args[0].int())),
        Op::HSum => on.across(|a, b| a + b, i32::wrapping_add),
        Op::HMax => on.across(max, |a, b| a.max(b)),
        Op::HMin => on.across(min, |a, b| a.min(b)),
        Op::HAny => Val::Mask(fill(lanes, |_| args[0].mask()[..lanes].contains(&true))),
        Op::HAll => Val::Mask(fill(lanes, |_| !args[0].mask()[..lanes].contains(&false))),
        Op::PrefixSum => on.scan(|lane, distance| lane.checked_sub(distance)),
        Op::SuffixSum => on.scan(|lane, distance| Some(lane + distance).filter(|at| *at < lanes)),
    }
}

/// An operator at work. Each method is a shape of arguments; types were checked by the verifier.
struct On<'a> {
    op: Op,
    args: &'a [Val],
    lanes: usize,
}

impl On<'_> {
    fn numbers(&self, f: fn(f32, f32) -> f32, g: fn(i32, i32) -> i32, h: fn(i64, i64) -> i64) -> Val {
        match *self.args {
            [Val::F32(a), Val::F32(b)] => Val::F32(fill(self.lanes, |l| f(a[l], b[l]))),
            [Val::I32(a), Val::I32(b)] => Val::I32(fill(self.lanes, |l| g(a[l], b[l]))),
            [Val::Int(a), Val::Int(b)] => Val::Int(h(a, b)),
            _ => self.wrong(),
        }
    }

    fn number(&self, f: fn(f32) -> f32, g: fn(i32) -> i32, h: fn(i64) -> i64) -> Val {
        match *self.args {
            [Val::F32(a)] => Val::F32(fill(self.lanes, |l| f(a[l]))),
            [Val::I32(a)] => Val::I32(fill(self.lanes, |l| g(a[l]))),
            [Val::Int(a)] => Val::Int(h(a)),
            _ => self.wrong(),
        }
    }

    fn float(&self, f: fn(f32) -> f32) -> Val {
        match *self.args {
            [Val::F32(a)] => Val::F32(fill(self.lanes, |l| f(a[l]))),
            _ => self.wrong(),
        }
    }

    fn integers(&self, f: fn(i32, i32) -> i32) -> Val {
        match *self.args {
            [Val::I32(a), Val::I32(b)] => Val::I32(fill(self.lanes, |l| f(a[l], b[l]))),
            _ => self.wrong(),
        }
    }

    fn fma(&self, fused: bool) -> Val {
        match *self.args {
            [Val::F32(a), Val::F32(b), Val::F32(c)] if fused => {
                Val::F32(fill(self.lanes, |l| a[l].mul_add(b[l], c[l])))
            }
            [Val::F32(a), Val::F32(b), Val::F32(c)] => Val::F32(fill(self.lanes, |l| a[l] * b[l] + c[l])),
            _ => self.wrong(),
        }
    }

    fn test(&self, f: fn(f32, f32) -> bool, g: fn(i32, i32) -> bool) -> Val {
        match *self.args {
            [Val::F32(a), Val::F32(b)] => Val::Mask(fill(self.lanes, |l| f(a[l], b[l]))),
            [Val::I32(a), Val::I32(b)] => Val::Mask(fill(self.lanes, |l| g(a[l], b[l]))),
            _ => self.wrong(),
        }
    }

    fn bits(&self, f: fn(bool, bool) -> bool, g: fn(i32, i32) -> i32) -> Val {
        match *self.args {
            [Val::Mask(a), Val::Mask(b)] => Val::Mask(fill(self.lanes, |l| f(a[l], b[l]))),
            [Val::I32(a), Val::I32(b)] => Val::I32(fill(self.lanes, |l| g(a[l], b[l]))),
            _ => self.wrong(),
        }
    }

    fn not(&self) -> Val {
        match *self.args {
            [Val::Mask(a)] => Val::Mask(fill(self.lanes, |l| !a[l])),
            [Val::I32(a)] => Val::I32(fill(self.lanes, |l| !a[l])),
            _ => self.wrong(),
        }
    }

    fn shift(&self, f: fn(i32, u32) -> i32) -> Val {
        match *self.args {
            [Val::I32(a), Val::Int(n)] => Val::I32(fill(self.lanes, |l| f(a[l], n as u32))),
            _ => self.wrong(),
        }
    }

    fn select(&self) -> Val {
        match *self.args {
            [Val::Mask(mask), a, b] => a.select(&mask, b, self.lanes),
            _ => self.wrong(),
        }
    }

    fn to_i32(&self) -> Val {
        match *self.args {
            [Val::F32(a)] => Val::I32(fill(self.lanes, |l| truncate(a[l]))),
            [Val::Mask(a)] => Val::I32(fill(self.lanes, |l| i32::from(a[l]))),
            _ => self.wrong(),
        }
    }

    fn to_f32(&self) -> Val {
        match *self.args {
            [Val::I32(a)] => Val::F32(fill(self.lanes, |l| a[l] as f32)),
            [Val::Mask(a)] => Val::F32(fill(self.lanes, |l| f32::from(u8::from(a[l])))),
            _ => self.wrong(),
        }
    }

    fn same_bits(&self) -> Val {
        match *self.args {
            [Val::F32(a)] => Val::I32(fill(self.lanes, |l| a[l].to_bits() as i32)),
            [Val::I32(a)] => Val::F32(fill(self.lanes, |l| f32::from_bits(a[l] as u32))),
            _ => self.wrong(),
        }
    }

    /// Reduces by halves: lane `l` with lane `l + half`, until one is left.
    fn across(&self, f: fn(f32, f32) -> f32, g: fn(i32, i32) -> i32) -> Val {
        fn halve<T: Copy + Default>(lanes: usize, mut x: [T; MAX_LANES], f: fn(T, T) -> T) -> [T; MAX_LANES] {
            let mut half = lanes;
            while half > 1 {
                half /= 2;
                for l in 0..half {
                    x[l] = f(x[l], x[l + half]);
                }
            }
            fill(lanes, |_| x[0])
        }
        match *self.args {
            [Val::F32(a)] => Val::F32(halve(self.lanes, a, f)),
            [Val::I32(a)] => Val::I32(halve(self.lanes, a, g)),
            _ => self.wrong(),
        }
    }

    /// Adds to each lane the one at a distance of 1, 2, 4, ..., after Hillis and Steele, "Data parallel algorithms", 1986.
    fn scan(&self, at: impl Fn(usize, usize) -> Option<usize>) -> Val {
        fn scan<T: Copy + Default>(
            (lanes, x): (usize, [T; MAX_LANES]),
            at: impl Fn(usize, usize) -> Option<usize>,
            add: fn(T, T) -> T,
        ) -> [T; MAX_LANES] {
            let distances = std::iter::successors(Some(1), |distance| Some(distance * 2));
            distances.take_while(|distance| *distance < lanes).fold(x, |x, distance| {
                let other = |l: usize| at(l, distance).map_or_else(T::default, |at| x[at]);
                fill(lanes, |l| add(x[l], other(l)))
            })
        }
        match *self.args {
            [Val::F32(a)] => Val::F32(scan((self.lanes, a), at, |a, b| a + b)),
            [Val::I32(a)] => Val::I32(scan((self.lanes, a), at, i32::wrapping_add)),
            _ => self.wrong(),
        }
    }

    fn wrong(&self) -> ! {
        panic!("{} on {:?}: not verified", self.op.info().mnemonic, self.args)
    }
}

fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

fn max(a: f32, b: f32) -> f32 {
    if b < a { a } else { b }
}

fn truncate(x: f32) -> i32 {
    // Exact: -2^31 is a float, 2^31 is the first that does not fit, and comparisons are false for NaN.
    if (-2_147_483_648.0..2_147_483_648.0).contains(&x) { x as i32 } else { i32::MIN }
}
