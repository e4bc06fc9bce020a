//! A cache of keys and values: a state that grows from step to step.

use salient::{Array, Arrays, Error, Model, Options, Weights};

/// One head of causal attention; keys and values of earlier calls are held.
const SOURCE: &str = "
block cached(x: f32[T, D]) -> f32[T, D] {
    state keys: f32[S, D], values: f32[S, D]
    let q = linear[D, bias = false](x) as query
    keys = append[s](keys, linear[D, bias = false](x) as key)
    values = append[s](values, linear[D, bias = false](x) as value)
    return scaled_attention(q, keys, values, causal[T, S + T, offset = S]())
}

model decoder(x: f32[T, D]) -> (y: f32[T, D]) {
    return cached(x) as attention
}
";

/// Rows `from..to` of a text.
fn tokens(from: usize, to: usize) -> Result<Arrays, Error> {
    let elements = (from * 4..to * 4).map(|n| (n as f32).sin()).collect();
    let rows = Array::from_f32(vec![to - from, 4], elements).expect("the shape has so many elements");
    let mut inputs = Arrays::new();
    inputs.insert("x", rows)?;
    Ok(inputs)
}

pub(crate) fn main() -> Result<(), Error> {
    let model = Model::compile(SOURCE, &Options::default())?;

    // All at once.
    let all = model.run(&tokens(0, 6)?, Weights::seeded(1))?;
    let all = all.get("y").and_then(Array::as_f32).expect("the result").to_vec();

    // The prompt, then token by token: the same code, and only new keys and values are computed.
    let mut session = model.session(&tokens(0, 4)?, Weights::seeded(1))?;
    let mut stepped = Vec::new();
    for (from, to) in [(0, 4), (4, 5), (5, 6)] {
        let results = session.step(&tokens(from, to)?)?;
        stepped.extend_from_slice(results.get("y").and_then(Array::as_f32).expect("the result"));
    }
    assert_eq!(session.positions(), 6);
    let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
    assert!(all.iter().zip(&stepped).all(close), "a cache gives what all tokens give");

    // Another text.
    session.reset();
    assert_eq!(session.positions(), 0);
    Ok(())
}
