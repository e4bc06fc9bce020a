//! Every kind of kernel, compiled, against the oracle: odd sizes, hostile data, any number of threads.

use salient_ir::array::{Array, Data as Elements};
use salient_ir::eval::{Data, eval};
use salient_ir::{
    AxisId, Bindings, Builder, Const, DType, Dim, FusedOp, Graph, MapOp, NodeId, Op, Port, ReduceOp,
};
use salient_jit::target::{Isa, Target};
use salient_jit::{Compiled, IsaChoice, Options, Threading, Tuning};
use salient_tile::coded::Codes;
use salient_tile::{Kind, Program, Tiling, schedule};
use salient_vector::tile::Shape;
use std::collections::BTreeMap;

/// Sizes around every tile, panel and vector.
const SIZES: [i64; 11] = [1, 2, 3, 5, 7, 17, 31, 33, 64, 127, 130];

struct Case {
    graph: Graph,
    dims: Bindings,
    inputs: BTreeMap<String, Array>,
    params: BTreeMap<String, Array>,
}

fn random(rng: &mut fastrand::Rng, shape: Vec<usize>, dtype: DType) -> Array {
    let count = shape.iter().product::<usize>();
    let data = match dtype {
        DType::Bool => Elements::Bool((0..count).map(|_| rng.bool()).collect()),
        DType::I64 => Elements::I64((0..count).map(|_| rng.i64(0..4)).collect()),
        DType::I32 => Elements::I32((0..count).map(|_| rng.i32(0..4)).collect()),
        DType::F32 | DType::F16 | DType::BF16 => {
            Elements::F32((0..count).map(|_| rng.f32() * 2.0 - 1.0).collect())
        }
    };
    Array::new(shape, data).expect("as many elements as the shape says")
}

impl Case {
    fn new(graph: Graph, dims: &[(&str, i64)], seed: u64) -> Case {
        let dims: Bindings = dims.iter().map(|(n, d)| ((*n).into(), *d)).collect();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut draw = |ports: &[Port]| -> BTreeMap<String, Array> {
            let one = |port: &Port| {
                let shape = graph.shape(&port.axes).iter().map(|d| d.eval(&dims).unwrap() as usize).collect();
                (port.name.to_string(), random(&mut rng, shape, port.dtype))
            };
            ports.iter().map(one).collect()
        };
        let (inputs, params) = (draw(graph.inputs()), draw(graph.params()));
        Case { graph, dims, inputs, params }
    }

    fn compiled(&self, isa: Isa, fuse: bool, threads: usize) -> Vec<Array> {
        let target = Target::host(IsaChoice::Only(isa)).unwrap();
        let tiling = Tuning::default().tiling(&target);
        let options = salient_tile::Options { fuse, tiling, ..Default::default() };
        self.run(schedule(&self.graph, options), isa, threads)
    }

    fn run(&self, program: Program, isa: Isa, threads: usize) -> Vec<Array> {
        let options = Options { isa: IsaChoice::Only(isa), threads, threading: Threading::default() };
        let code = Compiled::new(program, &options).unwrap();
        let plan = code.bind(&self.dims).unwrap();
        let inputs: Vec<&Array> = self.graph.inputs().iter().map(|p| &self.inputs[&*p.name]).collect();
        let params: Vec<&Array> = self.graph.params().iter().map(|p| &self.params[&*p.name]).collect();
        let mut outputs: Vec<Array> = self
            .graph
            .outputs()
            .iter()
            .map(|o| {
                let shape =
                    self.graph.shape(&o.axes).iter().map(|d| d.eval(&self.dims).unwrap() as usize).collect();
                Array::zeros(self.graph.node(o.node).dtype, shape).unwrap()
            })
            .collect();
        let loaded = code.load(&self.dims, &params, &Codes::new()).unwrap();
        code.run(&plan, &loaded, &inputs, &params, &mut outputs).unwrap();
        outputs
    }

    /// Compares every way of compiling with the oracle, and thread counts with each other to the bit.
    fn check(&self) {
        let data = Data { inputs: &self.inputs, params: &self.params };
        let expected = eval(&self.graph, &self.dims, data).unwrap();
        let isas = Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect());
        for (isa, fuse) in isas.flat_map(|isa| [(isa, true), (isa, false)]) {
            let one = self.compiled(isa, fuse, 1);
            for threads in [2, 3] {
                for (a, b) in one.iter().zip(self.compiled(isa, fuse, threads)) {
                    assert!(a.same_bits(&b), "{threads} threads differ from one at {:?}", self.dims);
                }
            }
            for ((name, want), have) in expected.iter().zip(&one) {
                let (want, have) = (want.to_f64_vec(), have.to_f64_vec());
                let scale = want.iter().filter(|x| x.is_finite()).fold(1.0f64, |m, x| m.max(x.abs()));
                for (at, (w, h)) in want.iter().zip(&have).enumerate() {
                    let same = w == h || w.is_nan() && h.is_nan() || (w - h).abs() <= 1e-5 * scale;
                    assert!(
                        same,
                        "{name}[{at}]: {h}, expected {w} at {:?}, {isa}, fuse {fuse}\n{:?}",
                        self.dims,
                        &have[..have.len().min(24)]
                    );
                }
            }
        }
    }
}

