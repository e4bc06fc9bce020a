//! What every word and sign of the language means: for `salient doc`, and for editors that show it beside the text.
//!
//! Functions of the library are documented in their own source; keywords, signs and operators of the graph in `table`.

mod table;

use crate::library;

/// What an entry describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A word that cannot be a name.
    Keyword,
    /// A sign between values, before or behind one.
    Operator,
    /// A function that is an operator of the graph.
    Builtin,
    /// A declaration of the library, written in the language.
    Library,
}

impl Kind {
    /// Every kind, in the order in which they are listed.
    pub const ALL: [Kind; 4] = [Kind::Keyword, Kind::Operator, Kind::Builtin, Kind::Library];

    /// What one of the kind is called.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Keyword => "keyword",
            Kind::Operator => "operator",
            Kind::Builtin => "built-in function",
            Kind::Library => "library",
        }
    }
}

/// What is known of a word or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word or the sign.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// How it is written; of a declaration, its header.
    pub signature: String,
    /// What it means, in one or more lines.
    pub meaning: String,
    /// A use: for the library, the declaration itself, from which it can be seen what is computed.
    pub example: String,
}

impl Entry {
    /// Whether the word stands in the name, the signature or the meaning, in letters of either case.
    pub fn mentions(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        [self.name, &self.signature, &self.meaning].iter().any(|text| text.to_lowercase().contains(&word))
    }
}

/// Every entry, kind by kind: the library's in its own order.
pub fn entries() -> Vec<Entry> {
    let row = |kind, rows: &[table::Row]| {
        let entry = move |&(name, signature, meaning, example): &table::Row| Entry {
            name,
            kind,
            signature: signature.to_owned(),
            meaning: meaning.to_owned(),
            example: example.to_owned(),
        };
        rows.iter().map(entry).collect::<Vec<_>>()
    };
    let mut out = row(Kind::Keyword, table::KEYWORDS);
    out.extend(row(Kind::Operator, table::OPERATORS));
    out.extend(row(Kind::Builtin, table::BUILTINS));
    out.extend(library::documented().map(|declared| Entry {
        name: declared.name,
        kind: Kind::Library,
        signature: declared.header.to_owned(),
        meaning: declared.meaning,
        example: declared.text.to_owned(),
    }));
    out
}

/// Whether a word is one of the language's own, which nothing can be called.
pub(crate) fn is_keyword(word: &str) -> bool {
    let is_word = |row: &table::Row| row.0 == word && word.starts_with(|c: char| c.is_ascii_alphabetic());
    table::KEYWORDS.iter().chain(table::OPERATORS).any(is_word)
}

/// The entries of exactly that name; `-` is one sign with two meanings, in one entry.
pub fn named(name: &str) -> Option<Entry> {
    entries().into_iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, Sources, compile};
    use std::collections::BTreeSet;

    const GRAMMAR: &str = include_str!("../syntax/salient.pest");

    fn of(kind: Kind) -> BTreeSet<String> {
        entries().iter().filter(|e| e.kind == kind).map(|e| e.name.to_owned()).collect()
    }

    /// What stands in quotes in the rules whose names are given.
    fn quoted(rules: &[&str]) -> BTreeSet<String> {
        let rule = |name: &&str| {
            let line = GRAMMAR.lines().find(|l| l.split(' ').next() == Some(name));
            line.expect("a rule").split('"').nth(1).expect("a text in quotes").to_owned()
        };
        rules.iter().map(rule).collect()
    }

    #[test]
    fn every_keyword_of_the_grammar_is_described() {
        let rules = GRAMMAR.lines().filter(|l| l.starts_with("kw_"));
        let rules: Vec<&str> = rules.filter_map(|l| l.split(' ').next()).collect();
        assert!(rules.len() > 20, "{rules:?}");
        assert_eq!(of(Kind::Keyword), quoted(&rules));
    }

    #[test]
    fn every_operator_of_the_grammar_is_described() {
        let line = GRAMMAR.lines().find(|l| l.starts_with("infix = ")).expect("the infix operators");
        let inner = line.split(['{', '}']).nth(1).expect("a list in braces");
        let words = ["or", "and"];
        let rules: Vec<&str> = inner.split('|').map(str::trim).filter(|r| !words.contains(r)).collect();
        let mut signs = quoted(&rules);
        assert!(signs.len() > 10, "{signs:?}");
        // Those behind a value or in brackets, and the ones of headers.
        signs.extend([".T", "..", "_", ":", "->"].map(str::to_owned));
        assert_eq!(of(Kind::Operator), signs);
    }

    #[test]
    fn every_function_is_described() {
        let builtins: BTreeSet<String> = crate::builtin_names().map(str::to_owned).collect();
        assert_eq!(of(Kind::Builtin), builtins);
        let library: BTreeSet<String> = library::names().map(str::to_owned).collect();
        assert_eq!(of(Kind::Library), library);
    }

    #[test]
    fn names_are_unique_and_everything_is_said() {
        let mut seen = BTreeSet::new();
        for entry in entries() {
            assert!(seen.insert(entry.name), "`{}` is described twice", entry.name);
            for text in [&entry.signature, &entry.meaning, &entry.example] {
                assert!(!text.trim().is_empty(), "{entry:?}");
            }
        }
    }

    /// An expression is put into a model; what has a model stands alone. The library's declarations are compiled by its tests.
    #[test]
    fn every_example_compiles() {
        let mut wrong = Vec::new();
        for entry in entries().iter().filter(|e| e.kind != Kind::Library) {
            let head = "model example(x: f32[T, D], y: f32[T, D], n: i64[T])";
            let text = if entry.example.contains("model ") {
                entry.example.clone()
            } else {
                format!("{head} {{ return {} }}", entry.example)
            };
            let mut sources = Sources::new();
            sources.add("example.attn", &text);
            if entry.example.contains("import ") {
                sources.add("layers.attn", "fn twice(x) { return 2 * x }");
            }
            if let Err(found) = compile(&sources, None, &Settings::default()) {
                wrong.push(format!("`{}`: {text}: {}", entry.name, found[0].message));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn a_word_finds_what_mentions_it() {
        let found: Vec<&str> = entries().iter().filter(|e| e.mentions("CAUSAL")).map(|e| e.name).collect();
        assert!(found.contains(&"causal") && found.contains(&"prefix_causal"), "{found:?}");
        assert!(!found.contains(&"relu"));
        assert_eq!(named("relu").expect("a function").signature, "fn relu(x)");
        assert!(named("no_such_name").is_none());
    }
}
