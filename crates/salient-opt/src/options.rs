//! How a graph is optimised, as the caller wants it. What each rule and each pass takes of that is said in its row.

/// How much freedom with floats the rules have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fp {
    /// Real arithmetic: sums may be reordered, softmaxes shifted.
    #[default]
    Default,
    /// Only rules that hold exactly.
    Strict,
}

/// How to optimise. Limits are counts, so that the same model gives the same result everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Freedom with floats.
    pub fp: Fp,
    /// E-nodes above which no further rule is applied. A small graph has a smaller limit: see [`Report::stop`](crate::Report::stop).
    pub node_limit: usize,
    /// Rounds of saturation.
    pub iteration_limit: usize,
    /// Whether the graph is verified after each pass in a release build too. A fault is one of the compiler, which panics.
    pub verify: bool,
    /// Whether certificates have a walk: each rule with what it found and what it put there.
    pub walk: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { fp: Fp::Default, node_limit: 200_000, iteration_limit: 40, verify: false, walk: false }
    }
}
