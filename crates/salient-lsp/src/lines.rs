//! Bytes of a text and positions of the protocol: a line, and units of UTF-8 or UTF-16 in it.

use lsp_types::Position;

/// In which units an editor counts along a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Bytes.
    Utf8,
    /// Units of UTF-16, unless the editor knows better.
    Utf16,
}

impl Encoding {
    fn units(self, c: char) -> usize {
        match self {
            Encoding::Utf8 => c.len_utf8(),
            Encoding::Utf16 => c.len_utf16(),
        }
    }
}

/// Where the lines of a text begin.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    starts: Vec<usize>,
    encoding: Encoding,
}

impl Lines {
    /// Lines end with `\n`, `\r\n` or `\r`.
    pub(crate) fn new(text: &str, encoding: Encoding) -> Lines {
        let bytes = text.as_bytes();
        let ends =
            |at: &usize| bytes[*at] == b'\n' || bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
        let starts = std::iter::once(0).chain((0..bytes.len()).filter(ends).map(|at| at + 1)).collect();
        Lines { starts, encoding }
    }

    /// The byte of a position; one that the text does not have is its nearest.
    pub(crate) fn byte(&self, text: &str, position: Position) -> usize {
        let line = position.line as usize;
        let Some(start) = self.starts.get(line).copied() else { return text.len() };
        let end = self.starts.get(line + 1).copied().unwrap_or(text.len());
        let content = text.get(start..end).unwrap_or_default().trim_end_matches(['\r', '\n']);
        let (mut at, mut units) = (start, 0);
        for c in content.chars() {
            units += self.encoding.units(c);
            if units > position.character as usize {
                break;
            }
            at += c.len_utf8();
        }
        at
    }

    /// The position of a byte; one within a character is where that begins.
    pub(crate) fn position(&self, text: &str, byte: usize) -> Position {
        let mut byte = byte.min(text.len());
        while !text.is_char_boundary(byte) {
            byte -= 1;
        }
        let line = self.starts.partition_point(|start| *start <= byte).saturating_sub(1);
        let units: usize = text[self.starts[line]..byte].chars().map(|c| self.encoding.units(c)).sum();
        Position { line: line as u32, character: units as u32 }
    }

    /// The positions of a range of bytes.
    pub(crate) fn range(&self, text: &str, range: std::ops::Range<usize>) -> lsp_types::Range {
        lsp_types::Range { start: self.position(text, range.start), end: self.position(text, range.end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "let ä = 𝒳\r\nb\rc\n\n— d";

    #[test]
    fn positions_and_bytes_are_inverse_in_both_encodings() {
        for encoding in [Encoding::Utf8, Encoding::Utf16] {
            let lines = Lines::new(TEXT, encoding);
            for (byte, c) in TEXT.char_indices().filter(|(_, c)| *c != '\n') {
                let position = lines.position(TEXT, byte);
                assert_eq!(lines.byte(TEXT, position), byte, "{c:?} at {position:?}");
            }
            assert_eq!(lines.byte(TEXT, lines.position(TEXT, TEXT.len())), TEXT.len());
        }
    }

    #[test]
    fn units_are_those_of_the_encoding() {
        let end = TEXT.find('\r').expect("a line ends");
        let at = |encoding| Lines::new(TEXT, encoding).position(TEXT, end);
        assert_eq!(at(Encoding::Utf8), Position { line: 0, character: 13 });
        assert_eq!(at(Encoding::Utf16), Position { line: 0, character: 10 });
        let last = TEXT.find('d').expect("the last line");
        let position = Lines::new(TEXT, Encoding::Utf16).position(TEXT, last);
        assert_eq!(position, Position { line: 4, character: 2 });
    }

    #[test]
    fn a_position_beyond_the_text_is_the_nearest() {
        let lines = Lines::new(TEXT, Encoding::Utf16);
        let byte = |line, character| lines.byte(TEXT, Position { line, character });
        assert_eq!(byte(0, 1000), TEXT.find('\r').expect("a line ends"));
        assert_eq!(byte(1000, 0), TEXT.len());
        assert_eq!(byte(u32::MAX, u32::MAX), TEXT.len());
        // Within a pair of surrogates.
        assert_eq!(byte(0, 9), TEXT.find('𝒳').expect("a letter"));
        assert_eq!(Lines::new("", Encoding::Utf8).byte("", Position { line: 3, character: 3 }), 0);
    }
}
