//! Attention whose weights need reductions of their own row first, as squared weights need the sum that a softmax divides by.
//!
//! An online softmax brings a weighted sum forward tile by tile of keys, which works where the weights are linear in the
//! exponentials of the scores. Other weights wait for the reductions of their whole row. So the scores of a tile of rows are
//! kept for all keys that the rows visit, in scratch memory that grows with the number of keys and never with its square; then
//! each row is reduced as often as its weights ask for, and the product with the values comes last. No score is computed
//! twice, and no sum is rescaled.

use super::beside::{Beside, BesideOf, KeySum, Store, StoreOf, SumOverRows, ValueSum};
use super::key_loop::{KeyLoop, Mask, key_loop};
use super::key_range::KeyRange;
use super::leaves::{leave_behind, reaches};
use super::mixture::{Mixture, have_heads, mixed_heads, mixture};
use super::{Among, Attention, Normaliser, Scores, find_scores, parts};
use crate::dims::{LANE, ROW, index_of, n, product, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::contraction::{is_matrix_product, is_within_rows};
use crate::plan::{Layouts, PackedScores};
use crate::program::kernel::BufferId;
use crate::tiling::Tiling;
use salient_ir::{AxisId, AxisSet, Class, DType, Dim, Graph, NodeId, Op, ReduceOp, Symbol};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// An attention in tiles of rows, of which the scores of all keys are kept.
#[derive(Clone, Debug)]
pub(crate) struct WholeRows {
    pub(crate) attention: Attention,
    /// The products inside the scores and inside what is held.
    pub(crate) scores: Vec<PackedScores>,
    pub(crate) key_loop: KeyLoop,
    /// Reductions of the rows, in the order in which they are computed.
    pub(crate) held: Vec<RowReduction>,
    /// The keys for which the products are made.
    pub(crate) visits: KeyRange,
    /// Rows of a tile.
    pub(crate) tile_rows: i64,
    /// The axes of heads that mixtures sum over or that come of them: the kernel goes over these for each tile of rows.
    pub(crate) heads: BTreeSet<AxisId>,
    pub(crate) weights: WeightsFrom,
    /// What is stored beside the attention.
    pub(crate) beside: Vec<Beside>,
}

/// Where the weights come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WeightsFrom {
    /// They are computed of the scores, after all else of the row.
    Scores,
    /// What is held at a position leaves them behind, in their place: a mixture that is the weights, or the log-sum-exp of the
    /// scores of which they are the softmax.
    Held(usize),
    /// What such a log-sum-exp leaves behind for the row at hand is copied, once nobody reads the scores any more.
    Copied(usize),
    /// There are none: the attention is the sum or the maximum that is held at a position.
    Reduction(usize),
}

/// Where the weights are of what sums values under them beside an attention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WeightsBeside {
    /// They are those of the attention.
    Attention,
    /// They are those of another result, at a position among what is stored beside the attention.
    Another(usize),
    /// They are the exponentials that the log-sum-exp at this position among what is held leaves behind. These are not divided by their
    /// sum: the values of each row are instead.
    Exponentials(usize),
    /// They are copied for all rows of the tile.
    Own,
}

/// A reduction of each row of scores, held while the row is near.
#[derive(Clone, Debug)]
pub(crate) struct RowReduction {
    /// The reduction, as an attention without values.
    pub(crate) attention: Attention,
    pub(crate) key_loop: KeyLoop,
    pub(crate) leaves: Vec<Leaves>,
    /// Whether its own value is kept: that of a log-sum-exp may serve nobody but the exponentials that it leaves behind.
    pub(crate) is_kept: bool,
    /// Whether a mixture first computes what it mixes, because that is neither a product nor left behind by what comes before.
    pub(crate) copies: bool,
}

/// What a reduction leaves behind for each key, for those that come after it: a log-sum-exp the exponentials of its scores, which
/// those multiply by one over their sum; a running sum and a mixture themselves; a sum and a maximum parts of their scores that
/// are expensive to compute again.
#[derive(Clone, Debug)]
pub(crate) struct Leaves {
    /// The value that they are.
    pub(crate) node: NodeId,
    /// The product, by position, in whose place they are stored, if nobody reads that any more.
    pub(crate) in_place_of: Option<usize>,
}

impl RowReduction {
    /// The values that it leaves behind.
    pub(crate) fn left(&self) -> impl Iterator<Item = NodeId> {
        self.leaves.iter().map(|leaves| leaves.node)
    }
}

