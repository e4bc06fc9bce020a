//! Elementary functions as code on the builder, each with its stated error.
//!
//! Bounds are in units in the last place (ulp) of the exact result, first with fused multiply-add, then (in parentheses) without;
//! tests hold them on a dense sample of the range. Coefficients are minimax (Remez's algorithm) in the error of the
//! result. Nothing here is aware of a machine, and nothing calls out of the body.

use crate::build::Builder;
use crate::handle::{F32, I32, Mask};

/// 1.5 * 2^23: adding it rounds a float of moderate size to an integer and leaves that integer in the low mantissa bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has few enough bits that a multiple of it by an integer below 2^9 is exact.
const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// Below this e^x is under the smallest normal number.
const EXP_LEAST: f32 = -87.336_54;
/// Above this e^x overflows.
const EXP_MOST: f32 = 88.722_84;
/// pi / 2 in three parts; a multiple of the first two by an integer below 2^13 is exact.
const HALF_PI: [f32; 3] = [1.570_312_5, 4.837_513e-4, 7.549_79e-8];
/// From here on multiples of pi / 2 are not subtracted but counted with [`TURNS`]: a power of two, below which the products of
/// [`HALF_PI`] are exact.
const ANGLE_LARGE: f32 = 8192.0;
/// 2 pi / 2^32 in two parts.
const PHASE: [f32; 2] = [1.462_918_1e-9, -4.070_940_3e-17];
/// The exponent field of [`ANGLE_LARGE`].
const ANGLE_LARGE_EXPONENT: i32 = 127 + 13;
/// 2^-10 / (2 pi) in binary, 32 digits a word: a float of 24 bits times 2^10 of the least large angle is that many turns.
const TURNS: [u32; 7] =
    [0x000a_2f98, 0x36e4_e441, 0x529f_c275, 0x7d1f_534d, 0xdc0d_b629, 0x5993_c439, 0x041f_e516];

// Coefficients, from the constant up.

/// e^r on |r| <= ln 2 / 2; relative error 9.2e-8, and e^0 = 1 exactly.
const EXP: [f32; 6] = [1.0, 0.999_999_7, 0.499_991_45, 0.166_676_4, 0.041_898_39, 0.008_290_23];
/// 2^f on |f| <= 1/2; relative error 9.2e-8, and 2^0 = 1 exactly.
const EXP2: [f32; 6] = [
    1.0,
    std::f32::consts::LN_2 - 1.788_139_3e-7,
    0.240_222_42,
    0.055_507_336,
    0.009_671_513,
    0.001_326_472_7,
];
/// (ln(1 + f) - f + f^2 / 2) / f^3 on 1 + f in [sqrt(1/2), sqrt(2)]; relative error of the logarithm 6e-9.
const LOG: [f32; 8] = [
    0.333_333_3,
    -0.250_008_23,
    0.200_012_34,
    -0.166_232_99,
    0.142_015_53,
    -0.131_605_8,
    0.127_633_27,
    -0.076_356_61,
];
/// (tanh(s) / s - 1) / s^2 in s^2 on |s| <= 0.625; relative error of the result 4.5e-9.
const TANH: [f32; 5] = [-0.333_332_8, 0.133_314_2, -0.053_737_797, 0.020_632_546, -0.005_697_383_5];
/// erf(s) / s - 1 in s^2 on |s| <= 1; relative error 1.2e-9.
const ERF: [f32; 7] = [
    0.128_379_17,
    -0.376_126_26,
    0.112_835_854,
    -0.026_853_813,
    0.005_188_327_7,
    -8.010_193_7e-4,
    7.853_861_5e-5,
];
/// ln(1 - erf(s)) on 1 <= s <= 4; relative error of erf 1.1e-9.
const ERFC_LOG: [f32; 7] = [
    -3.205_773_8e-4,
    -1.127_171_6,
    -0.638_012_23,
    -0.103_218_18,
    0.021_889_633,
    -0.002_960_111_7,
    1.876_045_6e-4,
];
/// (sin(r) / r - 1) / r^2 in r^2 on |r| <= pi / 4; error 3.6e-9.
const SIN: [f32; 3] = [-0.166_666_55, 0.008_332_178, -1.951_723_5e-4];
/// (cos(r) - 1 + r^2 / 2) / r^4 in r^2 on |r| <= pi / 4; error 1e-10.
const COS: [f32; 3] = [0.041_666_646, -0.001_388_736_7, 2.443_838e-5];

