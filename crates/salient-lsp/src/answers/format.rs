//! The one layout, as `salient fmt` has it.

use super::Asked;
use crate::program::Shift;
use lsp_types::TextEdit;
use salient::format_source;

/// The change that gives a document the layout: none where it has it. A document that does not parse has none.
pub(crate) fn edits(asked: Asked<'_>) -> Option<Vec<TextEdit>> {
    let text = asked.document.now.text();
    let formatted = format_source("", text).ok()?;
    if formatted == text {
        return Some(Vec::new());
    }
    // What stays is left alone, so that the cursor stays where it is.
    let [from, to] = Shift::new(text, &formatted).changed();
    let new_text = formatted.get(to)?.to_owned();
    Some(vec![TextEdit { range: asked.document.range(from), new_text }])
}
