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

/// For each node of which all elements reach a root outside of any choice, the axes that must have positions for that.
///
/// `roots` are used wholly, by what repeats them along the axes beside them. `covers` says whether an index takes every
/// position of an axis; it may say no.
pub fn demanded(
    g: &Graph,
    roots: impl Iterator<Item = (NodeId, AxisSet)>,
    mut covers: impl FnMut(NodeId, AxisId) -> bool,
) -> Vec<Option<AxisSet>> {
    let mut least: Vec<Option<Demand>> = vec![None; g.len()];
    let lengths = Lengths::of(g);
    let note = |least: &mut Vec<Option<Demand>>, id: NodeId, from: &AxisSet, demand: Demand| {
        let axes = &g.node(id).axes;
        // An axis as long as one of the node's own has positions where the node has elements.
        let is_own = |axis: AxisId| axes.iter().any(|own| lengths.are_equal(own, axis));
        let repeats = from.iter().filter(|a| !lengths.is_filled(*a) && !is_own(*a));
        let needs = demand.needs.iter().filter(|a| !is_own(*a)).chain(repeats).collect();
        let new = Demand { cut: demand.cut.intersection(axes), needs };
        let size = |d: &Demand| (d.cut.len(), d.needs.len());
        let known = &mut least[id.index()];
        if known.as_ref().is_none_or(|known| size(known) > size(&new)) {
            *known = Some(new);
        }
    };
    roots.for_each(|(id, along)| note(&mut least, id, &along, Demand::default()));
    for id in g.ids().rev() {
        let Some(demand) = least[id.index()].clone() else { continue };
        let (args, own) = (g.args(id), &g.node(id).axes);
        match g.op(id) {
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::Map(MapOp::Select) => note(&mut least, args[0], own, demand),
            Op::Map(_) => args.iter().for_each(|a| note(&mut least, *a, own, demand.clone())),
            Op::Reduce(_, axis) | Op::CumSum(_, axis) | Op::Fused(_, axis) => {
                let mut along = own.clone();
                along.insert(*axis);
                let mut demand = demand;
                demand.cut.remove(*axis);
                args.iter().for_each(|a| note(&mut least, *a, &along, demand.clone()));
            }
            Op::Concat(axis, parts) => {
                for (part, arg) in parts.iter().zip(&args) {
                    let (mut demand, mut along) = (demand.clone(), own.clone());
                    along.remove(*axis);
                    along.insert(*part);
                    if demand.cut.remove(*axis) {
                        demand.cut.insert(*part);
                    }
                    note(&mut least, *arg, &along, demand);
                }
            }
            Op::At(axis) => {
                note(&mut least, args[1], own, demand.clone());
                let mut inner = demand.clone();
                inner.cut.remove(*axis);
                let new = &g.node(args[1]).axes;
                let shared = new
                    .iter()
                    .any(|a| a != *axis && g.node(args[0]).axes.contains(a) || demand.cut.contains(a));
                if shared || !covers(args[1], *axis) {
                    inner.cut.insert(*axis);
                }
                // Where the axis has positions, so have those that its index runs along.
                let tensor = &g.node(args[0]).axes;
                let is_read =
                    |a: &AxisId| !tensor.contains(*axis) || !new.contains(*a) || tensor.contains(*a);
                let along = own.iter().filter(is_read);
                note(&mut least, args[0], &along.collect(), inner);
            }
        }
    }
    least.into_iter().map(|demand| demand.filter(|d| d.cut.is_empty()).map(|d| d.needs)).collect()
}
