//! Other names for what a program defines.
//!
//! A new name is taken if the program means the same with it: every name still leads to the same definition, and compiling
//! tells of no new mistake.

use super::Asked;
use crate::program::Program;
use lsp_types::{Position, Range, TextEdit, WorkspaceEdit};
use salient::reference::{Kind, named};
use salient::{Definition, Meaning, Severity, Sources, Span, Use, examine, outline, word_at};
use std::collections::HashMap;

/// The place of a name that can be changed.
pub(crate) fn prepare(asked: Asked<'_>, position: Position) -> Option<Range> {
    let found = asked.document.now.name_at(asked.document.byte(position))?;
    asked.document.now.definition(found)?;
    Some(asked.document.range(found.span.range()))
}

/// The changes that give what stands at a position another name.
///
/// # Errors
/// Why it cannot have that name, in words for the user.
pub(crate) fn rename(asked: Asked<'_>, position: Position, name: &str) -> Result<WorkspaceEdit, String> {
    let program = &asked.document.now;
    if !program.parses() {
        return Err("the program has errors of syntax".to_owned());
    }
    if !is_name(name) {
        return Err(format!("`{name}` cannot be a name"));
    }
    let found = program.name_at(asked.document.byte(position)).ok_or("there is no name here")?;
    let definition = program.definition(found).ok_or("this name is the language's own")?;
    let Meaning::Defined(number) = found.meaning else { return Err("there is no name here".to_owned()) };
    let edits = edits(program, definition, number, name);
    means_the_same(program, &edits, name)?;
    let mut changes = HashMap::new();
    for (span, new) in edits {
        let location = asked.location(program, span).ok_or("the library cannot be changed")?;
        let edit = TextEdit { range: location.range, new_text: new };
        changes.entry(location.uri).or_insert_with(Vec::new).push(edit);
    }
    Ok(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() })
}

/// Whether a text can be a name: a word, and none of the language's own.
fn is_name(text: &str) -> bool {
    let letters = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_keyword = named(text).is_some_and(|entry| entry.kind == Kind::Keyword);
    letters && begins && text != "_" && !is_keyword && word_at(text, 0) == Some(0..text.len())
}

/// The places that change, in order, each with its new text: an axis that is called as its dimension, in lower case, follows it.
fn edits(program: &Program, definition: &Definition, number: usize, name: &str) -> Vec<(Span, String)> {
    let places = program.outline.definitions.renamed_with(number).into_iter();
    let new = |span: Span| {
        let is_axis = program.sources.text(span) != definition.name;
        (span, if is_axis { name.to_lowercase() } else { name.to_owned() })
    };
    places.map(new).collect()
}

/// The program with the edits made.
fn edited(sources: &Sources, edits: &[(Span, String)]) -> Sources {
    let mut out = Sources::new();
    for file in sources.user_files() {
        let mut text = file.text.clone();
        for (span, new) in edits.iter().rev().filter(|(span, _)| span.source == file.id) {
            text.replace_range(span.range(), new);
        }
        out.add(&file.name, &text);
    }
    out
}

fn means_the_same(program: &Program, edits: &[(Span, String)], name: &str) -> Result<(), String> {
    let sources = edited(&program.sources, edits);
    let after = outline(&sources);
    if !after.errors.is_empty() {
        return Err(format!("`{name}` cannot be a name here"));
    }
    let meanings = |uses: &[Use]| uses.iter().map(|u| u.meaning).collect::<Vec<_>>();
    if meanings(program.outline.definitions.uses()) != meanings(after.definitions.uses()) {
        return Err(format!("with `{name}`, a name would mean something else"));
    }
    let errors = |found: &[salient::Diagnostic]| {
        let all = found.iter().filter(|d| d.severity == Severity::Error);
        all.map(|d| d.message.clone()).collect::<Vec<_>>()
    };
    let before = match &program.examined {
        Some(examined) => errors(&examined.diagnostics),
        None => errors(&examine(&program.sources).diagnostics),
    };
    let found = errors(&examine(&sources).diagnostics);
    match found.first() {
        Some(new) if found.len() > before.len() => Err(format!("with `{name}`, {new}")),
        Some(_) | None => Ok(()),
    }
}
