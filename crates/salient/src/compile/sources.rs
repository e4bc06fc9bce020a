//! Source files from the file system: a program and the files that it imports.
//!
//! Only reads and finds imports; what the text means is the front end's business.

use crate::report::error::Error;
use salient_front::{Diagnostic, SourceId, Sources, Span, parse};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Reads a program and, recursively, the files that it imports; their paths are relative to the importing file. A file
/// that is imported more than once is read once.
///
/// # Errors
/// [`Error::Unreadable`] if the program itself cannot be read; [`Error::Source`] if a file does not parse or an import
/// cannot be read, at the place of the import.
pub fn read_sources(path: impl AsRef<Path>) -> Result<Sources, Error> {
    let path = path.as_ref();
    with_imports(path, &read_source(path)?)
}

/// A program whose text is given, with the files that it imports: `path` is what messages call it, and says where imports begin.
///
/// # Errors
/// As [`read_sources`].
pub fn with_imports(path: impl AsRef<Path>, text: &str) -> Result<Sources, Error> {
    let (sources, unread) = with_imports_by(path, text, &read_source_text);
    let parsed = sources.user_files().iter().map(|file| parse(file).err());
    let mut faults: Vec<Diagnostic> = parsed.flatten().flatten().collect();
    faults.extend(unread);
    if faults.is_empty() { Ok(sources) } else { Err(Error::source(faults, sources)) }
}

/// As [`with_imports`], of text that need not parse: `read` gives the text of each file that is imported, or says why it cannot. What
/// cannot be imported is told beside, at the place of the import.
pub fn with_imports_by(
    path: impl AsRef<Path>,
    text: &str,
    read: &dyn Fn(&Path) -> Result<String, String>,
) -> (Sources, Vec<Diagnostic>) {
    let path = path.as_ref();
    let mut sources = Sources::new();
    let first = sources.add(&path.display().to_string(), text);
    let mut seen = BTreeSet::from([identity(path)]);
    let mut waiting = vec![(first, path.to_owned())];
    let mut faults = Vec::new();
    while let Some((id, path)) = waiting.pop() {
        for (target, span) in imports(&sources, id) {
            let target_path = path.parent().unwrap_or(Path::new("")).join(&target);
            if !seen.insert(identity(&target_path)) {
                continue;
            }
            match read(&target_path) {
                Ok(text) => {
                    let id = sources.add(&target_path.display().to_string(), &text);
                    waiting.push((id, target_path));
                }
                Err(reason) => faults.push(
                    Diagnostic::error(span, format!("`{target}` cannot be imported: {reason}"))
                        .help(format!("the file would be {}", target_path.display())),
                ),
            }
        }
    }
    (sources, faults)
}

/// The paths that a file imports, with their places.
fn imports(sources: &Sources, id: SourceId) -> Vec<(String, Span)> {
    let found = salient_front::imports(&sources.file(id).text).into_iter();
    found.map(|(range, path)| (path.to_owned(), sources.place(id, range))).collect()
}

/// The text of one file.
///
/// # Errors
/// [`Error::Unreadable`].
pub fn read_source(path: impl AsRef<Path>) -> Result<String, Error> {
    let path = path.as_ref();
    read_source_text(path).map_err(|reason| Error::Unreadable { path: path.to_owned(), reason })
}

/// What tells whether two paths are one file.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The text of a file, or why there is none. What is longer than the front end takes is refused before it is read.
pub fn read_source_text(path: &Path) -> Result<String, String> {
    salient_io::read_text(path, salient_front::limits::MAX_BYTES as u64).map_err(|error| error.cause.reason())
}
