//! Random programs: whatever the optimiser makes of one, it has the same values.

mod common;

use common::program::random_program;
use common::{Pair, pairs};
use salient_ir::Bindings;

#[test]
fn random_programs_keep_their_values() {
    let bindings: Bindings = [("T", 3), ("E", 2)].map(|(n, v)| (n.into(), v)).into_iter().collect();
    let mut compared = 0;
    for seed in 0..600 {
        let g = random_program(seed, 4 + (seed as usize % 12));
        let out = salient_opt::optimise(&g, &salient_opt::Options::default()).graph;
        assert_eq!(salient_ir::verify::verify(&out), Vec::<String>::new(), "seed {seed}");
        // Where the source is NaN or infinite, the contract lets a number stand.
        for Pair { name, was, is, scale } in pairs(&g, &out, &bindings, seed) {
            if was.is_finite() {
                compared += 1;
                let texts = || [&g, &out].map(salient_ir::text::print).join("\n");
                assert!(
                    (was - is).abs() <= 1e-5 * scale,
                    "seed {seed}, {name}: {was} became {is}\n{}",
                    texts()
                );
            }
        }
    }
    assert!(compared > 2000, "{compared} values compared");
}
