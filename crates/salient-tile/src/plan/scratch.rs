//! Scratch memory of each kernel: what a thread works in beside what the kernel reads and stores.

use super::{Anchor, Gemm, MapOrder, Options, Part};
use crate::dims::{LANES, ceil_div, n, var};
use crate::plan::attention::Attention;
use crate::plan::attention::beside::KeySum;
use crate::plan::attention::key_loop::{KeyLoop, NanCheck, ValueForm};
use crate::plan::attention::whole_rows::{Leaves, WeightsBeside, WholeRows};
use crate::plan::{COLUMNS_OF_MAP, STRIP_OF_COLUMNS, STRIP_OF_INDICES};
use crate::program::kernel::Scratch;
use salient_ir::quantised::BLOCK;
use salient_ir::{AxisId, Dim, Graph, NodeId, Op};
use salient_vector::tile::LINE;

/// The most rows that are multiplied with codes as they are. For more, a panel is widened once for all of them.
pub(crate) const FEW_CODED_ROWS: i64 = 4;

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The sums of a block of a GEMM.
    Sums,
    /// Few rows in the form in which they are multiplied with codes.
    Spread,
    /// The sums of the blocks of these rows.
    Totals,
    /// A panel of codes, widened.
    Wide,
    /// A loop-invariant part of scores.
    LoopInvariant,
    /// Queries of a tile, packed.
    Queries,
    /// Scores of a tile, which become weights.
    Scores,
    /// Weights where no product makes the scores.
    Weights,
    /// As many columns as there are lanes of what is computed along its columns, one behind the other.
    Square,
    /// A reduction of each row.
    Held,
    /// Sums over the rows of a part, for each key.
    KeySums,
    /// The weights of sums of values beside an attention, for the rows of a tile.
    RowWeights,
    /// The values of these rows.
    RowValues,
    /// The coefficients of a mixture of heads.
    Coefficients,
    /// What is mixed, of one row.
    Mixed,
    /// The greatest score of each row so far.
    Max,
    /// The greatest score of each row in the newest tile.
    Newest,
    /// What is subtracted from the scores of each row.
    Shift,
    /// The sum of the weights of each row.
    Sum,
    /// What earlier results of each row are multiplied by, or its exponentials.
    Factor,
    /// Weighted sums of values.
    Context,
    /// Values of a tile, packed.
    Values,
    /// Whether a value or a sum is NaN or infinite, and whether a tile skips weights of zero.
    NotFinite,
    /// What a probe of the mask finds.
    Probe,
    /// What each part of the keys is multiplied by.
    Factors,
    /// At which position each term is added.
    Indices,
}

impl Slot {
    /// Its name in dumps.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Slot::Sums => "sums",
            Slot::Spread => "spread",
            Slot::Totals => "totals",
            Slot::Wide => "wide",
            Slot::LoopInvariant => "fixed",
            Slot::Queries => "queries",
            Slot::Scores => "scores",
            Slot::Weights => "weights",
            Slot::Square => "square",
            Slot::Held => "held",
            Slot::KeySums => "key_sums",
            Slot::RowWeights => "row_weights",
            Slot::RowValues => "row_values",
            Slot::Coefficients => "coefficients",
            Slot::Mixed => "mixed",
            Slot::Max => "max",
            Slot::Newest => "newest",
            Slot::Shift => "shift",
            Slot::Sum => "sum",
            Slot::Factor => "factor",
            Slot::Context => "context",
            Slot::Values => "values",
            Slot::NotFinite => "not_finite",
            Slot::Probe => "kept",
            Slot::Factors => "factors",
            Slot::Indices => "indices",
        }
    }
}