/// `e^x`, at most 2 (2.5) ulp. Results below the smallest normal number (`x < -87.33654`) are 0; overflow is +inf; NaN stays.
pub fn exp(b: &mut Builder, x: F32) -> F32 {
    exp_of_sum(b, x, None)
}

/// [`exp`] for `x <= 0` (or NaN), as in a softmax, where the maximum is subtracted first. It is the faster one. It is also right up
/// to 88.72, and garbage beyond.
pub fn exp_nonpositive(b: &mut Builder, x: F32) -> F32 {
    exp_below_overflow(b, x, None)
}

/// `e^x` for `x <= 0` (or NaN) where it weighs something beside `e^0 = 1`: at most 2 + |x| / 4
/// (2.5 + 1.25 |x|) ulp, so that the error is at most 2.5 ulp of 1 everywhere. It is faster than [`exp_nonpositive`], for `x log2 e` is not kept in two parts.
pub fn exp_weight(b: &mut Builder, x: F32) -> F32 {
    let log2_e = b.f32(std::f32::consts::LOG2_E);
    let round = b.f32(ROUND);
    let shifted = b.fma(x, log2_e, round);
    let minus_n = b.sub(round, shifted);
    let f = b.fma(x, log2_e, minus_n);
    let y = polynomial(b, f, &EXP2);
    scaled_by_power(b, x, y, shifted)
}

/// `e^(x + low)` for a small `low`.
fn exp_of_sum(b: &mut Builder, x: F32, low: Option<F32>) -> F32 {
    let y = exp_below_overflow(b, x, low);
    let (most, infinity) = (b.f32(EXP_MOST), b.f32(f32::INFINITY));
    let infinite = b.gt(x, most);
    b.select(infinite, infinity, y)
}

fn exp_below_overflow(b: &mut Builder, x: F32, low: Option<F32>) -> F32 {
    // Cody and Waite: x = n ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^n e^r. Outside the range r is anything, NaN for -inf; what
    // comes of it is replaced at the end, so that x needs no clamping first.
    let log2_e = b.f32(std::f32::consts::LOG2_E);
    let round = b.f32(ROUND);
    let shifted = b.fma(x, log2_e, round);
    let n = b.sub(shifted, round);
    let mut r = x;
    for part in LN2 {
        let part = b.f32(-part);
        r = b.fma(n, part, r);
    }
    if let Some(low) = low {
        r = b.add(r, low);
    }
    let y = polynomial(b, r, &EXP);
    scaled_by_power(b, x, y, shifted)
}

/// `2^n y`, where the low bits of `shifted` are n; 0 where `x`, whose exponential this is, is under the least.
fn scaled_by_power(b: &mut Builder, x: F32, y: F32, shifted: F32) -> F32 {
    // 2^n by adding n to the exponent: the low bits of `shifted` are n, and the shift drops the rest. Within the range the
    // result is normal.
    let bits = b.bits_i32(shifted);
    let exponent_at = b.int(23);
    let exponent = b.shl(bits, exponent_at);
    let y = b.bits_i32(y);
    let y = b.add(y, exponent);
    let y = b.bits_f32(y);
    let (least, zero) = (b.f32(EXP_LEAST), b.f32(0.0));
    let tiny = b.lt(x, least);
    b.select(tiny, zero, y)
}

/// The natural logarithm, at most 1 (1) ulp, of subnormal numbers too. -inf at zero, NaN below.
pub fn log(b: &mut Builder, x: F32) -> F32 {
    let parts = exponent_and_fraction(b, x);
    let y = log_of_parts(b, parts);
    log_at_the_edges(b, x, y)
}

