//! `--quiet`: notes and progress are left out, results, warnings and errors stay. Excerpts fit the terminal.

mod common;

use common::{file, salient, salient_with, told, words};

#[test]
fn notes_are_left_out_and_results_stay() {
    let call = "run examples/variants/soft_cap.attn --random --set B=1";
    let (loud, quiet) = (words(call), words(&format!("{call} --quiet")));
    assert_eq!((loud.code, quiet.code), (Some(0), Some(0)), "{}{}", loud.stderr, quiet.stderr);
    assert!(loud.stderr.starts_with("note: at `E = 8`, `H = 8` and `T = 8`"), "{}", loud.stderr);
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.stdout, loud.stdout);
    // Before the command, and by its short name.
    assert_eq!(words(&call.replace("run", "-q run")).stderr, "");
}

#[test]
fn every_command_takes_it_and_says_errors() {
    let help = words("--help").stdout;
    let commands = help.split("Commands:").nth(1).expect("the commands").lines().skip(1);
    let commands =
        commands.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    let mut seen = 0;
    for command in commands.filter(|command| *command != "help") {
        let ended = salient(&[command, "--quiet", "--no-such-flag"]);
        assert_eq!(ended.code, Some(2), "{command}");
        assert!(ended.stderr.contains("--no-such-flag"), "{command}: {}", ended.stderr);
        seen += 1;
    }
    assert!(seen > 15, "{help}");
    let wrong = "model m(x: f32[T]) { return z }";
    assert_eq!(told("check - --quiet", wrong).stderr, told("check -", wrong).stderr);
}

#[test]
fn warnings_stay() {
    let vain = "model m(x: f32[T], z: f32[T]) -> (y: f32[T]) {\n    return x\n}\n";
    let (loud, quiet) = (told("check -", vain), told("check --quiet -", vain));
    assert!(loud.stderr.starts_with("warning"), "{}", loud.stderr);
    assert_eq!(quiet.stderr, loud.stderr);
    let path = file("quiet.attn", "model m(x: f32[T]) -> (y: f32[T]) {return x}");
    let formatted = words(&format!("fmt {path} --quiet"));
    assert_eq!((formatted.code, formatted.stderr.as_str()), (Some(0), ""));
}

#[test]
fn excerpts_fit_the_columns_of_the_terminal() {
    let sums = (0..60).map(|n| format!("x + {n}.0")).collect::<Vec<_>>().join(" + ");
    let path =
        file("wide.attn", format!("model m(x: f32[T]) -> (y: f32[T]) {{\n    return {sums} + unknown\n}}\n"));
    let narrow = salient_with(&[("COLUMNS", "72")], &["check", &path]);
    assert_eq!(narrow.code, Some(1));
    let source =
        narrow.stderr.lines().find(|line| line.starts_with("2 │ ")).expect("the line of the mistake");
    assert!(source.contains("unknown") && source.contains('…'), "{}", narrow.stderr);
    assert!(source.chars().count() <= 72, "{}", narrow.stderr);
    // Where no terminal reads, the line is whole.
    assert!(salient(&["check", &path]).stderr.contains(&sums));
}