/// The slots of a kernel, in the order in which its loops ask for them.
pub(crate) fn scratch(g: &Graph, options: Options<'_>, node: NodeId, anchor: &Anchor) -> Vec<Scratch> {
    let tiling = options.tiling;
    match anchor {
        Anchor::Gemm(gemm) => of_gemm(g, options, gemm),
        Anchor::Tiled(tiled) => {
            let tile = Tile {
                attention: &tiled.attention,
                products: tiled.scores.iter().map(|s| s.product).collect(),
                key_loop: &tiled.key_loop,
                rows: n(tiled.tile_rows),
                widths: TileWidths::new(g, options, &tiled.attention, tiled.key_loop.tile_keys(tiling)),
            };
            tile.scratch(g)
        }
        Anchor::WholeRows(whole) => of_whole_rows(g, options, whole),
        Anchor::SplitKv(split) => {
            let tile = Tile {
                attention: &split.attention,
                products: split.products.clone(),
                key_loop: &split.key_loop,
                rows: split.tile_rows().clone(),
                widths: TileWidths::new(g, options, &split.attention, tiling.few_keys),
            };
            tile.scratch(g)
        }
        Anchor::Merge(split) => {
            let mut out = vec![
                slot(Slot::Context, split.parts.width()),
                slot(Slot::Factors, split.parts.count.clone()),
            ];
            out.extend(state(&n(1)));
            out
        }
        Anchor::SumParts(of) => vec![slot(Slot::Sum, g.extent(of.width.unwrap_or(of.axis)).clone())],
        Anchor::Scatter(_) => vec![slot(Slot::Indices, n(STRIP_OF_INDICES))],
        Anchor::Beside(_) => Vec::new(),
        Anchor::Map(order) | Anchor::Append(Part { order, .. }) => match order {
            MapOrder::Squares { computed: true, .. } => vec![square(&n(COLUMNS_OF_MAP))],
            MapOrder::Squares { computed: false, .. } | MapOrder::Rows => Vec::new(),
        },
        Anchor::Rows { .. } | Anchor::Reduction { .. } => Vec::new(),
        Anchor::Columns { .. } if matches!(g.op(node), Op::Fused(..)) => {
            [Slot::Shift, Slot::Sum].map(|state| slot(state, n(STRIP_OF_COLUMNS))).to_vec()
        }
        Anchor::Columns { .. } | Anchor::Pack(_) | Anchor::Alias(_) => Vec::new(),
    }
}

/// As many rows of so many elements as there are lanes.
fn square(row: &Dim) -> Scratch {
    slot(Slot::Square, row * &var(&LANES))
}

fn slot(slot: Slot, count: Dim) -> Scratch {
    Scratch { name: slot.name().to_owned(), count }
}

/// The sums of a block; of a right operand in codes, few rows as they are multiplied with codes, and a panel widened for many.
fn of_gemm(g: &Graph, options: Options<'_>, gemm: &Gemm) -> Vec<Scratch> {
    let tiling = options.tiling;
    let mut out = vec![slot(Slot::Sums, &n(tiling.product_rows) * &tiling.group_width())];
    if gemm.panels.coding.is_some() {
        let depth = g.extent(gemm.contraction.depth);
        let blocks = depth.floor_div(&n(BLOCK as i64)).expect("a block has elements");
        out.push(slot(Slot::Spread, &n(FEW_CODED_ROWS) * depth));
        out.push(slot(Slot::Totals, &n(FEW_CODED_ROWS) * &blocks));
        out.push(slot(Slot::Wide, depth * &tiling.panel_width()));
    }
    out
}

/// Adds the slots of a further kernel to those of kernels that run as one, which share slots of one kind and size: where each is.
pub(crate) fn share(all: &mut Vec<Scratch>, further: &[Scratch]) -> Vec<usize> {
    let mut free: Vec<bool> = vec![true; all.len()];
    let mut place = |slot: &Scratch| {
        let same = |known: &Scratch| known.name == slot.name && known.count == slot.count;
        let known = all.iter().zip(&free).position(|(known, free)| *free && same(known));
        let at = known.unwrap_or_else(|| {
            all.push(slot.clone());
            free.push(true);
            all.len() - 1
        });
        free[at] = false;
        at
    };
    further.iter().map(&mut place).collect()
}

/// The running softmax of so many rows.
fn state(rows: &Dim) -> impl Iterator<Item = Scratch> {
    [Slot::Max, Slot::Newest, Slot::Shift, Slot::Sum, Slot::Factor]
        .into_iter()
        .map(|at| slot(at, rows.clone()))
}

/// How long the rows of an attention's scratch memory are. They hold whole panels, so that register tiles need no edges.
pub(crate) struct TileWidths {
    /// How wide the values are, and in how many panels.
    pub(crate) values: Dim,
    pub(crate) panels: Dim,
    /// The columns of a panel, the elements of a row of scores, and those of a row of weighted sums.
    pub(crate) panel: Dim,
    pub(crate) scores: Dim,
    pub(crate) context: Dim,
}

