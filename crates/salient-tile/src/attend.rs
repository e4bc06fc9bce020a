//! Attention kernels: a softmax over keys in one pass, with the sum over values, and no row of weights in memory.
//!
//! For a tile of query rows the keys are visited tile by tile (Milakov and Gimelshein, "Online normalizer calculation
//! for softmax", 2018; Dao et al., "FlashAttention", 2022): scores by a product into scratch memory, then whatever the
//! graph says of them element by element, a running maximum and sum for each row, and the product with the values added
//! to what earlier tiles gave. Tiles that an index mask excludes are not visited; tiles that it includes whole are not
//! masked. Keys are packed before, once for all tiles of rows.

use crate::attention::{Among, Attention, find_scores, inner_products};
use crate::index::{Bound, Env};
use crate::kernel::{Buffer, Kernel, Kind, Stmt};
use crate::maker::{Maker, Target, ceil_div, for_loop, let_dim, let_min, n, var};
use crate::panels::{pack_panels, peel};
use crate::product::{Operands, tiles};
use crate::softmax::Place;
use crate::split::{Few, split};
use crate::streamed::{Making, RowTile, flops, store_row, stream};
use crate::strip::{LANE, Scope};
use salient_ir::{AxisId, AxisSet, Dim, NodeId};
use salient_vector::tile::Zeros;
use std::collections::BTreeSet;

/// The kernels that store `target.node`, an expression of the attention `a` over the axes of its result. Few rows
/// are split over keys, many are cut into tiles; where how many there are is known when it runs, both kernels are there.
pub(crate) fn attend(
    scope: &mut Scope<'_>,
    buffers: &mut Vec<Buffer>,
    target: Target<'_>,
    a: &Attention,
) -> Vec<Kernel> {
    let limit = scope.tiling.few_rows;
    let rows = a.query.map(|query| scope.graph.extent(query).clone());
    let few = rows.as_ref().map_or(Few::Never, |rows| Few::of(rows, limit));
    let kernels = if few == Few::Never { None } else { split(scope, buffers, target, a) };
    match (few, kernels, rows) {
        (Few::Always, Some(kernels), _) => kernels,
        (Few::Sometimes, Some(mut kernels), Some(rows)) => {
            let limit = n(limit);
            guard(&mut kernels, &rows, &(&limit + &n(1)));
            let mut many = tiled(scope, buffers, target, a);
            guard(&mut many, &limit, &rows);
            kernels.extend(many);
            kernels
        }
        _ => tiled(scope, buffers, target, a),
    }
}

/// Kernels that do nothing unless `left < right`.
fn guard(kernels: &mut [Kernel], left: &Dim, right: &Dim) {
    for k in kernels {
        let then = std::mem::take(&mut k.block);
        k.block = vec![Stmt::If { left: left.clone(), right: right.clone(), then, otherwise: Vec::new() }];
    }
}

/// Rows in tiles over packed keys: the kernels that pack keys, then the attention itself.
fn tiled(scope: &mut Scope<'_>, buffers: &mut Vec<Buffer>, target: Target<'_>, a: &Attention) -> Vec<Kernel> {
    let g = scope.graph;
    let (tiling, shape) = (scope.tiling, scope.tiling.tile());
    let tile_rows = n(tiling.attention_rows);
    let mut kernels = Vec::new();
    let stored_nodes: BTreeSet<NodeId> = scope.stored.keys().copied().collect();
    let is_stored = |id: NodeId| stored_nodes.contains(&id);
    let among = Among { g, defined: scope.defined, keeps_order: scope.keeps_order, is_stored: &is_stored };
    let mut key_panels = Vec::new();
    let found = a.query.map(|query| inner_products(&among, query, a.key, a.score));
    let (found, anywhere) = found.unwrap_or_default();
    for s in found {
        let keys = peel(g, &anywhere, s.key, s.key_axis, &s.env);
        let name = format!("{}.keys", target.buffer.name);
        let (kernel, panels) = pack_panels(scope, buffers, name, keys.node, keys.key, s.depth, shape.vectors);
        kernels.push(kernel);
        key_panels.push(panels);
    }
    let mut m = Maker::new(scope, &target.buffer.name, Kind::Attention);
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
        env.insert(query, Bound::Poly(var(&row)));
    }
    env.insert(a.key, Bound::Poly(var(LANE)));
    m.scope.ranges.insert(LANE, &keys);

    let scores = match a.query {
        Some(_) => find_scores(&among, &m.scope.ranges, a.score, &env, &row),
        None => Vec::new(),
    };
    let mut stmts = vec![
        let_dim(&first, &block * &tile_rows),
        let_min(&last, vec![rows.clone(), &var(&first) + &tile_rows]),
    ];
    let tile = RowTile {
        attention: a,
        env: &env,
        shape,
        axis: a.query,
        row: &row,
        first: var(&first),
        last: var(&last),
        most: tile_rows.clone(),
        keys: (n(0), keys.clone()),
        tile: tiling.attention_keys,
        few: false,
        scores: &scores,
    };
    let (first, last) = (&tile.first, &tile.last);
    let mut make = |m: &mut Maker<'_, '_>, t: &Making<'_>| {
        let (s, panels) = (t.scores, &key_panels[t.at]);
        let column = m.variable("column", &keys);
        let at = var(&column);
        let keys_env = peel(g, &m.scope.ranges, s.key, s.key_axis, &s.env).env;
        let panel = at.floor_div(t.panel).expect("a panel has columns");
        let place = panels.at(g, &keys_env, &panel, t.panel);
        m.scope.reads.insert(panels.id);
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
    let place = Place { row: &row, first, key: &zero, count: &zero };
    let finish = store_row(&mut m, target, a, &env, place, &streamed.softmax, context);
    stmts.push(for_loop(&row, first.clone(), last.clone(), one.clone(), finish));
    let flops = flops(g, target, a, scores.iter().map(|s| s.depth));
    kernels.push(m.finish(stmts, target.node, target.id, flops));
    kernels
}
