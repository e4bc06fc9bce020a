//! Source text to a verified graph, or diagnostics.
