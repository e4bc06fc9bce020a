//! Contractions: sums of products, in the order that costs least.
//!
//! Only products of three values that depend on inputs: the order of a product with a parameter is the source's, since
//! its size against a batch's is not known here. Products that share an operand and sums over several axes are merged after extraction, where use counts are known.

use super::{Guard, Holds, Kind, RuleRow};
use crate::facts::Property;

/// The family.
pub(super) const ROWS: &[RuleRow] = &[RuleRow {
    name: "contraction/reassociate",
    left: "(sum @j (mul (sum @e (mul ?q ?k)) ?v))",
    right: "(sum @e (mul ?q (sum @j (mul ?k ?v))))",
    when: &[
        Guard::Free("?q", "@j"),
        Guard::Free("?v", "@e"),
        Guard::Along("?q", "@e"),
        Guard::Along("?k", "@e"),
        Guard::Along("?k", "@j"),
        Guard::Along("?v", "@j"),
        Guard::TotalOrFilled("?q", "@j"),
        Guard::TotalOrFilled("?v", "@e"),
        Guard::NumberWithout("?q", "@j"),
        Guard::NumberWithout("?v", "@e"),
        Guard::Data("?q"),
        Guard::Data("?k"),
        Guard::Data("?v"),
        Guard::Factor("?q"),
        Guard::Factor("?k"),
        Guard::Factor("?v"),
        Guard::Is("?q", Property::Finite),
        Guard::Is("?k", Property::Finite),
        Guard::Is("?v", Property::Finite),
    ],
    holds: Holds::Rounding,
    // Either order may be the cheaper one: linear attention is `q (k v)`, a low-rank product `(q k) v`.
    kind: Kind::Both,
    vars: &[("?q", "f32[i, e]"), ("?k", "f32[j, e]"), ("?v", "f32[j, f]")],
    why: "(q k) v = q (k v); extraction chooses by cost",
}];
