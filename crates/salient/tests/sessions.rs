//! One compiled model, many sessions: dimensions, dtypes, threads, memory of the caller.

use salient::{Array, Arrays, Bindings, DType, Engine, Error, Fault, Fp, Model, Options, Session, Weights};

const ATTENTION: &str = "
model attention(q: f32[T, E], k: f32[S, E], v: f32[S, F]) -> (context: f32[T, F]) {
    return softmax(q @ k.T / sqrt(E)) @ v
}";

const LAYER: &str = "
model layer(x: f32[T, D]) -> (y: f32[T, 2 * D]) {
    param weight: f32[2 * D, D] = uniform(-1, 1)
    param scale: f32[2 * D] = ones
    return (x @ weight.T) * scale
}";

fn model(source: &str, engine: Engine) -> Model {
    Model::compile(source, &Options { engine, threads: Some(2), ..Options::default() }).unwrap()
}

/// Values that differ from each other and stay small.
fn wave(shape: &[usize], phase: f32) -> Array {
    let count = shape.iter().product::<usize>();
    let values = (0..count).map(|n| (n as f32 * 0.7 + phase).sin()).collect();
    Array::from_f32(shape.to_vec(), values).unwrap()
}

fn arrays(list: &[(&str, Array)]) -> Arrays {
    let mut out = Arrays::new();
    list.iter().for_each(|(name, array)| out.insert(*name, array.clone()).unwrap());
    out
}

fn attention_inputs(t: usize, s: usize, e: usize, f: usize) -> Arrays {
    arrays(&[("q", wave(&[t, e], 0.0)), ("k", wave(&[s, e], 1.0)), ("v", wave(&[s, f], 2.0))])
}

fn faults(result: Result<impl std::fmt::Debug, Error>) -> Vec<Fault> {
    match result {
        Err(Error::Call(faults)) => faults,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_compilation_serves_every_shape() {
    let (fused, oracle) = (model(ATTENTION, Engine::Jit), model(ATTENTION, Engine::Oracle));
    for (t, s, e, f) in [(1, 1, 1, 1), (2, 3, 5, 7), (17, 33, 8, 31), (64, 1, 16, 16), (3, 130, 64, 65)] {
        let inputs = attention_inputs(t, s, e, f);
        let found = fused.run(&inputs, Weights::none()).unwrap();
        let expected = oracle.run(&inputs, Weights::none()).unwrap();
        let (found, expected) = (found.get("context").unwrap(), expected.get("context").unwrap());
        let deviation = salient::compare::compare(found, expected, Default::default()).unwrap();
        assert!(deviation.agrees() && deviation.largest_abs < 1e-5, "{t} {s} {e} {f}: {deviation:?}");
    }
}

/// Two attentions over the same values, of which the sum is one plan at many queries and another one at few.
const DIFFERENCE: &str = "
model difference(q: f32[T, E], p: f32[T, E], k: f32[S, E], c: f32[S, E], v: f32[S, F]) -> (context: f32[T, F]) {
    return (softmax(q @ k.T) - 0.5 * softmax(p @ c.T)) @ v
}";

#[test]
fn each_call_runs_the_plan_for_its_sizes() {
    let (fused, oracle) = (model(DIFFERENCE, Engine::Jit), model(DIFFERENCE, Engine::Oracle));
    let (e, f, s) = (8, 5, 33);
    let inputs = |t: usize| {
        let of = |rows: usize, phase| wave(&[rows, e], phase);
        let (q, p, k, c, v) = (of(t, 0.0), of(t, 1.0), of(s, 2.0), of(s, 3.0), wave(&[s, f], 4.0));
        arrays(&[("q", q), ("p", p), ("k", k), ("c", c), ("v", v)])
    };
    let graph = salient::lower(&one_source(DIFFERENCE), &Options::default()).unwrap().graph;
    let verdict = salient::verdict(&graph, &Options::default());
    let (name, below) = verdict.alternative.expect("few queries have a plan of their own").below;
    assert_eq!(&*name, "T");
    let mut session = fused.session(&inputs(1), Weights::none()).unwrap();
    let mut kernels = Vec::new();
    for t in [1, 70, usize::try_from(below).unwrap() - 1, usize::try_from(below).unwrap(), 2] {
        let expected = oracle.run(&inputs(t), Weights::none()).unwrap();
        let stepped = session.step(&inputs(t)).unwrap().get("context").unwrap().clone();
        let called = fused.run(&inputs(t), Weights::none()).unwrap();
        for found in [&stepped, called.get("context").unwrap()] {
            let expected = expected.get("context").unwrap();
            let deviation = salient::compare::compare(found, expected, Default::default()).unwrap();
            assert!(deviation.agrees() && deviation.largest_abs < 1e-5, "{t}: {deviation:?}");
        }
        kernels.push(session.kernels().len());
    }
    assert_eq!(kernels[0], kernels[2]);
    assert_ne!(kernels[0], kernels[1]);
    assert_eq!(kernels[1], kernels[3]);
    assert_eq!(kernels[0], kernels[4]);
}

/// Each plan holds the parameters in its own manner: of many there is one plan at all sizes.
#[test]
fn large_parameters_are_held_by_one_plan() {
    let source =
        DIFFERENCE.replace(", v: f32[S, F])", ")").replace("{\n", "{\n    param v: f32[S, F] = zeros\n");
    let (fused, oracle) = (model(&source, Engine::Jit), model(&source, Engine::Oracle));
    let kernels = |s: usize, f: usize, t: usize| {
        let of = |rows: usize, phase| wave(&[rows, 3], phase);
        let inputs = arrays(&[("q", of(t, 0.0)), ("p", of(t, 1.0)), ("k", of(s, 2.0)), ("c", of(s, 3.0))]);
        let params = arrays(&[("v", wave(&[s, f], 4.0))]);
        let session = fused.session(&inputs, Weights::from(&params)).unwrap();
        if s < 100 {
            let found = fused.run(&inputs, Weights::from(&params)).unwrap();
            let expected = oracle.run(&inputs, Weights::from(&params)).unwrap();
            let (found, expected) = (found.get("context").unwrap(), expected.get("context").unwrap());
            let deviation = salient::compare::compare(found, expected, Default::default()).unwrap();
            assert!(deviation.agrees(), "{t}: {deviation:?}");
        }
        session.kernels().len()
    };
    assert_ne!(kernels(33, 5, 1), kernels(33, 5, 200));
    assert_eq!(kernels(2048, 1024, 1), kernels(2048, 1024, 200));
}

fn one_source(text: &str) -> salient::Sources {
    let mut sources = salient::Sources::new();
    sources.add("source", text);
    sources
}

#[test]
fn a_model_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let model = model(ATTENTION, Engine::Jit);
    let inputs = attention_inputs(9, 40, 16, 16);
    let session = model.session(&inputs, Weights::none()).unwrap();
    shared(&model);
    shared(&session);
    let expected = session.call(&inputs).unwrap();
    let expected = expected.get("context").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let found = session.call(&inputs).unwrap();
                    assert!(found.get("context").unwrap().same_bits(expected));
                }
            });
        }
    });
}