/// `ln(2^e (1 + f))`.
fn log_of_parts(b: &mut Builder, (e, f): (F32, F32)) -> F32 {
    let square = b.mul(f, f);
    let p = polynomial(b, f, &LOG);
    let cube = b.mul(square, f);
    let low = b.f32(LN2[1]);
    let y = b.mul(e, low);
    let y = b.fma(p, cube, y);
    let half = b.f32(-0.5);
    let y = b.fma(square, half, y);
    let y = b.add(y, f);
    let high = b.f32(LN2[0]);
    b.fma(e, high, y)
}

/// [`log`] of a normal positive number, +inf or NaN, as in a softplus `ln(1 + e^x)`. It is the faster one, and garbage elsewhere.
pub fn log_of_normal(b: &mut Builder, x: F32) -> F32 {
    let parts = normal_in_parts(b, x);
    let y = log_of_parts(b, parts);
    or_itself(b, x, y)
}

/// `x` as `2^e (1 + f)` with `1 + f` in [sqrt(1/2), sqrt(2)), for a positive finite `x`.
fn exponent_and_fraction(b: &mut Builder, x: F32) -> (F32, F32) {
    // A subnormal number has its exponent in its leading zeros; 2^23 times it is normal.
    let normal = b.f32(f32::MIN_POSITIVE);
    let subnormal = b.lt(x, normal);
    let up = b.f32(8_388_608.0);
    let scaled = b.mul(x, up);
    let x = b.select(subnormal, scaled, x);
    let (e, f) = normal_in_parts(b, x);
    let (zero, down) = (b.f32(0.0), b.f32(-23.0));
    let correction = b.select(subnormal, down, zero);
    (b.add(e, correction), f)
}

/// The same for a normal `x`.
fn normal_in_parts(b: &mut Builder, x: F32) -> (F32, F32) {
    let bits = b.bits_i32(x);
    let root_half = b.i32(std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32);
    let over = b.sub(bits, root_half);
    let exponent_at = b.int(23);
    let e = b.shr(over, exponent_at);
    let exponent = b.shl(e, exponent_at);
    let fraction = b.sub(bits, exponent);
    let fraction = b.bits_f32(fraction);
    let one = b.f32(1.0);
    let f = b.sub(fraction, one);
    (b.to_f32(e), f)
}

/// The logarithm `y` of `x`, where `x` may be anything.
fn log_at_the_edges(b: &mut Builder, x: F32, y: F32) -> F32 {
    let (zero, least, nan) = (b.f32(0.0), b.f32(f32::NEG_INFINITY), b.f32(f32::NAN));
    let y = or_itself(b, x, y);
    let nothing = b.eq(x, zero);
    let y = b.select(nothing, least, y);
    let negative = b.lt(x, zero);
    b.select(negative, nan, y)
}

/// `y`, or `x` where that is +inf or NaN, which are their own logarithms.
fn or_itself(b: &mut Builder, x: F32, y: F32) -> F32 {
    let infinity = b.f32(f32::INFINITY);
    let finite = b.lt(x, infinity);
    b.select(finite, y, x)
}

/// `x^y`, at most 4 ulp where |y ln x| <= 20 and 12 ulp where the result is finite and normal (without fused
/// multiply-add: about |y ln x| ulp). As in C: `x^0` and `1^y` are 1, a negative finite `x` needs an integral `y`, NaN otherwise. Results
/// below the smallest normal number are 0.
pub fn pow(b: &mut Builder, x: F32, y: F32) -> F32 {
    let (zero, one) = (b.f32(0.0), b.f32(1.0));
    let magnitude = b.abs(x);
    let (high, low) = log_in_two(b, magnitude);
    // The exponent in two parts as well; the second is only of use where the first is moderate, and NaN where it is infinite.
    let t = b.mul(y, high);
    let minus_t = b.neg(t);
    let rest = b.fma(y, high, minus_t);
    let rest = b.fma(y, low, rest);
    let moderate = b.f32(200.0);
    let size = b.abs(t);
    let moderate = b.lt(size, moderate);
    let rest = b.select(moderate, rest, zero);
    let result = exp_of_sum(b, t, Some(rest));
    // Here t may be 0 * inf.
    let is_one = b.eq(magnitude, one);
    let result = b.select(is_one, one, result);

    let whole = b.trunc(y);
    let integral = b.eq(whole, y);
    let half = b.f32(0.5);
    let half = b.mul(y, half);
    let half_whole = b.trunc(half);
    let odd = b.ne(half_whole, half);
    let odd = b.and(odd, integral);
    let sign = b.i32(i32::MIN);
    let bits = b.bits_i32(x);
    let none = b.i32(0);
    let sign_of_x = b.and(bits, sign);
    let flip = b.select(odd, sign_of_x, none);
    let bits = b.bits_i32(result);
    let bits = b.xor(bits, flip);
    let result = b.bits_f32(bits);
    let negative = b.lt(x, zero);
    let fractional = b.not(integral);
    let undefined = b.and(negative, fractional);
    let least = b.f32(f32::NEG_INFINITY);
    let finite = b.ne(x, least);
    let undefined = b.and(undefined, finite);
    let nan = b.f32(f32::NAN);
    let result = b.select(undefined, nan, result);
    let y_is_zero = b.eq(y, zero);
    b.select(y_is_zero, one, result)
}

