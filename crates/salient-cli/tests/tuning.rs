//! Tuning files: which one a command uses, and what is said of one that is not right.

mod common;

use common::{Ended, file, salient_with};
use salient::{Tuning, processor};

const EXPLAIN: [&str; 2] = ["explain", "examples/bench/product.attn"];

/// Explains a program with a value of the environment variable and further arguments.
fn explain(variable: &str, more: &[&str]) -> Ended {
    salient_with(&[("SALIENT_TUNING", variable)], &[&EXPLAIN, more].concat())
}

/// A file for this processor with 7 rows in a tile of attention.
fn right(name: &str) -> String {
    file(
        name,
        format!(
            "processor = \"{}\"\n[avx512]\nattention_rows = 7\n[baseline]\nattention_rows = 7\n",
            processor()
        ),
    )
}

#[test]
fn explain_says_whether_a_tuning_is_used() {
    let path = right("right.toml");
    let named = explain("default", &["--tuning", &path]);
    assert!(named.stdout.contains(&format!("tuned to this processor by {path}")), "{}", named.stdout);
    let variable = explain(&path, &[]);
    assert_eq!(variable.stdout, named.stdout);
    for defaults in [explain("default", &[]), explain(&path, &["--tuning", "default"])] {
        assert!(defaults.stdout.contains("not tuned"), "{}", defaults.stdout);
    }
}

#[test]
fn sizes_of_a_file_reach_the_kernels() {
    let path = right("sizes.toml");
    let args = ["ir", "examples/bench/one_head.attn", "--stage", "kernels", "--isa", "baseline"];
    let kernels = |tuning: &str| salient_with(&[("SALIENT_TUNING", tuning)], &args).stdout;
    assert!(kernels(&path).contains("let first = 7 * block"), "{}", kernels(&path));
    assert!(kernels("default").contains("let first = 32 * block"), "{}", kernels("default"));
}

#[test]
fn a_file_that_was_named_must_be_right() {
    let path = file("wrong.toml", "processor = \"another\"\n[avx512]\nattention_row = 7\nfew_keys = 0\n");
    let ended = explain("default", &["--tuning", &path]);
    assert_eq!(ended.code, Some(2));
    let expected = [
        format!("error: {path}:1: the file is for `another`, and this processor is `{}`", processor()),
        format!("error: {path}:3: `attention_row` is not known: did you mean `attention_rows`?"),
        format!(
            "error: {path}:4: `few_keys` is a whole number from 1 to 4096: keys of a tile where rows are few"
        ),
    ];
    assert_eq!(ended.stderr.lines().collect::<Vec<_>>(), expected);
    assert_eq!(explain("default", &["--tuning", "missing.toml"]).code, Some(2));
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let path = format!("{}/below.toml", file("no_folder", "a file"));
    let ended = salient_with(&[], &["tune", "--out", &path]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.starts_with(&format!("error: {path}: cannot be written: ")), "{}", ended.stderr);
}

/// Elsewhere the folder is not told by variables that a test can set.
#[cfg(target_os = "linux")]
#[test]
fn a_file_in_the_users_folder_is_read_and_one_that_is_broken_is_left_aside() {
    let folder = common::scratch("configuration");
    let home = folder.to_str().expect("a path of letters");
    std::fs::create_dir_all(folder.join("salient")).expect("a folder of the test's own");
    let path = folder.join("salient/tuning.toml");
    let explain = || salient_with(&[("SALIENT_TUNING", ""), ("XDG_CONFIG_HOME", home)], &EXPLAIN);
    std::fs::write(&path, Tuning::default().to_text()).expect("written");
    assert!(explain().stdout.contains("tuned to this processor"), "{}", explain().stdout);
    std::fs::write(&path, "processor = 3\n").expect("written");
    let ended = explain();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("tuning.toml:1: `processor` is a text in quotes"), "{}", ended.stderr);
    assert!(ended.stdout.contains("not tuned"), "{}", ended.stdout);
}