impl WholeRows {
    /// The same over other nodes and buffers.
    pub(crate) fn moved(
        &self,
        node: &impl Fn(NodeId) -> NodeId,
        buffer: &impl Fn(BufferId) -> BufferId,
    ) -> WholeRows {
        let reduction = |held: &RowReduction| RowReduction {
            attention: held.attention.moved(node),
            key_loop: held.key_loop.moved(node),
            leaves: held.leaves.iter().map(|l| Leaves { node: node(l.node), ..l.clone() }).collect(),
            is_kept: held.is_kept,
            copies: held.copies,
        };
        WholeRows {
            attention: self.attention.moved(node),
            scores: self.scores.iter().map(|s| s.moved(node, buffer)).collect(),
            key_loop: self.key_loop.moved(node),
            held: self.held.iter().map(reduction).collect(),
            visits: self.visits.clone(),
            tile_rows: self.tile_rows,
            heads: self.heads.clone(),
            weights: self.weights,
            beside: self.beside.iter().map(|beside| beside.moved(node, buffer)).collect(),
        }
    }

    /// Whether what is held at a position is the sum of the scores of which the next one is the running sum, over the same keys:
    /// that comes to it at its end.
    pub(crate) fn is_end_of_next(&self, at: usize) -> bool {
        let [sum, running] = [self.held.get(at), self.held.get(at + 1)];
        let (Some(sum), Some(running)) = (sum, running) else { return false };
        let [of_sum, of_running] = [sum, running].map(|h| h.key_loop.score_in_range(&h.attention));
        sum.attention.normaliser == Normaliser::Sum
            && matches!(running.attention.normaliser, Normaliser::Running(_))
            && of_sum == of_running
            && sum.key_loop.range == running.key_loop.range
    }

    /// The product, by position, in whose place the weights are stored: each of them is made after all else that reads the scores
    /// of its key. Where every product is a band, or of other heads, they have a place of their own. Exponentials that are the weights
    /// of the values of the rows keep theirs if there is another one.
    pub(crate) fn weights_in_place_of(&self, g: &Graph) -> Option<usize> {
        let own = self.count_of_heads(g, self.attention.score);
        let is_place = |s: &PackedScores| !s.is_band && self.count_of_heads(g, s.product) == own;
        let places = || (0..self.scores.len()).filter(|at| is_place(&self.scores[*at]));
        let exponentials: BTreeSet<usize> =
            (0..self.beside.len()).filter_map(|at| Some(self.exponentials_beside(at)?.1)).collect();
        places().find(|at| !exponentials.contains(at)).or_else(|| places().next())
    }

    /// The log-sum-exp, by position among what is held, whose exponentials are the weights of the values of the rows that are summed
    /// beside the attention at a position, if that is so, and the product in whose place they are.
    fn exponentials_beside(&self, at: usize) -> Option<(usize, usize)> {
        let sum = self.beside[at].key_sum().filter(|sum| sum.of.value.is_some())?;
        let score = sum.key_loop.score_in_range(&sum.of.attention);
        let left = |at: usize| {
            let RowReduction { key_loop, leaves, .. } = &self.held[at];
            let is_left = |leaves: &&Leaves| leaves.node == score && key_loop.range == sum.key_loop.range;
            Some((at, leaves.iter().find(is_left)?.in_place_of?))
        };
        let is_undisturbed = self.weights == WeightsFrom::Scores;
        (0..self.held.len()).filter(|at| is_undisturbed && self.is_to_be_divided(*at)).find_map(left)
    }

    /// The axes of mixed heads that a node has.
    pub(crate) fn heads_of(&self, g: &Graph, node: NodeId) -> Vec<AxisId> {
        g.node(node).axes.iter().filter(|axis| self.heads.contains(axis)).collect()
    }

    /// How many mixed heads a node has.
    pub(crate) fn count_of_heads(&self, g: &Graph, node: NodeId) -> Dim {
        product(&g.shape(&self.heads_of(g, node)))
    }

    /// Whether what is held at a position are the weights themselves.
    pub(crate) fn is_weights(&self, at: usize) -> bool {
        self.weights == WeightsFrom::Held(at)
    }

