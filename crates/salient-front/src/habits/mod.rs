//! What people bring from NumPy, PyTorch, Python and C, and what to write instead.
//!
//! Three tables: `marks` has the signs and words that the grammar does not take, `names` the functions of other systems,
//! with their spellings, and the names of values. `reading` looks at tokens, `finders`, `structure` and `calls` find what is
//! more than a sign, `spell` fills the templates, `define` makes definitions. Decides nothing: a program is refused elsewhere, and
//! here is only said how to go on.

mod calls;
mod define;
mod finders;
mod marks;
mod names;
mod reading;
mod spell;
mod structure;
mod table;

use crate::diag::Diagnostic;
use crate::source::{SourceFile, Span};
use marks::{Finds, MARKS, Mark, Match, WRITE};
use reading::Reading;
use std::ops::Range;

pub(crate) use spell::{Foreign, Shape, names_an_axis, says_an_axis, spelled};
pub use table::EXAMPLE;
pub use table::{Known, known_names};

/// What is said of `None`.
const NO_NULL: &str =
    "a new axis is `_`, as in `x[:, _, ..]`; an argument always has a value, as in `fn f(x, keep = true)`";

/// The most habits that are told of one part.
const MOST: usize = 50;

/// The habits in a part of a file that does not parse, each with its message.
pub(crate) fn found(source: &SourceFile, part: Range<usize>) -> Vec<Diagnostic> {
    let reading = Reading::new(&source.text[part.clone()]);
    let mut out = Vec::new();
    let mut at = 0;
    while at < reading.len() && out.len() < MOST {
        let found = MARKS.iter().find_map(|mark| Some((mark, mark.finds.at(&reading, at)?)));
        at = match found {
            Some((mark, found)) => {
                let (start, end) = reading.bytes(found.from, found.to);
                let place = |byte: usize| (part.start + byte) as u32;
                out.push(mark.told(Span { source: source.id, start: place(start), end: place(end) }, &found));
                found.to.max(at + 1)
            }
            None => at + 1,
        };
    }
    out
}

/// The functions that a program can call.
fn callable() -> impl Iterator<Item = &'static str> {
    crate::builtin_names().chain(crate::library::names())
}

/// What is said of a text that stands where the grammar expects another.
pub(crate) fn misplaced(found: &str) -> Option<&'static str> {
    marks::MISPLACED.iter().find(|(text, _)| *text == found).map(|(_, help)| *help)
}

/// What is said of an axis among the arguments.
pub(crate) fn axis_in_brackets(name: &str) -> String {
    format!("`{name}` takes an axis in brackets, by its name")
}

/// What is said of a name that has a meaning in other systems, and none here.
pub(crate) fn of_name(name: &str) -> Option<String> {
    if let Some((_, here)) = names::ACTIONS.iter().find(|(there, _)| *there == name) {
        return Some((*here).to_owned());
    }
    let here = names::VALUES.iter().find(|(there, _)| *there == name);
    match here {
        Some(("None", _)) => Some(NO_NULL.to_owned()),
        Some((_, here)) => Some(format!("write `{here}`")),
        // A letter is an index or a dimension that is not there, whatever other systems call so.
        None if name.len() < 2 => None,
        None => {
            let call = Foreign { name: name.to_owned(), ..Foreign::default() };
            spelled(&call).map(|spelling| spelling.help())
        }
    }
}

impl Finds {
    fn at(&self, reading: &Reading<'_>, at: usize) -> Option<Match> {
        let plain = |to: usize| Match { from: at, to, it: reading.source(at, to), write: String::new() };
        match self {
            Finds::Signs(signs) => {
                let all = signs
                    .iter()
                    .enumerate()
                    .all(|(n, sign)| reading.at(at + n) == *sign && (n == 0 || reading.touches(at + n)));
                all.then(|| plain(at + signs.len()))
            }
            Finds::Leads(words) => {
                let leads = reading.begins_line(at) && words.contains(&reading.at(at));
                let defines = matches!(reading.at(at + 1), "=" | "(" | "[" | ",");
                (leads && !defines).then(|| Match { to: reading.line_end(at), ..plain(at + 1) })
            }
            Finds::By(find) => find(reading, at),
        }
    }
}

impl Mark {
    fn told(&self, span: Span, found: &Match) -> Diagnostic {
        let filled = |text: &str| text.replace("{it}", &found.it).replace("{write}", &found.write);
        let said = self.help != WRITE || !found.write.is_empty();
        let help = said.then(|| filled(self.help)).filter(|help| !help.is_empty());
        Diagnostic::error(span, filled(self.message)).help_if(help)
    }
}
