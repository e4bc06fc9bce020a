//! The shape and element type of each `let`, behind its name.

use super::{Asked, in_words};
use crate::program::Program;
use lsp_types::{InlayHint, InlayHintKind, Label, Range};
use salient::{DefinitionKind, Span};

/// The hints of a part of a document.
pub(crate) fn hints(asked: Asked<'_>, part: Range) -> Vec<InlayHint> {
    let program = &asked.document.now;
    let part = asked.document.byte(part.start)..asked.document.byte(part.end);
    let all = program.outline.definitions.all().iter();
    let values = all.filter(|d| d.kind == DefinitionKind::Value && d.span.source == program.file);
    values
        .filter(|d| part.start <= d.span.range().end && d.span.range().start <= part.end)
        .filter_map(|d| hint(asked, program, d.span))
        .collect()
}

fn hint(asked: Asked<'_>, program: &Program, name: Span) -> Option<InlayHint> {
    let at = behind(program.text(), name.end as usize)?;
    let shape = in_words(&asked.document.shapes(program, name))?;
    let label = Label::String(format!(": {shape}"));
    let position = asked.document.range(at..at).start;
    Some(InlayHint {
        kind: Some(InlayHintKind::Type),
        ..InlayHint::new(position, label, None, None, None, None, None, None)
    })
}

/// Where the left side ends that begins with a name; none where the program says what it is.
fn behind(text: &str, name: usize) -> Option<usize> {
    let rest = text.get(name..)?;
    let next = rest.trim_start();
    if next.starts_with(':') {
        return None;
    }
    if !next.starts_with('[') {
        return Some(name);
    }
    let mut depth = 0usize;
    for (at, c) in rest.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => return Some(name + at + 1),
            ']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}
