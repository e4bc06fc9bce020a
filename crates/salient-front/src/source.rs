//! Source files and places in them.
//!
//! Does not read the file system: whoever compiles hands the texts over.

use crate::diag::Diagnostic;
use crate::syntax::ast::File;
use salient_ir::Origin;
use std::sync::OnceLock;

/// A file of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u32);

/// Where something was written: a range of bytes in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From the beginning of `self` to the end of `other`, which lies in the same file.
    pub fn to(self, other: Span) -> Span {
        Span { source: self.source, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The same place in the graph's terms.
    pub fn origin(self) -> Origin {
        Origin { file: self.source.0, start: self.start, end: self.end }
    }

    /// The range of bytes.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A text with the name under which messages show it.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The file's place among the files of the compilation.
    pub id: SourceId,
    /// The name shown in messages, usually a path.
    pub name: String,
    /// The text.
    pub text: String,
    /// What came of parsing it, once somebody asked for that.
    pub(crate) parsed: OnceLock<Result<File, Vec<Diagnostic>>>,
}

/// Every file of a compilation. The language's own library comes first.
#[derive(Clone, Debug)]
pub struct Sources {
    files: Vec<SourceFile>,
}

impl Default for Sources {
    fn default() -> Sources {
        Sources::new()
    }
}

impl Sources {
    /// The library alone.
    pub fn new() -> Sources {
        let mut out = Sources { files: Vec::new() };
        for (name, text) in crate::embedded::FILES {
            out.add(name, text);
        }
        out
    }

    /// Adds a file. A byte order mark at its head is no part of the text.
    pub fn add(&mut self, name: &str, text: &str) -> SourceId {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let id = SourceId(u32::try_from(self.files.len()).expect("fewer than 2^32 files"));
        let (name, text) = (name.to_owned(), text.to_owned());
        self.files.push(SourceFile { id, name, text, parsed: OnceLock::new() });
        id
    }

    /// A file.
    pub fn file(&self, id: SourceId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// The files, in the order in which they were added; the library's come first.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The files that are not the library's.
    pub fn user_files(&self) -> &[SourceFile] {
        &self.files[crate::embedded::FILES.len()..]
    }

    /// The file of that name, if it was added.
    pub fn find(&self, name: &str) -> Option<SourceId> {
        self.user_files().iter().find(|f| f.name == name).map(|f| f.id)
    }

    /// The span of an origin of the graph.
    pub fn span(&self, origin: Origin) -> Span {
        Span { source: SourceId(origin.file), start: origin.start, end: origin.end }
    }

    /// File name, line and column of the span's beginning, both counted from one; the column in characters.
    pub fn position(&self, span: Span) -> (&str, usize, usize) {
        let file = self.file(span.source);
        let before = file.text.get(..span.start as usize).unwrap_or(&file.text);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        (&file.name, line, column)
    }

    /// A range of bytes of a file as a place.
    pub fn place(&self, id: SourceId, range: std::ops::Range<usize>) -> Span {
        Span { source: id, start: range.start as u32, end: range.end as u32 }
    }

    /// The text of a span.
    pub fn text(&self, span: Span) -> &str {
        self.file(span.source).text.get(span.range()).unwrap_or("")
    }
}
