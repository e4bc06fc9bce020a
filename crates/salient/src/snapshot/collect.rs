//! The facts of a model, from its plan and from what the optimiser reports.

use crate::compile::choose::{Candidates, Verdict};
use crate::compile::options::Options;
use crate::compile::pairs::Findings;
use crate::snapshot::facts::{ASKED_FOR, Finding, Kind, LARGE, ModelFacts, UNFUSED};
use salient_ir::NodeId;
use salient_opt::{Fp, Optimised};
use salient_tile::kernel::Sizes;
use salient_tile::plan::text::facts::{AttentionFact, layer_of};
use salient_tile::verify::unfused::{Unfused, What};
use salient_tile::{Plan, memory};
use std::collections::BTreeSet;

/// The facts of the plan that is compiled.
pub(super) fn facts(
    candidates: &Candidates<'_>,
    (plan, verdict): (&Plan<'_>, &Verdict),
    optimised: &Optimised,
    options: &Options,
) -> ModelFacts {
    let sizes: Vec<String> = verdict.sizes.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    let contract = memory::contract(&plan.usage());
    let of = Sizes { dimensions: &verdict.sizes, lanes: crate::compile::pipeline::lanes(options) };
    let bytes = contract.bytes(of, 1).ok().and_then(|bytes| i64::try_from(bytes).ok());
    let findings =
        [attentions(plan, optimised), arrays(candidates, plan, verdict, options), apart(optimised)].concat();
    ModelFacts {
        name: plan.graph().name().to_string(),
        settings: settings(options),
        sizes: sizes.join(", "),
        plan: verdict.taken.name().to_owned(),
        price_us: verdict.price(verdict.taken).map_or(0.0, |seconds| four_digits(seconds * 1e6)),
        memory_bytes: bytes.unwrap_or(0),
        kernels: plan.summary().iter().filter(|kernel| !kernel.once).count() as i64,
        memory: contract.to_string().lines().filter(is_formula).map(str::to_owned).collect(),
        findings,
    }
}

/// Whether a line about memory says how much there is; which temporaries grow fast is told of them.
fn is_formula(line: &&str) -> bool {
    line.contains(": ")
}

/// A number to four digits, so that the last bits of a sum do not matter.
fn four_digits(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

/// What a call sets that changes plans, as flags.
fn settings(options: &Options) -> String {
    let mut out: Vec<String> =
        options.set.iter().map(|(name, value)| format!("--set {name}={value}")).collect();
    out.sort_unstable();
    let flags = [
        (options.fp == Fp::Strict, "--fp strict"),
        (options.require_fused, "--require-fused"),
        (options.one_plan, "--one-plan"),
        (options.train.is_some(), "--train"),
    ];
    out.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| (*flag).to_owned()));
    out.join(" ")
}

fn attentions(plan: &Plan<'_>, optimised: &Optimised) -> Vec<Finding> {
    let certificates = &optimised.report.certificates;
    let finding = |fact: AttentionFact| {
        let skips = match (fact.is_bounded, fact.is_probed) {
            (true, true) => "by bounds and by a look at the mask",
            (true, false) => "by bounds",
            (false, true) => "by a look at the mask",
            (false, false) => "no",
        };
        let scores = if fact.keeps_rows { "whole rows" } else { "in tiles" };
        // A graph with checks of indices has other nodes.
        let is_same_graph = plan.graph().len() == optimised.graph.len();
        let rules = certificates.iter().filter(|c| is_same_graph && c.node == fact.fused);
        let rules: Vec<&str> = rules.flat_map(|c| c.rules.iter().copied()).collect();
        Finding {
            kind: Kind::Attention,
            layer: layer_of(plan.graph(), fact.node),
            name: fact.name,
            says: vec![fact.keys, skips.to_owned(), scores.to_owned(), rules.join(", ")],
        }
    };
    plan.attentions().into_iter().map(finding).collect()
}

/// What has an element for every pair of positions, and scores that are computed again.
fn arrays(
    candidates: &Candidates<'_>,
    plan: &Plan<'_>,
    verdict: &Verdict,
    options: &Options,
) -> Vec<Finding> {
    let findings = Findings::of_plan(plan, candidates, verdict, options);
    let mut told: BTreeSet<NodeId> = BTreeSet::new();
    let mut out = Vec::new();
    for (unfused, because) in findings.reasons() {
        told.insert(unfused.node);
        out.push(unfused_array(plan, unfused, &because));
    }
    for array in plan.large_arrays().into_iter().filter(|array| !told.contains(&array.node)) {
        let dims: Vec<String> = array.faster_than.iter().map(ToString::to_string).collect();
        out.push(Finding {
            kind: Kind::Array,
            layer: layer_of(plan.graph(), array.node),
            name: array.name,
            says: vec![
                array.elements.to_string(),
                LARGE.to_owned(),
                format!("it grows faster than {}", dims.join(" and ")),
            ],
        });
    }
    out
}

fn unfused_array(plan: &Plan<'_>, unfused: &Unfused, because: &str) -> Finding {
    let counts_as = if unfused.is_asked_for { ASKED_FOR } else { UNFUSED };
    let because = without_numbers(because);
    let (kind, says) = match &unfused.what {
        What::Stored { elements, .. } => {
            (Kind::Array, vec![elements.to_string(), counts_as.to_owned(), because])
        }
        What::Again { axis, extent, .. } => (Kind::Again, vec![format!("{axis}, {extent} times"), because]),
    };
    Finding { kind, layer: layer_of(plan.graph(), unfused.node), name: plan.source_name(unfused.node), says }
}

/// Sums of weighted values that stay apart from their weights.
fn apart(optimised: &Optimised) -> Vec<Finding> {
    let finding = |miss: &salient_opt::Miss| {
        let unproved = miss.not_proved.iter();
        let unproved: Vec<String> =
            unproved.map(|(rule, condition)| format!("{rule}: not proved that {condition}")).collect();
        let because = match unproved.as_slice() {
            [] => "no rule matches what stands there".to_owned(),
            all => all.join("; "),
        };
        Finding {
            kind: Kind::Apart,
            layer: layer_of(&optimised.graph, miss.node),
            name: miss.name.as_ref().map_or_else(|| "a value".to_owned(), ToString::to_string),
            says: vec![without_numbers(&because)],
        }
    };
    optimised.report.misses.iter().map(finding).collect()
}

/// A text in which the names that are quoted are those of the source: plans put a number behind a name that several values have.
fn without_numbers(text: &str) -> String {
    let of_source = |(at, part): (usize, &str)| {
        let is_number = |n: &str| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit());
        match part.rsplit_once('.').filter(|(_, number)| at % 2 == 1 && is_number(number)) {
            Some((name, _)) => name.to_owned(),
            None => part.to_owned(),
        }
    };
    let parts: Vec<String> = text.split('`').enumerate().map(of_source).collect();
    parts.join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_numbers_that_plans_give_them() {
        assert_eq!(without_numbers("`x.17` reads `w.2.b` at 3.5"), "`x` reads `w.2.b` at 3.5");
    }

    #[test]
    fn four_digits_are_kept() {
        assert_eq!(four_digits(12345.678), 12350.0);
        assert_eq!(four_digits(0.0012344), 0.001234);
    }
}
