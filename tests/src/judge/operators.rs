//! What each operator may give for arguments that lie in ranges.

use super::range::{Fault, Range, added, corners, growing, sum};
use salient_ir::op::{Curve, MapInfo};
use salient_ir::{Const, DType, MapOp, ReduceOp};

/// The range of a literal.
pub(super) fn constant(c: Const) -> Range {
    Range::exactly(c.value())
}

fn truth(known: Option<bool>) -> Range {
    match known {
        Some(b) => Range::exactly(f64::from(u8::from(b))),
        None => Range::between(0.0, 1.0),
    }
}

fn known(r: Range) -> Option<bool> {
    r.exact().map(|x| x != 0.0)
}

/// What a comparison gives: `certain` and `impossible` are of numbers; NaN compares as `of_nan`.
fn compared(a: Range, b: Range, certain: bool, impossible: bool, of_nan: bool) -> Range {
    let numbers = a.is_number() && b.is_number();
    let may_be_nan = a.nan || b.nan;
    let of_numbers = if certain {
        Some(true)
    } else if impossible {
        Some(false)
    } else {
        None
    };
    let result = match (numbers, may_be_nan) {
        (false, _) => Some(of_nan),
        (true, false) => of_numbers,
        (true, true) => of_numbers.filter(|x| *x == of_nan),
    };
    truth(result).of(&[a, b])
}

fn scaled(a: Range, b: Range) -> Range {
    let mut out = corners(a, b, |x, y| x * y);
    // Where one may be infinite and the other zero, NaN may come of it; and where one may be zero and the other finite, zero.
    let zero = |r: Range| r.is_number() && r.lo <= 0.0 && r.hi >= 0.0;
    let infinite = |r: Range| r.is_number() && (r.lo.is_infinite() || r.hi.is_infinite());
    let finite = |r: Range| r.is_number() && !(r.lo == r.hi && r.lo.is_infinite());
    if zero(a) && infinite(b) || zero(b) && infinite(a) {
        out.nan = true;
        out.wild = true;
    }
    if zero(a) && finite(b) || zero(b) && finite(a) {
        (out.lo, out.hi) = (out.lo.min(0.0), out.hi.max(0.0));
    }
    out
}

fn quotient(a: Range, b: Range) -> Range {
    if b.is_number() && b.lo <= 0.0 && b.hi >= 0.0 {
        let nan = a.nan || b.nan || a.lo <= 0.0 && a.hi >= 0.0;
        return Range { nan, ..Range::ANY }.of(&[a, b]);
    }
    let mut out = corners(a, b, |x, y| x / y);
    let infinite = |r: Range| r.is_number() && (r.lo.is_infinite() || r.hi.is_infinite());
    if infinite(a) && infinite(b) {
        out.nan = true;
        out.wild = true;
    }
    // The corners say nothing of what lies between infinities: a number over an infinity is zero.
    if infinite(b) && a.is_number() && !(a.lo == a.hi && a.lo.is_infinite()) {
        (out.lo, out.hi) = (out.lo.min(0.0), out.hi.max(0.0));
    }
    out
}

fn power(a: Range, b: Range) -> Range {
    if b.exact() == Some(2.0) {
        let square = scaled(a, a);
        let lo = if a.lo <= 0.0 && a.hi >= 0.0 { 0.0 } else { square.lo.max(0.0) };
        return if square.is_number() { Range { lo, ..square } } else { square };
    }
    if !a.is_number() || !b.is_number() || a.lo < 0.0 || a.lo == 0.0 && b.lo <= 0.0 || b.magnitude() > 64.0 {
        return Range::ANY.of(&[a, b]);
    }
    let out = corners(a, b, f64::powf);
    let slope = [a.lo, a.hi]
        .into_iter()
        .filter(|x| *x > 0.0 && x.is_finite())
        .fold(1.0, |m: f64, x| m.max(x.ln().abs()));
    if out.is_number() && out.lo.is_finite() && out.hi.is_finite() {
        let error = out.magnitude() * slope * b.magnitude() * 1e-6;
        return out.wider(error);
    }
    out
}

/// A function that nowhere rises or falls faster than its argument.
fn wave(info: &MapInfo, a: Range) -> Range {
    let curve = curve(info);
    if !a.is_number() || !a.lo.is_finite() || !a.hi.is_finite() {
        return Range::ANY.of(&[a]);
    }
    let (middle, half) = ((info.eval)(&[(a.lo + a.hi) / 2.0]), (a.hi - a.lo) / 2.0 + curve.error);
    let (lo, hi) = ((middle - half).max(curve.least), (middle + half).min(curve.greatest));
    Range { lo, hi, ..a }
}

