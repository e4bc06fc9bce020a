//! The grammar for editors knows the language's words.

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The words between `\b(` and `)` in the grammar's patterns.
fn highlighted() -> Vec<String> {
    let text = read("editors/textmate/salient.tmLanguage.json");
    text.split("\\\\b(")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .flat_map(|(words, _)| words.split('|').map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[test]
fn every_keyword_is_highlighted() {
    let known = highlighted();
    let grammar = read("grammar/salient.pest");
    let keywords: Vec<&str> = grammar
        .lines()
        .filter(|l| l.starts_with("kw_"))
        .map(|l| l.split('"').nth(1).expect("a keyword in quotes"))
        .collect();
    assert!(keywords.len() > 20, "{keywords:?}");
    for word in keywords {
        assert!(known.iter().any(|k| k == word), "`{word}` is not highlighted");
    }
}

#[test]
fn every_type_and_reduction_is_highlighted() {
    let known = highlighted();
    let types = salient_ir::DType::ALL.iter().map(|d| d.name());
    let reductions = salient_ir::op::REDUCES.iter().map(|r| r.name);
    for word in types.chain(reductions) {
        assert!(known.iter().any(|k| k == word), "`{word}` is not highlighted");
    }
}
