//! Weights in tiles of queries and keys.

use super::{Along, Found, MOST_TILES, WeightMap, Weights};
use crate::report::error::Error;
use salient_ir::{
    AxisId, AxisSet, Bindings, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp, TypeError,
};
use std::collections::BTreeMap;

/// The axes of the tiles along a side, and of the positions in a tile.
struct Tiles {
    tiles: AxisId,
    within: AxisId,
    /// The position; where a last tile is not full, its last one again.
    index: NodeId,
    /// Whether it is one of the tile's own, where that is not always so.
    is_own: Option<NodeId>,
}

/// The query rows that a kernel of whole rows of scores takes at once.
const KERNEL_ROWS: usize = 24;

/// Adds the weights, summed over tiles where there are more positions than a map has rows or columns, to the results.
pub(super) fn of(b: &mut Builder, g: &Graph, found: &Found, sizes: &Bindings) -> Result<WeightMap, Error> {
    let fault = |e: TypeError| Error::Code(format!("the weights of {} cannot be shown: {e}", found.name));
    let (queries, keys) = (along(g, found.query, sizes)?, along(g, found.key, sizes)?);
    let mut used: AxisSet = found.others.iter().copied().chain([found.query, found.key]).collect();
    let (mut node, mut query) = (None, found.query);
    if queries.tile > 1 {
        let tiles = b.tiles(&mut used, found.query, queries).map_err(fault)?;
        let made = BTreeMap::new();
        let mut moved = Moved { b: &mut *b, g, tiles: &tiles, key: found.key, query: found.query, made };
        let weights = match found.weights {
            Weights::Of(op, scores, sink) => {
                let scores = moved.node(scores).map_err(fault)?;
                let sink = sink.map(|sink| moved.node(sink)).transpose().map_err(fault)?;
                let args: Vec<NodeId> = std::iter::once(scores).chain(sink).collect();
                b.add(Op::Fused(op, found.key), &args).map_err(fault)?
            }
            Weights::Value(value) => moved.node(value).map_err(fault)?,
        };
        node = Some(b.summed(weights, &tiles).map_err(fault)?);
        query = tiles.tiles;
    }
    let mut node = match node {
        Some(node) => node,
        None => whole(b, g, found).map_err(fault)?,
    };
    let mut key = found.key;
    if keys.tile > 1 {
        let tiles = b.tiles(&mut used, found.key, keys).map_err(fault)?;
        let weights = b.at(node, found.key, tiles.index).map_err(fault)?;
        node = b.summed(weights, &tiles).map_err(fault)?;
        key = tiles.tiles;
    }
    let output = (0..).map(|n| format!("weights_{n}"));
    let is_free = |name: &String| b.outputs().iter().all(|output| *output.name != **name);
    let output = { output }.find(is_free).expect("numbers do not end");
    let node =
        if b.node(node).dtype == DType::F32 { node } else { b.map(MapOp::ToF32, &[node]).map_err(fault)? };
    let axes: Vec<AxisId> = found.others.iter().copied().chain([query, key]).collect();
    b.output(&output, &axes, node).map_err(fault)?;
    Ok(WeightMap { name: found.name.clone(), output, queries, keys })
}

/// All weights.
fn whole(b: &mut Builder, g: &Graph, found: &Found) -> Result<NodeId, TypeError> {
    match found.weights {
        Weights::Value(value) => Ok(b.copy(g, value)),
        Weights::Of(op, scores, sink) => {
            let args: Vec<NodeId> = std::iter::once(scores).chain(sink).map(|arg| b.copy(g, arg)).collect();
            b.add(Op::Fused(op, found.key), &args)
        }
    }
}

/// How the positions of an axis go into a map.
fn along(g: &Graph, axis: AxisId, sizes: &Bindings) -> Result<Along, Error> {
    let extent = g.extent(axis);
    let length = extent.eval(sizes).ok().and_then(|n| usize::try_from(n).ok());
    let positions =
        length.ok_or_else(|| Error::Code(format!("the length {extent} of an axis of a map is not known")))?;
    let least = positions.div_ceil(MOST_TILES).max(1);
    // Long tiles are as many rows as the kernel takes at once, or a multiple of that: it would compute as many anyway.
    let tile = if least < KERNEL_ROWS / 2 { least } else { least.next_multiple_of(KERNEL_ROWS) };
    Ok(Along { positions, tile })
}

