//! Where the project's files are.
//!
//! Only names and texts; nothing is compiled here.

use salient::{Sources, read_sources};
use std::path::{Path, PathBuf};

/// The root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the project")
}

/// Every file below a folder of the project with that extension, by its path from there with `/`, sorted.
/// Hidden folders and build output are left out.
pub fn files_under(folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let start = root().join(folder);
    let mut waiting = vec![start.clone()];
    while let Some(at) = waiting.pop() {
        let entries = std::fs::read_dir(&at).unwrap_or_else(|e| panic!("{}: {e}", at.display()));
        for entry in entries {
            let path = entry.expect("a folder that can be listed").path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                let inner = path.strip_prefix(&start).expect("found below it");
                let parts: Vec<_> = inner.iter().map(|p| p.to_string_lossy()).collect();
                found.push(parts.join("/"));
            }
        }
    }
    found.sort();
    found
}

/// A published checkpoint's file, if it has been fetched; if not, says so, and the test that asks has nothing to check.
pub fn checkpoint(name: &str) -> Option<PathBuf> {
    let path = root().join("weights").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: weights/{name} is not there; tools/fetch-models.sh fetches it");
    None
}

/// The text of a file of the project.
pub fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A program of the project with what it imports. Its files are named by their path in the project, so that rendered
/// messages are the same on every machine.
///
/// # Errors
/// The rendered diagnostics of a file that does not parse.
pub fn sources(path: &str) -> Result<Sources, String> {
    let read = read_sources(root().join(path)).map_err(|e| relative(&e.to_string()))?;
    let mut named = Sources::new();
    for file in read.user_files() {
        named.add(&relative(&file.name), &file.text);
    }
    Ok(named)
}

/// A text without the path of the project's root.
fn relative(text: &str) -> String {
    text.replace(&format!("{}/", root().display()), "")
}
