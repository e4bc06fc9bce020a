//! A graph of one case, compiled in every way and compared with the oracle.

use salient_ir::array::{Array, Data as Elements};
use salient_ir::eval::{Data, eval};
use salient_ir::{AxisId, Bindings, Builder, DType, Dim, Graph, MapOp, NodeId, Port, ReduceOp};
use salient_jit::target::{Isa, Target};
use salient_jit::{Compiled, IsaChoice, Options, Threading, Tuning};
use salient_tile::coded::Codes;
use salient_tile::{Kind, Program, schedule};
use std::collections::BTreeMap;

/// Sizes around every tile, panel and vector.
pub(crate) const SIZES: [i64; 11] = [1, 2, 3, 5, 7, 17, 31, 33, 64, 127, 130];

pub(crate) struct Case {
    pub(crate) graph: Graph,
    pub(crate) dims: Bindings,
    pub(crate) inputs: BTreeMap<String, Array>,
    pub(crate) params: BTreeMap<String, Array>,
}

pub(crate) fn random(rng: &mut fastrand::Rng, shape: Vec<usize>, dtype: DType) -> Array {
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
    pub(crate) fn new(graph: Graph, dims: &[(&str, i64)], seed: u64) -> Case {
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

    pub(crate) fn compiled(&self, isa: Isa, fuse: bool, threads: usize) -> Vec<Array> {
        let target = Target::host(IsaChoice::Only(isa)).unwrap();
        let tiling = Tuning::default().tiling(&target);
        let options = salient_tile::Options { fuse, tiling, ..Default::default() };
        self.run(schedule(&self.graph, options), isa, threads)
    }

    pub(crate) fn run(&self, program: Program, isa: Isa, threads: usize) -> Vec<Array> {
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
    pub(crate) fn check(&self) {
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

pub(crate) struct Model {
    pub(crate) b: Builder,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model { b: Builder::new("case") }
    }
    pub(crate) fn axis(&mut self, name: &str, dim: &str) -> AxisId {
        self.b.axis_id(name, &Dim::symbol(dim))
    }
    pub(crate) fn input(&mut self, name: &str, axes: &[AxisId]) -> NodeId {
        self.b.input(name, axes, DType::F32, None)
    }
    pub(crate) fn map(&mut self, op: MapOp, args: &[NodeId]) -> NodeId {
        self.b.map(op, args).unwrap()
    }
    pub(crate) fn sum_of_products(&mut self, axis: AxisId, x: NodeId, y: NodeId) -> NodeId {
        let p = self.map(MapOp::Mul, &[x, y]);
        self.b.reduce(ReduceOp::Sum, axis, p).unwrap()
    }
    pub(crate) fn done(mut self, name: &str, axes: &[AxisId], node: NodeId) -> Graph {
        self.b.output(name, axes, node).unwrap();
        let g = self.b.finish();
        assert_eq!(salient_ir::verify::verify(&g), Vec::<String>::new());
        g
    }
}

pub(crate) fn kinds_of(g: &Graph) -> Vec<Kind> {
    schedule(g, salient_tile::Options::default()).kernels.iter().map(|k| k.kind).collect()
}

/// The dimensions of a case with one of them after another at a length past every block, the others short.
pub(crate) fn long_in_turn(names: &[&'static str]) -> Vec<Vec<(&'static str, i64)>> {
    let short = [3, 7, 5, 2, 9];
    let lengths = |long: usize| {
        let length = |(at, name): (usize, &&'static str)| (*name, if at == long { 1025 } else { short[at] });
        names.iter().enumerate().map(length).collect()
    };
    (0..names.len()).map(lengths).collect()
}
