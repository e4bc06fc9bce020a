//! The one layout of source text, behind `salient fmt`.
//!
//! Moves tokens and keeps every one of them, comments included: spaces and indentation are decided here, line breaks
//! inside a statement are the author's. Formatting twice gives what formatting once gave.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "over the grammar's rules: which of them can stand at a place is the grammar's decision"
)]

use crate::diag::Diagnostic;
use crate::source::SourceFile;
use crate::syntax::ast::{File, Item, Stmt, StmtKind};
use crate::syntax::grammar::{Grammar, Rule};
use crate::syntax::parse::parse;
use pest::Parser as _;
use std::collections::BTreeSet;

/// One step of indentation.
const INDENT: &str = "    ";

/// The text in the one layout, or its syntax errors.
pub fn format(source: &SourceFile) -> Result<String, Vec<Diagnostic>> {
    let tree = parse(source)?;
    let tokens = tokens(&source.text);
    let layout = Layout::new(&tree, &tokens);
    Ok(Writer { out: String::new(), open: Vec::new(), line: 0 }.write(&tokens, &layout))
}

/// A token with what stood before it.
#[derive(Debug)]
struct Token<'a> {
    rule: Rule,
    text: &'a str,
    start: usize,
    /// Line breaks between the previous token and this one.
    breaks: usize,
    /// Whether any white space stood before it.
    spaced: bool,
}

impl Token<'_> {
    fn is_sign(&self, text: &str) -> bool {
        self.rule == Rule::sign && self.text == text
    }

    fn is_word(&self, text: &str) -> bool {
        self.rule == Rule::word && self.text == text
    }

    fn is_comment(&self) -> bool {
        matches!(self.rule, Rule::comment | Rule::doc)
    }

    fn opens(&self) -> bool {
        self.rule == Rule::sign && matches!(self.text, "(" | "[" | "{")
    }

    fn closes(&self) -> bool {
        self.rule == Rule::sign && matches!(self.text, ")" | "]" | "}")
    }

    /// Whether an operand may end here: what follows is an operator between operands, a call or an index.
    fn ends_operand(&self) -> bool {
        match self.rule {
            Rule::word => !KEYWORDS.contains(&self.text),
            Rule::sign => matches!(self.text, ")" | "]"),
            _ => !self.is_comment(),
        }
    }
}

/// Words after which an operand begins.
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "and", "or", "not", "in", "return", "let", "require", "for", "param", "const",
    "state", "axis", "import",
];

fn tokens(text: &str) -> Vec<Token<'_>> {
    let pairs = Grammar::parse(Rule::tokens, text).expect("any text is a sequence of tokens");
    let mut out = Vec::new();
    let (mut breaks, mut spaced) = (0, false);
    for pair in pairs.flat_map(|p| p.into_inner()) {
        match pair.as_rule() {
            Rule::space => {
                breaks += pair.as_str().matches('\n').count();
                spaced = true;
            }
            Rule::EOI => {}
            rule => {
                let start = pair.as_span().start();
                out.push(Token { rule, text: pair.as_str(), start, breaks, spaced });
                (breaks, spaced) = (0, false);
            }
        }
    }
    out
}

/// What the syntax tree says about line breaks.
struct Layout {
    /// Where declarations begin, with their documentation.
    items: BTreeSet<usize>,
    /// Where statements begin.
    statements: BTreeSet<usize>,
    /// Positions among the tokens of the braces (both of each pair) whose statements get a line each.
    exploded: BTreeSet<usize>,
}

