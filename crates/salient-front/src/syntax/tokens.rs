//! The tokens of a text: what is looked at where no tree of it is needed or can be had.

use crate::syntax::grammar::{Grammar, Rule};
use pest::Parser as _;

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
        closes || self.is_name() || matches!(self.rule, Rule::int | Rule::float)
    }
}
