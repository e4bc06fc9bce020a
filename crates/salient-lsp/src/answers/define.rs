//! Where a name is defined, and where it is used.

use super::Asked;
use crate::lines::Lines;
use crate::uri::uri_of;
use lsp_types::{Location, Position, Range};
use salient::{Meaning, library_place};
use std::path::Path;

/// Where what stands at a position is defined: a name of the program, a file that is imported, or a function of the library, whose
/// files lie in the folder.
pub(crate) fn definition(asked: Asked<'_>, position: Position, library: Option<&Path>) -> Option<Location> {
    let byte = asked.document.byte(position);
    if let Some(file) = imported(asked, byte) {
        return Some(file);
    }
    let (program, found) = asked.document.name_at(byte)?;
    match program.definition(found) {
        Some(definition) => asked.location(program, definition.span),
        None => in_library(asked, program.sources.text(found.span), library?),
    }
}

/// The file whose import stands at a byte.
fn imported(asked: Asked<'_>, byte: usize) -> Option<Location> {
    let program = &asked.document.now;
    let own =
        program.outline.definitions.imports().iter().filter(|import| import.span.source == program.file);
    let import = own.into_iter().find(|import| import.span.range().contains(&byte))?;
    let path = program.path.parent()?.join(&import.path);
    path.is_file().then(|| Location { uri: uri_of(&path), range: Range::default() })
}

/// A declaration of the library in a file of the folder, which is written where it is not there.
fn in_library(asked: Asked<'_>, name: &str, folder: &Path) -> Option<Location> {
    let (file, text, place) = library_place(name)?;
    let path = folder.join(Path::new(file).file_name()?);
    let is_there = std::fs::read_to_string(&path).is_ok_and(|there| there == text);
    if !is_there {
        std::fs::create_dir_all(folder).ok()?;
        salient::replace_text(&path, text).ok()?;
    }
    let start = place.start + text[place.clone()].find(name)?;
    let lines = Lines::new(text, asked.document.encoding());
    Some(Location { uri: uri_of(&path), range: lines.range(text, start..start + name.len()) })
}

/// Every place where what stands at a position is used.
pub(crate) fn references(asked: Asked<'_>, position: Position, with_definition: bool) -> Vec<Location> {
    let byte = asked.document.byte(position);
    let Some((program, found)) = asked.document.name_at(byte) else { return Vec::new() };
    let Meaning::Defined(number) = found.meaning else { return Vec::new() };
    let own = program.definition(found).map(|definition| definition.span);
    let places = program.outline.definitions.renamed_with(number).into_iter();
    places
        .filter(|span| with_definition || Some(*span) != own)
        .filter_map(|span| asked.location(program, span))
        .collect()
}