    /// Whether what is held at a position leaves exponentials behind that are still to be divided by their sum. Mixtures read what
    /// they mix as it lies.
    pub(crate) fn is_to_be_divided(&self, at: usize) -> bool {
        let held = &self.held[at];
        let is_softmax = matches!(held.attention.normaliser, Normaliser::Softmax { .. });
        is_softmax && self.heads.is_empty() && !held.leaves.is_empty()
    }

    /// What one of the steps that are held mixes.
    pub(crate) fn mixture(&self, g: &Graph, held: &RowReduction) -> Option<Mixture> {
        let a = &held.attention;
        mixture(g, a.node, a.key, a.query)
    }

    /// What is computed of each row, in order: what is held, what is summed beside the attention, then the weights if there are some.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&Attention, &KeyLoop)> {
        let held = self.held.iter().map(|held| (&held.attention, &held.key_loop));
        let sums = self.beside.iter().filter_map(Beside::member);
        let is_held = matches!(self.weights, WeightsFrom::Reduction(_));
        let own = (!is_held).then_some((&self.attention, &self.key_loop));
        held.chain(sums).chain(own)
    }

    /// The expressions that its kernel computes beside scores: values, sinks, and what it stores, of which `stored` is that of the attention.
    pub(crate) fn beside_scores(&self, stored: NodeId) -> Vec<NodeId> {
        let of_rows = self.members().flat_map(|(a, _)| [a.value, a.sink]).flatten();
        let of_sums = self.key_sums().filter_map(|sum| Some(sum.of.value?.node));
        let results = self.beside.iter().map(|beside| beside.node).chain([stored]);
        of_rows.chain(of_sums).chain(results).collect()
    }

    /// The position of the attention itself among what is held, if it is the sum or the maximum of its scores.
    pub(crate) fn held_itself(&self) -> Option<usize> {
        let a = &self.attention;
        let is_reduction =
            a.value.is_none() && matches!(a.normaliser, Normaliser::Sum | Normaliser::Greatest);
        self.held.iter().position(|h| h.attention.node == a.node).filter(|_| is_reduction)
    }

    /// How many of these come before the weights.
    pub(crate) fn count_before_weights(&self) -> usize {
        self.held.len() + self.beside.iter().filter_map(Beside::member).count()
    }

    /// The sums over rows beside the attention.
    pub(crate) fn key_sums(&self) -> impl Iterator<Item = &KeySum> {
        self.beside.iter().filter_map(Beside::key_sum)
    }

    /// The parts into which the rows go, if there are sums over them.
    pub(crate) fn parts(&self, g: &Graph, tiling: Tiling) -> Option<Dim> {
        self.key_sums().next()?;
        parts_of_rows(g, tiling, (&self.attention, &self.heads), self.key_sums().map(|sum| &sum.of))
    }

    /// The weighted sums over keys beside the attention.
    pub(crate) fn value_sums(&self) -> impl Iterator<Item = &ValueSum> {
        self.beside.iter().filter_map(Beside::value_sum)
    }

    /// Where the weights are of what is stored beside at a position, if it sums values under weights. Those of the attention may be kept
    /// for all rows of a tile; of results with the same weights the first copies them.
    pub(crate) fn weights_beside(&self, g: &Graph, at: usize) -> Option<WeightsBeside> {
        let (own, key_loop) = self.beside[at].weighted()?;
        let same = |a: &Attention, of: &KeyLoop| a.score == own.score && of.range == key_loop.range;
        let a = &self.attention;
        let is_kept = (a.normaliser, self.weights) == (Normaliser::One, WeightsFrom::Scores);
        if is_kept && a.value.is_some() && same(a, &self.key_loop) {
            return Some(WeightsBeside::Attention);
        }
        let is_same = |other: &Beside| other.weighted().is_some_and(|(a, of)| same(a, of));
        if let Some((held, place)) = self.exponentials_beside(at)
            && self.weights_in_place_of(g) != Some(place)
        {
            return Some(WeightsBeside::Exponentials(held));
        }
        // Exponentials that are not divided serve sums over rows alone: those divide the values of each row.
        let is_copied = |other: usize| self.weights_beside(g, other) == Some(WeightsBeside::Own);
        let first = (0..at).find(|other| is_same(&self.beside[*other]) && is_copied(*other));
        Some(first.map_or(WeightsBeside::Own, WeightsBeside::Another))
    }

    /// Whether a node is summed beside the attention under weights that are kept for something else.
    pub(crate) fn has_weights_of_another(&self, g: &Graph, sum: NodeId) -> bool {
        let at = self.beside.iter().position(|beside| beside.member().is_some_and(|(a, _)| a.node == sum));
        at.and_then(|at| self.weights_beside(g, at)).is_some_and(|weights| weights != WeightsBeside::Own)
    }

    /// Whether the weights are a softmax of the scores of which what is held at a position is the log-sum-exp.
    pub(crate) fn is_softmax_of(&self, at: usize) -> bool {
        let RowReduction { attention: own, key_loop, .. } = &self.held[at];
        let a = &self.attention;
        matches!(own.normaliser, Normaliser::Softmax { .. })
            && a.normaliser == Normaliser::Softmax { zeros: true }
            && a.sink.is_none()
            && a.score == own.score
            && key_loop.range == self.key_loop.range
            && self.heads.is_empty()
    }
}