impl TileWidths {
    /// Those of a tile of so many keys.
    pub(crate) fn new(g: &Graph, options: Options<'_>, a: &Attention, keys: i64) -> TileWidths {
        let values = a.width.map_or(n(1), |axis| g.extent(axis).clone());
        let panel = options.tiling.panel_width();
        let (scores, context) = (padded(options, &n(keys)), padded(options, &values));
        TileWidths { panels: ceil_div(&values, &panel), values, panel, scores, context }
    }
}

/// Elements between the rows of scores that are kept for all keys, of which there are so many: whole panels, and one line more, so
/// that rows do not fall into the same sets of a cache.
pub(crate) fn whole_row(options: Options<'_>, keys: &Dim) -> Dim {
    let panel = options.tiling.panel_width();
    &(&ceil_div(keys, &panel) * &panel) + &n(i64::from(LINE))
}

/// Elements between the rows of a product of which each row of a tile reads another part of the columns: those of the keys, one
/// column further for each row, from where a panel begins.
pub(crate) fn band_row(options: Options<'_>, keys: &Dim, rows: &Dim) -> Dim {
    let panel = options.tiling.panel_width();
    whole_row(options, &(&(keys + rows) + &panel))
}

/// Of each product the packed queries and the scores of all keys; what is held of each row; exponentials that have no product to
/// take the place of; the state of the weights.
fn of_whole_rows(g: &Graph, options: Options<'_>, whole: &WholeRows) -> Vec<Scratch> {
    let (a, key_loop) = (&whole.attention, &whole.key_loop);
    let rows = n(whole.tile_rows);
    let of_row = whole_row(options, g.extent(a.key));
    let scores = &rows * &of_row;
    let w = TileWidths::new(g, options, a, key_loop.tile_keys(options.tiling));
    let mut out: Vec<Scratch> = Vec::new();
    for node in &key_loop.invariant {
        out.push(slot(Slot::LoopInvariant, if key_loop.is_by_row(g, *node) { rows.clone() } else { n(1) }));
    }
    for s in &whole.scores {
        let depth = g.op(s.product).bound().map_or_else(|| n(1), |axis| g.extent(axis).clone());
        let own = if s.is_band { &rows * &band_row(options, g.extent(a.key), &rows) } else { scores.clone() };
        let own = &own * &whole.count_of_heads(g, s.product);
        out.extend([slot(Slot::Queries, &rows * &depth), slot(Slot::Scores, own)]);
    }
    for (at, held) in whole.held.iter().enumerate() {
        let leaves: &[Leaves] = if whole.is_weights(at) { &[] } else { &held.leaves };
        out.extend(of_held(g, (&rows, &of_row), whole, (at, leaves)));
    }
    let heads = whole.count_of_heads(g, a.score);
    if whole.weights_in_place_of(g).is_none() {
        out.push(slot(Slot::Weights, &scores * &heads));
    }
    for (at, beside) in whole.beside.iter().enumerate() {
        if let (Some((of, _)), Some(WeightsBeside::Own)) = (beside.weighted(), whole.weights_beside(g, at)) {
            out.push(slot(Slot::RowWeights, &scores * &whole.count_of_heads(g, of.score)));
        }
    }
    for sum in whole.key_sums() {
        out.extend(of_key_sum(g, options, (&rows, &whole.count_of_heads(g, sum.of.node())), sum));
    }
    out.extend([Slot::Max, Slot::Sum].map(|at| slot(at, &rows * &heads)));
    out.push(slot(Slot::Context, &rows * &w.context));
    if a.value.is_some() {
        out.extend(of_values(&w, key_loop));
    }
    for sum in whole.value_sums() {
        let w = TileWidths::new(g, options, &sum.attention, sum.key_loop.tile_keys(options.tiling));
        out.push(slot(Slot::Context, &rows * &w.context));
        out.extend(of_values(&w, &sum.key_loop));
    }
    out
}

/// The values of a tile of keys, and whether one of the sums is not finite if that is looked at.
fn of_values(w: &TileWidths, key_loop: &KeyLoop) -> Vec<Scratch> {
    let is_looked_at = key_loop.nan_check != NanCheck::Never;
    [values(w, key_loop)].into_iter().chain(is_looked_at.then(|| slot(Slot::NotFinite, n(1)))).collect()
}

