//! The weights that `view` gives are those of the interpreter, whole and in tiles.

use salient::view::{MOST_TILES, Viewed, WeightMap, settings, with_weights};
use salient::{Array, Arrays, Bindings, Engine, Model, Options, Sources, Weights, lower};

/// A model with this score, the weights of which are called `w`, over four query heads and two of keys.
fn model(score: &str) -> String {
    format!(
        "model m[G = 2](q: f32[H, G, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, G, T, E]) {{
  let s[h, g, i, j] = sum[e](q[h, g, i, e] * k[h, j, e]) / sqrt(E)
  let w[h, g, i, j] = {score}
  return w[h, g, i, j] @ v[h, j, e]
}}"
    )
    .replace("w[h, g, i, j] @ v[h, j, e]", "y")
    .replace("  return y", "  let y[h, g, i, e] = sum[j](w[h, g, i, j] * v[h, j, e])\n  return y")
}

const SCORES: [&str; 6] = [
    "softmax[j](s[h, g, i, j])",
    "softmax[j](if j <= i then s[h, g, i, j] else -inf)",
    "softmax[j](if j <= i and i - j < 20 then s[h, g, i, j] - 0.1 * f32(i - j) else -inf)",
    "exp(s[h, g, i, j] - max[j](s[h, g, i, j])) / (sum[j](exp(s[h, g, i, j] - max[j](s[h, g, i, j]))) + exp(0.5 - max[j](s[h, g, i, j])))",
    "exp(s[h, g, i, j]) / sum[j](exp(s[h, g, i, j]))",
    "softmax[j](30.0 * tanh(s[h, g, i, j] / 30.0))",
];

fn drawn(shape: &[usize], seed: u32) -> Array {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from(u16::try_from(state >> 16).expect("16 bits")) / 32768.0 - 1.0
    };
    let count = shape.iter().product();
    Array::from_f32(shape.to_vec(), (0..count).map(|_| next()).collect()).expect("as many as the shape says")
}

fn inputs(length: usize) -> Arrays {
    let mut inputs = Arrays::new();
    inputs.insert("q", drawn(&[2, 2, length, 4], 1)).unwrap();
    inputs.insert("k", drawn(&[2, length, 4], 2)).unwrap();
    inputs.insert("v", drawn(&[2, length, 4], 3)).unwrap();
    inputs
}

fn sources(source: &str) -> Sources {
    let mut sources = Sources::new();
    sources.add("view", source);
    sources
}

fn viewed(source: &str, length: usize, options: &Options) -> Viewed {
    let sources = sources(source);
    let graph = lower(&sources, options).expect("a model").graph;
    let sizes: Bindings = [("T", length), ("H", 2), ("E", 4)].map(|(name, n)| (name.into(), n as i64)).into();
    let fixed = Options { set: settings(&graph, &sizes), ..options.clone() };
    let lowered = lower(&sources, &fixed).expect("a model of one size");
    with_weights(&lowered.graph, &lowered.inner, &fixed, &sizes).expect("attentions")
}

/// All weights, as the program says them: for each head, query and key.
fn expected(source: &str, length: usize, engine: Engine) -> Vec<f32> {
    let options = Options { inner: vec!["w".to_owned()], engine, ..Options::default() };
    let model = Model::compile(source, &options).expect("a model");
    let outputs = model.run(&inputs(length), Weights::none()).expect("it runs");
    outputs.get("w").and_then(Array::as_f32).expect("weights").to_vec()
}

/// The mean over the queries of a tile of the sum over the keys of a tile, by its definition.
fn pooled(weights: &[f32], length: usize, map: &WeightMap) -> Vec<f64> {
    let (rows, columns) = (map.queries.tiles(), map.keys.tiles());
    let mut out = vec![0.0; rows * columns];
    for (at, weight) in weights.iter().enumerate() {
        let row = at / length / map.queries.tile;
        let queries = map.queries.tile.min(length - row * map.queries.tile);
        out[row * columns + at % length / map.keys.tile] += f64::from(*weight) / queries as f64;
    }
    out
}

fn agree(source: &str, length: usize, options: &Options) {
    agree_with(Engine::Oracle, source, length, options);
}

