//! Speed of the elementary functions and of sums over a strip, on each instruction set of this machine:
//! `cargo bench -p salient-jit --bench functions`.
//!
//! Data lies in the first cache. The best of several runs is printed in elements per nanosecond, next to the time to compile.

#![allow(unsafe_code, reason = "the machine code under measurement is called directly")]

use std::time::Instant;

use salient_jit::bodies;
use salient_jit::target::{Isa, IsaChoice, Target};
use salient_vector::body::LoopKind;
use salient_vector::{Body, Builder, F32, math};

const ELEMENTS: usize = 1024;

type Function = fn(&mut Builder, F32) -> F32;

const FUNCTIONS: [(&str, Function); 10] = [
    ("copy", |_, x| x),
    ("exp", math::exp),
    ("exp_nonpositive", math::exp_nonpositive),
    ("log", math::log),
    ("log of normal", math::log_of_normal),
    ("tanh", math::tanh),
    ("erf", math::erf),
    ("sin", math::sin),
    ("square root", |b, x| b.sqrt(x)),
    ("power", |b, x| math::pow(b, x, x)),
];

fn main() {
    let filter: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for isa in Isa::ALL.into_iter().filter(|&isa| isa <= Isa::detect()) {
        if !filter.is_empty() && !filter.iter().any(|name| name == isa.name()) {
            continue;
        }
        let target = Target::host(IsaChoice::Only(isa)).expect("a target");
        for unroll in [1, 2, 4] {
            for (name, function) in FUNCTIONS {
                measure(&target, name, unroll, &mapped(function, unroll));
            }
            measure(&target, "exp and its sum", unroll, &exp_and_sum(unroll));
            measure(&target, "maximum", unroll, &maximum(unroll));
        }
    }
}

/// `y[i] = function(x[i])`.
fn mapped(function: Function, unroll: u32) -> Body {
    let mut b = Builder::new("map");
    let (x, y) = (b.input("x"), b.output("y"));
    let n = b.int_param("n");
    b.repeat(LoopKind::Lanes, unroll, n, (), |b, i, ()| {
        let v = b.load::<F32>(x.at(i));
        let v = function(b, v);
        b.store(y.at(i), v);
    });
    b.finish()
}

/// The numerators of a softmax and their sum.
fn exp_and_sum(unroll: u32) -> Body {
    let mut b = Builder::new("exp_and_sum");
    let (x, y) = (b.input("x"), b.output("y"));
    let n = b.int_param("n");
    let zero = b.f32(0.0);
    let m = b.f32(3.0);
    let sum = b.repeat(LoopKind::Lanes, unroll, n, zero, |b, i, sum| {
        let v = b.load::<F32>(x.at(i));
        let v = b.sub(v, m);
        let v = math::exp_nonpositive(b, v);
        b.store(y.at(i), v);
        b.add(sum, v)
    });
    let sum = b.hsum(sum);
    b.store(y.at_start().one(), sum);
    b.finish()
}

fn maximum(unroll: u32) -> Body {
    let mut b = Builder::new("maximum");
    let (x, y) = (b.input("x"), b.output("y"));
    let n = b.int_param("n");
    let least = b.f32(f32::NEG_INFINITY);
    let most = b.repeat(LoopKind::Lanes, unroll, n, least, |b, i, most| {
        let v = b.load::<F32>(x.at(i));
        b.max(most, v)
    });
    let most = b.hmax(most);
    b.store(y.at_start().one(), most);
    b.finish()
}

fn measure(target: &Target, name: &str, unroll: u32, body: &Body) {
    let mut module = target.module().expect("a module");
    let start = Instant::now();
    let id = bodies::define(&mut module, target, "body", body).expect("compiled");
    let compile = start.elapsed();
    module.finalize_definitions().expect("finalised");
    let code = module.get_finalized_function(id);
    type Entry = extern "C" fn(*const f32, *mut f32, i64);
    // SAFETY: the body's parameters are exactly these, and the module outlives the calls.
    let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code) };
    let mut x = vec![0.0_f32; ELEMENTS + 16];
    let mut y = x.clone();
    let (from, to) = (x.as_ptr().align_offset(64), y.as_ptr().align_offset(64));
    for (at, value) in x.iter_mut().enumerate() {
        *value = (at % 97) as f32 / 16.0 - 3.0;
    }
    let mut best = f64::INFINITY;
    for _ in 0..30 {
        let calls = 500;
        let start = Instant::now();
        for _ in 0..calls {
            entry(x[from..].as_ptr(), y[to..].as_mut_ptr(), ELEMENTS as i64);
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(calls));
    }
    let speed = ELEMENTS as f64 / best / 1e9;
    println!(
        "{:8} {name:16} unroll {unroll}: {speed:6.2} elements/ns, compiled in {compile:?}",
        target.isa().name()
    );
}
