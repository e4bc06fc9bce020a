//! Kernels without machine code: what is scheduled is interpreted at every number of lanes, in both orders of the items,
//! and compared with the oracle; and the interpreter finds programs that do what they may not.

use salient_ir::array::{Array, Data as Elements};
use salient_ir::eval::{Data, eval};
use salient_ir::{AxisId, Bindings, Builder, Const, DType, Dim, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};
use salient_tile::eval::{EvalError, Order, run};
use salient_tile::{Arg, Base, Buffer, BufferId, Kernel, Options, Role, Stmt, Tiling, schedule};
use salient_vector::eval::Machine;
use salient_vector::tile::Shape;
use std::collections::BTreeMap;

/// Machines, with register tiles as targets of so many lanes have them: a tile of keys is made of whole panels, so that no
/// panel may be wider than 64 columns.
const MACHINES: [(Machine, Shape); 4] = [
    (Machine { lanes: 1, fused: false }, Shape { rows: 2, vectors: 4 }),
    (Machine { lanes: 4, fused: true }, Shape { rows: 1, vectors: 8 }),
    (Machine { lanes: 8, fused: false }, Shape { rows: 6, vectors: 2 }),
    (Machine { lanes: 16, fused: true }, Shape { rows: 4, vectors: 4 }),
];

fn dims(list: &[(&str, i64)]) -> Bindings {
    list.iter().map(|(name, n)| ((*name).into(), *n)).collect()
}

fn inputs(graph: &Graph, dims: &Bindings) -> Vec<Array> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut out = Vec::new();
    for port in graph.inputs() {
        let shape: Vec<usize> =
            graph.shape(&port.axes).iter().map(|d| d.eval(dims).unwrap() as usize).collect();
        let count = shape.iter().product::<usize>();
        let data = match port.dtype.compute() {
            DType::F32 | DType::F16 | DType::BF16 => {
                Elements::F32((0..count).map(|_| rng.f32() * 2.0 - 1.0).collect())
            }
            DType::I32 => Elements::I32((0..count).map(|_| rng.i32(0..3)).collect()),
            DType::I64 => Elements::I64((0..count).map(|_| rng.i64(0..3)).collect()),
            DType::Bool => Elements::Bool((0..count).map(|_| rng.bool()).collect()),
        };
        out.push(Array::new(shape, data).unwrap());
    }
    out
}

/// Every machine, both orders, fused and not, against the oracle.
fn check(graph: &Graph, sizes: &[(&str, i64)]) {
    let dims = dims(sizes);
    let arrays = inputs(graph, &dims);
    let named: BTreeMap<String, Array> =
        graph.inputs().iter().map(|p| p.name.to_string()).zip(arrays.iter().cloned()).collect();
    let expected = eval(graph, &dims, Data { inputs: &named, params: &BTreeMap::new() }).unwrap();
    let borrowed: Vec<&Array> = arrays.iter().collect();
    for fuse in [true, false] {
        for (machine, tile) in MACHINES {
            let program = schedule(graph, Options { fuse, tiling: Tiling::of(tile), ..Options::default() });
            let forward = run(&program, &dims, machine, Order::Forward, &borrowed, &[])
                .unwrap_or_else(|e| panic!("{machine:?} at {sizes:?}: {e}"));
            let backward = run(&program, &dims, machine, Order::Backward, &borrowed, &[]).unwrap();
            for ((have, same), (name, want)) in forward.iter().zip(&backward).zip(&expected) {
                assert!(have.same_bits(same), "the items of `{name}` depend on their order, {machine:?}");
                assert_eq!((have.shape(), have.dtype()), (want.shape(), want.dtype()), "{name}");
                let (have, want) = (have.to_f64_vec(), want.to_f64_vec());
                let scale = want.iter().fold(1.0f64, |m, x| m.max(x.abs()));
                for (at, (h, w)) in have.iter().zip(&want).enumerate() {
                    let near = h == w || (h - w).abs() <= 1e-5 * scale;
                    assert!(near, "{name}[{at}] is {h}, expected {w}: {machine:?}, fuse {fuse}, {sizes:?}");
                }
            }
        }
    }
}

struct Model(Builder);

