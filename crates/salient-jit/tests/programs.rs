//! Hand-built programs, compiled for every instruction set of this machine, against the interpreter of programs; and what
//! a caller can do wrong.

use salient_ir::array::Array;
use salient_ir::{AxisId, Bindings, Builder as GraphBuilder, DType, Dim, NodeId, Symbol};
use salient_jit::bodies;
use salient_jit::target::{Isa, IsaChoice};
use salient_jit::{Compiled, Loaded, Options, Plan, RunError, Threading};
use salient_tile::coded::Codes;
use salient_tile::eval::{self, EvalError, Order};
use salient_tile::memory;
use salient_tile::{
    Arg, Base, Buffer, BufferId, Check, Int, Kernel, Kind, LANES, Program, Role, Scratch, Sizes, Stmt,
};
use salient_vector::body::Body;
use salient_vector::eval::Machine;
use salient_vector::{Builder, Elem, F32, I32};
use std::sync::Arc;

fn n(value: i64) -> Dim {
    Dim::constant(value)
}

fn dim(name: &str) -> Dim {
    Dim::symbol(name)
}

fn lanes() -> Dim {
    Dim::symbol(&LANES)
}

fn var(word: &str) -> Dim {
    Dim::symbol(Symbol::variable(word))
}

fn at(buffer: usize, offset: Dim) -> Arg {
    Arg::Address { base: Base::Buffer(BufferId(buffer)), offset }
}

fn scratch(slot: usize, offset: Dim) -> Arg {
    Arg::Address { base: Base::Scratch(slot), offset }
}

fn each(var: &str, from: Dim, to: Dim, step: Dim, block: Vec<Stmt>) -> Stmt {
    Stmt::For { var: Symbol::variable(var), from, to, step, block }
}

fn call(body: usize, args: Vec<Arg>) -> Stmt {
    Stmt::Call { body, args }
}

fn set(var: &str, value: Int) -> Stmt {
    Stmt::Let { var: Symbol::variable(var), value }
}

/// A program under construction; nothing in it comes from a graph.
struct Make {
    program: Program,
    node: NodeId,
    axes: Vec<AxisId>,
}

impl Make {
    fn new(dimensions: &[&str]) -> Make {
        let mut graph = GraphBuilder::new("none");
        let node = graph.input("none", &[], DType::F32, None);
        let dimensions = dimensions.iter().map(|s| (*s).into()).collect();
        let program = Program {
            name: "made".into(),
            dimensions,
            buffers: vec![],
            kernels: vec![],
            copies: vec![],
            loads: 0,
            appends: Vec::new(),
            checks: vec![],
            values: vec![],
            limits: vec![],
        };
        Make { program, node, axes: Vec::new() }
    }