#[test]
fn outputs_lie_where_the_caller_says() {
    let model = model(ATTENTION, Engine::Jit);
    let inputs = attention_inputs(4, 6, 8, 8);
    let session = model.session(&inputs, Weights::none()).unwrap();
    let mut outputs = session.outputs().unwrap();
    let address = outputs[0].as_f32().unwrap().as_ptr();
    session.run(&inputs, &mut outputs).unwrap();
    assert_eq!(outputs[0].as_f32().unwrap().as_ptr(), address);
    assert!(outputs[0].same_bits(session.call(&inputs).unwrap().get("context").unwrap()));

    let mut wrong = [Array::zeros(DType::F32, vec![4, 7]).unwrap()];
    let found = faults(session.run(&inputs, &mut wrong));
    assert_eq!(found[0].to_string(), "output `context` has the shape [4, 7], expected [4, 8]");
}

#[test]
fn a_session_keeps_its_shapes() {
    let model = model(ATTENTION, Engine::Jit);
    let session = model.session(&attention_inputs(4, 6, 8, 8), Weights::none()).unwrap();
    let found = faults(session.call(&attention_inputs(5, 6, 8, 8)));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].to_string(), "input `q` has the shape [5, 8], expected [4, 8]");
}

#[test]
fn parameters_come_from_arrays_or_from_a_seed() {
    let inputs = arrays(&[("x", wave(&[3, 4], 0.0))]);
    for engine in [Engine::Jit, Engine::Unfused, Engine::Oracle] {
        let model = model(LAYER, engine);
        let missing = faults(model.run(&inputs, Weights::none()));
        assert_eq!(missing.len(), 2, "{missing:?}");
        let drawn = model.run(&inputs, Weights::seeded(3)).unwrap();
        // One parameter given, the other one drawn as ones.
        let weight = arrays(&[("weight", wave(&[8, 4], 1.0))]);
        let given = model.run(&inputs, Weights::from(&weight).or_seeded(3)).unwrap();
        assert!(!given.get("y").unwrap().same_bits(drawn.get("y").unwrap()));
        let both = arrays(&[("weight", wave(&[8, 4], 1.0)), ("scale", array_of_ones(8))]);
        let all = model.run(&inputs, Weights::from(&both)).unwrap();
        assert!(given.get("y").unwrap().same_bits(all.get("y").unwrap()));
    }
}

