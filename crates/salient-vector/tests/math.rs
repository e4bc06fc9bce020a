//! The elementary functions against double precision, run by the interpreter.

use salient_vector::eval::{Arg, Machine, Memory, eval};
use salient_vector::{Body, Builder, F32, math};

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
fn exp_at_the_edges() {
    let inf = f32::INFINITY;
    for function in [math::exp as Function, math::exp_nonpositive] {
        let y = run(function, true, &[0.0, -0.0, -inf, -1e30, -87.34, -104.0, 1e-42, -1e-42]);
        assert_eq!(y, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        assert!(run(function, true, &[f32::NAN])[0].is_nan());
        assert!(run(function, true, &[-f32::NAN])[0].is_nan());
    }
    assert_eq!(run(math::exp, true, &[inf, 1e30, 88.73, 89.0]), [inf; 4]);
    assert!(run(math::exp, true, &[88.72]).iter().all(|y| y.is_finite()));
}
