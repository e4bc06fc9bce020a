//! Snapshots of models: what they catch, in words, and what makes no difference to them.

use salient::snapshot::Snapshot;
use salient::snapshot::changes::changes;
use salient::snapshot::facts::{Facts, Kind};
use salient::{Fp, Isa, IsaChoice, Machine, Options, Sources, THREADING, TILING, Tuning};

/// Four layers of causal attention.
const LAYERS: &str = "
block attend[H](x: f32[B, T, D]) -> f32[B, T, D] {
    let q = split_heads[H](linear[D](x) as query)
    let k = split_heads[H](linear[D](x) as key)
    let v = split_heads[H](linear[D](x) as value)
    let keep[i: T, j: T] = j <= i
    let s[b, h, i, j] = sum[e](q[b, h, i, e] * k[b, h, j, e]) / sqrt(D / H)
    let p = softmax(if keep then s else -inf)
    let y = p @ v
    return linear[D](merge_heads(y)) as out
}

model decoder[D = 64, H = 4, L = 4](x: f32[B, T, D]) -> (y: f32[B, T, D]) {
    let y = x
    for l in 0..L {
        y = y + attend[H](y) as layers.{l}
    }
    return y
}
";

/// The same, of which the third attends by another block.
fn with_another_third(replaced: &str, by: &str) -> String {
    let (block, model) = LAYERS.split_once("model").expect("a block and a model");
    let other = block.replace("block attend", "block other").replace(replaced, by);
    assert!(other.contains(by), "{replaced}");
    let call = "y = y + attend[H](y) as layers.{l}";
    let choice =
        "if l == 2 { y = y + other[H](y) as layers.{l} } else { y = y + attend[H](y) as layers.{l} }";
    format!("{block}{other}model{}", model.replace(call, choice))
}

fn snapshot_with(source: &str, options: &Options) -> Snapshot {
    let mut sources = Sources::new();
    sources.add("m.attn", source);
    Snapshot::of(&sources, options).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn snapshot(source: &str) -> Snapshot {
    snapshot_with(source, &Options::default())
}

/// What is said of an edit; the text always tells it too.
fn said(before: &str, after: &str) -> Vec<String> {
    let [before, after] = [before, after].map(snapshot);
    assert_ne!(before.text, after.text);
    let kept = Facts::parse(&before.text).expect("it reads what it wrote");
    changes(&kept, &after.facts)
}

fn assert_said(said: &[String], parts: &[&str]) {
    let is_said = said.iter().any(|sentence| parts.iter().all(|part| sentence.contains(part)));
    assert!(is_said, "no sentence has {parts:?}:\n{}", said.join("\n"));
}

#[test]
fn the_facts_are_read_as_they_were_written() {
    for source in [LAYERS.to_owned(), with_another_third("p @ v", "abs(p) @ v")] {
        let taken = snapshot(&source);
        assert_eq!(Facts::parse(&taken.text).expect("facts"), taken.facts);
    }
    let facts = snapshot(LAYERS).facts;
    let attentions = facts.models[0].findings.iter().filter(|found| found.kind == Kind::Attention);
    let layers: Vec<usize> =
        attentions.filter_map(|found| found.layer.as_ref()).map(|layer| layer.number).collect();
    assert_eq!(layers, [0, 1, 2, 3]);
    assert!(facts.to_string().contains("{ at = \"layers.{0 .. 4}\", name = \"y\""), "{facts}");
}

#[test]
fn a_spelling_that_stops_fusing_is_told_with_its_layer_and_a_reason() {
    let spelled = with_another_third(
        "let y = p @ v",
        "let ranks[b, h, i, j] = cumsum[i](p[b, h, i, j])\n    let y = softmax(ranks) @ v",
    );
    let said = said(LAYERS, &spelled);
    assert!(said[0].starts_with("layer 2 (`layers.2`): attention `y` no longer fuses, because "), "{said:?}");
    assert_said(&said, &["`s` is stored, 4 * B * T * T elements: `ranks` is its running sum"]);
    assert_said(&said, &["price ", "× of before"]);
}

#[test]
fn an_attention_that_is_lost_in_every_layer_is_told_once() {
    let spelled =
        LAYERS.replace("let y = p @ v", "let y[b, h, i, e] = sum[j](abs(p[b, h, i, j] - v[b, h, j, e]))");
    let said = said(LAYERS, &spelled);
    let start = "layers 0 to 3 (`layers.{0 .. 4}`): attention `y` no longer fuses, because ";
    assert!(said[0].starts_with(start), "{said:?}");
    assert_said(&said, &["attention `y` no longer fuses, because `s` is stored"]);
}

#[test]
fn a_mask_that_stops_skipping_tiles_of_keys_is_told() {
    let spelled = with_another_third("= j <= i", "= j * j <= i * i + 10000000");
    let said = said(LAYERS, &spelled);
    assert_said(&said, &["layer 2", "attention `y` "]);
    let unmasked = said_of_one("if keep then s else -inf", "s");
    assert_said(&unmasked, &["attention `y` no longer skips tiles of keys", "0 .. T", "0 .. t + 1"]);
}

/// What is said where all layers change.
fn said_of_one(replaced: &str, by: &str) -> Vec<String> {
    said(LAYERS, &LAYERS.replace(replaced, by))
}

#[test]
fn a_new_array_for_every_pair_of_positions_is_told() {
    let one = "model m(q: f32[T, E], k: f32[T, E], v: f32[T, E]) -> (y: f32[T, E]) {
        let p = softmax(q @ k.T)
        let y = p @ v
        return y
    }";
    let both =
        one.replace("(y: f32[T, E])", "(y: f32[T, E], p: f32[T, T])").replace("return y", "return y, p");
    assert_said(&said(one, &both), &["`p` is stored, T * T elements: the model returns it as `p`"]);
    assert_said(&said(&both, one), &["`p` is no longer stored"]);
    // One that is no part of an attention.
    let small = "model m(x: f32[T, E]) -> (y: f32[T, E]) {
        let w[i: T, j: T] = sin(f32(i * j))
        return w @ x
    }";
    let large = small.replace("return w", "return cumsum[i](cumsum[j](w))");
    assert_said(&said(small, &large), &["is stored, T * T elements: it grows faster than T"]);
}

