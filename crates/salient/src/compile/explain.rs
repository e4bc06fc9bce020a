//! What the optimiser did to a model and why: the fusion certificate and the kernels with what they cost, for people.
//!
//! Only puts into words what the optimiser reports and the plan says; nothing is decided here.

use crate::compile::choose::{Candidates, Form, Reason, Verdict, WORTH_ANOTHER};
use crate::compile::options::Options;
use crate::compile::pairs::Findings;
use crate::compile::pipeline::{lanes, lower, optimise, verified};
use crate::report::cost::{Condition, Cost};
use crate::report::error::Error;
use crate::report::timings::{Step, Timings};
use salient_front::diag::{did_you_mean, render};
use salient_front::{Diagnostic, Severity, Sources};
use salient_ir::{Graph, NodeId, Origin, text};
use salient_opt::rules::{RuleRow, all_rules};
use salient_opt::{Optimised, Repeated, Report, Stop};
use salient_tile::plan::price::KernelPrice;
use salient_tile::plan::text::summary::Summary;
use std::fmt::Write;

/// The explanation of a model: what fused, by which rules, what did not and for want of what, and the kernels with what
/// they cost. With the name of a value, as the fused graph prints it, what concerns that value alone.
///
/// # Errors
/// As [`lower`]; [`Error::Source`] if the fused graph has no value of that name.
pub fn explain(
    sources: &Sources,
    options: &Options,
    node: Option<&str>,
    timings: &mut Timings,
) -> Result<String, Error> {
    let graph = timings.time(Step::Lower, || lower(sources, options))?.graph;
    let optimised = timings.time(Step::Optimise, || optimise(&graph, options));
    let candidates = Candidates::new(&graph, &optimised, options);
    let (plan, verdict) = timings.time(Step::Schedule, || candidates.choose(true));
    let planned = verified(&plan, options).summary();
    let price = plan.price(&verdict.sizes, &options.tuning.peaks).map(|price| price.kernels);
    let plan: Vec<Priced> =
        planned.into_iter().enumerate().map(|(at, of)| (of, price.as_ref().map(|p| p[at]))).collect();
    let words = Words::new(sources, &optimised);
    let costs = Costs { lanes: lanes(options) };
    match node {
        Some(name) => words.of_node(name, &plan, &costs),
        None => {
            let before = costs.of_call(Form::AsWritten.name(), &candidates.plan(Form::AsWritten).summary());
            let taken: Vec<Summary> = plan.iter().map(|(kernel, _)| kernel.clone()).collect();
            let after = costs.of_call(verdict.taken.name(), &taken);
            let tuned = match &options.tuning.origin {
                Some(file) => format!("  tuned to this processor by {file}\n"),
                None => "  not tuned: sizes and prices are those of a usual core (see `salient tune`)\n"
                    .to_owned(),
            };
            Ok([
                summary(&graph, &optimised),
                before,
                after,
                prices(&verdict),
                tuned,
                words.fusion(None),
                pairs(sources, &Findings::of_taken(&graph, &candidates, &verdict, options)),
                kernels(&plan, &costs),
            ]
            .concat())
        }
    }
}

/// Checks that every attention is fused, by the plan: no kernel stores an array with an element for every query and key that the
/// model does not ask for, and none computes the same scores more than once.
///
/// # Errors
/// [`Error::Unfused`] with what is stored or computed again, why, and what to write instead where that is known, and with the
/// conditions of rules that were not proved.
pub fn require_fused(sources: &Sources, graph: &Graph, options: &Options) -> Result<(), Error> {
    let optimised = optimise(graph, options);
    let candidates = Candidates::new(graph, &optimised, options);
    let findings = Findings::of_fused(graph, &candidates, options);
    if findings.is_fused() {
        return Ok(());
    }
    let words = Words::new(sources, &optimised);
    let mut text = render(&findings.diagnostics(sources, Severity::Error), sources, false);
    text.push_str(&words.missed(None));
    if optimised.report.stop != Stop::Saturated {
        line(&mut text, end(&optimised.report));
    }
    Err(Error::Unfused(text.trim().to_owned()))
}

/// What has an element for every query and key, and what is computed more than once.
fn pairs(sources: &Sources, findings: &Findings) -> String {
    let mut out = String::new();
    let asked_for = findings.asked_for(sources);
    asked_for.iter().for_each(|sentence| writeln!(out, "\n{sentence}").expect("a string grows"));
    let others = findings.diagnostics(sources, Severity::Warning);
    if !others.is_empty() {
        writeln!(out, "\n{}", render(&others, sources, false).trim_end()).expect("a string grows");
    }
    out
}