struct Model {
    b: Builder,
}

impl Model {
    fn new() -> Model {
        Model { b: Builder::new("case") }
    }
    fn axis(&mut self, name: &str, dim: &str) -> AxisId {
        self.b.axis_id(name, &Dim::symbol(dim))
    }
    fn input(&mut self, name: &str, axes: &[AxisId]) -> NodeId {
        self.b.input(name, axes, DType::F32, None)
    }
    fn map(&mut self, op: MapOp, args: &[NodeId]) -> NodeId {
        self.b.map(op, args).unwrap()
    }
    fn sum_of_products(&mut self, axis: AxisId, x: NodeId, y: NodeId) -> NodeId {
        let p = self.map(MapOp::Mul, &[x, y]);
        self.b.reduce(ReduceOp::Sum, axis, p).unwrap()
    }
    fn done(mut self, name: &str, axes: &[AxisId], node: NodeId) -> Graph {
        self.b.output(name, axes, node).unwrap();
        let g = self.b.finish();
        assert_eq!(salient_ir::verify::verify(&g), Vec::<String>::new());
        g
    }
}

fn product_with_bias() -> Graph {
    let mut m = Model::new();
    let (t, d, o) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("o", "O"));
    let (x, w, bias) = (m.input("x", &[t, d]), m.input("w", &[o, d]), m.input("bias", &[o]));
    let xw = m.sum_of_products(d, x, w);
    let y = m.map(MapOp::Add, &[xw, bias]);
    let zero = m.b.constant(Const::f32(0.0));
    let y = m.map(MapOp::Max, &[y, zero]);
    m.done("y", &[t, o], y)
}

#[test]
fn products_at_odd_sizes() {
    let g = product_with_bias();
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    assert_eq!(kinds, [Kind::Pack, Kind::Product], "bias and activation belong to the product");
    for (n, size) in SIZES.iter().enumerate() {
        let (a, b) = (SIZES[(n + 3) % SIZES.len()], SIZES[(n + 7) % SIZES.len()]);
        Case::new(g.clone(), &[("T", *size), ("D", a), ("O", b)], n as u64).check();
    }
}

/// Items of positions by a parameter, with what depends on the position behind it; the result's axes by their names.
fn batch_by_parameter(order: [&str; 3]) -> Graph {
    let mut m = Model::new();
    let (b, t, d, o) = (m.axis("b", "B"), m.axis("t", "T"), m.axis("d", "D"), m.axis("o", "O"));
    let (x, places) = (m.input("x", &[b, t, d]), m.input("places", &[t, o]));
    let w = m.b.param("w", &[o, d], DType::F32, None, None);
    let y = m.sum_of_products(d, x, w);
    let y = m.map(MapOp::Add, &[y, places]);
    let index = m.b.iota(t);
    let index = m.map(MapOp::ToF32, &[index]);
    let y = m.map(MapOp::Sub, &[y, index]);
    let axes =
        order.map(|name| [("b", b), ("t", t), ("o", o)].into_iter().find(|(n, _)| *n == name).unwrap().1);
    m.done("y", &axes, y)
}

#[test]
fn batches_and_positions_are_rows_of_one_product() {
    let g = batch_by_parameter(["b", "t", "o"]);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    assert_eq!(kinds, [Kind::Pack, Kind::Product], "nothing is packed but the parameter");
    let items = |b: i64, t: i64| {
        let dims = [("B", b), ("T", t), ("D", 8), ("O", 40), ("%L", 16)].map(|(n, d)| (n.into(), d));
        program.kernels[1].items.eval(&Bindings::from(dims)).unwrap()
    };
    assert_eq!(items(32, 10), items(1, 320), "short items fill the blocks of rows that one long one has");
    for order in [["b", "t", "o"], ["t", "b", "o"], ["b", "o", "t"], ["o", "t", "b"]] {
        let g = batch_by_parameter(order);
        for (n, (b, t)) in
            [(1, 1), (2, 33), (13, 5), (5, 13), (3, 64), (70, 1), (1, 70)].into_iter().enumerate()
        {
            let (d, o) = (SIZES[(n + 3) % SIZES.len()], SIZES[(n + 5) % SIZES.len()]);
            Case::new(g.clone(), &[("B", b), ("T", t), ("D", d), ("O", o)], n as u64).check();
        }
    }
}

