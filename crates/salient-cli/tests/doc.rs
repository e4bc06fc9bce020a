//! `salient doc`: what is shown of a name, of a word, and of the whole language.

mod common;

use common::{salient, words};

#[test]
fn a_name_shows_its_signature_meaning_and_example() {
    let ended = words("doc relu");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let expected = "relu: library\n\n    fn relu(x)\n\nmax(x, 0).\n\ndefinition:\n\n    fn relu(x) {\n        return max(x, 0)\n    }\n";
    assert_eq!(ended.stdout, expected);
    for (name, kind) in
        [("require", "keyword"), ("argmax", "built-in function"), ("-", "operator"), ("->", "operator")]
    {
        let ended = salient(&["doc", name]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.starts_with(&format!("{name}: {kind}\n")), "{}", ended.stdout);
        assert!(ended.stdout.contains("\nexample:\n"), "{}", ended.stdout);
    }
}

#[test]
fn a_word_lists_what_mentions_it_and_no_name_lists_everything() {
    let found = words("doc logarithm");
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    assert!(found.stdout.contains("  log "), "{}", found.stdout);
    assert!(!found.stdout.contains("require"), "{}", found.stdout);
    let all = words("doc").stdout;
    for kind in ["keyword", "operator", "built-in function", "library"] {
        assert!(all.lines().any(|line| line == kind), "{all}");
    }
}

#[test]
fn what_nothing_mentions_is_a_wrong_call() {
    let ended = words("doc sofmtax");
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("nothing in the language mentions `sofmtax`; did you mean `softmax`?"),
        "{}",
        ended.stderr
    );
    assert_eq!(salient(&["doc", ""]).code, Some(2));
}
