//! Training: what dropout draws depends on the seed, the place, the call of `dropout` and the step, and on nothing else; steps move
//! parameters.

use salient::{Array, Arrays, Engine, Fp, Isa, IsaChoice, Model, Options, Weights};

const LAYER: &str = "
model layer[p = 0.25](x: f32[B, T, D]) -> (once: f32[B, T, D], again: f32[B, T, D], by_index: f32[B, T, D]) {
    let by_index[b, t, d] = dropout(x[b, t, d], p)
    return dropout(x, p), dropout(x, p), by_index
}

model attention(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
    let weights = softmax(if causal[T, T, offset = 0]() then q @ k.T / sqrt(E) else -inf)
    return dropout(weights, 0.3) @ v
}";

fn compiled(model: &str, train: Option<u32>, engine: Engine, isa: IsaChoice, threads: usize) -> Model {
    let model = Some(model.to_owned());
    let options = Options { model, train, engine, isa, threads: Some(threads), ..Options::default() };
    Model::compile(LAYER, &options).unwrap()
}

fn ones(shape: &[usize]) -> Array {
    Array::from_f32(shape.to_vec(), vec![1.0; shape.iter().product()]).unwrap()
}

fn arrays(list: &[(&str, Array)]) -> Arrays {
    let mut out = Arrays::new();
    list.iter().for_each(|(name, array)| out.insert(*name, array.clone()).unwrap());
    out
}

fn dropped(train: Option<u32>, shape: &[usize], output: &str) -> Vec<f32> {
    let model = compiled("layer", train, Engine::Jit, IsaChoice::Auto, 2);
    let outputs = model.run(&arrays(&[("x", ones(shape))]), Weights::none()).unwrap();
    outputs.get(output).unwrap().as_f32().unwrap().to_vec()
}

/// The key is the seed and the position of the draw in the model, the counter the element's place without a step; the generator itself is
/// held to its published answers in `salient-ir`.
#[test]
fn what_is_drawn_is_the_published_generator() {
    use salient_ir::math::{philox, unit};
    for (site, output) in [(1, "once"), (2, "again"), (0, "by_index")] {
        let expected: Vec<f32> = (0..2 * 3 * 5)
            .map(|n| if unit(philox([n, 0, 0, 0], [42, site])[0]) >= 0.25 { 1.0 / 0.75 } else { 0.0 })
            .collect();
        assert_eq!(dropped(Some(42), &[2, 3, 5], output), expected, "{output}");
    }
}

#[test]
fn at_inference_dropout_is_nothing() {
    assert_eq!(dropped(None, &[2, 3, 5], "once"), vec![1.0; 30]);
}

#[test]
fn calls_and_seeds_draw_apart() {
    let shape = &[4, 16, 64];
    let draws =
        [dropped(Some(1), shape, "once"), dropped(Some(1), shape, "again"), dropped(Some(2), shape, "once")];
    for (n, a) in draws.iter().enumerate() {
        // Six standard deviations of so many draws.
        let kept = a.iter().filter(|x| **x != 0.0).count() as f64 / a.len() as f64;
        assert!((kept - 0.75).abs() < 6.0 * (0.75f64 * 0.25 / a.len() as f64).sqrt(), "{kept} are kept");
        for b in &draws[n + 1..] {
            let same = a.iter().zip(b).filter(|(x, y)| x == y).count() as f64 / a.len() as f64;
            assert!((same - 0.625).abs() < 6.0 * (0.625f64 * 0.375 / a.len() as f64).sqrt(), "{same} agree");
        }
    }
    assert_eq!(draws[0], dropped(Some(1), shape, "once"), "a seed draws the same again");
}

