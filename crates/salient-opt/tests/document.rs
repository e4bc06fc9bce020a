//! `docs/rules.md` is what the tables say. `SALIENT_WRITE_DOCS=1` writes it anew.

use std::path::Path;

#[test]
fn the_document_of_the_rules_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    let expected = salient_opt::rules::document();
    if std::env::var_os("SALIENT_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/rules.md is not what the tables say: run this test with SALIENT_WRITE_DOCS=1"
    );
}