impl Model {
    fn new() -> Model {
        Model(Builder::new("case"))
    }
    fn axis(&mut self, name: &str, dim: &str) -> AxisId {
        self.0.axis_id(name, &Dim::symbol(dim))
    }
    fn input(&mut self, name: &str, axes: &[AxisId], dtype: DType) -> NodeId {
        self.0.input(name, axes, dtype, None)
    }
    fn map(&mut self, op: MapOp, args: &[NodeId]) -> NodeId {
        self.0.map(op, args).unwrap()
    }
    fn done(mut self, axes: &[AxisId], node: NodeId) -> Graph {
        self.0.output("y", axes, node).unwrap();
        self.0.finish()
    }
}

fn product() -> Graph {
    let mut m = Model::new();
    let (t, d, o) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("o", "O"));
    let (x, w) = (m.input("x", &[t, d], DType::F32), m.input("w", &[o, d], DType::F32));
    let bias = m.input("bias", &[o], DType::F32);
    let xw = m.map(MapOp::Mul, &[x, w]);
    let sum = m.0.reduce(ReduceOp::Sum, d, xw).unwrap();
    let y = m.map(MapOp::Add, &[sum, bias]);
    m.done(&[t, o], y)
}

fn attention() -> Graph {
    let mut m = Model::new();
    let (i, j, e) = (m.axis("i", "Q"), m.axis("j", "K"), m.axis("e", "E"));
    let (q, k) = (m.input("q", &[i, e], DType::F32), m.input("k", &[j, e], DType::F32));
    let f = m.axis("f", "F");
    let (v, keep) = (m.input("v", &[j, f], DType::F32), m.input("keep", &[i, j], DType::Bool));
    let qk = m.map(MapOp::Mul, &[q, k]);
    let s = m.0.reduce(ReduceOp::Sum, e, qk).unwrap();
    let low = m.0.constant(Const::f32(f32::NEG_INFINITY));
    let s = m.map(MapOp::Select, &[keep, s, low]);
    let (ii, jj) = (m.0.iota(i), m.0.iota(j));
    let causal = m.map(MapOp::Le, &[jj, ii]);
    let s = m.map(MapOp::Select, &[causal, s, low]);
    let y = m.0.add(Op::Fused(FusedOp::Attend, j), &[s, v]).unwrap();
    m.done(&[i, f], y)
}

/// A row of a table for each identifier.
fn lookup() -> Graph {
    let mut m = Model::new();
    let (t, n, d) = (m.axis("t", "T"), m.axis("n", "N"), m.axis("d", "D"));
    let (table, ids) = (m.input("table", &[n, d], DType::F32), m.input("ids", &[t], DType::I64));
    let y = m.0.at(table, n, ids).unwrap();
    m.done(&[t, d], y)
}

#[test]
fn every_kind_of_kernel_does_what_the_graph_says() {
    check(&product(), &[("T", 9), ("D", 5), ("O", 19)]);
    check(&product(), &[("T", 1), ("D", 3), ("O", 1)]);
    check(&attention(), &[("Q", 5), ("K", 19), ("E", 3), ("F", 6)]);
    check(&attention(), &[("Q", 67), ("K", 66), ("E", 2), ("F", 1)]);
    check(&lookup(), &[("T", 5), ("N", 3), ("D", 7)]);
    for op in [FusedOp::Softmax, FusedOp::Norm] {
        let mut m = Model::new();
        let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
        let x = m.input("x", &[t, d], DType::F32);
        let x = m.map(MapOp::Exp, &[x]);
        let y = m.0.add(Op::Fused(op, d), &[x]).unwrap();
        check(&m.done(&[t, d], y), &[("T", 3), ("D", 19)]);
    }
}

#[test]
fn empty_tensors_are_no_error() {
    check(&product(), &[("T", 0), ("D", 5), ("O", 3)]);
    check(&product(), &[("T", 3), ("D", 0), ("O", 3)]);
    check(&attention(), &[("Q", 3), ("K", 0), ("E", 2), ("F", 2)]);
}

const MACHINE: Machine = Machine { lanes: 4, fused: true };

/// Runs the product after a change that breaks it.
fn broken(change: impl FnOnce(&mut Kernel, &[Buffer])) -> String {
    let graph = product();
    let dims = dims(&[("T", 9), ("D", 5), ("O", 19)]);
    let arrays = inputs(&graph, &dims);
    let borrowed: Vec<&Array> = arrays.iter().collect();
    let mut program = schedule(&graph, Options::default());
    change(program.kernels.last_mut().expect("the product comes last"), &program.buffers);
    run(&program, &dims, MACHINE, Order::Forward, &borrowed, &[]).unwrap_err().to_string()
}

