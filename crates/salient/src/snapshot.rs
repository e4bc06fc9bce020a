//! What the compiler makes of a model, kept as a text beside the model: fusion as a regression test.
//!
//! [`facts`] are what is compared, as values: which keys attentions visit, which arrays are stored, what a call costs. They stand
//! at the head of the text, before the fused program, the plan and the certificate. [`changes`] says in words
//! what two sets of facts differ in, and [`file`](mod@file) how a text stands in a file, with insta's header before it.
//!
//! Nothing here depends on the machine: plans are those of a usual core, see [`Options::usual_core`].

pub mod changes;
mod collect;
pub mod facts;
pub mod file;

use crate::compile::choose::Candidates;
use crate::compile::explain::certificate;
use crate::compile::options::Options;
use crate::compile::pipeline::{lower, optimise, print_chosen, verified};
use crate::report::error::Error;
use facts::{Facts, ModelFacts};
use salient_front::{Sources, parse};
use salient_ir::text;
use std::fmt::Write;

/// The line behind the facts: what follows is for people.
pub(crate) const END_OF_FACTS: &str = "# what follows is not compared by its meaning, but must be the same";

/// What the compiler makes of the models of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// What is compared by its meaning.
    pub facts: Facts,
    /// All of it.
    pub text: String,
}

impl Snapshot {
    /// That of the models of the first source file, or of the one that the options name. What the options say of the machine
    /// makes no difference.
    ///
    /// # Errors
    /// As [`lower`].
    pub fn of(sources: &Sources, options: &Options) -> Result<Snapshot, Error> {
        let names = match &options.model {
            Some(name) => vec![Some(name.clone())],
            None => own_models(sources)?,
        };
        let (mut models, mut texts) = (Vec::new(), String::new());
        for model in names {
            let options = Options { model, usual_core: true, ..options.clone() };
            let (facts, text) = of_model(sources, &options)?;
            models.push(facts);
            texts.push_str(&text);
        }
        let facts = Facts { models };
        let text = format!("{facts}\n{END_OF_FACTS}\n{}", texts.trim_end());
        Ok(Snapshot { facts, text })
    }
}

/// The models of the file that was asked for; no name where there is none, which lowering answers.
fn own_models(sources: &Sources) -> Result<Vec<Option<String>>, Error> {
    let Some(file) = sources.user_files().first() else { return Ok(vec![None]) };
    let tree = parse(file).map_err(|faults| Error::source(faults, sources.clone()))?;
    let names: Vec<Option<String>> = tree.models().map(|m| Some(m.name.name.clone())).collect();
    Ok(if names.is_empty() { vec![None] } else { names })
}

fn of_model(sources: &Sources, options: &Options) -> Result<(ModelFacts, String), Error> {
    let graph = lower(sources, options)?.graph;
    let optimised = optimise(&graph, options);
    let candidates = Candidates::new(&graph, &optimised, options);
    let (plan, verdict) = candidates.choose(false);
    let plan = verified(&plan, options);
    let facts = collect::facts(&candidates, (plan, &verdict), &optimised, options);
    let name = graph.name();
    let mut out = String::new();
    let mut section = |title: &str, text: &str| {
        let _ = writeln!(out, "\n# {title} of {name}\n\n{}", text.trim());
    };
    section("the fused program", &text::print(&optimised.graph));
    section("the plan", &print_chosen(&candidates, (plan, &verdict), &optimised.report.named, options));
    section("the certificate", &certificate(&optimised));
    Ok((facts, out))
}
