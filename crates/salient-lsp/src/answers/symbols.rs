//! The declarations of a document, each with what it defines.

use super::Asked;
use crate::program::Program;
use lsp_types::{DocumentSymbol, SymbolKind};
use salient::{Definition, DefinitionKind, ast};

/// The outline of a document: of what does not parse, that from before.
pub(crate) fn symbols(asked: Asked<'_>) -> Vec<DocumentSymbol> {
    let now = &asked.document.now;
    let is_empty = now.outline.definitions.all().iter().all(|d| d.span.source != now.file);
    let program = match &asked.document.before {
        Some(before) if is_empty => before,
        Some(_) | None => now,
    };
    let all = program.outline.definitions.all();
    let own = all.iter().enumerate().filter(|(_, d)| d.span.source == program.file && d.within.is_none());
    let mut out: Vec<DocumentSymbol> =
        own.filter_map(|(number, d)| symbol(asked, program, number, d)).collect();
    out.sort_by_key(|symbol| (symbol.range.start.line, symbol.range.start.character));
    out
}

fn symbol(asked: Asked<'_>, program: &Program, number: usize, d: &Definition) -> Option<DocumentSymbol> {
    let inside = program.outline.definitions.all().iter().enumerate();
    let inside = inside.filter(|(_, other)| other.within == Some(number) && kind(other.kind).is_some());
    let children: Vec<DocumentSymbol> =
        inside.filter_map(|(number, other)| symbol(asked, program, number, other)).collect();
    let children = Some(children).filter(|children| !children.is_empty());
    let detail = Some(d.kind.name().to_owned());
    let (range, selection) = (asked.range(program, d.whole)?, asked.range(program, d.span)?);
    let name = d.name.clone();
    Some(DocumentSymbol {
        detail,
        children,
        ..DocumentSymbol::new(name, None, kind(d.kind)?, None, None, range, selection, None)
    })
}

/// What a definition is for the editor; what is not worth a line has none.
fn kind(kind: DefinitionKind) -> Option<SymbolKind> {
    match kind {
        DefinitionKind::Function(ast::Kind::Model) => Some(SymbolKind::Class),
        DefinitionKind::Function(ast::Kind::Block) => Some(SymbolKind::Method),
        DefinitionKind::Function(ast::Kind::Fn) => Some(SymbolKind::Function),
        DefinitionKind::Constant => Some(SymbolKind::Constant),
        DefinitionKind::Parameter | DefinitionKind::State => Some(SymbolKind::Field),
        DefinitionKind::Argument | DefinitionKind::Static | DefinitionKind::Axis | DefinitionKind::Value => {
            Some(SymbolKind::Variable)
        }
        DefinitionKind::Dimension | DefinitionKind::Loop | DefinitionKind::Index | DefinitionKind::Result => {
            None
        }
    }
}
