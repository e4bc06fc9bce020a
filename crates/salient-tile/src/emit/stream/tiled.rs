//! Attention kernels: a softmax over keys in one pass, with the sum over values, and no row of weights in memory.
//!
//! For a tile of query rows the keys are visited tile by tile (Milakov and Gimelshein, "Online normalizer calculation
//! for softmax", 2018; Dao et al., "FlashAttention", 2022): scores by a product into scratch memory, then whatever the
//! graph says of them element by element, a running maximum and sum for each row, and the product with the values added
//! to what earlier tiles gave. Tiles that an index mask excludes are not visited; tiles that it includes whole are not
//! masked. Keys are packed before, once for all tiles of rows.

use crate::dims::{LANE, ceil_div, n, var};
use crate::emit::gemm::{Operands, set_by_width, tiles};
use crate::emit::maker::{Maker, Target, for_loop, let_dim, let_min};
use crate::emit::pack::{Span, copy_across};
use crate::emit::stream::beside::RowPart;
use crate::emit::stream::phase::{Making, finish_row, of_rows, store_row, stream};
use crate::emit::stream::row_tile::RowTile;
use crate::emit::stream::softmax::{RowState, ScoreTile};
use crate::emit::strip::Scope;
use crate::index::{AxisValue, Env};
use crate::plan::attention::key_loop::KeyLoop;
use crate::plan::attention::{Attention, Scores};
use crate::plan::layouts::panels::{Edge, peel_keys};
use crate::plan::layouts::stored;
use crate::plan::{PackedScores, Tiled};
use crate::program::kernel::{Base, Kernel, Kind, Stmt};
use salient_ir::{AxisId, AxisSet, Dim, Symbol};
use salient_vector::body::Elem;
use salient_vector::tile::Zeros;
use std::collections::BTreeSet;

/// Rows of an attention along its query axis, in blocks that are the items of a kernel.
pub(crate) struct RowBlock {
    /// What every axis stands for: the row a variable, the key the lane.
    pub(crate) env: Env,
    pub(crate) row: Symbol,
    /// The range of the row variable.
    pub(crate) first: Dim,
    pub(crate) last: Dim,
    /// The most rows of a block.
    most_rows: Dim,
    /// The part of the rows that an item has, if it has several tiles of them.
    pub(crate) part: Option<RowPart>,
    /// What binds the first row and the end.
    bounds: Vec<Stmt>,
}

impl RowBlock {
    /// The rows as a tile that meets all keys.
    pub(crate) fn tile<'t>(
        &'t self,
        scope: &Scope<'_>,
        attention: &'t Attention,
        scores: &'t [Scores],
        key_loop: &'t KeyLoop,
    ) -> RowTile<'t> {
        let tiling = scope.options.tiling;
        RowTile {
            attention,
            env: &self.env,
            shape: tiling.tile(),
            row: &self.row,
            first: self.first.clone(),
            last: self.last.clone(),
            most_rows: self.most_rows.clone(),
            keys: (n(0), scope.graph.extent(attention.key).clone()),
            tile: key_loop.tile_keys(tiling),
            few: false,
            scores,
            key_loop,
        }
    }

    /// A block for the tile of an item, or for each tile of its part, and what comes before and after those.
    pub(crate) fn tiles(
        &self,
        m: &mut Maker<'_, '_>,
        [before, after]: [Vec<Stmt>; 2],
        block: Vec<Stmt>,
    ) -> Vec<Stmt> {
        let block = self.bounds.iter().cloned().chain(block).collect();
        let tiles = match &self.part {
            None => block,
            Some(part) => part.each_tile(m, block),
        };
        before.into_iter().chain(tiles).chain(after).collect()
    }

    /// The end of every row: what has come of it goes to its place.
    pub(crate) fn store(
        &self,
        m: &mut Maker<'_, '_>,
        target: Target<'_>,
        a: &Attention,
        state: RowState,
        context: (Base, &Dim),
    ) -> Vec<Stmt> {
        let zero = n(0);
        let place = ScoreTile { row: &self.row, first: &self.first, key: &zero, count: &zero };
        let each_row = |block| for_loop(&self.row, self.first.clone(), self.last.clone(), n(1), block);
        let Some((query, width)) = self.lies_by_columns(target, a) else {
            return vec![each_row(store_row(m, target, a, &self.env, place, state, context))];
        };
        let finish = finish_row(m, a, place, &state, context).map(|finish| each_row(vec![finish]));
        let before = m.scope.stored.insert(a.node, of_rows(a, &self.first, state, context));
        let mut env = self.env.clone();
        env.retain(|axis, _| ![a.key, query, width].contains(axis));
        let count = m.scope.graph.extent(width).clone();
        let over_width = Span { axis: Some(width), from: n(0), count };
        let over_rows = Span { axis: Some(query), from: self.first.clone(), count: &self.last - &self.first };
        let to = stored(target.id, target.buffer);
        let copy = copy_across(m, a.node, &env, &over_width, &over_rows, &to);
        m.scope.forget(a.node, before);
        m.scope.inlined.insert(a.node);
        finish.into_iter().chain([copy]).collect()
    }

    /// The axes of the rows and of the columns of a result of which nothing else is made, where the rows of a column lie one after the
    /// other: then tiles are written by squares.
    fn lies_by_columns(&self, target: Target<'_>, a: &Attention) -> Option<(AxisId, AxisId)> {
        let (query, width) = (a.query?, a.width?);
        let is_row = matches!(self.env.get(&query), Some(AxisValue::Poly(at)) if *at == var(&self.row));
        let is_last = target.buffer.axes.last() == Some(&query);
        (target.node == a.node && is_row && is_last && target.buffer.elem() == Elem::F32)
            .then_some((query, width))
    }
}

