//! Loops: every trip count around the number of lanes, carried values, unrolling, sections after loops.

use salient_vector::body::LoopKind;
use salient_vector::eval::{Arg, Memory};
use salient_vector::{Body, Builder, Elem, F32, I32, Mask, math};

use crate::harness::{Compiled, targets};

const LENGTHS: std::ops::RangeInclusive<i64> = -2..=67;

fn floats(n: i64) -> Vec<f32> {
    (0..n).map(|i| ((i * 37 + 11) % 101) as f32 / 8.0 - 5.0).collect()
}

/// Everything that a loop over lanes may do at once: loads of each kind, carried values of each type, a reduction after it.
fn softmax_like(unroll: u32) -> Body {
    let mut b = Builder::new("softmax_like");
    let (x, keep) = (b.input("x"), b.input("keep"));
    let (y, seen, totals) = (b.output("y"), b.output("seen"), b.output("totals"));
    let n = b.int_param("n");
    let shift = b.f32_param("shift");
    let init = (b.f32(0.0), b.i32(-1), b.mask(false));
    let (sum, last, any) = b.repeat(LoopKind::Lanes, unroll, n, init, |b, i, (sum, last, any)| {
        let v = b.load::<F32>(x.at(i));
        let k = b.load::<Mask>(keep.at(i));
        let v = b.sub(v, shift);
        let e = math::exp(b, v);
        let zero = b.f32(0.0);
        let e = b.select(k, e, zero);
        b.store(y.at(i), e);
        let was = b.not(k);
        b.store(seen.at(i), was);
        let index = b.lane_index(i);
        (b.add(sum, e), b.select(k, index, last), b.or(any, k))
    });
    let sum = b.hsum(sum);
    let last = b.hmax(last);
    let any = b.hany(any);
    b.store(totals.at_start().one(), sum);
    b.store(totals.at_start().plus(1).one(), last);
    let any = b.mask_to_i32(any);
    b.store(totals.at_start().plus(2).one(), any);
    b.finish()
}

#[test]
fn loops_over_lanes_are_right_for_every_length() {
    for unroll in [1, 2, 3] {
        let body = softmax_like(unroll);
        for target in targets() {
            let compiled = Compiled::new(&body, &target);
            for n in LENGTHS {
                let size = n.max(0);
                let mut memory = Memory::default();
                let x = memory.add_f32(&floats(size));
                let keep = memory.add((0..size).map(|i| (i % 3 != 1) as u8 * 3).collect());
                let y = memory.add_f32(&floats(size));
                let seen = memory.add(vec![7; size as usize]);
                let totals = memory.add(vec![0; 12]);
                compiled.agrees(&[x, keep, y, seen, totals, Arg::Int(n), Arg::F32(1.25)], &memory);
            }
        }
    }
}

/// A loop over lanes that carries nothing, as maps have it: in place, under a mask, with what does not change from strip to strip.
fn map_like(unroll: u32) -> Body {
    let mut b = Builder::new("map_like");
    let (y, keep, n) = (b.output("y"), b.input("keep"), b.int_param("n"));
    let shift = b.f32_param("shift");
    b.repeat(LoopKind::Lanes, unroll, n, (), |b, i, ()| {
        let v = b.load::<F32>(y.at(i));
        let k = b.load::<Mask>(keep.at(i));
        let slope = b.mul(shift, shift);
        let v = b.fma(v, slope, shift);
        let e = math::erf(b, v);
        let index = b.lane_index(i);
        let index = b.to_f32(index);
        let e = b.add(e, index);
        let e = b.select(k, e, v);
        b.store(y.at(i), e);
    });
    b.finish()
}

#[test]
fn strips_side_by_side_are_right_for_every_length() {
    for unroll in [2, 3] {
        let body = map_like(unroll);
        for target in targets() {
            let compiled = Compiled::new(&body, &target);
            for n in LENGTHS {
                let size = n.max(0);
                let mut memory = Memory::default();
                let y = memory.add_f32(&floats(size));
                let keep = memory.add((0..size).map(|i| (i % 3 != 1) as u8 * 3).collect());
                compiled.agrees(&[y, keep, Arg::Int(n), Arg::F32(0.25)], &memory);
            }
        }
    }
}

/// A set of instructions is one value to the emitter: AVX-512 with vectors of 256 bits takes no code of its own. It runs in every
/// test here where the processor has it.
#[cfg(target_arch = "x86_64")]
#[test]
fn vectors_of_256_bits_in_evex_are_one_more_value() {
    let target = salient_jit::target::Target::avx512_of_256().expect("a target");
    let listing = salient_jit::bodies::assembly(&target, &softmax_like(1)).expect("code");
    assert!(!listing.contains("zmm") && !listing.contains("(bad)"), "{listing}");
    assert!(listing.contains("ymm") && listing.contains("{k"), "{listing}");
}

/// A dot product with strides by a counted loop that carries a pointer, an Int and several vectors.
fn counted(unroll: u32) -> Body {
    let mut b = Builder::new("counted");
    let (x, y) = (b.input("x"), b.output("y"));
    let (n, step) = (b.int_param("n"), b.int_param("step"));
    let (zero, none) = (b.f32(0.0), b.int(0));
    let init = (x, none, [zero; 2]);
    let (end, total, sums) = b.repeat(LoopKind::Count, unroll, n, init, |b, k, (at, total, [even, odd])| {
        let one = b.load::<F32>(at.at_start().one());
        let vector = b.load::<F32>(at.at_start().plus(1).strided(step));
        let next = b.address(Elem::F32, at.at(step));
        let sums = [b.fma(one, vector, odd), b.sub(even, vector)];
        (next, b.add(total, k), sums)
    });
    let first = b.load::<I32>(end.at_start().one());
    let total = b.splat(total);
    let total = b.add(total, first);
    b.store(y.at_start(), sums[0]);
    b.store(y.at_start().lanes(1), sums[1]);
    b.store(y.at_start().lanes(2), total);
    b.finish()
}

#[test]
fn counted_loops_carry_pointers_integers_and_vectors() {
    for unroll in [1, 4] {
        let body = counted(unroll);
        for target in targets() {
            let compiled = Compiled::new(&body, &target);
            for n in -1..=13 {
                for step in [1, 3] {
                    let mut memory = Memory::default();
                    let x = memory.add_f32(&floats(n.max(1) * step + 17 * step + 2));
                    let y = memory.add_f32(&floats(48));
                    compiled.agrees(&[x, y, Arg::Int(n), Arg::Int(step)], &memory);
                }
            }
        }
    }
}

#[test]
fn memory_is_not_touched_by_a_loop_that_runs_no_times() {
    // The broadcast does not change with the loop: an emitter that hoists it would read where there is nothing.
    let mut b = Builder::new("scale_by_first");
    let (x, scale, y) = (b.input("x"), b.input("scale"), b.output("y"));
    let n = b.int_param("n");
    b.lanes(n, (), |b, i, ()| {
        let s = b.load::<F32>(scale.at_start().one());
        let v = b.load::<F32>(x.at(i));
        let v = b.mul(v, s);
        b.store(y.at(i), v);
    });
    let body = b.finish();
    for target in targets() {
        let compiled = Compiled::new(&body, &target);
        for n in 0..=9 {
            let mut memory = Memory::default();
            let x = memory.add_f32(&floats(n));
            let scale = memory.add_f32(&floats(n.min(1)));
            let y = memory.add_f32(&floats(n));
            compiled.agrees(&[x, scale, y, Arg::Int(n)], &memory);
        }
    }
}