/// The parts into which the rows of an attention go that have such sums over them, all of these heads together; without rows there are
/// none.
pub(crate) fn parts_of_rows<'s>(
    g: &Graph,
    tiling: Tiling,
    (a, heads): (&Attention, &BTreeSet<AxisId>),
    mut sums: impl Iterator<Item = &'s SumOverRows>,
) -> Option<Dim> {
    let query = a.query?;
    let is_around = |axis: &AxisId| ![a.key, query].contains(axis) && !heads.contains(axis);
    let around = g.node(a.score).axes.iter().filter(is_around);
    let around: Vec<Dim> = around.map(|axis| g.extent(axis).clone()).collect();
    let has_columns = sums.any(|sum| sum.value.is_some());
    let rows = g.extent(query);
    Some(if has_columns { tiling.parts_with_columns(rows, &around) } else { n(tiling.parts_of(rows)) })
}

impl KeyLoop {
    /// The mask, if the range of keys says all that it does: within the range the scores need none.
    pub(crate) fn mask_by_range(&self) -> Option<&Mask> {
        self.mask.as_ref().filter(|mask| mask.probe.is_none())
    }

    /// What is computed at the keys that a row visits.
    pub(crate) fn score_in_range(&self, a: &Attention) -> NodeId {
        self.mask_by_range().map_or(a.score, |mask| mask.unmasked)
    }
}

/// Whether a node reduces rows along the keys; a matrix product does not.
pub(crate) fn is_reduction_of_row(g: &Graph, id: NodeId, (key, query): (AxisId, Option<AxisId>)) -> bool {
    let is_within = || query.is_some_and(|row| is_within_rows(g, id, row));
    g.op(id).bound() == Some(key) && (!is_matrix_product(g, id) || is_within())
}

/// Reductions and mixtures of the rows of an attention that are in the expression of its scores and that are not stored, in the
/// order in which they are computed; the axis of the rows may not be known yet.
pub(crate) fn reductions_inside(
    g: &Graph,
    score: NodeId,
    (key, query): (AxisId, Option<AxisId>),
    is_stored: impl Fn(NodeId) -> bool,
) -> BTreeSet<NodeId> {
    let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![score]);
    while let Some(id) = stack.pop() {
        if is_stored(id) || !seen.insert(id) {
            continue;
        }
        match g.op(id).class() {
            Class::Map | Class::View | Class::Concat => stack.extend(g.args(id)),
            Class::Bind if is_reduction_of_row(g, id, (key, query)) => {
                found.insert(id);
                stack.push(g.args(id)[0]);
            }
            Class::Bind if mixture(g, id, key, query).is_some() => {
                found.insert(id);
                stack.push(g.args(id)[0]);
            }
            Class::Bind | Class::Port | Class::Leaf => {}
        }
    }
    found
}

/// Whether these expressions read what is held of each row at that row: under no view of an axis that the reduction has, as values that
/// are read at each key would. Running sums and mixtures are kept for all keys, and for all heads that are mixed.
pub(crate) fn are_of_own_row(
    g: &Graph,
    roots: impl IntoIterator<Item = NodeId>,
    held: &BTreeSet<NodeId>,
    (key, heads): (AxisId, &BTreeSet<AxisId>),
    is_stored: impl Fn(NodeId) -> bool,
) -> bool {
    // Of each node that is read the axes that some view above it reads at an index; users come first.
    let mut open: BTreeMap<NodeId, AxisSet> = roots.into_iter().map(|id| (id, AxisSet::new())).collect();
    while let Some((id, indexed)) = open.pop_last() {
        let is_held = held.contains(&id);
        let own = |axis: &AxisId| g.node(id).axes.contains(*axis) && *axis != key && !heads.contains(axis);
        if is_held && indexed.iter().any(|axis| own(&axis)) {
            return false;
        }
        if is_stored(id) {
            continue;
        }
        if !is_held && !matches!(g.op(id).class(), Class::Map | Class::View | Class::Concat) {
            continue;
        }
        for (at, arg) in g.args(id).into_iter().enumerate() {
            let below = open.entry(arg).or_default();
            *below = below.union(&indexed);
            if let Op::At(axis) = g.op(id)
                && at == 0
            {
                below.insert(*axis);
            }
            if let Op::Concat(_, parts) = g.op(id) {
                below.insert(parts[at]);
            }
        }
    }
    true
}