/// Every engine drops the same elements: on any vectors, for any number of threads.
#[test]
fn engines_draw_the_same_bits() {
    let wave = |phase: f32| {
        let values = (0..2 * 37 * 8).map(|n| (n as f32 * 0.7 + phase).sin()).collect();
        Array::from_f32(vec![2, 37, 8], values).unwrap()
    };
    let x = arrays(&[("x", wave(0.0))]);
    let qkv = arrays(&[("q", wave(0.0)), ("k", wave(1.0)), ("v", wave(2.0))]);
    let oracle = |name, inputs: &Arrays| {
        compiled(name, Some(7), Engine::Oracle, IsaChoice::Auto, 1).run(inputs, Weights::none()).unwrap()
    };
    let (layer, attention) = (oracle("layer", &x), oracle("attention", &qkv));
    let widths = Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect()).map(IsaChoice::Only);
    let jit = widths.flat_map(|isa| [1, 3].map(|threads| (Engine::Jit, isa, threads)));
    for (engine, isa, threads) in jit.chain([(Engine::Unfused, IsaChoice::Auto, 2)]) {
        let what = format!("{engine} {isa:?} {threads}");
        let run = |name, inputs: &Arrays| {
            compiled(name, Some(7), engine, isa, threads).run(inputs, Weights::none()).unwrap()
        };
        let found = run("layer", &x);
        for (name, expected) in layer.iter() {
            let (found, expected) = (found.get(name).unwrap(), expected.as_f32().unwrap());
            let zeros = |x: &[f32]| x.iter().map(|x| *x == 0.0).collect::<Vec<_>>();
            assert_eq!(zeros(found.as_f32().unwrap()), zeros(expected), "{what}: {name}");
        }
        let (found, expected) = (run("attention", &qkv), attention.get("y").unwrap());
        let (found, expected) =
            (found.get("y").unwrap().as_f32().unwrap().to_vec(), expected.as_f32().unwrap());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-5, "{what}: {a} for {b}");
        }
    }
}

#[test]
fn exact_rules_leave_dropout_where_it_is() {
    let strict =
        Options { fp: Fp::Strict, train: Some(7), model: Some("layer".into()), ..Options::default() };
    let strict = Model::compile(LAYER, &strict).unwrap();
    let found = strict.run(&arrays(&[("x", ones(&[2, 3, 5]))]), Weights::none()).unwrap();
    assert_eq!(found.get("once").unwrap().as_f32().unwrap(), dropped(Some(7), &[2, 3, 5], "once"));
}

const LINE: &str = "
model line(x: f32[B], y: f32[B], rate: f32) -> (loss: f32) {
    param a: f32[] = ones
    param b: f32[] = zeros
    param c: f32[] = ones
    let loss = mean_squared_error(c * (a * x + b), y)
    for p, d in grad(loss, parameters - parameters.c) {
        p = sgd(p, d, rate) as opt.{p}
    }
    return loss
}";

fn scalar(x: f32) -> Array {
    Array::from_f32(vec![], vec![x]).unwrap()
}

fn line() -> Arrays {
    let values = |of: fn(f32) -> f32| Array::from_f32(vec![8], (0..8).map(|n| of(n as f32 / 4.0)).collect());
    arrays(&[("x", values(|x| x).unwrap()), ("y", values(|x| 3.0 * x - 1.0).unwrap()), ("rate", scalar(0.1))])
}

/// The states of a session as numbers, by path.
fn numbers(session: &salient::Session<'_>) -> Vec<(String, f32)> {
    session.states().map(|(path, array)| (path.to_owned(), array.as_f32().unwrap()[0])).collect()
}

#[test]
fn steps_move_parameters() {
    let model = Model::compile(LINE, &Options::default()).unwrap();
    let inputs = line();
    let weights = arrays(&[("c", scalar(1.0)), ("a", scalar(0.5)), ("b", scalar(0.25))]);
    let mut session = model.session(&inputs, (&weights).into()).unwrap();
    let (mut a, mut b) = (0.5f64, 0.25f64);
    for step in 0..50 {
        let found = f64::from(session.step(&inputs).unwrap().get("loss").unwrap().as_f32().unwrap()[0]);
        let (mut loss, mut da, mut db) = (0.0, 0.0, 0.0);
        for n in 0..8 {
            let x = f64::from(n) / 4.0;
            let off = a * x + b - (3.0 * x - 1.0);
            (loss, da, db) = (loss + off * off / 8.0, da + off * x / 4.0, db + off / 4.0);
        }
        assert!((found - loss).abs() < 1e-5 * (1.0 + loss), "step {step}: {found} for {loss}");
        (a, b) = (a - 0.1 * da, b - 0.1 * db);
    }
    let found = numbers(&session);
    assert_eq!(found.len(), 2, "c stays a parameter: {found:?}");
    for ((path, found), expected) in found.iter().zip([a, b]) {
        assert!((f64::from(*found) - expected).abs() < 1e-5, "{path}: {found} for {expected}");
    }
}

