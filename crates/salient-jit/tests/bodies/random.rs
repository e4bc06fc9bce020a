//! Random bodies on random and hostile data.

use salient_vector::body::LoopKind;
use salient_vector::eval::{Arg, Memory};
use salient_vector::handle::{Handle, Vector};
use salient_vector::op::{OPS, Sig};
use salient_vector::{Body, Builder, F32, I32, Int, Mask, Op, Ty, Value};

use crate::harness::agree;

/// The values at hand, by type.
struct Pool(Vec<(Ty, Value)>);

impl Pool {
    fn pick(&self, random: &mut fastrand::Rng, ty: Ty) -> Value {
        let fit: Vec<Value> =
            self.0.iter().filter(|(found, _)| *found == ty).map(|&(_, value)| value).collect();
        fit[random.usize(..fit.len())]
    }
}

/// Appends random operators; the pool always holds every type but pointers.
fn grow(b: &mut Builder, pool: &mut Pool, random: &mut fastrand::Rng, over_lanes: bool) {
    for _ in 0..random.usize(3..20) {
        let info = &OPS[random.usize(..OPS.len())];
        // The payload of a computed NaN is unspecified, so its bits are not looked at. Nor is what inactive lanes hold, which a suffix
        // sum reads.
        let mixes_lanes = info.op.is_horizontal() || info.op == Op::SuffixSum;
        if info.op == Op::BitsI32 || over_lanes && mixes_lanes {
            continue;
        }
        let types: Vec<Ty> = match info.sig {
            Sig::Same { arity, over } => vec![over[random.usize(..over.len())]; arity],
            Sig::Compare(over) => vec![over[random.usize(..over.len())]; 2],
            Sig::Select => {
                let ty = [Ty::F32, Ty::I32, Ty::Mask][random.usize(..3)];
                vec![Ty::Mask, ty, ty]
            }
            Sig::Convert { from, .. } => vec![from[random.usize(..from.len())]],
            Sig::Fixed(args, _) => args.to_vec(),
        };
        let args: Vec<Value> = types.iter().map(|&ty| pool.pick(random, ty)).collect();
        let value = b.op(info.op, &args);
        pool.0.push((b.ty(value), value));
    }
}

fn body_of(random: &mut fastrand::Rng) -> Body {
    let mut b = Builder::new("random");
    let (x, k, m) = (b.input("x"), b.input("k"), b.input("m"));
    let (y, yk, ym) = (b.output("y"), b.output("yk"), b.output("ym"));
    let n = b.int_param("n");
    let s = b.f32_param("s");
    let lanes = b.lane_count();
    let mut pool = Pool(vec![(Ty::Int, n.value()), (Ty::Int, lanes.value()), (Ty::F32, s.value())]);
    let constants = (b.i32(random.i32(..)), b.mask(random.bool()), b.f32(random.f32()));
    pool.0.extend([
        (Ty::I32, constants.0.value()),
        (Ty::Mask, constants.1.value()),
        (Ty::F32, constants.2.value()),
    ]);
    grow(&mut b, &mut pool, random, false);
    for _ in 0..random.usize(1..3) {
        let kind = [LoopKind::Count, LoopKind::Lanes][random.usize(..2)];
        let (init_f, init_i, init_m) = (
            F32::from_value(pool.pick(random, Ty::F32)),
            I32::from_value(pool.pick(random, Ty::I32)),
            Mask::from_value(pool.pick(random, Ty::Mask)),
        );
        let unroll = random.u32(1..4);
        let outer = pool.0.len();
        let results = b.repeat(kind, unroll, n, (init_f, init_i, init_m), |b, i, carried| {
            let at = if kind == LoopKind::Count { b.mul(i, lanes) } else { i };
            pool.0.push((Ty::Int, i.value()));
            pool.0.push((Ty::F32, carried.0.value()));
            pool.0.push((Ty::I32, carried.1.value()));
            pool.0.push((Ty::Mask, carried.2.value()));
            let loaded = (b.load::<F32>(x.at(at)), b.load::<I32>(k.at(at)), b.load::<Mask>(m.at(at)));
            pool.0.push((Ty::F32, loaded.0.value()));
            pool.0.push((Ty::I32, loaded.1.value()));
            pool.0.push((Ty::Mask, loaded.2.value()));
            grow(b, &mut pool, random, kind == LoopKind::Lanes);
            store::<F32>(b, &pool, random, y, at);
            store::<I32>(b, &pool, random, yk, at);
            store::<Mask>(b, &pool, random, ym, at);
            (
                F32::from_value(pool.pick(random, Ty::F32)),
                I32::from_value(pool.pick(random, Ty::I32)),
                Mask::from_value(pool.pick(random, Ty::Mask)),
            )
        });
        pool.0.truncate(outer);
        pool.0.push((Ty::F32, results.0.value()));
        pool.0.push((Ty::I32, results.1.value()));
        pool.0.push((Ty::Mask, results.2.value()));
        grow(&mut b, &mut pool, random, false);
    }
    let zero = b.int(0);
    store::<F32>(&mut b, &pool, random, y, zero);
    store::<I32>(&mut b, &pool, random, yk, zero);
    store::<Mask>(&mut b, &pool, random, ym, zero);
    b.finish()
}

fn store<T: Vector>(
    b: &mut Builder,
    pool: &Pool,
    random: &mut fastrand::Rng,
    to: salient_vector::Ptr,
    at: Int,
) {
    let value = pool.pick(random, T::ELEM.ty());
    let mut place = to.at(at);
    if random.bool() {
        place = place.masked(Mask::from_value(pool.pick(random, Ty::Mask)));
    }
    b.store_elem(T::ELEM, place, value);
}

#[test]
fn random_bodies_agree_with_the_interpreter() {
    let bodies = if cfg!(debug_assertions) { 150 } else { 2000 };
    for seed in 0..bodies {
        let mut random = fastrand::Rng::with_seed(seed);
        let body = body_of(&mut random);
        for n in [0, 1, random.i64(2..8), random.i64(8..40)] {
            let size = 16 * n.max(1) as usize;
            let hostile =
                [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e-45, f32::MAX, 1e10, -3e9];
            let mut float = || match random.u8(..4) {
                0 => hostile[random.usize(..hostile.len())],
                _ => (random.f32() - 0.5) * 100.0,
            };
            let mut memory = Memory::default();
            let x = memory.add_f32(&std::iter::repeat_with(&mut float).take(size).collect::<Vec<f32>>());
            let s = float();
            let integers: Vec<i32> = (0..size).map(|_| random.i32(..) >> random.u8(..31)).collect();
            let k = memory.add_i32(&integers);
            let m = memory.add((0..size).map(|_| random.u8(..2)).collect());
            let outputs = [4 * size, 4 * size, size].map(|bytes| memory.add(vec![1; bytes]));
            let [y, yk, ym] = outputs;
            agree(&body, &[x, k, m, y, yk, ym, Arg::Int(n), Arg::F32(s)], &memory);
        }
    }
}
