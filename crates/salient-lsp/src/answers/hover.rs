//! What is shown beside the cursor: what a value is, and what the reference says of words and signs.

use super::{Asked, code, in_words, markdown};
use crate::program::Program;
use lsp_types::{Contents, Hover, Position};
use salient::reference::{Entry, Kind, named};
use salient::{Definition, DefinitionKind, Use, ast, word_at};

/// What is known of what stands at a position.
pub(crate) fn hover(asked: Asked<'_>, position: Position) -> Option<Hover> {
    let byte = asked.document.byte(position);
    if let Some((program, found)) = asked.document.name_at(byte) {
        let text = match program.definition(found) {
            Some(definition) => of_definition(asked, program, found, definition),
            None => of_word(asked, program, found)?,
        };
        let range = asked.range(program, found.span);
        return Some(Hover { contents: Contents::MarkupContent(markdown(text)), range });
    }
    let word = word_at(asked.document.now.text(), byte)?;
    let entry = named(&asked.document.now.text()[word.clone()]).map(|entry| of_entry(&entry));
    // Beside the sign, what the expression is that it stands in.
    let (program, at) = asked.document.knowing(byte);
    let known = program.expression_at(at).filter(|(span, _)| !span.range().is_empty());
    let known = known.and_then(|(span, shapes)| Some((program.sources.text(span), in_words(shapes)?)));
    let is_sign = asked.document.now.text()[word.clone()].chars().all(|c| !c.is_alphabetic() || c == 'T');
    let value = known.filter(|_| is_sign || entry.is_none()).map(|(text, shape)| typed(text, &shape));
    let parts: Vec<String> = value.into_iter().chain(entry).collect();
    let contents = Contents::MarkupContent(markdown(parts.join("\n\n")));
    (!parts.is_empty()).then(|| Hover { contents, range: Some(asked.document.range(word)) })
}

/// An expression with what it is, in one line.
fn typed(text: &str, shape: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    code(&format!("{text}: {shape}"))
}

fn of_definition(asked: Asked<'_>, program: &Program, found: Use, definition: &Definition) -> String {
    if let DefinitionKind::Function(_) = definition.kind {
        return of_function(program, definition);
    }
    let shape = in_words(&asked.document.shapes_of(program, found));
    let text = match &shape {
        Some(shape) => format!("{}: {shape}", definition.name),
        None => program.sources.text(definition.whole).to_owned(),
    };
    let mut out = format!("{}\n\n{}", code(&text), definition.kind.name());
    let declared = program.sources.text(definition.whole);
    if shape.is_some() && matches!(definition.kind, DefinitionKind::Parameter | DefinitionKind::State) {
        out = format!("{out}\n\n{}", code(declared));
    }
    out
}

/// A function's header, with its documentation.
fn of_function(program: &Program, definition: &Definition) -> String {
    let functions = program.outline.files.iter().flat_map(ast::File::functions);
    let declared = functions.into_iter().find(|f| f.name.span == definition.span);
    let Some(f) = declared else { return code(&definition.name) };
    let header = program.sources.text(ast::Span { end: f.body_span.start, ..f.span }).trim_end();
    let docs = f.docs.join("\n");
    if docs.is_empty() { code(header) } else { format!("{}\n\n{docs}", code(header)) }
}

/// A function of the library or an operator of the graph, with what its place is.
fn of_word(asked: Asked<'_>, program: &Program, found: Use) -> Option<String> {
    let name = program.sources.text(found.span);
    if let Some(entry) = named(name) {
        return Some(of_entry(&entry));
    }
    in_words(&asked.document.shapes(program, found.span)).map(|shape| typed(name, &shape))
}

fn of_entry(entry: &Entry) -> String {
    let about = match entry.kind {
        Kind::Library => "defined as",
        Kind::Keyword | Kind::Operator | Kind::Builtin => "for example",
    };
    let (head, meaning) = (code(&entry.signature), &entry.meaning);
    format!("{head}\n\n{} — {meaning}\n\n{about}\n\n{}", entry.kind.name(), code(&entry.example))
}
