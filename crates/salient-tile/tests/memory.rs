//! The memory plan of random programs, and what the contract promises of it.

use salient_ir::{Bindings, Builder, DType, Dim, NodeId};
use salient_tile::memory::{ALIGNMENT, Arena, contract, lifetimes, plan};
use salient_tile::{Buffer, BufferId, Kernel, Kind, LANES, Program, Role, Scratch, Section, Sizes};

fn some_node() -> NodeId {
    Builder::new("none").input("none", &[], DType::F32, None)
}

/// Buffers of these roles, dtypes and shapes; kernels that read and write them.
fn program(buffers: &[(Role, DType, &[Dim])], kernels: &[(Vec<usize>, Vec<usize>)]) -> Program {
    let node = some_node();
    let buffers = buffers
        .iter()
        .enumerate()
        .map(|(at, (role, dtype, shape))| Buffer {
            name: format!("t{at}"),
            role: *role,
            dtype: *dtype,
            axes: Vec::new(),
            shape: shape.to_vec(),
            node,
        })
        .collect();
    let ids = |list: &Vec<usize>| list.iter().map(|at| BufferId(*at)).collect();
    let kernels = kernels
        .iter()
        .map(|(reads, writes)| Kernel {
            name: "k".into(),
            kind: Kind::Map,
            fuses: Vec::new(),
            reads: ids(reads),
            writes: ids(writes),
            item: "item".into(),
            items: Dim::constant(1),
            scratch: vec![
                Scratch { name: "panel".into(), count: &Dim::symbol("D") * &Dim::symbol(&LANES) },
                Scratch { name: "sum".into(), count: Dim::constant(1) },
            ],
            block: Vec::new(),
            bodies: Vec::new(),
            flops: Dim::constant(0),
            form: None,
            row_blocks: None,
        })
        .collect();
    let dimensions = ["D", "H", "T"].map(Into::into).to_vec();
    Program {
        name: "made".into(),
        dimensions,
        buffers,
        kernels,
        copies: Vec::new(),
        loads: 0,
        appends: Vec::new(),
        checks: Vec::new(),
        values: Vec::new(),
        limits: Vec::new(),
    }
}

fn dims(d: i64, h: i64, t: i64) -> Bindings {
    [("D", d), ("H", h), ("T", t)].into_iter().map(|(name, n)| (name.into(), n)).collect()
}

fn sizes(dimensions: &Bindings) -> Sizes<'_> {
    Sizes { dimensions, lanes: 8 }
}

fn size(program: &Program, at: usize, dims: Sizes<'_>) -> usize {
    let buffer = &program.buffers[at];
    (buffer.count().eval(&dims).unwrap() * buffer.elem().size()) as usize
}

/// No two that are alive at once share a byte, and everything is aligned and inside.
fn check(program: &Program, dims: Sizes<'_>) -> Arena {
    let arena = plan(program, Section::Call, dims).unwrap();
    let lives = lifetimes(&program.usage(), Section::Call);
    for (a, life) in lives.iter().enumerate() {
        assert_eq!(arena.offsets[a].is_some(), life.is_some());
        let (Some(from), Some(life)) = (arena.offsets[a], life) else { continue };
        let end = from + size(program, a, dims);
        assert!(from % ALIGNMENT == 0 && end <= arena.size);
        for (b, other_life) in lives.iter().enumerate().take(a) {
            let (Some(other), Some(other_life)) = (arena.offsets[b], other_life) else { continue };
            let apart = end <= other || other + size(program, b, dims) <= from;
            let never = life.1 < other_life.0 || other_life.1 < life.0;
            assert!(apart || never, "{a} and {b} share bytes");
        }
    }
    arena
}

