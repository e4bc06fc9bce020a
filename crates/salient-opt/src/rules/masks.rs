//! Masks: however a key was masked, the score ends as `select(keep, score, -inf)`.
//!
//! Conjunctions are sets: [`join`](mod@crate::join) joins those of the same parts, so no rule need reorder them.
//! A truth value read as a number is `select(m, 1, 0)` from the start: see [`normalise`](crate::normalise).
//! A masked key contributes nothing, so a product with a mask becomes a selection; the inverse is not sound for values
//! that may be NaN. The order of scale, soft cap, bias and mask is the source's: only what maps -inf to -inf moves.

use super::{Guard, Holds, Kind, Row};
use crate::facts::Property;

/// The family.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "masks/product",
        left: "(mul ?x (select ?m 1 0))",
        right: "(select ?m ?x 0)",
        when: &[Guard::Is("?x", Property::Finite)],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?m", "bool[i, j]")],
        why: "x m = x where m, else 0",
    },
    Row {
        name: "masks/additive",
        left: "(add ?x (select ?m 0 -inf))",
        right: "(select ?m ?x -inf)",
        when: &[Guard::Is("?x", Property::Score)],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?m", "bool[i, j]")],
        why: "x + 0 = x and x + -inf = -inf",
    },
    Row {
        name: "masks/additive-sentinel",
        left: "(add ?x (select ?m 0 ?c))",
        right: "(select ?m ?x (add ?x ?c))",
        when: &[Guard::Sentinel("?c")],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?m", "bool[i, j]"), ("?c", "f32[]")],
        why: "a sum with a choice is a choice of sums",
    },
    Row {
        name: "masks/nested",
        left: "(select ?a (select ?b ?x ?y) ?y)",
        right: "(select (and ?a ?b) ?x ?y)",
        when: &[],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?a", "bool[i, j]"), ("?b", "bool[i, j]"), ("?x", "f32[i, j]"), ("?y", "f32[j]")],
        why: "x where both masks hold",
    },
    Row {
        name: "masks/always",
        left: "(select true ?x ?y)",
        right: "?x",
        when: &[],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?y", "f32[i, j]")],
        why: "a mask that lets all through",
    },
    Row {
        name: "masks/never",
        left: "(select false ?x ?y)",
        right: "?y",
        when: &[],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?y", "f32[i, j]")],
        why: "a mask that lets nothing through",
    },
    Row {
        name: "masks/scale-past-mask",
        left: "(mul (select ?m ?x -inf) ?c)",
        right: "(select ?m (mul ?x ?c) -inf)",
        when: &[Guard::Is("?c", Property::Positive)],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?m", "bool[i, j]"), ("?x", "f32[i, j]"), ("?c", "f32[i]")],
        why: "-inf c = -inf for c > 0",
    },
    Row {
        name: "masks/bias-past-mask",
        left: "(add (select ?m ?x -inf) ?b)",
        right: "(select ?m (add ?x ?b) -inf)",
        when: &[Guard::Is("?b", Property::Finite)],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?m", "bool[i, j]"), ("?x", "f32[i, j]"), ("?b", "f32[j]")],
        why: "-inf + b = -inf for finite b",
    },
    Row {
        name: "masks/factor-past-mask",
        left: "(mul (select ?m ?x 0) ?c)",
        right: "(select ?m (mul ?x ?c) 0)",
        when: &[Guard::Is("?c", Property::Finite)],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?m", "bool[i, j]"), ("?x", "f32[i, j]"), ("?c", "f32[i]")],
        why: "0 c = 0 for finite c",
    },
    Row {
        name: "masks/exp",
        left: "(select ?m (exp ?s) 0)",
        right: "(exp (select ?m ?s -inf))",
        when: &[],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?m", "bool[i, j]"), ("?s", "f32[i, j]")],
        why: "exp(-inf) = 0",
    },
];
