//! One pass over the keys of an attention: which keys a row visits, how its mask is applied, and what of its scores is computed
//! once for each row.

use crate::dims::n;
use crate::index::{Env, Ranges};
use crate::plan::Layouts;
use crate::plan::attention::key_range::{KeyRange, key_range, places};
use crate::plan::attention::probe::{Probe, TileAxes, probe};
use crate::plan::attention::{Attention, Normaliser};
use crate::plan::layouts::StridedRows;
use crate::plan::layouts::panels::Edge;
use crate::program::kernel::Base;
use crate::tiling::Tiling;
use salient_ir::{AxisId, Const, DType, Graph, MapOp, NodeId, Op};
use std::collections::BTreeSet;

/// What is decided of a loop over tiles of keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyLoop {
    /// The axis along which the rows of a tile lie.
    pub(crate) rows: Option<AxisId>,
    /// The keys that a row visits.
    pub(crate) range: KeyRange,
    /// The mask around the scores, where a tile that it does not touch is computed without it.
    pub(crate) mask: Option<Mask>,
    /// Loop-invariant code motion: parts of the score that no key changes and that take more than a few instructions. They are
    /// computed once for each row.
    pub(crate) invariant: Vec<NodeId>,
    pub(crate) nan_check: NanCheck,
    pub(crate) values: ValueForm,
    /// Whether the scores, of which no product is made, are computed along the rows of a tile and turned by squares: what they read lies so.
    pub(crate) is_turned: bool,
    /// How the last panel of values that are packed is multiplied.
    pub(crate) edge: Edge,
    /// How the scores of the last panel of keys are computed.
    pub(crate) key_edge: Edge,
}

/// How the values of a tile of keys are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ValueForm {
    /// Where they lie in memory, in rows that are contiguous along their width. What is left over of a row, narrower than a
    /// panel, is packed.
    InPlace,
    /// Packed in panels, tile by tile.
    PackedPerTile,
}

/// A choice between scores and the score of a key that is masked.
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    /// Where it holds the key is kept.
    pub(crate) condition: NodeId,
    /// The scores of keys that are kept.
    pub(crate) unmasked: NodeId,
    /// How a tile is known to be kept as a whole: by a probe, or else by the range, which then says all that the mask does.
    pub(crate) probe: Option<Probe>,
}

/// In which tiles weights of zero are skipped where a sum comes out as NaN or infinite. A masked key adds nothing even where its
/// value is one of these, which a weight of zero alone does not ensure: such sums are computed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NanCheck {
    /// No key is masked, or there are no values.
    Never,
    /// In tiles to which the mask is applied: without it no weight is zero.
    MaskedTiles,
    EveryTile,
}

impl KeyLoop {
    /// Whether a value differs from row to row of a tile.
    pub(crate) fn is_by_row(&self, g: &Graph, node: NodeId) -> bool {
        self.rows.is_some_and(|rows| g.node(node).axes.contains(rows))
    }

    /// Whether the mask is looked at before the scores of a tile, and looking costs little: tiles are smaller then.
    fn is_probed(&self) -> bool {
        match self.mask.as_ref().and_then(|mask| mask.probe.as_ref()) {
            Some(Probe::Sides(_) | Probe::Elements { by_row: false }) => true,
            Some(Probe::Elements { by_row: true }) | None => false,
        }
    }

    /// The most keys of a tile.
    pub(crate) fn tile_keys(&self, tiling: Tiling) -> i64 {
        if self.is_probed() { tiling.probed_keys } else { tiling.attention_keys }
    }

    /// The most rows of a tile where each is an item, as there are of every position along the axes `outer`: fewer where the tiles of
    /// one head may be all that threads can share, and where each row visits other keys.
    pub(crate) fn tile_rows(&self, layouts: &Layouts<'_>, query: Option<AxisId>, outer: &[AxisId]) -> i64 {
        let (g, tiling) = (layouts.graph, layouts.options.tiling);
        if self.is_probed() {
            return tiling.probed_rows;
        }
        let rows = query.and_then(|query| g.extent(query).as_constant());
        let mut others = outer.iter().filter(|axis| Some(**axis) != query);
        let has_others = others.any(|axis| g.extent(*axis).as_constant() != Some(1));
        let most = if has_others { tiling.attention_rows } else { tiling.rows_of_one_head(rows) };
        // What is packed for each tile is packed the more often the fewer rows one has.
        let is_packed = self.values == ValueForm::PackedPerTile;
        match rows {
            Some(rows) if !is_packed && query.is_some_and(|query| self.range.varies_along(query)) => {
                tiling.rows_of_ranges(rows).min(most)
            }
            Some(_) | None => most,
        }
    }