/// The logarithm of `x >= 0` as a sum of a float and a small correction, about 2^-29 off in all.
fn log_in_two(b: &mut Builder, x: F32) -> (F32, F32) {
    let (e, f) = exponent_and_fraction(b, x);
    let square = b.mul(f, f);
    let minus_square = b.neg(square);
    let square_low = b.fma(f, f, minus_square);
    let p = polynomial(b, f, &LOG);
    let cube = b.mul(square, f);
    let (ln2, ln2_low) = (b.f32(LN2[0]), b.f32(LN2[1]));
    // e ln 2 + f - f^2 / 2, each sum with its rounding error (Dekker: the first term is the larger or zero).
    let whole = b.mul(e, ln2);
    let sum = b.add(whole, f);
    let back = b.sub(sum, whole);
    let error = b.sub(f, back);
    let minus_half = b.f32(-0.5);
    let second = b.mul(square, minus_half);
    let high = b.add(sum, second);
    let back = b.sub(high, sum);
    let second_error = b.sub(second, back);
    let low = b.add(error, second_error);
    let low = b.fma(square_low, minus_half, low);
    let low = b.fma(e, ln2_low, low);
    let low = b.fma(p, cube, low);
    let top = b.add(high, low);
    let back = b.sub(top, high);
    let low = b.sub(low, back);
    (log_at_the_edges(b, x, top), low)
}

/// The hyperbolic tangent, at most 2 (2) ulp.
pub fn tanh(b: &mut Builder, x: F32) -> F32 {
    let a = b.abs(x);
    let square = b.mul(x, x);
    let p = polynomial(b, square, &TANH);
    let p = b.mul(p, square);
    let small = b.fma(p, a, a);
    // 1 - 2 / (e^2a + 1); it is 1 long before 10, and NaN stays.
    let most = b.f32(10.0);
    let clamped = b.min(most, a);
    let doubled = b.add(clamped, clamped);
    let e = exp_nonpositive(b, doubled);
    let one = b.f32(1.0);
    let e = b.add(e, one);
    let two = b.f32(-2.0);
    let fraction = b.div(two, e);
    let large = b.add(one, fraction);
    let limit = b.f32(0.625);
    let is_small = b.lt(a, limit);
    let y = b.select(is_small, small, large);
    with_sign_of(b, y, x)
}

/// The error function, at most 1.5 (2) ulp.
pub fn erf(b: &mut Builder, x: F32) -> F32 {
    let a = b.abs(x);
    let square = b.mul(x, x);
    let p = polynomial(b, square, &ERF);
    let small = b.fma(p, a, a);
    // 1 - (1 - erf), which is 1 before 4; NaN stays.
    let most = b.f32(4.0);
    let clamped = b.min(most, a);
    let log = polynomial(b, clamped, &ERFC_LOG);
    let rest = exp_nonpositive(b, log);
    let one = b.f32(1.0);
    let large = b.sub(one, rest);
    let is_small = b.lt(a, one);
    let y = b.select(is_small, small, large);
    with_sign_of(b, y, x)
}