#[test]
fn a_changed_price_is_told_with_its_factor() {
    let dearer = "tanh(s)";
    let said = said_of_one("then s else", &format!("then {dearer} else"));
    assert_said(&said, &["price ", "× of before", " ms, was "]);
    let [before, after] = [LAYERS, &LAYERS.replace("then s else", "then tanh(s) else")].map(snapshot);
    let [before, after] = [before, after].map(|of| of.facts.models[0].price_us);
    assert!(after > before, "{after} {before}");
}

#[test]
fn a_model_that_is_new_or_gone_is_told() {
    let two = format!("{LAYERS}\nmodel second(x: f32[T]) -> (y: f32[T]) {{\n    return x + 1\n}}\n");
    assert_eq!(said(LAYERS, &two), ["the model `second` is new"]);
    assert_eq!(said(&two, LAYERS), ["the model `second` is gone"]);
}

#[test]
fn flags_that_change_plans_are_told() {
    let strict = Options { fp: Fp::Strict, ..Options::default() };
    let said = changes(&snapshot(LAYERS).facts, &snapshot_with(LAYERS, &strict).facts);
    assert_said(&said, &["the call has `--fp strict`; the snapshot was made with no flags"]);
}

#[test]
fn comments_and_lines_that_move_make_no_difference() {
    let moved =
        format!("// A comment.\n\n\n{}", LAYERS.replace("    let keep", "\n    // The mask.\n    let keep"));
    assert_eq!(snapshot(LAYERS).text, snapshot(&moved).text);
}

#[test]
fn tiles_machine_vectors_and_threads_make_no_difference() {
    let expected = snapshot(LAYERS).text;
    for isa in Isa::ALL {
        for threads in [1, 3] {
            let options = Options { isa: IsaChoice::Only(isa), threads: Some(threads), ..Options::default() };
            assert_eq!(snapshot_with(LAYERS, &options).text, expected, "{isa} {threads}");
        }
    }
    let mut tuning =
        Tuning { peaks: Machine { flops: 1e12, bytes: 1e9, ..Machine::default() }, ..Tuning::default() };
    for isa in Isa::ALL {
        for knob in TILING {
            (knob.set)(tuning.machine.of_mut(isa), knob.range.0);
        }
    }
    for knob in THREADING {
        (knob.set)(&mut tuning.machine.threading, knob.range.1);
    }
    let options = Options { tuning, ..Options::default() };
    assert_eq!(snapshot_with(LAYERS, &options).text, expected);
}

#[test]
fn facts_that_are_none_are_refused() {
    for (text, why) in [
        ("", "it does not say its version"),
        ("snapshot = 2\n", "it has version 2, and this is version 1"),
        ("snapshot = 1\n[[models]]\nname = 3\n", "a model lacks a key"),
    ] {
        let refused = Facts::parse(text).expect_err("no facts");
        assert!(refused.contains(why), "{refused}");
    }
    assert!(Facts::parse("snapshot = [").is_err());
    let text = snapshot(LAYERS).text;
    let endless = text.replace("layers.{0 .. 4}", "layers.{0 .. 99999999999}");
    assert_ne!(text, endless);
    assert!(Facts::parse(&endless).is_err());
    for end in (0..text.len().min(1500)).step_by(7).filter(|end| text.is_char_boundary(*end)) {
        drop(Facts::parse(&text[..end]));
    }
}
