//! What the optimiser did to a model and why: the fusion certificate, for people.
//!
//! Only puts into words what the optimiser and the scheduler report; nothing is decided here.

use crate::error::Error;
use crate::options::Options;
use crate::pipeline::{lower, optimise, schedule};
use salient_front::Sources;
use salient_ir::{Graph, Name, Origin};
use salient_opt::rules::{Row, rows};
use salient_opt::{Miss, Optimised, Stop};
use std::fmt::Write;

/// The explanation of a model: what fused, by which rules, what did not and for want of what, and the kernels.
///
/// # Errors
/// As [`lower`].
pub fn explain(sources: &Sources, options: &Options) -> Result<String, Error> {
    let graph = lower(sources, options)?.graph;
    let optimised = optimise(&graph, options);
    let mut out = summary(&graph, &optimised);
    for c in &optimised.report.certificates {
        let title = format!("{} is fused.{}", named(&c.name), c.op.info().name);
        section(&mut out, sources, &title, c.origin);
        for rule in &c.rules {
            line(&mut out, &by_rule(rule));
        }
        unproved(&mut out, &c.not_proved);
    }
    for miss in &optimised.report.misses {
        out.push_str(&missed(sources, miss));
    }
    let program = schedule(&optimised.graph, options);
    out.push_str("\nkernels\n");
    for kernel in &program.kernels {
        line(&mut out, &format!("{} {}: {}", kernel.kind.name(), kernel.name, kernel.fuses.join(", ")));
    }
    Ok(out)
}

/// Why sums of weighted values did not fuse, if there are any.
pub(crate) fn misses(sources: &Sources, misses: &[Miss]) -> Option<String> {
    let text: String = misses.iter().map(|m| missed(sources, m)).collect();
    (!text.is_empty()).then(|| text.trim().to_owned())
}

fn summary(graph: &Graph, optimised: &Optimised) -> String {
    let report = &optimised.report;
    let end = match report.stop {
        Stop::Saturated => "no rule had anything left to do".to_owned(),
        Stop::Nodes => "it met the limit on e-nodes: more may be possible".to_owned(),
        Stop::Iterations => "it met the limit on rounds: more may be possible".to_owned(),
    };
    format!(
        "model {}: {} operators became {}\n  {} rounds, {} e-nodes in {} classes; {end}\n",
        graph.name(),
        graph.len(),
        optimised.graph.len(),
        report.iterations,
        report.nodes,
        report.classes,
    )
}

fn missed(sources: &Sources, miss: &Miss) -> String {
    let mut out = String::new();
    let title = format!("{} stays a sum apart from its weights", named(&miss.name));
    section(&mut out, sources, &title, miss.origin);
    if miss.not_proved.is_empty() {
        line(&mut out, "no rule matches what stands there");
    }
    unproved(&mut out, &miss.not_proved);
    out
}

fn unproved(out: &mut String, conditions: &[(&'static str, String)]) {
    for (rule, condition) in conditions {
        line(out, &format!("not by {rule}: not proved that {condition}"));
    }
}

/// A rule with its sense of equality and its mathematics.
fn by_rule(name: &str) -> String {
    let row: Option<&Row> = rows().find(|r| r.name == name);
    match row {
        Some(row) => format!("by {name} ({}): {}", row.holds.name(), row.why),
        None => format!("by {name}"),
    }
}

fn named(name: &Option<Name>) -> String {
    name.as_ref().map_or_else(|| "an unnamed value".to_owned(), |n| format!("`{n}`"))
}

fn section(out: &mut String, sources: &Sources, title: &str, origin: Option<Origin>) {
    let place = origin.map_or_else(String::new, |origin| {
        let (file, line, column) = sources.position(sources.span(origin));
        format!(" ({file}:{line}:{column})")
    });
    writeln!(out, "\n{title}{place}").expect("a string grows");
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "  {text}").expect("a string grows");
}
