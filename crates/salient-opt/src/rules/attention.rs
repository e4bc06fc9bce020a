//! Attention: a softmax followed by a sum over its index is one pass over the keys.
//!
//! The score and the value are any expressions; what is elementwise between the score's own sum and the softmax goes
//! along as part of the score.

use super::{Guard, Holds, Kind, RuleRow};
use crate::facts::Property;

/// The family.
pub(super) const ROWS: &[RuleRow] = &[
    RuleRow {
        name: "attention/attend",
        left: "(sum @j (mul (fused.softmax @j ?s) ?v))",
        right: "(fused.attend @j ?s ?v)",
        when: &[Guard::Factor("?v"), Guard::Along("?s", "@j")],
        holds: Holds::Refining,
        kind: Kind::Directed,
        vars: &[("?s", "f32[i, j]"), ("?v", "f32[j, f]")],
        why: "sum_j softmax_j(s) v, by definition; a masked key contributes nothing, even if its value is NaN",
    },
    RuleRow {
        name: "attention/exp-attend",
        left: "(sum @j (mul (fused.exp_norm @j ?s) ?v))",
        right: "(fused.exp_attend @j ?s ?v)",
        when: &[Guard::Factor("?v"), Guard::Along("?s", "@j")],
        holds: Holds::Refining,
        kind: Kind::Directed,
        vars: &[("?s", "f32[i, j]"), ("?v", "f32[j, f]")],
        why: "the same for a softmax written by hand",
    },
    RuleRow {
        name: "attention/row-keeps-a-key",
        left: "(fused.exp_attend @j ?s ?v)",
        right: "(fused.attend @j ?s ?v)",
        when: &[Guard::KeepsKey("?s", "@j")],
        holds: Holds::Exactly,
        kind: Kind::Directed,
        vars: &[("?s", "f32[i, j]"), ("?v", "f32[j, f]")],
        why: "the two differ only in rows without a key",
    },
    RuleRow {
        name: "attention/deferred-normalisation",
        left: "(mul (sum @j (mul ?x ?v)) (recip (sum @j ?x)))",
        right: "(sum @j (mul (fused.norm @j ?x) ?v))",
        when: &[Guard::Along("?x", "@j")],
        holds: Holds::Rounding,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?v", "f32[j, f]")],
        why: "dividing each weight by the sum of the weights is dividing the result",
    },
    RuleRow {
        name: "attention/weighted-values",
        left: "(sum @j (mul (mul (fused.softmax @j ?s) ?y) ?v))",
        right: "(fused.attend @j ?s (mul ?y ?v))",
        when: &[Guard::Factor("?y"), Guard::Factor("?v"), Guard::Along("?s", "@j")],
        holds: Holds::Refining,
        kind: Kind::Directed,
        vars: &[("?s", "f32[i, j]"), ("?y", "f32[j]"), ("?v", "f32[j, f]")],
        why: "a further factor of the weights belongs to the values",
    },
    RuleRow {
        name: "attention/factor-of-row",
        left: "(sum @j (mul (mul (fused.softmax @j ?s) ?c) ?v))",
        right: "(mul (fused.attend @j ?s ?v) ?c)",
        when: &[
            Guard::Factor("?c"),
            Guard::Factor("?v"),
            Guard::Along("?s", "@j"),
            Guard::Free("?c", "@j"),
            Guard::TotalOrFilled("?c", "@j"),
            Guard::NumberWithout("?c", "@j"),
        ],
        holds: Holds::Refining,
        kind: Kind::Directed,
        vars: &[("?s", "f32[i, j]"), ("?c", "f32[i]"), ("?v", "f32[j, f]")],
        why: "a factor of all weights of a row is one of its result",
    },
    RuleRow {
        name: "attention/deferred-normalisation-of-products",
        left: "(mul (sum @j (mul (mul ?x ?y) ?v)) (recip (sum @j ?x)))",
        right: "(sum @j (mul (mul (fused.norm @j ?x) ?y) ?v))",
        when: &[Guard::Factor("?y"), Guard::Factor("?v"), Guard::Along("?x", "@j")],
        holds: Holds::Refining,
        kind: Kind::Directed,
        vars: &[("?x", "f32[i, j]"), ("?y", "f32[i, j]"), ("?v", "f32[j, f]")],
        why: "the same for weights with a further factor",
    },
    RuleRow {
        name: "attention/deferred-normalisation-under-mask",
        left: "(mul (sum @j (mul (select ?m ?x 0) ?v)) (recip (sum @j ?x)))",
        right: "(sum @j (mul (select ?m (fused.norm @j ?x) 0) ?v))",
        when: &[Guard::Total("?x"), Guard::Along("?x", "@j")],
        holds: Holds::Refining,
        kind: Kind::Directed,
        vars: &[("?m", "bool[i, j]"), ("?x", "f32[i, j]"), ("?v", "f32[j, f]")],
        why: "the same for weights of which some are dropped",
    },
    RuleRow {
        name: "attention/two-softmaxes",
        left: "(sum @j (mul (add (fused.softmax @j ?s) ?y) ?v))",
        right: "(add (fused.attend @j ?s ?v) (sum @j (mul ?y ?v)))",
        when: &[
            Guard::Along("?s", "@j"),
            Guard::Along("?y", "@j"),
            Guard::Is("?v", Property::Finite),
            Guard::Factor("?v"),
            Guard::Is("?y", Property::Finite),
        ],
        holds: Holds::Refining,
        kind: Kind::Directed,
        vars: &[("?s", "f32[i, j]"), ("?y", "f32[i, j]"), ("?v", "f32[j, f]")],
        why: "each of several weights over one value is a pass of its own",
    },
];
