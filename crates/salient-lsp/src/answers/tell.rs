//! Diagnostics, as `salient check` gives them.

use super::Asked;
use crate::program::Program;
use lsp_types::{Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, Message, Range};
use salient::{Severity, Span};

/// What is told of a document now.
pub(crate) fn diagnostics(asked: Asked<'_>) -> Vec<Diagnostic> {
    let program = &asked.document.now;
    program.told().iter().map(|d| diagnostic(asked, program, d)).collect()
}

fn diagnostic(asked: Asked<'_>, program: &Program, d: &salient::Diagnostic) -> Diagnostic {
    let mut message = d.message.clone();
    let mut related: Vec<DiagnosticRelatedInformation> = Vec::new();
    let mut range = asked.document.range(0..0);
    if let Some((span, label)) = &d.primary {
        if span.source == program.file {
            range = asked.document.range(span.range());
        } else {
            // A mistake in a file that is imported is shown where it is imported.
            range = import_of(asked, program, *span).unwrap_or(range);
            related.extend(asked.location(program, *span).map(|at| about(at, &d.message)));
        }
        if !label.is_empty() {
            message = format!("{message}\n{label}");
        }
    }
    for (span, words) in &d.secondary {
        match asked.location(program, *span) {
            Some(location) => related.push(about(location, words)),
            // The library's text is told by its words.
            None => message = format!("{message}\n{words}: {}", program.sources.text(*span)),
        }
    }
    d.notes.iter().for_each(|note| message = format!("{message}\nnote: {note}"));
    d.help.iter().for_each(|help| message = format!("{message}\nhelp: {help}"));
    Diagnostic {
        range,
        severity: Some(match d.severity {
            Severity::Error => DiagnosticSeverity::Error,
            Severity::Warning => DiagnosticSeverity::Warning,
        }),
        source: Some("salient".to_owned()),
        message: Message::String(message),
        related_information: Some(related).filter(|related| !related.is_empty()),
        ..Diagnostic::default()
    }
}

fn about(location: Location, words: &str) -> DiagnosticRelatedInformation {
    let message = if words.is_empty() { "here".to_owned() } else { words.to_owned() };
    DiagnosticRelatedInformation { location, message }
}

/// The import of the document by which a file is reached: its own, else the first there is.
fn import_of(asked: Asked<'_>, program: &Program, span: Span) -> Option<Range> {
    let name = &program.sources.file(span.source).name;
    let folder = program.path.parent()?;
    let own =
        || program.outline.definitions.imports().iter().filter(|import| import.span.source == program.file);
    let direct = own().find(|import| folder.join(&import.path).display().to_string() == *name);
    Some(asked.document.range(direct.or_else(|| own().next())?.span.range()))
}