/// What is made of the parameters serves sessions of any shapes that agree with theirs.
#[test]
fn parameters_are_loaded_once_for_sessions_of_many_shapes() {
    let at = |t: usize| arrays(&[("x", wave(&[t, 4], t as f32))]);
    let weights = arrays(&[("weight", wave(&[8, 4], 1.0)), ("scale", wave(&[8], 2.0))]);
    for engine in [Engine::Jit, Engine::Unfused, Engine::Oracle] {
        let model = model(LAYER, engine);
        let first = model.session(&at(3), Weights::from(&weights)).unwrap();
        // The packed weight, of whole cache lines.
        assert_eq!(
            first.loaded_bytes().map(|bytes| bytes >= 8 * 4 * 4 && bytes % 64 == 0),
            match engine {
                Engine::Jit | Engine::Unfused => Some(true),
                Engine::Oracle => None,
            }
        );
        for t in [1, 5, 70] {
            let found = first.reshaped(&at(t), &Bindings::new()).unwrap().call(&at(t)).unwrap();
            let expected = model.run(&at(t), Weights::from(&weights)).unwrap();
            assert!(found.get("y").unwrap().same_bits(expected.get("y").unwrap()), "{engine}, {t} rows");
        }
        let wrong = faults(first.reshaped(&arrays(&[("x", wave(&[3, 5], 0.0))]), &Bindings::new()));
        assert!(!wrong.is_empty());
        // Another set of parameters is another session.
        let other = arrays(&[("weight", wave(&[8, 4], 3.0)), ("scale", wave(&[8], 2.0))]);
        let found = model.run(&at(3), Weights::from(&other)).unwrap();
        assert!(!found.get("y").unwrap().same_bits(first.call(&at(3)).unwrap().get("y").unwrap()));
    }
}

fn array_of_ones(n: usize) -> Array {
    Array::from_f32(vec![n], vec![1.0; n]).unwrap()
}

/// A checkpoint in 16 bits gives exactly what the same numbers give in 32.
#[test]
fn narrow_weights_are_widened_without_loss() {
    let inputs = arrays(&[("x", wave(&[3, 4], 0.0))]);
    // bfloat16 is the upper half of a float.
    let bits: Vec<u16> =
        wave(&[8, 4], 1.0).as_f32().unwrap().iter().map(|x| (x.to_bits() >> 16) as u16).collect();
    let wide: Vec<f32> = bits.iter().map(|b| f32::from_bits(u32::from(*b) << 16)).collect();
    let narrow =
        arrays(&[("weight", Array::from_bf16_bits(vec![8, 4], bits).unwrap()), ("scale", array_of_ones(8))]);
    let wide = arrays(&[("weight", Array::from_f32(vec![8, 4], wide).unwrap()), ("scale", array_of_ones(8))]);
    for engine in [Engine::Jit, Engine::Unfused, Engine::Oracle] {
        let model = model(LAYER, engine);
        let (a, b) = (model.run(&inputs, Weights::from(&narrow)), model.run(&inputs, Weights::from(&wide)));
        assert!(a.unwrap().get("y").unwrap().same_bits(b.unwrap().get("y").unwrap()), "{engine}");
    }
}

/// A model may declare that a tensor is stored in 16 bits; it is computed with in 32.
#[test]
fn storage_types_may_be_declared() {
    let source = "model m(x: f16[T]) -> (y: f32[T]) { return x * 2.0 }";
    let half = arrays(&[("x", Array::from_f16_bits(vec![2], vec![0x3c00, 0xb800]).unwrap())]);
    for engine in [Engine::Jit, Engine::Unfused, Engine::Oracle] {
        let found = model(source, engine).run(&half, Weights::none()).unwrap();
        assert_eq!(found.get("y").unwrap().as_f32(), Some([2.0, -1.0].as_slice()), "{engine}");
    }
    // What would lose something is refused.
    let full = arrays(&[("x", array_of_ones(2))]);
    let found = faults(model(source, Engine::Jit).run(&full, Weights::none()));
    assert_eq!(found[0].to_string(), "input `x` has elements of type f32, expected f16");
}

