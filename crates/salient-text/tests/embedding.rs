//! Texts to vectors: the order of the texts and the division into batches do not matter; what does not fit is refused.

mod common;

use common::{file, json, model, tokenizer};
use salient::Weights;
use salient_text::{Embedder, TextError, Tokenizer};

const POOLED: &str = "model pooled(ids: i64[B, T], keep: bool[B, T]) -> (embedding: f32[B, 3]) {
    param table: f32[8, 3] = normal(1)
    return mean_pool(table[ids, :], keep)
}";

const UNPADDED: &str = "model unpadded(ids: i64[B, T]) -> (vectors: f32[B, 3]) {
    param table: f32[8, 3] = normal(1)
    let rows[b, t, d] = table[ids[b, t], d]
    return sum[t](rows) / T
}";

const TEXTS: [&str; 6] =
    ["one", "two three four five", "six", "one two", "seven seven seven seven seven", "three one"];

#[test]
fn batches_do_not_change_vectors() {
    let tokenizer = tokenizer("batches.json");
    let ids: Vec<Vec<u32>> = TEXTS.iter().map(|t| tokenizer.encode(t).unwrap().ids).collect();
    let mut expected = None;
    for source in [POOLED, UNPADDED] {
        let model = model(source);
        let mut embedder = Embedder::new(&model, Weights::seeded(1)).unwrap();
        for batch in [1, 2, 4, 100] {
            let mut done = Vec::new();
            let vectors = embedder.embed(&ids, batch, &mut |n| done.push(n)).unwrap();
            assert_eq!(vectors.shape(), [6, 3]);
            assert_eq!(done.last(), Some(&6), "progress ends where the work does");
            assert!(done.windows(2).all(|w| w[0] < w[1] && w[1] - w[0] <= batch), "{done:?}");
            let values = vectors.as_f32().unwrap().to_vec();
            let wanted = expected.get_or_insert_with(|| values.clone());
            let off = values.iter().zip(&*wanted).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
            assert!(off < 1e-6, "batches of {batch}: {off}");
        }
    }
    let vectors = expected.unwrap();
    assert_ne!(vectors[..3], vectors[3..6], "texts that differ have vectors that differ");
}

#[test]
fn signatures_that_do_not_fit_are_named() {
    let refused = |source: &str| Embedder::new(&model(source), Weights::seeded(1)).unwrap_err().to_string();
    assert_eq!(
        refused("model m(x: f32[T]) -> (y: f32[T]) { return x }"),
        "the model `m` has the input `x`, which text has no value for; inputs of text are `ids` and `keep`"
    );
    assert_eq!(
        refused("model m(ids: i64[T]) -> (y: i64[T]) { return ids }"),
        "the model `m` has no input `ids: i64[B, T]` for tokens"
    );
    assert_eq!(
        refused("model m(ids: i64[B, T], keep: i64[B, T]) -> (y: i64[B, T]) { return ids + keep }"),
        "the input `keep` of the model `m` is not bool[B, T]"
    );
    assert_eq!(
        refused("model m(ids: i64[B, T]) -> (y: i64[B, T]) { return ids }"),
        "the model `m` has no output `embedding: f32[B, D]`"
    );
}

#[test]
fn a_text_without_tokens_is_refused() {
    let model = model(POOLED);
    let mut embedder = Embedder::new(&model, Weights::seeded(1)).unwrap();
    let error = embedder.embed(&[vec![1], vec![]], 8, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "the tokenizer refuses the text: text 2 has no tokens");
    assert_eq!(embedder.embed(&[], 8, &mut |_| {}).unwrap().shape(), [0, 0]);
}

#[test]
fn a_text_is_cut_as_the_file_says_and_as_it_is_asked() {
    let mut made = Tokenizer::read(file("cut.json", json(Some(2)))).unwrap();
    let encoded = made.encode("one two three").unwrap();
    assert_eq!((encoded.ids, encoded.is_cut), (vec![1, 2], true));
    assert!(!made.encode("one two").unwrap().is_cut, "and nothing is padded");
    made.truncate(None).unwrap();
    assert_eq!(made.encode("one two three").unwrap().ids, [1, 2, 3]);
    made.truncate(Some(1)).unwrap();
    assert_eq!(made.encode("one two three").unwrap().ids, [1]);
    let error = made.truncate(Some(0)).unwrap_err().to_string();
    assert_eq!(error, "the tokenizer refuses the text: 0 tokens leave no room beside 0 special ones");

    // Special tokens stay around what is left.
    let around = json(Some(3)).replace(
        "\"post_processor\": null",
        "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"seven\", 7], \"cls\": [\"six\", 6]}",
    );
    let mut made = Tokenizer::read(file("around.json", around)).unwrap();
    assert_eq!(made.encode("one two").unwrap().ids, [6, 1, 7]);
    made.truncate(Some(4)).unwrap();
    assert_eq!(made.encode("one two").unwrap().ids, [6, 1, 2, 7]);
    assert!(made.truncate(Some(2)).is_err());
}

#[test]
fn files_that_are_no_tokenizer_are_named() {
    let missing = Tokenizer::read("no/such.json").unwrap_err();
    assert!(matches!(missing, TextError::Unreadable { .. }) && missing.is_call(), "{missing}");
    for (name, bytes) in
        [("none.json", &b"{}"[..]), ("none.gguf", b"GGUF"), ("none.txt", b""), ("none.bin", &[0xff; 64])]
    {
        let path = file(name, bytes);
        let error = Tokenizer::read(&path).unwrap_err();
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }
}
