//! State: what a session keeps between calls. All tokens at once, the same tokens in pieces, and a model without state
//! must give the same.

use salient::{
    Array, Arrays, Engine, Error, Fp, IsaChoice, Model, Options, Session, Sources, Stage, Timings, Weights,
    print_stage,
};

const BLOCKS: &str = "
block project[H, G](x: f32[B, T, D]) -> (q: f32[B, H, T, D / H], k: f32[B, G, T, D / H], v: f32[B, G, T, D / H]) {
    let q = split_heads[H](linear[D](x) as query)
    let k = split_heads[G](linear[D / H * G](x) as key)
    return q, k, split_heads[G](linear[D / H * G](x) as value)
}

block cached[H, G](x: f32[B, T, D]) -> f32[B, T, D] {
    state keys: f32[B, G, S, D / H], values: f32[B, G, S, D / H]
    let q, k, v = project[H, G](x)
    keys = append[s](keys, rope_half[10000.0](k, offset = S))
    values = append[s](values, v)
    let y = grouped_attention(rope_half[10000.0](q, offset = S), keys, values, causal[T, S + T, offset = S]())
    return linear[D](merge_heads(y)) as out
}

block plain[H, G](x: f32[B, T, D]) -> f32[B, T, D] {
    let q, k, v = project[H, G](x)
    let y = grouped_attention(rope_half[10000.0](q), rope_half[10000.0](k), v, causal[T, T, offset = 0]())
    return linear[D](merge_heads(y)) as out
}

model decoder(x: f32[B, T, D]) -> (y: f32[B, T, D]) {
    let y = x
    for l in 0..2 {
        y = y + cached[H = 4, G = 2](y) as layers.{l}
    }
    return y
}

model decoder_without_cache(x: f32[B, T, D]) -> (y: f32[B, T, D]) {
    let y = x
    for l in 0..2 {
        y = y + plain[H = 4, G = 2](y) as layers.{l}
    }
    return y
}

/// Attention without a softmax: what is kept is a matrix, and keeps its shape.
model recurrent(x: f32[B, T, D]) -> (y: f32[B, T, D]) {
    state memory: f32[B, D, D], count: i64[] as steps
    let seen[b, t, d, e] = cumsum[t](x[b, t, d] * x[b, t, e])
    let y[b, t, e] = sum[d](x[b, t, d] * (memory[b, d, e] + seen[b, t, d, e]))
    memory = memory + sum[t](x[:, :, :, _] * x[:, :, _, :])
    count = count + T
    return y
}";

/// Oracle, unfused, strict and fused.
const WAYS: [(Engine, Fp); 4] = [
    (Engine::Oracle, Fp::Default),
    (Engine::Unfused, Fp::Default),
    (Engine::Jit, Fp::Strict),
    (Engine::Jit, Fp::Default),
];

fn compiled(name: &str, (engine, fp): (Engine, Fp)) -> Model {
    let isa = IsaChoice::Auto;
    let model = Some(name.to_owned());
    let options = Options { model, engine, fp, isa, threads: Some(2), ..Options::default() };
    Model::compile(BLOCKS, &options).unwrap()
}

const WIDTH: usize = 16;

/// Positions `from..to` of two sequences.
fn tokens(from: usize, to: usize) -> Arrays {
    let at = |b: usize, t: usize, d: usize| ((b * 131 + t * 17 + d) as f32 * 0.7).sin();
    let mut values = Vec::new();
    for b in 0..2 {
        for t in from..to {
            values.extend((0..WIDTH).map(|d| at(b, t, d)));
        }
    }
    inputs(Array::from_f32(vec![2, to - from, WIDTH], values).unwrap())
}

fn inputs(x: Array) -> Arrays {
    let mut out = Arrays::new();
    out.insert("x", x).unwrap();
    out
}

/// The outputs of all positions, from calls that end at each of `ends`.
fn in_pieces(session: &mut Session<'_>, ends: &[usize]) -> Vec<f32> {
    let total = *ends.last().unwrap();
    let mut out = vec![0.0; 2 * total * WIDTH];
    let mut from = 0;
    for &to in ends {
        let y = session.step(&tokens(from, to)).unwrap();
        let y = y.get("y").unwrap().as_f32().unwrap();
        for (b, rows) in y.chunks(((to - from) * WIDTH).max(1)).enumerate() {
            let at = (b * total + from) * WIDTH;
            out[at..at + rows.len()].copy_from_slice(rows);
        }
        from = to;
    }
    out
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    let off = found.iter().zip(expected).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
    assert!(off <= 1e-5 * scale, "{what}: off by {off} of {scale}");
}

