//! The tokens of a text: what is looked at where no tree of it is needed or can be had.

use crate::syntax::grammar::{Grammar, Rule};
use crate::syntax::limits::MAX_BYTES;
use pest::Parser as _;
use pest::iterators::Pair;
use std::collections::BTreeSet;
use std::ops::Range;

/// A token with where it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) rule: Rule,
    pub(crate) text: &'a str,
    pub(crate) start: usize,
    /// How many lines end before it.
    pub(crate) line: usize,
}

/// The tokens of a text, without white space and documentation.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let pairs = Grammar::parse(Rule::tokens, text).expect("any text is a sequence of tokens");
    let mut line = 0;
    let mut out = Vec::new();
    for pair in pairs.flat_map(|p| p.into_inner()) {
        let token = Token { rule: pair.as_rule(), text: pair.as_str(), start: pair.as_span().start(), line };
        line += token.text.matches('\n').count();
        if !matches!(token.rule, Rule::space | Rule::doc | Rule::EOI) {
            out.push(token);
        }
    }
    out
}

/// The word or sign that a byte of a text lies in, or that ends at it: `.T` is one sign, and of `as` and its path the word alone
/// is one. Between two of them it is the word, or else the one that begins there.
pub fn word_at(text: &str, byte: usize) -> Option<Range<usize>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let all = tokens(text);
    let around = all.iter().enumerate().filter_map(|(n, token)| {
        if matches!(token.rule, Rule::comment | Rule::string) {
            return None;
        }
        let before = n.checked_sub(1).map(|n| all[n]);
        let is_transpose =
            |dot: &Token<'_>| dot.is_sign(".") && dot.end() == token.start && token.text == "T";
        let start = before.filter(is_transpose).map_or(token.start, |dot| dot.start);
        let end = if token.rule == Rule::path_token { token.start + "as".len() } else { token.end() };
        (start <= byte && byte <= end).then_some((token.rule == Rule::word, start, end))
    });
    around.max().map(|(_, start, end)| start..end)
}

/// Whether what is typed at a byte of a text is code: not a part of a comment or a string.
pub fn is_code(text: &str, byte: usize) -> bool {
    if text.len() > MAX_BYTES {
        return false;
    }
    let pairs = Grammar::parse(Rule::tokens, text).expect("any text is a sequence of tokens");
    let inside = |pair: &Pair<'_, Rule>| {
        let (start, end) = (pair.as_span().start(), pair.as_span().end());
        // A comment goes on where it ends, a string does not.
        let is_comment = matches!(pair.as_rule(), Rule::comment | Rule::doc);
        start < byte && (byte < end && pair.as_rule() == Rule::string || byte <= end && is_comment)
    };
    !pairs.flat_map(|p| p.into_inner()).any(|pair| inside(&pair))
}

/// The names that stand in a text, each once, whether it parses or not.
pub fn names_in(text: &str) -> BTreeSet<&str> {
    if text.len() > MAX_BYTES {
        return BTreeSet::new();
    }
    tokens(text).into_iter().filter(Token::is_name).map(|token| token.text).collect()
}

/// The paths that a text imports, with their quotes: known by tokens alone, so that text which does not parse has them too.
pub(crate) fn imports(text: &str) -> Vec<(Range<usize>, &str)> {
    if !text.contains("import") {
        return Vec::new();
    }
    let all = tokens(text);
    let pairs = all.windows(2).filter(|pair| pair[0].text == "import" && pair[1].rule == Rule::string);
    pairs.map(|pair| (pair[1].start..pair[1].end(), pair[1].text.trim_matches('"'))).collect()
}

/// Words behind which an operand begins, or nothing.
const KEYWORDS: &[&str] =
    &["return", "then", "else", "if", "and", "or", "not", "in", "let", "require", "for"];

impl Token<'_> {
    /// One past its last byte.
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether it is this sign.
    pub(crate) fn is_sign(&self, sign: &str) -> bool {
        self.rule == Rule::sign && self.text == sign
    }

    /// Whether it is a name, and no keyword behind which an operand begins.
    pub(crate) fn is_name(&self) -> bool {
        self.rule == Rule::word && !KEYWORDS.contains(&self.text)
    }

    /// Whether an operand may end with it.
    pub(crate) fn ends_operand(&self) -> bool {
        let closes = self.is_sign(")") || self.is_sign("]");
        closes || self.is_name() || matches!(self.rule, Rule::int | Rule::float | Rule::selection_token)
    }
}
