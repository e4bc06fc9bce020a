//! What is said of text that the grammar does not take.
//!
//! Only words: what the language is, the grammar alone decides.

use crate::diag::Diagnostic;
use crate::habits;
use crate::source::{SourceFile, Span};
use crate::syntax::grammar::{Grammar, Rule};
use crate::syntax::limits;
use pest::Parser as _;
use pest::error::{ErrorVariant, InputLocation};

/// What pest expected, in the words of the language.
pub(super) fn syntax_error(
    source: &SourceFile,
    offset: usize,
    error: &pest::error::Error<Rule>,
) -> Diagnostic {
    let at = offset
        + match error.location {
            InputLocation::Pos(at) | InputLocation::Span((at, _)) => at,
        };
    if let Some(unused) = unused_value(source, offset, at) {
        return unused;
    }
    let rest = &source.text[at..];
    let found = first_token(rest);
    if let Some(open) = never_closed(source, offset, at, found) {
        return open;
    }
    let span = Span { source: source.id, start: at as u32, end: (at + found.len()) as u32 };
    let mut expected: Vec<&str> = match &error.variant {
        ErrorVariant::ParsingError { positives, .. } => WORDS
            .iter()
            .filter(|(rules, _)| rules.iter().any(|r| positives.contains(r)))
            .map(|(_, words)| *words)
            .collect(),
        ErrorVariant::CustomError { .. } => Vec::new(),
    };
    expected.sort_unstable();
    expected.dedup();
    let wanted = match expected.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        [init @ .., last] => Some(format!("{} or {last}", init.join(", "))),
    };
    let message = match (found, wanted) {
        ("", _) => "the file ends in the middle of a declaration".to_owned(),
        (_, Some(wanted)) => format!("{wanted} is expected here, not `{found}`"),
        (_, None) => format!("`{found}` is not expected here"),
    };
    let help = habits::misplaced(found).map(str::to_owned);
    let mut d = Diagnostic::error(span, message).help_if(help);
    let closes = matches!(found, ")" | "]" | "}");
    match limits::open_bracket(&source.text[offset..at]) {
        Some((start, bracket)) if closes || found.is_empty() => {
            let start = (offset + start) as u32;
            let open = Span { source: source.id, start, end: start + 1 };
            d = d.also(open, format!("this `{bracket}` is not closed"));
        }
        None if matches!(found, ")" | "]") => {
            d = Diagnostic::error(span, format!("this `{found}` closes nothing")).help("leave it out");
        }
        Some(_) | None => {}
    }
    d
}

/// A parenthesis or bracket that is open where a statement or declaration begins.
fn never_closed(source: &SourceFile, offset: usize, at: usize, found: &str) -> Option<Diagnostic> {
    let (start, bracket) = limits::open_bracket(&source.text[offset..at])?;
    let close = match bracket {
        "(" => ')',
        "[" => ']',
        _ => return None,
    };
    if !STATEMENTS.contains(&found) {
        return None;
    }
    let start = offset + start;
    let span = Span { source: source.id, start: start as u32, end: start as u32 + 1 };
    let line = source.text[start..at].lines().next().unwrap_or_default().trim_end();
    Some(
        Diagnostic::error(span, format!("this `{bracket}` is not closed"))
            .help(format!("write `{line}{close}`")),
    )
}

/// A value that stands where a statement must, on the line of the error or on the one before it.
fn unused_value(source: &SourceFile, offset: usize, at: usize) -> Option<Diagnostic> {
    let before = source.text[offset..at].trim_end();
    let line = offset + before.rfind('\n')?;
    let text = source.text[line..].trim_start();
    let start = source.text.len() - text.len();
    let value = Grammar::parse(Rule::lone_value, text).ok()?.next()?.into_inner().next()?;
    let value = value.as_str().trim_end();
    let end = start + value.len();
    // What is wrong behind the value has another reason.
    let behind = source.text.get(end..at).is_some_and(|between| !between.trim().is_empty());
    let span = Span { source: source.id, start: start as u32, end: end as u32 };
    let error = Diagnostic::error(span, "nothing is done with this value")
        .help("a body ends with `return …`; a definition begins with `let`");
    (!behind).then_some(error)
}

/// The words that begin a statement or a declaration.
const STATEMENTS: &[&str] =
    &["let", "return", "param", "state", "require", "for", "const", "model", "block", "fn", "import"];

fn first_token(text: &str) -> &str {
    let Some(first) = text.chars().next() else { return "" };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if is_word(first) {
        let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
        &text[..end]
    } else if text.starts_with("///") {
        "///"
    } else {
        ["&&", "||", "->", "=="]
            .into_iter()
            .find(|t| text.starts_with(t))
            .unwrap_or(&text[..first.len_utf8()])
    }
}

/// What a rule that might have matched is called in a message. Rules that are not listed go without saying.
const WORDS: &[(&[Rule], &str)] = &[
    (&[Rule::EOI, Rule::function, Rule::import, Rule::constant, Rule::kind], "a declaration"),
    (&[Rule::ident, Rule::target, Rule::parameter, Rule::static_param, Rule::named_result], "a name"),
    (&[Rule::expr, Rule::choice, Rule::group, Rule::int, Rule::argument, Rule::item], "an expression"),
    (&[Rule::add, Rule::sub, Rule::mul, Rule::div, Rule::or, Rule::le], "an operator"),
    (&[Rule::let_stmt, Rule::assign_stmt, Rule::return_stmt], "a statement"),
    (&[Rule::ty], "a type"),
    (&[Rule::extent], "a dimension"),
    (&[Rule::body], "`{`"),
    (&[Rule::string], "a string in quotes"),
    (&[Rule::path, Rule::segment, Rule::path_text], "a path"),
    (&[Rule::kw_in], "`in`"),
    (&[Rule::kw_then], "`then`"),
    (&[Rule::kw_else], "`else`"),
    (&[Rule::range], "a range"),
    (&[Rule::results, Rule::named_results], "a result type"),
];
