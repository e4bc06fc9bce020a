//! Source text to a verified graph, or diagnostics.

pub mod ast;
pub mod diag;
mod library;
pub mod limits;
mod parse;
pub mod source;

pub use diag::{Diagnostic, Severity, render};
pub use parse::parse;
pub use source::{SourceFile, SourceId, Sources, Span};