    fn buffer(&mut self, name: &str, role: Role, dtype: DType, shape: &[Dim]) -> usize {
        let (axes, shape) = (self.axes.clone(), shape.to_vec());
        self.program.buffers.push(Buffer { name: name.into(), role, dtype, axes, shape, node: self.node });
        self.program.buffers.len() - 1
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a kernel, in the order of their declaration")]
    fn kernel(
        &mut self,
        name: &str,
        (reads, writes): (&[usize], &[usize]),
        (item, items): (&str, Dim),
        slots: &[Dim],
        bodies: Vec<Body>,
        block: Vec<Stmt>,
    ) {
        let ids = |list: &[usize]| list.iter().map(|at| BufferId(*at)).collect();
        self.program.kernels.push(Kernel {
            name: name.into(),
            kind: Kind::Map,
            fuses: vec![name.into()],
            reads: ids(reads),
            writes: ids(writes),
            item: Symbol::variable(item),
            items,
            scratch: slots
                .iter()
                .map(|count| Scratch { name: "slot".into(), count: count.clone() })
                .collect(),
            block,
            bodies: bodies.into_iter().map(Arc::new).collect(),
            // Enough for any number of threads to be worth it.
            flops: n(1 << 40),
            form: None,
            row_blocks: None,
        });
    }
}

/// `y[k] = x[k] * x[k] + 1` for `k` below `n`.
fn square() -> Body {
    let mut b = Builder::new("square");
    let (x, y, count) = (b.input("x"), b.output("y"), b.int_param("n"));
    let one = b.f32(1.0);
    b.lanes(count, (), |b, i, ()| {
        let v = b.load::<F32>(x.at(i));
        let v = b.fma(v, v, one);
        b.store(y.at(i), v);
    });
    b.finish()
}

/// `y[0] = k` in 32 bits.
fn note() -> Body {
    let mut b = Builder::new("note");
    let (y, k) = (b.output("y"), b.int_param("k"));
    let v = b.splat(k);
    b.store(y.at_start().one(), v);
    b.finish()
}

/// `y[0] = x[0]`, as an integer.
fn copy() -> Body {
    let mut b = Builder::new("copy");
    let (x, y) = (b.input("x"), b.output("y"));
    let v = b.load::<I32>(x.at_start().one());
    b.store(y.at_start().one(), v);
    b.finish()
}

/// Rows of `x`, squared row by row, then once more by way of a temporary and in strips of a vector's lanes.
fn rows() -> Program {
    let mut m = Make::new(&["R", "W"]);
    let shape = [dim("R"), dim("W")];
    let x = m.buffer("x", Role::Input(0), DType::F32, &shape);
    let t = m.buffer("t", Role::Temporary, DType::F32, &shape);
    let y = m.buffer("y", Role::Output(0), DType::F32, &shape);
    let row = &var("r") * &dim("W");
    m.kernel(
        "t",
        (&[x], &[t]),
        ("r", dim("R")),
        &[],
        vec![square()],
        vec![call(0, vec![at(x, row.clone()), at(t, row.clone()), Arg::Int(dim("W"))])],
    );
    let place = &row + &var("w");
    let left = Int::Min(vec![&dim("W") - &var("w"), lanes()]);
    let strip = vec![
        set("left", left),
        call(0, vec![at(t, place.clone()), scratch(0, n(0)), Arg::Int(var("left"))]),
        call(0, vec![scratch(0, n(0)), at(y, place), Arg::Int(var("left"))]),
    ];
    let strips = each("w", n(0), dim("W"), lanes(), strip);
    m.kernel("y", (&[t], &[y]), ("r", dim("R")), &[lanes()], vec![square()], vec![strips]);
    m.program
}

/// What integers can do: quotients of either sign, least and greatest, branches, values read from scratch memory, loops
/// that step by more than one, names bound again in a block.
fn integers() -> Program {
    let mut m = Make::new(&["D", "N"]);
    let width = n(8);
    let y = m.buffer("y", Role::Output(0), DType::I32, &[dim("N"), width.clone()]);
    let quotient = |by: &Dim| (&var("k") - &n(20)).floor_div(by).expect("not zero");
    let store =
        |slot: i64, value: Dim| call(0, vec![at(y, &(&var("k") * &width) + &n(slot)), Arg::Int(value)]);
    let ten = &var("k") - &n(10);
    let block = vec![
        store(0, quotient(&n(7))),
        store(1, quotient(&n(8))),
        store(2, quotient(&dim("D"))),
        set("a", Int::Min(vec![var("k"), dim("D"), n(9)])),
        set("b", Int::Max(vec![ten.clone(), dim("D"), n(2)])),
        store(3, &(&var("a") * &n(100)) + &var("b")),
        Stmt::If {
            left: ten,
            right: dim("D"),
            then: vec![set("a", Int::Dim(n(77))), store(4, var("a"))],
            otherwise: vec![store(4, var("b"))],
        },
        store(5, var("a")),
        // The sum of what a loop writes to scratch memory, one element after the other.
        call(0, vec![scratch(0, n(0)), Arg::Int(n(0))]),
        each(
            "s",
            n(1),
            var("k"),
            &dim("D") + &n(1),
            vec![
                Stmt::Read { var: Symbol::variable("sum"), scratch: 0, offset: n(0) },
                call(0, vec![scratch(0, n(0)), Arg::Int(&var("sum") + &var("s"))]),
            ],
        ),
        call(1, vec![scratch(0, n(0)), at(y, &(&var("k") * &width) + &n(6))]),
        Stmt::Read { var: Symbol::variable("a"), scratch: 0, offset: n(0) },
        store(7, &var("a") * &n(-1)),
    ];
    m.kernel("y", (&[], &[y]), ("k", dim("N")), &[n(3)], vec![note(), copy()], block);
    m.program
}

/// `y[k] = x[k]` for 64-bit integers and for booleans: what is not a float crosses the border.
fn borders() -> Program {
    let mut m = Make::new(&["N"]);
    let mut kernel = |dtype: DType, k: usize, elem: Elem| {
        let x = m.buffer("x", Role::Input(k), dtype, &[dim("N")]);
        let y = m.buffer("y", Role::Output(k), dtype, &[dim("N")]);
        let mut b = Builder::new("copy");
        let (from, to) = (b.input("x"), b.output("y"));
        let v = b.load_elem(elem, from.at_start().one());
        b.store_elem(elem, to.at_start().one(), v);
        let block = vec![call(0, vec![at(x, var("k")), at(y, var("k"))])];
        m.kernel("y", (&[x], &[y]), ("k", dim("N")), &[], vec![b.finish()], block);
    };
    kernel(DType::I64, 0, Elem::I32);
    kernel(DType::Bool, 1, Elem::Bool);
    m.program
}

/// Writes `k` as an index that fails where `x[k]` is true.
fn checks() -> Program {
    let mut m = Make::new(&["N"]);
    let x = m.buffer("x", Role::Input(0), DType::Bool, &[dim("N")]);
    let y = m.buffer("y", Role::Output(0), DType::I32, &[dim("N")]);
    for (tensor, axis) in [("first", "i"), ("second", "j")] {
        m.program.checks.push(Check {
            tensor: tensor.into(),
            axis: axis.into(),
            extent: dim("N"),
            origin: None,
        });
    }
    for kernel in 0..2 {
        let mut b = Builder::new("check");
        let (from, to, status, k) = (b.input("x"), b.output("y"), b.output("status"), b.int_param("k"));
        let bad = b.load::<salient_vector::Mask>(from.at_start().one());
        let site = b.i32(kernel + 1);
        let index = b.splat(k);
        b.store(to.at_start().one(), index);
        b.store(status.at_start().one().masked(bad), site);
        b.store(status.at_start().plus(1).one().masked(bad), index);
        let cell = Arg::Address { base: Base::Status, offset: n(0) };
        let args = vec![at(x, var("k")), at(y, var("k")), cell, Arg::Int(var("k"))];
        m.kernel("y", (&[x], &[y]), ("k", dim("N")), &[], vec![b.finish()], vec![call(0, args)]);
    }
    m.program
}

fn dims(list: &[(&str, i64)]) -> Bindings {
    list.iter().map(|(name, n)| ((*name).into(), *n)).collect()
}

fn floats(count: usize) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(3);
    (0..count).map(|_| rng.f32() * 2.0 - 1.0).collect()
}

