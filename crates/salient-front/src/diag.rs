//! Diagnostics: what is wrong, where, and what to do about it.
//!
//! Decides nothing about programs; every other module reports through it.

use crate::source::{SourceId, Sources, Span};
use codespan_reporting::diagnostic::{Diagnostic as Report, Label, Severity as Level};
use codespan_reporting::files::SimpleFiles;
use codespan_reporting::term;
use std::collections::BTreeSet;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The program is refused.
    Error,
    /// The program is taken.
    Warning,
}

/// One message with the places that it speaks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The message; it stands alone.
    pub message: String,
    /// The culprit, with what is to be said about it there.
    pub primary: Option<(Span, String)>,
    /// Other places that matter.
    pub secondary: Vec<(Span, String)>,
    /// What is known beside: expected and found, the arithmetic that fails.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            primary: Some((span, String::new())),
            secondary: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// An error that is in no place of the source, such as the name of a model that does not exist.
    pub fn placeless(message: impl Into<String>) -> Diagnostic {
        let nowhere = Span { source: SourceId(0), start: 0, end: 0 };
        Diagnostic { primary: None, ..Diagnostic::error(nowhere, message) }
    }

    /// A warning at a place.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// A warning as an error, for those who want none.
    pub fn denied(self) -> Diagnostic {
        match self.severity {
            Severity::Error => self,
            Severity::Warning => Diagnostic { severity: Severity::Error, ..self }.note("warnings are denied"),
        }
    }

    /// With words under the culprit.
    pub fn saying(mut self, words: impl Into<String>) -> Diagnostic {
        if let Some((_, label)) = &mut self.primary {
            *label = words.into();
        }
        self
    }

    /// With another place.
    pub fn also(mut self, span: Span, words: impl Into<String>) -> Diagnostic {
        let words = words.into();
        if !self.secondary.iter().any(|(s, w)| *s == span && *w == words) {
            self.secondary.push((span, words));
        }
        self
    }

    /// With a note.
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// With a hint.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// With a hint, where there is one.
    pub fn help_if(mut self, help: Option<String>) -> Diagnostic {
        if help.is_some() {
            self.help = help;
        }
        self
    }
}

/// The diagnostics as text, one after the other, in the manner of rustc.
pub fn render(diagnostics: &[Diagnostic], sources: &Sources, colour: bool) -> String {
    let mut files = SimpleFiles::new();
    for file in sources.files() {
        files.add(escaped(&file.name), harmless(&file.text));
    }
    let config = term::Config::default();
    let mut buffer = term::termcolor::Buffer::no_color();
    if colour {
        buffer = term::termcolor::Buffer::ansi();
    }
    for diagnostic in diagnostics {
        // Writing into memory; a span outside its file would be a broken invariant of the parser.
        term::emit_to_write_style(&mut buffer, &config, &files, &report(diagnostic))
            .expect("every span lies in its file");
    }
    let text = String::from_utf8_lossy(buffer.as_slice()).into_owned();
    // The renderer pads empty gutters; trailing blanks are noise in a terminal and in snapshots.
    let mut out: String = text.lines().map(|l| format!("{}\n", l.trim_end())).collect();
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

fn report(diagnostic: &Diagnostic) -> Report<usize> {
    let level = match diagnostic.severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
    };
    let place = |span: &Span| (span.source.0 as usize, span.range());
    let mut out = Report::new(level).with_message(escaped(&diagnostic.message));
    if let Some((span, words)) = &diagnostic.primary {
        let (file, range) = place(span);
        out.labels.push(Label::primary(file, range).with_message(escaped(words)));
    }
    for (span, words) in &diagnostic.secondary {
        let (file, range) = place(span);
        out.labels.push(Label::secondary(file, range).with_message(escaped(words)));
    }
    out.notes.extend(diagnostic.notes.iter().map(|n| format!("note: {}", escaped(n))));
    out.notes.extend(diagnostic.help.iter().map(|h| format!("help: {}", escaped(h))));
    out
}

