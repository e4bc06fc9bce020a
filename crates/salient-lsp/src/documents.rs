//! The texts that an editor has open, as it last told them.

use crate::lines::{Encoding, Lines};
use crate::program::{Program, Read, Shift};
use crate::uri::path_of;
use lsp_types::{Position, Range, TextDocumentContentChangeEvent, Uri};
use salient::{Shape, Span, Use};
use std::path::PathBuf;

/// What stands before the text of some files, and is no part of it.
const MARK: char = '\u{feff}';

/// A text that is open.
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) version: i32,
    text: String,
    lines: Lines,
    encoding: Encoding,
    /// What is known of the text as it is.
    pub(crate) now: Program,
    /// What was known of it when it last parsed and was compiled.
    pub(crate) before: Option<Program>,
    /// From the text as it is to that of the program from before.
    back: Option<Shift>,
    /// Whether `now` is of an older text, or of older imports.
    pub(crate) is_stale: bool,
}

impl Document {
    pub(crate) fn new(uri: &Uri, version: i32, text: String, encoding: Encoding, read: Read<'_>) -> Document {
        let (path, lines) = (path_of(uri), Lines::new(&text, encoding));
        let now = Program::new(&path, &text, read);
        Document { path, version, text, lines, encoding, now, before: None, back: None, is_stale: false }
    }

    /// Takes changes in the order in which they were made.
    pub(crate) fn change(&mut self, version: i32, changes: Vec<TextDocumentContentChangeEvent>) {
        for change in changes {
            match change {
                TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(whole) => {
                    self.text = whole.text;
                }
                TextDocumentContentChangeEvent::TextDocumentContentChangePartial(part) => {
                    let [start, end] =
                        [part.range.start, part.range.end].map(|at| self.lines.byte(&self.text, at));
                    self.text.replace_range(start.min(end)..end.max(start), &part.text);
                }
            }
            self.lines = Lines::new(&self.text, self.encoding);
        }
        self.version = version;
        self.is_stale = true;
    }

    /// Reads the text again after changes.
    pub(crate) fn refresh(&mut self, read: Read<'_>) {
        self.is_stale = false;
        let now = Program::new(&self.path, &self.text, read);
        let last = std::mem::replace(&mut self.now, now);
        if last.parses() && last.examined.is_some() {
            self.before = Some(last);
        }
        self.back = self.before.as_ref().map(|before| Shift::new(self.now.text(), before.text()));
    }

    /// The text as the editor has it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    // ---- places: those of the program have no byte order mark before them

    fn mark(&self) -> usize {
        if self.text.starts_with(MARK) { MARK.len_utf8() } else { 0 }
    }

    /// The byte of the program's text at a position.
    pub(crate) fn byte(&self, position: Position) -> usize {
        self.lines.byte(&self.text, position).saturating_sub(self.mark())
    }

    /// The positions of a range of bytes of the program's text.
    pub(crate) fn range(&self, range: std::ops::Range<usize>) -> Range {
        self.lines.range(&self.text, range.start + self.mark()..range.end + self.mark())
    }

    // ---- what is known

    /// The program that knows what stands at a byte of the text, and the byte in its own text: the one from before where
    /// what stands there now does not parse.
    pub(crate) fn knowing(&self, byte: usize) -> (&Program, usize) {
        let is_known = self.now.outline.errors.is_empty() || self.now.is_read(byte);
        match self.before.as_ref().zip(self.back) {
            Some((before, back)) if !is_known => (before, back.near(byte)),
            Some(_) | None => (&self.now, byte),
        }
    }

    /// The name at a byte of the text, in the program that knows it. While text is changed, names are those from before.
    pub(crate) fn name_at(&self, byte: usize) -> Option<(&Program, Use)> {
        if let Some(found) = self.now.name_at(byte) {
            return Some((&self.now, found));
        }
        let before = self.before.as_ref().filter(|_| !self.now.parses())?;
        let found = before.name_at(self.back?.byte(byte)?)?;
        Some((before, found))
    }

    /// What a place of the program at hand is; before that is compiled, what the place was.
    pub(crate) fn shapes(&self, program: &Program, span: Span) -> Vec<Shape> {
        let known = program.shapes(span);
        let is_now = std::ptr::eq(program, &self.now) && span.source == program.file;
        match self.before.as_ref().zip(self.back) {
            Some((before, back)) if known.is_empty() && is_now => {
                let [start, end] = [span.start, span.end].map(|at| back.byte(at as usize));
                let moved = start.zip(end).map(|(start, end)| before.sources.place(before.file, start..end));
                moved.map_or(Vec::new(), |span| before.shapes(span).to_vec())
            }
            Some(_) | None => known.to_vec(),
        }
    }

    /// What a name is: at its own place, else where it is defined.
    pub(crate) fn shapes_of(&self, program: &Program, of: Use) -> Vec<Shape> {
        let here = self.shapes(program, of.span);
        match program.definition(of) {
            Some(definition) if here.is_empty() => self.shapes(program, definition.span),
            Some(_) | None => here,
        }
    }
}
