//! What the caller allows with floats. What each rule takes of it is said in its row.

/// How much freedom with floats the rules have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fp {
    /// Real arithmetic: sums may be reordered, softmaxes shifted.
    #[default]
    Default,
    /// Only rules that hold exactly.
    Strict,
}
