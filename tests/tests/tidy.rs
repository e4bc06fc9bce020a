//! What the project says of itself is so: documents name tests that exist, dependencies have reasons, files stay readable.

use salient_tests::files::{files_under, root, text};
use std::collections::BTreeSet;

/// Lines of a file above which it is reported, and above which it is refused.
const SOFT: usize = 500;
const HARD: usize = 800;

/// Every Rust file of the project.
fn rust_files() -> Vec<String> {
    let below = |folder: &str| {
        files_under(folder, "rs").into_iter().map(|f| format!("{folder}/{f}")).collect::<Vec<_>>()
    };
    [below("crates"), below("tests")].concat()
}

/// The names of all test functions.
fn tests() -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for file in rust_files() {
        let mut after_attribute = false;
        for line in text(&file).lines().map(str::trim) {
            if line == "#[test]" {
                after_attribute = true;
            } else if after_attribute && let Some(rest) = line.strip_prefix("fn ") {
                out.extend(rest.split('(').next().map(str::to_owned));
                after_attribute = false;
            }
        }
    }
    out
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether it could be the name of a test: several words.
fn is_test_name(word: &str) -> bool {
    word.matches('_').count() >= 2
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[test]
fn files_stay_readable() {
    let mut long = Vec::new();
    for file in rust_files() {
        let lines = text(&file).lines().count();
        if lines > SOFT {
            println!("{file} has {lines} lines, more than {SOFT}");
        }
        if lines > HARD {
            long.push(format!("{file} has {lines} lines, more than {HARD}"));
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// Lines of a function above which it is refused: a function is read at once.
const LINES: usize = 80;

/// The functions of a formatted file with bodies of more than a line, and how many lines each has.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let start = line.trim_start();
        let Some((before, rest)) = start.split_once("fn ") else { continue };
        let words = before.split_whitespace();
        let qualified = |word: &str| {
            ["const", "unsafe", "async", "extern", "\"C\""].contains(&word) || word.starts_with("pub")
        };
        if !words.map(|word| word.trim_end_matches(')')).all(|word| qualified(word) || word == "in") {
            continue;
        }
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        let indent = &line[..line.len() - start.len()];
        // A signature of several lines: its parameters stand deeper, then comes its closing parenthesis.
        let of_signature = |line: &str| {
            let rest = line.strip_prefix(indent).unwrap_or_default();
            rest.starts_with([' ', ')', '{']) || rest.starts_with("where")
        };
        let more = lines[at + 1..].iter().take_while(|line| of_signature(line));
        let mut signature = [line].into_iter().chain(more).enumerate();
        let Some((length, last)) = signature.find(|(_, line)| line.ends_with(['{', ';'])) else { continue };
        if last.ends_with('{') {
            let end = format!("{indent}}}");
            // What does not end so is no code, but the text of a program.
            let body = lines[at + length..].iter().position(|line| *line == end);
            found.extend(body.map(|body| (name, length + body + 1)));
        }
    }
    found
}

#[test]
fn functions_are_read_at_once() {
    let (mut long, mut all) = (Vec::new(), 0);
    for file in rust_files() {
        let text = text(&file);
        let functions = functions(&text);
        all += functions.len();
        for (name, lines) in functions {
            if lines > LINES {
                long.push(format!("`{name}` in {file} has {lines} lines, more than {LINES}"));
            }
        }
    }
    assert!(all > 1000, "the search finds {all} functions");
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// Entries of a folder of source code above which it is refused: what is in it is seen at once.
const ENTRIES: usize = 15;

/// The folders directly in one, by their path from the project's root, and how many entries it has in all.
fn entries_of(folder: &str) -> (Vec<String>, usize) {
    let entries: Vec<_> = std::fs::read_dir(root().join(folder))
        .unwrap_or_else(|e| panic!("{folder}: {e}"))
        .map(|entry| entry.expect("a folder that can be listed"))
        .collect();
    let folders = entries.iter().filter(|entry| entry.path().is_dir());
    (folders.map(|f| format!("{folder}/{}", f.file_name().to_string_lossy())).collect(), entries.len())
}

#[test]
fn folders_are_seen_at_once() {
    let mut crowded = Vec::new();
    let mut waiting: Vec<String> =
        entries_of("crates").0.into_iter().map(|name| format!("{name}/src")).collect();
    assert!(!waiting.is_empty(), "the search finds nothing");
    while let Some(folder) = waiting.pop() {
        let (folders, entries) = entries_of(&folder);
        waiting.extend(folders);
        if entries > ENTRIES {
            crowded.push(format!("{folder} has {entries} entries, more than {ENTRIES}"));
        }
    }
    assert!(crowded.is_empty(), "{}", crowded.join("\n"));
}

#[test]
fn nothing_is_left_to_do() {
    // Put together, so that this file does not hold them.
    let banned = ["todo", "unimplemented", "dbg"].map(|word| format!("{word}!("));
    let ignored = format!("#[{}", "ignore");
    for file in rust_files() {
        for (at, line) in text(&file).lines().enumerate() {
            let found = banned.iter().chain([&ignored]).find(|b| line.contains(b.as_str()));
            assert!(found.is_none(), "{file}:{}: {line}", at + 1);
        }
    }
}

#[test]
fn no_path_of_a_machine_is_written_down() {
    let roots = ["home", "Users", "root", "work", "tmp"].map(|r| format!("/{r}/"));
    let kinds = ["rs", "md", "attn", "toml", "snap", "pest", "yml", "json"];
    let folders = ["crates", "tests", "docs", "examples", "grammar"];
    let files = folders.iter().flat_map(|folder| {
        kinds
            .iter()
            .flat_map(move |k| files_under(folder, k).into_iter().map(move |f| format!("{folder}/{f}")))
    });
    for file in files.chain(["Cargo.toml".to_owned(), "README.md".to_owned()]) {
        for (at, line) in text(&file).lines().enumerate() {
            let starts = |r: &String| {
                line.match_indices(r.as_str())
                    .any(|(n, _)| !line[..n].ends_with(|c: char| c.is_alphanumeric() || "./~}_-".contains(c)))
            };
            let found = roots.iter().find(|r| starts(r));
            assert!(found.is_none(), "{file}:{}: {line}", at + 1);
        }
    }
}

/// What a crate is made of lies in its folder, so that its package is complete. (A link may stand for a file that is elsewhere.)
#[test]
fn crates_include_nothing_from_outside() {
    let mut found = 0;
    for file in files_under("crates", "rs") {
        let Some((_, inner)) = file.split_once("/src/") else { continue };
        for line in text(&format!("crates/{file}")).lines() {
            let mut included = ["include_str!(\"", "include_bytes!(\"", "grammar = \""].iter();
            let included = included.find_map(|start| line.split_once(start)?.1.split('"').next());
            // The README of the project is included in tests of documentation alone.
            let Some(path) = included.filter(|path| !path.ends_with("README.md")) else { continue };
            found += 1;
            let (up, down) = (path.matches("../").count(), inner.matches('/').count());
            assert!(up <= down, "crates/{file} includes {path}, which lies outside of its crate");
        }
    }
    assert!(found >= 2, "the search finds nothing");
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest = text("Cargo.toml");
    let section = manifest.split("[workspace.dependencies]").nth(1).expect("the section");
    let mut reason = false;
    for line in section.lines().take_while(|l| !l.starts_with('[')) {
        if line.starts_with('#') {
            reason = true;
        } else if line.trim().is_empty() {
            reason = false;
        } else if !line.contains("path = ") {
            assert!(reason, "no comment above `{line}` says why it is there");
        }
    }
    for file in files_under("crates", "toml").into_iter().filter(|f| f.ends_with("Cargo.toml")) {
        let manifest = text(&format!("crates/{file}"));
        let pinned = manifest.lines().find(|l| l.contains("version = \""));
        assert!(pinned.is_none(), "crates/{file}: {pinned:?} belongs into the workspace's manifest");
    }
}

#[test]
fn every_invariant_names_a_test() {
    let tests = tests();
    for file in ["docs/architecture.md", "docs/safety.md"] {
        let document = text(file);
        let mut named = 0;
        for item in document.split("\n- ").skip(1) {
            let item = item.split("\n\n").next().unwrap_or_default();
            let names: Vec<&str> = quoted(item).filter(|w| is_test_name(w)).collect();
            named += names.len();
            for name in names {
                assert!(tests.contains(name), "{file}: there is no test `{name}`");
            }
        }
        assert!(named > 0, "{file} names no test");
    }
}

#[test]
fn every_ruling_names_its_tests() {
    let files = ["rulings", "gradient_rulings", "contract"];
    let rulings: String = files.iter().map(|file| text(&format!("tests/tests/{file}.rs"))).collect();
    let document = text("docs/semantics.md");
    let rows = document.lines().filter(|l| l.starts_with("| ") && !l.ends_with("| tests |"));
    let mut named = BTreeSet::new();
    for row in rows {
        let cell = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = quoted(cell).collect();
        assert!(!names.is_empty(), "docs/semantics.md: no test in `{row}`");
        for name in names {
            assert!(
                rulings.contains(&format!("#[test]\nfn {name}()")),
                "docs/semantics.md: there is no test `{name}`"
            );
            named.insert(name.to_owned());
        }
    }
    let all = rulings.split("#[test]\nfn ").skip(1).filter_map(|t| t.split('(').next());
    let unnamed: Vec<&str> = all.filter(|t| !named.contains(*t)).collect();
    assert!(unnamed.is_empty(), "docs/semantics.md does not name {unnamed:?}");
}

/// What decides what is stored and how does not know what makes loops of it, and what both stand on knows neither.
#[test]
fn the_planner_does_not_know_the_emitter() {
    const ROOT: &str = "crates/salient-tile/src";
    let files = files_under(ROOT, "rs");
    let is_of = |file: &str, rooms: &[&str]| rooms.iter().any(|room| file.starts_with(room));
    let uses = |file: &str, room: &str| {
        let text = text(&format!("{ROOT}/{file}"));
        text.lines().any(|line| line.trim_start().starts_with(&format!("use crate::{room}")))
    };
    let above_emit = &["emit", "lib.rs"][..];
    let above_plan = &["emit", "plan", "verify", "lib.rs"][..];
    for (room, above) in [("emit", above_emit), ("plan", above_plan)] {
        let below = files.iter().filter(|file| !is_of(file, above));
        let wrong: Vec<_> = below.filter(|file| uses(file, room)).collect();
        assert!(wrong.is_empty(), "these use `{room}`, which stands on them: {wrong:?}");
        assert!(
            files.iter().any(|file| is_of(file, above) && uses(file, "plan")),
            "the search finds nothing"
        );
    }
}

/// The glossary says where things are: each of its files is there.
#[test]
fn the_glossary_names_files_that_there_are() {
    let glossary = text("docs/glossary.md");
    let named: BTreeSet<&str> = glossary.split('`').filter(|part| part.ends_with(".rs")).collect();
    assert!(named.len() > 20, "{named:?}");
    let there: BTreeSet<String> = rust_files().into_iter().collect();
    let missing: Vec<_> = named
        .into_iter()
        .filter(|file| {
            let whole =
                if file.starts_with("salient-") { String::new() } else { "salient-tile/src/".to_owned() };
            !there.contains(&format!("crates/{whole}{file}"))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
