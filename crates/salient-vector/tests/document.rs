//! `docs/vector.md` is what the table says. `SALIENT_WRITE_DOCS=1` writes it anew.

use std::path::Path;

#[test]
fn the_document_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vector.md");
    let text = salient_vector::op::document();
    if std::env::var_os("SALIENT_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).expect("docs can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/vector.md is not what the table says: run this test with SALIENT_WRITE_DOCS=1"
    );
}
