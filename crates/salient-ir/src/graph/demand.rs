//! What a call is sure to be refused for. An index outside its axis is refused where its value is used: so where a node is
//! read wholly, every element of it reaching an output outside of any choice, and where a view is written into another one if
//! what is left checks the index all the same.

use crate::{AxisId, AxisSet, Dim, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, HashMap};

/// Whether an index that takes the place of an axis of a value is still checked against that axis when it is put into views
/// and expressions of integers and truth values, down to what is stored.
pub fn stays_checked(g: &Graph, id: NodeId, axis: AxisId) -> bool {
    is_checked(g, id, axis, &mut BTreeMap::new())
}

/// As [`stays_checked`], each node once for each axis.
fn is_checked(g: &Graph, id: NodeId, axis: AxisId, known: &mut BTreeMap<(NodeId, AxisId), bool>) -> bool {
    if !g.node(id).axes.contains(axis) {
        return false;
    }
    if let Some(known) = known.get(&(id, axis)) {
        return *known;
    }
    let args = g.args(id);
    let mut of = |n: usize, axis: AxisId| is_checked(g, args[n], axis, known);
    let found = match g.op(id) {
        // Here a view of its own is left, which checks.
        Op::Input(_) | Op::Param(_) | Op::Reduce(..) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {
            true
        }
        Op::Map(_) if g.node(id).dtype.is_float() => true,
        Op::Map(MapOp::Select) => of(0, axis) || of(1, axis) && of(2, axis),
        Op::Map(_) => (0..args.len()).any(|n| of(n, axis)),
        Op::At(bound) => {
            let renames = *g.op(args[1]) == Op::Iota(axis) && g.is_renamed(*bound, args[1]);
            renames && of(0, *bound) || of(1, axis) || *bound != axis && of(0, axis)
        }
        Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
    };
    known.insert((id, axis), found);
    found
}

/// How much of a node is used outside of any choice.
#[derive(Clone, Debug, Default)]
struct Demand {
    /// The axes along which not every position is known to be used.
    cut: AxisSet,
    /// The axes that must have positions for that, which the node itself does not have.
    needs: AxisSet,
}

/// What is known of how long axes are.
struct Lengths {
    /// For each axis a number that those of the same extent have in common.
    class: Vec<usize>,
    /// Whether each has positions whatever the dimensions are.
    filled: Vec<bool>,
}

impl Lengths {
    fn of(g: &Graph) -> Lengths {
        let mut classes: HashMap<&Dim, usize> = HashMap::new();
        let mut lengths = Lengths { class: Vec::new(), filled: Vec::new() };
        for (_, axis) in g.axes() {
            let count = classes.len();
            lengths.class.push(*classes.entry(&axis.extent).or_insert(count));
            let missing = &Dim::constant(0) - &axis.extent;
            lengths.filled.push(missing.provably_le(&Dim::constant(-1)));
        }
        lengths
    }

    fn are_equal(&self, a: AxisId, b: AxisId) -> bool {
        self.class[a.index()] == self.class[b.index()]
    }

    fn is_filled(&self, axis: AxisId) -> bool {
        self.filled[axis.index()]
    }
}

/// A read of a tensor at each pair of positions of two of its axes, by one axis that stands for both.
struct MergedRead {
    tensor: NodeId,
    whole: AxisId,
}

/// A view as such a read: at the quotient of an index by the extent of one axis, along the other, and at the remainder.
fn merged_read(g: &Graph, id: NodeId) -> Option<MergedRead> {
    let view = |id: NodeId| {
        let Op::At(axis) = *g.op(id) else { return None };
        Some((axis, g.args(id)[0], part_of_index(g, g.args(id)[1])?))
    };
    let (second, inner, of_second) = view(id)?;
    let (first, tensor, of_first) = view(inner)?;
    let ((quotient, of_quotient), (remainder, of_remainder)) = match (of_first.op, of_second.op) {
        (MapOp::IntDiv, MapOp::Mod) => ((first, of_first), (second, of_second)),
        (MapOp::Mod, MapOp::IntDiv) => ((second, of_second), (first, of_first)),
        _ => return None,
    };
    let (whole, divisor) = (of_quotient.of, g.extent(remainder));
    let axes = &g.node(tensor).axes;
    let is_one =
        (of_remainder.of, &of_quotient.by) == (whole, &of_remainder.by) && of_quotient.by == *divisor;
    let is_whole = *g.extent(whole) == g.extent(quotient) * divisor;
    let has_both = axes.contains(quotient) && axes.contains(remainder) && !axes.contains(whole);
    (is_one && is_whole && has_both).then_some(MergedRead { tensor, whole })
}

/// The quotient or the remainder of an index by a dimension.
struct PartOfIndex {
    op: MapOp,
    of: AxisId,
    by: Dim,
}