#[test]
fn random_programs_have_plans_that_keep_to_the_contract() {
    let mut rng = fastrand::Rng::with_seed(11);
    let (d, t) = (Dim::symbol("D"), Dim::symbol("T"));
    let shapes = [vec![t.clone(), d.clone()], vec![t.clone(), t.clone()], vec![d], vec![t]];
    for _ in 0..300 {
        let count = rng.usize(1..20);
        let buffers: Vec<(Role, DType, &[Dim])> = (0..count)
            .map(|at| {
                let role = match rng.usize(0..8) {
                    0 => Role::Input(at),
                    1 => Role::Output(at),
                    _ => Role::Temporary,
                };
                let dtype = [DType::F32, DType::I64, DType::Bool][rng.usize(0..3)];
                (role, dtype, shapes[rng.usize(0..4)].as_slice())
            })
            .collect();
        let mut pick = |most: usize| (0..rng.usize(0..=most)).map(|_| rng.usize(0..count)).collect();
        let kernels: Vec<(Vec<usize>, Vec<usize>)> = (0..count).map(|_| (pick(3), pick(2))).collect();
        let program = program(&buffers, &kernels);
        let contract = contract(&program.usage());
        for (d, t) in [(0, 0), (1, 1), (3, 50), (70, 2), (64, 64)] {
            let dims = dims(d, 1, t);
            let arena = check(&program, sizes(&dims));
            // Two slots of scratch memory, each in whole cache lines.
            let scratch = (d as usize * 8 * 4).next_multiple_of(ALIGNMENT) + ALIGNMENT;
            for threads in [1, 3] {
                let most = contract.bytes(sizes(&dims), threads).unwrap();
                assert!(arena.size + threads * scratch <= most, "{} of {most} bytes", arena.size);
            }
        }
    }
}

#[test]
fn a_chain_needs_two_places() {
    let shape: &[Dim] = &[Dim::symbol("T"), Dim::symbol("D")];
    let buffers = vec![(Role::Temporary, DType::F32, shape); 12];
    let kernels: Vec<_> = (1..12).map(|at| (vec![at - 1], vec![at])).collect();
    let program = program(&buffers, &kernels);
    assert_eq!(check(&program, sizes(&dims(16, 1, 10))).size, 2 * 16 * 10 * 4);
    let contract = contract(&program.usage());
    assert_eq!(contract.arena.len(), 2);
    let text = contract.to_string();
    assert!(text.contains("at most 2 * (4 * D * T) bytes"), "{text}");
    assert!(text.contains("every temporary grows at most in proportion"), "{text}");
}

#[test]
fn a_small_tensor_does_not_hold_on_to_a_large_place() {
    let (large, small): (&[Dim], &[Dim]) = (&[Dim::symbol("T"), Dim::symbol("D")], &[Dim::symbol("D")]);
    let of = |shape| (Role::Temporary, DType::F32, shape);
    // 0 dies when 2 comes; 1 stays for ever.
    let program = program(
        &[of(large), of(small), of(large), of(large)],
        &[(vec![], vec![0]), (vec![0], vec![1]), (vec![1], vec![2]), (vec![2, 1], vec![3])],
    );
    assert_eq!(check(&program, sizes(&dims(16, 1, 10))).size, 2 * 16 * 10 * 4 + 16 * 4);
}

#[test]
fn what_grows_with_a_square_is_named() {
    let (d, h, t) = (Dim::symbol("D"), Dim::symbol("H"), Dim::symbol("T"));
    let width = d.exact_div(&h).unwrap();
    let (square, heads): (&[Dim], &[Dim]) = (&[h.clone(), t.clone(), t.clone()], &[h, t, width]);
    let program = program(
        &[
            (Role::Temporary, DType::F32, square),
            (Role::Temporary, DType::F32, heads),
            (Role::Input(0), DType::F32, square),
        ],
        &[(vec![2], vec![0]), (vec![0], vec![1])],
    );
    let contract = contract(&program.usage());
    assert_eq!(contract.steep, [("t0".to_owned(), "T".into())]);
    assert!(contract.to_string().contains("`t0` grows faster than T"));
}

#[test]
fn wide_integers_of_the_caller_are_copied_and_others_are_not_planned() {
    let shape: &[Dim] = &[Dim::symbol("T")];
    let program = program(
        &[
            (Role::Input(0), DType::I64, shape),
            (Role::Param(0), DType::I32, shape),
            (Role::Output(0), DType::I64, shape),
        ],
        &[(vec![0, 1], vec![2])],
    );
    let arena = check(&program, sizes(&dims(1, 1, 16)));
    assert_eq!((arena.size, arena.offsets[1]), (2 * 16 * 4, None));
}
