//! Random programs: whatever the optimiser makes of one, it has the same values.

mod common;

use common::program::random_program;
use common::random_data;
use salient_ir::{Bindings, eval};

#[test]
fn random_programs_keep_their_values() {
    let bindings: Bindings = [("T", 3), ("E", 2)].map(|(n, v)| (n.into(), v)).into_iter().collect();
    let mut compared = 0;
    for seed in 0..600 {
        let g = random_program(seed, 4 + (seed as usize % 12));
        let out = salient_opt::optimise(&g, &salient_opt::Options::default()).graph;
        assert_eq!(salient_ir::verify::verify(&out), Vec::<String>::new(), "seed {seed}");
        let (inputs, params) = random_data(&g, &bindings, seed);
        let data = eval::Data { inputs: &inputs, params: &params };
        let expected = eval::eval(&g, &bindings, data).unwrap();
        let found = eval::eval(&out, &bindings, data).unwrap();
        for ((name, e), (_, f)) in expected.iter().zip(&found) {
            let (e, f) = (e.to_f64_vec(), f.to_f64_vec());
            let scale = e.iter().filter(|x| x.is_finite()).fold(1e-3f64, |m, x| m.max(x.abs()));
            for (x, y) in e.iter().zip(&f) {
                // Where the source is NaN or infinite, the contract lets a number stand.
                if x.is_finite() {
                    compared += 1;
                    assert!(
                        (x - y).abs() <= 1e-5 * scale,
                        "seed {seed}, {name}: {x} became {y}\n{}\n{}",
                        salient_ir::text::print(&g),
                        salient_ir::text::print(&out)
                    );
                }
            }
        }
    }
    assert!(compared > 2000, "{compared} values compared");
}