/// A reduction or a mixture of the rows of scores, as an attention without values.
pub(crate) fn row_reduction(g: &Graph, node: NodeId, (key, query): (AxisId, AxisId)) -> Option<Attention> {
    if let Some(mixture) = mixture(g, node, key, Some(query)) {
        return Some(without_values(node, Normaliser::Mixture, key, mixture.of, Some(query)));
    }
    let reduces = || parts(g, node).filter(|a| a.value.is_none() && a.sink.is_none());
    let a = running_sum(g, node).or_else(reduces)?;
    (g.node(node).axes.contains(query) && g.node(a.score).axes.contains(a.key))
        .then_some(Attention { query: Some(query), ..a })
}

/// A running sum of scores, as an attention without values.
pub(crate) fn running_sum(g: &Graph, node: NodeId) -> Option<Attention> {
    let Op::CumSum(direction, key) = *g.op(node) else { return None };
    let is_number = g.node(node).dtype == DType::F32;
    is_number.then(|| without_values(node, Normaliser::Running(direction), key, g.args(node)[0], None))
}

/// What is asked for of each row of scores.
pub(crate) fn without_values(
    node: NodeId,
    normaliser: Normaliser,
    key: AxisId,
    score: NodeId,
    query: Option<AxisId>,
) -> Attention {
    Attention { node, normaliser, masked: 0.0, key, score, value: None, sink: None, query, width: None }
}

/// The products inside several expressions of one kernel, each once, for rows along an axis; `None` if two of the expressions
/// read one product at different places.
pub(crate) fn products_inside(
    of: &Among<'_>,
    (query, key): (AxisId, AxisId),
    expressions: &[NodeId],
) -> Option<(Vec<Scores>, Ranges)> {
    let (mut env, mut ranges) = (Env::new(), Ranges::default());
    for axis in expressions.iter().flat_map(|id| of.g.node(*id).axes.iter()) {
        ranges.insert(&index_of(axis), of.g.extent(axis));
        env.insert(axis, AxisValue::Poly(var(&index_of(axis))));
    }
    env.insert(query, AxisValue::Poly(var(&ROW)));
    env.insert(key, AxisValue::Poly(var(&LANE)));
    ranges.insert(&ROW, of.g.extent(query));
    ranges.insert(&LANE, of.g.extent(key));
    Some((joined_scores(of, &ranges, expressions, &env, &ROW)?, ranges))
}

/// As [`products_inside`], where axes stand for what `env` says.
fn joined_scores(
    of: &Among<'_>,
    ranges: &Ranges,
    expressions: &[NodeId],
    env: &Env,
    row: &Symbol,
) -> Option<Vec<Scores>> {
    let mut out: Vec<Scores> = Vec::new();
    for id in expressions {
        for scores in find_scores(of, ranges, *id, env, row) {
            match out.iter().find(|known| known.node == scores.node) {
                Some(known) if known.env == scores.env && known.scaled() == scores.scaled() => {}
                Some(_) => return None,
                None => out.push(scores),
            }
        }
    }
    Some(out)
}