fn summary(graph: &Graph, optimised: &Optimised) -> String {
    let report = &optimised.report;
    let mut out = format!(
        "model {}: {} operators became {}\n  {} rounds, {} e-nodes in {} classes; {}\n",
        graph.name(),
        graph.len(),
        optimised.graph.len(),
        report.iterations,
        report.nodes,
        report.classes,
        end(report),
    );
    for Repeated { path, times } in &report.repeated {
        line(
            &mut out,
            &format!("the {times} blocks of `{path}` are equal: one was optimised, and is shown for all"),
        );
    }
    out
}

/// Why the search ended.
fn end(report: &Report) -> &'static str {
    match report.stop {
        Stop::Saturated => "no rule had anything left to do",
        Stop::Nodes => "the search met the limit on e-nodes: more may be possible",
        Stop::Iterations => "the search met the limit on rounds: more may be possible",
    }
}

/// A kernel with its price at the sizes of the verdict.
type Priced = (Summary, Option<KernelPrice>);

/// The prices of all forms of the plan, and which of them is taken.
fn prices(verdict: &Verdict) -> String {
    let mut out = String::new();
    let sizes: Vec<String> = verdict.sizes.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    let at = if sizes.is_empty() { String::new() } else { format!(" at {}", sizes.join(", ")) };
    for (form, seconds) in &verdict.prices {
        line(&mut out, &format!("price{at}: {}, {}", duration(*seconds), form.name()));
    }
    let much_less =
        format!("fused costs over {WORTH_ANOTHER} times as much, and stores no fewer arrays of scores");
    let why = match (verdict.reason, verdict.taken, verdict.prices.as_slice()) {
        (Reason::FormRequired, ..) => "it is asked for, at any price",
        (_, _, []) => "it has no price at these sizes",
        (_, _, [_]) => "no other is looked at where parameters are in codes",
        (Reason::FusionRequired, ..) => "fusion is required, at any price",
        (Reason::MuchLess, ..) => &much_less,
        (Reason::LeastPrice, Form::OneSum | Form::Fused, _) => {
            "the program as written is not cheaper by more than a twentieth"
        }
        (Reason::LeastPrice, Form::Joined | Form::Apart | Form::AsWritten, _) => {
            "fused costs over a twentieth more than as written, and no plan is cheaper but for a tie"
        }
    };
    line(&mut out, &format!("taken: the plan {}; {why}", verdict.taken.name()));
    if let Some(alternative) = &verdict.alternative {
        line(&mut out, &alternative.to_string());
    }
    out
}

/// How the work of kernels is counted.
struct Costs {
    /// Lanes of the vectors that code is made for.
    lanes: usize,
}

impl Costs {
    fn of_call(&self, form: &str, plan: &[Summary]) -> String {
        let mut out = String::new();
        for (condition, cost) in &Cost::of_call(plan, self.lanes) {
            let kernels = if cost.kernels == 1 { "kernel" } else { "kernels" };
            let place = condition.map_or_else(String::new, |condition| format!(", where {condition}"));
            line(&mut out, &format!("{form}{place}: {} {kernels}, {}", cost.kernels, self.words(cost)));
        }
        out
    }

    fn words(&self, cost: &Cost) -> String {
        format!("{} flops, {} bytes", cost.flops, cost.bytes)
    }
}

fn duration(seconds: f64) -> String {
    let micros = seconds * 1e6;
    if micros < 1e3 { format!("{micros:.1} us") } else { format!("{:.3} ms", micros / 1e3) }
}

/// How fused operators of a model came about and why others did not, without places in the source: what stays the same where lines
/// move.
pub(crate) fn certificate(optimised: &Optimised) -> String {
    let names = text::node_names(&optimised.graph);
    Words { sources: None, report: &optimised.report, names }.fusion(None)
}

/// What the optimiser reports, as sentences.
struct Words<'a> {
    /// Where places are told.
    sources: Option<&'a Sources>,
    report: &'a Report,
    /// The name of each node as the fused graph prints it.
    names: Vec<Option<String>>,
}