/// Three products of one tensor, under two names of its positions, and one of the first of them.
fn products_of_one_tensor() -> Graph {
    let mut m = Model::new();
    let (b, t, d) = (m.axis("b", "B"), m.axis("t", "T"), m.axis("d", "D"));
    let (o, p, u) = (m.axis("o", "O"), m.axis("p", "P"), m.axis("u", "T"));
    let x = m.input("x", &[b, t, d]);
    let renamed = m.b.rename(x, t, u).unwrap();
    let by = |m: &mut Model, name: &str, x: NodeId, depth: AxisId, column: AxisId| {
        let w = m.b.param(name, &[column, depth], DType::F32, None, None);
        m.sum_of_products(depth, x, w)
    };
    let first = by(&mut m, "first", x, d, o);
    let second = by(&mut m, "second", renamed, d, p);
    let third = by(&mut m, "third", x, d, p);
    let third = m.map(MapOp::Exp, &[third]);
    let then = by(&mut m, "then", first, o, p);
    for (name, axes, node) in [("a", [b, t, o], first), ("c", [b, u, p], second), ("e", [b, t, p], then)] {
        m.b.output(name, &axes, node).unwrap();
    }
    m.done("d", &[b, t, p], third)
}

#[test]
fn products_of_one_operand_are_one_kernel() {
    let g = products_of_one_tensor();
    let program = schedule(&g, salient_tile::Options::default());
    let products: Vec<usize> =
        program.kernels.iter().filter(|k| k.kind == Kind::Product).map(|k| k.writes.len()).collect();
    assert_eq!(products, [3, 1], "what reads a result waits for it");
    for (n, (b, t)) in [(1, 1), (2, 33), (13, 5), (3, 64), (0, 4)].into_iter().enumerate() {
        let (d, o, p) = (SIZES[n + 1], SIZES[(n + 5) % SIZES.len()], SIZES[(n + 8) % SIZES.len()]);
        Case::new(g.clone(), &[("B", b), ("T", t), ("D", d), ("O", o), ("P", p)], n as u64).check();
    }
}

/// Equal items give equal bits, whichever rows of tiles and blocks they fall on.
#[test]
fn a_row_gives_the_same_bits_anywhere_in_a_batch() {
    let (b, t, d, o) = (27, 5, 70, 33);
    let mut case =
        Case::new(batch_by_parameter(["b", "t", "o"]), &[("B", b), ("T", t), ("D", d), ("O", o)], 7);
    let item =
        random(&mut fastrand::Rng::with_seed(8), vec![t as usize, d as usize], DType::F32).to_f64_vec();
    let all = (0..b).flat_map(|_| item.iter().map(|v| *v as f32)).collect();
    let x = Array::new(vec![b as usize, t as usize, d as usize], Elements::F32(all)).unwrap();
    case.inputs.insert("x".to_owned(), x);
    for isa in Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect()) {
        let y = case.compiled(isa, true, 2)[0].to_f64_vec();
        let items: Vec<&[f64]> = y.chunks_exact((t * o) as usize).collect();
        assert!(items.iter().all(|other| *other == items[0]), "items differ on {isa}");
    }
}

/// One row, whose axis is not there: of data and a parameter, computed on the way.
fn row_by_parameter() -> Graph {
    let mut m = Model::new();
    let (d, o) = (m.axis("d", "D"), m.axis("o", "O"));
    let (x, gain) = (m.input("x", &[d]), m.input("gain", &[d]));
    let w = m.b.param("w", &[o, d], DType::F32, None, None);
    let scaled = m.map(MapOp::Mul, &[x, gain]);
    let y = m.sum_of_products(d, scaled, w);
    m.done("y", &[o], y)
}

#[test]
fn a_single_row_is_a_product_with_packed_parameters() {
    let g = row_by_parameter();
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    assert_eq!(kinds, [Kind::Pack, Kind::Map, Kind::Product], "the parameter is packed, the row stored");
    for (n, size) in SIZES.iter().enumerate() {
        let other = SIZES[(n + 5) % SIZES.len()];
        Case::new(g.clone(), &[("D", *size), ("O", other)], n as u64).check();
    }
}

