//! Every operator of the table at every type that it takes, on data made to break it.

use salient_vector::body::{Elem, Section};
use salient_vector::eval::{Arg, Memory};
use salient_vector::op::{OPS, OpInfo, Sig};
use salient_vector::{Body, Builder, Op, Ty, Value};

use crate::harness::agree;

const FLOATS: [f32; 30] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.7,
    -3.7,
    1e-45,
    -1e-45,
    1e-38,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    -f32::NAN,
    8_388_607.5,
    16_777_217.0,
    2_147_483_520.0,
    2_147_483_648.0,
    -2_147_483_648.0,
    -2_147_483_904.0,
    1e30,
    f32::EPSILON,
    0.499_999_97,
];
const INTEGERS: [i32; 16] = [
    0,
    1,
    -1,
    2,
    -2,
    7,
    -7,
    31,
    32,
    33,
    0x0080_0000,
    16_777_217,
    i32::MAX,
    i32::MIN,
    i32::MIN + 1,
    0x5555_5555,
];
const INTS: [i64; 12] = [0, 1, -1, 2, 3, 5, 31, 33, 1 << 33, (1 << 32) + 3, i64::MAX, i64::MIN];

/// The types of arguments that an operator takes: one list for each choice.
fn choices(info: &OpInfo) -> Vec<Vec<Ty>> {
    match info.sig {
        Sig::Same { arity, over } => over.iter().map(|&ty| vec![ty; arity]).collect(),
        Sig::Compare(over) => over.iter().map(|&ty| vec![ty; 2]).collect(),
        Sig::Select => [Ty::F32, Ty::I32, Ty::Mask].into_iter().map(|ty| vec![Ty::Mask, ty, ty]).collect(),
        Sig::Convert { from, .. } => from.iter().map(|&ty| vec![ty]).collect(),
        Sig::Fixed(args, _) => vec![args.to_vec()],
    }
}

fn elem(ty: Ty) -> Elem {
    match ty {
        Ty::F32 => Elem::F32,
        Ty::I32 => Elem::I32,
        Ty::Mask => Elem::Bool,
        Ty::Int | Ty::Ptr | Ty::PtrMut => panic!("{ty} is no vector"),
    }
}

/// `y[i] = op(a[i], b[i], c[i])`, with Int arguments as parameters; in whole vectors over a count of them, as some
/// operators mix lanes.
fn body_of(info: &OpInfo, types: &[Ty]) -> Body {
    let mut b = Builder::new(info.mnemonic);
    let output = b.output("y");
    let result = info.sig.result(types).expect("types of the table");
    let names = ["a", "b", "c"];
    let params: Vec<Value> = types
        .iter()
        .zip(names)
        .map(|(&ty, name)| b.param(name, if ty.is_vector() { Ty::Ptr } else { ty }))
        .collect();
    let vectors = b.int_param("vectors");
    let lanes = b.lane_count();
    b.count(vectors, (), |b, v, ()| {
        let at = b.mul(v, lanes);
        let args: Vec<Value> = types
            .iter()
            .zip(&params)
            .map(|(&ty, &param)| match ty.is_vector() {
                true => b.load_elem(elem(ty), pointer(param).at(at)),
                false => param,
            })
            .collect();
        let value = b.op(info.op, &args);
        if result == Ty::Int {
            // Shown through an index: lanes hold its halves.
            let low = b.splat(int(value));
            b.store(output.at(at), low);
        } else {
            b.store_elem(elem(result), output.at(at), value);
        }
    });
    b.finish()
}

fn pointer(value: Value) -> salient_vector::Ptr {
    salient_vector::handle::Handle::from_value(value)
}

fn int(value: Value) -> salient_vector::Int {
    salient_vector::handle::Handle::from_value(value)
}

const SIZE: usize = 1024;

/// Data of a type; `which` makes arguments meet in every pairing.
fn data(memory: &mut Memory, ty: Ty, which: usize) -> Arg {
    let at = |i: usize, n: usize| match which {
        0 => i % n,
        1 => i / n % n,
        _ => i * 7 / 3 % n,
    };
    match ty {
        Ty::F32 => memory.add_f32(&std::array::from_fn::<f32, SIZE, _>(|i| FLOATS[at(i, FLOATS.len())])),
        Ty::I32 => memory.add_i32(&std::array::from_fn::<i32, SIZE, _>(|i| INTEGERS[at(i, INTEGERS.len())])),
        Ty::Mask => memory.add((0..SIZE).map(|i| [0, 1, 0, 255, 2, 1, 1, 0][at(i, 8)] as u8).collect()),
        Ty::Int | Ty::Ptr | Ty::PtrMut => panic!("{ty} is no vector"),
    }
}

#[test]
fn every_operator_agrees_with_the_interpreter() {
    for info in OPS {
        for types in choices(info) {
            let body = body_of(info, &types);
            assert!(uses(&body, info.op));
            let ints: Vec<Vec<i64>> = match types.iter().filter(|&&ty| ty == Ty::Int).count() {
                0 => vec![vec![]],
                1 => INTS.iter().map(|&n| vec![n]).collect(),
                _ => INTS.iter().flat_map(|&a| INTS.iter().map(move |&b| vec![a, b])).collect(),
            };
            for ints in ints {
                let mut memory = Memory::default();
                let mut args = vec![memory.add(vec![0; 4 * SIZE])];
                let mut ints = ints.into_iter();
                for (which, &ty) in types.iter().enumerate() {
                    args.push(match ty.is_vector() {
                        true => data(&mut memory, ty, which),
                        false => Arg::Int(ints.next().expect("one for each")),
                    });
                }
                args.push(Arg::Int((SIZE / 16) as i64));
                agree(&body, &args, &memory);
            }
        }
    }
}

fn uses(body: &Body, op: Op) -> bool {
    body.sections.iter().any(|section| match section {
        Section::Straight(_) => false,
        Section::Loop(code) => code
            .insts
            .iter()
            .any(|inst| matches!(inst, salient_vector::body::Inst::Op { op: found, .. } if *found == op)),
    })
}
