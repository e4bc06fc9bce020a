//! `salient train`: what a run writes, how it goes on, and what is wrong with a call.

mod common;

use common::{file, salient, scratch, words};
use serde_json::Value;

const MODEL: &str = "
model train[V = 12, D = 8](ids: i64[B, T], labels: i64[B, T], rate: f32) -> (loss: f32) {
    let loss = cross_entropy(linear[V](embedding[V, D](ids) as table) as head, labels)
    for p, d in grad(loss, parameters) {
        p = adamw(p, d, rate) as opt.{p}
    }
    return loss
}

model next[V = 12, D = 8](ids: i64[B, T]) -> (logits: f32[B, T, V]) {
    return linear[V](embedding[V, D](ids) as table) as head
}

model still(ids: i64[B, T]) -> (loss: f32) {
    return total(f32(ids))
}
";

/// A text of twelve different characters.
fn text() -> String {
    "to be or not to be, no\n".repeat(60)
}

fn path(name: &str) -> String {
    scratch(name).display().to_string()
}

#[test]
fn a_run_leaves_weights_a_log_and_a_picture() {
    let (model, data) = (file("train.attn", MODEL), file("train.txt", text()));
    let (out, log, plot, letters) =
        (path("train-out.safetensors"), path("train.jsonl"), path("train.svg"), path("train-letters.json"));
    let ended = words(&format!(
        "train {model} --model train --data {data} --length 8 --batch 4 --steps 40 --rate 0.05 --schedule cosine \
         --warm-up 5 --val 0.2 --eval-every 20 --out {out} --log {log} --plot {plot} --write-tokenizer {letters} \
         --threads 1 --json"
    ));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["steps"], 40);
    assert_eq!(report["end"], "done");
    assert!(report["loss"].as_f64().unwrap() < 2.0, "{report}");
    assert!(report["validation"].as_f64().unwrap() < 2.0, "{report}");
    assert!(ended.stderr.contains("1380 characters, 9 different ones; 204 parameters"), "{}", ended.stderr);
    let lines: Vec<Value> = std::fs::read_to_string(&log)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.iter().filter(|line| line["results"]["loss"].is_number()).count(), 40);
    assert_eq!(lines.iter().filter(|line| line["validation"].is_number()).count(), 2);
    let is_above_zero = |line: &Value, name: &str| line[name].as_f64().is_some_and(|n| n > 0.0);
    for name in ["per_second", "of_peak"] {
        assert_eq!(lines.iter().filter(|line| is_above_zero(line, name)).count(), 40, "{name} of each step");
        assert!(is_above_zero(&report, name), "{report}");
    }
    // A step of so small a model does less than the machine can.
    assert!(report["of_peak"].as_f64().unwrap() < 1.0, "{report}");
    assert!(std::fs::read_to_string(&plot).unwrap().contains("validation"));
    let generated = salient(&[
        "generate",
        &model,
        "--model",
        "next",
        "--weights",
        &out,
        "--tokenizer",
        &letters,
        "--max-tokens",
        "3",
        "to b",
    ]);
    assert_eq!(generated.code, Some(0), "{}", generated.stderr);
}

#[test]
fn a_run_that_goes_on_is_the_run_that_was_not_interrupted() {
    let (model, data) = (file("resume.attn", MODEL), file("resume.txt", text()));
    let common =
        format!("train {model} --model train --data {data} --length 8 --batch 4 --rate 0.05 --seed 3");
    let (whole, part, rest) =
        (path("resume-whole.safetensors"), path("resume-part.safetensors"), path("resume-rest.safetensors"));
    let run = |flags: &str| {
        let ended = words(&format!("{common} {flags}"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.ends_with(" of peak\n"), "{}", ended.stdout);
    };
    run(&format!("--steps 30 --checkpoint {whole} --threads 2"));
    run(&format!("--steps 11 --checkpoint {part} --threads 2"));
    run(&format!("--steps 30 --resume {part} --checkpoint {rest} --threads 1"));
    assert!(std::fs::read(&whole).unwrap() == std::fs::read(&rest).unwrap(), "the same bits");
}

#[test]
fn weights_of_a_checkpoint_are_begun_with_and_others_named() {
    let (model, data) = (file("begin.attn", MODEL), file("begin.txt", text()));
    let (first, second) = (path("begin-first.safetensors"), path("begin-second.safetensors"));
    let run = |flags: &str| {
        let common = format!("train {model} --model train --data {data} --length 8 --batch 4 --seed 3");
        let ended = words(&format!("{common} {flags}"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    };
    // A checkpoint has states of the optimiser too, which are no parameters.
    run(&format!("--steps 5 --rate 0.05 --checkpoint {first}"));
    let said = run(&format!("--steps 1 --rate 0 --weights {first} --out {second}"));
    assert!(said.contains("the model does not use") && said.contains("`train.steps`"), "{said}");
    let [first, second] = [first, second].map(|path| salient::read_arrays(path).unwrap());
    assert!(second.iter().all(|(path, array)| first.get(path) == Some(array)) && second.len() == 3);
}

#[test]
fn a_wrong_call_is_told_what_is_wrong() {
    let (model, data) = (file("wrong.attn", MODEL), file("wrong.txt", text()));
    let odd = file("wrong.bin", [1, 2, 3]);
    let run = |flags: &str| {
        let ended = words(&format!("train {model} --steps 2 {flags}"));
        assert_ne!(ended.code, Some(0), "{flags}");
        ended.stderr
    };
    for (flags, said) in [
        (format!("--model train --data {data}"), "--length"),
        (format!("--model train --data {data} --length 5000"), "a window of 5000 tokens"),
        (format!("--model train --data {data} --length 500 --val 0.01"), "either part needs 501"),
        (
            format!("--model train --data {odd} --length 8"),
            "wrong.bin: 3 bytes are no tokens of two bytes each",
        ),
        (format!("--model train --data {data} --length 8 --resume {data}"), "wrong.txt"),
        (format!("--model still --data {data} --length 8"), "`still` moves no parameter"),
        (format!("--model next --data {data} --length 8"), "`next` moves no parameter"),
        (format!("--model train --data {data} --length 8 --input beta=1"), "--input beta"),
        (format!("--model train --data {data} --length 8 --batch 0"), "at least 1"),
        (format!("--model train --data {data} --length 8 --set V=3"), "index"),
    ] {
        let found = run(&flags);
        assert!(found.contains(said), "{flags}: {found}");
    }
}