/// The dimensions of a case with one of them after another at a length past every block, the others short.
fn long_in_turn(names: &[&'static str]) -> Vec<Vec<(&'static str, i64)>> {
    let short = [3, 7, 5, 2, 9];
    let lengths = |long: usize| {
        let length = |(at, name): (usize, &&'static str)| (*name, if at == long { 1025 } else { short[at] });
        names.iter().enumerate().map(length).collect()
    };
    (0..names.len()).map(lengths).collect()
}

#[test]
fn every_kernel_at_one_long_dimension() {
    for dims in long_in_turn(&["T", "D", "O"]) {
        Case::new(product_with_bias(), &dims, 1).check();
    }
    for dims in long_in_turn(&["H", "Q", "K", "E", "F"]) {
        Case::new(causal(3, FusedOp::Attend), &dims, 2).check();
    }
    for dims in long_in_turn(&["T", "D"]) {
        let mut m = Model::new();
        let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
        let x = m.input("x", &[t, d]);
        let running = m.b.add(Op::CumSum(d), &[x]).unwrap();
        let shares = m.b.add(Op::Fused(FusedOp::Softmax, d), &[x]).unwrap();
        let sum = m.b.reduce(ReduceOp::Sum, t, x).unwrap();
        m.b.output("running", &[t, d], running).unwrap();
        m.b.output("shares", &[t, d], shares).unwrap();
        Case::new(m.done("sum", &[d], sum), &dims, 3).check();
    }
}

/// The inner index is taken in blocks; what is left over of them counts too.
#[test]
fn products_deeper_than_a_block() {
    let g = product_with_bias();
    for depth in [191, 192, 193, 512, 513, 1025] {
        Case::new(g.clone(), &[("T", 7), ("D", depth), ("O", 35)], depth as u64).check();
    }
}

/// Two layers: what follows the first product belongs to its kernel, and its rows are read where they lie.
#[test]
fn an_activation_between_products_belongs_to_the_first() {
    let mut m = Model::new();
    let (t, d, o, p) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("o", "O"), m.axis("p", "P"));
    let (x, w, v) = (m.input("x", &[t, d]), m.input("w", &[o, d]), m.input("v", &[p, o]));
    let hidden = m.sum_of_products(d, x, w);
    let active = m.map(MapOp::Tanh, &[hidden]);
    let y = m.sum_of_products(o, active, v);
    let g = m.done("y", &[t, p], y);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    assert_eq!(kinds, [Kind::Pack, Kind::Product, Kind::Pack, Kind::Product]);
    for (rows, depth, width) in [(1, 5, 3), (9, 33, 17), (70, 3, 130)] {
        Case::new(g.clone(), &[("T", rows), ("D", depth), ("O", width), ("P", 19)], 6).check();
    }
}

/// Causal attention with an offset, as a fused operator.
fn causal(offset: i64, op: FusedOp) -> Graph {
    let mut m = Model::new();
    let (h, i, j, e, f) =
        (m.axis("h", "H"), m.axis("i", "Q"), m.axis("j", "K"), m.axis("e", "E"), m.axis("f", "F"));
    let (q, k, v) = (m.input("q", &[h, i, e]), m.input("k", &[h, j, e]), m.input("v", &[h, j, f]));
    let s = m.sum_of_products(e, q, k);
    let scale = m.b.constant(Const::f32(0.3));
    let s = m.map(MapOp::Mul, &[s, scale]);
    let (ii, jj, off) = (m.b.iota(i), m.b.iota(j), m.b.constant(Const::I64(offset)));
    let last = m.map(MapOp::Add, &[ii, off]);
    let keep = m.map(MapOp::Le, &[jj, last]);
    let low = m.b.constant(Const::f32(op.info().masked));
    let s = m.map(MapOp::Select, &[keep, s, low]);
    let y = m.b.add(Op::Fused(op, j), &[s, v]).unwrap();
    m.done("context", &[h, i, f], y)
}

#[test]
fn attention_at_odd_sizes() {
    let g = causal(0, FusedOp::Attend);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    // Parts and their merge for few rows, tiles over packed keys for many.
    assert_eq!(kinds, [Kind::Attention, Kind::Attention, Kind::Pack, Kind::Attention]);
    for (n, size) in SIZES.iter().enumerate() {
        let (a, b) = (SIZES[(n + 3) % SIZES.len()], SIZES[(n + 6) % SIZES.len()]);
        Case::new(g.clone(), &[("H", 2), ("Q", *size), ("K", *size), ("E", a), ("F", b)], n as u64).check();
    }
    Case::new(g.clone(), &[("H", 2), ("Q", 70), ("K", 3), ("E", 4), ("F", 5)], 1).check();
    Case::new(g, &[("H", 2), ("Q", 3), ("K", 190), ("E", 4), ("F", 5)], 1).check();
}

/// Grouped heads with a window: query head h reads head h / (H / G), and a key is seen from at most W before.
fn grouped_window() -> Graph {
    let mut m = Model::new();
    let (h, g, i, j) = (m.axis("h", "H"), m.axis("g", "G"), m.axis("i", "T"), m.axis("j", "T"));
    let (e, f) = (m.axis("e", "E"), m.axis("f", "F"));
    let (q, k, v) = (m.input("q", &[h, i, e]), m.input("k", &[g, j, e]), m.input("v", &[g, f, j]));
    let per_group = Dim::symbol("H").exact_div(&Dim::symbol("G")).unwrap();
    let (hh, size) = (m.b.iota(h), m.b.extent_of(&per_group));
    let group = m.map(MapOp::IntDiv, &[hh, size]);
    let (k, v) = (m.b.at(k, g, group).unwrap(), m.b.at(v, g, group).unwrap());
    let s = m.sum_of_products(e, q, k);
    let (ii, jj) = (m.b.iota(i), m.b.iota(j));
    let window = m.b.extent_of(&Dim::symbol("W"));
    let distance = m.map(MapOp::Sub, &[ii, jj]);
    let (causal, near) = (m.map(MapOp::Le, &[jj, ii]), m.map(MapOp::Lt, &[distance, window]));
    let keep = m.map(MapOp::And, &[causal, near]);
    let low = m.b.constant(Const::f32(f32::NEG_INFINITY));
    let s = m.map(MapOp::Select, &[keep, s, low]);
    let y = m.b.add(Op::Fused(FusedOp::Attend, j), &[s, v]).unwrap();
    m.done("context", &[h, i, f], y)
}

#[test]
fn grouped_heads_and_windows() {
    let g = grouped_window();
    for (heads, groups, rows, window) in [(4, 2, 5, 2), (2, 1, 70, 7), (2, 2, 130, 65), (2, 1, 66, 500)] {
        let dims = [("H", heads), ("G", groups), ("T", rows), ("W", window), ("E", 3), ("F", 5)];
        Case::new(g.clone(), &dims, 9).check();
    }
}

#[test]
fn few_rows_over_many_keys() {
    for (rows, keys, wide) in [(1, 1100, 64), (3, 513, 5), (8, 512, 17), (9, 600, 3), (2, 1, 1)] {
        let dims = [("H", 3), ("Q", rows), ("K", keys), ("E", wide), ("F", wide + 1)];
        Case::new(causal(keys - rows, FusedOp::Attend), &dims, keys as u64).check();
        // The last part holds no key that any row sees.
        Case::new(causal(keys - 600, FusedOp::Attend), &dims, rows as u64).check();
    }
}

/// A query sees the keys whose number in `a` is its own in `b`, and those before the end.
fn looked_at() -> Graph {
    let mut m = Model::new();
    let (h, i, j) = (m.axis("h", "H"), m.axis("i", "Q"), m.axis("j", "K"));
    let (e, f) = (m.axis("e", "E"), m.axis("f", "F"));
    let (q, k, v) = (m.input("q", &[h, i, e]), m.input("k", &[h, j, e]), m.input("v", &[h, j, f]));
    let (a, b) = (m.b.input("a", &[j], DType::I64, None), m.b.input("b", &[i], DType::I64, None));
    let end = m.b.input("end", &[h], DType::I64, None);
    let s = m.sum_of_products(e, q, k);
    let (same, jj) = (m.map(MapOp::Eq, &[a, b]), m.b.iota(j));
    let before = m.map(MapOp::Lt, &[jj, end]);
    let keep = m.map(MapOp::Or, &[same, before]);
    let low = m.b.constant(Const::f32(f32::NEG_INFINITY));
    let s = m.map(MapOp::Select, &[keep, s, low]);
    let y = m.b.add(Op::Fused(FusedOp::Attend, j), &[s, v]).unwrap();
    m.done("context", &[h, i, f], y)
}

#[test]
fn masks_that_are_looked_at_agree_with_the_oracle() {
    for (rows, keys, block) in [(300, 300, 130), (70, 1030, 500), (4, 1030, 512), (65, 129, 1)] {
        let dims = [("H", 2), ("Q", rows), ("K", keys), ("E", 3), ("F", 5)];
        let mut case = Case::new(looked_at(), &dims, rows as u64);
        let numbers =
            |n: i64| Array::from_i64(vec![n as usize], (0..n).map(|k| k / block).collect()).unwrap();
        case.inputs.insert("a".to_owned(), numbers(keys));
        case.inputs.insert("b".to_owned(), numbers(rows));
        case.inputs.insert("end".to_owned(), Array::from_i64(vec![2], vec![0, keys / 2]).unwrap());
        case.check();
    }
}

/// Where no softmax makes the weights, the scores are the weights: all of them, or divided by their sum.
#[test]
fn weights_without_a_softmax() {
    for op in [FusedOp::WeightedSum, FusedOp::WeightedMean] {
        for dims in long_in_turn(&["H", "Q", "K", "E", "F"]) {
            let mut case = Case::new(causal(3, op), &dims, 2);
            // Sums of weights stay away from zero.
            for name in ["q", "k"] {
                case.inputs
                    .get_mut(name)
                    .unwrap()
                    .as_f32_mut()
                    .unwrap()
                    .iter_mut()
                    .for_each(|x| *x = x.abs());
            }
            case.check();
        }
        // Rows without keys: zeros, and zero by zero.
        Case::new(causal(-80, op), &[("H", 1), ("Q", 90), ("K", 90), ("E", 4), ("F", 3)], 5).check();
        // Few rows: parts of keys, of which the last holds none that any row sees.
        for (rows, keys) in [(1, 1100), (8, 600)] {
            let dims = [("H", 3), ("Q", rows), ("K", keys), ("E", 6), ("F", 7)];
            Case::new(causal(keys - 600, FusedOp::WeightedSum), &dims, rows as u64).check();
        }
    }
}

/// Of scores that only reductions read none is stored.
#[test]
fn scores_are_reduced_where_they_are_made() {
    let mut m = Model::new();
    let (h, i, j, e) = (m.axis("h", "H"), m.axis("i", "Q"), m.axis("j", "K"), m.axis("e", "E"));
    let (q, k) = (m.input("q", &[h, i, e]), m.input("k", &[h, j, e]));
    let product = m.sum_of_products(e, q, k);
    let (ii, jj) = (m.b.iota(i), m.b.iota(j));
    let keep = m.map(MapOp::Le, &[jj, ii]);
    let (low, zero) = (m.b.constant(Const::f32(f32::NEG_INFINITY)), m.b.constant(Const::f32(0.0)));
    let score = m.map(MapOp::Select, &[keep, product, low]);
    let greatest = m.b.reduce(ReduceOp::Max, j, score).unwrap();
    let lse = m.b.add(Op::Fused(FusedOp::LogSumExp, j), &[score]).unwrap();
    let squares = m.map(MapOp::Mul, &[product, product]);
    let seen = m.map(MapOp::Select, &[keep, squares, zero]);
    let received = m.b.reduce(ReduceOp::Sum, i, seen).unwrap();
    m.b.output("greatest", &[h, i], greatest).unwrap();
    m.b.output("lse", &[h, i], lse).unwrap();
    let g = m.done("received", &[h, j], received);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).filter(|k| *k != Kind::Pack).collect();
    assert_eq!(kinds, [Kind::Attention; 3]);
    for (rows, keys) in [(1, 1), (5, 70), (130, 33), (70, 300)] {
        Case::new(g.clone(), &[("H", 2), ("Q", rows), ("K", keys), ("E", 3)], 4).check();
    }
    // A NaN is the greatest of its row, wherever it stands.
    let mut case = Case::new(g, &[("H", 1), ("Q", 300), ("K", 300), ("E", 2)], 4);
    case.inputs.get_mut("k").unwrap().as_f32_mut().unwrap()[3] = f32::NAN;
    let greatest = case.compiled(Isa::detect(), true, 1)[0].to_f64_vec();
    assert!(greatest[0].is_finite() && greatest[1..].iter().all(|x| x.is_nan()));
}