#[test]
fn states_begin_as_weights_seeds_or_initialisers_say() {
    let model = Model::compile(LINE, &Options::default()).unwrap();
    let inputs = line();
    let alone = model.session(&inputs, Weights::none()).unwrap_err().to_string();
    assert!(alone.contains("`c`") && !alone.contains("`a`"), "ones and zeros need no seed: {alone}");
    let part = arrays(&[("c", scalar(1.0)), ("a", scalar(2.0))]);
    let lacking = model.session(&inputs, (&part).into()).unwrap_err().to_string();
    assert!(lacking.contains("parameter `b`"), "a file without it is told of: {lacking}");
    let mut session = model.session(&inputs, Weights::from(&part).or_seeded(1)).unwrap();
    session.step(&inputs).unwrap();
    let after = numbers(&session);
    session.step(&inputs).unwrap();
    assert_ne!(numbers(&session), after);
    session.take_back().unwrap();
    assert_eq!(numbers(&session), after, "one step back");
    assert!(session.take_back().is_err(), "one step alone");
    session.reset();
    session.step(&inputs).unwrap();
    assert_eq!(numbers(&session), after, "they begin again");
    session.hold(&arrays(&[("a", scalar(7.0))])).unwrap();
    assert_eq!(numbers(&session), [("a".to_owned(), 7.0), ("b".to_owned(), 0.0)]);
    let wrong = session.hold(&arrays(&[("d", scalar(7.0)), ("a", ones(&[2]))])).unwrap_err().to_string();
    assert!(wrong.contains("`d`") && wrong.contains("`a`"), "{wrong}");
    assert_eq!(numbers(&session), [("a".to_owned(), 7.0), ("b".to_owned(), 0.0)], "they stay");
}

const DROPPED: &str = "
model dropped(x: f32[N], rate: f32) -> (loss: f32, kept: f32[N]) {
    param w: f32[N] = ones
    let kept = dropout(stop(x), 0.5)
    let loss = total(w * kept)
    for p, d in grad(loss, parameters) {
        p = sgd(p, d, rate) as opt.{p}
    }
    return loss, kept
}

model attended[E = 4, H = 2](x: f32[B, T, H * E], rate: f32) -> (loss: f32) {
    let q = split_heads[H](linear[H * E, bias = false](x) as query)
    let k = split_heads[H](linear[H * E, bias = false](x) as key)
    let v = split_heads[H](linear[H * E, bias = false](x) as value)
    let y = dropout(attention_weights(q, k, causal[T, T, offset = 0]()), 0.3) @ v
    let loss = mean_squared_error(merge_heads(y), x)
    for p, d in grad(loss, parameters) {
        p = sgd(p, d, rate) as opt.{p}
    }
    return loss
}";

fn stepping(model: &str, options: Options) -> Model {
    Model::compile(DROPPED, &Options { model: Some(model.to_owned()), train: Some(42), ..options }).unwrap()
}

/// What is kept at a step of `dropped`: ones go in.
fn kept(session: &mut salient::Session<'_>, inputs: &Arrays) -> Vec<f32> {
    session.step(inputs).unwrap().get("kept").unwrap().as_f32().unwrap().to_vec()
}

