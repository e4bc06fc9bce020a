//! More parameters than registers pass, and more live values of each type than there are registers.

use salient_vector::eval::{Arg, Memory};
use salient_vector::{Builder, Elem, F32, I32, Int, Mask};

use crate::harness::agree;

#[test]
fn parameters_beyond_the_registers_arrive() {
    let mut b = Builder::new("many_parameters");
    let y = b.output("y");
    let floats: Vec<F32> = (0..11).map(|at| b.f32_param(format!("f{at}"))).collect();
    let ints: Vec<Int> = (0..9).map(|at| b.int_param(format!("i{at}"))).collect();
    let x = b.input("x");
    let mut place = y.at_start();
    for float in floats {
        b.store(place, float);
        place = place.lanes(1);
    }
    for int in ints {
        let int = b.splat(int);
        b.store(place, int);
        place = place.lanes(1);
    }
    let last = b.load::<F32>(x.at_start());
    b.store(place, last);
    let body = b.finish();

    let mut memory = Memory::default();
    let mut args = vec![memory.add(vec![0; 21 * 64])];
    args.extend((0..11).map(|at| Arg::F32(1.5 + at as f32)));
    args.extend((0..9).map(|at| Arg::Int(-4 + at)));
    args.push(memory.add_f32(&[0.25; 16]));
    agree(&body, &args, &memory);
}

#[test]
fn values_of_every_type_outlive_the_registers() {
    const LIVE: i32 = 40;
    let mut b = Builder::new("many_values");
    let (x, k, m) = (b.input("x"), b.input("k"), b.input("m"));
    let (y, yk, ym) = (b.output("y"), b.output("yk"), b.output("ym"));
    let n = b.int_param("n");
    let floats: Vec<F32> = (0..LIVE).map(|at| b.load::<F32>(x.at_start().lanes(at))).collect();
    let masks: Vec<Mask> = (0..LIVE).map(|at| b.load::<Mask>(m.at_start().lanes(at))).collect();
    let ints: Vec<Int> = (0..LIVE).map(|at| b.load_int(Elem::I32, k.at_start().plus(at))).collect();
    let (floats, masks, ints) = b.count(n, (floats, masks, ints), |b, i, (floats, masks, ints)| {
        let each = 0..LIVE as usize;
        let next = |at: usize| (at + 1) % LIVE as usize;
        let new_floats = each.clone().map(|at| b.select(masks[at], floats[next(at)], floats[at])).collect();
        let new_masks = each.clone().map(|at| b.xor(masks[at], masks[next(at)])).collect();
        let new_ints = each.map(|at| {
            let sum = b.add(ints[at], ints[next(at)]);
            b.sub(sum, i)
        });
        (new_floats, new_masks, new_ints.collect())
    });
    for (at, ((float, mask), int)) in floats.into_iter().zip(masks).zip(ints).enumerate() {
        let at = at as i32;
        b.store(y.at_start().lanes(at), float);
        b.store(ym.at_start().lanes(at), mask);
        let int: I32 = b.splat(int);
        b.store(yk.at_start().plus(at).one(), int);
    }
    let body = b.finish();

    let size = LIVE as usize * 16;
    let mut memory = Memory::default();
    let x = memory.add_f32(&(0..size).map(|at| at as f32).collect::<Vec<f32>>());
    let k = memory.add_i32(&(0..LIVE).map(|at| at * at - 100).collect::<Vec<i32>>());
    let m = memory.add((0..size).map(|at| (at * 7 % 5 < 2) as u8).collect());
    let (y, yk) = (memory.add(vec![0; 4 * size]), memory.add(vec![0; 4 * LIVE as usize]));
    let ym = memory.add(vec![0; size]);
    for n in [0, 1, 2, 7] {
        agree(&body, &[x, k, m, y, yk, ym, Arg::Int(n)], &memory);
    }
}
