//! What can be typed at a place: names in scope, functions of the library, keywords.

use super::{Asked, code, in_words, markdown};
use crate::program::Program;
use lsp_types::{CompletionItem, CompletionItemKind, Documentation, Position};
use salient::reference::{Entry, Kind, entries};
use salient::{DType, Definition, DefinitionKind, ast, is_code, names_in};
use std::collections::BTreeSet;

/// Everything that may stand at a position; the editor chooses by what is typed.
pub(crate) fn items(asked: Asked<'_>, position: Position) -> Vec<CompletionItem> {
    let byte = asked.document.byte(position);
    if !is_code(asked.document.now.text(), byte) {
        return Vec::new();
    }
    let (program, at) = asked.document.knowing(byte);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let visible = program.outline.definitions.visible(program.file, at as u32);
    let mut out: Vec<CompletionItem> = Vec::new();
    for definition in visible.filter(|d| d.kind != DefinitionKind::Function(ast::Kind::Model)) {
        if seen.insert(definition.name.clone()) {
            out.push(of_definition(asked, program, definition));
        }
    }
    for entry in entries().iter().filter(|entry| entry.kind != Kind::Operator) {
        if seen.insert(entry.name.to_owned()) {
            out.push(of_entry(entry));
        }
    }
    for dtype in DType::ALL {
        if seen.insert(dtype.name().to_owned()) {
            let detail = Some("element type".to_owned());
            out.push(item(dtype.name(), CompletionItemKind::TypeParameter, detail, "3"));
        }
    }
    // Where nothing is known of the declaration at hand, what it has as words is better than nothing.
    if !program.outline.errors.is_empty() && !program.is_read(at) {
        let word = salient::word_at(program.text(), at).map(|range| &program.text()[range]);
        for name in names_in(program.text()) {
            if Some(name) != word && seen.insert(name.to_owned()) {
                out.push(item(name, CompletionItemKind::Text, None, "1"));
            }
        }
    }
    out
}

/// An item; those of a lesser `rank` are shown first.
fn item(label: &str, kind: CompletionItemKind, detail: Option<String>, rank: &str) -> CompletionItem {
    let sort_text = Some(format!("{rank}{label}"));
    CompletionItem {
        label: label.to_owned(),
        kind: Some(kind),
        detail,
        sort_text,
        ..CompletionItem::default()
    }
}

fn of_definition(asked: Asked<'_>, program: &Program, definition: &Definition) -> CompletionItem {
    let kind = match definition.kind {
        DefinitionKind::Function(_) => CompletionItemKind::Function,
        DefinitionKind::Constant => CompletionItemKind::Constant,
        DefinitionKind::Dimension | DefinitionKind::Axis | DefinitionKind::Index => {
            CompletionItemKind::TypeParameter
        }
        DefinitionKind::Parameter | DefinitionKind::State => CompletionItemKind::Field,
        DefinitionKind::Argument
        | DefinitionKind::Static
        | DefinitionKind::Value
        | DefinitionKind::Loop
        | DefinitionKind::Result => CompletionItemKind::Variable,
    };
    let shape = in_words(&asked.document.shapes(program, definition.span));
    let detail = shape.unwrap_or_else(|| definition.kind.name().to_owned());
    let rank = if definition.kind.is_global() { "1" } else { "0" };
    item(&definition.name, kind, Some(detail), rank)
}

fn of_entry(entry: &Entry) -> CompletionItem {
    let (kind, rank) = match entry.kind {
        Kind::Keyword => (CompletionItemKind::Keyword, "3"),
        Kind::Operator => (CompletionItemKind::Operator, "3"),
        Kind::Builtin | Kind::Library => (CompletionItemKind::Function, "2"),
    };
    let text = format!("{}\n\n{}", code(&entry.signature), entry.meaning);
    let documentation = Some(Documentation::MarkupContent(markdown(text)));
    CompletionItem { documentation, ..item(entry.name, kind, Some(entry.kind.name().to_owned()), rank) }
}