impl Layouts<'_> {
    /// The products inside several expressions of one kernel, each once, in the order in which they are found.
    pub(crate) fn scores_inside(
        &self,
        ranges: &Ranges,
        expressions: &[NodeId],
        env: &Env,
        row: &Symbol,
    ) -> Option<Vec<Scores>> {
        self.among(|among| joined_scores(among, ranges, expressions, env, row))
    }

    /// See [`products_inside`].
    pub(crate) fn products_inside(
        &self,
        axes: (AxisId, AxisId),
        expressions: &[NodeId],
    ) -> Option<(Vec<Scores>, Ranges)> {
        self.among(|among| products_inside(among, axes, expressions))
    }

    /// The reductions of the rows of an attention that its kernel has to compute, since nobody stores them.
    pub(crate) fn reductions_inside(&self, a: &Attention) -> BTreeSet<NodeId> {
        reductions_inside(self.graph, a.score, (a.key, a.query), |id| self.is_stored(id))
    }

    /// As [`Layouts::products_inside`], for expressions of which these reductions and mixtures are held.
    pub(crate) fn products_of_heads(
        &self,
        (query, key): (AxisId, AxisId),
        expressions: &[NodeId],
        held: &[NodeId],
    ) -> Option<(Vec<Scores>, Ranges)> {
        let found = self.products_inside((query, key), expressions);
        let heads = mixed_heads(self.graph, held, key, query);
        found.filter(|(products, _)| have_heads(self.graph, products, &heads))
    }
}

/// What is held, in the order in which it is computed. A sum of which the scores have a running sum comes directly before that,
/// which ends in it. A sum or a maximum of the scores themselves comes before what may take their place.
pub(crate) fn in_order(g: &Graph, held: &BTreeSet<NodeId>, (key, query): (AxisId, AxisId)) -> Vec<NodeId> {
    let is_running = |id: NodeId| matches!(g.op(id), Op::CumSum(..));
    let is_sum = |id: NodeId| matches!(g.op(id), Op::Reduce(ReduceOp::Sum, _));
    if held.iter().any(|id| is_running(*id) || mixture(g, *id, key, Some(query)).is_some()) {
        let mut order = Vec::new();
        for id in held.iter().copied() {
            // Both need what their scores need, and nothing else: the second of the two can come where the first does.
            let of_same = |other: &NodeId| {
                g.args(*other) == g.args(id)
                    && (is_sum(*other) && is_running(id) || is_running(*other) && is_sum(id))
            };
            let mut together: Vec<NodeId> = held.iter().copied().filter(of_same).chain([id]).collect();
            together.sort_by_key(|id| is_running(*id));
            order.extend(together.into_iter().filter(|id| !order.contains(id)).collect::<Vec<NodeId>>());
        }
        return order;
    }
    let comes_first = |id: &NodeId| {
        matches!(g.op(*id), Op::Reduce(..))
            && reductions_inside(g, g.args(*id)[0], (key, Some(query)), |_| false).is_disjoint(held)
    };
    let (first, rest): (Vec<NodeId>, Vec<NodeId>) = held.iter().partition(|id| comes_first(id));
    [first, rest].concat()
}

/// What a kernel over whole rows of scores is to compute, before it is planned.
pub(crate) struct Wanted<'w> {
    pub(crate) attention: &'w Attention,
    /// The expression of it that is stored.
    pub(crate) stored: NodeId,
    pub(crate) query: AxisId,
    /// The axes around its rows.
    pub(crate) outer: &'w [AxisId],
    /// The products of queries and keys in its expressions.
    pub(crate) products: &'w [Scores],
    /// What it holds, in order.
    pub(crate) held: &'w [NodeId],
    /// What it stores beside the attention.
    pub(crate) beside: &'w [Store],
}

