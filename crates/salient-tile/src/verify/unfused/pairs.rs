//! Which values have an element for every pair of positions of two sequences.
//!
//! A *comparison* is a reduction in which what is known of a position of one sequence meets what is known of a position of
//! another one, or of the same: a sum of products of queries and keys, of absolute differences, of a function of their sums. Its
//! *queries* and *keys* are the two axes that meet. What is an image, the widths of a layer or a sum of values under weights is
//! told apart by where the axes come from (`positions`). A comparison counts as one of attention if what is made of it, and is
//! not linear in it, is reduced along queries or keys; so do all others between sequences of the same two lengths.

use super::positions::{Kind, Positions};
use salient_ir::{AxisId, Bindings, Class, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// The most operators of an expression in which a comparison is looked for.
const LARGEST: usize = 256;

/// A reduction over pairs of positions.
#[derive(Clone, Debug)]
struct Comparison {
    node: NodeId,
    lengths: [Dim; 2],
    /// The side along which what is made of it is reduced first, as scores are by a softmax: the keys.
    reduced: Option<Side>,
    /// Whether it is reduced so, or lies between sequences as long as those of one that is.
    is_attention: bool,
}

/// What an axis counts of the pairs that a value is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) queries: bool,
    pub(super) keys: bool,
}

/// How a value depends on a comparison.
#[derive(Clone, Debug, Default)]
struct Dependence {
    sides: BTreeMap<AxisId, Side>,
    /// Whether it is more than the comparison times something, plus something.
    is_bent: bool,
}

/// The comparisons of a graph, and what is made of them for every pair.
pub(super) struct Pairs<'g> {
    g: &'g Graph,
    comparisons: Vec<Comparison>,
    /// For each node, by comparison, how it depends on those of which it has an element for every pair.
    made_of: Vec<BTreeMap<usize, Dependence>>,
}

