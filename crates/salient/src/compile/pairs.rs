//! What a user is told of arrays that have an element for every query and key, and of scores that are made several times: where
//! in the source, why, and what to write instead.
//!
//! What a plan does and why is the planner's to say. Here are the reasons that lie outside of one plan: what `--fp strict` forbids,
//! and prices.

use crate::compile::choose::{Candidates, Form, Verdict};
use crate::compile::options::Options;
use crate::compile::pipeline::{optimise, verified};
use salient_front::{Diagnostic, Severity, Sources};
use salient_ir::Graph;
use salient_opt::Fp;
use salient_opt::rules::{Holds, RuleRow, all_rules};
use salient_tile::Plan;
use salient_tile::verify::unfused::{Reason, Repetition, Unfused, What, unfused};
use std::collections::BTreeSet;

/// Why a plan does what fused attention does not.
enum Because<'a> {
    /// Plans that are fused otherwise are not under `--fp strict`, which forbids these rules.
    Strict(Vec<&'static RuleRow>),
    /// The fused plan does not, and is not compiled, since it is priced at the first and not at the second.
    Price(f64, f64),
    /// An array is stored, by what the plan says.
    Stored(&'a [Reason]),
    /// Scores are computed again, by what the plan says.
    Again(Repetition),
}

impl Because<'_> {
    /// The reasons in words, the strongest first.
    fn texts(&self) -> Vec<String> {
        match self {
            Because::Strict(rules) => {
                let rule = |row: &&RuleRow| format!("`{}` ({})", row.name, row.holds.name());
                let rules: Vec<String> = rules.iter().map(rule).collect();
                vec![format!("`--fp strict` allows exact rules alone, and not {}", rules.join(", "))]
            }
            Because::Price(fused, taken) => vec![format!(
                "the fused plan does not, and is priced at {:.3} ms, where this one is at {:.3} ms",
                fused * 1e3,
                taken * 1e3
            )],
            Because::Stored(reasons) => reasons.iter().map(Reason::text).collect(),
            Because::Again(repetition) => vec![repetition.text("it")],
        }
    }

    /// What to write instead, where something that fuses is known.
    fn help(&self) -> Option<String> {
        let rewriting = match self {
            Because::Strict(_) => return Some("leave `--fp strict` out".to_owned()),
            Because::Price(..) => {
                return Some("`--require-fused` compiles the fused plan at any price".to_owned());
            }
            Because::Stored(reasons) => reasons.iter().find_map(Reason::rewriting),
            Because::Again(repetition) => repetition.rewriting(),
        }?;
        let lines: Vec<String> = rewriting.lines.iter().map(|line| format!("\n    {line}")).collect();
        Some(format!("{}:{}", rewriting.what, lines.concat()))
    }
}

/// What is found in a plan, and why it is there.
pub(crate) struct Findings {
    found: Vec<Unfused>,
    outside: Outside,
}

/// Reasons that lie outside of the plan.
enum Outside {
    None,
    Price(f64, f64),
    /// The rules that are forbidden, and what is found without the restriction.
    Strict(Vec<&'static RuleRow>, Vec<Unfused>),
}

impl Findings {
    /// What is found in the fused plan.
    pub(crate) fn of_fused(graph: &Graph, candidates: &Candidates<'_>, options: &Options) -> Findings {
        let found = unfused(verified(&candidates.plan(Form::Fused), options));
        let is_strict = options.fp == Fp::Strict && found.iter().any(|unfused| !unfused.is_asked_for);
        let outside = if is_strict { without_strict(graph, options) } else { Outside::None };
        Findings { found, outside }
    }

    /// What is found in the fused plan or, where that does nothing of it and another one is compiled, in that.
    pub(crate) fn of_taken(
        graph: &Graph,
        candidates: &Candidates<'_>,
        verdict: &Verdict,
        options: &Options,
    ) -> Findings {
        let findings = Findings::of_fused(graph, candidates, options);
        let prices = (verdict.price(Form::Fused), verdict.price(verdict.taken));
        let (Some(fused), Some(taken)) = prices else { return findings };
        if verdict.taken.is_fused() || !findings.is_fused() {
            return findings;
        }
        let found = unfused(verified(&candidates.plan(verdict.taken), options));
        Findings { found, outside: Outside::Price(fused, taken) }
    }

