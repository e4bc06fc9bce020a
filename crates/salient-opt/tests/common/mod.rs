//! What tests of the optimiser share.
#![allow(dead_code, unreachable_pub, missing_docs, unused_imports, reason = "each test file uses its part")]

mod model;
pub mod program;

pub use model::{Model, V};
use salient_ir::array::Array;
use salient_ir::{Bindings, DType, Graph, eval};
use std::collections::BTreeMap;

/// The printed form of the optimised graph; also checks that the graph is well-formed.
pub fn optimised(g: &Graph) -> String {
    let out = salient_opt::optimise(g, &salient_opt::Options::default());
    assert_eq!(salient_ir::verify::verify(&out.graph), Vec::<String>::new());
    salient_ir::text::print(&out.graph)
}

/// Asserts that a graph and its optimised form agree in the oracle on random data.
pub fn assert_same_values(g: &Graph, dims: &[(&str, i64)]) {
    let bindings: Bindings = dims.iter().map(|(n, v)| ((*n).into(), *v)).collect();
    let out = salient_opt::optimise(g, &salient_opt::Options::default()).graph;
    (0..3).for_each(|seed| assert_same(g, &out, &bindings, seed));
}

/// Asserts that two graphs of one model agree in the oracle on random data: NaN where NaN, else to 1e-6 of the largest value.
pub fn assert_same(before: &Graph, after: &Graph, bindings: &Bindings, seed: u64) {
    for pair in pairs(before, after, bindings, seed) {
        let Pair { name, was, is, scale } = &pair;
        let same = (was.is_nan() && is.is_nan()) || was == is || (was - is).abs() <= 1e-6 * scale;
        assert!(same, "{name}: {was} became {is} in\n{}", salient_ir::text::print(after));
    }
}

/// An element of an output of two graphs of one model.
pub struct Pair {
    pub name: String,
    pub was: f64,
    pub is: f64,
    /// The greatest finite magnitude of the output.
    pub scale: f64,
}

/// Each element of each output of two graphs of one model, on the same random data.
pub fn pairs(before: &Graph, after: &Graph, bindings: &Bindings, seed: u64) -> Vec<Pair> {
    let (inputs, params) = random_data(before, bindings, seed);
    let data = eval::Data { inputs: &inputs, params: &params };
    let [expected, found] = [before, after].map(|g| eval::eval(g, bindings, data).unwrap());
    assert_eq!(expected.len(), found.len());
    let mut out = Vec::new();
    for ((name, e), (_, f)) in expected.iter().zip(&found) {
        assert_eq!(e.shape(), f.shape(), "{name}");
        let (e, f) = (e.to_f64_vec(), f.to_f64_vec());
        let scale = e.iter().filter(|x| x.is_finite()).fold(1e-3f64, |m, x| m.max(x.abs()));
        out.extend(e.into_iter().zip(f).map(|(was, is)| Pair { name: name.to_string(), was, is, scale }));
    }
    out
}

/// Random data for the inputs and parameters of a graph at the given dimensions.
pub fn random_data(
    g: &Graph,
    bindings: &Bindings,
    seed: u64,
) -> (BTreeMap<String, Array>, BTreeMap<String, Array>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut fill = |port: &salient_ir::Port| {
        let shape: Vec<usize> =
            port.axes.iter().map(|a| g.extent(*a).eval(bindings).unwrap() as usize).collect();
        let count = shape.iter().product();
        let values: Vec<f64> = (0..count)
            .map(|_| match port.dtype {
                DType::Bool => f64::from(u8::from(rng.bool())),
                DType::I32 | DType::I64 => f64::from(rng.u8(0..2)),
                DType::F32 | DType::F16 | DType::BF16 => f64::from(rng.f32() * 4.0 - 2.0),
            })
            .collect();
        (port.name.to_string(), Array::from_f64(port.dtype, shape, &values).unwrap())
    };
    (g.inputs().iter().map(&mut fill).collect(), g.params().iter().map(&mut fill).collect())
}
