//! Scores: products of queries and keys inside expressions, and who reads them.
//!
//! Only looks at an extracted graph; what is made of it is for `weighted_sums` and `log_sum_exp`.

use salient_ir::{AxisId, AxisSet, Class, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a product of queries and keys is summed over: one factor depends on something that the other does not, and the
/// other way round.
pub(crate) fn depth(g: &Graph, id: NodeId) -> Option<AxisId> {
    let Op::Reduce(ReduceOp::Sum, depth) = *g.op(id) else { return None };
    let product = g.args(id)[0];
    if *g.op(product) != Op::Map(MapOp::Mul) {
        return None;
    }
    let [a, b] = [0, 1].map(|n| g.node(g.args(product)[n]).axes.clone());
    (a.contains(depth) && b.contains(depth) && !a.is_subset(&b) && !b.is_subset(&a)).then_some(depth)
}

/// The scores inside a mixture, shared by all that look at it; `None` for what is none.
type Mixed = Option<Rc<BTreeSet<NodeId>>>;

/// The scores of a graph, and what is mixed of them. What was found of a node is kept: layers that read one another would be looked
/// through once for every way between them.
pub(crate) struct Scores<'g> {
    g: &'g Graph,
    data: Vec<bool>,
    mixed: RefCell<BTreeMap<(NodeId, AxisId), Mixed>>,
}

impl<'g> Scores<'g> {
    pub(crate) fn new(g: &'g Graph) -> Scores<'g> {
        Scores { g, data: g.of_inputs(), mixed: RefCell::default() }
    }

    /// Whether a value depends on an input of the model.
    pub(crate) fn is_data(&self, id: NodeId) -> bool {
        self.data[id.index()]
    }

    /// The products of two values of which one depends on the key, element by element inside the expression or in what is mixed
    /// there.
    pub(crate) fn inside(&self, id: NodeId, key: AxisId) -> BTreeSet<NodeId> {
        let g = self.g;
        let (mut out, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![id]);
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            if g.op(id).class() == Class::Map {
                stack.extend(g.args(id));
            } else if let Some(mixed) = self.mixed(id, key) {
                out.extend(mixed.iter().copied());
            } else if depth(g, id).is_some() {
                let operands = g.args(g.args(id)[0]);
                let along = |x: &&NodeId| g.node(**x).axes.contains(key);
                if operands.iter().all(|x| self.is_data(*x)) && operands.iter().filter(along).count() == 1 {
                    out.insert(id);
                }
            }
        }
        out
    }

    /// The scores inside a mixture: a sum of products of which one operand is made of scores, and the other one, the coefficients,
    /// depends on neither their keys nor their queries, as where heads are mixed (Shazeer et al., "Talking-Heads Attention", 2020).
    fn mixed(&self, id: NodeId, key: AxisId) -> Mixed {
        if let Some(known) = self.mixed.borrow().get(&(id, key)) {
            return known.clone();
        }
        let found = self.find_mixed(id, key).map(Rc::new);
        self.mixed.borrow_mut().insert((id, key), found.clone());
        found
    }

    fn find_mixed(&self, id: NodeId, key: AxisId) -> Option<BTreeSet<NodeId>> {
        let g = self.g;
        let depth = depth(g, id)?;
        let [a, b] = [0, 1].map(|n| g.args(g.args(id)[0])[n]);
        let has_key = |x: NodeId| g.node(x).axes.contains(key);
        let (of_scores, coefficients) = match (has_key(a), has_key(b)) {
            (true, false) => (a, b),
            (false, true) => (b, a),
            (true, true) | (false, false) => return None,
        };
        let own =
            |axis: &AxisId| *axis != key && *axis != depth && !g.node(coefficients).axes.contains(*axis);
        if depth == key || !g.node(of_scores).axes.iter().any(|axis| own(&axis)) {
            return None;
        }
        let inside = self.inside(of_scores, key);
        let has_query = |score: &NodeId| {
            let operands = g.args(g.args(*score)[0]);
            let with_key = operands.iter().find(|x| has_key(**x)).expect("a score depends on its key");
            let of_query = |axis: &AxisId| own(axis) && !g.node(*with_key).axes.contains(*axis);
            g.node(*score).axes.iter().any(|axis| of_query(&axis))
        };
        (!inside.is_empty() && inside.iter().all(has_query)).then_some(inside)
    }