/// The sums over rows of so many heads for each key or each distance; of those with values the values of the rows of a tile of a head, and
/// whether one of these is not finite.
fn of_key_sum(g: &Graph, options: Options<'_>, (rows, heads): (&Dim, &Dim), sum: &KeySum) -> Vec<Scratch> {
    let of_head = g.extent(sum.of.axis());
    let keys = of_head * heads;
    let Some(width) = sum.of.width() else { return vec![slot(Slot::KeySums, keys)] };
    let columns = padded(options, g.extent(width));
    let sums = slot(Slot::KeySums, &keys * &columns);
    vec![sums, slot(Slot::RowValues, rows * &columns), slot(Slot::NotFinite, n(1))]
}

/// So many columns in whole panels.
pub(crate) fn padded(options: Options<'_>, columns: &Dim) -> Dim {
    let panel = options.tiling.panel_width();
    &ceil_div(columns, &panel) * &panel
}

/// What is held of each row; the coefficients of a mixture and what it mixes; what is left behind for the keys of a row.
fn of_held(
    g: &Graph,
    (rows, row): (&Dim, &Dim),
    whole: &WholeRows,
    (at, leaves): (usize, &[Leaves]),
) -> Vec<Scratch> {
    let held = &whole.held[at];
    let heads = |node: NodeId| whole.count_of_heads(g, node);
    let mut out = Vec::new();
    match whole.mixture(g, held) {
        Some(mixture) => {
            out.push(slot(Slot::Coefficients, heads(mixture.by)));
            if held.copies {
                out.push(slot(Slot::Mixed, row * g.extent(mixture.over)));
            }
        }
        None if held.is_kept => out.push(slot(Slot::Held, rows * &heads(held.attention.node))),
        None => {}
    }
    if whole.is_to_be_divided(at) {
        out.push(slot(Slot::Factor, rows.clone()));
    }
    let apart = leaves.iter().filter(|leaves| leaves.in_place_of.is_none());
    out.extend(apart.map(|leaves| slot(Slot::Weights, row * &heads(leaves.node))));
    out
}

/// Panels of values of a tile of keys. Of rows that are read as they lie at most one panel is left over.
fn values(w: &TileWidths, key_loop: &KeyLoop) -> Scratch {
    let panels = match key_loop.values {
        ValueForm::InPlace => n(1),
        ValueForm::PackedPerTile => w.panels.clone(),
    };
    slot(Slot::Values, &(&w.scores * &w.panel) * &panels)
}

/// Rows that are streamed over keys together.
struct Tile<'p> {
    attention: &'p Attention,
    products: Vec<NodeId>,
    key_loop: &'p KeyLoop,
    /// The most rows that there can be.
    rows: Dim,
    widths: TileWidths,
}

impl Tile<'_> {
    fn scratch(&self, g: &Graph) -> Vec<Scratch> {
        let (w, rows) = (&self.widths, &self.rows);
        let scores = rows * &w.scores;
        let mut out: Vec<Scratch> = Vec::new();
        for node in &self.key_loop.invariant {
            out.push(slot(
                Slot::LoopInvariant,
                if self.key_loop.is_by_row(g, *node) { rows.clone() } else { n(1) },
            ));
        }
        for product in &self.products {
            let depth = g.op(*product).bound().map_or_else(|| n(1), |axis: AxisId| g.extent(axis).clone());
            out.extend([slot(Slot::Queries, rows * &depth), slot(Slot::Scores, scores.clone())]);
        }
        // Weights take the place of the scores that they are made of.
        if self.products.is_empty() {
            out.push(slot(Slot::Weights, scores));
        }
        if self.key_loop.is_turned {
            out.push(square(rows));
        }
        out.extend(state(rows));
        out.push(slot(Slot::Context, rows * &w.context));
        if self.attention.value.is_some() {
            out.push(values(w, self.key_loop));
            if self.key_loop.nan_check != NanCheck::Never {
                out.push(slot(Slot::NotFinite, n(2)));
            }
        }
        if self.key_loop.mask.as_ref().is_some_and(|mask| mask.probe.is_some()) {
            out.push(slot(Slot::Probe, n(2)));
        }
        out
    }
}