/// Begins a kernel over blocks of so many rows, of which each has all of these heads; an item has one, or if the rows go in
/// `parts` as many as there are in one.
pub(crate) fn row_block(
    m: &mut Maker<'_, '_>,
    target: Target<'_>,
    a: &Attention,
    (tile_rows, parts): (&Dim, Option<Dim>),
    heads: &BTreeSet<AxisId>,
) -> RowBlock {
    let (g, mut env) = (m.scope.graph, Env::new());
    let inner: AxisSet = a.query.into_iter().chain(a.width).chain(heads.iter().copied()).collect();
    for head in heads {
        let extent = g.extent(*head).clone();
        let index = m.variable(&m.axis_name(*head), &extent);
        env.insert(*head, AxisValue::Poly(var(&index)));
    }
    let outer = target.buffer.axes.iter().copied().filter(|x| !inner.contains(*x));
    m.outer_axes(outer, &mut env);
    let one = n(1);
    let rows = a.query.map_or(one.clone(), |x| g.extent(x).clone());
    let tiles = ceil_div(&rows, tile_rows);
    let part = parts.map(|parts| RowPart::of_item(m, (tiles.clone(), parts)));
    let block = part.as_ref().map_or_else(|| m.outer("block", &tiles), RowPart::tile);
    let (first, last) = (m.variable("first", &rows), m.variable("last", &(&rows + &one)));
    let row_name = a.query.map_or_else(|| "row".into(), |x| m.axis_name(x));
    let row = m.variable(&row_name, &rows);
    if let Some(query) = a.query {
        env.insert(query, AxisValue::Poly(var(&row)));
    }
    env.insert(a.key, AxisValue::Poly(var(&LANE)));
    m.scope.ranges.insert(&LANE, g.extent(a.key));
    let bounds =
        vec![let_dim(&first, &block * tile_rows), let_min(&last, vec![rows, &var(&first) + tile_rows])];
    RowBlock { env, row, first: var(&first), last: var(&last), most_rows: tile_rows.clone(), part, bounds }
}

/// Scores of a block of rows from packed keys.
pub(crate) fn packed_product(
    m: &mut Maker<'_, '_>,
    tile: &RowTile<'_>,
    t: &Making<'_>,
    planned: &[PackedScores],
) -> Vec<Stmt> {
    let (s, panels) = (t.scores, &planned[t.at].keys);
    let column = m.variable("column", m.scope.graph.extent(s.key_axis));
    let at = var(&column);
    let (env, ranges) = s.packing(m.scope.graph, &m.scope.ranges);
    let keys_env = peel_keys(m.scope.graph, &ranges, s.key, s.key_axis, &env).env;
    let panel = at.floor_div(t.panel).expect("a panel has columns");
    let place = panels.at(m.scope.graph, &keys_env, &panel, t.panel);
    let operands = Operands {
        left: (t.queries, &n(0), t.depth),
        left_step: None,
        panel: (panels.base(), &place),
        panel_row: None,
        depth: t.depth,
        dest: (t.out.0, &(&(&at - t.keys.0) + t.out.1), t.row),
        factors: None,
        ahead: None,
    };
    let rows = (&tile.first, &tile.last);
    let block = match tile.key_loop.key_edge {
        Edge::Whole => tiles(m, tile.shape, Zeros::Multiply, rows, &operands),
        Edge::Narrow => {
            let left = t.keys.1 - &at;
            set_by_width(m, tile.shape, Zeros::Multiply, rows, &operands, (&left, t.panel))
        }
    };
    vec![for_loop(&column, t.keys.0.clone(), t.keys.1.clone(), t.panel.clone(), block)]
}

/// The kernel that stores `target.node`, an expression of an attention over the axes of its result: rows in tiles over packed
/// keys.
pub(crate) fn tiled(scope: &mut Scope<'_>, target: Target<'_>, plan: &Tiled) -> Kernel {
    let a = &plan.attention;
    let mut m = Maker::planned(scope, target, Kind::Attention);
    let rows = n(plan.tile_rows);
    let block = row_block(&mut m, target, a, (&rows, None), &BTreeSet::new());
    let scores = match a.query {
        Some(_) => m.scope.find_scores(a.score, &block.env, &block.row),
        None => Vec::new(),
    };
    let planned = plan.scores.iter().map(|s| s.product);
    assert!(scores.iter().map(|s| s.node).eq(planned), "the products inside scores are those of the plan");
    let tile = block.tile(m.scope, a, &scores, &plan.key_loop);
    let mut make = |m: &mut Maker<'_, '_>, t: &Making<'_>| packed_product(m, &tile, t, &plan.scores);
    let streamed = stream(&mut m, &tile, &mut make);
    let mut stmts = streamed.stmts;
    let context = (streamed.context, &streamed.context_row);
    stmts.extend(block.store(&mut m, target, a, streamed.softmax.state(), context));
    let stmts = block.tiles(&mut m, [Vec::new(), Vec::new()], stmts);
    m.finish(stmts, target.node, target.id)
}