/// What is added to a graph for tiles.
trait InTiles {
    fn tiles(&mut self, used: &mut AxisSet, axis: AxisId, along: Along) -> Result<Tiles, TypeError>;
    fn summed(&mut self, weights: NodeId, tiles: &Tiles) -> Result<NodeId, TypeError>;
}

impl InTiles for Builder {
    /// New axes for the positions along an axis.
    fn tiles(&mut self, used: &mut AxisSet, axis: AxisId, along: Along) -> Result<Tiles, TypeError> {
        let mut new = |b: &mut Builder, name: &str, length: usize| {
            let axis = b.axis_id(name, &Dim::constant(length as i64));
            let axis = if used.contains(axis) { b.fresh_axis(axis, used) } else { axis };
            used.insert(axis);
            axis
        };
        let (tiles, within) = (new(self, "tile", along.tiles()), new(self, "within", along.tile));
        let (number, position) = (self.iota(tiles), self.iota(within));
        let tile = self.constant(Const::I64(along.tile as i64));
        let before = self.map(MapOp::Mul, &[number, tile])?;
        let index = self.map(MapOp::Add, &[before, position])?;
        if along.positions.is_multiple_of(along.tile) {
            return Ok(Tiles { tiles, within, index, is_own: None });
        }
        let last = self.extent_of(&(self.extent(axis) - &Dim::constant(1)));
        let is_own = self.map(MapOp::Le, &[index, last])?;
        let index = self.map(MapOp::Min, &[index, last])?;
        Ok(Tiles { tiles, within, index, is_own: Some(is_own) })
    }

    /// The sum over the positions of each tile.
    fn summed(&mut self, weights: NodeId, tiles: &Tiles) -> Result<NodeId, TypeError> {
        let is_number = self.node(weights).dtype == DType::F32;
        let weights = if is_number { weights } else { self.map(MapOp::ToF32, &[weights])? };
        let weights = match tiles.is_own {
            Some(is_own) => {
                let zero = self.constant(Const::f32(0.0));
                self.map(MapOp::Select, &[is_own, weights, zero])?
            }
            None => weights,
        };
        self.reduce(ReduceOp::Sum, tiles.within, weights)
    }
}

/// Scores of the queries of tiles: what depends on queries and keys is made anew, what depends on queries alone is read.
struct Moved<'b, 'g> {
    b: &'b mut Builder,
    g: &'g Graph,
    tiles: &'b Tiles,
    key: AxisId,
    query: AxisId,
    made: BTreeMap<NodeId, NodeId>,
}

impl Moved<'_, '_> {
    fn node(&mut self, id: NodeId) -> Result<NodeId, TypeError> {
        if let Some(made) = self.made.get(&id) {
            return Ok(*made);
        }
        let g = self.g;
        let axes = &g.node(id).axes;
        let is_made_anew = matches!(g.op(id), Op::Map(_) | Op::Reduce(..) | Op::At(_) | Op::Fused(..));
        let made = if !axes.contains(self.query) {
            self.b.copy(g, id)
        } else if *g.op(id) == Op::Iota(self.query) {
            self.tiles.index
        } else if axes.contains(self.key) && is_made_anew {
            let args = g.args(id);
            let mut moved = Vec::new();
            for (at, arg) in args.iter().enumerate() {
                // The tensor that is read at an index along the axis of the queries has an axis of its own there.
                let is_bound = at == 0 && *g.op(id) == Op::At(self.query);
                moved.push(if is_bound { self.b.copy(g, *arg) } else { self.node(*arg)? });
            }
            self.b.add(g.op(id).clone(), &moved)?
        } else if matches!(g.op(id), Op::Map(_)) && g.node(id).dtype != DType::F32 {
            let args = g.args(id).into_iter().map(|arg| self.node(arg)).collect::<Result<Vec<_>, _>>()?;
            self.b.add(g.op(id).clone(), &args)?
        } else {
            let whole = self.b.copy(g, id);
            self.b.at(whole, self.query, self.tiles.index)?
        };
        self.made.insert(id, made);
        Ok(made)
    }
}
