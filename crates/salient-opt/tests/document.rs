//! `docs/rules.md` and `docs/passes.md` are what the tables say. `SALIENT_WRITE_DOCS=1` writes them anew.

use std::path::Path;

fn is_up_to_date(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("SALIENT_WRITE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/{name} is not what the tables say: run this test with SALIENT_WRITE_DOCS=1"
    );
}

#[test]
fn the_document_of_the_rules_is_up_to_date() {
    is_up_to_date("rules.md", &salient_opt::rules::document());
}

#[test]
fn the_document_of_the_passes_is_up_to_date() {
    is_up_to_date("passes.md", &salient_opt::passes::document());
}