/// The plan of an attention over whole rows of scores. The packed products are filled in later.
pub(crate) fn whole_rows(layouts: &Layouts<'_>, wanted: &Wanted<'_>) -> WholeRows {
    let g = layouts.graph;
    let Wanted { attention: a, stored, query, outer, products, held, beside } = *wanted;
    let made: BTreeSet<NodeId> = products.iter().flat_map(|s| [s.node, s.scaled()]).collect();
    let heads = mixed_heads(g, held, a.key, query);
    let outer: Vec<AxisId> = outer.iter().copied().filter(|axis| !heads.contains(axis)).collect();
    let of_rows = |a: &Attention| key_loop(layouts, a, Some(query), (&outer, &heads), &made);
    let mut key_loop = of_rows(a);
    let mut beside: Vec<Beside> = (beside.iter())
        .map(|Store { node, buffer, of }| {
            let of = match of {
                StoreOf::Row => BesideOf::Row,
                StoreOf::Key(sum) => {
                    let key_loop = of_rows(&sum.attention);
                    BesideOf::Key(Box::new(KeySum { of: (**sum).clone(), key_loop }))
                }
                StoreOf::Values(a) => {
                    BesideOf::Values(Box::new(ValueSum { attention: a.clone(), key_loop: of_rows(a) }))
                }
            };
            Beside { node: *node, buffer: *buffer, of }
        })
        .collect();
    let reductions = held.iter().map(|id| row_reduction(g, *id, (a.key, query)).expect("planned as held"));
    let mut held: Vec<RowReduction> = reductions
        .map(|attention| {
            let key_loop = of_rows(&attention);
            RowReduction { attention, key_loop, leaves: Vec::new(), is_kept: true, copies: false }
        })
        .collect();
    // A running sum goes on where its scores are masked: it stops there only if nobody reads it there.
    for h in held.iter_mut().filter(|h| matches!(h.attention.normaliser, Normaliser::Running(_))) {
        let same = h.key_loop.range == key_loop.range
            && h.key_loop.mask_by_range().is_some()
            && key_loop.mask_by_range().is_some();
        if !same {
            (h.key_loop.range, h.key_loop.mask) = (KeyRange::default(), None);
        }
    }
    // What is computed once for each row is computed before anything is held.
    let ids: BTreeSet<NodeId> = held.iter().map(|h| h.attention.node).collect();
    let mut invariant: BTreeSet<NodeId> = key_loop.invariant.drain(..).collect();
    invariant.extend(held.iter_mut().flat_map(|h| h.key_loop.invariant.drain(..)));
    for beside in &mut beside {
        match &mut beside.of {
            BesideOf::Row => {}
            BesideOf::Key(sum) => invariant.extend(sum.key_loop.invariant.drain(..)),
            BesideOf::Values(sum) => invariant.extend(sum.key_loop.invariant.drain(..)),
        }
    }
    key_loop.invariant =
        invariant.into_iter().filter(|id| !layouts.reads(*id, |x| ids.contains(&x))).collect();
    let is_mixture = |h: &RowReduction| h.attention.normaliser == Normaliser::Mixture;
    let of_held = held.iter().filter(|h| !is_mixture(h)).map(|h| &h.key_loop.range);
    let of_sums = beside.iter().filter_map(Beside::member).map(|(_, key_loop)| &key_loop.range);
    let same = of_held.chain(of_sums).all(|range| *range == key_loop.range);
    let visits = if same { key_loop.range.clone() } else { KeyRange::default() };
    // Heads are mixed at every key that is visited.
    for h in held.iter_mut().filter(|h| is_mixture(h)) {
        (h.key_loop.range, h.key_loop.mask) = (visits.clone(), None);
    }
    let weights = WeightsFrom::Scores;
    let (attention, scores, tile_rows) = (a.clone(), Vec::new(), 0);
    let mut out = WholeRows { attention, scores, key_loop, held, visits, tile_rows, heads, weights, beside };
    out.tile_rows = rows_of_tile(layouts, &out, (query, products.len()));
    let itself = out.held_itself().map(WeightsFrom::Reduction);
    out.weights = itself.unwrap_or(WeightsFrom::Scores);
    leave_behind(layouts, &mut out, products);
    for at in 0..out.held.len() {
        let of = out.held[at].attention.score;
        let mut left = out.held[..at].iter().flat_map(|h| &h.leaves);
        let is_there = products.iter().any(|s| s.scaled() == of) || left.any(|l| l.node == of);
        out.held[at].copies = is_mixture(&out.held[at]) && !is_there;
    }
    for at in 0..out.held.len() {
        out.held[at].is_kept = is_kept(g, &out, (at, stored), |id| layouts.is_stored(id));
    }
    out.weights = itself.unwrap_or_else(|| weights_from(layouts, &out, products));
    out
}

/// Rows of a tile, of an attention with so many products. Those of which all heads are kept meet the keys and the values of all heads:
/// there are more of them. Where each row visits other keys, a tile computes what some of its rows do not visit: there are few.
fn rows_of_tile(layouts: &Layouts<'_>, plan: &WholeRows, (query, products): (AxisId, usize)) -> i64 {
    let (g, tiling) = (layouts.graph, layouts.options.tiling);
    let has_columns = plan.key_sums().any(|sum| sum.of.value.is_some());
    let [rows, keys] = [query, plan.attention.key].map(|axis| g.extent(axis).as_constant());
    if !plan.heads.is_empty() {
        tiling.mixed_rows
    } else if has_columns && !plan.visits.varies_along(query) {
        tiling.rows_with_sums(rows, keys, products)
    } else {
        tiling.whole_rows
    }
}

