//! Snapshots of the project, in one place: `tests/tests/snapshots/KIND/NAME.snap`.
//!
//! Decides names and places; what is in a snapshot is the business of the test that takes it.

use crate::files::files_under;
use std::collections::BTreeSet;

/// Compares a text with the snapshot of that kind and name.
///
/// # Panics
/// They differ, or there is none and `INSTA_UPDATE` is `no`.
pub fn assert(kind: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(format!("{}/tests/snapshots/{kind}", env!("CARGO_MANIFEST_DIR")));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(file_name(name), text));
}

/// The name of a snapshot for a path: folders become `__`.
fn file_name(name: &str) -> String {
    name.replace('/', "__")
}

/// Compares the snapshots of a kind with the names that take one.
///
/// # Panics
/// A snapshot belongs to no name, or a name has no snapshot.
pub fn assert_all_referenced(kind: &str, names: impl IntoIterator<Item = String>) {
    let there: BTreeSet<String> =
        files_under(&format!("tests/tests/snapshots/{kind}"), "snap").into_iter().collect();
    let wanted: BTreeSet<String> = names.into_iter().map(|n| format!("{}.snap", file_name(&n))).collect();
    let unreferenced: Vec<_> = there.difference(&wanted).collect();
    let missing: Vec<_> = wanted.difference(&there).collect();
    assert!(unreferenced.is_empty(), "snapshots that nothing takes: {unreferenced:?}");
    assert!(missing.is_empty(), "snapshots that are not there: {missing:?}");
}