fn logarithm(a: Range) -> Range {
    if !a.is_number() {
        return a;
    }
    if a.hi < 0.0 {
        return Range { wild: true, ..Range::exactly(f64::NAN) }.of(&[a]);
    }
    let mut out = Range { lo: a.lo.max(0.0).ln(), hi: a.hi.ln(), ..a };
    if a.lo < 0.0 {
        out.nan = true;
        out.wild = true;
    }
    if a.lo <= 0.0 && a.hi > 0.0 {
        out.wild = true;
    }
    let approximate = out.approximate();
    if approximate.lo.is_finite() && approximate.hi.is_finite() {
        approximate.wider(1e-7)
    } else {
        approximate
    }
}

fn integers(op: MapOp, a: Range, b: Range) -> Range {
    let (Some(x), Some(y)) = (a.exact(), b.exact()) else { return Range::ANY.of(&[a, b]) };
    if y == 0.0 {
        // Whether the call is refused or not is not for numbers to say.
        return Range { fault: Fault::Maybe, ..Range::ANY }.of(&[a, b]);
    }
    Range::exactly((op.info().eval)(&[x, y])).of(&[a, b])
}

/// A cast to an integer: exact where the number is known and fits.
fn whole(a: Range) -> Range {
    if !a.is_number() || a.nan || a.magnitude() > 2e9 {
        return Range { fault: a.fault.max(Fault::Maybe), ..Range::ANY };
    }
    Range { lo: a.lo.trunc(), hi: a.hi.trunc(), ..a }
}

fn extremum(op: MapOp, a: Range, b: Range) -> Range {
    if !a.is_number() || !b.is_number() {
        return Range::exactly(f64::NAN).of(&[a, b]);
    }
    let pick = if op == MapOp::Min { f64::min } else { f64::max };
    let picked = Range::between(pick(a.lo, b.lo), pick(a.hi, b.hi));
    Range { nan: a.nan || b.nan, ..picked }.of(&[a, b])
}

fn select(args: &[Range]) -> Range {
    let (condition, yes, no) = (args[0], args[1], args[2]);
    let mut out = match known(condition) {
        Some(true) => yes,
        Some(false) => no,
        None => yes.or(no),
    };
    out.wild |= condition.wild;
    out.contracted |= condition.contracted;
    out.fault = out.fault.max(condition.fault);
    out
}

fn negated(a: Range) -> Range {
    if a.is_number() { Range { lo: -a.hi, hi: -a.lo, ..a } } else { a }
}

fn absolute(a: Range) -> Range {
    if !a.is_number() {
        return a;
    }
    let least = if a.lo <= 0.0 && a.hi >= 0.0 { 0.0 } else { a.lo.abs().min(a.hi.abs()) };
    Range { lo: least, hi: a.magnitude(), ..a }
}

/// The square root; NaN of what is negative.
fn root(a: Range) -> Range {
    if !a.is_number() || a.lo >= 0.0 {
        return growing(a, f64::sqrt).rounded();
    }
    if a.hi < 0.0 {
        return Range { wild: true, ..Range::exactly(f64::NAN) }.of(&[a]);
    }
    Range { lo: 0.0, hi: a.hi.max(0.0).sqrt(), nan: true, wild: true, ..a }
}

/// Whether both are certainly the same number.
fn same(a: Range, b: Range) -> bool {
    a.exact().is_some() && a.exact() == b.exact()
}

/// Whether they certainly differ.
fn apart(a: Range, b: Range) -> bool {
    a.hi < b.lo || b.hi < a.lo
}

/// Two truth values, one of which decides if it is `decisive`; else both must be known.
fn joined(a: Range, b: Range, decisive: bool) -> Range {
    let result = match (known(a), known(b)) {
        (Some(x), _) | (_, Some(x)) if x == decisive => Some(decisive),
        (Some(_), Some(_)) => Some(!decisive),
        _ => None,
    };
    truth(result).of(&[a, b])
}

