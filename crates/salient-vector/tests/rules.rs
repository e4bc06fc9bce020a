//! The rules of the IR: what the verifier refuses, what the text form says, what the interpreter catches.

use salient_vector::body::{Const, Inst, Loop, LoopKind, Section};
use salient_vector::eval::{Arg, EvalError, Machine, Memory, eval};
use salient_vector::verify::verify;
use salient_vector::{Body, Builder, Elem, F32, I32, Mask, Op, Ty, Value};

/// A body with a loop of each kind and every kind of instruction and access.
fn sample() -> Body {
    let mut b = Builder::new("sample");
    let (x, ids, keep) = (b.input("x"), b.input("ids"), b.input("keep"));
    let y = b.output("y");
    let (n, stride) = (b.int_param("n"), b.int_param("stride"));
    let s = b.f32_param("s");
    let zero = b.f32(0.0);
    let sum = b.repeat(LoopKind::Lanes, 2, n, zero, |b, i, sum| {
        let k = b.load::<Mask>(keep.at(i));
        let v = b.load::<F32>(x.at(i).plus(-1).masked(k));
        let v = b.mul(v, s);
        b.store(y.at(i), v);
        b.add(sum, v)
    });
    let sum = b.hsum(sum);
    b.store(y.at_start().lanes(2).one(), sum);
    let row = b.load_int(Elem::I32, ids.at_start().plus(3));
    let from = b.address(Elem::F32, x.at(row));
    b.count(n, (), |b, k, ()| {
        let index = b.load::<I32>(ids.at(k));
        let a = b.load::<F32>(from.at(k).indexed(index, stride));
        let c = b.load::<F32>(from.at(k).plus(1).lanes(1).strided(stride));
        let v = b.fma(a, c, sum);
        b.store(y.at(k), v);
    });
    b.finish()
}

#[test]
fn the_text_form_reads_as_a_program() {
    let text = "\
body sample(x: ptr, ids: ptr, keep: ptr, y: mut ptr, n: int, stride: int, s: f32) {
    v7 = f32 0.0
    lanes i8 below n unroll 2 carry v9 = v7 {
        v10 = load bool keep[i8]
        v11 = load f32 x[i8 + -1] if v10
        v12 = mul v11, s
        store f32 y[i8], v12
        v13 = add v9, v12
    } next v13 give v14
    v15 = hsum v14
    store f32 y[2L] one, v15
    v16 = load_int i32 ids[3]
    v17 = address f32 x[v16]
    count i18 below n {
        v19 = load i32 ids[i18]
        v20 = load f32 v17[i18] at v19 * stride
        v21 = load f32 v17[i18 + 1 + 1L] stride stride
        v22 = fma v20, v21, v15
        store f32 y[i18], v22
    }
}
";
    assert_eq!(sample().to_string(), text);
}

/// The sample with one thing changed; gives what the verifier says.
fn broken(change: impl FnOnce(&mut Body)) -> String {
    let mut body = sample();
    change(&mut body);
    verify(&body).expect_err("a rule is broken").to_string()
}

fn straight(body: &mut Body, at: usize) -> &mut Vec<Inst> {
    match &mut body.sections[at] {
        Section::Straight(insts) => insts,
        Section::Loop(_) => panic!("section {at} is a loop"),
    }
}

fn repeat(body: &mut Body, at: usize) -> &mut Loop {
    match &mut body.sections[at] {
        Section::Loop(code) => code,
        Section::Straight(_) => panic!("section {at} is no loop"),
    }
}

fn fresh(body: &mut Body, ty: Ty) -> Value {
    body.types.push(ty);
    Value(body.types.len() as u32 - 1)
}

#[test]
fn the_sample_is_legal() {
    assert_eq!(verify(&sample()), Ok(()));
}

