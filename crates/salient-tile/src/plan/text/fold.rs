//! Equal blocks of a chain as one text: what in the text of a block becomes what in that of another one.
//!
//! In a folded text stand: values of the block itself by the names that they have in the first block, parameters and states by
//! those of one block, and what a block takes over from the one before by the name of what the first block takes instead. In
//! the text of block `k` a value has the number of the block behind its name, `x.2@5`, but in the first one. The printer
//! folds what [`expanded`] gives again; the reader expands it.

use super::words::{bracket_end, renamed};
use std::collections::{BTreeMap, BTreeSet};

/// The names of what is stored outside: parameters and states, with their paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports {
    paths: BTreeMap<String, String>,
    names: BTreeMap<String, String>,
}

impl Ports {
    /// Adds what goes by a name and is held at a path.
    pub(crate) fn add(&mut self, name: &str, path: &str) {
        self.paths.insert(name.to_owned(), path.to_owned());
        self.names.insert(path.to_owned(), name.to_owned());
    }

    /// Whether something goes by the name, or is held at that path.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.paths.contains_key(name) || self.names.contains_key(name)
    }

    /// What a port of one block, or of the one before it, or a state after the call, is in another block.
    fn in_block(&self, name: &str, stem: &str, from: usize, to: usize) -> Option<String> {
        if let Some(path) = self.paths.get(name) {
            return self.names.get(&moved(path, stem, from, to)?).cloned();
        }
        let path = self.names.contains_key(name).then(|| moved(name, stem, from, to))??;
        self.names.contains_key(&path).then_some(path)
    }
}

/// Blocks that a text may stand for, at most: a text is a few words, what it stands for is held in memory.
const MOST_BLOCKS: usize = 10_000;

/// The number that a text says, written as numbers are, of a block of those that a text may stand for.
pub(crate) fn number(text: &str) -> Option<usize> {
    let number = text.parse::<usize>().ok().filter(|number| *number <= MOST_BLOCKS)?;
    (number.to_string() == text).then_some(number)
}

/// The first number of a path, with what is before and behind it.
pub(crate) fn numbered(path: &str) -> Option<(&str, usize, &str)> {
    let mut at = 0;
    for part in path.split('.') {
        if let Some(number) = number(part) {
            return Some((&path[..at], number, &path[at + part.len()..]));
        }
        at += part.len() + 1;
    }
    None
}

/// The path of a block, or of the one before it, in another block.
fn moved(path: &str, stem: &str, from: usize, to: usize) -> Option<String> {
    let (before, number, behind) = numbered(path)?;
    let is_near = before == stem && (number == from || number + 1 == from);
    is_near.then(|| Some(format!("{before}{}{behind}", (number + to).checked_sub(from)?)))?
}

/// Equal blocks one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    /// What stands before the number of a block in the paths of its parameters.
    pub(crate) stem: String,
    /// The number of the first block.
    pub(crate) first: usize,
    /// The names that values of the blocks have in the first one.
    pub(crate) own: BTreeSet<String>,
    /// What the first block takes, with what of the block before the others take in its place.
    pub(crate) carried: BTreeMap<String, String>,
}

impl Chain {
    /// The name of a value in a block.
    pub(crate) fn at(&self, name: &str, block: usize) -> String {
        if block == self.first { name.to_owned() } else { format!("{name}@{block}") }
    }

    /// A name without the number of the block, and that number.
    pub(crate) fn place<'n>(&self, name: &'n str) -> Option<(&'n str, usize)> {
        match name.split_once('@') {
            Some((base, block)) => self.own.contains(base).then(|| Some((base, number(block)?)))?,
            None => self.own.contains(name).then_some((name, self.first)),
        }
    }

    /// The name in the first block of what goes by a name in another one.
    pub(crate) fn in_first(&self, ports: &Ports, name: &str, block: usize) -> String {
        match self.place(name) {
            Some((base, _)) => base.to_owned(),
            None => ports.in_block(name, &self.stem, block, self.first).unwrap_or_else(|| name.to_owned()),
        }
    }

    /// The text of a block with the names that values have in the first one.
    pub(crate) fn folded(&self, text: &str, block: usize) -> String {
        let taken =
            |base: &str| self.carried.iter().find(|(_, of)| *of == base).map(|(name, _)| name.clone());
        renamed(text, |name| {
            let (base, at) = self.place(name)?;
            if at == block {
                return Some(base.to_owned());
            }
            let carried = if at + 1 == block { taken(base) } else { None };
            carried.or_else(|| Some(format!("{base}@{at}")))
        })
    }

    /// What a [folded](Chain::folded) text of one block is in another.
    pub(crate) fn expanded(&self, ports: &Ports, text: &str, from: usize, to: usize) -> String {
        renamed(text, |name| {
            if let Some((base, at)) = name.split_once('@') {
                let at = (number(at)? + to).checked_sub(from)?;
                return self.own.contains(base).then(|| self.at(base, at));
            }
            if let Some(of) = self.carried.get(name) {
                return (to > self.first).then(|| self.at(of, to - 1));
            }
            if self.own.contains(name) {
                return Some(self.at(name, to));
            }
            ports.in_block(name, &self.stem, from, to)
        })
    }
}

