//! GPT-2 at its full size, with parameters that both sides draw by one rule: logits are what transformers computes.
//!
//! The record was written by `tools/reference/gpt2.py record`, which needs transformers; this needs nothing. Parameters
//! are 0.5 GB, and are not kept.

use salient::{Array, Arrays, Model, Options, Weights, read_arrays};
use salient_tests::files::root;

/// A float in [-1, 1) for each position of a stream: splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014), its upper 24 bits.
fn drawn(stream: u64, position: u64) -> f32 {
    let mut z = ((stream << 32) + position + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// Parameters in the order of their names, each a stream; factors of norms are about 1.
fn parameters(model: &Model) -> Arrays {
    let graph = model.graph();
    let mut ports: Vec<_> = graph.params().iter().collect();
    ports.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = Arrays::new();
    for (stream, port) in ports.into_iter().enumerate() {
        let extents = graph.shape(&port.axes);
        let shape: Vec<usize> =
            extents.iter().map(|d| d.eval(&salient::Bindings::new()).unwrap() as usize).collect();
        let is_factor = port.name.contains("ln_") && port.name.ends_with("weight");
        let (base, spread) = if is_factor { (1.0, 0.5) } else { (0.0, 0.0625) };
        let count = shape.iter().product::<usize>() as u64;
        let values = (0..count).map(|at| base + spread * drawn(stream as u64, at)).collect();
        out.insert(&*port.name, Array::from_f32(shape, values).unwrap()).unwrap();
    }
    out
}

#[test]
fn gpt2_gives_transformers_logits_at_its_size() {
    let record = read_arrays(root().join("tests/geometry/gpt2.npz")).unwrap();
    let ids = record.get("ids").unwrap().as_i64().unwrap();
    let theirs = record.get("logits").unwrap().as_f32().unwrap();
    let every = 50257_usize.div_ceil(theirs.len());
    let options = Options { model: Some("gpt2".to_owned()), ..Options::default() };
    let model = Model::from_file(root().join("examples/models/gpt2.attn"), &options).unwrap();
    let parameters = parameters(&model);
    let call = |ids: &[i64]| {
        let mut inputs = Arrays::new();
        inputs.insert("ids", Array::from_i64(vec![1, ids.len()], ids.to_vec()).unwrap()).unwrap();
        inputs
    };
    let mut session = model.session(&call(ids), Weights::from(&parameters)).unwrap();
    // At once, and the last id from the cache.
    for parts in [&[ids][..], &[&ids[..ids.len() - 1], &ids[ids.len() - 1..]]] {
        session.reset();
        let mut logits = Vec::new();
        for part in parts {
            logits = session.step(&call(part)).unwrap().get("logits").unwrap().to_f32_vec().unwrap();
        }
        let scale = theirs.iter().fold(0f32, |most, x| most.max(x.abs()));
        let off = logits.iter().step_by(every).zip(theirs).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert_eq!(logits.iter().step_by(every).count(), theirs.len());
        assert!(
            scale > 1.0 && off <= 1e-4 * scale,
            "{} calls: logits are off by {off} of {scale}",
            parts.len()
        );
    }
}
