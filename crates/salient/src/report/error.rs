//! Why a model does not compile or a call does not run.
//!
//! One enum for the whole library. Messages are made here or by the part that failed; nothing is printed.

use crate::report::fault::Fault;
use salient_front::{Diagnostic, Sources, render};
use salient_io::IoError;
use std::fmt;
use std::path::PathBuf;

/// A failure, by who can mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A source file cannot be read.
    #[error("{}: cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The source is refused, or does not have what was asked of it. Displays as rendered diagnostics without colour.
    #[error("{}", .0.render(false))]
    Source(Box<Rejected>),
    /// The tensors that were given do not fit the model.
    #[error("{}", sentences(.0))]
    Call(Vec<Fault>),
    /// A file of arrays cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A tuning file is not right for this machine: a sentence for each line.
    #[error("{}", .0.join("\n"))]
    Tuning(Vec<String>),
    /// Attention that was required to be fused is not; the text is the explanation.
    #[error("{0}")]
    Unfused(String),
    /// The text of a plan is refused: the line, and what is wrong there.
    #[error("{0}")]
    Plan(String),
    /// This machine is not what was asked for.
    #[error("{0}")]
    Target(String),
    /// No code can be made for the model on this machine.
    #[error("no code can be made: {0}")]
    Code(String),
    /// The model has no value on this data: an index leaves its axis, say.
    #[error("{0}")]
    Run(String),
}

/// What there is to say about a source, with its text.
pub struct Rejected {
    /// What is wrong or doubtful.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts that the diagnostics speak of.
    pub sources: Sources,
}

/// As it is shown to people: an `unwrap` in a caller's test says what is wrong.
impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.render(false))
    }
}

impl Rejected {
    /// The diagnostics with excerpts of the source, one after the other, in the manner of rustc.
    pub fn render(&self, colour: bool) -> String {
        render(&self.diagnostics, &self.sources, colour)
    }
}

impl Error {
    pub(crate) fn source(diagnostics: Vec<Diagnostic>, sources: Sources) -> Error {
        Error::Source(Box::new(Rejected { diagnostics, sources }))
    }

    /// Whether the caller is wrong, rather than the model or its result: a file that is not there, a tensor that does
    /// not fit, a name that the source does not have (a diagnostic without a place in the source).
    pub fn is_call(&self) -> bool {
        match self {
            Error::Unreadable { .. }
            | Error::Call(_)
            | Error::Io(_)
            | Error::Tuning(_)
            | Error::Target(_) => true,
            Error::Source(r) => r.diagnostics.iter().all(|d| d.primary.is_none()),
            Error::Plan(_) | Error::Unfused(_) | Error::Code(_) | Error::Run(_) => false,
        }
    }
}

fn sentences(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}
