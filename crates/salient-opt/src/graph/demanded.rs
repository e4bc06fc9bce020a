//! Reads for which the program as written refuses a call wherever their index leaves its axis: a table of embeddings that is
//! read for every token, say. No rule need ask whether such a read stands under a choice or not, as long as one of its kind is
//! still made for every element in the end.

use crate::graph::digest::digests;
use crate::graph::index::{AffineIndex, Bounds};
use crate::graph::inequalities::{AtLeastZero, MOST, inequalities, is_never_below_zero};
use salient_ir::{AxisId, AxisSet, Dim, Graph, MapOp, NodeId, Op, demand};
use std::collections::{BTreeMap, BTreeSet};

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

/// The reads inside of the values of a graph that may leave their axes and are not demanded. A choice that makes a read only where it
/// stays inside closes it.
pub(crate) struct OpenValues<'g> {
    g: &'g Graph,
    reads: Vec<OpenReads>,
}

impl OpenValues<'_> {
    /// Whether there is such a read inside of a value.
    pub(crate) fn is_open(&self, id: NodeId) -> bool {
        self.reads[id.index()].is_some()
    }

    /// Whether there still is one if the value is read where these conditions hold alone.
    pub(crate) fn is_open_under(&self, id: NodeId, conditions: &BTreeSet<NodeId>) -> bool {
        let own = self.reads[id.index()].clone();
        let left = conditions.iter().fold(own, |own, condition| own.under(self.g, *condition, true));
        left.is_some()
    }
}

/// The open values of a graph.
pub(crate) fn open_values(g: &Graph) -> OpenValues<'_> {
    let (demanded, mut bounds) = (demanded_reads(g), Bounds::new(g));
    let mut open: Vec<OpenReads> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let mut own = OpenReads::of_arguments(g, id, &open);
        if let Op::At(axis) = *g.op(id) {
            let index = g.args(id)[1];
            let is_demanded = |read: &DemandedRead| {
                (read.axis, read.index) == (axis, index) && read.axes.is_subset(&g.node(id).axes)
            };
            if !bounds.is_inside(index, axis) && !demanded.iter().any(is_demanded) {
                own.read(g, index, axis);
            }
        }
        open.push(own);
    }
    OpenValues { g, reads: open }
}

/// The reads inside of a value that may leave their axes.
#[derive(Clone, Default)]
struct OpenReads {
    /// Whether one is by an index that is no sum of indices, or was bound.
    is_any: bool,
    /// What has to hold for the others to stay inside.
    unproved: BTreeSet<AtLeastZero>,
}

impl OpenReads {
    /// Those inside of what a node reads, as they are seen from it.
    fn of_arguments(g: &Graph, id: NodeId, open: &[OpenReads]) -> OpenReads {
        let mut out = OpenReads::default();
        let args = g.args(id);
        for (at, arg) in args.iter().enumerate() {
            let of = &open[arg.index()];
            out.is_any |= of.is_any;
            match *g.op(id) {
                Op::Map(MapOp::Select) if at > 0 && !of.unproved.is_empty() => {
                    out.unproved.extend(of.clone().under(g, args[0], at == 1).unproved);
                }
                Op::At(axis) if at == 0 => out.moved(of, axis, AffineIndex::of(g, args[1])),
                Op::Reduce(_, axis) | Op::CumSum(_, axis) | Op::Fused(_, axis) => out.moved(of, axis, None),
                Op::Concat(..) => out.is_any |= !of.unproved.is_empty(),
                Op::Map(_) | Op::At(_) => out.unproved.extend(of.unproved.iter().cloned()),
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            }
        }
        out.is_any |= out.unproved.len() > MOST;
        out
    }

    fn is_some(&self) -> bool {
        self.is_any || !self.unproved.is_empty()
    }

    /// Those that are left where a condition holds, or where it does not.
    fn under(mut self, g: &Graph, condition: NodeId, holds: bool) -> OpenReads {
        if self.unproved.is_empty() {
            return self;
        }
        let known = inequalities(g, condition, holds);
        let is_open = |read: &AtLeastZero| {
            let follows = |known: &AtLeastZero| read.index().less(&known.index());
            !known.iter().any(|known| is_never_below_zero(g, &follows(known)))
        };
        self.unproved.retain(is_open);
        self
    }

    /// Adds reads as they are where an axis of theirs is another index, or is bound.
    fn moved(&mut self, of: &OpenReads, axis: AxisId, place: Option<AffineIndex>) {
        for read in &of.unproved {
            match &place {
                _ if !read.has(axis) => _ = self.unproved.insert(read.clone()),
                Some(place) => _ = self.unproved.insert(read.with(axis, place)),
                None => self.is_any = true,
            }
        }
    }

    /// Adds a read of a tensor along an axis.
    fn read(&mut self, g: &Graph, index: NodeId, axis: AxisId) {
        let Some(index) = AffineIndex::of(g, index) else {
            self.is_any = true;
            return;
        };
        let last = AffineIndex::fixed(g.extent(axis) - &Dim::constant(1));
        let sides = [last.less(&index), index];
        let open = sides.into_iter().filter(|side| !is_never_below_zero(g, side));
        self.unproved.extend(open.map(AtLeastZero::of));
    }
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
    use salient_ir::{Builder, Const, DType, ReduceOp, Relation, Requirement};

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