/// `y`, which is not negative, with the sign bit of `x`.
fn with_sign_of(b: &mut Builder, y: F32, x: F32) -> F32 {
    let sign = b.i32(i32::MIN);
    let bits = b.bits_i32(x);
    let sign = b.and(bits, sign);
    let bits = b.bits_i32(y);
    let bits = b.or(bits, sign);
    b.bits_f32(bits)
}

/// The sine of an angle in radians; absolute error at most 1e-7 (1e-7) for every finite angle. NaN for infinite ones.
pub fn sin(b: &mut Builder, x: F32) -> F32 {
    turn(b, x, 0)
}

/// The cosine of an angle in radians; bounds as of [`sin`].
pub fn cos(b: &mut Builder, x: F32) -> F32 {
    turn(b, x, 1)
}

/// sin(x + quarters * pi / 2).
fn turn(b: &mut Builder, x: F32, quarters: i32) -> F32 {
    // x = n pi / 2 + r with |r| <= pi / 4; the quadrant n tells which of sin r and cos r, and its sign.
    let turns = b.f32(std::f32::consts::FRAC_2_PI);
    let round = b.f32(ROUND);
    let shifted = b.fma(x, turns, round);
    let n = b.sub(shifted, round);
    let mut r = x;
    for part in HALF_PI {
        let part = b.f32(-part);
        r = b.fma(n, part, r);
    }
    let quadrant = b.bits_i32(shifted);
    let a = b.abs(x);
    let large = b.f32(ANGLE_LARGE);
    let large = b.ge(a, large);
    let (large_quadrant, large_r) = turn_large(b, x);
    let r = b.select(large, large_r, r);
    let quadrant = b.select(large, large_quadrant, quadrant);
    let square = b.mul(r, r);
    let p = polynomial(b, square, &SIN);
    let p = b.mul(p, square);
    let sine = b.fma(p, r, r);
    let p = polynomial(b, square, &COS);
    let p = b.mul(p, square);
    let half = b.f32(-0.5);
    let p = b.add(p, half);
    let one = b.f32(1.0);
    let cosine = b.fma(p, square, one);
    let quarters = b.i32(quarters);
    let quadrant = b.add(quadrant, quarters);
    let (first, none) = (b.i32(1), b.i32(0));
    let parity = b.and(quadrant, first);
    let even = b.eq(parity, none);
    let y = b.select(even, sine, cosine);
    // The second bit of the quadrant, moved to where the sign is.
    let second = b.i32(2);
    let sign = b.and(quadrant, second);
    let sign_at = b.int(30);
    let sign = b.shl(sign, sign_at);
    let bits = b.bits_i32(y);
    let bits = b.xor(bits, sign);
    let y = b.bits_f32(bits);
    let infinity = b.f32(f32::INFINITY);
    let known = b.lt(a, infinity);
    let nan = b.f32(f32::NAN);
    b.select(known, y, nan)
}

/// The quadrant of a finite angle from [`ANGLE_LARGE`] on, and the rest in radians: Payne and Hanek's reduction. The angle is an
/// integer of 24 bits times a power of two. Digits of 1 / (2 pi) that make whole turns with it are left out, the next 64 are
/// enough to tell the turn to 2^-30, and integers that wrap leave out what are whole turns again.
fn turn_large(b: &mut Builder, x: F32) -> (I32, F32) {
    let bits = b.bits_i32(x);
    let (one_bit, exponent_bits) = (b.i32(1 << 23), b.i32(0xff));
    let mantissa_bits = b.i32((1 << 23) - 1);
    let mantissa = b.and(bits, mantissa_bits);
    let mantissa = b.or(mantissa, one_bit);
    let exponent_at = b.int(23);
    let exponent = b.shr(bits, exponent_at);
    let exponent = b.and(exponent, exponent_bits);
    let least = b.i32(ANGLE_LARGE_EXPONENT);
    let skipped = b.sub(exponent, least);
    let [high, low] = turns_from(b, skipped);

    // (mantissa * high * 2^32 + mantissa * low) / 2^32, the last bits aside.
    let whole = b.mul(mantissa, high);
    let (half, half_bits) = (b.int(16), b.i32(0xffff));
    let (m_high, m_low) = (b.shru(mantissa, half), b.and(mantissa, half_bits));
    let (low_high, low_low) = (b.shru(low, half), b.and(low, half_bits));
    let first = b.mul(m_high, low_high);
    let second = b.mul(m_high, low_low);
    let second = b.shru(second, half);
    let third = b.mul(m_low, low_high);
    let third = b.shru(third, half);
    let phase = b.add(whole, first);
    let rest = b.add(second, third);
    let phase = b.add(phase, rest);

    // 2^32 is a turn. A negative angle turns the other way.
    let sign_at = b.int(31);
    let sign = b.shr(bits, sign_at);
    let phase = b.xor(phase, sign);
    let phase = b.sub(phase, sign);
    let (quarter_at, half_quarter) = (b.int(30), b.i32(1 << 29));
    let quadrant = b.add(phase, half_quarter);
    let quadrant = b.shr(quadrant, quarter_at);
    let start = b.shl(quadrant, quarter_at);
    let rest = b.sub(phase, start);
    // A float has 24 bits, and what is left of a turn more.
    let last_bits = b.i32(0x7f);
    let last = b.and(rest, last_bits);
    let rest = b.sub(rest, last);
    let (rest, last) = (b.to_f32(rest), b.to_f32(last));
    let [unit, unit_low] = PHASE.map(|part| b.f32(part));
    let low = b.mul(rest, unit_low);
    let low = b.fma(last, unit, low);
    (quadrant, b.fma(rest, unit, low))
}