#[test]
fn pieces_of_any_length_give_what_all_tokens_give() {
    let plain = compiled("decoder_without_cache", WAYS[0]);
    let expected = plain.run(&tokens(0, 9), Weights::seeded(1)).unwrap();
    let expected = expected.get("y").unwrap().as_f32().unwrap();
    for way in WAYS {
        let model = compiled("decoder", way);
        let mut session = model.session(&tokens(0, 1), Weights::seeded(1)).unwrap();
        for ends in [&[9][..], &[1, 2, 3, 4, 5, 6, 7, 8, 9], &[5, 6, 9], &[4, 4, 9]] {
            assert_eq!(session.positions(), 0);
            let found = in_pieces(&mut session, ends);
            assert_eq!(session.positions(), 9);
            assert_close(&found, expected, &format!("{way:?} in pieces that end at {ends:?}"));
            session.reset();
        }
    }
}

/// What is appended is written behind what is held: no kernel copies or reads over the rest.
#[test]
fn appending_writes_what_is_new_alone() {
    let mut sources = Sources::new();
    sources.add("decoder", BLOCKS);
    for engine in [Engine::Unfused, Engine::Jit] {
        let options = Options { model: Some("decoder".to_owned()), engine, ..Options::default() };
        let kernels = print_stage(&sources, Stage::Kernels, &options, &mut Timings::default()).unwrap();
        for state in ["layers.0.keys", "layers.0.values", "layers.1.keys", "layers.1.values"] {
            assert!(kernels.contains(&format!(" begins with {state}\n")), "{engine}, {state}:\n{kernels}");
            let start = kernels.find(&format!("\nmap {state}(")).unwrap();
            let items = kernels[start..].lines().find(|line| line.contains("parallel")).unwrap();
            assert!(items.contains('T') && !items.contains('S'), "{engine}, {state}: {items}");
        }
    }
}

#[test]
fn a_state_may_keep_its_shape() {
    let oracle = compiled("recurrent", WAYS[0]);
    let expected = oracle.run(&tokens(0, 7), Weights::none()).unwrap();
    let expected = expected.get("y").unwrap().as_f32().unwrap();
    for way in WAYS {
        let model = compiled("recurrent", way);
        let mut session = model.session(&tokens(0, 1), Weights::none()).unwrap();
        for ends in [&[7][..], &[1, 2, 3, 4, 5, 6, 7], &[3, 7]] {
            assert_close(&in_pieces(&mut session, ends), expected, &format!("{way:?}, {ends:?}"));
            assert_eq!(session.positions(), 0, "nothing grows");
            session.reset();
        }
    }
}

#[test]
fn a_single_call_takes_states_as_inputs_and_gives_them_as_outputs() {
    for way in WAYS {
        let model = compiled("recurrent", way);
        let first = model.run(&tokens(0, 3), Weights::none()).unwrap();
        assert_eq!(first.get("steps").unwrap().as_i64(), Some([3].as_slice()));
        let mut second = tokens(3, 7);
        for path in ["memory", "steps"] {
            second.insert(path, first.get(path).unwrap().clone()).unwrap();
        }
        let second = model.run(&second, Weights::none()).unwrap();
        let mut session = model.session(&tokens(0, 1), Weights::none()).unwrap();
        session.step(&tokens(0, 3)).unwrap();
        let stepped = session.step(&tokens(3, 7)).unwrap();
        assert!(stepped.get("y").unwrap().same_bits(second.get("y").unwrap()), "{way:?}");
        assert!(stepped.get("memory").is_none(), "a step keeps its states to itself");
    }
}

#[test]
fn what_is_held_fixes_its_dimensions_until_the_reset() {
    let model = compiled("decoder", WAYS[3]);
    let mut session = model.session(&tokens(0, 1), Weights::seeded(1)).unwrap();
    session.step(&tokens(0, 3)).unwrap();
    let one = || inputs(Array::zeros(salient::DType::F32, vec![1, 2, WIDTH]).unwrap());
    let Err(Error::Call(faults)) = session.step(&one()) else { panic!("two sequences are held") };
    let told = faults.first().map(ToString::to_string).unwrap_or_default();
    let expected = "input `x`: axis 0 has length 1, expected B = 2 (from axis 1 of state `layers.0.keys`); it is declared in ";
    assert!(told.starts_with(expected), "{told}");
    assert_eq!(session.positions(), 3, "a refused call changes nothing");
    session.reset();
    session.step(&one()).unwrap();
    assert_eq!(session.positions(), 2);
}
