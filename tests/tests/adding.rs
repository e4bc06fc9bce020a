//! What `docs/adding.md` names is there: files, tests, and what the code calls things.

use salient_tests::files::{files_under, root, text};
use std::collections::BTreeSet;

const DOCUMENT: &str = "docs/adding.md";

/// The document without its blocks of code, and those blocks of it that are commands.
fn prose_and_commands() -> (String, String) {
    let (mut prose, mut commands) = (String::new(), String::new());
    for (at, part) in text(DOCUMENT).split("```").enumerate() {
        if at % 2 == 0 {
            prose.push_str(part);
        } else if let Some(shell) = part.strip_prefix("sh\n") {
            commands.push_str(shell);
        }
    }
    (prose, commands)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// What the Rust files define by a keyword, and every word in them.
fn named() -> (BTreeSet<String>, BTreeSet<String>) {
    let below = |folder: &str| {
        files_under(folder, "rs").into_iter().map(|f| format!("{folder}/{f}")).collect::<Vec<_>>()
    };
    let (mut defined, mut all) = (BTreeSet::new(), BTreeSet::new());
    for file in [below("crates"), below("tests")].concat() {
        let code = text(&file);
        let mut before = "";
        for word in words(&code) {
            let keywords = ["fn", "enum", "struct", "const", "trait", "type", "mod", "macro_rules"];
            if keywords.contains(&before) {
                defined.insert(word.to_owned());
            }
            all.insert(word.to_owned());
            before = word;
        }
    }
    (defined, all)
}

#[test]
fn what_is_named_in_the_steps_is_there() {
    let (prose, _) = prose_and_commands();
    let (defined, all) = named();
    let is_there = |name: &str| {
        let mut parts: Vec<&str> = name.trim_end_matches("()").split("::").collect();
        let last = parts.pop().unwrap_or_default().trim_end_matches('!');
        if parts.is_empty() {
            defined.contains(last)
        } else {
            all.contains(last) && defined.contains(parts[0])
        }
    };
    let is_name = |word: &str| {
        let plain = word.trim_end_matches("()").trim_end_matches('!').replace("::", "");
        !plain.is_empty() && plain.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let quoted: Vec<&str> = prose.split('`').skip(1).step_by(2).collect();
    let is_path = |word: &str| word.contains('/') && !word.contains([' ', '(', '*']);
    let paths: Vec<&str> = quoted.iter().copied().filter(|word| is_path(word)).collect();
    let missing: Vec<&str> = paths.iter().copied().filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "no such files: {missing:?}");
    let names: Vec<&str> = quoted.into_iter().filter(|word| is_name(word)).collect();
    let missing: Vec<&str> = names.iter().copied().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "nothing is called {missing:?}");
    assert!(paths.len() > 10 && names.len() > 20, "{paths:?} {names:?}");
}

#[test]
fn the_tests_that_are_to_be_run_are_there() {
    let (_, commands) = prose_and_commands();
    let mut found = 0;
    for line in commands.lines().filter(|line| line.contains("cargo test")) {
        let all: Vec<&str> = line.split_whitespace().collect();
        let behind = |flag: &str| -> Vec<&str> {
            all.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1]).collect()
        };
        let folders: Vec<String> = behind("-p")
            .into_iter()
            .map(|name| if name == "salient-tests" { "tests".to_owned() } else { format!("crates/{name}") })
            .collect();
        for folder in &folders {
            assert!(root().join(folder).join("Cargo.toml").exists(), "{line}: no crate in {folder}");
        }
        for test in behind("--test") {
            let there = |folder: &String| {
                let tests = root().join(folder).join("tests");
                tests.join(format!("{test}.rs")).exists() || tests.join(test).join("main.rs").exists()
            };
            assert!(folders.iter().any(there), "{line}: no test `{test}`");
            found += 1;
        }
    }
    assert!(found > 3, "{commands}");
}