impl<'g> Pairs<'g> {
    pub(super) fn of(g: &'g Graph) -> Pairs<'g> {
        let positions = Positions::of(g);
        let mut pairs = Pairs { g, comparisons: Vec::new(), made_of: Vec::with_capacity(g.len()) };
        for id in g.ids() {
            let mut made_of = pairs.inherited(id);
            pairs.note_reduced(id);
            if let Some([query, key]) =
                comparison(g, &positions, |leaf| !pairs.made_of[leaf.index()].is_empty(), id)
            {
                let lengths = [query, key].map(|axis| g.extent(axis).clone());
                let sides = [
                    (query, Side { queries: true, keys: false }),
                    (key, Side { queries: false, keys: true }),
                ];
                made_of.insert(pairs.comparisons.len(), Dependence { sides: sides.into(), is_bent: false });
                pairs.comparisons.push(Comparison { node: id, lengths, reduced: None, is_attention: false });
            }
            pairs.made_of.push(made_of);
        }
        pairs.spread();
        pairs
    }

    /// Comparisons between sequences as long as those of an attention are of attention too.
    fn spread(&mut self) {
        let known: Vec<[Dim; 2]> =
            self.comparisons.iter().filter(|c| c.is_attention).map(|c| c.lengths.clone()).collect();
        for c in &mut self.comparisons {
            let [queries, keys] = &c.lengths;
            let same = |[a, b]: &[Dim; 2]| (a, b) == (queries, keys) || (b, a) == (queries, keys);
            c.is_attention |= known.iter().any(same);
        }
    }

    /// What a node has an element for every pair of because its arguments have.
    fn inherited(&self, id: NodeId) -> BTreeMap<usize, Dependence> {
        let g = self.g;
        let mut out: BTreeMap<usize, Dependence> = BTreeMap::new();
        for (at, arg) in g.args(id).iter().enumerate() {
            for (comparison, of) in &self.made_of[arg.index()] {
                let into = out.entry(*comparison).or_default();
                into.is_bent |= of.is_bent || self.bends(id, *comparison);
                for (axis, side) in &of.sides {
                    for axis in axes_behind(g, id, at, *axis) {
                        let known = into.sides.entry(axis).or_default();
                        known.queries |= side.queries;
                        known.keys |= side.keys;
                    }
                }
            }
        }
        for of in out.values_mut() {
            of.sides.retain(|axis, _| g.node(id).axes.contains(*axis));
        }
        out.retain(|comparison, of| covers(g, &of.sides, &self.comparisons[*comparison].lengths));
        out
    }

    /// Whether an operator makes something of a comparison that is not linear in it.
    fn bends(&self, id: NodeId, comparison: usize) -> bool {
        let of_pairs = |arg: &NodeId| {
            let [queries, keys] = self.sides_of(comparison);
            let axes = &self.g.node(*arg).axes;
            queries.is_some_and(|axis| axes.contains(axis)) && keys.is_some_and(|axis| axes.contains(axis))
        };
        match self.g.op(id) {
            Op::Map(MapOp::Mul | MapOp::Div) => {
                self.g.args(id).iter().filter(|arg| of_pairs(arg)).count() > 1
            }
            Op::Map(MapOp::Add | MapOp::Sub | MapOp::Neg | MapOp::ToF32) => false,
            Op::Map(_) | Op::Fused(..) => true,
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
            Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => false,
        }
    }

    /// The axes of a comparison as they are where it is made.
    fn sides_of(&self, comparison: usize) -> [Option<AxisId>; 2] {
        let made = self.made_of.get(self.comparisons[comparison].node.index());
        let sides = made.and_then(|made| made.get(&comparison)).map(|of| &of.sides);
        let find = |is: fn(&Side) -> bool| sides?.iter().find(|(_, side)| is(side)).map(|(axis, _)| *axis);
        [find(|side| side.queries), find(|side| side.keys)]
    }

    /// Notes the comparisons of which an operator reduces what is made along queries or keys.
    fn note_reduced(&mut self, id: NodeId) {
        let Some(bound) = self.g.op(id).bound() else { return };
        let reduces_as_weights = match self.g.op(id) {
            Op::Reduce(op, _) => *op != ReduceOp::Sum,
            Op::Fused(op, _) => op.info().weights.is_exponential(),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
            Op::Map(_) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => false,
        };
        for arg in self.g.args(id) {
            for (comparison, of) in &self.made_of[arg.index()] {
                let Some(side) = of.sides.get(&bound).filter(|_| of.is_bent || reduces_as_weights) else {
                    continue;
                };
                let comparison = &mut self.comparisons[*comparison];
                // What is moved along an axis is summed along few positions of it.
                let [queries, keys] = &comparison.lengths;
                let extent = self.g.extent(bound);
                if !(side.queries && goes_over(extent, queries) || side.keys && goes_over(extent, keys)) {
                    continue;
                }
                comparison.is_attention = true;
                comparison.reduced.get_or_insert(*side);
            }
        }
    }

    /// Whether a value has an element for every query and key of an attention.
    pub(super) fn has(&self, id: NodeId) -> bool {
        self.made_of[id.index()].keys().any(|comparison| self.comparisons[*comparison].is_attention)
    }

    /// What an axis of such a value counts.
    pub(super) fn side(&self, id: NodeId, axis: AxisId) -> Side {
        let of = |(at, of): (&usize, &Dependence)| {
            let (comparison, side) = (&self.comparisons[*at], *of.sides.get(&axis)?);
            // Which of the two axes are keys is known where weights are made.
            let is_turned = comparison.reduced.is_some_and(|reduced| reduced.queries && !reduced.keys);
            let turned = Side { queries: side.keys, keys: side.queries };
            comparison.is_attention.then_some(if is_turned { turned } else { side })
        };
        self.made_of[id.index()].iter().filter_map(of).fold(Side::default(), |all, side| Side {
            queries: all.queries || side.queries,
            keys: all.keys || side.keys,
        })
    }

    /// Whether such a value is more than scores: weights that are made of them, or masked ones.
    pub(super) fn is_weights(&self, id: NodeId) -> bool {
        self.made_of[id.index()].iter().any(|(at, of)| self.comparisons[*at].is_attention && of.is_bent)
    }

    /// Whether an operator makes of such a value something that is not linear in it.
    pub(super) fn is_bent_by(&self, id: NodeId, user: NodeId) -> bool {
        self.made_of[id.index()].keys().any(|comparison| self.bends(user, *comparison))
    }

    /// Whether a node is where queries and keys of an attention meet.
    pub(super) fn is_comparison(&self, id: NodeId) -> bool {
        self.comparisons.iter().any(|c| c.node == id && c.is_attention)
    }
}

/// The axes of a node that stand for an axis of one of its arguments.
fn axes_behind(g: &Graph, id: NodeId, arg: usize, axis: AxisId) -> Vec<AxisId> {
    match g.op(id) {
        Op::At(read) if arg == 0 && *read == axis => g.node(g.args(id)[1]).axes.iter().collect(),
        Op::Concat(whole, parts) if parts.get(arg) == Some(&axis) => vec![*whole],
        Op::At(_) | Op::Concat(..) | Op::Map(_) => vec![axis],
        Op::Reduce(_, bound) => {
            if *bound == axis {
                Vec::new()
            } else {
                vec![axis]
            }
        }
        Op::Fused(op, bound) => {
            if op.info().reduces && *bound == axis {
                Vec::new()
            } else {
                vec![axis]
            }
        }
        Op::CumSum(..) => vec![axis],
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => Vec::new(),
    }
}

/// Whether axes of these sides go over all pairs: one over the queries and another one over the keys, or one over both.
fn covers(g: &Graph, sides: &BTreeMap<AxisId, Side>, [queries, keys]: &[Dim; 2]) -> bool {
    let pairs = queries * keys;
    let merged =
        |(axis, side): (&AxisId, &Side)| side.queries && side.keys && is_as_long(g.extent(*axis), &pairs);
    let apart = sides.iter().filter(|(axis, side)| side.queries && goes_over(g.extent(**axis), queries));
    let other = |query: AxisId| {
        sides.iter().any(|(axis, side)| *axis != query && side.keys && goes_over(g.extent(*axis), keys))
    };
    sides.iter().any(merged) || apart.map(|(axis, _)| *axis).any(other)
}

/// Whether a length is at least another one where all dimensions are some.
fn is_as_long(length: &Dim, other: &Dim) -> bool {
    const SOME: i64 = 60;
    let sizes: Bindings = (length * other).dimensions().into_iter().map(|name| (name, SOME)).collect();
    matches!((length.eval(&sizes), other.eval(&sizes)), (Ok(length), Ok(other)) if length >= other)
}

/// Whether an axis grows with a length, or is as long where lengths are numbers.
pub(super) fn goes_over(extent: &Dim, length: &Dim) -> bool {
    match (extent.as_constant(), length.as_constant()) {
        (Some(extent), Some(length)) => extent >= length,
        (None, None) => length.symbols().iter().any(|symbol| extent.mentions(symbol)),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The queries and keys that meet in a reduction, if it is a comparison. `has_pairs` says which values have an element for pairs
/// already.
fn comparison(
    g: &Graph,
    positions: &Positions,
    has_pairs: impl Fn(NodeId) -> bool,
    id: NodeId,
) -> Option<[AxisId; 2]> {
    let bound = g.op(id).bound()?;
    if !matches!(g.op(id), Op::Reduce(..) | Op::Fused(..)) {
        return None;
    }
    let leaves = leaves(g, &g.args(id), bound)?;
    let kinds = |axis: AxisId| leaves.iter().filter_map(move |leaf| positions.kind(*leaf, axis));
    // What is summed along positions is weighed by pairs; only rows of pairs are compared along them.
    let weighs = kinds(bound).any(|kind| kind == Kind::Position);
    if weighs && leaves.iter().filter(|leaf| has_pairs(**leaf)).count() < 2 {
        return None;
    }
    let is_width = kinds(bound).next().is_none();
    let is_position = |axis: AxisId| kinds(axis).any(|kind| kind == Kind::Position || is_width);
    let axes: Vec<AxisId> = g.node(id).axes.iter().filter(|axis| is_position(*axis)).collect();
    let has = |leaf: &NodeId, axis: AxisId| g.node(*leaf).axes.contains(axis);
    let alone = |a: AxisId, b: AxisId| leaves.iter().any(|leaf| has(leaf, a) && !has(leaf, b));
    let mut found: Vec<[AxisId; 2]> = Vec::new();
    for (n, a) in axes.iter().enumerate() {
        found.extend(axes[n + 1..].iter().filter(|b| alone(*a, **b) && alone(**b, *a)).map(|b| [*a, *b]));
    }
    found
        .retain(|pair| !is_image(g, id, *pair) && pair.iter().all(|axis| positions.grows(g, &leaves, *axis)));
    // Of several axes, heads are seldom as many as positions, and are declared before them.
    let rank = |[a, b]: &[AxisId; 2]| {
        let symbolic = [*a, *b].iter().filter(|axis| g.extent(**axis).as_constant().is_none()).count();
        (g.extent(*a) == g.extent(*b), symbolic, *a, *b)
    };
    found.into_iter().max_by_key(rank)
}

/// What expressions read that depends on an axis, below their scalar operators; `None` if there is too much of it.
fn leaves(g: &Graph, roots: &[NodeId], axis: AxisId) -> Option<Vec<NodeId>> {
    let (mut out, mut seen, mut stack) = (Vec::new(), BTreeSet::new(), roots.to_vec());
    while let Some(id) = stack.pop() {
        if !g.node(id).axes.contains(axis) || !seen.insert(id) {
            continue;
        }
        if seen.len() > LARGEST {
            return None;
        }
        if g.op(id).class() == Class::Map { stack.extend(g.args(id)) } else { out.push(id) }
    }
    Some(out)
}

/// Whether two axes are those of an input that has more for each pair than the comparison: an image.
fn is_image(g: &Graph, id: NodeId, pair: [AxisId; 2]) -> bool {
    let of = &g.node(id).axes;
    let holds = |node: NodeId| {
        let axes = &g.node(node).axes;
        pair.iter().all(|axis| axes.contains(*axis)) && axes.iter().any(|axis| !of.contains(axis))
    };
    g.ids().any(|node| matches!(g.op(node), Op::Input(_)) && holds(node))
}