    /// What is found in the plan that is compiled.
    pub(crate) fn of_plan(
        plan: &Plan<'_>,
        candidates: &Candidates<'_>,
        verdict: &Verdict,
        options: &Options,
    ) -> Findings {
        let fused = Findings::of_fused(candidates.graph(Form::AsWritten), candidates, options);
        if verdict.taken == Form::Fused {
            return fused;
        }
        let prices = verdict.price(Form::Fused).zip(verdict.price(verdict.taken));
        let outside = match prices.filter(|_| !verdict.taken.is_fused() && fused.is_fused()) {
            Some((fused, taken)) => Outside::Price(fused, taken),
            None => Outside::None,
        };
        Findings { found: unfused(plan), outside }
    }

    /// What is found, with the strongest reason in words.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (&Unfused, String)> {
        let first = |unfused| self.because(unfused).texts().into_iter().next().unwrap_or_default();
        self.found.iter().map(move |unfused| (unfused, first(unfused)))
    }

    /// Whether there is nothing that the model does not ask for.
    pub(crate) fn is_fused(&self) -> bool {
        self.found.iter().all(|unfused| unfused.is_asked_for)
    }

    /// Why something is there.
    fn because<'a>(&self, unfused: &'a Unfused) -> Because<'a> {
        match &self.outside {
            Outside::Price(fused, taken) => return Because::Price(*fused, *taken),
            // What is found without the restriction too has another reason.
            Outside::Strict(rules, others)
                if !others.iter().any(|o| o.value.origin == unfused.value.origin && !o.is_asked_for) =>
            {
                return Because::Strict(rules.clone());
            }
            Outside::Strict(..) | Outside::None => {}
        }
        match &unfused.what {
            What::Stored { because, .. } => Because::Stored(because),
            What::Again { because, .. } => Because::Again(*because),
        }
    }

    /// What the model does not ask for, each with its place in the source.
    pub(crate) fn diagnostics(&self, sources: &Sources, severity: Severity) -> Vec<Diagnostic> {
        let unasked = self.found.iter().filter(|unfused| !unfused.is_asked_for);
        unasked.map(|unfused| self.diagnostic(sources, severity, unfused)).collect()
    }

    fn diagnostic(&self, sources: &Sources, severity: Severity, unfused: &Unfused) -> Diagnostic {
        let because = self.because(unfused);
        let mut texts = because.texts().into_iter();
        let first = texts.next().unwrap_or_default();
        let message = unfused.to_string();
        let mut out = match unfused.value.origin {
            Some(origin) => Diagnostic::error(sources.span(origin), message).saying(first),
            None => Diagnostic::placeless(message).note(first),
        };
        if let Because::Stored(reasons) = &because {
            let reader = reasons.first().and_then(Reason::reader);
            let place = reader.and_then(|value| value.origin).filter(|at| Some(*at) != unfused.value.origin);
            if let Some(origin) = place {
                out = out.also(sources.span(origin), "here");
            }
        }
        out = texts.fold(out, Diagnostic::note);
        Diagnostic { severity, ..out.help_if(because.help()) }
    }

    /// What the model asks for, a sentence each with its place.
    pub(crate) fn asked_for(&self, sources: &Sources) -> Vec<String> {
        let asked = self.found.iter().filter(|unfused| unfused.is_asked_for);
        let sentence = |unfused: &Unfused| {
            let place = unfused.value.origin.map_or_else(String::new, |origin| {
                let (file, line, column) = sources.position(sources.span(origin));
                format!(" ({file}:{line}:{column})")
            });
            let because = match &unfused.what {
                What::Stored { because, .. } => because.first().map(Reason::text),
                What::Again { because, .. } => Some(because.text("it")),
            };
            format!("{unfused}{place}, as the model asks for: {}", because.unwrap_or_default())
        };
        asked.map(sentence).collect()
    }
}

/// What is found without `--fp strict`, and the rules by which that differs.
fn without_strict(graph: &Graph, options: &Options) -> Outside {
    let options = Options { fp: Fp::Default, ..options.clone() };
    let optimised = optimise(graph, &options);
    let used: BTreeSet<&str> =
        optimised.report.certificates.iter().flat_map(|c| c.rules.iter().copied()).collect();
    let is_forbidden = |row: &&RuleRow| used.contains(row.name) && row.holds != Holds::Exactly;
    let rules = all_rules().filter(is_forbidden).collect();
    let found = unfused(verified(&Candidates::new(graph, &optimised, &options).plan(Form::Fused), &options));
    Outside::Strict(rules, found)
}