#[test]
fn a_dimension_may_be_given_with_the_call() {
    let source = "model m(x: f32[D]) -> (y: f32[T, D]) {\n    let y[t: T, d: D] = x[d]\n    return y\n}";
    let model = model(source, Engine::Jit);
    let inputs = arrays(&[("x", wave(&[3], 0.0))]);
    assert_eq!(faults(model.session(&inputs, Weights::none())), [Fault::Undetermined(vec!["T".into()])]);
    for t in [1, 4, 0] {
        let set = Bindings::from([("T".into(), t)]);
        let session: Session<'_> = model.session_with(&inputs, Weights::none(), &set).unwrap();
        assert_eq!(session.dimensions().get("T"), Some(&t));
        assert_eq!(session.call(&inputs).unwrap().get("y").unwrap().shape(), [t as usize, 3]);
    }
    let set = Bindings::from([("T".into(), 1), ("Q".into(), 1)]);
    let found = faults(model.session_with(&inputs, Weights::none(), &set));
    assert!(matches!(found.as_slice(), [Fault::NoSuchDimension { .. }]), "{found:?}");
}

/// Nothing of size T x T is kept: working memory grows with T, and is known before anything runs.
#[test]
fn fused_attention_works_in_little_memory() {
    let bytes = |engine, t| {
        let inputs =
            arrays(&[("q", wave(&[t, 16], 0.0)), ("k", wave(&[t, 16], 1.0)), ("v", wave(&[t, 16], 2.0))]);
        model(ATTENTION, engine).session(&inputs, Weights::none()).unwrap().working_bytes()
    };
    let (small, large) = (bytes(Engine::Jit, 1024).unwrap(), bytes(Engine::Jit, 2048).unwrap());
    assert!(large <= 2 * small && large < 2048 * 2048 * 4 / 16, "{small} {large}");
    assert!(bytes(Engine::Unfused, 1024).unwrap() >= 1024 * 1024 * 4);
    assert_eq!(bytes(Engine::Oracle, 8), None);
}