impl<'a> Words<'a> {
    fn new(sources: &'a Sources, optimised: &'a Optimised) -> Words<'a> {
        Words { sources: Some(sources), report: &optimised.report, names: text::node_names(&optimised.graph) }
    }

    /// All that is known of one value.
    fn of_node(&self, name: &str, plan: &[Priced], costs: &Costs) -> Result<String, Error> {
        let known = || self.names.iter().flatten().map(String::as_str);
        if !known().any(|n| n == name) {
            let missing = Diagnostic::placeless(format!("the fused graph has no value `{name}`"))
                .note("`salient ir --stage fused` shows the values by name")
                .help_if(did_you_mean(name, known()));
            return Err(Error::source(vec![missing], self.sources.cloned().unwrap_or_default()));
        }
        let mut out = self.fusion(Some(name));
        if out.is_empty() {
            let _ = writeln!(out, "`{name}` is neither a fused operator nor a sum that could be part of one");
        }
        let concerned = |(k, _): &&Priced| k.name == name || k.computes.iter().any(|n| n == name);
        let kernels: Vec<&Priced> = plan.iter().filter(concerned).collect();
        if !kernels.is_empty() {
            out.push_str("\nkernels\n");
        }
        kernels.iter().for_each(|k| kernel(&mut out, k, costs));
        Ok(out.trim_start().to_owned())
    }

    /// How fused operators came about and why others did not: all of them, or those of that name.
    fn fusion(&self, only: Option<&str>) -> String {
        let mut out = String::new();
        for c in &self.report.certificates {
            if !self.is_wanted(c.node, c.block, only) {
                continue;
            }
            let title = format!("{} is fused.{}", self.name(c.node), c.op.info().name);
            self.section(&mut out, &title, c.origin);
            if c.rules.is_empty() {
                line(&mut out, &format!("as it stands: {}", c.op.info().doc));
            }
            for rule in &c.rules {
                line(&mut out, &by_rule(rule));
            }
            unproved(&mut out, &c.not_proved);
        }
        out.push_str(&self.missed(only));
        for form in self.report.named.iter().filter(|f| self.is_wanted(f.node, f.block, only)) {
            self.section(&mut out, &format!("{} is {}", self.name(form.node), form.form.name()), form.origin);
        }
        out
    }

    fn missed(&self, only: Option<&str>) -> String {
        let mut out = String::new();
        for miss in self.report.misses.iter().filter(|m| self.is_wanted(m.node, m.block, only)) {
            let title = format!("{} stays a sum apart from its weights", self.name(miss.node));
            self.section(&mut out, &title, miss.origin);
            if miss.not_proved.is_empty() {
                line(&mut out, "no rule matches what stands there");
            }
            unproved(&mut out, &miss.not_proved);
        }
        out
    }

    /// Of equal blocks the first stands for all, unless a value is asked for by name.
    fn is_wanted(&self, node: NodeId, block: Option<usize>, only: Option<&str>) -> bool {
        match only {
            Some(_) => self.names[node.index()].as_deref() == only,
            None => block.is_none_or(|n| n == 0),
        }
    }

    fn name(&self, node: NodeId) -> String {
        self.names[node.index()].as_ref().map_or_else(|| "an unnamed value".to_owned(), |n| format!("`{n}`"))
    }

    fn section(&self, out: &mut String, title: &str, origin: Option<Origin>) {
        let place = self.sources.zip(origin).map_or_else(String::new, |(sources, origin)| {
            let (file, line, column) = sources.position(sources.span(origin));
            format!(" ({file}:{line}:{column})")
        });
        writeln!(out, "\n{title}{place}").expect("a string grows");
    }
}

fn kernels(plan: &[Priced], costs: &Costs) -> String {
    let mut out = "\nkernels\n".to_owned();
    plan.iter().for_each(|k| kernel(&mut out, k, costs));
    out
}

fn kernel(out: &mut String, (kernel, price): &Priced, costs: &Costs) {
    let once = if kernel.once { "once " } else { "" };
    let computes = kernel.computes.join(", ");
    let computes = if computes.is_empty() { computes } else { format!(": {computes}") };
    line(out, &format!("{once}{} {}{computes}", kernel.word, kernel.name));
    let price = price.filter(|price| price.seconds > 0.0);
    let price = price
        .map_or_else(String::new, |p| format!(", priced at {} by {}", duration(p.seconds), p.bound.name()));
    line(out, &format!("  {}{price}", costs.words(&Cost::of_kernel(kernel, costs.lanes))));
    if let Some(condition) = Condition::of(kernel) {
        line(out, &format!("  only where {condition}"));
    }
    if let Some(note) = kernel.note {
        line(out, &format!("  {note}"));
    }
}

fn unproved(out: &mut String, conditions: &[(&'static str, String)]) {
    for (rule, condition) in conditions {
        line(out, &format!("not by {rule}: not proved that {condition}"));
    }
}

/// A rule with its sense of equality and its mathematics.
fn by_rule(name: &str) -> String {
    let row: Option<&RuleRow> = all_rules().find(|r| r.name == name);
    match row {
        Some(row) => format!("by {name} ({}): {}", row.holds.name(), row.why),
        None => format!("by {name}"),
    }
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "  {text}").expect("a string grows");
}