/// Paths as one where they differ in their first number alone and these follow each other: `h.{0 .. 12}.weight`.
pub(crate) fn folded_paths(paths: impl Iterator<Item = String>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<usize>, String)> = Vec::new();
    for path in paths {
        let (before, number, behind) = match numbered(path.split(['[', ':', ' ']).next().unwrap_or(&path)) {
            Some((before, number, _)) => {
                let behind = &path[before.len() + number.to_string().len()..];
                (before.to_owned(), Some(number), behind.to_owned())
            }
            None => (path.clone(), None, String::new()),
        };
        let follows = |(start, numbers, end): &&mut (String, Vec<usize>, String)| {
            *start == before && *end == behind && number.is_some() && numbers.last().map(|n| n + 1) == number
        };
        match groups.iter_mut().find(follows) {
            Some((_, numbers, _)) => numbers.extend(number),
            None => groups.push((before, number.into_iter().collect(), behind)),
        }
    }
    let shown = |(before, numbers, behind): (String, Vec<usize>, String)| match numbers.as_slice() {
        [] => format!("{before}{behind}"),
        [one] => format!("{before}{one}{behind}"),
        [first, .., last] => format!("{before}{{{first} .. {}}}{behind}", last + 1),
    };
    groups.into_iter().map(shown).collect()
}

/// The paths that one is short for, and whether the numbers in it are right.
pub(crate) fn expanded_paths(path: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = path.split_once('{') else { return Some(vec![path.to_owned()]) };
    let (range, behind) = rest.split_once('}')?;
    let (first, end) = range_of(range)?;
    Some((first..end).map(|number| format!("{before}{number}{behind}")).collect())
}

/// The numbers of `0 .. 6`.
pub(crate) fn range_of(text: &str) -> Option<(usize, usize)> {
    let (first, end) = text.split_once(" .. ")?;
    let (first, end) = (number(first)?, number(end)?);
    (first < end).then_some((first, end))
}

/// A type taken apart: what stands before its dimensions, and these.
pub(crate) fn dims_of(ty: &str) -> Option<(&str, Vec<&str>)> {
    match ty.split_once('[') {
        None => Some((ty, Vec::new())),
        Some((elem, dims)) => Some((elem, list(dims.strip_suffix(']')?))),
    }
}

/// The parts of a list, which have commas inside brackets alone.
pub(crate) fn list(text: &str) -> Vec<&str> {
    let (mut out, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(c) = text[at..].chars().next() {
        at += match c {
            '[' | '(' => bracket_end(&text[at..]).unwrap_or(1),
            ',' => {
                out.push(text[start..at].trim());
                start = at + 1;
                1
            }
            c => c.len_utf8(),
        };
    }
    let last = text[start..].trim();
    out.extend(Some(last).filter(|last| !last.is_empty()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_blocks_are_written_as_numbers_are() {
        assert_eq!(numbered("h.7.w"), Some(("h.", 7, ".w")));
        for other in ["h.07.w", "h.+7.w", "h.18446744073709551615.w", "h.w"] {
            assert_eq!(numbered(other), None, "{other}");
        }
        let paths = ["h.0.w", "h.1.w", "h.01.w"].map(String::from);
        assert_eq!(folded_paths(paths.into_iter()), ["h.{0 .. 2}.w", "h.01.w"]);
    }

    #[test]
    fn types_without_an_end_are_none() {
        assert_eq!(dims_of("f32[T, 4]"), Some(("f32", vec!["T", "4"])));
        assert_eq!(dims_of("f32"), Some(("f32", Vec::new())));
        assert_eq!(dims_of("f32["), None);
        assert_eq!(dims_of("f32[é"), None);
    }
}
