//! Every row of the tables of operators runs on every engine, and lists that stand beside the tables say what the tables say.
//! `SALIENT_WRITE_DOCS=1` writes the lists anew.

use salient_front::{Sources, builtin_names};
use salient_ir::op::map::functions;
use salient_ir::op::{Curve, FUSED};
use salient_tests::case::Case;
use salient_tests::files::{root, text};

/// The names of the functions of one number.
fn names() -> Vec<&'static str> {
    functions().map(|row| row.name).collect()
}

/// In the one line of a file that has `mark`, what stands between `from` and `to` is `list`.
fn line_lists(file: &str, mark: &str, (from, to): (&str, &str), list: &str) {
    let document = text(file);
    let line = document.lines().find(|line| line.contains(mark)).expect("the line is there");
    let (before, rest) = line.split_once(from).expect("the list begins");
    let (found, after) = rest.split_once(to).expect("the list ends");
    if std::env::var_os("SALIENT_WRITE_DOCS").is_some() {
        let new = document.replace(line, &format!("{before}{from}{list}{to}{after}"));
        std::fs::write(root().join(file), new).expect("the file can be written");
        return;
    }
    assert_eq!(found, list, "{file}: run this test with SALIENT_WRITE_DOCS=1");
}

/// Runs a program with its directives in every way, against the oracle.
fn agrees(program: &str) {
    let mut sources = Sources::new();
    sources.add("row.attn", program);
    let case = Case::parse(program).expect("directives");
    case.check(&sources).unwrap_or_else(|why| panic!("{why}\n{program}"));
}

#[test]
fn the_tour_of_the_language_lists_every_function() {
    line_lists("docs/language.md", "`max(a, b)`, `min(a, b)`", ("- `", "`"), &names().join(" "));
}

#[test]
fn editors_colour_every_function() {
    let all: Vec<&str> = builtin_names().collect();
    let file = "editors/textmate/salient.tmLanguage.json";
    line_lists(file, "support.function.attn", (r"\\b(", ")"), &all.join("|"));
}

#[test]
fn every_function_runs_as_its_row_says() {
    for row in functions() {
        let total = row.curve.as_ref().is_none_or(Curve::is_total);
        let least = row.curve.map_or(-30.0, |c| c.from.max(-30.0) + 0.001);
        let greatest = if total { 30.0 } else { 10.0 };
        agrees(&format!(
            "//! run: T=70 seed=1\n//! run: T=1 seed=2\n//! input: x = floats({least:?}, {greatest:?})\n\
             model row(x: f32[T]) -> (y: f32[T], z: f32[T]) {{\n    return {0}(x), {0}(x * 0.01)\n}}\n",
            row.name
        ));
    }
}

#[test]
fn every_fused_operator_runs_as_its_row_says() {
    for row in FUSED {
        // Of which extents, ports and arguments there are: those of the scores, the values and the further score.
        let (values, sink) = (row.has_values(), row.sink);
        let some = |parts: [(&'static str, bool); 3]| -> Vec<&str> {
            parts.into_iter().filter(|(_, is)| *is).map(|(part, _)| part).collect()
        };
        let ports = some([("s: f32[T, J]", true), ("v: f32[J, F]", values), ("r: f32[T]", sink)]).join(", ");
        let args = some([("s[t, j]", true), ("v[j, f]", values), ("r[t]", sink)]).join(", ");
        let axes = some([("t", true), ("j", !row.reduces), ("f", values)]).join(", ");
        let [many, one] = [("F=9", values), ("F=1", values)].map(|(extent, is)| if is { extent } else { "" });
        agrees(&format!(
            "//! run: T=5 J=70 {many} seed=1\n//! run: T=1 J=1 {one} seed=2\n//! input: s = floats(0.1, 4)\n\
             model row({ports}) -> (y: f32[{}]) {{\n    let y[{axes}] = fused.{}[j]({args})\n    return y\n}}\n",
            axes.to_uppercase(),
            row.name
        ));
    }
}
