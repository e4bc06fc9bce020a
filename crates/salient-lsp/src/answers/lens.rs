//! What fused, above each model: made where the editor shows the line, since it takes the optimiser.

use super::Asked;
use lsp_types::{CodeLens, Command};
use salient::snapshot::Snapshot;
use salient::snapshot::facts::{Finding, Kind, ModelFacts};
use salient::{DefinitionKind, Options, Sources, ast};
use serde_json::json;
use std::sync::Arc;

/// A lens above each model of a document, without words yet.
pub(crate) fn lenses(asked: Asked<'_>) -> Vec<CodeLens> {
    let program = &asked.document.now;
    let is_model = DefinitionKind::Function(ast::Kind::Model);
    let all = program.outline.definitions.all().iter();
    let models = all.filter(|d| d.kind == is_model && d.span.source == program.file);
    models
        .map(|d| CodeLens {
            range: asked.document.range(d.span.range()),
            data: Some(json!({ "uri": asked.uri.0, "model": d.name })),
            ..CodeLens::default()
        })
        .collect()
}

/// The document and the model of a lens that [`lenses`] made.
pub(crate) fn subject(lens: &CodeLens) -> Option<(String, String)> {
    let of = |key: &str| lens.data.as_ref()?.get(key)?.as_str().map(str::to_owned);
    Some((of("uri")?, of("model")?))
}

/// The lens with its words.
pub(crate) fn with_title(lens: CodeLens, title: String) -> CodeLens {
    let command = Command { title, command: String::new(), ..Command::default() };
    CodeLens { command: Some(command), ..lens }
}

/// How many titles are kept.
const KEPT: usize = 64;

/// Titles that have been made, by program and model.
#[derive(Default)]
pub(crate) struct Known {
    titles: Vec<(Arc<Sources>, String, String)>,
}

impl Known {
    /// What is said of a model.
    pub(crate) fn title(&mut self, sources: &Arc<Sources>, model: &str) -> String {
        let texts =
            |sources: &Sources| sources.user_files().iter().map(|f| f.text.clone()).collect::<Vec<_>>();
        let wanted = texts(sources);
        let known = self.titles.iter().find(|(of, name, _)| name == model && texts(of) == wanted);
        if let Some((_, _, title)) = known {
            return title.clone();
        }
        let title = title(sources, model);
        if self.titles.len() == KEPT {
            self.titles.remove(0);
        }
        self.titles.push((sources.clone(), model.to_owned(), title.clone()));
        title
    }
}

fn title(sources: &Sources, model: &str) -> String {
    let options = Options { model: Some(model.to_owned()), ..Options::default() };
    match Snapshot::of(sources, &options) {
        Ok(snapshot) => snapshot.facts.models.first().map_or_else(String::new, in_words),
        Err(_) => "not compiled: the program has errors".to_owned(),
    }
}

/// Arrays that a lens lists, at most.
const LISTED: usize = 3;

/// How many attentions fused, what is stored with an element for every pair of positions, and what stays apart.
fn in_words(facts: &ModelFacts) -> String {
    let of = |kind: Kind| facts.findings.iter().filter(move |finding| finding.kind == kind);
    let attentions = match of(Kind::Attention).count() {
        0 => "no attention fused".to_owned(),
        1 => "1 attention fused".to_owned(),
        n => format!("{n} attentions fused"),
    };
    let stored: Vec<String> = of(Kind::Array).map(stored).collect();
    let stored = match stored.as_slice() {
        [] => "nothing is stored for every query and key".to_owned(),
        [first @ .., _] if first.len() >= LISTED => {
            let rest = stored.len() - LISTED;
            format!("stored: {} and {rest} more", stored[..LISTED].join(", "))
        }
        all => format!("stored: {}", all.join(", ")),
    };
    let again = of(Kind::Again).map(|f| format!("{} computes its scores again", f.name));
    let apart = of(Kind::Apart).map(|f| format!("{} stays apart from its weights", f.name));
    let mut parts = vec![attentions, stored];
    parts.extend(again.chain(apart));
    parts.push(format!("{} kernels", facts.kernels));
    parts.join(" · ")
}

/// An array with its elements, and whether it is asked for.
fn stored(finding: &Finding) -> String {
    let place = finding
        .layer
        .as_ref()
        .map_or_else(String::new, |layer| format!(" in {}{}", layer.stem, layer.number));
    format!("{}{place} ({} elements, {})", finding.name, finding.get("elements"), finding.get("counts_as"))
}
