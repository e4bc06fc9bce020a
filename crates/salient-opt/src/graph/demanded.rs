//! Reads for which the program as written refuses a call wherever their index leaves its axis: a table of embeddings that is
//! read for every token, say. No rule need ask whether such a read stands under a choice or not, as long as one of its kind is
//! still made for every element in the end.

use crate::graph::digest::digests;
use crate::graph::index::{AffineIndex, Bounds};
use salient_ir::{AxisId, AxisSet, Graph, NodeId, Op, demand};
use std::collections::BTreeMap;

/// A read whose every element each output needs that needs any of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DemandedRead {
    /// The axis of the tensor.
    pub(crate) axis: AxisId,
    /// The index.
    pub(crate) index: NodeId,
    /// The axes of the read: where one has no positions, nothing is read.
    pub(crate) axes: AxisSet,
}

/// The demanded reads of a graph, of those by an index that is more than a sum over places.
pub(crate) fn demanded_reads(g: &Graph) -> Vec<DemandedRead> {
    let reads: Vec<(NodeId, DemandedRead)> = g.ids().filter_map(|id| Some((id, read(g, id)?))).collect();
    if reads.is_empty() {
        return Vec::new();
    }
    let mut covering = BTreeMap::new();
    let mut is_demanded = vec![true; reads.len()];
    for output in g.outputs() {
        let axes: AxisSet = output.axes.iter().copied().collect();
        let covers = |index, axis| *covering.entry((index, axis)).or_insert_with(|| covers(g, index, axis));
        let wholly = demand::demanded(g, [(output.node, axes.clone())].into_iter(), covers);
        let below = below(g, output.node);
        let is_filled = |axis| axes.iter().any(|own| g.extent(own) == g.extent(axis));
        for ((id, _), is_demanded) in
            reads.iter().zip(&mut is_demanded).filter(|((id, _), _)| below[id.index()])
        {
            *is_demanded &= wholly[id.index()].as_ref().is_some_and(|needs| needs.iter().all(is_filled));
        }
    }
    reads
        .into_iter()
        .zip(is_demanded)
        .filter_map(|((_, read), is_demanded)| is_demanded.then_some(read))
        .collect()
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
