//! Texts that go on: with and without state the same; every way in which a text ends.

mod common;

use common::{WORDS, model, tokenizer};
use salient::{Model, Weights};
use salient_text::{End, Generated, Generator, Sampling, Settings};

/// The next word is the one whose number is the sum of all numbers, plus one, modulo eight.
const ALL: &str = "model whole(ids: i64[B, T]) -> (logits: f32[B, T, 8]) {
    let total = cumsum[t](ids)
    let logits[b, t, v: 8] = if v == (total[b, t] + 1) % 8 then 1.0 else 0.0
    return logits
}";

/// As above, the sum being held.
const HELD: &str = "model held(ids: i64[B, T]) -> (logits: f32[B, 8]) {
    state before: i64[B]
    before = before + sum[t](ids)
    let logits[b, v: 8] = if v == (before[b] + 1) % 8 then 1.0 else 0.0
    return logits
}";

fn settings() -> Settings {
    Settings { max_tokens: 6, sampling: Sampling::Greedy, seed: 1, stop: Vec::new(), ends: Vec::new() }
}

/// What comes of a prompt, and the pieces that were shown.
fn generated(model: &Model, name: &str, prompt: &str, settings: &Settings) -> (Generated, Vec<String>) {
    let tokenizer = tokenizer(&format!("{name}_{}.json", model.graph().name()));
    let mut generator = Generator::new(model, Weights::none()).unwrap();
    let prompt = tokenizer.encode(prompt).unwrap().ids;
    let mut shown = Vec::new();
    let mut show = |piece: &str| {
        shown.push(piece.to_owned());
        true
    };
    let generated = generator.generate(&prompt, &tokenizer, settings, &mut show).unwrap();
    // A second time, on what the first has left behind.
    let again = generator.generate(&prompt, &tokenizer, settings, &mut |_| true).unwrap();
    assert_eq!(again.ids, generated.ids);
    (generated, shown)
}

/// The numbers that follow by the models' rule.
fn expected(prompt: &[u32], count: usize) -> Vec<u32> {
    let mut all = prompt.to_vec();
    for _ in 0..count {
        all.push((all.iter().sum::<u32>() + 1) % 8);
    }
    all.split_off(prompt.len())
}

#[test]
fn a_model_with_state_says_what_one_without_says() {
    for source in [ALL, HELD] {
        let model = model(source);
        let (generated, shown) = generated(&model, "state", "two five", &settings());
        assert_eq!(generated.ids, expected(&[2, 5], 6));
        assert_eq!(generated.end, End::Length);
        let words: Vec<&str> = generated.ids.iter().map(|id| WORDS[*id as usize]).collect();
        assert_eq!(generated.text, words.join(" "));
        assert_eq!(shown.concat(), generated.text);
        assert!(shown.len() >= 6, "the text is shown as it comes: {shown:?}");
    }
}

#[test]
fn a_state_is_given_new_ids_alone_and_forgets_another_text() {
    let model = model(HELD);
    let mut generator = Generator::new(&model, Weights::none()).unwrap();
    let mut next = |ids: &[u32]| {
        let logits = generator.logits(ids).unwrap();
        logits.iter().position(|l| *l == 1.0)
    };
    assert_eq!(next(&[2, 5]), Some(0));
    assert_eq!(next(&[2, 5, 1]), Some(1));
    assert_eq!(next(&[3, 5, 1, 1]), Some(3), "another text");
    assert_eq!(next(&[3]), Some(4), "the beginning of what is held");
    assert_eq!(next(&[3]), Some(4), "the same again");
}

#[test]
fn a_text_ends_at_an_id_before_a_stop_string_or_when_the_caller_has_enough() {
    let follow = expected(&[1], 6);
    let model = model(ALL);
    let (ended, _) = generated(&model, "ends", "one", &Settings { ends: vec![follow[2]], ..settings() });
    assert_eq!((ended.ids.as_slice(), ended.end), (&follow[..2], End::Token));

    let third = WORDS[follow[2] as usize];
    let stop = vec![format!(" {third}")];
    let (stopped, shown) = generated(&model, "stop", "one", &Settings { stop, ..settings() });
    let words: Vec<&str> = follow[..2].iter().map(|id| WORDS[*id as usize]).collect();
    assert_eq!((stopped.text.as_str(), stopped.end), (words.join(" ").as_str(), End::Stop));
    assert_eq!(shown.concat(), stopped.text);

    let tokenizer = tokenizer("caller.json");
    let mut generator = Generator::new(&model, Weights::none()).unwrap();
    let enough = generator.generate(&[1], &tokenizer, &settings(), &mut |_| false).unwrap();
    assert_eq!((enough.ids.len(), enough.end), (1, End::Caller));
    let none = generator.generate(&[], &tokenizer, &settings(), &mut |_| true).unwrap_err();
    assert_eq!(none.to_string(), "the tokenizer refuses the text: the prompt has no tokens");
}

#[test]
fn signatures_that_do_not_fit_are_named() {
    let refused = |source: &str| Generator::new(&model(source), Weights::none()).unwrap_err().to_string();
    assert_eq!(
        refused("model m(ids: i64[B, T], keep: bool[B, T]) -> (y: bool[B, T]) { return keep }"),
        "the model `m` has the input `keep`, which text has no value for; inputs of text are `ids`"
    );
    assert_eq!(
        refused("model m(ids: i64[B, T]) -> (x: i64[B, T], y: i64[B, T]) { return ids, ids + 1 }"),
        "the model `m` has no output `logits: f32[B, T, V]`"
    );
}
