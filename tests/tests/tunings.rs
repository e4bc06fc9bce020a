//! A tuning changes time and nothing else: programs cut to extreme sizes agree with the interpreter, on all vectors and, to
//! the bit, on any number of threads.

use salient::verify::{Lengths, Trials, verify};
use salient::{Isa, Knob, Options, TILING, Tuning, lower, models};
use salient_tests::files::{files_under, sources};
use salient_tests::sweep;

/// Programs of every kind of kernel, besides all of `examples/variants`.
const OTHERS: [&str; 6] = [
    "causal_self_attention.attn",
    "bench/heads.attn",
    "bench/one_head.attn",
    "bench/product.attn",
    "bench/rows.attn",
    "seeds/002_encoder_block.attn",
];

/// Every size of every kind of vectors as `size` says; threads are called for any work, and never look for it.
fn extreme(mut size: impl FnMut(&Knob<salient::Tiling>) -> i64) -> Tuning {
    let mut tuning = Tuning::default();
    for isa in Isa::ALL {
        TILING.iter().for_each(|knob| (knob.set)(tuning.machine.of_mut(isa), size(knob)));
    }
    tuning.machine.threading.worth_ns = 1;
    tuning.machine.threading.looks = 0;
    tuning
}

/// The least of everything, the most of everything but of what memory is taken for, and draws from what lies between.
fn tunings(seed: u64) -> Vec<Tuning> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let drawn = |knob: &Knob<salient::Tiling>| {
        let (least, most) = knob.range;
        rng.i64(least..=most.min(40))
    };
    vec![extreme(|knob| knob.range.0), extreme(|knob| knob.range.1.min(2048)), extreme(drawn)]
}

#[test]
fn results_do_not_depend_on_the_tuning() {
    let variants = files_under("examples/variants", "attn").into_iter().map(|f| format!("variants/{f}"));
    let files: Vec<String> = variants.chain(OTHERS.map(str::to_owned)).collect();
    sweep::each(&files, |file| {
        let sources = sources(&format!("examples/{file}"))?;
        let seed = files.iter().position(|f| f == file).expect("one of them") as u64;
        let model = models(&sources).map_err(|e| e.to_string())?.into_iter().next();
        for (at, tuning) in tunings(seed).into_iter().enumerate() {
            let options = Options { model: model.clone(), tuning, ..Options::default() };
            let graph = lower(&sources, &options).map_err(|e| e.to_string())?.graph;
            let trials =
                Trials { count: 3, seed, lengths: Lengths::Each, most_work: 1_000_000, ..Trials::default() };
            let verified = verify(&graph, &options, trials, &mut |_| {}).map_err(|e| e.to_string())?;
            if let Some(finding) = verified.findings.first() {
                return Err(format!("tuning {at}: {finding:?}"));
            }
        }
        Ok(())
    });
}
