//! A step of a session whose cache grows asks for memory a few times, however deep the model is.

#[path = "../../salient-jit/tests/counting/mod.rs"]
mod counting;

use counting::allocations;
use salient::{Array, Arrays, Model, Options, Weights};

const MODEL: &str = "
block cached[H](x: f32[B, T, D]) -> f32[B, T, D] {
    state keys: f32[B, H, S, D / H], values: f32[B, H, S, D / H]
    let q = split_heads[H](linear[D](x) as query)
    keys = append[s](keys, split_heads[H](linear[D](x) as key))
    values = append[s](values, split_heads[H](linear[D](x) as value))
    return merge_heads(grouped_attention(q, keys, values, causal[T, S + T, offset = S]()))
}

model decoder[L](x: f32[B, T, D]) -> (y: f32[B, T, D]) {
    for l in 0..L {
        x = x + cached[H = 4](x) as layers.{l}
    }
    return x
}";

/// So few that the keys stay in the same tiles of 16.
const STEPS: usize = 12;

fn tokens(count: usize) -> Arrays {
    let values = (0..count * 16).map(|n| (n as f32).sin()).collect();
    let mut inputs = Arrays::new();
    inputs.insert("x", Array::from_f32(vec![1, count, 16], values).unwrap()).unwrap();
    inputs
}

// The only test of its process: allocations of others would count.
#[test]
fn a_steady_step_allocates_the_same_few_times_at_any_depth() {
    let counts = [2, 6].map(|layers| {
        let set = vec![("L".to_owned(), layers.to_string())];
        let options = Options { set, threads: Some(1), ..Options::default() };
        let model = Model::compile(MODEL, &options).unwrap_or_else(|e| panic!("{e}"));
        let (many, one) = (tokens(48), tokens(1));
        let mut session = model.session(&many, Weights::seeded(1)).unwrap();
        session.step(&many).unwrap();
        // States double where they are full, and places change where there is one more tile of keys: after 48 positions both.
        session.step(&one).unwrap();
        let before = allocations();
        for _ in 0..STEPS {
            session.step(&one).unwrap();
        }
        let count = allocations() - before;
        assert_eq!(session.positions(), 49 + STEPS);
        count
    });
    assert_eq!(counts[0], counts[1], "the depth does not matter");
    assert!(counts[0] <= STEPS * 30, "{} in {STEPS} steps", counts[0]);
}