/// What is said of values that are used or made wrongly, beside what the verifier says.
fn broken_values() -> Vec<(&'static str, String)> {
    vec![
        (
            "v13 is used outside its loop, in `v15 = hsum v13`",
            broken(|body| {
                straight(body, 2)[0] = Inst::Op { out: Value(15), op: Op::HSum, args: vec![Value(13)] };
            }),
        ),
        (
            "v22 is used before it is defined",
            broken(|body| {
                straight(body, 2)[0] = Inst::Op { out: Value(15), op: Op::HSum, args: vec![Value(22)] };
            }),
        ),
        (
            "v7 is defined twice",
            broken(|body| {
                straight(body, 0).push(Inst::Const { out: Value(7), value: Const::F32(1.0) });
            }),
        ),
        ("the result is int, not f32, in `v7 = f32 0.0`", broken(|body| body.types[7] = Ty::Int)),
        (
            "no such operator on (f32, int), in `v12 = mul v11, n`",
            broken(|body| {
                repeat(body, 1).insts[2] =
                    Inst::Op { out: Value(12), op: Op::Mul, args: vec![Value(11), Value(4)] };
            }),
        ),
        (
            "no such operator on (f32), in `v12 = mul v11`",
            broken(|body| {
                repeat(body, 1).insts[2] = Inst::Op { out: Value(12), op: Op::Mul, args: vec![Value(11)] };
            }),
        ),
        (
            "lanes cannot be mixed where some may be inactive, in `v12 = hsum v11`",
            broken(|body| {
                repeat(body, 1).insts[2] = Inst::Op { out: Value(12), op: Op::HSum, args: vec![Value(11)] };
            }),
        ),
    ]
}

/// As [`broken_values`], of addresses, loads and stores.
fn broken_places() -> Vec<(&'static str, String)> {
    vec![
        ("the pointer stored through is ptr, not mut ptr", broken(|body| body.types[3] = Ty::Ptr)),
        (
            "the value stored is f32, not i32",
            broken(|body| {
                let Inst::Store { elem, .. } = &mut straight(body, 2)[1] else {
                    panic!("another instruction")
                };
                *elem = Elem::I32;
            }),
        ),
        (
            "a half is loaded and never stored",
            broken(|body| {
                let Inst::Store { elem, .. } = &mut straight(body, 2)[1] else {
                    panic!("another instruction")
                };
                *elem = Elem::F16;
            }),
        ),
        (
            "the index is f32, not int",
            broken(|body| {
                let Inst::LoadInt { addr, .. } = &mut straight(body, 2)[2] else {
                    panic!("another instruction")
                };
                addr.index = Some(Value(15));
            }),
        ),
        (
            "a float is not loaded as an int",
            broken(|body| {
                let Inst::LoadInt { elem, .. } = &mut straight(body, 2)[2] else {
                    panic!("another instruction")
                };
                *elem = Elem::F32;
            }),
        ),
        (
            "the base of an address is not a pointer",
            broken(|body| {
                let Inst::Address { addr, .. } = &mut straight(body, 2)[3] else {
                    panic!("another instruction")
                };
                addr.base = Value(4);
            }),
        ),
        (
            "the mask is f32, not mask",
            broken(|body| {
                let Inst::Load { place, .. } = &mut repeat(body, 3).insts[1] else {
                    panic!("another instruction")
                };
                place.mask = Some(Value(6));
            }),
        ),
    ]
}

/// As [`broken_values`], of loops and parameters.
fn broken_loops() -> Vec<(&'static str, String)> {
    vec![
        ("the trip count is f32, not int", broken(|body| repeat(body, 1).trip = Value(6))),
        ("the loop index is i32, not int", broken(|body| body.types[8] = Ty::I32)),
        ("a loop is laid out at least once, not 0 times", broken(|body| repeat(body, 1).unroll = 0)),
        (
            "a carried value changes from f32 to mask",
            broken(|body| repeat(body, 1).carried[0].next = Value(10)),
        ),
        (
            "a loop over lanes cannot carry a value of type int",
            broken(|body| {
                let (param, result) = (fresh(body, Ty::Int), fresh(body, Ty::Int));
                let carried = salient_vector::body::Carried { param, init: Value(4), next: param, result };
                repeat(body, 1).carried.push(carried);
            }),
        ),
        ("parameter `n` cannot be of type mask", broken(|body| body.types[4] = Ty::Mask)),
        ("two parameters are named `n`", broken(|body| body.params[5].name = "n".to_owned())),
        ("v99 has no type", broken(|body| repeat(body, 1).trip = Value(99))),
    ]
}

#[test]
fn the_verifier_names_the_broken_rule() {
    for (want, found) in [broken_values(), broken_places(), broken_loops()].concat() {
        assert!(
            found.starts_with("body `sample`: ") && found.contains(want),
            "{found:?} does not say {want:?}"
        );
    }
}

#[test]
#[should_panic(expected = "loops do not nest (in body `nested`)")]
fn loops_do_not_nest() {
    let mut b = Builder::new("nested");
    let n = b.int_param("n");
    b.count(n, (), |b, _, ()| b.count(n, (), |_, _, ()| ()));
}

