//! The elementary functions against double precision, run by the interpreter.

use salient_vector::eval::{Arg, Machine, Memory, eval};
use salient_vector::{Body, Builder, F32, I32, math};

type Function = fn(&mut Builder, F32) -> F32;

fn body_of(function: Function) -> Body {
    let mut b = Builder::new("function");
    let (x, y) = (b.input("x"), b.output("y"));
    let n = b.int_param("n");
    b.lanes(n, (), |b, i, ()| {
        let v = b.load::<F32>(x.at(i));
        let v = function(b, v);
        b.store(y.at(i), v);
    });
    b.finish()
}

fn run(function: Function, fused: bool, x: &[f32]) -> Vec<f32> {
    let mut memory = Memory::default();
    let (from, to) = (memory.add_f32(x), memory.add_f32(&vec![0.0; x.len()]));
    let args = [from, to, Arg::Int(x.len() as i64)];
    eval(&body_of(function), Machine { lanes: 16, fused }, &args, &mut memory).expect("in bounds");
    memory.f32s(to)
}

/// Points evenly spread over a range, both ends included.
fn between(low: f32, high: f32) -> Vec<f32> {
    let points = if cfg!(debug_assertions) { 200_001 } else { 4_000_001 };
    let step = (f64::from(high) - f64::from(low)) / f64::from(points - 1);
    (0..points).map(|at| (f64::from(low) + f64::from(at) * step) as f32).collect()
}

/// The size of a unit in the last place of a float next to `x`.
fn ulp(x: f64) -> f64 {
    let exponent = x.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor() as i32;
    2.0_f64.powi(exponent - 23)
}

/// The largest error in ulp, and where it is.
fn worst_ulp(function: Function, exact: fn(f64) -> f64, fused: bool, x: &[f32]) -> (f64, f32) {
    let y = run(function, fused, x);
    x.iter().zip(y).fold((0.0, f32::NAN), |worst, (&x, y)| {
        let want = exact(f64::from(x));
        let error = (f64::from(y) - want).abs() / ulp(want);
        assert!(!error.is_nan(), "{x} gives {y}, not {want}");
        if error > worst.0 { (error, x) } else { worst }
    })
}

/// Holds the stated bounds, in ulp: with fused multiply-add, and without.
fn holds(name: &str, bounds: [f64; 2], function: Function, exact: fn(f64) -> f64, low: f32, high: f32) {
    for (fused, bound) in [true, false].into_iter().zip(bounds) {
        let (error, x) = worst_ulp(function, exact, fused, &between(low, high));
        println!("{name} on [{low}, {high}], fused {fused}: {error:.2} ulp at {x}");
        assert!(error <= bound, "{name}({x}) is {error} ulp off, fused {fused}; stated are {bound}");
    }
}

#[test]
fn exp_keeps_its_bound() {
    holds("exp", [2.0, 2.5], math::exp, f64::exp, -87.0, 0.0);
    holds("exp", [2.0, 2.5], math::exp, f64::exp, -1.0, 1.0);
    holds("exp", [2.0, 2.5], math::exp, f64::exp, 0.0, 88.7);
    holds("exp_nonpositive", [2.0, 2.5], math::exp_nonpositive, f64::exp, -87.3, 0.0);
}

#[test]
fn weights_keep_their_bound() {
    for (fused, base, slope) in [(true, 2.0, 0.25), (false, 2.5, 1.25)] {
        let x = between(-87.3, 0.0);
        let worst = x.iter().zip(run(math::exp_weight, fused, &x)).map(|(&x, y)| {
            let want = f64::from(x).exp();
            (f64::from(y) - want).abs() / ulp(want) - slope * f64::from(-x)
        });
        let worst = worst.fold(0.0, f64::max);
        println!("fused {fused}: {worst:.2} ulp beside {slope} |x|");
        assert!(worst <= base, "{worst} ulp beside {slope} |x|, fused {fused}");
    }
}

