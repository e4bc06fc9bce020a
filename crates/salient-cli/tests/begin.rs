//! What a new user meets first: a model to begin with, programs from standard input, completions and manual pages.

mod common;

use common::{Ended, file, salient, scratch, told, words};

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
    let ended = salient(&call);
    assert!(succeeds(&ended).contains("salient check "), "{}", ended.stdout);
    let path = path.to_str().expect("a path of tests");
    for command in ["check", "explain", "verify"] {
        succeeds(&salient(&[command, path]));
    }
    assert_eq!(succeeds(&salient(&["fmt", "--check", path])), "");
    assert!(succeeds(&salient(&["check", path])).ends_with("ok (model model_2_heads_of_mine)\n"));
    let again = salient(&call);
    assert!(refused(&again, 2).contains("cannot be written"), "{}", again.stderr);
    let other = salient(&["new", "model.py"]);
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

#[test]
fn inputs_are_spelt_out_in_the_call() {
    let model = file(
        "spelt.attn",
        "model m(x: f32[T, D], n: i64[T], keep: bool[T]) -> (y: f32[T, D]) {\n    return (if keep[..] then f32(n) else 0)[.., _] * x\n}\n",
    );
    let call = |x: &str, n: &str| {
        salient(&["run", &model, "--input", x, "--input", n, "--input", "keep=true,false"])
    };
    let ended = call("x=[[1, 2.5], [3, 4]]", "n=2,3");
    assert!(succeeds(&ended).contains("[[2.0 5.0]\n [0.0 0.0]]"), "{}", ended.stdout);
    let wrong = call("x=[[1, 2.5], [3, 4]]", "n=2,3.5");
    assert!(refused(&wrong, 2).starts_with("error: the input `n`: "), "{}", wrong.stderr);
    let ragged = call("x=[[1, 2.5], [3]]", "n=2,3");
    assert!(refused(&ragged, 2).contains("[[1, 2.5], [3]]"), "{}", ragged.stderr);
}

#[test]
fn what_is_not_given_is_drawn() {
    let run = |more: &str| words(&format!("run examples/variants/soft_cap.attn --random {more}"));
    let first = run("");
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(
        first.stderr,
        "note: at `B = 8`, `E = 8`, `H = 8` and `T = 8`, as nothing gives them; `--set` gives others\n"
    );
    assert!(first.stdout.contains("context: f32[8, 8, 8, 8]"), "{}", first.stdout);
    assert_eq!(run("").stdout, first.stdout, "the same seed draws the same");
    assert_ne!(run("2").stdout, first.stdout);
    let short = run("3 --set B=1 --set H=1 --set T=2 --set E=2 --draw v=ones");
    assert!(succeeds(&short).contains("[1.0 1.0]"), "{}", short.stdout);
    let wrong = run("--draw v=gauss");
    assert!(refused(&wrong, 2).contains("`gauss` is no kind of random numbers"), "{}", wrong.stderr);
    assert_eq!(words("run examples/variants/soft_cap.attn --draw v=ones").code, Some(2));
}