#[test]
#[should_panic(expected = "the pointer stored through is ptr, not mut ptr")]
fn an_input_is_not_written() {
    let mut b = Builder::new("writes_input");
    let x = b.input("x");
    let zero = b.f32(0.0);
    b.store(x.at_start(), zero);
    b.finish();
}

#[test]
#[should_panic(expected = "`shl` does not take [I32, I32]")]
fn a_generic_operator_is_typed_too() {
    let mut b = Builder::new("shift");
    let one = b.constant(Const::I32(1));
    b.op(Op::Shl, &[one, one]);
}

/// `y[i] = x[i]` over lanes.
fn copy() -> Body {
    let mut b = Builder::new("copy");
    let (x, y) = (b.input("x"), b.output("y"));
    let n = b.int_param("n");
    b.lanes(n, (), |b, i, ()| {
        let v = b.load::<F32>(x.at(i));
        b.store(y.at(i), v);
    });
    b.finish()
}

#[test]
fn the_interpreter_catches_what_is_out_of_bounds() {
    for lanes in [1, 4, 8, 16] {
        let machine = Machine { lanes, fused: true };
        let mut memory = Memory::default();
        let (x, y) = (memory.add_f32(&[1.0; 9]), memory.add_f32(&[0.0; 9]));
        assert_eq!(eval(&copy(), machine, &[x, y, Arg::Int(9)], &mut memory), Ok(()));
        assert_eq!(memory.f32s(y), [1.0; 9]);

        let error = eval(&copy(), machine, &[x, y, Arg::Int(10)], &mut memory).expect_err("one too many");
        assert_eq!(
            error.to_string(),
            "body `copy`, `v4 = load f32 x[i3]`: bytes 36..40 of buffer 0, which has 36"
        );
        let before = Arg::Ptr(0, -4);
        let error =
            eval(&copy(), machine, &[before, y, Arg::Int(1)], &mut memory).expect_err("before the start");
        assert!(matches!(error, EvalError::OutOfBounds { at: -4, .. }), "{error}");
    }
}

#[test]
fn the_interpreter_catches_inputs_that_are_written() {
    let machine = Machine { lanes: 4, fused: true };
    let mut memory = Memory::default();
    let x = memory.add_f32(&[1.0; 8]);
    let error = eval(&copy(), machine, &[x, x, Arg::Int(8)], &mut memory).expect_err("in place");
    assert!(matches!(error, EvalError::Overlap { buffer: 0, at: 0, .. }), "{error}");
    let halves = [x, Arg::Ptr(0, 16), Arg::Int(4)];
    assert_eq!(eval(&copy(), machine, &halves, &mut memory), Ok(()));
}

#[test]
fn wrong_arguments_are_named() {
    let machine = Machine { lanes: 4, fused: true };
    let mut memory = Memory::default();
    let x = memory.add_f32(&[1.0; 8]);
    let error = eval(&copy(), machine, &[x, x], &mut memory).expect_err("one is missing");
    assert_eq!(error.to_string(), "body `copy` does not take these arguments: 2 for 3 parameters");
    let error = eval(&copy(), machine, &[x, Arg::Int(1), Arg::Int(1)], &mut memory).expect_err("no pointer");
    assert_eq!(error.to_string(), "body `copy` does not take these arguments: `y` is mut ptr, given Int(1)");
}

#[test]
fn results_do_not_depend_on_the_number_of_lanes() {
    // Every element is its own; only reductions over lanes depend on L.
    let mut b = Builder::new("elements");
    let (x, y) = (b.input("x"), b.output("y"));
    let n = b.int_param("n");
    b.lanes(n, (), |b, i, ()| {
        let v = b.load::<F32>(x.at(i));
        let index = b.lane_index(i);
        let index = b.to_f32(index);
        let e = salient_vector::math::exp(b, v);
        let v = b.fma(e, index, v);
        b.store(y.at(i), v);
    });
    let body = b.finish();
    for n in 0..40 {
        let input: Vec<f32> = (0..n).map(|i| i as f32 / 7.0 - 2.0).collect();
        let run = |lanes| {
            let mut memory = Memory::default();
            let args = [memory.add_f32(&input), memory.add_f32(&input), Arg::Int(n)];
            eval(&body, Machine { lanes, fused: true }, &args, &mut memory).expect("in bounds");
            memory.f32s(args[1])
        };
        let one = run(1);
        for lanes in [2, 4, 8, 16] {
            assert_eq!(run(lanes), one, "{lanes} lanes, {n} elements");
        }
    }
}
