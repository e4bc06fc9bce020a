//! The cases: one program a file, run in every way, with the stages that its directives ask for in one snapshot.
//!
//! What the directives are is told in [`salient_tests::case`].

use salient_tests::case::Case;
use salient_tests::files::{files_under, sources, text};
use salient_tests::{snapshot, sweep};

const FOLDER: &str = "tests/cases";

/// `THEME/NAME` of every case.
fn names() -> Vec<String> {
    let stem = |file: String| file.strip_suffix(".attn").expect("listed by it").to_owned();
    files_under(FOLDER, "attn").into_iter().map(stem).collect()
}

#[test]
fn cases() {
    sweep::each(&names(), |name| {
        let path = format!("{FOLDER}/{name}.attn");
        let case = Case::parse(&text(&path))?;
        // A program that is to be refused may not even parse.
        let sources = match sources(&path) {
            Err(why) if case.error => {
                snapshot::assert("cases", name, &why);
                return Ok(());
            }
            other => other?,
        };
        if let Some(shown) = case.check(&sources)? {
            snapshot::assert("cases", name, &shown);
        }
        Ok(())
    });
}

#[test]
fn every_snapshot_belongs_to_a_case() {
    let shown = names().into_iter().filter(|name| {
        let case =
            Case::parse(&text(&format!("{FOLDER}/{name}.attn"))).unwrap_or_else(|e| panic!("{name}: {e}"));
        case.error || !case.show.is_empty()
    });
    snapshot::assert_all_referenced("cases", shown);
}

#[test]
fn cases_stand_in_a_theme() {
    for name in names() {
        assert_eq!(name.split('/').count(), 2, "{name}: a case is THEME/NAME.attn");
    }
}
