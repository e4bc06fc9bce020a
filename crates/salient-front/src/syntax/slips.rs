//! Slips of the pen that are good syntax: a `//` that was to divide.
//!
//! Looks at tokens alone. What a program does without effect is found while it is lowered.

use crate::diag::Diagnostic;
use crate::source::{SourceFile, Span};
use crate::syntax::grammar::Rule;
use crate::syntax::tokens::{Token, tokens};
use std::collections::BTreeSet;

/// Warnings about a file.
pub(crate) fn check(source: &SourceFile) -> Vec<Diagnostic> {
    // Most files have no comment behind code, and need not be taken apart.
    let is_behind = |line: &str| line.trim_start().find("//").is_some_and(|at| at > 0);
    if !source.text.lines().any(is_behind) {
        return Vec::new();
    }
    let all = tokens(&source.text);
    let names: BTreeSet<&str> = all.iter().filter(|t| t.rule == Rule::word).map(|t| t.text).collect();
    let mut out = Vec::new();
    for pair in all.windows(2).chain(std::iter::once(&[][..])) {
        let [before, comment] = pair else { continue };
        let Some(words) = comment.text.strip_prefix("//").filter(|_| comment.rule == Rule::comment) else {
            continue;
        };
        if before.line != comment.line || !before.ends_operand() || !is_operand(words, &names) {
            continue;
        }
        let (start, end) = (comment.start as u32, (comment.start + comment.text.trim_end().len()) as u32);
        let d = Diagnostic::warning(
            Span { source: source.id, start, end },
            "`//` begins a comment: nothing is divided",
        )
        .saying("this is not read")
        .help("`int_div(a, b)` rounds a quotient of integers down, `floor(a / b)` one of numbers");
        out.push(d);
    }
    out
}

/// Whether the words of a comment are an expression over names of the file.
fn is_operand(words: &str, names: &BTreeSet<&str>) -> bool {
    let all = tokens(words);
    let value = |t: &Token<'_>| matches!(t.rule, Rule::int | Rule::float | Rule::word);
    let known = |t: &Token<'_>| t.rule != Rule::word || names.contains(t.text);
    let sign = |t: &Token<'_>| {
        t.rule != Rule::sign
            || matches!(t.text, "(" | ")" | "[" | "]" | "+" | "-" | "*" | "/" | "%" | "**" | ",")
    };
    let begins = all.first().is_some_and(|t| value(t) || t.text == "(");
    let in_turn = all.windows(2).all(|pair| !(value(&pair[0]) && value(&pair[1])));
    let plain = |t: &Token<'_>| (value(t) || t.rule == Rule::sign) && known(t) && sign(t);
    begins && in_turn && all.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source::Sources;

    fn slips(body: &str) -> usize {
        let mut sources = Sources::new();
        let id = sources.add("m.attn", &format!("model m(x: f32[T, D]) {{\n{body}\n}}"));
        check(sources.file(id)).len()
    }

    #[test]
    fn a_comment_that_was_to_divide_is_told() {
        for body in [
            "return x // 2",
            "let y = x[0, 0] // (T + 1)",
            "let y = (x) // T",
            "let y = x * 2 // 3 + D",
            "let y = x // x[0]",
            "return x // x",
        ] {
            assert_eq!(slips(body), 1, "{body}");
        }
        for body in [
            "return x // the input",
            "return x // 2 of these",
            "// 2",
            "return x\n// 2",
            "let y = x / // half\n 2",
            "return x // see Vaswani et al., 2017",
            "return x // result",
            "let y = \"a // 2\"",
        ] {
            assert_eq!(slips(body), 0, "{body}");
        }
    }
}
