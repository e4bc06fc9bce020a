//! Where in the source something was written, in messages about calls.

use salient_front::Sources;
use salient_ir::Origin;
use std::fmt::Display;

/// The source of a model, if it was compiled from one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Option<Sources>);

impl Places {
    /// Of the model of a source.
    pub(crate) fn of(sources: &Sources) -> Places {
        Places(Some(sources.clone()))
    }

    /// `FILE:LINE:COLUMN`, lines and columns from one.
    pub(crate) fn place(&self, origin: Option<Origin>) -> Option<String> {
        let (sources, origin) = self.0.as_ref().zip(origin)?;
        let (file, line, column) = sources.position(sources.span(origin));
        Some(format!("{file}:{line}:{column}"))
    }

    /// A message with the place that it is about.
    pub(crate) fn after(&self, message: &impl Display, origin: Option<Origin>) -> String {
        match self.place(origin) {
            Some(place) => format!("{message} ({place})"),
            None => message.to_string(),
        }
    }
}