#[test]
fn exp_at_the_edges() {
    let inf = f32::INFINITY;
    for function in [math::exp as Function, math::exp_nonpositive, math::exp_weight] {
        let y = run(function, true, &[0.0, -0.0, -inf, -1e30, -87.34, -104.0, 1e-42, -1e-42]);
        assert_eq!(y, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        assert!(run(function, true, &[f32::NAN])[0].is_nan());
        assert!(run(function, true, &[-f32::NAN])[0].is_nan());
    }
    assert_eq!(run(math::exp, true, &[inf, 1e30, 88.73, 89.0]), [inf; 4]);
    assert!(run(math::exp, true, &[88.72]).iter().all(|y| y.is_finite()));
}

#[test]
fn log_keeps_its_bound() {
    holds("log", [1.0, 1.0], math::log, f64::ln, 1e-3, 10.0);
    holds("log", [1.0, 1.0], math::log, f64::ln, 0.9, 1.1);
    holds("log", [1.0, 1.0], math::log, f64::ln, 1e-38, f32::MAX);
    holds("log", [1.0, 1.0], math::log, f64::ln, 1e-45, 1e-37);
    holds("log_of_normal", [1.0, 1.0], math::log_of_normal, f64::ln, 0.9, 1.1);
    holds("log_of_normal", [1.0, 1.0], math::log_of_normal, f64::ln, 1.2e-38, f32::MAX);
}

#[test]
fn log_at_the_edges() {
    let inf = f32::INFINITY;
    assert_eq!(run(math::log, true, &[1.0, 0.0, -0.0, inf]), [0.0, -inf, -inf, inf]);
    assert!(run(math::log, true, &[-1.0, -1e-45, -inf, f32::NAN]).iter().all(|y| y.is_nan()));
    assert_eq!(run(math::log_of_normal, true, &[1.0, inf]), [0.0, inf]);
    assert!(run(math::log_of_normal, true, &[f32::NAN])[0].is_nan());
}

#[test]
fn tanh_keeps_its_bound() {
    holds("tanh", [2.0, 2.0], math::tanh, f64::tanh, -1.0, 1.0);
    holds("tanh", [2.0, 2.0], math::tanh, f64::tanh, -12.0, 12.0);
    holds("tanh", [2.0, 2.0], math::tanh, f64::tanh, -1e-3, 1e-3);
    let inf = f32::INFINITY;
    assert_eq!(run(math::tanh, true, &[0.0, inf, -inf, 1e30, -50.0]), [0.0, 1.0, -1.0, 1.0, -1.0]);
    assert!(run(math::tanh, true, &[-0.0])[0].is_sign_negative());
    assert!(run(math::tanh, true, &[f32::NAN])[0].is_nan());
}

/// The error function in double precision: its Taylor series, or the continued fraction of its complement (Lentz).
fn erf(x: f64) -> f64 {
    let a = x.abs();
    let root_pi = std::f64::consts::PI.sqrt();
    let y = if a < 3.0 {
        let (mut term, mut sum) = (a, a);
        for n in 1..200 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        2.0 / root_pi * sum
    } else {
        let fraction = (1..60).rev().fold(0.0, |below, n| f64::from(n) / 2.0 / (a + below));
        1.0 - (-a * a).exp() / root_pi / (a + fraction)
    };
    y.copysign(x)
}

#[test]
fn erf_keeps_its_bound() {
    assert!((erf(0.5) - 0.520_499_877_813_046_5).abs() < 1e-15);
    assert!((erf(3.5) - 0.999_999_256_901_627_7).abs() < 1e-15);
    holds("erf", [1.5, 2.0], math::erf, erf, -1.2, 1.2);
    holds("erf", [1.5, 2.0], math::erf, erf, -5.0, 5.0);
    holds("erf", [1.5, 2.0], math::erf, erf, -1e-3, 1e-3);
    let inf = f32::INFINITY;
    assert_eq!(run(math::erf, true, &[0.0, inf, -inf, 1e30, -50.0]), [0.0, 1.0, -1.0, 1.0, -1.0]);
    assert!(run(math::erf, true, &[f32::NAN])[0].is_nan());
}

#[test]
fn sin_and_cos_keep_their_bounds() {
    for (function, exact) in [(math::sin as Function, f64::sin as fn(f64) -> f64), (math::cos, f64::cos)] {
        for (fused, most) in [
            (true, 1.0),
            (true, 100.0),
            (true, 1.2e4),
            (true, 1e6),
            (false, 100.0),
            (false, 1e6),
            (false, 1e9),
        ] {
            let x = between(-most, most);
            let y = run(function, fused, &x);
            let worst = x.iter().zip(y).fold(0.0_f64, |worst, (&x, y)| {
                let error = (f64::from(y) - exact(f64::from(x))).abs();
                assert!(!error.is_nan(), "at {x}");
                worst.max(error)
            });
            println!("sin or cos to {most}, fused {fused}: {worst:.3e}");
            assert!(worst <= 1e-7, "{worst} off up to {most}, fused {fused}");
        }
        let not_finite = run(function, true, &[f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
        assert!(not_finite.iter().all(|y| y.is_nan()));
    }
    assert_eq!(run(math::sin, true, &[0.0]), [0.0]);
    assert_eq!(run(math::cos, true, &[0.0]), [1.0]);
}

/// Every finite float is an angle: bits at random, powers of two and their neighbours, and multiples of pi / 2 that floats come
/// very near to.
#[test]
fn sin_and_cos_keep_their_bounds_over_all_floats() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f32::from_bits((state >> 32) as u32)
    };
    let points = if cfg!(debug_assertions) { 200_000 } else { 2_000_000 };
    let mut x: Vec<f32> = (0..points).map(|_| next()).filter(|x| x.is_finite()).collect();
    for exponent in -126..=127 {
        let power = 2.0_f32.powi(exponent);
        x.extend([power, -power, power.next_up(), power.next_down(), -power.next_down()]);
    }
    x.extend([8192.0, 8191.999, 1_048_576.0, f32::MAX, f32::MIN, 16_367_173.0 * 2.0_f32.powi(72)]);
    for (function, exact) in [(math::sin as Function, f64::sin as fn(f64) -> f64), (math::cos, f64::cos)] {
        for fused in [true, false] {
            for (&x, y) in x.iter().zip(run(function, fused, &x)) {
                let want = exact(f64::from(x));
                let error = (f64::from(y) - want).abs();
                assert!(error <= 1e-7, "at {x:e}: {y}, not {want}, fused {fused}");
            }
        }
    }
}

fn run2(function: fn(&mut Builder, F32, F32) -> F32, pairs: &[(f32, f32)]) -> Vec<f32> {
    let mut b = Builder::new("function");
    let (x, y, z) = (b.input("x"), b.input("y"), b.output("z"));
    let n = b.int_param("n");
    b.lanes(n, (), |b, i, ()| {
        let (v, w) = (b.load::<F32>(x.at(i)), b.load::<F32>(y.at(i)));
        let v = function(b, v, w);
        b.store(z.at(i), v);
    });
    let mut memory = Memory::default();
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    let args = [memory.add_f32(&x), memory.add_f32(&y), memory.add_f32(&x), Arg::Int(x.len() as i64)];
    eval(&b.finish(), Machine { lanes: 8, fused: true }, &args, &mut memory).expect("in bounds");
    memory.f32s(args[2])
}

#[test]
fn pow_keeps_its_bound() {
    let points = if cfg!(debug_assertions) { 300 } else { 1500 };
    for (most, bound) in [(20.0, 4.0), (87.0, 12.0)] {
        let pairs: Vec<(f32, f32)> = (0..points * points)
            .map(|at| {
                let (i, j) = (at % points, at / points);
                let x = (-16.0 + 32.0 * i as f32 / points as f32).exp();
                (x, (-1.0 + 2.0 * j as f32 / points as f32) * most / x.ln().abs().max(0.01))
            })
            .filter(|(x, y)| (f64::from(*y) * f64::from(*x).ln()).abs() <= f64::from(most))
            .collect();
        let found = run2(math::pow, &pairs);
        let worst = pairs.iter().zip(found).fold(0.0_f64, |worst, (&(x, y), z)| {
            let want = f64::from(x).powf(f64::from(y));
            let error = (f64::from(z) - want).abs() / ulp(want);
            assert!(!error.is_nan(), "{x}^{y} gives {z}, not {want}");
            worst.max(error)
        });
        println!("pow to e^{most}: {worst:.2} ulp");
        assert!(worst <= bound, "{worst} ulp off where |y ln x| <= {most}");
    }
}

#[test]
fn pow_at_the_edges() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let values =
        [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, 2.5, -3.0, inf, -inf, nan, 1e30, 1e-30, 1e8, -1e8];
    let pairs: Vec<(f32, f32)> = values.iter().flat_map(|&x| values.map(|y| (x, y))).collect();
    for (&(x, y), z) in pairs.iter().zip(run2(math::pow, &pairs)) {
        let want = x.powf(y);
        let close = (z - want).abs() <= 1e-6 * want.abs();
        assert!(
            z.to_bits() == want.to_bits() || close || (z.is_nan() && want.is_nan()),
            "{x}^{y} = {want}, not {z}"
        );
    }
}

