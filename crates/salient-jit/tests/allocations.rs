//! A call after the first with the same plan allocates nothing, on one thread or several.

mod counting;

use counting::allocations;
use salient_ir::array::Array;
use salient_ir::{Bindings, Builder, DType, Dim, FusedOp, MapOp, Op, ReduceOp};
use salient_jit::{Compiled, IsaChoice, Options, Threading};
use salient_tile::coded::Codes;

/// `softmax(tanh(x @ w.T))` along its rows, with a parameter that is packed once.
fn layer() -> salient_ir::Graph {
    let mut b = Builder::new("layer");
    let axis = |b: &mut Builder, name: &str, dim: &str| b.axis_id(name, &Dim::symbol(dim));
    let (t, d, o) = (axis(&mut b, "t", "T"), axis(&mut b, "d", "D"), axis(&mut b, "o", "O"));
    let x = b.input("x", &[t, d], DType::F32, None);
    let w = b.param("w", &[o, d], DType::F32, None, None);
    let terms = b.map(MapOp::Mul, &[x, w]).unwrap();
    let sum = b.reduce(ReduceOp::Sum, d, terms).unwrap();
    let active = b.map(MapOp::Tanh, &[sum]).unwrap();
    let y = b.add(Op::Fused(FusedOp::Softmax, o), &[active]).unwrap();
    b.output("y", &[t, o], y).unwrap();
    b.finish()
}

// The only test of its process: allocations of others would count.
#[test]
fn a_steady_call_allocates_nothing() {
    let dims: Bindings = [("T", 96), ("D", 256), ("O", 256)].map(|(name, n)| (name.into(), n)).into();
    let x = Array::from_f32(vec![96, 256], (0..96 * 256).map(|n| (n as f32).sin()).collect()).unwrap();
    let w = Array::from_f32(vec![256, 256], (0..256 * 256).map(|n| (n as f32).cos()).collect()).unwrap();
    for threads in [1, 3] {
        let program = salient_tile::schedule(&layer(), salient_tile::Options::default());
        let isa = IsaChoice::Only(salient_jit::target::Isa::Baseline);
        let options = Options { isa, threads, threading: Threading::default() };
        let code = Compiled::new(program, &options).unwrap();
        let plan = code.bind(&dims).unwrap();
        let loaded = code.load(&dims, &[&w], &Codes::new()).unwrap();
        let mut outputs = [Array::zeros(DType::F32, vec![96, 256]).unwrap()];
        code.run(&plan, &loaded, &[&x], &[&w], &mut outputs).unwrap();
        // A thread of the pool allocates once, when it first works, which on a busy machine may be late.
        let mut round = || {
            let before = allocations();
            for _ in 0..20 {
                code.run(&plan, &loaded, &[&x], &[&w], &mut outputs).unwrap();
            }
            allocations() - before
        };
        let rounds: Vec<usize> = (0..10).map(|_| round()).collect();
        let allocating = rounds.iter().filter(|n| **n > 0).count();
        assert!(allocating < threads, "{threads} threads: {rounds:?}");
        let row: f32 = outputs[0].as_f32().unwrap()[..256].iter().sum();
        assert!((row - 1.0).abs() < 1e-5, "{row}");
    }
}
