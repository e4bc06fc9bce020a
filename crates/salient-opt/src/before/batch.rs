//! Heads one after the other become one batch of heads: parts of a concatenation that differ only in which parameters
//! they read, or in where along an axis, are one expression over a further axis.
//!
//! `concat(head(0), head(1), …)` is `head(h)` at `h = c / E`, of which the position is `c % E`. Parameters are stacked along
//! the new axis, which is done once when they are bound. Parts that read different inputs stay apart: data is not copied.
//! A local pass before the e-graph, where as many parts would be as many classes.

use crate::graph::index::AffineIndex;
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, Builder, Class, Const, Dim, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeSet, HashMap};

/// The same model with each concatenation of equal computations as one computation.
pub(crate) fn batch(g: &Graph) -> Graph {
    let heavy = heavy(g);
    let parts = |id: NodeId| parts(g, id, &heavy);
    let candidates: BTreeSet<NodeId> = g.ids().filter(|id| parts(*id).is_some()).collect();
    if candidates.is_empty() {
        return g.clone();
    }
    let batched = rewrite(g, |b, new, id| {
        let parts = candidates.contains(&id).then(|| parts(id))??;
        together(g, b, new, &parts)
    });
    batched.graph
}

/// A concatenation of values of one length.
struct Parts {
    whole: AxisId,
    part: AxisId,
    values: Vec<NodeId>,
}

/// The parts of a node that concatenates reductions along one axis of theirs.
fn parts(g: &Graph, id: NodeId, heavy: &[bool]) -> Option<Parts> {
    let Op::Concat(whole, axes) = g.op(id) else { return None };
    let part = *axes.first()?;
    let values = g.args(id).to_vec();
    let alike = axes.iter().all(|a| *a == part) && values.iter().all(|v| g.node(*v).axes.contains(part));
    let distinct: BTreeSet<&NodeId> = values.iter().collect();
    let all = alike && values.len() > 1 && distinct.len() == values.len();
    (all && values.iter().all(|v| heavy[v.index()])).then_some(Parts { whole: *whole, part, values })
}

/// Whether each value is computed by a reduction, element by element after that.
fn heavy(g: &Graph) -> Vec<bool> {
    let mut out: Vec<bool> = Vec::with_capacity(g.len());
    for id in g.ids() {
        out.push(match g.op(id).class() {
            Class::Bind => !matches!(g.op(id), Op::CumSum(..)),
            Class::Map | Class::View => g.args(id).iter().any(|a| out[a.index()]),
            Class::Port | Class::Leaf | Class::Concat => false,
        });
    }
    out
}

fn together(g: &Graph, b: &mut Builder, new: &[NodeId], parts: &Parts) -> Option<NodeId> {
    let count = Dim::constant(i64::try_from(parts.values.len()).ok()?);
    // A name that no axis has: the canonical one is given later.
    let names: BTreeSet<String> = b.axes().map(|(_, a)| a.name.to_string()).collect();
    let name = (0..).map(|n| format!("batch.{n}")).find(|n| !names.contains(n)).expect("numbers do not end");
    let axis = b.axis_id(&name, &count);
    let mut unifier = Unifier { g, new, axis, known: HashMap::new() };
    let one = unifier.unify(b, &parts.values)?;
    let (place, extent) = (b.iota(parts.whole), b.extent_of(g.extent(parts.part)));
    let head = b.map(MapOp::IntDiv, &[place, extent]).expect("integers");
    let within = b.map(MapOp::Mod, &[place, extent]).expect("integers");
    b.at_all(one, &[(axis, head), (parts.part, within)]).ok()
}

struct Unifier<'g> {
    g: &'g Graph,
    /// The new node of each old one.
    new: &'g [NodeId],
    /// The axis that tells the parts apart.
    axis: AxisId,
    known: HashMap<Vec<NodeId>, Option<NodeId>>,
}

