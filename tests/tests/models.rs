//! Published models at small sizes: every way of running them agrees with what transformers computes, or torch where it has no
//! such model.
//!
//! The archives in `tests/models` were written by `tools/reference/tiny.py`, with random parameters under the names that
//! the published checkpoints use. Checkpoints themselves are the subject of `checkpoints.rs`.

use salient::compare::{Tolerance, compare};
use salient::{Array, Arrays, DataFile, Engine, Graph, Model, Options, Weights, lower, read_data};
use salient_tests::agree::matches_record;
use salient_tests::examples::small;
use salient_tests::files::{files_under, root, sources};
use salient_tests::ways::{Call, Ways};

/// A model of a program of `examples/models` at small sizes, and the arrays of `tests/models`.
fn prepared(program: &str, model: &str) -> (Graph, DataFile) {
    let sources = sources(&format!("examples/models/{program}.attn")).unwrap_or_else(|e| panic!("{e}"));
    let options = Options { model: Some(model.to_owned()), set: small(program), ..Options::default() };
    let graph = lower(&sources, &options).unwrap_or_else(|e| panic!("{e}")).graph;
    let data =
        read_data(root().join(format!("tests/models/{program}.npz"))).unwrap_or_else(|e| panic!("{e}"));
    (graph, data)
}

/// Runs the model once in every way.
fn check(program: &str, model: &str) {
    let (graph, data) = prepared(program, model);
    let ways = Ways::new(&graph).unwrap_or_else(|e| panic!("{e}"));
    let call = Call { inputs: data.inputs, params: data.params, ..Call::default() };
    for (way, outputs) in ways.outputs(&call).unwrap_or_else(|e| panic!("{e}")) {
        // States come out too, and are nothing that others record.
        let mut results = Arrays::new();
        for (name, array) in
            outputs.into_iter().filter(|(n, _)| !graph.inputs().iter().any(|p| *p.name == **n))
        {
            results.insert(name, array).expect("names differ");
        }
        if let Err(why) = matches_record(&results, &data.outputs) {
            panic!("{way}: {why}");
        }
    }
    ways.check(&call).unwrap_or_else(|e| panic!("{e}"));
}

/// A test for each program, of one of its models, and the list of them.
macro_rules! programs {
    ($($program:ident: $model:literal),+ $(,)?) => {
        $(#[test] fn $program() { check(stringify!($program), $model); })+
        const PROGRAMS: &[&str] = &[$(stringify!($program)),+];
    };
}

programs! {
    gpt2: "gpt2_scores",
    llama: "llama_scores",
    minilm: "minilm",
    t5: "t5",
    translation: "translation",
    vit: "vit",
}

/// Adapters of MiniLM begin with a factor of zeros: the vectors are the checkpoint's, to the bit. A step moves adapters alone.
#[test]
fn adapters_that_begin_as_zeros_change_nothing() {
    let (graph, data) = prepared("minilm", "minilm");
    let adapters = sources("examples/train/adapters.attn").unwrap_or_else(|e| panic!("{e}"));
    let compiled = |model: &str, engine| {
        let options =
            Options { model: Some(model.to_owned()), set: small("minilm"), engine, ..Options::default() };
        Model::from_sources(&adapters, &options).unwrap_or_else(|e| panic!("{e}"))
    };
    for engine in [Engine::Oracle, Engine::Unfused, Engine::Jit] {
        let plain = Model::from_graph(graph.clone(), &Options { engine, ..Options::default() }).unwrap();
        let expected = plain.run(&data.inputs, Weights::from(&data.params)).unwrap();
        let adapted = compiled("adapted", engine);
        let run = |params: &Arrays| adapted.run(&data.inputs, Weights::from(params).or_seeded(1)).unwrap();
        assert!(run(&data.params).same_bits(&expected), "{engine}");
        let path = "encoder.layer.1.attention.self.value.lora.up";
        let port = adapted.graph().params().iter().find(|port| *port.name == *path).expect("an adapter");
        assert_eq!(port.axes.len(), 2);
        let mut moved = data.params.clone();
        moved.insert(path, Array::from_f32(vec![24, 8], vec![0.1; 24 * 8]).unwrap()).unwrap();
        assert!(!run(&moved).same_bits(&expected), "{engine}: an adapter is read");
    }
    let train = compiled("train", Engine::Oracle);
    let graph = train.graph();
    let moved = (0..graph.inputs().len()).filter(|at| graph.is_moved_parameter(*at));
    let moved: Vec<&str> = moved.map(|at| &*graph.inputs()[at].name).collect();
    assert_eq!(moved.len(), 2 * 2 * 2, "two factors of queries and values in two layers: {moved:?}");
    assert!(moved.iter().all(|path| path.contains(".lora.")), "{moved:?}");
    assert!(graph.params().iter().all(|port| !port.name.contains(".lora.")));
}

/// The ids in pieces, each call going on from the cache: after each, the logits of what follows its last id.
fn check_pieces(program: &str) {
    let (graph, data) = prepared(program, program);
    let (ids, logits) = (data.inputs.get("ids").expect("ids"), data.outputs.get("logits").expect("logits"));
    let &[batch, length] = ids.shape() else { panic!("ids are a matrix") };
    let width = logits.shape()[2];
    let (ids, logits) = (ids.as_i64().expect("ids"), logits.as_f32().expect("logits"));
    for engine in [Engine::Oracle, Engine::Unfused, Engine::Jit] {
        let options = Options { engine, ..Options::default() };
        let model = Model::from_graph(graph.clone(), &options).unwrap_or_else(|e| panic!("{e}"));
        let piece = |from: usize, to: usize| {
            let rows = ids.chunks(length).flat_map(|row| row[from..to].to_vec()).collect();
            let mut inputs = Arrays::new();
            inputs.insert("ids", Array::from_i64(vec![batch, to - from], rows).unwrap()).unwrap();
            inputs
        };
        let mut session = model.session(&piece(0, 1), Weights::from(&data.params)).unwrap();
        for ends in [&[11][..], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], &[6, 7, 11]] {
            session.reset();
            let mut from = 0;
            for &to in ends {
                let found = session.step(&piece(from, to)).unwrap_or_else(|e| panic!("{engine}: {e}"));
                let rows = |b: usize| logits[(b * length + to - 1) * width..][..width].to_vec();
                let expected =
                    Array::from_f32(vec![batch, width], (0..batch).flat_map(rows).collect()).unwrap();
                let deviation =
                    compare(found.get("logits").unwrap(), &expected, Tolerance::default()).unwrap();
                assert!(deviation.agrees(), "{engine}, up to {to} of {ends:?}: {deviation:?}");
                from = to;
            }
        }
    }
}

#[test]
fn a_cache_gives_what_all_tokens_give() {
    check_pieces("llama");
    check_pieces("gpt2");
}

#[test]
fn every_published_model_is_compared() {
    let names = |folder: &str, extension: &str| -> Vec<String> {
        let files = files_under(folder, extension).into_iter();
        files.map(|f| f.strip_suffix(&format!(".{extension}")).expect("has it").to_owned()).collect()
    };
    assert_eq!(names("examples/models", "attn"), PROGRAMS, "programs");
    assert_eq!(names("tests/models", "npz"), PROGRAMS, "data");
}
