//! How the examples are compiled in tests.
//!
//! Knows settings alone; files are found by [`files`](crate::files).

/// The settings with which the models of an example are compiled: published models with one layer, since the others are
/// the same again. `file` is a path in the project, or below `examples`.
pub fn settings(file: &str) -> Vec<(String, String)> {
    let file = file.strip_prefix("examples/").unwrap_or(file);
    if is_published(file) { vec![("L".to_owned(), "1".to_owned())] } else { Vec::new() }
}

/// Whether an example is a published model, by its path below `examples`.
pub fn is_published(file: &str) -> bool {
    file.starts_with("models/")
}
