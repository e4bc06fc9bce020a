//! Programs: files, or standard input by the name `-`.

use crate::output::waiting;
use salient::{Error, Sources, with_imports};
use std::io::Read;
use std::path::Path;

/// What messages call standard input.
const STANDARD_INPUT: &str = "<stdin>";

/// Whether a path stands for standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A program and the files that it imports, which are relative to the working directory where it comes from standard input.
pub(crate) fn read_sources(path: &Path) -> Result<Sources, Error> {
    if is_standard_input(path) {
        return with_imports(STANDARD_INPUT, &standard_input()?);
    }
    salient::read_sources(path)
}

/// The text of one file, and what messages call it.
pub(crate) fn read_text(path: &Path) -> Result<(String, String), Error> {
    if is_standard_input(path) {
        return Ok((STANDARD_INPUT.to_owned(), standard_input()?));
    }
    Ok((path.display().to_string(), salient::read_source(path)?))
}

fn standard_input() -> Result<String, Error> {
    waiting::end();
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    let unreadable =
        |e: std::io::Error| Error::Unreadable { path: STANDARD_INPUT.into(), reason: e.to_string() };
    read.map_err(unreadable)?;
    Ok(text)
}
