//! Norms and activations: one form for each, from the definitions that libraries and papers write.
//!
//! Common factors stand outside of a sum, roots below the line, and a sigmoid is `1 / (1 + exp(-x))` also where it was
//! written with tanh or with exponentials on both sides of the line: those leave the range of floats, this one does not.
//! `E[x^2] - E[x]^2` is no variance here and stays what it is. What the result is called is
//! [`named`](crate::named)'s business.

use super::{Guard, Holds, Kind, Row};
use crate::facts::Property;

/// The family.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "activations/halved-sum",
        left: "(add (mul ?x ?c) ?c)",
        right: "(mul (add ?x 1) ?c)",
        when: &[Guard::Scalar("?c"), Guard::Tensor("?x"), Guard::Is("?c", Property::Finite)],
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?c", "f32[]")],
        why: "x c + c = (x + 1) c: 0.5 + 0.5 erf(x)",
    },
    Row {
        name: "activations/value-and-part",
        left: "(add (mul ?y ?x) ?x)",
        right: "(mul (add ?y 1) ?x)",
        when: &[Guard::Tensor("?x"), Guard::Tensor("?y"), Guard::Is("?x", Property::Finite)],
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?y", "f32[i, j]")],
        why: "x + y x = (y + 1) x",
    },
    Row {
        name: "activations/value-and-scaled-part",
        left: "(add (mul (mul ?y ?x) ?c) ?x)",
        right: "(mul (add (mul ?y ?c) 1) ?x)",
        when: &[
            Guard::Scalar("?c"),
            Guard::Tensor("?x"),
            Guard::Tensor("?y"),
            Guard::Is("?x", Property::Finite),
        ],
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?y", "f32[i, j]"), ("?c", "f32[]")],
        why: "x + c y x = (c y + 1) x: the cubic inside of a GELU",
    },
    Row {
        name: "activations/scaled-value-and-part",
        left: "(add (mul (mul ?y ?x) ?c) (mul ?x ?d))",
        right: "(mul (mul (add (mul ?y (mul ?c (recip ?d))) 1) ?x) ?d)",
        when: &[
            Guard::Scalar("?c"),
            Guard::Scalar("?d"),
            Guard::Tensor("?x"),
            Guard::Tensor("?y"),
            Guard::Is("?x", Property::Finite),
            Guard::Is("?d", Property::Positive),
            Guard::Is("?d", Property::Finite),
            Guard::Is("?c", Property::Finite),
        ],
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?y", "f32[i, j]"), ("?c", "f32[]"), ("?d", "f32[]")],
        why: "d x + c y x = d (c / d y + 1) x: the same with the outer factor multiplied out",
    },
    Row {
        name: "activations/common-factor",
        left: "(add (mul ?x ?r) (mul (mul ?m ?r) -1))",
        right: "(mul (add ?x (mul ?m -1)) ?r)",
        when: &[
            Guard::Tensor("?r"),
            Guard::Within("?m", "?x"),
            Guard::Within("?r", "?x"),
            Guard::Is("?r", Property::Finite),
        ],
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?m", "f32[i]"), ("?r", "f32[i]")],
        why: "x r - m r = (x - m) r",
    },
    Row {
        name: "activations/square-of-difference",
        left: "(mul (add ?x (mul ?y -1)) (add ?x (mul ?y -1)))",
        right: "(mul (add ?y (mul ?x -1)) (add ?y (mul ?x -1)))",
        when: &[],
        holds: Holds::Exactly,
        // Neither order is the better one: the one that is there for another reason is taken.
        kind: Kind::Both,
        vars: &[("?x", "f32[i, j]"), ("?y", "f32[i]")],
        why: "(x - y)^2 = (y - x)^2",
    },
    Row {
        name: "activations/root-of-reciprocal",
        left: "(sqrt (recip ?x))",
        right: "(recip (sqrt ?x))",
        when: &[Guard::Is("?x", Property::Positive)],
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i]")],
        why: "sqrt(1 / x) = 1 / sqrt(x)",
    },
    Row {
        name: "activations/sigmoid-by-tanh",
        left: "(add (tanh ?x) 1)",
        right: "(mul (recip (add (exp (mul ?x -2)) 1)) 2)",
        when: &[],
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]")],
        why: "tanh(x) + 1 = 2 / (1 + exp(-2 x))",
    },
    Row {
        name: "activations/sigmoid-by-exponentials",
        left: "(mul (exp ?x) (recip (add (exp ?x) 1)))",
        right: "(recip (add (exp (mul ?x -1)) 1))",
        when: &[Guard::Is("?x", Property::Finite)],
        holds: Holds::Refining,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]")],
        why: "exp(x) / (exp(x) + 1) = 1 / (1 + exp(-x))",
    },
    Row {
        name: "activations/gate-by-exponentials",
        left: "(mul (mul ?y (exp ?x)) (recip (add (exp ?x) 1)))",
        right: "(mul ?y (recip (add (exp (mul ?x -1)) 1)))",
        when: &[Guard::Is("?x", Property::Finite)],
        holds: Holds::Refining,
        kind: Kind::Directed,
        vars: &[("?y", "f32[i, j]"), ("?x", "f32[i, j]")],
        why: "the same as a factor",
    },
    Row {
        name: "activations/complement",
        left: "(add (mul (recip (add (exp ?x) 1)) -1) 1)",
        right: "(recip (add (exp (mul ?x -1)) 1))",
        when: &[Guard::Is("?x", Property::Finite)],
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]")],
        why: "1 - sigmoid(-x) = sigmoid(x)",
    },
];
