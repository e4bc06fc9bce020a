//! Reads for which the program as written refuses a call wherever their index leaves its axis: a table of embeddings that is
//! read for every token, say. No rule need ask whether such a read stands under a choice or not, as long as one of its kind is
//! still made for every element in the end.

use crate::graph::digest::digests;
use crate::graph::index::{AffineIndex, Bounds};
use salient_ir::{AxisId, AxisSet, Graph, NodeId, Op, demand};
use std::collections::BTreeMap;

/// A read whose every element a call needs. Each output that needs any of it needs all of it, wherever the output has elements;
/// or one does wherever the read has elements, whatever the other ones need: then the call is refused in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DemandedRead {
    /// The axis of the tensor.
    pub(crate) axis: AxisId,
    /// The index.
    pub(crate) index: NodeId,
    /// The axes of the read: where one has no positions, nothing is read.
    pub(crate) axes: AxisSet,
}

/// What the outputs need of a read, the ones looked at so far.
#[derive(Clone, Copy)]
struct Needed {
    /// Each that needs any of it needs all of it.
    by_each: bool,
    /// One needs all of it, whatever the dimensions are.
    by_one: bool,
}

/// The demanded reads of a graph, of those by an index that is more than a sum over places.
pub(crate) fn demanded_reads(g: &Graph) -> Vec<DemandedRead> {
    let reads: Vec<(NodeId, DemandedRead)> = g.ids().filter_map(|id| Some((id, read(g, id)?))).collect();
    if reads.is_empty() {
        return Vec::new();
    }
    let mut covering = BTreeMap::new();
    let mut needed = vec![Needed { by_each: true, by_one: false }; reads.len()];
    for output in g.outputs() {
        let axes: AxisSet = output.axes.iter().copied().collect();
        let covers = |index, axis| *covering.entry((index, axis)).or_insert_with(|| covers(g, index, axis));
        let wholly = demand::demanded(g, [(output.node, axes.clone())].into_iter(), covers);
        let below = below(g, output.node);
        let is_filled = |axis| axes.iter().any(|own| g.extent(own) == g.extent(axis));
        for ((id, _), needed) in reads.iter().zip(&mut needed).filter(|((id, _), _)| below[id.index()]) {
            let needs = wholly[id.index()].as_ref();
            needed.by_each &= needs.is_some_and(|needs| needs.iter().all(is_filled));
            needed.by_one |= needs.is_some_and(AxisSet::is_empty);
        }
    }
    let is_demanded = |needed: Needed| needed.by_each || needed.by_one;
    reads.into_iter().zip(needed).filter_map(|((_, read), n)| is_demanded(n).then_some(read)).collect()
}

/// The values of a graph inside of which a read may leave its axis that is not demanded.
pub(crate) fn open_values(g: &Graph) -> Vec<bool> {
    let (demanded, mut bounds) = (demanded_reads(g), Bounds::new(g));
    let mut open: Vec<bool> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let args = g.args(id);
        let is_open = if let Op::At(axis) = g.op(id) {
            let axes = &g.node(id).axes;
            let is_it = |read: &DemandedRead| (read.axis, read.index) == (*axis, args[1]);
            let is_demanded = |read: &DemandedRead| is_it(read) && read.axes.is_subset(axes);
            !bounds.is_inside(args[1], *axis) && !demanded.iter().any(is_demanded)
        } else {
            false
        };
        open.push(is_open || args.iter().any(|a| open[a.index()]));
    }
    open
}

/// The node as a read, if its index may be anything.
fn read(g: &Graph, id: NodeId) -> Option<DemandedRead> {
    let Op::At(axis) = *g.op(id) else { return None };
    let (index, axes) = (g.args(id)[1], g.node(id).axes.clone());
    AffineIndex::of(g, index).is_none().then_some(DemandedRead { axis, index, axes })
}

/// The nodes from which one is made, itself among them.
fn below(g: &Graph, root: NodeId) -> Vec<bool> {
    let mut below = vec![false; g.len()];
    below[root.index()] = true;
    for id in g.ids().rev().filter(|id| id.index() <= root.index()) {
        if below[id.index()] {
            g.args(id).iter().for_each(|a| below[a.index()] = true);
        }
    }
    below
}

/// Whether an index takes every position of an axis.
fn covers(g: &Graph, index: NodeId, axis: AxisId) -> bool {
    let Some(place) = AffineIndex::of(g, index) else { return false };
    let (extent, one) = (g.extent(axis), |d: &salient_ir::Dim| d.as_constant() == Some(1));
    let from_start = place.offset.as_constant() == Some(0);
    let terms: Vec<(AxisId, &salient_ir::Dim)> = place.terms.iter().map(|(a, times)| (*a, times)).collect();
    match terms[..] {
        [(own, times)] => from_start && one(times) && g.extent(own) == extent,
        [a, b] => [(a, b), (b, a)].into_iter().any(|((outer, wide), (inner, step))| {
            let whole = g.extent(outer) * g.extent(inner);
            from_start && one(step) && wide == g.extent(inner) && whole == *extent
        }),
        _ => false,
    }
}

/// Whether each of the demanded reads of a graph has one of its kind among those of what it became.
pub(crate) fn are_kept(before: &Graph, demanded: &[DemandedRead], after: &Graph) -> bool {
    if demanded.is_empty() {
        return true;
    }
    let (old, new) = (digests(before), digests(after));
    let kept = demanded_reads(after);
    let is_kept = |read: &DemandedRead| {
        kept.iter().any(|other| {
            before.axis(read.axis) == after.axis(other.axis)
                && old[read.index.index()] == new[other.index.index()]
                && other.axes.iter().all(|a| read.axes.iter().any(|b| before.axis(b) == after.axis(a)))
        })
    };
    demanded.iter().all(is_kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Builder, Const, DType, Dim, MapOp, ReduceOp};

    /// Whether the read of a table by ids is demanded where one result adds up all that is read, times a number along an axis of
    /// its own if `repeats`, and another result looks at it where a mask holds alone.
    fn is_demanded(adds_up: bool, repeats: bool) -> bool {
        let mut b = Builder::new("m");
        let [t, v, s] = ["T", "V", "S"].map(|d| b.axis_id(&d.to_lowercase(), &Dim::symbol(d)));
        let ids = b.input("ids", &[t], DType::I64, None);
        let keep = b.input("keep", &[t], DType::Bool, None);
        let scale = b.input("scale", &[s], DType::F32, None);
        let table = b.input("table", &[v], DType::F32, None);
        let read = b.at(table, v, ids).unwrap();
        if adds_up {
            let sum = b.reduce(ReduceOp::Sum, t, read).unwrap();
            let scaled = if repeats { b.map(MapOp::Mul, &[sum, scale]).unwrap() } else { sum };
            let axes: &[AxisId] = if repeats { &[s] } else { &[] };
            b.output("sum", axes, scaled).unwrap();
        }
        let zero = b.constant(Const::f32(0.0));
        let chosen = b.map(MapOp::Select, &[keep, read, zero]).unwrap();
        b.output("chosen", &[t], chosen).unwrap();
        !demanded_reads(&b.finish()).is_empty()
    }

    #[test]
    fn one_result_that_needs_all_of_a_read_is_enough_where_it_has_elements_whenever_the_read_has() {
        assert!(is_demanded(true, false));
        assert!(!is_demanded(false, false));
        // Without positions along its axis the sum reads nothing, and the other result may leave an index aside.
        assert!(!is_demanded(true, true));
    }
}
