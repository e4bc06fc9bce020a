//! Beam search over small encoders and decoders, against what torch and transformers found with the same parameters.
//!
//! The record was written by `tools/reference/translation.py`; the parameters are those of `tests/models`.

use salient::{Arrays, Model, Options, Weights, read_arrays, read_data};
use salient_tests::files::root;
use salient_text::{Beams, Translator};

/// The parameters that a model has.
fn own(params: &Arrays, model: &Model) -> Arrays {
    let mut used = Arrays::new();
    for port in model.graph().params() {
        let array = params.get(&port.name).unwrap_or_else(|| panic!("no {}", port.name));
        used.insert(&*port.name, array.clone()).unwrap();
    }
    used
}

fn part(program: &str, part: &str, sizes: &str, params: &Arrays) -> (Model, Arrays) {
    let set = sizes.split(' ').map(|set| set.split_once('=').expect("NAME=VALUE"));
    let options = Options {
        model: Some(format!("{program}_{part}")),
        set: set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        threads: Some(1),
        ..Options::default()
    };
    let model = Model::from_file(root().join(format!("examples/models/{program}.attn")), &options)
        .unwrap_or_else(|e| panic!("{e}"));
    let weights = own(params, &model);
    (model, weights)
}

fn check(program: &str, sizes: &str) {
    let data = read_data(root().join(format!("tests/models/{program}.npz"))).unwrap();
    let record = read_arrays(root().join("tests/translation/beams.npz")).unwrap();
    let (encoder, encoder_weights) = part(program, "encoder", sizes, &data.params);
    let (decoder, decoder_weights) = part(program, "decoder", sizes, &data.params);
    let mut translator = Translator::new(
        (&encoder, Weights::from(&encoder_weights)),
        (&decoder, Weights::from(&decoder_weights)),
    )
    .unwrap();
    let field = |case: usize, name: &str| record.get(&format!("{program}.{case}.{name}"));
    let cases = (0..).take_while(|case| field(*case, "src").is_some()).count();
    assert!(cases >= 32, "{cases} cases");
    for case in 0..cases {
        let field = |name: &str| field(case, name).expect("every case has every field");
        let source: Vec<u32> = field("src").as_i64().unwrap().iter().map(|id| *id as u32).collect();
        let [width, length_penalty, max_tokens, start, ref ends @ ..] = *field("settings").as_f32().unwrap()
        else {
            panic!("settings");
        };
        let beams = Beams {
            width: width as usize,
            length_penalty: f64::from(length_penalty),
            max_tokens: max_tokens as usize,
            start: start as u32,
            ends: ends.iter().map(|id| *id as u32).collect(),
        };
        let found = translator.translate(&source, &beams).unwrap();
        let scores = field("scores").as_f32().unwrap();
        let rows = field("ids").as_i64().unwrap().chunks(beams.max_tokens);
        assert_eq!(found.len(), scores.len(), "{program}, case {case}");
        for (rank, ((found, ids), score)) in found.iter().zip(rows).zip(scores).enumerate() {
            let ids: Vec<u32> = ids.iter().filter(|id| **id >= 0).map(|id| *id as u32).collect();
            assert_eq!(found.ids, ids, "{program}, case {case}, rank {rank}");
            let off = (found.score - f64::from(*score)).abs();
            assert!(
                off <= 1e-5 * found.score.abs(),
                "{program}, case {case}, rank {rank}: {found:?}, {score}"
            );
        }
    }
}

#[test]
fn beams_find_what_a_naive_search_in_torch_finds() {
    check("translation", "V=50 D=24 H=3 F=40 L=2");
}

#[test]
fn beams_find_what_transformers_finds() {
    check("t5", "V=50 D=24 H=3 E=8 F=40 L=2 N=8 max_distance=20");
}

#[test]
fn a_state_without_continuations_is_refused() {
    let source = "
model reads(src: i64[B, S]) -> (memory: f32[B, S, 2]) {
    let memory[b, s, d: 2] = f32(src[b, s])
    return memory
}
model says(memory: f32[B, S, 2], tgt: i64[B, T]) -> (logits: f32[B, T, 3]) {
    state calls: f32[]
    calls = calls + 1
    let logits[b, t, v: 3] = calls + f32(tgt[b, t]) + sum[s](memory[b, s, 0])
    return logits
}";
    let part = |name: &str| Options { model: Some(name.to_owned()), ..Options::default() };
    let [encoder, decoder] = ["reads", "says"].map(|name| Model::compile(source, &part(name)).unwrap());
    let translator = Translator::new((&encoder, Weights::none()), (&decoder, Weights::none()));
    let error = translator.map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "the state `calls` of the model `says` has no axis of B continuations");
}