/// Under strict floats attention stays apart; the library says so with the place, as the command line does.
#[test]
fn what_is_required_to_fuse_and_does_not_is_an_error() {
    let source = "model m(q: f32[T, E], v: f32[S, F], k: f32[S, E]) -> (context: f32[T, F]) {\n    let weights = softmax(q @ k.T)\n    return weights @ v\n}";
    let options = |fp| Options { require_fused: true, fp, ..Options::default() };
    assert!(Model::compile(source, &options(Fp::Default)).is_ok());
    match Model::compile(source, &options(Fp::Strict)) {
        Err(Error::Unfused(why)) => {
            assert!(why.contains("S * T elements, one for every query and key\n  ┌─ source:2:"), "{why}");
            assert!(why.contains("`--fp strict` allows exact rules alone, and not "), "{why}");
            assert!(why.contains("`attention/attend` (refining)"), "{why}");
            assert!(why.contains("`context` stays a sum apart from its weights (source:3:"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

/// What is required to be fused is read from the plan: a fused operator in the graph is not enough.
#[test]
fn fused_means_that_nothing_of_every_query_and_key_is_stored_or_computed_again() {
    let refused = |body: &str| {
        let source = format!(
            "model m(q: f32[T, E], k: f32[T, E], v: f32[T, E]) -> (y: f32[T, E], w: f32[T, T]) {{\n    let p = softmax(q @ k.T)\n    {body}\n}}"
        );
        let source = if body.contains("y, p") { source } else { source.replace(", w: f32[T, T]", "") };
        match Model::compile(&source, &Options { require_fused: true, ..Options::default() }) {
            Ok(_) => None,
            Err(Error::Unfused(why)) => Some(why),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(refused("return p @ v"), None);
    // Weights that are asked for are stored for that.
    assert_eq!(refused("let y = p @ v\n    return y, p"), None);
    // Whatever is done to the weights before the values are summed under them.
    for weights in ["(if p == p then p else 0)", "p ** 2", "(p * f32(p > 0.1))", "(p + p / 2)"] {
        assert_eq!(refused(&format!("return {weights} @ v")), None, "{weights}");
    }
    let differences = "let y[t: T, e: E] = sum[j](abs(p[t, j] - v[j, e]))\n    return y";
    let stored = refused(differences).expect("no kernel makes scores for each column");
    assert!(stored.contains("`p` is stored: T * T elements, one for every query and key"), "{stored}");
    // A second use makes the scores once more; a product of weights has elements for all pairs itself.
    assert_eq!(refused("return p @ (p @ v)"), None);
    let stored = refused("return (p @ p) @ v").expect("weights are stored for their product");
    assert!(stored.contains("T * T elements, one for every query and key"), "{stored}");
}

#[test]
fn what_is_held_is_put_into_another_order() {
    let source = "
model held(x: f32[B, T]) -> (y: f32[B, T]) {
    state past: f32[B, S], total: f32[B]
    past = append[s](past, x)
    let y[b, t] = x[b, t] * total[b] + sum[s](past[b, s])
    total[b] = total[b] + sum[t](x[b, t])
    return y
}";
    let order = [1, 1, 0];
    let rows = |x: &Array| {
        let (values, width) = (x.as_f32().unwrap(), x.shape()[1]);
        let of = |row: &usize| values[row * width..][..width].to_vec();
        Array::from_f32(vec![order.len(), width], order.iter().flat_map(of).collect()).unwrap()
    };
    for engine in [Engine::Oracle, Engine::Jit] {
        let model = model(source, engine);
        let (first, next) = (wave(&[2, 3], 0.5), arrays(&[("x", wave(&[3, 2], 1.5))]));
        let begin = arrays(&[("x", first.clone())]);
        let mut session = model.session(&begin, Weights::none()).unwrap();
        session.reorder("B", &order).unwrap();
        session.step(&begin).unwrap();
        for (dimension, from, why) in [("C", 0, "no state of `held`"), ("B", 2, "no index 2 in 2")] {
            let error = session.reorder(dimension, &[0, from]).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        session.reorder("B", &order).unwrap();
        let found = session.step(&next).unwrap().get("y").unwrap().clone();
        let mut anew = model.session(&begin, Weights::none()).unwrap();
        anew.step(&arrays(&[("x", rows(&first))])).unwrap();
        assert_eq!(anew.step(&next).unwrap().get("y").unwrap(), &found, "{engine}");
        assert_eq!(session.positions(), 5);
    }
}

/// Dimensions of the caller's, so that nothing of the call itself is large.
fn dimensions(list: &[(&str, i64)]) -> Bindings {
    list.iter().map(|(name, n)| ((*name).into(), *n)).collect()
}

#[test]
fn an_output_larger_than_memory_is_told_with_its_shape_and_bytes() {
    let source = "model wide(x: f32[T]) -> (y: f32[T, N], z: f32[T]) {
        let y[t: T, n: N] = x[t]
        return y, x
    }";
    let inputs = arrays(&[("x", wave(&[2], 0.0))]);
    for engine in [Engine::Jit, Engine::Unfused, Engine::Oracle] {
        let model = model(source, engine);
        let session = model.session_with(&inputs, Weights::none(), &dimensions(&[("N", 1 << 44)])).unwrap();
        let error = session.call(&inputs).unwrap_err();
        let told = "`y`: there is no memory for f32[2, 17592186044416]: 140737488355328 bytes";
        assert_eq!(error.to_string(), told, "{engine}");
        assert!(!error.is_call(), "the call is as it should be, and its result does not fit");
    }
}

#[test]
fn temporaries_larger_than_memory_are_told_with_the_largest() {
    let source = "model wide(x: f32[T]) -> (y: f32[T]) {
        let cube[i: T, j: T, k: T] = exp(x[i] * x[j] * x[k])
        let faces = sum[i](cube)
        return max[j](faces)
    }";
    let inputs = arrays(&[("x", wave(&[1 << 15], 0.0))]);
    // Fused code does not store it.
    let model = model(source, Engine::Unfused);
    let error = model.session(&inputs, Weights::none()).unwrap().call(&inputs).unwrap_err().to_string();
    assert!(error.contains("bytes of memory to work in, of which `"), "{error}");
    assert!(error.contains("[32768, 32768, 32768] takes 140737488355328"), "{error}");
}

#[test]
fn parameters_larger_than_memory_are_told_by_their_path() {
    let source = "model wide(x: f32[T]) -> (y: f32[T]) {
        param w: f32[N] = ones
        return x * sum(w)
    }";
    let inputs = arrays(&[("x", wave(&[2], 0.0))]);
    for engine in [Engine::Jit, Engine::Unfused, Engine::Oracle] {
        let model = model(source, engine);
        let error =
            model.session_with(&inputs, Weights::seeded(1), &dimensions(&[("N", 1 << 45)])).unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("parameter `w`: there is no memory for f32[35184372088832]"), "{told}");
    }
}
