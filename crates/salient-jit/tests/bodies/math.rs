//! The elementary functions as machine code, on a dense sample and at the edges: the bits of the interpreter, whose error is tested
//! where they are defined.

use salient_vector::eval::{Arg, Memory};
use salient_vector::{Builder, F32, I32, math};

use crate::harness::agree;

fn sample() -> Vec<f32> {
    let hostile = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN,
        1e-45,
        -1e-45,
        88.72,
        88.73,
        -87.33,
        -87.34,
        -104.0,
        1e6,
        -1e6,
        1.1e6,
    ];
    let spread = (-4000..4000).map(|i| i as f32 / 40.0);
    let powers = (-130..128).map(|e| 1.37_f32 * 2.0_f32.powi(e));
    hostile.into_iter().chain(spread).chain(powers).collect()
}

#[test]
fn functions_of_one_argument_agree_with_the_interpreter() {
    let functions: [fn(&mut Builder, F32) -> F32; 8] = [
        math::exp,
        math::exp_nonpositive,
        math::log,
        math::log_of_normal,
        math::tanh,
        math::erf,
        math::sin,
        math::cos,
    ];
    let values = sample();
    for function in functions {
        let mut b = Builder::new("function");
        let (x, y) = (b.input("x"), b.output("y"));
        let n = b.int_param("n");
        b.lanes(n, (), |b, i, ()| {
            let v = b.load::<F32>(x.at(i));
            let v = function(b, v);
            b.store(y.at(i), v);
        });
        let mut memory = Memory::default();
        let args = [memory.add_f32(&values), memory.add_f32(&values), Arg::Int(values.len() as i64)];
        agree(&b.finish(), &args, &memory);
    }
}

#[test]
fn functions_of_two_arguments_agree_with_the_interpreter() {
    let values = sample();
    let others: Vec<f32> = (0..values.len()).map(|at| values[at * 31 % values.len()]).collect();
    let integers: Vec<i32> =
        (0..values.len() as i32).map(|at| at.wrapping_mul(0x3456_789b) >> (at % 31)).collect();
    let mut b = Builder::new("functions");
    let (x, y, k, z) = (b.input("x"), b.input("y"), b.input("k"), b.output("z"));
    let n = b.int_param("n");
    b.lanes(n, (), |b, i, ()| {
        let (v, w) = (b.load::<F32>(x.at(i)), b.load::<F32>(y.at(i)));
        let (k, w_bits) = (b.load::<I32>(k.at(i)), b.bits_i32(w));
        let results = [math::pow(b, v, w), math::min_or_nan(b, v, w), math::max_or_nan(b, v, w)];
        let quotients = [math::div_floor(b, w_bits, k), math::rem_floor(b, w_bits, k)];
        let quotients = quotients.map(|q| b.to_f32(q));
        let mut at = i;
        for value in results.into_iter().chain(quotients) {
            b.store(z.at(at), value);
            at = b.add(at, n);
        }
    });
    let mut memory = Memory::default();
    let room = vec![0.0; values.len() * 5];
    let args = [
        memory.add_f32(&values),
        memory.add_f32(&others),
        memory.add_i32(&integers),
        memory.add_f32(&room),
        Arg::Int(values.len() as i64),
    ];
    agree(&b.finish(), &args, &memory);
}