#[test]
fn extremes_keep_nan() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let pairs = [(1.0, 2.0), (2.0, 1.0), (-inf, inf), (nan, 1.0), (1.0, nan), (nan, nan)];
    let (least, most) = (run2(math::min_or_nan, &pairs), run2(math::max_or_nan, &pairs));
    assert_eq!((&least[..3], &most[..3]), (&[1.0, 1.0, -inf][..], &[2.0, 2.0, inf][..]));
    assert!(least[3..].iter().chain(&most[3..]).all(|x| x.is_nan()));
}

#[test]
fn integers_divide_downward() {
    let values = [0, 1, -1, 2, -2, 3, -3, 7, -7, 100, -100, i32::MAX, i32::MIN];
    let pairs: Vec<(i32, i32)> = values.iter().flat_map(|&x| values.map(|y| (x, y))).collect();
    let mut b = Builder::new("divide");
    let (x, y, q, r) = (b.input("x"), b.input("y"), b.output("q"), b.output("r"));
    let n = b.int_param("n");
    b.lanes(n, (), |b, i, ()| {
        let (v, w) = (b.load::<I32>(x.at(i)), b.load::<I32>(y.at(i)));
        let (quotient, remainder) = (math::div_floor(b, v, w), math::rem_floor(b, v, w));
        b.store(q.at(i), quotient);
        b.store(r.at(i), remainder);
    });
    let mut memory = Memory::default();
    let (x, y): (Vec<i32>, Vec<i32>) = pairs.iter().copied().unzip();
    let count = Arg::Int(x.len() as i64);
    let args = [memory.add_i32(&x), memory.add_i32(&y), memory.add_i32(&x), memory.add_i32(&x), count];
    eval(&b.finish(), Machine { lanes: 8, fused: true }, &args, &mut memory).expect("in bounds");
    for (at, &(x, y)) in pairs.iter().enumerate() {
        let found = (memory.i32s(args[2])[at], memory.i32s(args[3])[at]);
        let (wide_x, wide_y) = (f64::from(x), f64::from(y));
        let quotient = if y == 0 { 0 } else { ((wide_x / wide_y).floor() as i64) as i32 };
        assert_eq!(found, (quotient, x.wrapping_sub(quotient.wrapping_mul(y))), "{x} by {y}");
    }
}

