//! Biases by position: a linear bias of the keys alone is one of the distance from the query, shifted row by row.
//!
//! The distance is the normal form and not the key: biases near the query are small then, so that scores keep their
//! digits however long the row is. The query's axis is the one that the mask compares the key with; without such a mask
//! nothing says which axis it would be. The weights and the attention have a row each: the score of an attention that was
//! formed first would stay the cheaper one.

use super::{Guard, Holds, Kind, RuleRow};
use crate::facts::Property;

const SLOPE: &[Guard] = &[
    Guard::Factor("?c"),
    Guard::Free("?c", "@j"),
    Guard::Is("?c", Property::Finite),
    Guard::Is("?x", Property::Score),
];
const SLOPE_FROM_OFFSET: &[Guard] = &[
    Guard::Factor("?c"),
    Guard::Scalar("?n"),
    Guard::Free("?c", "@j"),
    Guard::Is("?c", Property::Finite),
    Guard::Is("?x", Property::Score),
];

/// Scores with a bias of the keys alone under a mask, in an operator.
macro_rules! by_key {
    ($op:literal, $mask:literal, $rest:literal) => {
        concat!("(fused.", $op, " @j (select ", $mask, " (add ?x (mul (f32 (iota @j)) ?c)) -inf)", $rest, ")")
    };
}

/// The same by the distance from the query, of which the place is given.
macro_rules! by_distance {
    ($op:literal, $mask:literal, $query:literal, $rest:literal) => {
        concat!(
            "(fused.",
            $op,
            " @j (select ",
            $mask,
            " (add ?x (mul (mul (f32 (sub ",
            $query,
            " (iota @j))) ?c) -1)) -inf)",
            $rest,
            ")"
        )
    };
}

/// The family.
pub(super) const ROWS: &[RuleRow] = &[
    RuleRow {
        name: "positions/weights",
        left: by_key!("softmax", "(le (iota @j) (iota @i))", ""),
        right: by_distance!("softmax", "(le (iota @j) (iota @i))", "(iota @i)", ""),
        when: SLOPE,
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?c", "f32[i]")],
        why: "a row's softmax does not change by c i: c j becomes -c (i - j)",
    },
    RuleRow {
        name: "positions/attention",
        left: by_key!("attend", "(le (iota @j) (iota @i))", " ?v"),
        right: by_distance!("attend", "(le (iota @j) (iota @i))", "(iota @i)", " ?v"),
        when: SLOPE,
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?c", "f32[i]"), ("?v", "f32[j, f]")],
        why: "the same inside of an attention",
    },
    RuleRow {
        name: "positions/weights-from-offset",
        left: by_key!("softmax", "(le (iota @j) (add (iota @i) ?n))", ""),
        right: by_distance!("softmax", "(le (iota @j) (add (iota @i) ?n))", "(add (iota @i) ?n)", ""),
        when: SLOPE_FROM_OFFSET,
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?c", "f32[i]"), ("?n", "i64[]")],
        why: "the same where the queries lie behind earlier keys",
    },
    RuleRow {
        name: "positions/attention-from-offset",
        left: by_key!("attend", "(le (iota @j) (add (iota @i) ?n))", " ?v"),
        right: by_distance!("attend", "(le (iota @j) (add (iota @i) ?n))", "(add (iota @i) ?n)", " ?v"),
        when: SLOPE_FROM_OFFSET,
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?c", "f32[i]"), ("?n", "i64[]"), ("?v", "f32[j]")],
        why: "the same inside of an attention",
    },
];