/// The first address of each call, to be changed.
fn addresses(block: &mut [Stmt], change: &mut dyn FnMut(&mut Base, &mut Dim)) {
    for stmt in block {
        match stmt {
            Stmt::For { block, .. } => addresses(block, change),
            Stmt::If { then, otherwise, .. } => {
                addresses(then, change);
                addresses(otherwise, change);
            }
            Stmt::Call { args, .. } => {
                for arg in args {
                    if let Arg::Address { base, offset } = arg {
                        change(base, offset);
                    }
                }
            }
            Stmt::Let { .. } | Stmt::Read { .. } => {}
        }
    }
}

#[test]
fn an_access_outside_a_tensor_names_kernel_call_and_instruction() {
    let message = broken(|kernel, buffers| {
        let bias = buffers.iter().position(|b| b.name == "bias").map(BufferId).unwrap();
        addresses(&mut kernel.block, &mut |base, offset| {
            if *base == Base::Buffer(bias) {
                *offset = &*offset + &Dim::constant(1);
            }
        });
    });
    assert!(
        message.contains("kernel `y`") && message.contains("bias[") && message.contains("load f32"),
        "{message}"
    );
}

#[test]
fn buffers_that_a_kernel_does_not_own_up_to_are_refused() {
    let message = broken(|kernel, _| kernel.reads.clear());
    assert!(message.contains("which it may not"), "{message}");
    let message = broken(|kernel, buffers| {
        let x = buffers.iter().position(|b| b.role == Role::Input(0)).map(BufferId).unwrap();
        kernel.writes.push(x);
    });
    assert!(message.contains("touches `x`, which it may not"), "{message}");
}

#[test]
fn unknown_variables_and_loops_without_end_are_refused() {
    let message = broken(|kernel, _| {
        let block = std::mem::take(&mut kernel.block);
        let (from, to, step) = (Dim::constant(0), Dim::constant(1), Dim::constant(0));
        kernel.block = vec![Stmt::For { var: salient_ir::Symbol::variable("t"), from, to, step, block }];
    });
    assert!(message.contains("kernel `y`: the loop over `t` steps by 0"), "{message}");
    let message = broken(|kernel, _| {
        addresses(&mut kernel.block, &mut |_, offset| *offset = Dim::symbol("nowhere"));
    });
    assert!(message.contains("nowhere"), "{message}");
}

#[test]
fn an_index_outside_its_axis_is_told_with_the_tensor() {
    let graph = lookup();
    let dims = dims(&[("T", 3), ("N", 4), ("D", 2)]);
    let program = schedule(&graph, Options::default());
    let table = Array::zeros(DType::F32, vec![4, 2]).unwrap();
    for wild in [4, -1, i64::from(i32::MIN)] {
        let ids = Array::from_i64(vec![3], vec![0, wild, 3]).unwrap();
        let arrays: Vec<&Array> = match graph.inputs()[0].name.as_ref() {
            "table" => vec![&table, &ids],
            _ => vec![&ids, &table],
        };
        let error = run(&program, &dims, MACHINE, Order::Forward, &arrays, &[]).unwrap_err();
        let expected = EvalError::OutOfRange {
            tensor: "table".to_owned(),
            axis: "n".to_owned(),
            extent: 4,
            index: wild as i32,
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let graph = product();
    let dims = dims(&[("T", 2), ("D", 2), ("O", 2)]);
    let program = schedule(&graph, Options::default());
    let (good, short) =
        (Array::zeros(DType::F32, vec![2, 2]).unwrap(), Array::zeros(DType::F32, vec![3]).unwrap());
    let refused = |arrays: &[&Array]| {
        run(&program, &dims, MACHINE, Order::Forward, arrays, &[]).unwrap_err().to_string()
    };
    assert!(refused(&[&good, &good]).contains("`bias` does not fit: it was not given"));
    assert!(refused(&[&good, &good, &short]).contains("3 elements of f32, expected 2 of f32"));
    let whole = Array::zeros(DType::I32, vec![2]).unwrap();
    assert!(refused(&[&good, &good, &whole]).contains("2 elements of i32, expected 2 of f32"));
}