#[test]
fn division_by_a_constant_power_of_two_is_that_by_a_number() {
    let values = [0, 1, -1, 2, -2, 63, 64, 65, -63, -64, -65, i32::MAX, i32::MIN];
    for log in [0, 1, 6, 30] {
        let mut b = Builder::new("by_a_power");
        let (x, q, r) = (b.input("x"), b.output("q"), b.output("r"));
        let n = b.int_param("n");
        let by = b.i32(1 << log);
        b.lanes(n, (), |b, i, ()| {
            let v = b.load::<I32>(x.at(i));
            let (quotient, remainder) = (math::div_floor(b, v, by), math::rem_floor(b, v, by));
            b.store(q.at(i), quotient);
            b.store(r.at(i), remainder);
        });
        let body = b.finish();
        assert!(!body.to_string().contains("div"), "{body}");
        let mut memory = Memory::default();
        let arrays = [&values; 3].map(|values| memory.add_i32(values));
        let args = [arrays[0], arrays[1], arrays[2], Arg::Int(values.len() as i64)];
        eval(&body, Machine { lanes: 8, fused: true }, &args, &mut memory).expect("in bounds");
        for (at, x) in values.into_iter().enumerate() {
            let found = (memory.i32s(args[1])[at], memory.i32s(args[2])[at]);
            assert_eq!(found, (x.div_euclid(1 << log), x.rem_euclid(1 << log)), "{x} by 2^{log}");
        }
    }
}

