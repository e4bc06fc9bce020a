//! Why compiled code does not run.

use salient_ir::{DimError, Name, Origin};
use salient_tile::Value;

/// A tensor that takes memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(", of which `{tensor}` {shape:?} takes {bytes}")]
pub struct Part {
    /// The tensor.
    pub tensor: String,
    /// The length of each axis.
    pub shape: Vec<i64>,
    /// What it takes.
    pub bytes: usize,
}

/// Why a program does not run, or did not run to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// A dimension that cannot be computed.
    #[error(transparent)]
    Dim(#[from] DimError),
    /// A dimension that is negative.
    #[error("`{tensor}` has an axis of negative length")]
    Negative {
        /// The tensor.
        tensor: String,
    },
    /// The plan of another program.
    #[error("the plan was made for another program")]
    Plan,
    /// Parameters that were loaded for another program, or at other dimensions.
    #[error("the parameters were loaded for another program or at other dimensions")]
    Loaded,
    /// A parameter that the program reads in blocks of few bits was not given so.
    #[error("`{tensor}`: the parameter was not given in blocks of the size that it was compiled for")]
    Codes {
        /// What should hold its codes.
        tensor: String,
    },
    /// The system has not so much memory.
    #[error("there are no {bytes} bytes of memory to work in{}", .largest.as_ref().map_or_else(String::new, ToString::to_string))]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// The tensor that takes most of it, if any does.
        largest: Option<Part>,
    },
    /// The number of tensors given, or the dtype or number of elements of one.
    #[error("`{tensor}` is not what the program was bound to: {why}")]
    Mismatch {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        why: String,
    },
    /// An integer that compiled code cannot hold.
    #[error("`{tensor}` holds {value}, which does not fit 32 bits")]
    TooLarge {
        /// The tensor.
        tensor: String,
        /// The value.
        value: i64,
    },
    /// A tensor that has more elements than lanes can tell apart.
    #[error("`{tensor}` has {count} elements, and compiled code gathers from at most {most}")]
    TooManyElements {
        /// The tensor.
        tensor: String,
        /// Its elements.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// An integer that follows from the dimensions and does not fit compiled code.
    #[error("an index reaches {reached} at {dimensions}, which does not fit the 32 bits of compiled code")]
    WideInteger {
        /// The dimensions of the call.
        dimensions: String,
        /// The end of the index.
        reached: i128,
    },
    /// An index that leaves its axis.
    #[error("index {index} is outside the axis `{axis}` of length {extent} of `{tensor}`")]
    OutOfRange {
        /// The tensor that is indexed.
        tensor: String,
        /// The axis.
        axis: String,
        /// Its length.
        extent: i64,
        /// The index.
        index: i32,
        /// Where it was written.
        origin: Option<Origin>,
    },
    /// A number that is NaN or infinite, in a run that looks for one.
    #[error("{}`{}` is {number}{}", if value.is_step { "a step of " } else { "" }, value.name, at(&value.axes, index))]
    NotFinite {
        /// The value of the source.
        value: Value,
        /// The index of the element, by its axes.
        index: Vec<i64>,
        /// The element.
        number: f32,
    },
}

impl RunError {
    /// Where in the source that which failed was written.
    pub fn origin(&self) -> Option<Origin> {
        match self {
            RunError::OutOfRange { origin, .. } => *origin,
            RunError::NotFinite { value, .. } => value.origin,
            RunError::Dim(_)
            | RunError::Negative { .. }
            | RunError::Plan
            | RunError::Loaded
            | RunError::Codes { .. }
            | RunError::Memory { .. }
            | RunError::Mismatch { .. }
            | RunError::TooLarge { .. }
            | RunError::TooManyElements { .. }
            | RunError::WideInteger { .. } => None,
        }
    }
}

/// ` at b = 0, t = 3`; nothing for a value without axes.
fn at(axes: &[Name], index: &[i64]) -> String {
    let parts: Vec<String> = axes.iter().zip(index).map(|(axis, at)| format!("{axis} = {at}")).collect();
    if parts.is_empty() { String::new() } else { format!(" at {}", parts.join(", ")) }
}