fn choices() -> impl Iterator<Item = IsaChoice> {
    Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect()).map(IsaChoice::Only)
}

fn compile(program: &Program, isa: IsaChoice, threads: usize) -> Compiled {
    Compiled::new(program.clone(), &Options { isa, threads, threading: Threading::default() }).unwrap()
}

/// Of programs without parameters.
fn loaded(code: &Compiled) -> Loaded {
    code.load(&Bindings::new(), &[], &Codes::new()).unwrap()
}

fn outputs(program: &Program, dims: &Bindings) -> Vec<Array> {
    let mut out: Vec<(usize, Array)> = Vec::new();
    for buffer in &program.buffers {
        if let Role::Output(k) = buffer.role {
            let shape = buffer.shape.iter().map(|d| d.eval(dims).unwrap() as usize).collect();
            out.push((k, Array::zeros(buffer.dtype, shape).unwrap()));
        }
    }
    out.sort_by_key(|(k, _)| *k);
    out.into_iter().map(|(_, array)| array).collect()
}

/// Compiled code and interpreter, on every instruction set and with one, two and three threads, twice with one plan:
/// the same bits.
fn agree(program: &Program, dims: &Bindings, inputs: &[&Array]) {
    for isa in choices() {
        for threads in [1, 2, 3] {
            let code = compile(program, isa, threads);
            let machine = Machine { lanes: bodies::lanes(code.target()), fused: code.target().fma() };
            let expected = eval::run(program, dims, machine, Order::Backward, inputs, &[]).unwrap();
            let plan = code.bind(dims).unwrap();
            let sizes = Sizes { dimensions: dims, lanes: machine.lanes };
            let most = memory::contract(&program.usage()).bytes(sizes, threads).unwrap();
            assert!(plan.working_bytes(threads) <= most);
            for _ in 0..2 {
                let mut have = outputs(program, dims);
                code.run(&plan, &loaded(&code), inputs, &[], &mut have).unwrap();
                for (have, want) in have.iter().zip(&expected) {
                    assert!(have.same_bits(want), "{isa:?}, {threads} threads, {dims:?}:\n{have}\n{want}");
                }
            }
        }
    }
}

#[test]
fn nested_loops_temporaries_and_scratch_memory() {
    for (r, w) in [(1, 1), (3, 5), (7, 16), (40, 33), (0, 4), (4, 0)] {
        let x = Array::from_f32(vec![r, w], floats(r * w)).unwrap();
        agree(&rows(), &dims(&[("R", r as i64), ("W", w as i64)]), &[&x]);
    }
}