/// The first two words of a counter, the two of a key, and the first word of the block, by another implementation; the first row is one
/// of the known answers of the generator's reference.
const BLOCKS: &[([u32; 4], u32)] = &[
    ([0x00000000, 0x00000000, 0x00000000, 0x00000000], 0x6627e8d5),
    ([0x00000001, 0x00000000, 0x00000000, 0x00000000], 0xf8e4cca4),
    ([0x00000000, 0x00000000, 0x00000001, 0x00000000], 0xe3e80670),
    ([0x00000000, 0x00000000, 0x00000000, 0x00000001], 0xfdde3e0b),
    ([0xffffffff, 0x00000000, 0xffffffff, 0xffffffff], 0xc25672de),
    ([0x243f6a88, 0x00000000, 0xa4093822, 0x299f31d0], 0x1b7910fc),
    ([0x0000ffff, 0x00000000, 0x00010000, 0x00000007], 0xde97f623),
    ([0x80000000, 0x00000000, 0x00000002, 0x00000003], 0xfc442362),
    ([0x075bcd15, 0x00000000, 0x0000002a, 0x00000001], 0xc89c1990),
    ([0x00000000, 0x00000001, 0x00000000, 0x00000000], 0x6ad0c5ec),
    ([0x243f6a88, 0x85a308d3, 0xa4093822, 0x299f31d0], 0xe69c9c31),
    ([0xffffffff, 0x80000000, 0x7fffffff, 0x00000001], 0x14912de4),
    ([0x00000005, 0x000007cf, 0x0000002a, 0x00000003], 0xbc829b75),
];

#[test]
fn philox_gives_the_known_words() {
    let mut b = Builder::new("philox");
    let inputs = ["place", "step", "first", "second"].map(|name| b.input(name));
    let y = b.output("y");
    let n = b.int_param("n");
    b.lanes(n, (), |b, i, ()| {
        let [place, step, first, second] = inputs.map(|x| b.load::<I32>(x.at(i)));
        let drawn = math::philox(b, [place, step], [first, second]);
        b.store(y.at(i), drawn);
    });
    let body = b.finish();
    for lanes in [4, 8, 16] {
        let mut memory = Memory::default();
        let column = |word: usize| BLOCKS.iter().map(|row| row.0[word] as i32).collect::<Vec<i32>>();
        let [place, step, first, second] = [0, 1, 2, 3].map(|word| memory.add_i32(&column(word)));
        let to = memory.add_f32(&vec![0.0; BLOCKS.len()]);
        let args = [place, step, first, second, to, Arg::Int(BLOCKS.len() as i64)];
        eval(&body, Machine { lanes, fused: true }, &args, &mut memory).expect("in bounds");
        let expected: Vec<f32> = BLOCKS.iter().map(|row| (row.1 >> 8) as f32 / (1 << 24) as f32).collect();
        assert_eq!(memory.f32s(to), expected, "{lanes} lanes");
    }
}