#[test]
fn any_register_tile_will_do() {
    let case =
        Case::new(causal(0, FusedOp::Attend), &[("H", 1), ("Q", 150), ("K", 150), ("E", 3), ("F", 37)], 4);
    let expected = case.compiled(Isa::detect(), true, 1);
    for (rows, vectors) in [(1, 1), (1, 8), (3, 5), (7, 2)] {
        let shape = Shape { rows, vectors };
        let tiling = Tiling::of(shape);
        let program = schedule(&case.graph, salient_tile::Options { tiling, ..Default::default() });
        for (a, b) in expected.iter().zip(case.run(program, Isa::detect(), 1)) {
            let (a, b) = (a.to_f64_vec(), b.to_f64_vec());
            assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5), "{shape:?}");
        }
    }
}

#[test]
fn rows_without_keys_are_zeros_or_nan() {
    for op in [FusedOp::Attend, FusedOp::ExpAttend] {
        Case::new(causal(-3, op), &[("H", 1), ("Q", 9), ("K", 9), ("E", 4), ("F", 3)], 5).check();
        Case::new(causal(-80, op), &[("H", 1), ("Q", 90), ("K", 90), ("E", 4), ("F", 3)], 5).check();
    }
}

#[test]
fn masked_keys_add_nothing_whatever_they_hold() {
    let wild = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let ops = [FusedOp::Attend, FusedOp::WeightedSum];
    for (wild, op) in wild.into_iter().flat_map(|wild| ops.map(|op| (wild, op))) {
        let mut case = Case::new(causal(0, op), &[("H", 1), ("Q", 70), ("K", 70), ("E", 5), ("F", 6)], 2);
        for (name, width) in [("k", 5), ("v", 6)] {
            let values = case.inputs.get_mut(name).unwrap().as_f32_mut().unwrap();
            // The last keys are seen by the last rows alone.
            values[66 * width..].fill(wild);
        }
        let out = case.compiled(Isa::detect(), true, 1)[0].to_f64_vec();
        assert!(out[..66 * 6].iter().all(|x| x.is_finite()), "{wild} leaks into rows that do not see it");
        assert!(out[66 * 6..].iter().all(|x| !x.is_finite()), "{wild} is lost in rows that see it");
    }
}