#[test]
fn integers_branches_and_values_read() {
    for d in [1, 3, 4, 30] {
        agree(&integers(), &dims(&[("D", d), ("N", 45)]), &[]);
    }
}

#[test]
fn a_divisor_of_zero_does_not_trap() {
    let (program, sizes) = (integers(), dims(&[("D", 0), ("N", 45)]));
    let code = compile(&program, IsaChoice::Auto, 1);
    let mut out = outputs(&program, &sizes);
    code.run(&code.bind(&sizes).unwrap(), &loaded(&code), &[], &[], &mut out).unwrap();
    assert_eq!(out[0].as_i32().unwrap()[8 * 44 + 3], 34);
}

#[test]
fn wide_integers_are_narrowed_and_widened() {
    let whole = Array::from_i64(vec![3], vec![-5, i64::from(i32::MAX), i64::from(i32::MIN)]).unwrap();
    let truth = Array::from_bool(vec![3], vec![true, false, true]).unwrap();
    let (program, sizes) = (borders(), dims(&[("N", 3)]));
    agree(&program, &sizes, &[&whole, &truth]);
    let code = compile(&program, IsaChoice::Auto, 1);
    let plan = code.bind(&sizes).unwrap();
    let mut out = outputs(&program, &sizes);
    code.run(&plan, &loaded(&code), &[&whole, &truth], &[], &mut out).unwrap();
    assert_eq!((&out[0], &out[1]), (&whole, &truth));
    let large = Array::from_i64(vec![3], vec![0, 1 << 31, 0]).unwrap();
    let error = code.run(&plan, &loaded(&code), &[&large, &truth], &[], &mut out).unwrap_err();
    assert_eq!(error, RunError::TooLarge { tensor: "x".into(), value: 1 << 31 });
}

#[test]
fn the_failing_index_that_is_told_does_not_depend_on_threads() {
    let (program, sizes) = (checks(), dims(&[("N", 100)]));
    let mut bad = vec![false; 100];
    bad[7] = true;
    bad[60] = true;
    let x = Array::from_bool(vec![100], bad).unwrap();
    for isa in choices() {
        for threads in [1, 2, 3] {
            let code = compile(&program, isa, threads);
            let plan = code.bind(&sizes).unwrap();
            let mut out = outputs(&program, &sizes);
            let error = code.run(&plan, &loaded(&code), &[&x], &[], &mut out).unwrap_err();
            let (tensor, axis) = ("first".to_owned(), "i".to_owned());
            assert_eq!(error, RunError::OutOfRange { tensor, axis, extent: 100, index: 60, origin: None });
            // The plan is usable afterwards.
            let fine = Array::from_bool(vec![100], vec![false; 100]).unwrap();
            code.run(&plan, &loaded(&code), &[&fine], &[], &mut out).unwrap();
        }
    }
    let machine = Machine { lanes: 4, fused: true };
    let error = eval::run(&program, &sizes, machine, Order::Forward, &[&x], &[]).unwrap_err();
    let (tensor, axis) = ("first".to_owned(), "i".to_owned());
    assert_eq!(error, EvalError::OutOfRange { tensor, axis, extent: 100, index: 60 });
}

#[test]
fn arrays_that_do_not_fit_are_refused_before_anything_runs() {
    let (program, sizes) = (rows(), dims(&[("R", 2), ("W", 3)]));
    let code = compile(&program, IsaChoice::Auto, 1);
    let plan = code.bind(&sizes).unwrap();
    let good = Array::from_f32(vec![2, 3], floats(6)).unwrap();
    let refused = |inputs: &[&Array], out: &mut [Array]| {
        let before = out.to_vec();
        let error = code.run(&plan, &loaded(&code), inputs, &[], out).unwrap_err().to_string();
        assert_eq!(out, before);
        error
    };
    let mut out = outputs(&program, &sizes);
    assert!(refused(&[], &mut out).contains("`x`") && refused(&[], &mut out).contains("not given"));
    let short = Array::from_f32(vec![5], floats(5)).unwrap();
    assert!(refused(&[&short], &mut out).contains("5 elements, expected 6"));
    let half = Array::from_f16_bits(vec![2, 3], vec![0; 6]).unwrap();
    assert!(refused(&[&half], &mut out).contains("holds f16, expected f32"));
    assert!(refused(&[&good], &mut []).contains("`y`"));
    let mut whole = [Array::zeros(DType::I32, vec![2, 3]).unwrap()];
    assert!(refused(&[&good], &mut whole).contains("holds i32, expected f32"));
}

