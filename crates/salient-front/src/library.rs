//! The language's own library: `.attn` source, embedded.
//!
//! A program uses few of its declarations, and parsing all of them would take longer than anything else that is done with
//! a small program. They are found by their layout instead, and those are parsed whose names the program has as words.

use crate::diag::Diagnostic;
use crate::embedded::FILES;
use crate::source::SourceId;
use crate::syntax::ast::Item;
use crate::syntax::parse::parse_part;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

/// A declaration, without its documentation.
struct Declaration {
    name: &'static str,
    file: usize,
    place: Range<usize>,
}

/// Every declaration: it begins with its keyword at the left edge, and ends with a brace there or, a constant, with its line.
static DECLARATIONS: LazyLock<Vec<Declaration>> = LazyLock::new(|| {
    let mut out = Vec::new();
    for (file, (_, text)) in FILES.iter().enumerate() {
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
            let end = match keyword {
                "const" => Some(start + line.len()),
                "fn" | "block" => text[start..].find("\n}").map(|at| start + at + 2),
                _ => None,
            };
            let name = words(rest).next();
            out.extend(end.zip(name).map(|(end, name)| Declaration { name, file, place: start..end }));
            start += line.len();
        }
    }
    out
});

/// Names, numbers and keywords.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The names of all declarations.
pub(crate) fn names<'a>() -> impl Iterator<Item = &'a str> {
    DECLARATIONS.iter().map(|d| d.name)
}

/// Where the library declares a name: the name of the file, its text, and the range of bytes of the declaration.
pub fn library_place(name: &str) -> Option<(&'static str, &'static str, Range<usize>)> {
    let found = DECLARATIONS.iter().find(|d| d.name == name)?;
    let (file, text) = FILES[found.file];
    Some((file, text, found.place.clone()))
}

/// A declaration with its documentation.
pub(crate) struct Documented {
    pub(crate) name: &'static str,
    /// Up to its body; a constant has none.
    pub(crate) header: &'static str,
    /// The documentation, line by line.
    pub(crate) meaning: String,
    /// The whole declaration.
    pub(crate) text: &'static str,
}

/// Every declaration, with the lines of documentation that stand right above it.
pub(crate) fn documented() -> impl Iterator<Item = Documented> {
    DECLARATIONS.iter().map(|declaration| {
        let file = FILES[declaration.file].1;
        let text = file[declaration.place.clone()].trim_end();
        let header = text.split_once(" {\n").map_or(text, |(header, _)| header);
        let above = file[..declaration.place.start].lines().rev();
        let mut lines: Vec<&str> = above.map_while(|line| line.strip_prefix("///")).map(str::trim).collect();
        lines.reverse();
        Documented { name: declaration.name, header, meaning: lines.join("\n"), text }
    })
}

/// The declarations that programs of these texts can reach, in the library's order: those whose names stand in a text or
/// in a declaration that is reached.
pub(crate) fn reached<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Item>, Vec<Diagnostic>> {
    let mut said: BTreeSet<&str> = texts.flat_map(words).collect();
    let mut reached = vec![false; DECLARATIONS.len()];
    let found = |said: &BTreeSet<&str>, reached: &[bool]| {
        DECLARATIONS.iter().zip(reached).position(|(d, known)| !known && said.contains(d.name))
    };
    while let Some(at) = found(&said, &reached) {
        reached[at] = true;
        let Declaration { file, place, .. } = &DECLARATIONS[at];
        said.extend(words(&FILES[*file].1[place.clone()]));
    }
    let mut items = Vec::new();
    for (declaration, _) in DECLARATIONS.iter().zip(reached).filter(|(_, reached)| *reached) {
        items.extend(parse(declaration)?);
    }
    Ok(items)
}

fn parse(declaration: &Declaration) -> Result<Vec<Item>, Vec<Diagnostic>> {
    let Declaration { file, place, .. } = declaration;
    let id = SourceId(u32::try_from(*file).expect("the library has few files"));
    parse_part(id, FILES[*file].0, &FILES[*file].1[place.clone()], place.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Sources, Span};

    /// The name of a declaration, where it stands, and its text but for what documents it.
    fn shown(item: &Item) -> (String, Span, String) {
        match item {
            Item::Function(f) => {
                let bare = crate::syntax::ast::Function { docs: Vec::new(), ..f.clone() };
                (f.name.name.clone(), f.name.span, format!("{bare:?}"))
            }
            Item::Const(c) => (c.name.name.clone(), c.name.span, format!("{:?}", c.value)),
            Item::Import(text) => (text.value.clone(), text.span, String::new()),
        }
    }

    #[test]
    fn declarations_found_by_layout_are_those_that_parsing_finds() {
        let sources = Sources::new();
        let whole =
            sources.files().iter().flat_map(|file| crate::parse(file).expect("the library parses").items);
        let parts = DECLARATIONS.iter().flat_map(|d| parse(d).expect("a declaration parses by itself"));
        let (whole, parts): (Vec<_>, Vec<_>) =
            (whole.map(|i| shown(&i)).collect(), parts.map(|i| shown(&i)).collect());
        assert_eq!(whole, parts);
        assert!(names().eq(whole.iter().map(|(name, ..)| name.as_str())));
    }

    #[test]
    fn what_a_declaration_uses_is_reached_with_it() {
        let reached = |text| {
            let items = reached([text].into_iter()).expect("the library parses");
            items.iter().map(|item| shown(item).0).collect::<Vec<_>>()
        };
        assert_eq!(reached("let y = x * soft"), [""; 0]);
        assert_eq!(reached("softmax[j](s)"), ["softmax"]);
        assert!(reached("gelu_tanh(x)").contains(&"pi".to_owned()), "{:?}", reached("gelu_tanh(x)"));
    }
}
