//! What must be true of the repository as text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the workspace").to_owned()
}

/// Every file below the folders that hold what we wrote, with its text.
fn files(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut out = Vec::new();
    let mut waiting: Vec<PathBuf> =
        ["crates", "tests", "docs", "examples", "grammar"].iter().map(|d| root().join(d)).collect();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|e| endings.iter().any(|wanted| e == *wanted)) {
                let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                out.push((path, text));
            }
        }
    }
    out.sort();
    out
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = files(&["rs"])
        .into_iter()
        .map(|(path, text)| (text.lines().count(), path))
        .filter(|(lines, _)| *lines > 800)
        .map(|(lines, path)| format!("{}: {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "files of more than 800 lines: {long:#?}");
}

#[test]
fn no_file_names_a_machine() {
    let places = [["/ro", "ot/"].concat(), ["/ho", "me/"].concat(), ["/wo", "rk/"].concat()];
    for (path, text) in files(&["rs", "md", "attn", "toml", "pest", "snap"]) {
        for place in &places {
            assert!(!text.contains(place.as_str()), "{} names {place}", path.display());
        }
    }
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the root manifest");
    let section = manifest.split("[workspace.dependencies]").nth(1).expect("a list of dependencies");
    let section = section.split("\n[").next().expect("the list ends");
    // A comment stands for the lines up to the next blank line or comment; our own crates come first.
    let mut explained = false;
    for line in section.lines() {
        if line.starts_with('#') {
            explained = true;
        } else if line.trim().is_empty() {
            explained = false;
        } else if !line.starts_with("salient") {
            assert!(explained, "no reason is given for: {line}");
        }
    }
}

/// Names of functions marked as tests, and of cases that a macro makes tests of.
fn tests() -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for (_, text) in files(&["rs"]) {
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            if line == "#[test]" {
                marked = true;
            } else if let Some(rest) = line.strip_prefix("fn ") {
                if marked {
                    out.extend(rest.split(['(', '<']).next().map(str::to_owned));
                }
                marked = false;
            }
        }
    }
    out
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let tests = tests();
    let text = fs::read_to_string(root().join("docs/architecture.md")).expect("the architecture");
    assert!(text.lines().count() <= 300, "the architecture is read in one go");
    let quoted = text.split('`').skip(1).step_by(2);
    // Names of tests are sentences: nothing else in quotes has three underscores or more.
    let named: Vec<&str> = quoted.filter(|q| q.matches('_').count() >= 3 && !q.contains(' ')).collect();
    assert!(named.len() >= 20, "invariants name tests: {named:?}");
    for name in named {
        assert!(tests.contains(name), "there is no test `{name}`");
    }
}
