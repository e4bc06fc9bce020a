//! Elementary functions as code on the builder, each with its stated error.
//!
//! Bounds are in units in the last place (ulp) of the exact result, first with fused multiply-add, then without; tests hold
//! them on a dense sample of the range. Nothing here is aware of a machine; nothing calls out of the body.

use crate::build::{Builder, F32};

/// 1.5 * 2^23: adding it rounds a float of moderate size to an integer and leaves that integer in the low mantissa bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has few enough bits that a multiple of it by an integer below 2^9 is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Below this the result is under the smallest normal number.
const EXP_LEAST: f32 = -87.336_54;
/// Above this the result overflows.
const EXP_MOST: f32 = 88.722_84;

/// `e^x`, at most 2 (2.5) ulp. Results below the smallest normal number (`x < -87.33654`) are 0; overflow is +inf; NaN stays.
pub fn exp(b: &mut Builder, x: F32) -> F32 {
    let most = b.f32(EXP_MOST);
    let infinite = b.gt(x, most);
    let clamped = b.min(most, x);
    let y = exp_nonpositive(b, clamped);
    let infinity = b.f32(f32::INFINITY);
    b.select(infinite, infinity, y)
}

/// [`exp`] for `x <= 0` (or NaN), as in a softmax, where the maximum is subtracted first. It is the faster one. Right up to 88.72, garbage beyond.
pub fn exp_nonpositive(b: &mut Builder, x: F32) -> F32 {
    // Cody and Waite: x = n ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^n e^r. Constants come first in `max`, so that NaN stays.
    let least = b.f32(EXP_LEAST);
    let clamped = b.max(least, x);
    let log2_e = b.f32(std::f32::consts::LOG2_E);
    let round = b.f32(ROUND);
    let shifted = b.fma(clamped, log2_e, round);
    let n = b.sub(shifted, round);
    let high = b.f32(-LN2_HIGH);
    let low = b.f32(-LN2_LOW);
    let r = b.fma(n, high, clamped);
    let r = b.fma(n, low, r);
    let y = polynomial(b, r, &EXP);
    // 2^n by adding n to the exponent: the low bits of `shifted` are n, and the shift drops the rest. The result is normal, as
    // the range was clamped to where it is.
    let bits = b.bits_i32(shifted);
    let exponent_at = b.int(23);
    let exponent = b.shl(bits, exponent_at);
    let y = b.bits_i32(y);
    let y = b.add(y, exponent);
    let y = b.bits_f32(y);
    let zero = b.f32(0.0);
    let tiny = b.lt(x, least);
    b.select(tiny, zero, y)
}

/// e^r on |r| <= ln 2 / 2, by powers from the constant up: minimax in relative error (9.2e-8) with e^0 = 1 exactly.
const EXP: [f32; 6] = [1.0, 0.999_999_7, 0.499_991_45, 0.166_676_4, 0.041_898_388, 0.008_290_23];

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
