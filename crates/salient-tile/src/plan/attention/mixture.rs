//! Mixtures of scores: at each query and key a product with a matrix over heads, as where attention heads talk to each other
//! before or after the softmax (Shazeer et al., "Talking-Heads Attention", 2020).

use crate::plan::attention::Scores;
use crate::{dims::index_of, dims::var, index::AxisValue};
use salient_ir::{AxisId, Graph, NodeId, Symbol};
use std::collections::BTreeSet;

/// A sum of products of which one operand varies with queries and keys, and the other one with neither.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixture {
    /// What is mixed.
    pub(crate) of: NodeId,
    /// The coefficients.
    pub(crate) by: NodeId,
    /// The axis of the heads that are mixed.
    pub(crate) over: AxisId,
    /// The axis of the heads that come of it, if there is more than one.
    pub(crate) to: Option<AxisId>,
}

/// A node as a mixture of scores of that key, and of that query if it is known.
pub(crate) fn mixture(g: &Graph, node: NodeId, key: AxisId, query: Option<AxisId>) -> Option<Mixture> {
    let (a, b, over) = g.sum_of_products(node)?;
    let has = |x: NodeId, axis: AxisId| g.node(x).axes.contains(axis);
    let (of, by) = match (has(a, key), has(b, key)) {
        (true, false) => (a, b),
        (false, true) => (b, a),
        (true, true) | (false, false) => return None,
    };
    let may_be_query = |axis: AxisId| axis != key && axis != over && !has(by, axis);
    let has_query = match query {
        Some(query) => has(of, query) && may_be_query(query),
        None => g.node(of).axes.iter().any(may_be_query),
    };
    let introduced: Vec<AxisId> = g.node(by).axes.iter().filter(|axis| !has(of, *axis)).collect();
    let to = match introduced.as_slice() {
        [] => None,
        [to] => Some(*to),
        _ => return None,
    };
    (has_query && over != key).then_some(Mixture { of, by, over, to })
}

/// The axes of the heads that some of these nodes mix: those that are summed over and those that come of it.
pub(crate) fn mixed_heads<'n>(
    g: &Graph,
    nodes: impl IntoIterator<Item = &'n NodeId>,
    key: AxisId,
    query: AxisId,
) -> BTreeSet<AxisId> {
    let mixtures = nodes.into_iter().filter_map(|id| mixture(g, *id, key, Some(query)));
    mixtures.flat_map(|m| [m.over].into_iter().chain(m.to)).collect()
}

/// Whether products have the heads that are mixed as axes of their own, and read them at no other place.
pub(crate) fn have_heads(g: &Graph, products: &[Scores], heads: &BTreeSet<AxisId>) -> bool {
    let symbols: Vec<Symbol> = heads.iter().map(|axis| index_of(*axis)).collect();
    products.iter().all(|s| {
        g.node(s.node).axes.iter().filter(|axis| ![s.row_axis, s.key_axis].contains(axis)).all(|axis| match s
            .env
            .get(&axis)
        {
            Some(AxisValue::Poly(d)) if heads.contains(&axis) => *d == var(&index_of(axis)),
            Some(AxisValue::Poly(d) | AxisValue::Loose(d)) => symbols.iter().all(|x| !d.mentions(x)),
            Some(AxisValue::Vector(_)) | None => false,
        })
    })
}