impl Layout {
    fn new(tree: &File, tokens: &[Token<'_>]) -> Layout {
        let mut statements = BTreeSet::new();
        for item in &tree.items {
            if let Item::Function(f) = item {
                collect(&f.body, &mut statements);
            }
        }
        let mut items = BTreeSet::new();
        let mut depth = 0;
        let mut docs = None;
        for token in tokens {
            let is_item = token.rule == Rule::word
                && matches!(token.text, "model" | "block" | "fn" | "const" | "import");
            if depth == 0 && is_item {
                items.insert(docs.unwrap_or(token.start));
            }
            docs = match token.rule {
                Rule::doc => docs.or(Some(token.start)),
                Rule::comment => docs,
                _ => None,
            };
            depth += i32::from(token.opens()) - i32::from(token.closes());
        }
        Layout { exploded: exploded(tokens, &statements), items, statements }
    }
}

fn collect(body: &[Stmt], out: &mut BTreeSet<usize>) {
    for stmt in body {
        out.insert(stmt.span.start as usize);
        match &stmt.kind {
            StmtKind::For(_, body) | StmtKind::Each(_, body) => collect(body, out),
            StmtKind::If(_, then, otherwise) => collect_sides(then, otherwise, out),
            StmtKind::Let(..)
            | StmtKind::Assign(..)
            | StmtKind::Param(_)
            | StmtKind::State(_)
            | StmtKind::Const(_)
            | StmtKind::Require(..)
            | StmtKind::Return(_) => {}
        }
    }
}

/// What `if` chooses between. `else if` is one statement after another, but stays on the line of its brace.
fn collect_sides(then: &[Stmt], otherwise: &[Stmt], out: &mut BTreeSet<usize>) {
    collect(then, out);
    match otherwise {
        [Stmt { kind: StmtKind::If(_, a, b), .. }] => collect_sides(a, b, out),
        other => collect(other, out),
    }
}

/// The braces whose content has several statements, a comment or a line break; those of one `if` go together.
fn exploded(tokens: &[Token<'_>], statements: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut open = Vec::new();
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (n, token) in tokens.iter().enumerate() {
        if token.is_sign("{") {
            open.push(n);
        } else if token.is_sign("}")
            && let Some(from) = open.pop()
        {
            pairs.push((from, n));
        }
    }
    let mut out = BTreeSet::new();
    for (from, to) in &pairs {
        let inner = &tokens[from + 1..=*to];
        let count = statements.range(tokens[*from].start..tokens[*to].start).count();
        if count > 1 || inner.iter().any(|t| t.breaks > 0 || t.is_comment()) {
            out.extend([*from, *to]);
        }
    }
    // `} else {`: what one side does, the other does.
    let other_side = |from: usize| match (tokens.get(from.wrapping_sub(1)), tokens.get(from.wrapping_sub(2)))
    {
        (Some(e), Some(end)) if e.is_word("else") && end.is_sign("}") => {
            pairs.iter().find(|p| p.1 == from - 2)
        }
        _ => None,
    };
    for (from, to) in &pairs {
        if let Some((first, end)) = other_side(*from)
            && (out.contains(from) || out.contains(first))
        {
            out.extend([*from, *to, *first, *end]);
        }
    }
    out
}

struct Writer {
    out: String,
    /// Each open bracket with the line on which it stands.
    open: Vec<(usize, &'static str)>,
    line: usize,
}

impl Writer {
    fn write(mut self, tokens: &[Token<'_>], layout: &Layout) -> String {
        for (n, token) in tokens.iter().enumerate() {
            let previous = n.checked_sub(1).map(|p| &tokens[p]);
            let closed = if token.closes() { self.open.pop() } else { None };
            if let Some(previous) = previous {
                let before_previous = n.checked_sub(2).map(|p| &tokens[p]);
                match self.break_before(n, token, previous, tokens, layout) {
                    0 if space_between(
                        before_previous,
                        previous,
                        token,
                        self.open.last().is_some_and(|o| o.1 == "["),
                    ) =>
                    {
                        self.out.push(' ');
                    }
                    0 => {}
                    breaks => {
                        let starts = layout.items.contains(&token.start)
                            || layout.statements.contains(&token.start)
                            || previous.rule == Rule::doc;
                        self.new_line(breaks, token, starts, closed.map(|c| c.0));
                    }
                }
            }
            match token.rule {
                Rule::path_token => {
                    let path: Vec<&str> = token.text.split_whitespace().collect();
                    self.out.push_str(&path.join(" "));
                }
                Rule::comment | Rule::doc => self.out.push_str(token.text.trim_end()),
                _ => self.out.push_str(token.text),
            }
            let kinds = ["(", "[", "{"];
            if let Some(kind) = kinds.into_iter().find(|k| token.is_sign(k)) {
                self.open.push((self.line, kind));
            }
        }
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }

    /// How many line breaks stand before a token: none, one, or two (an empty line).
    fn break_before(
        &self,
        n: usize,
        token: &Token<'_>,
        previous: &Token<'_>,
        tokens: &[Token<'_>],
        layout: &Layout,
    ) -> usize {
        let empty_line = usize::from(token.breaks > 1);
        if layout.items.contains(&token.start) && self.open.is_empty() {
            // Imports and constants may stand together; functions stand apart.
            let word = tokens[n..].iter().find(|t| !t.is_comment()).map_or("", |t| t.text);
            let own_comment = previous.is_comment() && (n == 1 || previous.breaks > 0);
            let together = matches!(word, "import" | "const") || own_comment;
            return if together { 1 + empty_line } else { 2 };
        }
        if previous.is_comment() {
            return if token.is_sign("}") { 1 } else { 1 + empty_line };
        }
        if token.is_comment() {
            let trailing = token.breaks == 0 && token.rule == Rule::comment;
            return match (trailing, previous.is_sign("{")) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 1 + empty_line,
            };
        }
        if previous.is_sign("{") {
            return usize::from(layout.exploded.contains(&(n - 1)));
        }
        if token.is_sign("}") {
            return usize::from(layout.exploded.contains(&n));
        }
        if layout.statements.contains(&token.start) {
            return 1 + empty_line;
        }
        if token.is_sign("{") || token.is_word("else") && previous.is_sign("}") {
            return 0;
        }
        usize::from(token.breaks > 0)
    }

    fn new_line(&mut self, breaks: usize, token: &Token<'_>, starts: bool, closed: Option<usize>) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.out.push_str(&"\n".repeat(breaks));
        self.line += breaks;
        // Brackets that opened on one line indent once, and end where that line began.
        let lines: BTreeSet<usize> = self.open.iter().map(|o| o.0).filter(|l| Some(*l) != closed).collect();
        let mut depth = lines.len();
        let between_brackets = self.open.last().is_some_and(|o| o.1 != "{");
        let continues = !starts && !token.is_comment() && !token.closes() && !between_brackets;
        depth += usize::from(continues);
        self.out.push_str(&INDENT.repeat(depth));
    }
}

/// Whether a space stands between two tokens on one line.
fn space_between(
    before: Option<&Token<'_>>,
    previous: &Token<'_>,
    token: &Token<'_>,
    in_brackets: bool,
) -> bool {
    if token.is_comment() {
        return true;
    }
    let sign = |t: &Token<'_>, list: &[&str]| t.rule == Rule::sign && list.contains(&t.text);
    if sign(previous, &["(", "[", "."]) || sign(token, &[")", "]", ",", "."]) {
        return false;
    }
    if sign(previous, &["{"]) || sign(token, &["{", "}"]) || sign(previous, &[","]) {
        return true;
    }
    // A sign before an operand, such as that of a negative number.
    if sign(previous, &["-"]) && !before.is_some_and(Token::ends_operand) {
        return false;
    }
    if sign(token, &["(", "["]) {
        return !previous.ends_operand();
    }
    if sign(token, &[".."]) || sign(previous, &[".."]) {
        return previous.rule == Rule::word && !previous.ends_operand();
    }
    if sign(token, &[":"]) {
        return false;
    }
    if sign(previous, &[":"]) {
        // `x[0:E]` or `sum[j: T]`: in brackets the author knows.
        return !in_brackets || token.spaced;
    }
    true
}