#[test]
fn dimensions_that_cannot_be_are_refused() {
    let code = compile(&rows(), IsaChoice::Auto, 1);
    let refused = |list: &[(&str, i64)]| code.bind(&dims(list)).unwrap_err().to_string();
    assert!(refused(&[("R", 2)]).contains("dimension W is not known"));
    assert!(refused(&[("R", 2), ("W", -1)]).contains("`x` has an axis of negative length"));
    assert!(refused(&[("R", 1 << 40), ("W", 1 << 40)]).contains("too large"));
    assert!(refused(&[("R", 1 << 30), ("W", 1 << 30)]).contains("too large"));
}

#[test]
fn the_plan_of_another_program_is_refused() {
    let (a, b) = (compile(&rows(), IsaChoice::Auto, 1), compile(&rows(), IsaChoice::Auto, 1));
    let plan: Plan = b.bind(&dims(&[("R", 1), ("W", 1)])).unwrap();
    let x = Array::from_f32(vec![1, 1], vec![1.0]).unwrap();
    let mut out = [Array::zeros(DType::F32, vec![1, 1]).unwrap()];
    assert_eq!(a.run(&plan, &loaded(&a), &[&x], &[], &mut out), Err(RunError::Plan));
}

#[test]
fn memory_that_there_is_not_is_an_error() {
    let mut program = rows();
    program.kernels[1].scratch[0].count = &dim("R") * &n(1 << 44);
    let code = compile(&program, IsaChoice::Auto, 1);
    let plan = code.bind(&dims(&[("R", 2), ("W", 1)])).unwrap();
    assert!(plan.working_bytes(1) > 1 << 46);
    let x = Array::from_f32(vec![2, 1], vec![1.0, 2.0]).unwrap();
    let mut out = [Array::zeros(DType::F32, vec![2, 1]).unwrap()];
    let error = code.run(&plan, &loaded(&code), &[&x], &[], &mut out).unwrap_err();
    let bytes = plan.working_bytes(1);
    assert!(matches!(error, RunError::Memory { bytes: told, .. } if told == bytes), "{error}");
}

#[test]
fn code_and_plans_are_shared_by_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let (program, sizes) = (rows(), dims(&[("R", 30), ("W", 17)]));
    let code = compile(&program, IsaChoice::Auto, 3);
    let plan = code.bind(&sizes).unwrap();
    shared(&(&code, &plan));
    let x = Array::from_f32(vec![30, 17], floats(30 * 17)).unwrap();
    let run = || {
        let mut out = outputs(&program, &sizes);
        code.run(&plan, &loaded(&code), &[&x], &[], &mut out).unwrap();
        out
    };
    let alone = run();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| assert_eq!(run(), alone)));
        }
    });
}

/// Bytes of addresses that this process has mapped, where the system tells.
fn mapped() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').next()?.parse::<u64>().ok()? * 4096)
}

#[test]
fn code_is_made_and_freed_many_times() {
    let sizes = dims(&[("R", 2), ("W", 5)]);
    let x = Array::from_f32(vec![2, 5], floats(10)).unwrap();
    let mut first: Option<Vec<Array>> = None;
    let before = mapped();
    for _ in 0..500 {
        let program = rows();
        let code = compile(&program, IsaChoice::Auto, 2);
        let mut out = outputs(&program, &sizes);
        code.run(&code.bind(&sizes).unwrap(), &loaded(&code), &[&x], &[], &mut out).unwrap();
        assert_eq!(*first.get_or_insert_with(|| out.clone()), out);
    }
    if let (Some(before), Some(after)) = (before, mapped()) {
        // Each module reserves 64 MiB of addresses; other tests have some at the same time.
        assert!(after < before + 100 * (64 << 20), "{before} bytes mapped before, {after} after");
    }
}

#[test]
fn listings_name_kernels_and_bodies_and_show_what_is_shared_once() {
    for isa in choices() {
        let mut program = rows();
        let mut twin = program.kernels[0].clone();
        twin.name = "twin".into();
        Arc::make_mut(&mut twin.bodies[0]).name = "another_name".into();
        // The same loop, but for the name of its variable.
        twin.item = Symbol::variable("q");
        let place = &var("q") * &dim("W");
        twin.block = vec![call(0, vec![at(0, place.clone()), at(1, place), Arg::Int(dim("W"))])];
        program.kernels.insert(1, twin);
        let code = compile(&program, isa, 1);
        for text in [code.clif(), code.asm()] {
            assert_eq!(text.matches("; kernel ").count(), 2, "{text}");
            assert!(text.contains("; kernel t, twin\n") && text.contains("; kernel y\n"), "{text}");
            assert_eq!(text.matches("; body square of t").count(), 1, "{text}");
        }
    }
}
