//! The tokens of text that does not parse, and what can be told of them all the same: what brackets hold, where operands begin
//! and end, which shape a name is declared with.

use super::spell::Shape;
use crate::syntax::grammar::Rule;
use crate::syntax::tokens::{Token, tokens};

/// The most tokens that are looked at from one on for the end of a line or an expression, so that no text takes long.
const REACH: usize = 256;

/// A text by its tokens, without comments.
pub(super) struct Reading<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(text: &'a str) -> Reading<'a> {
        let tokens = tokens(text).into_iter().filter(|t| t.rule != Rule::comment).collect();
        Reading { text, tokens }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn token(&self, n: usize) -> Option<&Token<'a>> {
        self.tokens.get(n)
    }

    /// The text of a token; nothing where there is none.
    pub(super) fn at(&self, n: usize) -> &'a str {
        self.tokens.get(n).map_or("", |t| t.text)
    }

    pub(super) fn is_name(&self, n: usize) -> bool {
        self.token(n).is_some_and(Token::is_name)
    }

    pub(super) fn is_number(&self, n: usize) -> bool {
        self.token(n).is_some_and(|t| matches!(t.rule, Rule::int | Rule::float))
    }

    /// Whether an operand may end with the token before this one, on its line.
    pub(super) fn follows_operand(&self, n: usize) -> bool {
        n > 0 && self.tokens[n - 1].ends_operand() && !self.begins_line(n)
    }

    /// Whether a token stands directly behind the one before it.
    pub(super) fn touches(&self, n: usize) -> bool {
        n > 0 && self.token(n).is_some_and(|t| t.start == self.tokens[n - 1].end())
    }

    /// Whether a token is the first one of its line.
    pub(super) fn begins_line(&self, n: usize) -> bool {
        n == 0 || self.token(n).is_none_or(|t| t.line > self.tokens[n - 1].line)
    }

    /// One past the last token of the line of a token.
    pub(super) fn line_end(&self, n: usize) -> usize {
        let end = self.len().min(n + REACH);
        (n + 1..=end).find(|m| self.begins_line(*m)).unwrap_or(end)
    }

    /// How far a line is indented.
    pub(super) fn column(&self, n: usize) -> usize {
        let start = self.tokens[n].start;
        start - self.text[..start].rfind('\n').map_or(0, |at| at + 1)
    }

    /// One past the last token of the lines below that are indented further.
    pub(super) fn block_end(&self, n: usize) -> usize {
        let column = self.column(n);
        let ends = |m: &usize| self.begins_line(*m) && (*m == self.len() || self.column(*m) <= column);
        (self.line_end(n)..=self.len()).find(ends).unwrap_or(self.len())
    }

    /// The bytes of tokens; a text may end before what is looked for.
    pub(super) fn bytes(&self, from: usize, to: usize) -> (usize, usize) {
        let last = self.len().saturating_sub(1);
        (self.tokens[from.min(last)].start, self.tokens[(to.max(from + 1) - 1).min(last)].end())
    }

    /// The text of tokens, on one line.
    pub(super) fn source(&self, from: usize, to: usize) -> String {
        if from >= to.min(self.len()) {
            return String::new();
        }
        let (start, end) = self.bytes(from, to);
        self.text[start..end].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Where a bracket that opens is closed.
    pub(super) fn close(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for n in open..self.len() {
            match self.at(n) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(n);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Where a bracket that closes is opened.
    fn open(&self, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for n in (0..=close).rev() {
            match self.at(n) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(n);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The bracket around a token that opens on its line.
    pub(super) fn enclosing(&self, n: usize) -> Option<&'a str> {
        let mut at = n;
        while at > 0 && at + REACH > n && !self.begins_line(at) {
            at = match self.at(at - 1) {
                ")" | "]" => self.open(at - 1)?,
                "(" | "[" => return Some(self.at(at - 1)),
                _ => at - 1,
            };
        }
        None
    }

    /// Where the operand begins that ends before a token: a name, number or group, with what is called and read of it.
    pub(super) fn operand_before(&self, n: usize) -> Option<usize> {
        let mut end = n.checked_sub(1)?;
        loop {
            let start = match self.at(end) {
                ")" | "]" => self.open(end)?,
                _ if self.token(end)?.ends_operand() => end,
                _ => return None,
            };
            let joined = self.touches(start) && start > 0;
            let dotted = joined && self.at(start - 1) == "." && start > 1;
            let called = joined && self.at(start) != self.at(end) && self.tokens[start - 1].ends_operand();
            match (dotted, called) {
                (true, _) => end = start - 2,
                (_, true) => end = start - 1,
                _ => return Some(start),
            }
        }
    }

    /// One past the last token of the operand that begins at a token.
    pub(super) fn operand_after(&self, n: usize) -> Option<usize> {
        let mut at = n + usize::from(matches!(self.at(n), "-" | "not"));
        at = match self.at(at) {
            "(" | "[" => self.close(at)? + 1,
            _ if self.is_name(at) || self.is_number(at) => at + 1,
            _ => return None,
        };
        while self.touches(at) {
            at = match self.at(at) {
                "(" | "[" => self.close(at)? + 1,
                "." if self.at(at + 1) == "T" => at + 2,
                _ => return Some(at),
            };
        }
        Some(at)
    }

    /// Where the expression begins in which a token stands: behind what opens, separates or defines.
    pub(super) fn expression_start(&self, n: usize) -> usize {
        let mut at = n;
        while at > 0 && at + REACH > n && !self.begins_line(at) {
            match self.at(at - 1) {
                ")" | "]" => match self.open(at - 1) {
                    Some(open) => at = open,
                    None => return at,
                },
                "(" | "[" | "{" | "," | "=" | "return" | ":" => return at,
                _ => at -= 1,
            }
        }
        at
    }

    /// One past the end of the expression in which a token stands, on its line.
    pub(super) fn expression_end(&self, n: usize) -> usize {
        let mut at = n;
        while at < self.len().min(n + REACH) && (at == n || !self.begins_line(at)) {
            match self.at(at) {
                "(" | "[" => match self.close(at) {
                    Some(close) => at = close + 1,
                    None => return at,
                },
                ")" | "]" | "}" | "," | ";" | "{" => return at,
                _ => at += 1,
            }
        }
        at
    }

    /// What commas part between two brackets.
    pub(super) fn items(&self, open: usize, close: usize) -> Vec<(usize, usize)> {
        let mut out = Vec::new();
        let (mut start, mut at) = (open + 1, open + 1);
        while at < close {
            match self.at(at) {
                "(" | "[" | "{" => at = self.close(at).unwrap_or(close),
                "'" => at = (at + 1..close).find(|n| self.at(*n) == "'").unwrap_or(at),
                "," => {
                    out.push((start, at));
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        if start < close {
            out.push((start, close));
        }
        out
    }

    /// The arguments between parentheses, with their names.
    pub(super) fn arguments(&self, open: usize, close: usize) -> Vec<(Option<String>, String)> {
        let argument = |(from, to): (usize, usize)| {
            let is_named = self.at(from + 1) == "=" && self.at(from + 2) != "=" && from + 2 < to;
            let name = is_named.then(|| self.at(from).to_owned());
            (name, self.source(from + if is_named { 2 } else { 0 }, to))
        };
        self.items(open, close).into_iter().map(argument).collect()
    }

    /// The shape that a name has been declared with before a token: in a parameter's type, or on the left of an indexed
    /// definition, where the lengths are not known.
    pub(super) fn shape(&self, name: &str, before: usize) -> Option<Shape> {
        (0..before.min(self.len())).rev().filter(|n| self.at(*n) == name).find_map(|n| {
            if self.at(n + 1) == ":" && self.at(n + 3) == "[" {
                return self.typed(n + 3);
            }
            let defines = n > 0 && matches!(self.at(n - 1), "let" | ",") && self.at(n + 1) == "[";
            let close = if defines { self.close(n + 1)? } else { return None };
            let indices = (self.at(close + 1) == "=").then(|| self.items(n + 1, close))?;
            indices.into_iter().map(|(from, to)| self.index(from, to)).collect()
        })
    }

    /// The axes in the brackets of a type.
    fn typed(&self, open: usize) -> Option<Shape> {
        let extent = |(from, to): (usize, usize)| match self.at(from) {
            ".." => None,
            _ if self.at(from + 1) == ":" => Some((self.at(from).to_owned(), self.source(from + 2, to))),
            name if to == from + 1 && self.is_name(from) => Some((name.to_lowercase(), name.to_owned())),
            _ => Some((String::new(), self.source(from, to))),
        };
        self.items(open, self.close(open)?).into_iter().map(extent).collect()
    }

    /// An index of a left side; where its length is not written, the name in capitals stands for it.
    fn index(&self, from: usize, to: usize) -> Option<(String, String)> {
        let name = self.is_name(from).then(|| self.at(from).to_owned())?;
        let length = if self.at(from + 1) == ":" { self.source(from + 2, to) } else { name.to_uppercase() };
        Some((name, length))
    }
}