fn part_of_index(g: &Graph, index: NodeId) -> Option<PartOfIndex> {
    let Op::Map(op @ (MapOp::IntDiv | MapOp::Mod)) = *g.op(index) else { return None };
    let Op::Iota(of) = *g.op(g.args(index)[0]) else { return None };
    let divisor = g.op(g.args(index)[1]);
    if let Op::Extent(by) = divisor {
        return Some(PartOfIndex { op, of, by: by.clone() });
    }
    let Op::Const(n) = divisor else { return None };
    Some(PartOfIndex { op, of, by: Dim::constant(n.value() as i64) })
}

/// For each node of which all elements reach a root outside of any choice, the axes that must have positions for that.
///
/// `roots` are used wholly, by what repeats them along the axes beside them. `covers` says whether an index takes every
/// position of an axis; it may say no.
pub fn demanded(
    g: &Graph,
    roots: impl Iterator<Item = (NodeId, AxisSet)>,
    mut covers: impl FnMut(NodeId, AxisId) -> bool,
) -> Vec<Option<AxisSet>> {
    let mut demands = Demands { g, lengths: Lengths::of(g), least: vec![None; g.len()] };
    roots.for_each(|(id, along)| demands.note(id, &along, Demand::default()));
    for id in g.ids().rev() {
        if let Some(demand) = demands.least[id.index()].clone() {
            demands.arguments(id, demand, &mut covers);
        }
    }
    demands.least.into_iter().map(|demand| demand.filter(|d| d.cut.is_empty()).map(|d| d.needs)).collect()
}

/// What is known so far of how much of each node is used.
struct Demands<'g> {
    g: &'g Graph,
    lengths: Lengths,
    /// What demands the most of each node.
    least: Vec<Option<Demand>>,
}

impl Demands<'_> {
    /// Notes what a reader with these axes demands of a node.
    fn note(&mut self, id: NodeId, from: &AxisSet, demand: Demand) {
        let (axes, lengths) = (&self.g.node(id).axes, &self.lengths);
        // An axis as long as one of the node's own has positions where the node has elements.
        let is_own = |axis: AxisId| axes.iter().any(|own| lengths.are_equal(own, axis));
        let repeats = from.iter().filter(|a| !lengths.is_filled(*a) && !is_own(*a));
        let needs = demand.needs.iter().filter(|a| !is_own(*a)).chain(repeats).collect();
        let new = Demand { cut: demand.cut.intersection(axes), needs };
        let size = |d: &Demand| (d.cut.len(), d.needs.len());
        let known = &mut self.least[id.index()];
        if known.as_ref().is_none_or(|known| size(known) > size(&new)) {
            *known = Some(new);
        }
    }

    /// Notes what a node demands of its arguments.
    fn arguments(&mut self, id: NodeId, demand: Demand, covers: &mut impl FnMut(NodeId, AxisId) -> bool) {
        let (args, own) = (self.g.args(id), &self.g.node(id).axes);
        match self.g.op(id) {
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::Map(MapOp::Select) => self.note(args[0], own, demand),
            Op::Map(_) => args.iter().for_each(|a| self.note(*a, own, demand.clone())),
            Op::Reduce(_, axis) | Op::CumSum(_, axis) | Op::Fused(_, axis) => {
                let mut along = own.clone();
                along.insert(*axis);
                let mut demand = demand;
                demand.cut.remove(*axis);
                args.iter().for_each(|a| self.note(*a, &along, demand.clone()));
            }
            Op::Concat(axis, parts) => {
                for (part, arg) in parts.iter().zip(&args) {
                    let (mut demand, mut along) = (demand.clone(), own.clone());
                    along.remove(*axis);
                    along.insert(*part);
                    if demand.cut.remove(*axis) {
                        demand.cut.insert(*part);
                    }
                    self.note(*arg, &along, demand);
                }
            }
            Op::At(axis) => self.read(id, *axis, demand, covers),
        }
    }

    /// Notes what a read at an index demands of the tensor and of the index.
    fn read(
        &mut self,
        id: NodeId,
        axis: AxisId,
        demand: Demand,
        covers: &mut impl FnMut(NodeId, AxisId) -> bool,
    ) {
        let g = self.g;
        let (args, own) = (g.args(id), &g.node(id).axes);
        let (tensor, index) = (args[0], args[1]);
        self.note(index, own, demand.clone());
        let mut inner = demand.clone();
        inner.cut.remove(axis);
        let (axes, new) = (&g.node(tensor).axes, &g.node(index).axes);
        let shared = new.iter().any(|a| a != axis && axes.contains(a) || demand.cut.contains(a));
        // Where the axis has positions, so have those that its index runs along.
        let is_read = |a: &AxisId| !axes.contains(axis) || !new.contains(*a) || axes.contains(*a);
        let along: AxisSet = own.iter().filter(is_read).collect();
        if shared || !covers(index, axis) {
            inner.cut.insert(axis);
        }
        self.note(tensor, &along, inner);
        if let Some(MergedRead { tensor, whole }) = merged_read(g, id)
            && !demand.cut.contains(whole)
        {
            // Where both axes have positions, so has the one that stands for both.
            let along = own.iter().filter(|a| *a != whole);
            self.note(tensor, &along.collect(), demand);
        }
    }
}