#[test]
fn heads_split_and_merge_without_copies() {
    let mut m = Model::new();
    let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
    let (heads, model) = (Dim::symbol("H"), Dim::symbol("D"));
    let width = model.exact_div(&heads).unwrap();
    let (h, e, j) = (m.axis("h", "H"), m.b.axis_id("e", &width), m.axis("j", "T"));
    let o = m.axis("o", "O");
    let (x, w) = (m.input("x", &[t, d]), m.input("w", &[o, d]));
    let (hh, ee, wide) = (m.b.iota(h), m.b.iota(e), m.b.extent_of(&width));
    let at = m.map(MapOp::Mul, &[hh, wide]);
    let at = m.map(MapOp::Add, &[at, ee]);
    let split = m.b.at(x, d, at).unwrap();
    let keys = m.b.rename(split, t, j).unwrap();
    let s = m.sum_of_products(e, split, keys);
    let f = m.b.axis_id("f", &width);
    let values = m.b.rename(keys, e, f).unwrap();
    let context = m.b.add(Op::Fused(FusedOp::Attend, j), &[s, values]).unwrap();
    let dd = m.b.iota(d);
    let (head, place) = (m.map(MapOp::IntDiv, &[dd, wide]), m.map(MapOp::Mod, &[dd, wide]));
    let merged = m.b.at(context, h, head).unwrap();
    let merged = m.b.at(merged, f, place).unwrap();
    let y = m.sum_of_products(d, merged, w);
    let g = m.done("y", &[t, o], y);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    assert_eq!(kinds, [Kind::Pack, Kind::Attention, Kind::Pack, Kind::Product]);
    for (heads, model, rows) in [(1, 4, 5), (2, 6, 17), (3, 12, 70), (4, 64, 33)] {
        Case::new(g.clone(), &[("T", rows), ("D", model), ("H", heads), ("O", 5)], 3).check();
    }
}