/// The two words of [`TURNS`] that begin after so many digits, which are fewer than 128.
fn turns_from(b: &mut Builder, digits: I32) -> [I32; 2] {
    let zero = b.i32(0);
    let has = |b: &mut Builder, bit: i32| {
        let bit = b.i32(bit);
        let found = b.and(digits, bit);
        b.ne(found, zero)
    };
    let mut words: Vec<I32> = TURNS.iter().map(|word| b.i32(*word as i32)).collect();
    for step in [2, 1] {
        let far = has(b, 32 * step as i32);
        let kept = words.len() - step;
        words = (0..kept).map(|at| b.select(far, words[at + step], words[at])).collect();
    }
    let half = b.int(16);
    let far = has(b, 16);
    let upper: Vec<I32> = words.iter().map(|word| b.shru(*word, half)).collect();
    let words: Vec<I32> = (0..3)
        .map(|at| {
            let moved = b.shl(words[at], half);
            let moved = b.or(moved, upper[at + 1]);
            b.select(far, moved, words[at])
        })
        .collect();
    // The last fifteen by a product with a power of two, which is made in the exponent of a float.
    let few = b.i32(15);
    let few = b.and(digits, few);
    let bias = b.i32(127);
    let few = b.add(few, bias);
    let exponent_at = b.int(23);
    let power = b.shl(few, exponent_at);
    let power = b.bits_f32(power);
    let power = b.to_i32(power);
    [0, 1].map(|at| {
        let own = b.mul(words[at], power);
        let next = b.shru(words[at + 1], half);
        let next = b.mul(next, power);
        let next = b.shru(next, half);
        b.add(own, next)
    })
}

/// The lesser; NaN if either is. ([`Builder::min`] is faster, and keeps NaN only in its second argument.)
pub fn min_or_nan(b: &mut Builder, x: F32, y: F32) -> F32 {
    let least = b.min(x, y);
    let nan = b.ne(x, x);
    b.select(nan, x, least)
}

/// The greater; NaN if either is. ([`Builder::max`] is faster, and keeps NaN only in its second argument.)
pub fn max_or_nan(b: &mut Builder, x: F32, y: F32) -> F32 {
    let most = b.max(x, y);
    let nan = b.ne(x, x);
    b.select(nan, x, most)
}

/// The quotient of integers rounded down. Division by zero gives 0.
pub fn div_floor(b: &mut Builder, x: I32, y: I32) -> I32 {
    if let Some(log) = log_of_power(b, y) {
        let by = b.int(i64::from(log));
        return b.shr(x, by);
    }
    let (quotient, remainder) = (b.div(x, y), b.rem(x, y));
    let down = rounds_down(b, remainder, y);
    let (zero, one) = (b.i32(0), b.i32(1));
    let none = b.eq(y, zero);
    let step = b.select(down, one, zero);
    let quotient = b.sub(quotient, step);
    b.select(none, zero, quotient)
}

