//! The tables: families beside the attention that they are compared with, and the worst rows of all.

use super::measure::{ALLOWED, Peak, Row, Times};
use super::programs::FAMILIES;
use salient_tests::files::{root, text as text_of};
use std::fmt::Write;

const PAGE: &str = "docs/benchmarks.md";
/// The section of the page that is replaced.
const HEADING: &str = "## Every spelling and variant, fused beside unfused";

/// Both tables with what they show and the arguments that gave them, as Markdown.
pub(crate) fn text(rows: &[Row], peak: &Peak, worst: usize, arguments: &str) -> String {
    let mut out =
        format!("{HEADING}\n\n    cargo bench -p salient-tests --bench variants -- {arguments}\n\n");
    let above = rows.iter().filter(|row| row.ratio() > ALLOWED).count();
    let _ = writeln!(
        out,
        "{} rows of {} programs: B = 1, H = 4, E = 64, milliseconds by the minima (medians). Fused code takes more than {ALLOWED} \
         times as long as unfused code in {above} of them; rows beyond \
         what is allowed had more turns. One core's fused multiply-add peak between the rows: {:.1} to {:.1} GF/s.\n",
        rows.len(),
        names(rows),
        peak.least,
        peak.most,
    );
    out.push_str(&families(rows));
    out.push_str(&worst_rows(rows, worst));
    out
}

fn names(rows: &[Row]) -> usize {
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// A line for each family at each length and number of threads: its slowest spelling beside the attention of its shape and mask.
fn families(rows: &[Row]) -> String {
    let mut out = "| family | T | threads | spellings | slowest, of the attention of its shape and mask | allowed | worst of unfused |\n\
                   |---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut lines: Vec<(f64, String)> = Vec::new();
    for (family, _, allowed) in FAMILIES {
        let mut of: Vec<&Row> = rows.iter().filter(|row| row.family == Some(family)).collect();
        of.sort_by_key(|row| (row.length, row.threads));
        for group in of.chunk_by(|a, b| (a.length, a.threads) == (b.length, b.threads)) {
            let slowest = most(group, |row| row.of_canonical().unwrap_or(0.0));
            let beside = slowest.of_canonical().unwrap_or(0.0);
            let line = format!(
                "| {family} | {} | {} | {} | {beside:.2} {} | {} | {:.2} |\n",
                slowest.length,
                slowest.threads,
                group.len(),
                spelling(slowest),
                allowed.map_or("".to_owned(), |n| n.to_string()),
                most(group, |row| row.ratio()).ratio(),
            );
            lines.push((beside / allowed.unwrap_or(f64::INFINITY), line));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    lines.sort_by(|a, b| b.0.total_cmp(&a.0));
    out.extend(lines.into_iter().map(|(_, line)| line));
    out.push('\n');
    out
}

fn most<'r>(rows: &[&'r Row], of: impl Fn(&Row) -> f64) -> &'r Row {
    rows.iter().max_by(|a, b| of(a).total_cmp(&of(b))).expect("a group has rows")
}

/// The name of a spelling in its family.
fn spelling(row: &Row) -> &str {
    row.name.rsplit_once('/').map_or(&*row.name, |(_, spelling)| spelling)
}

/// The rows in which fused code takes longest beside unfused code, the worst first.
fn worst_rows(rows: &[Row], worst: usize) -> String {
    let mut out =
        "| program | T | threads | fused, ms | unfused, ms | fused of unfused |\n|---|---|---|---|---|---|\n"
            .to_owned();
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    for row in rows.into_iter().take(worst) {
        let Row { name, length, threads, .. } = row;
        let (fused, unfused) = (shown(row.fused), shown(row.unfused));
        let _ = writeln!(out, "| {name} | {length} | {threads} | {fused} | {unfused} | {:.2} |", row.ratio());
    }
    out
}

fn shown(times: Times) -> String {
    format!("{:.3} ({:.3})", times.least, times.median)
}

/// Puts the section into the page, in the place of the one that is there or at the end.
pub(crate) fn write(section: &str) -> Result<(), String> {
    let page = text_of(PAGE);
    let (before, rest) = page.split_once(HEADING).unwrap_or((&page, ""));
    let after = rest.find("\n## ").map_or("", |at| &rest[at..]);
    let page = format!("{}\n\n{}\n{after}", before.trim_end(), section.trim_end());
    std::fs::write(root().join(PAGE), page).map_err(|e| format!("{PAGE}: {e}"))
}
