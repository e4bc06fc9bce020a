//! What a new user meets first: a model to begin with, programs from standard input, completions and manual pages.

mod common;

use common::{Ended, scratch, told, words};

/// What a call that succeeds prints.
fn succeeds(ended: &Ended) -> &str {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    &ended.stdout
}

/// What a call that is refused with this code says.
fn refused(ended: &Ended, code: i32) -> &str {
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
    ended.stderr.trim_end()
}

#[test]
fn a_new_model_is_right_and_nothing_is_overwritten() {
    let path = scratch("2 heads-of-mine.attn");
    drop(std::fs::remove_file(&path));
    let without_ending = path.with_extension("");
    let call = ["new", without_ending.to_str().expect("a path of tests")];
    let ended = common::salient(&call);
    assert!(succeeds(&ended).contains("salient check "), "{}", ended.stdout);
    let path = path.to_str().expect("a path of tests");
    for command in ["check", "explain", "verify"] {
        succeeds(&common::salient(&[command, path]));
    }
    assert_eq!(succeeds(&common::salient(&["fmt", "--check", path])), "");
    assert!(succeeds(&common::salient(&["check", path])).ends_with("ok (model model_2_heads_of_mine)\n"));
    let again = common::salient(&call);
    assert!(refused(&again, 2).contains("cannot be written"), "{}", again.stderr);
    let other = common::salient(&["new", "model.py"]);
    assert_eq!(refused(&other, 2), "error: model.py: a model is a file `.attn`");
}

#[test]
fn programs_come_from_standard_input() {
    let program = "model m(x: f32[T]) -> (y: f32[T]) { return x*2 }";
    assert_eq!(succeeds(&told("check -", program)), "-: ok (model m)\n");
    let formatted = "model m(x: f32[T]) -> (y: f32[T]) { return x * 2 }\n";
    assert_eq!(succeeds(&told("fmt -", program)), formatted);
    assert!(succeeds(&told("ir --stage graph -", program)).contains("let y[t] = x[t] * 2.0"));
    let ended = told("check -", "model m(x: f32[T]) { return z }");
    assert!(refused(&ended, 1).contains("<stdin>:1:"), "{}", ended.stderr);
    assert_eq!(refused(&told("fmt --check -", program), 1), "error: <stdin> is not formatted");
}

#[test]
fn shells_and_man_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = words(&format!("completions {shell}"));
        assert!(succeeds(&text).contains("explain"), "{shell}");
    }
    let folder = scratch("man");
    succeeds(&words(&format!("completions --man {}", folder.display())));
    for page in ["salient.1", "salient-run.1", "salient-verify.1"] {
        let text = std::fs::read_to_string(folder.join(page)).expect("a page for each command");
        assert!(text.contains(".TH"), "{page}");
    }
    assert_eq!(words("completions").code, Some(2));
}

#[test]
fn commands_have_their_old_names() {
    let data = "examples/data/causal_self_attention.npz";
    assert_eq!(succeeds(&words(&format!("models {data}"))), succeeds(&words(&format!("inspect {data}"))));
    let help = words("--help");
    assert!(!succeeds(&help).contains("\n  serve"), "{}", help.stdout);
}

#[test]
fn colours_are_shown_where_they_are_asked_for() {
    let wrong = "model m(x: f32[T]) { return z }";
    assert!(!told("check -", wrong).stderr.contains('\u{1b}'));
    assert!(told("check - --color always", wrong).stderr.contains('\u{1b}'));
    assert!(!told("check - --color never", wrong).stderr.contains('\u{1b}'));
}