#[test]
fn reductions_at_odd_sizes() {
    for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min, ReduceOp::ArgMax] {
        for along_last in [true, false] {
            let mut m = Model::new();
            let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
            let x = m.input("x", &[t, d]);
            let (axis, rest) = if along_last { (d, t) } else { (t, d) };
            let y = m.b.reduce(op, axis, x).unwrap();
            let g = m.done("y", &[rest], y);
            for (n, size) in SIZES.iter().enumerate() {
                let dims = [("T", *size), ("D", SIZES[(n + 4) % SIZES.len()])];
                let mut case = Case::new(g.clone(), &dims, n as u64);
                case.check();
                let wild = case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap();
                let middle = wild.len() / 2;
                wild[middle] = f32::NAN;
                case.check();
                case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap().fill(f32::NEG_INFINITY);
                case.check();
            }
        }
    }
}

#[test]
fn normalised_rows_at_odd_sizes() {
    for op in [FusedOp::Softmax, FusedOp::ExpNorm, FusedOp::Norm] {
        let mut m = Model::new();
        let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
        let x = m.input("x", &[t, d]);
        let y = m.b.add(Op::Fused(op, d), &[x]).unwrap();
        let g = m.done("y", &[t, d], y);
        for (n, size) in SIZES.iter().enumerate() {
            let mut case = Case::new(g.clone(), &[("T", 3), ("D", *size)], n as u64);
            if op == FusedOp::Norm {
                case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap().iter_mut().for_each(|x| *x += 1.5);
            }
            case.check();
            case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap()[..*size as usize].fill(f32::NEG_INFINITY);
            case.check();
        }
    }
}

