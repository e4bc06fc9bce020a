//! Deliberately wrong rules: dropped guards, wrong axes, hidden NaNs. The harness must reject every one.

use crate::facts::Property;
use crate::rules::{Guard, Holds, Kind, Row};

/// A wrong rule, by what is wrong with it.
const fn row(
    name: &'static str,
    left: &'static str,
    right: &'static str,
    when: &'static [Guard],
    holds: Holds,
    vars: &'static [(&'static str, &'static str)],
) -> Row {
    Row { name, left, right, when, holds, kind: Kind::Directed, vars, why: "wrong on purpose" }
}

const X: (&str, &str) = ("?x", "f32[i, j]");
const S: (&str, &str) = ("?s", "f32[i, j]");
const M: (&str, &str) = ("?m", "bool[i, j]");
const C: (&str, &str) = ("?c", "f32[i]");
const V: (&str, &str) = ("?v", "f32[j, f]");

pub(super) const ROWS: &[Row] = &[
    row(
        "factors what depends on the index",
        "(sum @j (mul ?x ?c))",
        "(mul (sum @j ?x) ?c)",
        &[],
        Holds::Rounding,
        &[X, C],
    ),
    row(
        "sums over the wrong axis",
        "(mul ?x (recip (sum @i (sum @j ?x))))",
        "(fused.norm @i ?x)",
        &[Guard::Along("?x", "@i")],
        Holds::Rounding,
        &[X],
    ),
    row("zero times anything is zero", "(mul ?x 0)", "0", &[], Holds::Exactly, &[X]),
    row("anything less itself is zero", "(add ?x (mul ?x -1))", "0", &[], Holds::Exactly, &[X]),
    row("a quotient by itself is one", "(mul ?x (recip ?x))", "1", &[], Holds::Rounding, &[X]),
    row("a mask hides NaN", "(mul ?x (select ?m 1 0))", "(select ?m ?x 0)", &[], Holds::Exactly, &[X, M]),
    row(
        "an added mask hides infinity",
        "(add ?x (select ?m 0 -inf))",
        "(select ?m ?x -inf)",
        &[],
        Holds::Exactly,
        &[X, M],
    ),
    row(
        "scales past a mask by any sign",
        "(mul (select ?m ?x -inf) ?c)",
        "(select ?m (mul ?x ?c) -inf)",
        &[],
        Holds::Exactly,
        &[M, X, C],
    ),
    row(
        "scales past a mask by a finite number",
        "(mul (select ?m ?x -inf) ?c)",
        "(select ?m (mul ?x ?c) -inf)",
        &[Guard::Is("?c", Property::Finite)],
        Holds::Exactly,
        &[M, X, C],
    ),
    row(
        "adds past a mask what may be infinite",
        "(add (select ?m ?x -inf) ?b)",
        "(select ?m (add ?x ?b) -inf)",
        &[],
        Holds::Exactly,
        &[M, X, ("?b", "f32[j]")],
    ),
    row(
        "a soft cap moves past a mask",
        "(tanh (select ?m ?x -inf))",
        "(select ?m (tanh ?x) -inf)",
        &[Guard::Is("?x", Property::Finite)],
        Holds::Rounding,
        &[M, X],
    ),
    row(
        "nested masks joined by or",
        "(select ?a (select ?b ?x ?y) ?y)",
        "(select (or ?a ?b) ?x ?y)",
        &[],
        Holds::Exactly,
        &[("?a", "bool[i, j]"), ("?b", "bool[i, j]"), X, ("?y", "f32[j]")],
    ),
    row(
        "swapped arms",
        "(select ?m ?x ?y)",
        "(select ?m ?y ?x)",
        &[],
        Holds::Exactly,
        &[M, X, ("?y", "f32[i, j]")],
    ),
    row(
        "an empty row becomes zeros",
        "(fused.exp_norm @j ?s)",
        "(fused.softmax @j ?s)",
        &[Guard::Is("?s", Property::Score)],
        Holds::Exactly,
        &[S],
    ),
    row(
        "an empty row of attention becomes zeros",
        "(fused.exp_attend @j ?s ?v)",
        "(fused.attend @j ?s ?v)",
        &[Guard::Is("?s", Property::Score)],
        Holds::Rounding,
        &[S, V],
    ),
    row(
        "renormalising ends as the softmax with zeros",
        "(fused.norm @j (select ?m (fused.softmax @j ?s) 0))",
        "(fused.softmax @j (select ?m ?s -inf))",
        &[Guard::Is("?s", Property::Score)],
        Holds::Rounding,
        &[M, S],
    ),
    row(
        "a mask after the softmax is a mask before it",
        "(select ?m (fused.softmax @j ?s) 0)",
        "(fused.softmax @j (select ?m ?s -inf))",
        &[Guard::Is("?s", Property::Finite)],
        Holds::Rounding,
        &[M, S],
    ),
    row(
        "shifts by what depends on the key",
        "(fused.softmax @j (add ?s ?c))",
        "(fused.softmax @j ?s)",
        &[Guard::Is("?c", Property::Finite)],
        Holds::Rounding,
        &[S, C],
    ),
    row(
        "shifts by what may be infinite",
        "(fused.softmax @j (add ?s ?c))",
        "(fused.softmax @j ?s)",
        &[Guard::Free("?c", "@j")],
        Holds::Rounding,
        &[S, C],
    ),
    row(
        "scales the scores of a softmax",
        "(fused.softmax @j (mul ?s ?c))",
        "(fused.softmax @j ?s)",
        &[Guard::Free("?c", "@j"), Guard::Is("?c", Property::Positive)],
        Holds::Rounding,
        &[S, C],
    ),
    row(
        "cancels a factor that may be zero",
        "(fused.norm @j (mul ?x ?c))",
        "(fused.norm @j ?x)",
        &[Guard::Free("?c", "@j"), Guard::Is("?c", Property::Finite), Guard::Is("?c", Property::NonNegative)],
        Holds::Rounding,
        &[X, C],
    ),
    row(
        "a finite stand-in is infinity",
        "(fused.softmax @j (select ?m ?x ?c))",
        "(fused.softmax @j (select ?m ?x -inf))",
        &[Guard::Sentinel("?c"), Guard::Is("?x", Property::Finite)],
        Holds::Rounding,
        &[M, X, ("?c", "f32[]")],
    ),
    row(
        "any number is a stand-in for infinity",
        "(fused.softmax @j (select ?m ?x ?c))",
        "(fused.softmax @j (select ?m ?x -inf))",
        &[Guard::Is("?x", Property::Finite), Guard::LetsThrough("?m", "@j")],
        Holds::Rounding,
        &[M, X, ("?c", "f32[]")],
    ),
    row(
        "a softmax without its normalisation",
        "(fused.norm @j (exp ?s))",
        "(exp ?s)",
        &[],
        Holds::Rounding,
        &[S],
    ),
    row(
        "normalises along an axis that is not there",
        "(mul ?x (recip (sum @j ?x)))",
        "(fused.norm @j ?x)",
        &[],
        Holds::Rounding,
        &[X],
    ),
    row(
        "attends to the weights' axis of the values",
        "(sum @i (sum @j (mul (fused.softmax @j ?s) ?v)))",
        "(sum @j (fused.attend @i ?s ?v))",
        &[],
        Holds::Refining,
        &[S, V],
    ),
    row(
        "the maximum of a product",
        "(max @j (mul ?x ?c))",
        "(mul (max @j ?x) ?c)",
        &[Guard::Free("?c", "@j"), Guard::Is("?c", Property::Finite)],
        Holds::Rounding,
        &[X, C],
    ),
    row(
        "a distance from anywhere",
        "(fused.softmax @j (select (le (iota @j) (iota @i)) (add ?x (mul (f32 (iota @j)) ?c)) -inf))",
        "(fused.softmax @j (select (le (iota @j) (iota @i)) \
         (add ?x (mul (f32 (sub (iota @i) (iota @j))) ?c)) -inf))",
        &[Guard::Free("?c", "@j"), Guard::Is("?c", Property::Finite), Guard::Is("?x", Property::Score)],
        Holds::Rounding,
        &[X, C],
    ),
    row(
        "a slope that depends on the key",
        "(fused.softmax @j (select (le (iota @j) (iota @i)) (add ?x (mul (f32 (iota @j)) ?c)) -inf))",
        "(fused.softmax @j (select (le (iota @j) (iota @i)) \
         (add ?x (mul (mul (f32 (sub (iota @i) (iota @j))) ?c) -1)) -inf))",
        &[Guard::Is("?c", Property::Finite), Guard::Is("?x", Property::Score)],
        Holds::Rounding,
        &[X, C],
    ),
];