/// The remainder of [`div_floor`], with the sign of `y`. Division by zero leaves `x`.
pub fn rem_floor(b: &mut Builder, x: I32, y: I32) -> I32 {
    if let Some(log) = log_of_power(b, y) {
        let mask = b.i32((1 << log) - 1);
        return b.and(x, mask);
    }
    let remainder = b.rem(x, y);
    let down = rounds_down(b, remainder, y);
    let zero = b.i32(0);
    let step = b.select(down, y, zero);
    b.add(remainder, step)
}

/// The logarithm to base two of a constant that is a power of two: no processor divides vectors of integers, but all shift them.
fn log_of_power(b: &Builder, y: I32) -> Option<u32> {
    b.known(y).filter(|y| *y > 0 && y.count_ones() == 1).map(i32::trailing_zeros)
}

/// Whether rounding down and rounding toward zero differ: the remainder is not zero and its sign is not that of `y`.
fn rounds_down(b: &mut Builder, remainder: I32, y: I32) -> Mask {
    let zero = b.i32(0);
    let inexact = b.ne(remainder, zero);
    let signs = b.xor(remainder, y);
    let differ = b.lt(signs, zero);
    b.and(inexact, differ)
}

/// The first word of Philox4x32-10 for the first two words of a counter, of which the others are zero, and a key of two, as a number
/// in [0, 1): exact in every bit.
pub fn philox(b: &mut Builder, counter: [I32; 2], key: [I32; 2]) -> F32 {
    let zero = b.i32(0);
    let [mut k, mut l] = key;
    let [mut x0, mut x1, mut x2, mut x3] = [counter[0], counter[1], zero, zero];
    for round in 0..10 {
        if round > 0 {
            let (first, second) = (b.i32(0x9E37_79B9_u32 as i32), b.i32(0xBB67_AE85_u32 as i32));
            (k, l) = (b.add(k, first), b.add(l, second));
        }
        let (high0, low0) = wide_product(b, x0, 0xD251_1F53);
        let (high1, low1) = wide_product(b, x2, 0xCD9E_8D57);
        let (a, c) = (b.xor(high1, x1), b.xor(high0, x3));
        [x0, x1, x2, x3] = [b.xor(a, k), low1, b.xor(c, l), low0];
    }
    let (eight, scale) = (b.int(8), b.f32(1.0 / (1 << 24) as f32));
    let upper = b.shru(x0, eight);
    let upper = b.to_f32(upper);
    b.mul(upper, scale)
}

/// The upper and the lower word of the product of two words, from products of half words: no target has the former for
/// all lanes.
fn wide_product(b: &mut Builder, x: I32, y: u32) -> (I32, I32) {
    let (half, mask) = (b.int(16), b.i32(0xffff));
    let (y0, y1, whole) = (b.i32((y & 0xffff) as i32), b.i32((y >> 16) as i32), b.i32(y as i32));
    let (x0, x1) = (b.and(x, mask), b.shru(x, half));
    let (p00, p01) = (b.mul(x0, y0), b.mul(x0, y1));
    let (p10, p11) = (b.mul(x1, y0), b.mul(x1, y1));
    // At most (2^16 - 1)^2 + (2^16 - 1): no carry is lost.
    let carry = b.shru(p00, half);
    let middle = b.add(p10, carry);
    let low = b.and(middle, mask);
    let middle_low = b.add(p01, low);
    let (upper, more) = (b.shru(middle, half), b.shru(middle_low, half));
    let high = b.add(p11, upper);
    (b.add(high, more), b.mul(x, whole))
}

/// The polynomial with these coefficients, from the constant up, by Horner's rule.
fn polynomial(b: &mut Builder, x: F32, coefficients: &[f32]) -> F32 {
    let (last, rest) = coefficients.split_last().expect("a polynomial has coefficients");
    let mut y = b.f32(*last);
    for &coefficient in rest.iter().rev() {
        let coefficient = b.f32(coefficient);
        y = b.fma(y, x, coefficient);
    }
    y
}