/// A layer norm over `d` of `x`, whose axes are `b`, `t` and `d`; also its mean.
fn layer_norm(m: &mut Model, x: NodeId, d: AxisId) -> (NodeId, NodeId) {
    let sum = m.b.reduce(ReduceOp::Sum, d, x).unwrap();
    let count = m.b.extent_of(&Dim::symbol("D"));
    let count = m.map(MapOp::ToF32, &[count]);
    let mean = m.map(MapOp::Div, &[sum, count]);
    let centred = m.map(MapOp::Sub, &[x, mean]);
    let square = m.sum_of_products(d, centred, centred);
    let variance = m.map(MapOp::Div, &[square, count]);
    let small = m.b.constant(Const::f32(1e-5));
    let variance = m.map(MapOp::Add, &[variance, small]);
    let root = m.map(MapOp::Sqrt, &[variance]);
    let y = m.map(MapOp::Div, &[centred, root]);
    let gain = m.b.param("gain", &[d], DType::F32, None, None);
    (m.map(MapOp::Mul, &[y, gain]), mean)
}

fn kinds_of(g: &Graph) -> Vec<Kind> {
    schedule(g, salient_tile::Options::default()).kernels.iter().map(|k| k.kind).collect()
}

#[test]
fn a_norm_is_one_kernel() {
    let axes = |m: &mut Model| [("b", "B"), ("t", "T"), ("d", "D")].map(|(name, dim)| m.axis(name, dim));
    // Read by a product and, as a residual, behind it.
    let mut m = Model::new();
    let [b, t, d] = axes(&mut m);
    let e = m.axis("e", "D");
    let x = m.input("x", &[b, t, d]);
    let (y, _) = layer_norm(&mut m, x, d);
    let w = m.b.param("w", &[d, e], DType::F32, None, None);
    let inner = m.b.rename(y, d, e).unwrap();
    let z = m.sum_of_products(e, inner, w);
    let z = m.map(MapOp::Add, &[z, y]);
    let residual = m.done("z", &[b, t, d], z);
    assert_eq!(kinds_of(&residual), [Kind::Pack, Kind::Rows, Kind::Product]);

    // Somebody else reads the mean: it is stored, and the rest is held.
    let mut m = Model::new();
    let [b, t, d] = axes(&mut m);
    let x = m.input("x", &[b, t, d]);
    let (y, mean) = layer_norm(&mut m, x, d);
    m.b.output("mean", &[b, t], mean).unwrap();
    let told = m.done("y", &[b, t, d], y);
    assert_eq!(kinds_of(&told).iter().filter(|kind| **kind == Kind::Rows).count(), 2);

    // Lanes run along another axis than the rows do.
    let mut m = Model::new();
    let [b, t, d] = axes(&mut m);
    let x = m.input("x", &[b, t, d]);
    let (y, _) = layer_norm(&mut m, x, d);
    let across = m.done("y", &[b, d, t], y);
    assert!(kinds_of(&across).contains(&Kind::Map));

    // One row that is all there is would be one thread's.
    let mut m = Model::new();
    let d = m.axis("d", "D");
    let x = m.input("x", &[d]);
    let (y, _) = layer_norm(&mut m, x, d);
    let alone = m.done("y", &[d], y);
    assert!(kinds_of(&alone).contains(&Kind::Map));

    for g in [residual, told, across, alone] {
        for (n, size) in SIZES.iter().enumerate() {
            let t = SIZES[(n + 4) % SIZES.len()];
            let mut case = Case::new(g.clone(), &[("B", 2), ("T", t), ("D", *size)], n as u64);
            case.check();
            let wild = case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap();
            wild[0] = f32::NAN;
            case.check();
        }
    }
}

/// `if known[t] then norm(table[ids[t]]) + other[ids[t]] else 0`: what the norm goes over is read anyway, `other` is not.
#[test]
fn rows_that_read_more_than_their_norm_keep_their_guard() {
    let mut m = Model::new();
    let (t, d, v) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("v", "V"));
    let small = m.axis("s", "S");
    let table = m.b.param("table", &[v, d], DType::F32, None, None);
    let other = m.b.param("other", &[small, d], DType::F32, None, None);
    let ids = m.b.input("ids", &[t], DType::I64, None);
    let known = m.b.input("known", &[t], DType::Bool, None);
    let x = m.b.at(table, v, ids).unwrap();
    let (y, _) = layer_norm(&mut m, x, d);
    let more = m.b.at(other, small, ids).unwrap();
    let y = m.map(MapOp::Add, &[y, more]);
    let zero = m.b.constant(Const::f32(0.0));
    let y = m.map(MapOp::Select, &[known, y, zero]);
    let g = m.done("y", &[t, d], y);
    let mut case = Case::new(g, &[("T", 5), ("D", 33), ("V", 4), ("S", 2)], 1);
    let ids = Array::new(vec![5], Elements::I64(vec![0, 3, 1, 2, 0])).unwrap();
    let known = Array::new(vec![5], Elements::Bool(vec![true, false, true, false, true])).unwrap();
    case.inputs.insert("ids".to_owned(), ids);
    case.inputs.insert("known".to_owned(), known);
    case.check();
}
