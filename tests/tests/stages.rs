//! What becomes of each example: its graph, its fused graph and its kernels, to be read in review.

use salient::{Isa, IsaChoice, Options, Stage, Timings, models, print_stage};
use salient_tests::examples::{is_published, settings};
use salient_tests::files::{files_under, sources};
use salient_tests::{snapshot, sweep};

/// The stages that are shown of an example; of a published model, which is long, what it comes to.
fn shown(name: &str) -> &'static [Stage] {
    if is_published(name) { &[Stage::Kernels] } else { &[Stage::Graph, Stage::Fused, Stage::Kernels] }
}

/// Every model of every example: the path of its file without the extension, and its name.
fn examples() -> Vec<(String, String)> {
    let mut out = Vec::new();
    for file in files_under("examples", "attn") {
        let stem = file.strip_suffix(".attn").expect("listed by it");
        let sources = sources(&format!("examples/{file}")).unwrap_or_else(|e| panic!("{e}"));
        let names = models(&sources).unwrap_or_else(|e| panic!("{e}"));
        match names.as_slice() {
            [one] => out.push((stem.to_owned(), one.clone())),
            several => out.extend(several.iter().map(|m| (format!("{stem}/{m}"), m.clone()))),
        }
    }
    out
}

#[test]
fn examples_become_what_was_reviewed() {
    let all = examples();
    let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
    sweep::each(&names, |name| {
        let (_, model) = all.iter().find(|(n, _)| n == name).expect("a name of the list");
        let file = files_under("examples", "attn").into_iter().find(|f| {
            let stem = f.strip_suffix(".attn").expect("listed by it");
            name == stem || name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('/'))
        });
        let sources = sources(&format!("examples/{}", file.expect("the file of the name")))?;
        for &stage in shown(name) {
            // The portable vectors: snapshots must not depend on the machine.
            let isa = IsaChoice::Only(Isa::Baseline);
            let options =
                Options { model: Some(model.clone()), isa, set: settings(name), ..Options::default() };
            let text =
                print_stage(&sources, stage, &options, &mut Timings::default()).map_err(|e| e.to_string())?;
            snapshot::assert("examples", &format!("{name}/{stage}"), &text);
        }
        Ok(())
    });
}

#[test]
fn every_snapshot_belongs_to_an_example() {
    let of = |(name, _): (String, String)| {
        shown(&name).iter().map(|stage| format!("{name}/{stage}")).collect::<Vec<_>>()
    };
    let names = examples().into_iter().flat_map(of);
    snapshot::assert_all_referenced("examples", names);
}
