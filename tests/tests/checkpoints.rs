//! Published checkpoints, run as they come, against what transformers makes of them.
//!
//! The checkpoints are fetched by `tools/fetch-models.sh`; where they are not there, a test says so and checks nothing.
//! What is compared with was recorded by `tools/reference/minilm.py` and `tools/reference/smollm2.py`.

use salient::{Arrays, Model, Options, Weights, read_arrays, read_gguf_coded};
use salient_tests::files::{checkpoint, root, text};
use salient_text::{ChatTemplate, Embedder, End, Generator, Message, Sampling, Settings, Tokenizer};
use std::path::Path;

fn compiled(file: &str, model: &str, options: Options) -> Model {
    let options = Options { model: Some(model.to_owned()), ..options };
    Model::from_file(root().join(format!("examples/models/{file}.attn")), &options)
        .unwrap_or_else(|e| panic!("{e}"))
}

/// The tensors of a checkpoint that the model has.
fn weights(path: &Path, model: &Model) -> Arrays {
    let mut used = Arrays::new();
    for (name, array) in read_arrays(path).unwrap() {
        if model.graph().params().iter().any(|p| *p.name == *name) {
            used.insert(name, array).unwrap();
        }
    }
    used
}

fn recorded(name: &str) -> Arrays {
    read_arrays(root().join(format!("tests/checkpoints/{name}.npz"))).unwrap()
}

fn integers(arrays: &Arrays, name: &str) -> Vec<u32> {
    arrays.get(name).unwrap().to_f64_vec().into_iter().map(|n| n as u32).collect()
}

#[test]
fn minilm_embeds_as_transformers_does() {
    let (Some(file), Some(words)) = (checkpoint("minilm.safetensors"), checkpoint("minilm.tokenizer.json"))
    else {
        return;
    };
    let record = recorded("minilm");
    let sentences = text("tests/checkpoints/sentences.txt");
    let texts: Vec<&str> = sentences.lines().collect();
    let tokenizer = Tokenizer::read(words).unwrap();
    let ids: Vec<Vec<u32>> = texts.iter().map(|t| tokenizer.encode(t).unwrap().ids).collect();
    assert_eq!(ids.concat(), integers(&record, "ids"), "tokens");
    let lengths: Vec<u32> = ids.iter().map(|row| row.len() as u32).collect();
    assert_eq!(lengths, integers(&record, "lengths"));

    let model = compiled("minilm", "minilm", Options::default());
    let weights = weights(&file, &model);
    let mut embedder = Embedder::new(&model, Weights::from(&weights)).unwrap();
    let theirs = record.get("embedding").unwrap().to_f32_vec().unwrap();
    for batch in [1, 32] {
        let ours = embedder.embed(&ids, batch, &mut |_| {}).unwrap();
        for ((ours, theirs), text) in ours.as_f32().unwrap().chunks(384).zip(theirs.chunks(384)).zip(&texts) {
            let dot = |a: &[f32], b: &[f32]| -> f64 {
                a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            };
            let cosine = dot(ours, theirs) / (dot(ours, ours) * dot(theirs, theirs)).sqrt();
            assert!(cosine >= 0.99999, "{cosine} in batches of {batch}: {text}");
        }
    }
}

#[test]
fn smollm2_continues_as_transformers_does() {
    let Some(file) = checkpoint("SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let record = recorded("smollm2");
    let prompt = integers(&record, "ids");
    let tokenizer = Tokenizer::read(&file).unwrap();
    let says = |role: &str, content: &str| Message { role: role.to_owned(), content: content.to_owned() };
    let asked = [says("user", "Explain in a few sentences why the sky is blue.")];
    let text = ChatTemplate::new(tokenizer.chat_template().unwrap()).unwrap().render(&asked).unwrap();
    assert_eq!(tokenizer.encode(&text).unwrap().ids, prompt, "tokens of {text}");

    // Weights widened when they are read, and weights that stay in their blocks.
    let plain = compiled("llama", "llama", Options::default());
    let arrays = weights(&file, &plain);
    check_smollm2(&plain, Weights::from(&arrays), &tokenizer);
    let (arrays, coded) = read_gguf_coded(&file).unwrap();
    let in_blocks = compiled("llama", "llama", Options::default().for_coded(&coded));
    check_smollm2(&in_blocks, Weights::from(&arrays).coded(&coded), &tokenizer);
}

/// The logits behind the prompt, and the 64 tokens that follow it.
fn check_smollm2(model: &Model, weights: Weights<'_>, tokenizer: &Tokenizer) {
    let record = recorded("smollm2");
    let (prompt, greedy) = (integers(&record, "ids"), integers(&record, "greedy"));
    let mut generator = Generator::new(model, weights).unwrap();
    let ours = generator.logits(&prompt).unwrap();
    let theirs = record.get("logits").unwrap().as_f32().unwrap();
    assert_eq!(ours.len(), theirs.len());
    let scale = theirs.iter().fold(0f32, |m, x| m.max(x.abs()));
    let off = ours.iter().zip(theirs).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
    assert!(off <= 1e-3 * scale, "logits are off by {off} of {scale}");

    let settings = Settings {
        max_tokens: greedy.len(),
        sampling: Sampling::Greedy,
        seed: 0,
        stop: Vec::new(),
        ends: tokenizer.ends().to_vec(),
    };
    let generated = generator.generate(&prompt, tokenizer, &settings, &mut |_| true).unwrap();
    assert_eq!(generated.ids, greedy, "{}", generated.text);
    assert_eq!(generated.end, End::Length);
    assert_eq!(generated.text, tokenizer.decode(&greedy).unwrap());
}
