//! Why compiled code does not run.

use salient_ir::DimError;

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
    },
}
