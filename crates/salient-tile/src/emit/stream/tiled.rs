//! Attention kernels: a softmax over keys in one pass, with the sum over values, and no row of weights in memory.
//!
//! For a tile of query rows the keys are visited tile by tile (Milakov and Gimelshein, "Online normalizer calculation
//! for softmax", 2018; Dao et al., "FlashAttention", 2022): scores by a product into scratch memory, then whatever the
//! graph says of them element by element, a running maximum and sum for each row, and the product with the values added
//! to what earlier tiles gave. Tiles that an index mask excludes are not visited; tiles that it includes whole are not
//! masked. Keys are packed before, once for all tiles of rows.

use crate::dims::{LANE, ceil_div, n, var};
use crate::emit::gemm::{Operands, tiles};
use crate::emit::maker::{Maker, Target, for_loop, let_dim, let_min};
use crate::emit::stream::phase::{Making, store_row, stream};
use crate::emit::stream::row_tile::RowTile;
use crate::emit::stream::softmax::ScoreTile;
use crate::emit::strip::Scope;
use crate::index::{AxisValue, Env};
use crate::plan::Tiled;
use crate::plan::layouts::panels::peel;
use crate::program::kernel::{Kernel, Kind};
use salient_ir::{AxisId, AxisSet};
use salient_vector::tile::Zeros;

/// The kernel that stores `target.node`, an expression of an attention over the axes of its result: rows in tiles over packed
/// keys.
pub(crate) fn tiled(scope: &mut Scope<'_>, target: Target<'_>, plan: &Tiled) -> Kernel {
    let g = scope.graph;
    let (a, tiling, shape) = (&plan.attention, scope.options.tiling, scope.options.tiling.tile());
    let tile_rows = n(tiling.attention_rows);
    let mut m = Maker::planned(scope, target, Kind::Attention);
    let mut env = Env::new();
    let inner: AxisSet = a.query.into_iter().chain(a.width).collect();
    m.outer_axes(target.buffer.axes.iter().copied().filter(|x| !inner.contains(*x)), &mut env);
    let one = n(1);
    let extent = |axis: Option<AxisId>| axis.map_or(one.clone(), |x| g.extent(x).clone());
    let (rows, keys) = (extent(a.query), g.extent(a.key).clone());
    let block = m.outer("block", &ceil_div(&rows, &tile_rows));
    let (first, last) = (m.variable("first", &rows), m.variable("last", &(&rows + &one)));
    let row_name = a.query.map_or_else(|| "row".into(), |x| m.axis_name(x));
    let row = m.variable(&row_name, &rows);
    if let Some(query) = a.query {
        env.insert(query, AxisValue::Poly(var(&row)));
    }
    env.insert(a.key, AxisValue::Poly(var(&LANE)));
    m.scope.ranges.insert(&LANE, &keys);

    let scores = match a.query {
        Some(_) => m.scope.find_scores(a.score, &env, &row),
        None => Vec::new(),
    };
    let planned = plan.scores.iter().map(|s| s.product);
    assert!(scores.iter().map(|s| s.node).eq(planned), "the products inside scores are those of the plan");
    let mut stmts = vec![
        let_dim(&first, &block * &tile_rows),
        let_min(&last, vec![rows.clone(), &var(&first) + &tile_rows]),
    ];
    let tile = RowTile {
        attention: a,
        env: &env,
        shape,
        row: &row,
        first: var(&first),
        last: var(&last),
        keys: (n(0), keys.clone()),
        tile: tiling.attention_keys,
        few: false,
        scores: &scores,
        key_loop: &plan.key_loop,
    };
    let (first, last) = (&tile.first, &tile.last);
    let mut make = |m: &mut Maker<'_, '_>, t: &Making<'_>| {
        let (s, panels) = (t.scores, &plan.scores[t.at].keys);
        let column = m.variable("column", &keys);
        let at = var(&column);
        let keys_env = peel(g, &m.scope.ranges, s.key, s.key_axis, &s.env).env;
        let panel = at.floor_div(t.panel).expect("a panel has columns");
        let place = panels.at(g, &keys_env, &panel, t.panel);
        let operands = Operands {
            left: (t.queries, &n(0), t.depth),
            panel: (panels.base(), &place),
            panel_row: None,
            depth: t.depth,
            dest: (t.out, &(&at - t.keys.0), t.row),
            factors: None,
            ahead: None,
        };
        let block = tiles(m, shape, Zeros::Multiply, (first, last), &operands);
        vec![for_loop(&column, t.keys.0.clone(), t.keys.1.clone(), t.panel.clone(), block)]
    };
    let streamed = stream(&mut m, &tile, &mut make);
    stmts.extend(streamed.stmts);
    let context = (streamed.context, &streamed.context_row);
    let zero = n(0);
    let place = ScoreTile { row: &row, first, key: &zero, count: &zero };
    let finish = store_row(&mut m, target, a, &env, place, &streamed.softmax, context);
    stmts.push(for_loop(&row, first.clone(), last.clone(), one.clone(), finish));
    m.finish(stmts, target.node, target.id)
}