/// Whether the value of what is held at a position is kept: a running sum and a mixture are what they leave behind; a log-sum-exp is
/// kept for those that read it, beside the exponentials that it leaves behind; `stored` is the expression that the kernel stores.
pub(crate) fn is_kept(
    g: &Graph,
    plan: &WholeRows,
    (at, stored): (usize, NodeId),
    is_stored: impl Fn(NodeId) -> bool,
) -> bool {
    let own = &plan.held[at].attention;
    let is_read = || {
        let mut others = plan.beside_scores(stored).into_iter();
        reads(g, plan, at + 1..plan.members().count(), |id| id == own.node)
            || others.any(|root| reaches(g, root, |id| id == own.node, &is_stored, |_| false))
    };
    match own.normaliser {
        Normaliser::Running(_) | Normaliser::Mixture => false,
        Normaliser::Sum | Normaliser::Greatest | Normaliser::One => true,
        Normaliser::Softmax { .. } => is_read(),
    }
}

/// Where the weights come from: they take the place of a product if nobody reads that after what leaves them behind.
fn weights_from(layouts: &Layouts<'_>, plan: &WholeRows, products: &[Scores]) -> WeightsFrom {
    if ends_in_mixture(layouts.graph, plan) {
        return WeightsFrom::Held(plan.held.len() - 1);
    }
    let Some(at) = (0..plan.held.len()).find(|at| plan.is_softmax_of(*at)) else {
        return WeightsFrom::Scores;
    };
    let place = products.iter().position(|s| s.shift.is_none());
    let lies_there = |other: usize| plan.held[other].leaves.iter().any(|l| l.in_place_of == place);
    let is_free = place.is_none_or(|place| {
        let readers = at + 1..plan.count_before_weights();
        let reads_scores = reads(layouts.graph, plan, readers, |id| id == products[place].scaled());
        !reads_scores && (0..plan.held.len()).all(|other| other == at || !lies_there(other))
    });
    match plan.held[at].leaves.is_empty() {
        _ if is_free => WeightsFrom::Held(at),
        false => WeightsFrom::Copied(at),
        true => WeightsFrom::Scores,
    }
}

/// Whether some of what is computed of each row, by position, reads a node other than what is held or left behind before.
pub(crate) fn reads(
    g: &Graph,
    plan: &WholeRows,
    readers: Range<usize>,
    is_one: impl Fn(NodeId) -> bool,
) -> bool {
    let roots = plan.members().map(|(a, key_loop)| key_loop.score_in_range(a));
    roots.enumerate().take(readers.end).skip(readers.start).any(|(reader, root)| {
        let before: Vec<NodeId> = plan.held.iter().take(reader).flat_map(|h| h.left()).collect();
        let (mut seen, mut stack) = (BTreeSet::new(), vec![root]);
        while let Some(id) = stack.pop() {
            if before.contains(&id) || !seen.insert(id) {
                continue;
            }
            if is_one(id) {
                return true;
            }
            if matches!(g.op(id).class(), Class::Map | Class::View | Class::Concat) {
                stack.extend(g.args(id));
            }
        }
        false
    })
}

/// Whether the last of what is held is a mixture that gives the weights as they are, and reads no product in whose place they are
/// stored.
pub(crate) fn ends_in_mixture(g: &Graph, whole: &WholeRows) -> bool {
    let a = &whole.attention;
    let is_made = |id: NodeId| {
        let mut held = whole.held.iter();
        held.any(|h| h.attention.node == id || h.left().any(|left| left == id))
    };
    whole.held.last().is_some_and(|last| {
        let reads_product = || {
            let (mut seen, mut stack) = (BTreeSet::new(), vec![last.attention.score]);
            while let Some(id) = stack.pop() {
                if is_made(id) || !seen.insert(id) {
                    continue;
                }
                if is_matrix_product(g, id) {
                    return true;
                }
                if matches!(g.op(id).class(), Class::Map | Class::View | Class::Concat) {
                    stack.extend(g.args(id));
                }
            }
            false
        };
        last.attention.normaliser == Normaliser::Mixture
            // What is stored beside the attention may read a product after it.
            && whole.beside.is_empty()
            && last.attention.node == whole.key_loop.score_in_range(a)
            && (a.normaliser, a.value.is_some()) == (Normaliser::One, true)
            && !reads_product()
    })
}
