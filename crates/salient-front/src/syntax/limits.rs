//! What is refused before it is parsed: texts that are too large, and nesting that could exhaust the stack.
//!
//! Works on tokens alone, without recursion. Also notes where declarations begin, for [`crate::parse()`] to recover at.

use crate::diag::Diagnostic;
use crate::source::{SourceFile, Span};
use crate::syntax::grammar::{Grammar, Rule};
use pest::Parser as _;

/// Largest source file, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Deepest nesting of brackets, choices and prefix operators.
pub const MAX_NESTING: usize = 64;
/// Deepest syntax tree of one expression, in operators.
pub const MAX_OPERATORS: usize = 256;
/// Longest checkpoint path in the source, in bytes.
const MAX_PATH: usize = 512;

/// What the scan learns.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Byte offsets at which declarations (with their documentation) begin.
    pub(crate) item_starts: Vec<usize>,
}

/// Refuses what must not be parsed.
pub(crate) fn check(source: &SourceFile) -> Result<Tokens, Box<Diagnostic>> {
    let text = &source.text;
    if text.len() > MAX_BYTES {
        return Err(Box::new(Diagnostic::placeless(format!(
            "`{}` has {} bytes; a source file may have {MAX_BYTES}",
            source.name,
            text.len()
        ))));
    }
    let pairs = Grammar::parse(Rule::tokens, text).expect("any text is a sequence of tokens");
    let mut scan =
        Scan { groups: vec![0], item_starts: Vec::new(), docs_from: None, prefixes: 0, previous: "" };
    for pair in pairs.flat_map(|p| p.into_inner()) {
        let (start, word) = (pair.as_span().start(), pair.as_str());
        let depth = scan.step(pair.as_rule(), start, word, text);
        if depth > MAX_NESTING {
            let span = Span { source: source.id, start: start as u32, end: (start + word.len()) as u32 };
            return Err(Box::new(
                Diagnostic::error(span, "this is nested too deeply")
                    .saying(format!("more than {MAX_NESTING} levels"))
                    .help("give parts of it names of their own with `let`"),
            ));
        }
        if pair.as_rule() == Rule::path_token && word.len() > MAX_PATH {
            let span = Span { source: source.id, start: start as u32, end: (start + word.len()) as u32 };
            return Err(Box::new(Diagnostic::error(span, format!("a path may have {MAX_PATH} bytes"))));
        }
    }
    Ok(Tokens { item_starts: scan.item_starts })
}

struct Scan<'a> {
    /// For each open bracket, how many choices and powers nest in it at this point.
    groups: Vec<usize>,
    item_starts: Vec<usize>,
    /// Where a run of documentation began.
    docs_from: Option<usize>,
    /// Length of the run of prefix operators that ends here.
    prefixes: usize,
    previous: &'a str,
}

impl<'a> Scan<'a> {
    /// Takes one token; gives the depth at it.
    fn step(&mut self, rule: Rule, start: usize, word: &'a str, text: &str) -> usize {
        if rule == Rule::space || rule == Rule::comment {
            return 0;
        }
        if rule == Rule::doc {
            self.docs_from = self.docs_from.or(Some(start));
            return 0;
        }
        let line_start = start == 0 || text.as_bytes()[start - 1] == b'\n';
        let is_item = rule == Rule::word
            && matches!(word, "model" | "block" | "fn" | "const" | "import")
            && (line_start || self.groups.len() == 1)
            && self.previous != "->";
        if is_item {
            self.item_starts.push(self.docs_from.unwrap_or(start));
            if line_start {
                self.groups = vec![0];
            }
        }
        self.docs_from = None;
        self.previous = word;
        self.prefixes = if matches!(word, "-" | "not") { self.prefixes + 1 } else { 0 };
        let open = self.groups.len();
        let innermost = self.groups.last_mut().expect("one group is always open");
        match word {
            "(" | "[" | "{" if rule == Rule::sign => self.groups.push(0),
            ")" | "]" | "}" if rule == Rule::sign && open > 1 => {
                self.groups.pop();
            }
            "if" | "**" => *innermost += 1,
            "let" | "return" | "for" | "param" | "require" | "," | "=" => *innermost = 0,
            _ => {}
        }
        self.groups.len() - 1 + self.groups.iter().sum::<usize>() + self.prefixes
    }
}

/// The innermost parenthesis or square bracket that is still open at the end of a text, with its place.
pub(crate) fn open_bracket(text: &str) -> Option<(usize, &str)> {
    let pairs = Grammar::parse(Rule::tokens, text).expect("any text is a sequence of tokens");
    let mut open = Vec::new();
    for pair in pairs.flat_map(|p| p.into_inner()).filter(|p| p.as_rule() == Rule::sign) {
        match pair.as_str() {
            "(" | "[" | "{" => open.push((pair.as_span().start(), pair.as_str())),
            ")" | "]" | "}" => {
                open.pop();
            }
            _ => {}
        }
    }
    open.pop().filter(|(_, bracket)| *bracket != "{")
}
