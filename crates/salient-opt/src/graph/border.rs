//! What is known of the values that enter and leave a part of a graph that is optimised by itself, such as a block.

use std::collections::BTreeSet;

/// What is known of the inputs and outputs of a graph that is a part of another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Border {
    /// Inputs that may hold what is not finite: values computed elsewhere.
    pub(crate) unsure: BTreeSet<usize>,
    /// Inputs that are computed elsewhere, where an axis without positions may have made them infinite.
    pub(crate) computed: BTreeSet<usize>,
    /// Inputs and outputs whose axes are of one kind.
    pub(crate) tied: Vec<Tie>,
}

/// An input that is an output of another part, or of this one in the block before: their axes are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tie {
    /// Position of the input.
    pub(crate) input: usize,
    /// Position of the output.
    pub(crate) output: usize,
}
