//! What an editor asks about a place or a document, a file for each kind of question.
//!
//! Each takes a document as it is known and gives what the protocol has for an answer. None keeps anything.

pub(crate) mod complete;
pub(crate) mod define;
pub(crate) mod format;
pub(crate) mod hints;
pub(crate) mod hover;
pub(crate) mod lens;
pub(crate) mod rename;
pub(crate) mod symbols;
pub(crate) mod tell;

use crate::documents::Document;
use crate::lines::Lines;
use crate::program::{Program, Shift};
use crate::uri::uri_of;
use lsp_types::{Location, MarkupContent, MarkupKind, Range, Uri};
use salient::{Shape, Span};
use std::path::Path;

/// A document with its address.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'d> {
    pub(crate) uri: &'d Uri,
    pub(crate) document: &'d Document,
}

impl Asked<'_> {
    /// Where a place of the document's own text is now; none for one that has changed since.
    fn range(&self, program: &Program, span: Span) -> Option<Range> {
        let now = &self.document.now;
        if std::ptr::eq(program, now) {
            return Some(self.document.range(span.range()));
        }
        let shift = Shift::new(program.text(), now.text());
        let [start, end] = [span.start, span.end].map(|at| shift.byte(at as usize));
        Some(self.document.range(start?..end?))
    }

    /// Where a place is: in the document or in a file that it imports. The library's files have no address.
    fn location(&self, program: &Program, span: Span) -> Option<Location> {
        if span.source == program.file {
            return Some(Location { uri: self.uri.clone(), range: self.range(program, span)? });
        }
        let file = program.sources.user_files().iter().find(|file| file.id == span.source)?;
        let lines = Lines::new(&file.text, self.document.encoding());
        Some(Location { uri: uri_of(Path::new(&file.name)), range: lines.range(&file.text, span.range()) })
    }
}

/// What a place is, in one line; several calls that differ are told one after the other.
fn in_words(shapes: &[Shape]) -> Option<String> {
    let words = shapes.iter().map(|shape| match shape {
        Shape::Tensor(text) | Shape::Known(text) => text.clone(),
        Shape::Index(extent) => format!("index below {extent}"),
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(" | "))
}

fn markdown(value: String) -> MarkupContent {
    MarkupContent { kind: MarkupKind::Markdown, value }
}

/// A text of the language in a block of code.
fn code(text: &str) -> String {
    format!("```salient\n{text}\n```")
}