    /// Whether the read of a table by ids of two axes is demanded where a result adds it up along one axis that stands for both, and
    /// another result looks at it where a mask holds alone; `shorter` has that axis end before the last of the pairs.
    fn is_demanded_by_pairs(shorter: bool) -> bool {
        let mut b = Builder::new("m");
        let [u, t, v] = ["U", "T", "V"].map(|d| b.axis_id(&d.to_lowercase(), &Dim::symbol(d)));
        let pairs = &Dim::symbol("U") * &Dim::symbol("T");
        let whole = b.axis_id("w", &if shorter { &pairs - &Dim::constant(1) } else { pairs });
        let ids = b.input("ids", &[u, t], DType::I64, None);
        let keep = b.input("keep", &[u, t], DType::Bool, None);
        let table = b.input("table", &[v], DType::F32, None);
        let read = b.at(table, v, ids).unwrap();
        let (at, by) = (b.iota(whole), b.extent_of(&Dim::symbol("T")));
        let [row, column] = [MapOp::IntDiv, MapOp::Mod].map(|op| b.map(op, &[at, by]).unwrap());
        let of_row = b.at(read, u, row).unwrap();
        let of_pair = b.at(of_row, t, column).unwrap();
        let sum = b.reduce(ReduceOp::Sum, whole, of_pair).unwrap();
        b.output("sum", &[], sum).unwrap();
        let zero = b.constant(Const::f32(0.0));
        let chosen = b.map(MapOp::Select, &[keep, read, zero]).unwrap();
        b.output("chosen", &[u, t], chosen).unwrap();
        let g = b.finish();
        demanded_reads(&g).iter().any(|read| g.extent(read.axis) == &Dim::symbol("V"))
    }

    #[test]
    fn what_is_read_at_each_pair_of_positions_is_demanded() {
        assert_eq!([false, true].map(is_demanded_by_pairs), [true, false]);
    }

    #[test]
    fn one_result_that_needs_all_of_a_read_is_enough_where_it_has_elements_whenever_the_read_has() {
        assert!(is_demanded(true, false));
        assert!(!is_demanded(false, false));
        // Without positions along its axis the sum reads nothing, and the other result may leave an index aside.
        assert!(!is_demanded(true, true));
    }

    #[test]
    fn a_choice_closes_the_reads_that_it_keeps_inside() {
        let mut b = Builder::new("m");
        let t = b.axis_id("t", &Dim::symbol("T"));
        let x = b.input("x", &[t], DType::F32, None);
        let (at, one, extent) = (b.iota(t), b.constant(Const::I64(1)), b.extent_of(&Dim::symbol("T")));
        let next = b.map(MapOp::Add, &[at, one]).unwrap();
        let read = b.at(x, t, next).unwrap();
        let (inside, zero) = (b.map(MapOp::Lt, &[next, extent]).unwrap(), b.constant(Const::f32(0.0)));
        let guarded = b.map(MapOp::Select, &[inside, read, zero]).unwrap();
        let outside = b.map(MapOp::Select, &[inside, zero, read]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, t, read).unwrap();
        for (name, axes, node) in
            [("guarded", vec![t], guarded), ("outside", vec![t], outside), ("sum", vec![], sum)]
        {
            b.output(name, &axes, node).unwrap();
        }
        let g = b.finish();
        let open = open_values(&g);
        assert_eq!([read, guarded, outside, sum].map(|id| open.is_open(id)), [true, false, true, true]);
        assert!(!open.is_open_under(read, &BTreeSet::from([inside])));
    }

    #[test]
    fn a_choice_of_even_positions_closes_the_reads_behind_them() {
        let is_open = |extent: &Dim, by: i64, is_required: bool| {
            let mut b = Builder::new("m");
            if is_required {
                let relation = Relation::Divides(extent.clone(), Dim::constant(by));
                b.require(Requirement { relation, message: None, origin: None });
            }
            let e = b.axis_id("e", extent);
            let x = b.input("x", &[e], DType::F32, None);
            let (at, one, by) = (b.iota(e), b.constant(Const::I64(1)), b.constant(Const::I64(by)));
            let next = b.map(MapOp::Add, &[at, one]).unwrap();
            let read = b.at(x, e, next).unwrap();
            let (rest, first) = (b.map(MapOp::Mod, &[at, by]).unwrap(), b.constant(Const::I64(0)));
            let is_first = b.map(MapOp::Eq, &[rest, first]).unwrap();
            let zero = b.constant(Const::f32(0.0));
            let chosen = b.map(MapOp::Select, &[is_first, read, zero]).unwrap();
            b.output("chosen", &[e], chosen).unwrap();
            let g = b.finish();
            // Nodes are numbered anew.
            open_values(&g).is_open(g.outputs()[0].node)
        };
        let (symbol, two) = (Dim::symbol("E"), Dim::constant(2));
        let closed = [(&Dim::constant(8), 2, false), (&symbol, 2, true), (&(&two * &symbol), 2, false)];
        assert_eq!(closed.map(|(extent, by, required)| is_open(extent, by, required)), [false; 3]);
        let open = [(&Dim::constant(9), 2), (&Dim::constant(8), 3), (&symbol, 2)];
        assert_eq!(open.map(|(extent, by)| is_open(extent, by, false)), [true; 3]);
    }
}