    /// The same over other nodes.
    pub(crate) fn moved(&self, node: &impl Fn(NodeId) -> NodeId) -> KeyLoop {
        let mask = self.mask.as_ref().map(|mask| Mask {
            condition: node(mask.condition),
            unmasked: node(mask.unmasked),
            probe: mask.probe.as_ref().map(|probe| probe.moved(node)),
        });
        KeyLoop { mask, invariant: self.invariant.iter().map(|id| node(*id)).collect(), ..self.clone() }
    }
}

/// The loop over the keys of an attention whose tiles hold rows along an axis. `outer` are the axes around a tile, `heads` those
/// that the kernel goes over for each tile, and `products` the values in the scores that are made tile by tile.
pub(crate) fn key_loop(
    layouts: &Layouts<'_>,
    a: &Attention,
    rows: Option<AxisId>,
    (outer, heads): (&[AxisId], &BTreeSet<AxisId>),
    products: &BTreeSet<NodeId>,
) -> KeyLoop {
    let g = layouts.graph;
    let axes: Vec<AxisId> = outer.iter().copied().chain(a.query).chain(rows).collect();
    let places = places(g, axes.iter().copied(), a.key);
    let invariant = invariant(layouts, a, &axes);
    let (mut range, mut mask) = (KeyRange::default(), None);
    if let Some((condition, unmasked)) = masked(g, a) {
        let reports = layouts.defined.may_report(condition);
        let (bounds, understood) = key_range(g, &places, condition, rows);
        // A mask that may report an index outside its axis is looked at as a whole.
        range = if reports { KeyRange::default() } else { bounds };
        // Scores that are stored are stored masked; a mask that reads scores of the tile is not known before they are.
        let is_early = !layouts.is_stored(a.score)
            && !reads_any(layouts, condition, &BTreeSet::new(), |id| products.contains(&id));
        let probe = (reports || !understood).then(|| probe(g, condition, TileAxes { rows, key: a.key }));
        mask = is_early.then_some(Mask { condition, unmasked, probe });
    }
    let made: BTreeSet<NodeId> = products.iter().chain(&invariant).copied().collect();
    let nan_check = nan_check(layouts, a, mask.as_ref(), &made);
    let (env, ranges) = &self::places(g, axes.iter().chain(heads).copied(), a.key);
    let in_place = a.value.is_some_and(|value| values_in_place(layouts, ranges, a, value, env).is_some());
    let values = if in_place { ValueForm::InPlace } else { ValueForm::PackedPerTile };
    let is_turned =
        products.is_empty() && rows.is_some_and(|rows| layouts.is_computed_across(a.score, rows, a.key));
    // Heads of known width may be narrower than a panel.
    let width = a.width.map_or(n(1), |axis| g.extent(axis).clone());
    let edge = match width.as_constant() {
        Some(_) => Edge::of(&width, layouts.options.tiling.tile()),
        None => Edge::Whole,
    };
    // A range ends anywhere in a panel.
    let key_edge = match range == KeyRange::default() {
        true => Edge::of(g.extent(a.key), layouts.options.tiling.tile()),
        false => Edge::Narrow,
    };
    KeyLoop { rows, range, mask, invariant, nan_check, values, is_turned, edge, key_edge }
}

/// The values as rows in memory, the axes standing for what `env` says, if they are a stored tensor, or a view of one, that is
/// contiguous along the width.
pub(crate) fn values_in_place(
    layouts: &Layouts<'_>,
    ranges: &Ranges,
    a: &Attention,
    value: NodeId,
    env: &Env,
) -> Option<StridedRows> {
    layouts.strided_rows(ranges, value, env, a.width?, a.key)
}