/// The range of a scalar operator.
#[expect(clippy::wildcard_enum_match_arm, reason = "the row of a function says its range")]
pub(super) fn map(op: MapOp, args: &[Range], dtype: DType) -> Range {
    let float = dtype == DType::F32;
    let a = args[0];
    let b = args.get(1).copied().unwrap_or(a);
    match op {
        MapOp::Neg => negated(a),
        MapOp::Abs => absolute(a),
        MapOp::Sqrt => root(a),
        MapOp::Log => logarithm(a),
        MapOp::Sin | MapOp::Cos => wave(op.info(), a),
        MapOp::Recip => quotient(Range::exactly(1.0), a).rounded(),
        MapOp::Not => truth(known(a).map(|x| !x)).of(&[a]),
        MapOp::ToF32 => {
            if a.exact().is_some_and(|x| x.abs() < 1.6e7) {
                a
            } else {
                a.rounded()
            }
        }
        MapOp::ToI32 | MapOp::ToI64 => whole(a),
        MapOp::Add if float => added(a, b),
        MapOp::Sub if float => added(a, negated(b)),
        MapOp::Mul if float => scaled(a, b).rounded(),
        MapOp::Add => corners(a, b, |x, y| x + y),
        MapOp::Sub => corners(a, b, |x, y| x - y),
        MapOp::Mul => scaled(a, b),
        MapOp::Div => quotient(a, b).rounded(),
        MapOp::Pow => power(a, b).approximate(),
        MapOp::Min | MapOp::Max => extremum(op, a, b),
        MapOp::IntDiv | MapOp::Mod => integers(op, a, b),
        MapOp::Eq => compared(a, b, same(a, b), apart(a, b), false),
        MapOp::Ne => compared(a, b, apart(a, b), same(a, b), true),
        MapOp::Lt => compared(a, b, a.hi < b.lo, a.lo >= b.hi, false),
        MapOp::Le => compared(a, b, a.hi <= b.lo, a.lo > b.hi, false),
        // One side alone may decide.
        MapOp::And => joined(a, b, false),
        MapOp::Or => joined(a, b, true),
        MapOp::Select => select(args),
        MapOp::Philox => Range::between(0.0, 1.0).of(args),
        _ => function(op.info(), a),
    }
}

/// What the row of a function of one number says of it.
fn curve(info: &MapInfo) -> &Curve {
    let curve = info.curve.as_ref();
    curve.unwrap_or_else(|| panic!("`{}` has neither a range here nor a curve", info.name))
}

/// The range of a function of one number of which no more is known than its row says.
fn function(info: &MapInfo, a: Range) -> Range {
    let curve = curve(info);
    if !curve.rises {
        return Range::between(curve.least, curve.greatest).of(&[a]);
    }
    let value = growing(a, |x| (info.eval)(&[x]));
    if info.exact {
        return value;
    }
    let near = value.approximate();
    if curve.error == 0.0 || !near.is_number() {
        return near;
    }
    let near = near.wider(curve.error);
    Range { lo: near.lo.max(curve.least), hi: near.hi.min(curve.greatest), ..near }
}

/// The range of a reduction of these elements.
pub(super) fn reduce(op: ReduceOp, along: &[Range], dtype: DType) -> Range {
    let empty = Range::exactly(op.info().empty);
    if along.is_empty() && dtype.is_int() && !empty.is_finite() {
        // No integer is infinite.
        return Range { fault: Fault::Maybe, ..Range::ANY };
    }
    match op {
        ReduceOp::Sum if dtype == DType::F32 => sum(along),
        ReduceOp::Sum => along.iter().fold(empty, |a, b| map(MapOp::Add, &[a, *b], dtype)),
        ReduceOp::Prod => product(along, dtype),
        ReduceOp::Max => along.iter().fold(empty, |a, b| extremum(MapOp::Max, a, *b)),
        ReduceOp::Min => along.iter().fold(empty, |a, b| extremum(MapOp::Min, a, *b)),
        ReduceOp::Any => along.iter().fold(empty, |a, b| map(MapOp::Or, &[a, *b], dtype)),
        ReduceOp::All => along.iter().fold(empty, |a, b| map(MapOp::And, &[a, *b], dtype)),
        ReduceOp::ArgMax => greatest(along),
    }
}

fn product(along: &[Range], dtype: DType) -> Range {
    let most: f64 = along.iter().map(|r| r.magnitude().max(1.0)).product();
    let least: f64 = along.iter().map(|r| r.magnitude().min(1.0)).filter(|x| *x > 0.0).product();
    if !(most < 1e38 && least > 1e-37) {
        return Range::ANY.of(along);
    }
    along.iter().fold(Range::exactly(1.0), |a, b| map(MapOp::Mul, &[a, *b], dtype)).of(along)
}

/// The first position of the greatest value: each position whose value may be it.
fn greatest(along: &[Range]) -> Range {
    if along.iter().any(|r| r.nan) {
        return Range::between(0.0, along.len().saturating_sub(1) as f64).of(along);
    }
    let floor = along.iter().map(|r| r.lo).fold(f64::NEG_INFINITY, f64::max);
    let first = along.iter().position(|r| r.hi >= floor).unwrap_or(0);
    // Behind a first one that is certainly not less than all others, none comes into question.
    let certain = along.get(first).is_some_and(|r| along.iter().all(|o| r.lo >= o.hi));
    let last = if certain { first } else { along.iter().rposition(|r| r.hi >= floor).unwrap_or(0) };
    Range::between(first as f64, last as f64).of(along)
}
