//! What is known of remainders: of dimensions, and of integers under a condition.

use crate::Relation;
use crate::dim::Dim;
use crate::graph::Graph;

/// Whether a dimension is a multiple of a number, by its form or since the model requires it.
pub fn is_multiple(g: &Graph, of: &Dim, by: i64) -> bool {
    let by = Dim::constant(by);
    let comes_out_even = |dim: &Dim| dim.split_multiple(&by).1 == Dim::constant(0);
    comes_out_even(of)
        || g.requirements().iter().any(|requirement| match &requirement.relation {
            Relation::Divides(whole, part) => whole == of && comes_out_even(part),
            Relation::Equal(..) | Relation::AtMost(..) => false,
        })
}

/// The remainder by a number where it is said to be `rest`, or not to be: of two there is one other. `None` if that says nothing, or
/// cannot be.
pub fn remainder_where(by: i64, rest: i64, holds: bool) -> Option<i64> {
    let is_one = (0..by).contains(&rest);
    match (holds, by) {
        (true, _) => is_one.then_some(rest),
        (false, 2) => is_one.then(|| 1 - rest),
        (false, _) => None,
    }
}
