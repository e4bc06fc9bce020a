//! What tests of the optimiser share.
#![allow(dead_code, unreachable_pub, missing_docs, unused_imports, reason = "each test file uses its part")]

mod model;
pub mod program;

pub use model::{Model, V, random_data};
use salient_ir::{Bindings, Graph, eval};

/// The printed form of the optimised graph; also checks that the graph is well-formed.
pub fn optimised(g: &Graph) -> String {
    let out = salient_opt::optimise(g, &salient_opt::Options::default());
    assert_eq!(salient_ir::verify::verify(&out.graph), Vec::<String>::new());
    salient_ir::text::print(&out.graph)
}

/// Asserts that a graph and its optimised form agree in the oracle on random data: NaN where NaN, else to 1e-6 of the
/// largest value.
pub fn assert_same_values(g: &Graph, dims: &[(&str, i64)]) {
    let bindings: Bindings = dims.iter().map(|(n, v)| ((*n).into(), *v)).collect();
    let out = salient_opt::optimise(g, &salient_opt::Options::default()).graph;
    for seed in 0..3 {
        let (inputs, params) = random_data(g, &bindings, seed);
        let data = eval::Data { inputs: &inputs, params: &params };
        let expected = eval::eval(g, &bindings, data).unwrap();
        let found = eval::eval(&out, &bindings, data).unwrap();
        assert_eq!(expected.len(), found.len());
        for ((name, e), (_, f)) in expected.iter().zip(&found) {
            assert_eq!(e.shape(), f.shape(), "{name}");
            let (e, f) = (e.to_f64_vec(), f.to_f64_vec());
            let scale = e.iter().filter(|x| x.is_finite()).fold(1e-3f64, |m, x| m.max(x.abs()));
            for (x, y) in e.iter().zip(&f) {
                let same = (x.is_nan() && y.is_nan()) || x == y || (x - y).abs() <= 1e-6 * scale;
                assert!(same, "{name}: {x} became {y} in\n{}", salient_ir::text::print(&out));
            }
        }
    }
}