#[test]
fn every_step_draws_anew() {
    use salient_ir::math::{philox, unit};
    let inputs = arrays(&[("x", ones(&[40])), ("rate", scalar(1.0))]);
    let drawn = |step: u32| -> Vec<f32> {
        let is_kept = |n| unit(philox([n, step, 0, 0], [42, 0])[0]) >= 0.5;
        (0..40).map(|n| if is_kept(n) { 2.0 } else { 0.0 }).collect()
    };
    for engine in [Engine::Jit, Engine::Unfused, Engine::Oracle] {
        let model = stepping("dropped", Options { engine, ..Options::default() });
        let mut session = model.session(&inputs, Weights::none()).unwrap();
        let mut w = vec![1.0f32; 40];
        for step in 0..5 {
            let kept = kept(&mut session, &inputs);
            assert_eq!(kept, drawn(step), "{engine}, step {step}");
            // The gradient by the weights is what was kept: backward drew the same elements.
            w.iter_mut().zip(&kept).for_each(|(w, kept)| *w -= kept);
            let (_, moved) = session.states().find(|(path, _)| *path == "w").unwrap();
            assert_eq!(moved.as_f32().unwrap(), w, "{engine}, step {step}");
        }
    }
}

#[test]
fn a_step_that_is_taken_back_draws_the_same_again() {
    let inputs = arrays(&[("x", ones(&[40])), ("rate", scalar(1.0))]);
    let model = stepping("dropped", Options::default());
    let mut session = model.session(&inputs, Weights::none()).unwrap();
    let steps: Vec<_> = (0..4).map(|_| kept(&mut session, &inputs)).collect();
    session.take_back().unwrap();
    assert_eq!(kept(&mut session, &inputs), steps[3]);
    let mut held = Arrays::new();
    session.states().for_each(|(path, array)| held.insert(path, array.clone()).unwrap());
    let next = kept(&mut session, &inputs);
    session.reset();
    assert_eq!(kept(&mut session, &inputs), steps[0], "steps count from the start again");
    session.hold(&held).unwrap();
    assert_eq!(kept(&mut session, &inputs), next, "what is held says which step it is");
    // A call that keeps nothing draws as the step that comes next.
    session.hold(&held).unwrap();
    assert_eq!(session.call(&inputs).unwrap().get("kept").unwrap().as_f32().unwrap(), next);
}

/// What is drawn in an attention is drawn in the pass over its keys, forward and backward.
#[test]
fn steps_with_dropout_in_an_attention_are_fused_and_the_oracles() {
    let values = (0..2 * 19 * 8).map(|n| (n as f32 * 0.37).sin()).collect();
    let inputs = arrays(&[("x", Array::from_f32(vec![2, 19, 8], values).unwrap()), ("rate", scalar(0.5))]);
    let run = |options: Options| -> (Vec<f32>, Vec<Vec<f32>>) {
        let model = stepping("attended", options);
        let mut session = model.session(&inputs, Weights::seeded(3)).unwrap();
        let loss = |results: salient::Results<'_>| results.get("loss").unwrap().as_f32().unwrap()[0];
        let losses = (0..4).map(|_| loss(session.step(&inputs).unwrap())).collect();
        let states = session.states().filter_map(|(_, array)| Some(array.as_f32()?.to_vec())).collect();
        (losses, states)
    };
    let (losses, states) = run(Options { engine: Engine::Oracle, ..Options::default() });
    let close = |a: f32, b: f32| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
    let mut bits = Vec::new();
    for isa in Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect()).map(IsaChoice::Only) {
        for threads in [1, 3] {
            let options = Options { isa, threads: Some(threads), require_fused: true, ..Options::default() };
            let (found, moved) = run(options);
            assert!(found.iter().zip(&losses).all(|(a, b)| close(*a, *b)), "{found:?} for {losses:?}");
            let mut all = moved.iter().flatten().zip(states.iter().flatten());
            assert!(all.all(|(a, b)| close(*a, *b)), "{isa:?} {threads}");
            bits.push((isa, found, moved));
        }
    }
    for pair in bits.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        assert!(pair[0] == pair[1], "{:?}: the same bits for any number of threads", pair[0].0);
    }
}

#[test]
fn the_path_of_the_step_is_no_other_state() {
    let taken = DROPPED.replace("param w: f32[N] = ones", "param w: f32[N] = ones as draw.step");
    let options = Options { model: Some("dropped".to_owned()), train: Some(1), ..Options::default() };
    let why = Model::compile(&taken, &options).unwrap_err().to_string();
    assert!(why.contains("`draw.step` counts the steps"), "{why}");
    assert!(
        Model::compile(&taken, &Options { train: None, ..options }).is_ok(),
        "at inference nothing is drawn"
    );
}