/// Whether a terminal would do something with a character instead of showing it: controls, and what turns the direction of
/// a text.
fn is_control(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// Words in which every character is shown; breaks of lines stay.
pub fn escaped(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for c in words.chars() {
        if is_control(c) && c != '\n' { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// A source with another character of as many bytes in the place of each that a terminal would act on, so that places stay
/// what they are.
fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let ends_line = c == '\n' || (c == '\r' && chars.peek() == Some(&'\n'));
        out.push(match c.len_utf8() {
            _ if !is_control(c) || ends_line || c == '\t' => c,
            1 => '?',
            2 => '\u{b7}',
            _ => '\u{fffd}',
        });
    }
    out
}

/// `did you mean …?`, if one of the candidates is near enough to what was written.
pub fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let candidates: BTreeSet<&str> = candidates.into_iter().collect();
    // `gelu` for `gelu_erf` and `gelu_tanh`; a name that many contain says too little.
    let has_it = |name: &&&str| **name != written && name.split('_').any(|word| word == written);
    let longer: Vec<String> = candidates.iter().filter(has_it).map(|name| format!("`{name}`")).collect();
    if (1..=MOST_LONGER).contains(&longer.len()) {
        return Some(format!("did you mean {}?", longer.join(" or ")));
    }
    nearest(written, candidates).map(|name| format!("did you mean `{name}`?"))
}

/// What is said to those who give an axis among the arguments, by its number, as other languages have it.
pub(crate) const AXIS_IN_BRACKETS: &str = "an axis stands in brackets, by its index: `softmax[j](s[i, j])`";

/// The most names that are offered for one of their words.
const MOST_LONGER: usize = 4;

/// The candidate at the smallest edit distance, at most a third of the length away (capitals aside); of equals the
/// first by text.
pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = written.chars().count() / 3;
    candidates
        .into_iter()
        .map(|c| (edit_distance(&written.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(d, c)| *d <= limit && *d < c.chars().count().max(written.chars().count()) && *c != written)
        .min()
        .map(|(_, c)| c)
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one text to the other.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swap = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(swap)
            };
        }
    }
    rows[a.len()][b.len()]
}

/// Names that a message lists, at most.
const LISTED: usize = 24;

/// `a`, `b` and `c`: names for a message; of very many the first.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., _, _] if names.len() > LISTED => {
            let shown = &first[..LISTED - 4];
            format!("{} and {} more", shown.join(", "), names.len() - shown.len())
        }
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// `1 axis`, `2 axes`: a count with its noun.
pub fn counted(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_names_the_first_are_listed() {
        let names: Vec<String> = (0..100).map(|n| format!("n{n}")).collect();
        let few = listed(names[..3].iter().map(String::as_str));
        assert_eq!(few, "`n0`, `n1` and `n2`");
        let many = listed(names.iter().map(String::as_str));
        assert!(many.starts_with("`n0`, `n1`, ") && many.ends_with("`n19` and 80 more"), "{many}");
    }

    #[test]
    fn what_a_terminal_would_act_on_is_shown() {
        let mut sources = Sources::new();
        let text = "model m(x: f32[T]) {\r\n\treturn \u{1b}]0;title\u{7}\u{9b}31m\u{202e}x\r}";
        let id = sources.add("a\u{1b}[2J.attn", text);
        let span = Span { source: id, start: 30, end: 31 };
        let d = Diagnostic::error(span, "found `\u{1b}`").saying("\u{7}").note("\u{9b}").help("\u{202e}");
        let shown = render(&[d], &sources, false);
        assert!(!shown.chars().any(|c| is_control(c) && c != '\n'), "{shown:?}");
        assert!(shown.contains("found `\\u{1b}`") && shown.contains("?]0;title?"), "{shown}");
        // Every place is where it was.
        assert_eq!(harmless(text).len(), text.len());
        assert!(harmless(text).is_char_boundary(text.find('x').unwrap()));
    }

    #[test]
    fn names_of_which_it_is_a_word_are_offered() {
        let names = ["gelu_tanh", "relu", "gelu_erf", "layer_norm", "gelu_erf"];
        assert_eq!(did_you_mean("gelu", names).unwrap(), "did you mean `gelu_erf` or `gelu_tanh`?");
        assert_eq!(did_you_mean("norm", names).unwrap(), "did you mean `layer_norm`?");
        assert_eq!(did_you_mean("gel", names), None);
        assert_eq!(did_you_mean("relus", names).unwrap(), "did you mean `relu`?");
        assert_eq!(did_you_mean("x", ["x_1", "x_2", "x_3", "x_4", "x_5"]), None);
    }

    #[test]
    fn near_names_are_found() {
        assert_eq!(nearest("sofmax", ["softmax", "sum"]), Some("softmax"));
        assert_eq!(nearest("lienar", ["linear", "layer_norm"]), Some("linear"));
        assert_eq!(nearest("q", ["k", "v"]), None);
        assert_eq!(nearest("Q", ["q", "v"]), Some("q"));
        assert_eq!(nearest("banana", ["linear"]), None);
    }

    #[test]
    fn lists_read_as_english() {
        assert_eq!(listed(["a"]), "`a`");
        assert_eq!(listed(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(counted(1, "axis", "axes"), "1 axis");
    }
}