/// The results of the model are those that it has without its weights, and the weights those of an engine.
fn agree_with(engine: Engine, source: &str, length: usize, options: &Options) {
    let Viewed { model, maps } = viewed(source, length, options);
    let [map] = maps.as_slice() else { panic!("{maps:?}") };
    assert_eq!((map.queries.positions, map.keys.positions), (length, length));
    assert!(map.queries.tiles() <= MOST_TILES && map.keys.tiles() <= MOST_TILES);
    let results = model.run(&inputs(length), Weights::none()).expect("it runs");
    let heads = map.heads(&results);
    assert_eq!(
        heads.iter().map(|head| head.position.as_slice()).collect::<Vec<_>>(),
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    );
    let plain = Model::compile(source, &Options::default()).expect("a model");
    let plain = plain.run(&inputs(length), Weights::none()).expect("it runs");
    let [own, plain] = [&results, &plain].map(|of| of.get("y").and_then(Array::as_f32).expect("a result"));
    assert!(own.iter().zip(plain).all(|(a, b)| (a - b).abs() < 1e-5), "{source}");
    let expected = expected(source, length, engine);
    for (head, weights) in heads.iter().zip(expected.chunks_exact(length * length)) {
        let by_definition = pooled(weights, length, map);
        assert_eq!(head.weights.len(), by_definition.len());
        for (at, (found, expected)) in head.weights.iter().zip(&by_definition).enumerate() {
            assert!(
                (f64::from(*found) - expected).abs() < 1e-5,
                "{at}: {found}, expected {expected}\n{source}"
            );
        }
    }
}

#[test]
fn weights_are_those_of_the_interpreter() {
    for score in SCORES {
        agree(&model(score), 7, &Options::default());
    }
}

#[test]
fn tiles_have_the_sums_of_their_weights() {
    // The last tile is full, and not full.
    for length in [260, 259] {
        for score in SCORES {
            agree(&model(score), length, &Options::default());
        }
    }
}

#[test]
fn kernels_of_attentions_sum_their_weights_over_whole_tiles() {
    // The last tile is full, and not full. The interpreter would take minutes; it is what unfused code is compared with elsewhere.
    for (length, score) in [(1800, SCORES[0]), (1801, SCORES[2]), (1801, SCORES[3])] {
        let source = model(score);
        agree_with(Engine::Unfused, &source, length, &Options::default());
        let Viewed { model, .. } = viewed(&source, length, &Options::default());
        let session = model.session(&inputs(length), Weights::none()).expect("it fits");
        let attentions = session.kernels().iter().filter(|kernel| kernel.kind == "attention").count();
        assert_eq!(attentions, 1, "{:?}", session.kernels());
    }
}

#[test]
fn values_are_shown_by_their_names() {
    let options = Options { inner: vec!["w".to_owned()], ..Options::default() };
    for length in [7, 259] {
        agree(&model(SCORES[1]), length, &options);
    }
    // The scores of keys that are masked are -inf, and are shown so.
    let options = Options { inner: vec!["s".to_owned()], ..Options::default() };
    let Viewed { model, maps } = viewed(&model(SCORES[1]), 7, &options);
    let results = model.run(&inputs(7), Weights::none()).expect("it runs");
    assert_eq!(maps[0].heads(&results).len(), 4);
}

#[test]
fn no_matrix_of_all_pairs_is_stored_for_tiles() {
    let length = 2048;
    for named in [false, true] {
        let inner = if named { vec!["w".to_owned()] } else { Vec::new() };
        let options = Options { inner, ..Options::default() };
        let Viewed { model, .. } = viewed(&model(SCORES[1]), length, &options);
        let session = model.session(&inputs(length), Weights::none()).expect("it fits");
        let bytes = session.working_bytes().expect("memory is planned");
        // Four heads would take four times as much as one matrix of all pairs.
        assert!(bytes < 2 * 4 * length * length, "{bytes} bytes of working memory");
    }
}

#[test]
fn a_model_without_attention_says_so() {
    let sources = sources("model m(x: f32[4, 4], w: f32[4, 4]) -> (y: f32[4, 4]) { return softmax(x @ w) }");
    let lowered = lower(&sources, &Options::default()).expect("a model");
    let refused = with_weights(&lowered.graph, &[], &Options::default(), &Bindings::new())
        .expect_err("nothing to show");
    assert!(refused.to_string().contains("no attention is found"), "{refused}");
}
