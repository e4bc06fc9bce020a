//! What is known of the program that begins with one text: its names at once, its shapes when it has been compiled.

use salient::{
    Definition, Diagnostic, Examined, Meaning, Outline, Shape, SourceId, Sources, Span, Use, outline,
    with_imports_by,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the text of a file that is imported is found: as an editor holds it, or in its file.
pub(crate) type Read<'r> = &'r dyn Fn(&Path) -> Result<String, String>;

/// A text with the files that it imports, as far as they can be read.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) sources: Arc<Sources>,
    /// The text's own place among the sources.
    pub(crate) file: SourceId,
    pub(crate) outline: Outline,
    /// Imports that cannot be read.
    pub(crate) unread: Vec<Diagnostic>,
    /// What compiling showed, once it has.
    pub(crate) examined: Option<Examined>,
}

impl Program {
    /// Reads a program without compiling it.
    pub(crate) fn new(path: &Path, text: &str, read: Read<'_>) -> Program {
        let (sources, unread) = with_imports_by(path, text, read);
        let file = sources.user_files().first().map(|file| file.id);
        let file = file.expect("the text itself is one of the files");
        let outline = outline(&sources);
        Program { path: path.to_owned(), sources: Arc::new(sources), file, outline, unread, examined: None }
    }

    /// The text, without a byte order mark.
    pub(crate) fn text(&self) -> &str {
        &self.sources.file(self.file).text
    }

    /// Whether all of it can be read.
    pub(crate) fn parses(&self) -> bool {
        self.outline.errors.is_empty() && self.unread.is_empty()
    }

    /// What is told of it by its text alone.
    pub(crate) fn told_by_text(&self) -> Vec<Diagnostic> {
        [self.outline.errors.as_slice(), &self.unread].concat()
    }

    /// All that is told of it.
    pub(crate) fn told(&self) -> Vec<Diagnostic> {
        match &self.examined {
            // Without a file that is imported, its names are not known.
            Some(examined) if self.unread.is_empty() => examined.diagnostics.clone(),
            Some(_) | None => self.told_by_text(),
        }
    }

    /// The name at a byte of the text.
    pub(crate) fn name_at(&self, byte: usize) -> Option<Use> {
        self.outline.definitions.at(self.file, u32::try_from(byte).ok()?)
    }

    /// The definition that a name has in the program.
    pub(crate) fn definition(&self, of: Use) -> Option<&Definition> {
        match of.meaning {
            Meaning::Defined(number) => self.outline.definitions.all().get(number),
            Meaning::Word => None,
        }
    }

    /// Whether a byte lies in a declaration that parses.
    pub(crate) fn is_read(&self, byte: usize) -> bool {
        let holds = |span: Span| span.source == self.file && span.range().contains(&byte);
        self.outline.definitions.all().iter().any(|d| d.kind.is_global() && holds(d.whole))
    }

    /// What a place is, where compiling has shown it.
    pub(crate) fn shapes(&self, span: Span) -> &[Shape] {
        self.examined.as_ref().map_or(&[], |examined| examined.shapes.at(span))
    }

    /// The smallest expression around a byte of which something is known.
    pub(crate) fn expression_at(&self, byte: usize) -> Option<(Span, &[Shape])> {
        let places = self.examined.iter().flat_map(|examined| examined.shapes.places());
        let around = places.filter(|(span, _)| {
            span.source == self.file && span.start as usize <= byte && byte <= span.end as usize
        });
        around.min_by_key(|(span, _)| span.end - span.start)
    }
}

/// Bytes of one text as bytes of another, which differs from it in one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Bytes at the beginning that both have.
    head: usize,
    /// Where in each the bytes begin that both have at the end.
    tails: [usize; 2],
}

impl Shift {
    /// From the first text to the second.
    pub(crate) fn new(from: &str, to: &str) -> Shift {
        let (a, b) = (from.as_bytes(), to.as_bytes());
        let most = a.len().min(b.len());
        let mut head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        while !from.is_char_boundary(head) {
            head -= 1;
        }
        let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
        let mut tail = tail.min(most - head);
        while !from.is_char_boundary(a.len() - tail) {
            tail -= 1;
        }
        Shift { head, tails: [a.len() - tail, b.len() - tail] }
    }

    /// The range of the first text that differs, and that of the second.
    pub(crate) fn changed(self) -> [std::ops::Range<usize>; 2] {
        self.tails.map(|tail| self.head..tail)
    }

    /// The same byte in the second text; none for one that has changed.
    pub(crate) fn byte(self, byte: usize) -> Option<usize> {
        if byte <= self.head {
            return Some(byte);
        }
        let behind = byte.checked_sub(self.tails[0])?;
        Some(self.tails[1] + behind)
    }

    /// The same byte, or for one that has changed where the change begins.
    pub(crate) fn near(self, byte: usize) -> usize {
        self.byte(byte).unwrap_or(self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_change_is_found_again() {
        let shift = Shift::new("let y = x\nreturn y", "let y = äx + \nreturn y");
        assert_eq!(shift.changed(), [8..9, 8..14]);
        assert_eq!(shift.byte(4), Some(4));
        assert_eq!(shift.byte(10), Some(15));
        assert_eq!((Shift::new("abc", "aXc").byte(1), Shift::new("abcd", "aXd").byte(2)), (Some(1), None));
        assert_eq!(Shift::new("abcd", "aXd").near(2), 1);
    }

    #[test]
    fn characters_are_never_divided() {
        for (a, b) in [("ä", "ö"), ("xä", "xäy"), ("aa", "a"), ("", "ü"), ("𝒳𝒴", "𝒴"), ("é", "éé")]
        {
            let shift = Shift::new(a, b);
            let [from, to] = shift.changed();
            let put = [&a[..from.start], &b[to], &a[from.end..]].concat();
            assert_eq!(put, b);
        }
    }
}