/// The condition of the mask around the scores and the scores without it, if there is one.
pub(crate) fn masked(g: &Graph, a: &Attention) -> Option<(NodeId, NodeId)> {
    if g.op(a.score) != &Op::Map(MapOp::Select) {
        return None;
    }
    let args = g.args(a.score);
    (g.op(args[2]) == &Op::Const(Const::f32(a.masked))).then(|| (args[0], args[1]))
}

fn nan_check(layouts: &Layouts<'_>, a: &Attention, mask: Option<&Mask>, made: &BTreeSet<NodeId>) -> NanCheck {
    if a.value.is_none() || !may_be_masked(layouts, a, a.score, made) {
        return NanCheck::Never;
    }
    let is_softmax = matches!(a.normaliser, Normaliser::Softmax { .. });
    match mask {
        Some(mask) if is_softmax || !may_be_masked(layouts, a, mask.unmasked, made) => NanCheck::MaskedTiles,
        Some(_) | None => NanCheck::EveryTile,
    }
}

/// Whether a score can be that of a masked key: where the constant occurs in it, or a stored tensor that could hold one.
fn may_be_masked(layouts: &Layouts<'_>, a: &Attention, id: NodeId, made: &BTreeSet<NodeId>) -> bool {
    let g = layouts.graph;
    reads_any(layouts, id, made, |id| match layouts.stored.get(&id) {
        Some(at) => g.node(id).dtype.is_float() && matches!(at.base, Base::Buffer(_)),
        None => *g.op(id) == Op::Const(Const::f32(a.masked)),
    })
}

/// Whether an expression has a node like that in it, above what is stored or made before.
fn reads_any(
    layouts: &Layouts<'_>,
    id: NodeId,
    made: &BTreeSet<NodeId>,
    is_one: impl Fn(NodeId) -> bool,
) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        if made.contains(&id) || !seen.insert(id) {
            continue;
        }
        if is_one(id) {
            return true;
        }
        if !layouts.is_stored(id) {
            stack.extend(layouts.graph.args(id));
        }
    }
    false
}

/// The greatest parts of a score that no key changes and that are worth computing once for each row; `axes` are those of the
/// rows and around them.
fn invariant(layouts: &Layouts<'_>, a: &Attention, axes: &[AxisId]) -> Vec<NodeId> {
    let g = layouts.graph;
    let elsewhere = read_elsewhere(layouts, a.score);
    let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![a.score]);
    while let Some(id) = stack.pop() {
        if layouts.is_stored(id) || !matches!(g.op(id), Op::Map(_)) || !seen.insert(id) {
            continue;
        }
        let is_fixed = g.node(id).axes.iter().all(|axis| axis != a.key && axes.contains(&axis));
        if !is_fixed
            || elsewhere.contains(&id)
            || g.node(id).dtype != DType::F32
            || layouts.defined.may_report(id)
        {
            stack.extend(g.args(id));
        } else if is_costly(layouts, id) {
            found.insert(id);
        }
    }
    found.into_iter().collect()
}

/// What a score reads under a view: at another place than its own, so that what is stored for the row is not its value.
fn read_elsewhere(layouts: &Layouts<'_>, score: NodeId) -> BTreeSet<NodeId> {
    let g = layouts.graph;
    let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![(score, false)]);
    while let Some((id, moved)) = stack.pop() {
        if layouts.is_stored(id) || !seen.insert((id, moved)) {
            continue;
        }
        if moved {
            found.insert(id);
        }
        let is_view =
            |n: usize| matches!(g.op(id), Op::At(_)) && n == 0 || matches!(g.op(id), Op::Concat(..));
        stack.extend(g.args(id).into_iter().enumerate().map(|(n, arg)| (arg, moved || is_view(n))));
    }
    found
}

/// Whether computing the node takes more than a few instructions.
fn is_costly(layouts: &Layouts<'_>, id: NodeId) -> bool {
    let (g, mut seen, mut stack) = (layouts.graph, BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        if layouts.is_stored(id) || !seen.insert(id) {
            continue;
        }
        if let Op::Map(op) = g.op(id)
            && op.info().additions > 1
        {
            return true;
        }
        stack.extend(g.args(id));
    }
    false
}
