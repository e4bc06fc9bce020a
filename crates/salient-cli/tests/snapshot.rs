//! `salient snapshot` as a user calls it: files, exit codes, and insta's tool for review.

mod common;

use common::{Ended, file, salient, salient_with, scratch};
use insta::Snapshot;
use std::fs;
use std::path::Path;

const CAUSAL: &str = "model m(q: f32[T, E], k: f32[T, E], v: f32[T, E]) -> (y: f32[T, E]) {
    let keep[i: T, j: T] = j <= i
    let y = softmax(if keep then q @ k.T / sqrt(E) else -inf) @ v
    return y
}
";

/// A source file of a test's own, in a folder where no snapshot is.
fn source(name: &str) -> String {
    let folder = scratch(name);
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).expect("the tests' folder can be written");
    file(&format!("{name}/m.attn"), CAUSAL)
}

fn without_mask(path: &str) {
    let edited = CAUSAL.replace("if keep then ", "").replace(" else -inf", "");
    let edited = edited.replace("    let keep[i: T, j: T] = j <= i\n", "");
    fs::write(path, edited).expect("the tests' folder can be written");
}

fn assert_code(ended: &Ended, code: i32) {
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_model_is_kept_compared_and_renewed() {
    let path = source("snapshot_renewed");
    let [kept, pending] = [".snap", ".snap.new"].map(|end| format!("{path}{end}"));

    let missing = salient(&["snapshot", &path]);
    assert_code(&missing, 1);
    let what_to_do = format!("{path} has no snapshot {kept}; `salient snapshot --accept {path}` writes it");
    assert!(missing.stderr.contains(&what_to_do), "{}", missing.stderr);
    assert!(!Path::new(&kept).exists());

    assert_code(&salient(&["snapshot", "--accept", &path]), 0);
    let same = salient(&["snapshot", &path]);
    assert_code(&same, 0);
    assert_eq!(same.stdout, format!("{path}: unchanged\n"));

    without_mask(&path);
    let changed = salient(&["snapshot", &path]);
    assert_code(&changed, 1);
    let head = changed.stdout.lines().nth(1).unwrap_or_default();
    let meaning =
        "  attention `y` no longer skips tiles of keys: rows visit the keys 0 .. T, and visited 0 .. t + 1";
    assert_eq!(head, meaning, "{}", changed.stdout);
    assert!(changed.stdout.contains("\n  price 1."), "{}", changed.stdout);
    assert!(changed.stdout.contains("\n-        over t_2 in 0 .. t + 1, rows t"), "{}", changed.stdout);
    assert!(!changed.stdout.contains('\x1b'), "colour is for terminals");
    assert!(Path::new(&pending).exists());

    let renewed = salient(&["snapshot", "--accept", &path]);
    assert_code(&renewed, 0);
    assert!(renewed.stdout.contains(meaning), "{}", renewed.stdout);
    assert!(!Path::new(&pending).exists());
    assert_code(&salient(&["snapshot", &path]), 0);
}

#[test]
fn what_insta_accepts_is_unchanged() {
    let path = source("snapshot_insta");
    let [kept, pending] = [".snap", ".snap.new"].map(|end| format!("{path}{end}"));
    assert_code(&salient(&["snapshot", "--accept", &path]), 0);
    without_mask(&path);
    assert_code(&salient(&["snapshot", &path]), 1);

    let new = Snapshot::from_file(Path::new(&pending)).expect("insta reads it");
    assert_eq!(new.metadata().source(), Some("m.attn"));
    assert_eq!(new.metadata().expression(), Some("salient snapshot m.attn"));
    // What its tool for review does where a snapshot is accepted.
    new.save(Path::new(&kept)).expect("insta writes it");
    fs::remove_file(&pending).expect("it was there");
    assert_code(&salient(&["snapshot", &path]), 0);
}

#[test]
fn all_files_are_compared_before_the_call_fails() {
    let [first, second] = ["snapshot_first", "snapshot_second"].map(source);
    let broken = file("snapshot_broken.attn", "model m(x: f32[T]) { return z }");
    assert_code(&salient(&["snapshot", "--accept", &second]), 0);
    let ended = salient(&["snapshot", &broken, &first, &second]);
    assert_code(&ended, 1);
    assert!(ended.stderr.contains('z') && ended.stderr.contains("has no snapshot"), "{}", ended.stderr);
    assert_eq!(ended.stdout, format!("{second}: unchanged\n"));
}

#[test]
fn a_tuning_makes_no_difference() {
    let path = source("snapshot_tuned");
    assert_code(&salient(&["snapshot", "--accept", &path]), 0);
    let tuning = file(
        "snapshot_tuning.toml",
        format!(
            "processor = \"{}\"\n[prices]\nflops_per_us = 7\n[avx2]\nattention_rows = 7\nfew_rows = 3\n[avx512]\nfew_rows = 3\n[baseline]\nfew_rows = 3\n",
            salient::processor()
        ),
    );
    let plan =
        |tuning: &str| salient_with(&[("SALIENT_TUNING", tuning)], &["ir", &path, "--stage", "plan"]).stdout;
    assert_ne!(plan(&tuning), plan("default"), "the tuning is one that changes plans");
    assert_code(&salient_with(&[("SALIENT_TUNING", &tuning)], &["snapshot", &path]), 0);
}

#[test]
fn a_snapshot_that_cannot_be_read_is_told_and_renewed() {
    let path = source("snapshot_unreadable");
    fs::write(format!("{path}.snap"), "---\nsource: m.attn\n---\n<<<<<<< HEAD\n").expect("it can be written");
    let ended = salient(&["snapshot", &path]);
    assert_code(&ended, 1);
    assert!(ended.stdout.contains("the facts of the old snapshot cannot be read: "), "{}", ended.stdout);
    assert_code(&salient(&["snapshot", "--accept", &path]), 0);
    assert_code(&salient(&["snapshot", &path]), 0);
}