impl Unifier<'_> {
    /// One node whose value at position `n` of the axis is that of the `n`-th of these; `None` if they differ in more
    /// than parameters and places.
    fn unify(&mut self, b: &mut Builder, ids: &[NodeId]) -> Option<NodeId> {
        if ids.iter().all(|id| *id == ids[0]) {
            return Some(self.new[ids[0].index()]);
        }
        if let Some(known) = self.known.get(ids) {
            return *known;
        }
        let node = self.differing(b, ids);
        if let Some(node) = node {
            let first = self.g.node(ids[0]);
            b.describe(node, first.name.as_ref(), first.origin);
        }
        self.known.insert(ids.to_vec(), node);
        node
    }

    fn differing(&mut self, b: &mut Builder, ids: &[NodeId]) -> Option<NodeId> {
        let g = self.g;
        let first = g.node(ids[0]);
        if ids.iter().any(|id| g.node(*id).dtype != first.dtype) {
            return None;
        }
        if first.dtype.is_int()
            && let Some(node) = self.places(b, ids)
        {
            return Some(node);
        }
        if ids.iter().all(|id| matches!(g.op(*id), Op::Param(_))) {
            return self.stack(b, ids);
        }
        if matches!(first.op, Op::Input(_) | Op::Const(_)) || ids.iter().any(|id| g.op(*id) != &first.op) {
            return None;
        }
        let lists: Vec<_> = ids.iter().map(|id| g.args(*id)).collect();
        if lists.iter().any(|list| list.len() != lists[0].len()) {
            return None;
        }
        let mut args = Vec::with_capacity(lists[0].len());
        for n in 0..lists[0].len() {
            let column: Vec<NodeId> = lists.iter().map(|list| list[n]).collect();
            args.push(self.unify(b, &column)?);
        }
        b.add(first.op.clone(), &args).ok()
    }

    /// Parameters of one shape, one after the other.
    fn stack(&self, b: &mut Builder, ids: &[NodeId]) -> Option<NodeId> {
        let axes = |id: NodeId| self.g.port(id).map(|p| p.axes.clone());
        if ids.iter().any(|id| axes(*id) != axes(ids[0])) {
            return None;
        }
        let one = b.axis_id("batch", &Dim::constant(1));
        let args: Vec<NodeId> = ids.iter().map(|id| self.new[id.index()]).collect();
        b.add(Op::Concat(self.axis, ids.iter().map(|_| one).collect()), &args).ok()
    }

    /// Indices that are so many steps apart: each, or each group of as many, as the keys that several heads share.
    fn places(&self, b: &mut Builder, ids: &[NodeId]) -> Option<NodeId> {
        let places =
            ids.iter().map(|id| AffineIndex::of(self.g, *id)).collect::<Option<Vec<AffineIndex>>>()?;
        if places.iter().any(|p| p.terms != places[0].terms) {
            return None;
        }
        let (group, step) = steps(&places)?;
        let mut head = b.iota(self.axis);
        if group > 1 {
            let group = b.constant(Const::I64(i64::try_from(group).ok()?));
            head = b.map(MapOp::IntDiv, &[head, group]).expect("integers");
        }
        if step.as_constant() != Some(1) {
            let step = b.extent_of(&step);
            head = b.map(MapOp::Mul, &[head, step]).expect("integers");
        }
        Some(places[0].add_to(b, Some(head)))
    }
}

/// How many places in a row are the same, and how far the next ones lie behind them.
fn steps(places: &[AffineIndex]) -> Option<(usize, Dim)> {
    let offset = |n: usize| &places[n].offset;
    let group = (1..places.len()).find(|n| offset(*n) != offset(0))?;
    let step = offset(group) - offset(0);
    let times = |n: usize| Dim::constant(i64::try_from(n / group).expect("as many as there are parts"));
    let at = |n: usize| offset(0) + &(&step * &times(n));
    let regular = places.len().is_multiple_of(group) && (0..places.len()).all(|n| *offset(n) == at(n));
    regular.then_some((group, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{DType, ReduceOp};

    /// Two products, one after the other, of one input or of two.
    fn two_products(inputs: [&str; 2]) -> Graph {
        let mut b = Builder::new("m");
        let (t, e) = (Dim::symbol("T"), Dim::symbol("E"));
        let whole = &e * &Dim::constant(2);
        let (t, d, e, c) = (
            b.axis_id("t", &t),
            b.axis_id("d", &Dim::symbol("D")),
            b.axis_id("e", &e),
            b.axis_id("c", &whole),
        );
        let first = b.input(inputs[0], &[t, d], DType::F32, None);
        let second = match inputs[0] == inputs[1] {
            true => first,
            false => b.input(inputs[1], &[t, d], DType::F32, None),
        };
        let mut parts = Vec::new();
        for (x, name) in [(first, "w.0"), (second, "w.1")] {
            let w = b.param(name, &[d, e], DType::F32, None, None);
            let product = b.map(MapOp::Mul, &[x, w]).unwrap();
            parts.push(b.reduce(ReduceOp::Sum, d, product).unwrap());
        }
        let y = b.add(Op::Concat(c, [e, e].into_iter().collect()), &parts).unwrap();
        b.output("y", &[t, c], y).unwrap();
        b.finish()
    }

    fn sums(g: &Graph) -> usize {
        g.ids().filter(|id| matches!(g.op(*id), Op::Reduce(..))).count()
    }

    #[test]
    fn products_with_several_parameters_are_one_product_with_their_stack() {
        assert_eq!(sums(&batch(&two_products(["x", "x"]))), 1);
    }

    #[test]
    fn different_inputs_are_not_stacked() {
        assert_eq!(sums(&batch(&two_products(["x", "y"]))), 2);
    }
}