    /// Whether what is summed over keys under the weights that some scores make is made of scores itself, of the same rows: no rows share
    /// it. Each key then has one number, or one for each further head: an axis that queries and keys of the products in it have, or a
    /// mixture.
    pub(crate) fn are_of_rows(&self, value: NodeId, score: NodeId, key: AxisId) -> bool {
        let g = self.g;
        let [of_value, of_score] = [value, score].map(|id| self.inside(id, key));
        let [rows, own] = [&of_score, &of_value].map(|products| self.rows(products, key));
        let further = |axis: &AxisId| !g.node(score).axes.contains(*axis);
        let is_head = |axis: AxisId| {
            of_value.iter().all(|product| {
                let [query, keys] = self.by_key(*product, key).map(|x| g.node(x).axes.contains(axis));
                query == keys
            })
        };
        !of_value.is_empty()
            && rows.iter().any(|axis| own.contains(axis))
            && g.node(value).axes.iter().filter(further).all(is_head)
    }

    /// The axes along which rows share the keys of each of these products.
    fn rows(&self, products: &BTreeSet<NodeId>, key: AxisId) -> AxisSet {
        let of = |product: &NodeId| -> AxisSet {
            let [_, keys] = self.by_key(*product, key).map(|x| &self.g.node(x).axes);
            let axes = self.g.node(*product).axes.iter();
            axes.filter(|axis| !keys.contains(*axis)).collect()
        };
        products.iter().map(of).reduce(|a, b| a.intersection(&b)).unwrap_or_default()
    }

    /// The operands of a product of queries and keys: the queries, then the keys.
    fn by_key(&self, product: NodeId, key: AxisId) -> [NodeId; 2] {
        let [a, b] = [0, 1].map(|at| self.g.args(self.g.args(product)[0])[at]);
        if self.g.node(a).axes.contains(key) { [b, a] } else { [a, b] }
    }

    /// The mixtures of scores inside an expression.
    pub(crate) fn mixtures(&self, id: NodeId, key: AxisId) -> BTreeSet<NodeId> {
        let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![id]);
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            let is_mixture = self.mixed(id, key).is_some();
            if is_mixture {
                found.insert(id);
            }
            if is_mixture || self.g.op(id).class() == Class::Map {
                stack.extend(self.g.args(id));
            }
        }
        found
    }
}

/// The nodes that read a value through elementwise operators and norms of it; `None` if an output does.
pub(crate) fn readers(g: &Graph, id: NodeId) -> Option<BTreeSet<NodeId>> {
    let read = g.readers(id, |op| matches!(op, Op::Map(_) | Op::Fused(FusedOp::Norm, _)))?;
    Some(read.into_iter().map(|(reader, _)| reader).collect())
}

/// Whether a node needs no scores in memory: it combines them along an axis.
pub(crate) fn reduces_scores(g: &Graph, id: NodeId) -> bool {
    if let Op::Fused(op, _) = g.op(id) {
        return op.info().reduces;
    }
    // Running sums are kept for a row, if what reads them is by row too.
    matches!(g.op(id), Op::Reduce(ReduceOp::Sum | ReduceOp::Max, _) | Op::CumSum(..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Builder, DType, Dim};

    #[test]
    fn layers_that_read_what_they_add_to_are_looked_through_once() {
        let mut b = Builder::new("m");
        let [batch, t, d, f] = ["B", "T", "D", "F"].map(|n| b.axis_id(&n.to_lowercase(), &Dim::symbol(n)));
        let mut x = b.input("x", &[batch, t, d], DType::F32, None);
        let [up, down] = ["up", "down"].map(|name| b.input(name, &[d, f], DType::F32, None));
        for _ in 0..64 {
            let product = b.map(MapOp::Mul, &[x, up]).unwrap();
            let hidden = b.reduce(ReduceOp::Sum, d, product).unwrap();
            let product = b.map(MapOp::Mul, &[hidden, down]).unwrap();
            let change = b.reduce(ReduceOp::Sum, f, product).unwrap();
            x = b.map(MapOp::Add, &[x, change]).unwrap();
        }
        b.output("y", &[batch, t, d], x).unwrap();
        let g = b.finish();
        // Every layer reads the one before twice, so that 2^64 ways lead to the first, and has a product of its own.
        let scores = Scores::new(&g);
        let last = g.outputs()[0].node;
        assert_eq!(scores.inside(last, t).len(), 64);
    }
}
