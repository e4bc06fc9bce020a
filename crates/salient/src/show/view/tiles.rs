//! Weights in tiles of queries and keys.

use super::{Along, Found, MOST_TILES, WeightMap, Weights};
use crate::report::error::Error;
use salient_ir::{
    AxisId, AxisSet, Bindings, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp, TypeError,
};
use salient_tile::Tiling;
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

/// The query rows that a kernel of whole rows of scores takes at once where nothing is tuned, so that maps are alike everywhere.
fn kernel_rows() -> usize {
    usize::try_from(Tiling::default().whole_rows).unwrap_or(1)
}

/// Tiles along a side of a map, at most, where the kernel of an attention sums its weights.
const MOST_TILES_BESIDE: usize = 128;

/// A copy of a graph whose attentions have tiles of queries, where their maps do.
pub(super) struct Copy<'g> {
    g: &'g Graph,
    sizes: &'g Bindings,
    made: Vec<NodeId>,
    /// The sums over tiles of queries that were made with an attention.
    sums: BTreeMap<NodeId, (NodeId, AxisId)>,
}

impl<'g> Copy<'g> {
    pub(super) fn new(g: &'g Graph, sizes: &'g Bindings) -> Copy<'g> {
        Copy { g, sizes, made: Vec::new(), sums: BTreeMap::new() }
    }

    /// The copy of a node.
    pub(super) fn of(&self, id: NodeId) -> NodeId {
        self.made[id.index()]
    }

    /// Copies the next node, and sums over tiles of queries where it is an attention whose weights are shown.
    pub(super) fn node(&mut self, b: &mut Builder, id: NodeId, found: Option<&Found>) -> Result<(), Error> {
        let g = self.g;
        let tiled = match found {
            Some(found) => self.attention(b, id, found)?,
            None => None,
        };
        let made = match tiled {
            Some(made) => made,
            None => {
                let args: Vec<NodeId> = g.args(id).iter().map(|arg| self.of(*arg)).collect();
                b.add(g.op(id).clone(), &args).expect("a node of a verified graph")
            }
        };
        b.describe(made, g.node(id).name.as_ref(), g.node(id).origin);
        self.made.push(made);
        Ok(())
    }

    /// An attention with tiles of queries around its rows, where these are whole tiles of its kernel.
    fn attention(&mut self, b: &mut Builder, id: NodeId, found: &Found) -> Result<Option<NodeId>, Error> {
        let fault = |e: TypeError| found.fault(e);
        let g = self.g;
        let queries = along(g, found.query, self.sizes)?;
        let (Some((_, op)), true) = (found.attention, queries.tile.is_multiple_of(kernel_rows())) else {
            return Ok(None);
        };
        let mut used = found.axes().union(&g.node(id).axes);
        let tiles = b.tiles(&mut used, found.query, queries).map_err(fault)?;
        let (weights, mut moved) = self.weights(b, found, &tiles).map_err(fault)?;
        // The values stand second among the arguments.
        moved.insert(1, self.of(g.args(id)[1]));
        let sum = b.summed(weights, &tiles).map_err(fault)?;
        self.sums.insert(id, (sum, tiles.tiles));
        let attention = b.add(Op::Fused(op, found.key), &moved).map_err(fault)?;
        let (row, size) = (b.iota(found.query), b.constant(Const::I64(queries.tile as i64)));
        let (tile, within) = (
            b.map(MapOp::IntDiv, &[row, size]).map_err(fault)?,
            b.map(MapOp::Mod, &[row, size]).map_err(fault)?,
        );
        let of_tile = b.at(attention, tiles.tiles, tile).map_err(fault)?;
        b.at(of_tile, tiles.within, within).map_err(fault).map(Some)
    }

    /// The weights of the queries of tiles, and the scores and sinks that they are of.
    fn weights(
        &self,
        b: &mut Builder,
        found: &Found,
        tiles: &Tiles,
    ) -> Result<(NodeId, Vec<NodeId>), TypeError> {
        let made = BTreeMap::new();
        let mut moved = Moved { b, copy: self, tiles, key: found.key, query: found.query, made };
        match found.weights {
            Weights::Of(op, scores, sink) => {
                let args = std::iter::once(scores).chain(sink).map(|arg| moved.node(arg));
                let args = args.collect::<Result<Vec<NodeId>, TypeError>>()?;
                Ok((b.add(Op::Fused(op, found.key), &args)?, args))
            }
            Weights::Value(value) => Ok((moved.node(value)?, Vec::new())),
        }
    }

    /// Adds the weights, summed over tiles where there are more positions than a map has rows or columns, to the results.
    pub(super) fn map(&self, b: &mut Builder, found: &Found) -> Result<WeightMap, Error> {
        let fault = |e: TypeError| found.fault(e);
        let (queries, keys) =
            (along(self.g, found.query, self.sizes)?, along(self.g, found.key, self.sizes)?);
        let mut used = found.axes();
        let beside = found.attention.and_then(|(node, _)| self.sums.get(&node).copied());
        let (mut node, query) = match beside {
            Some(made) => made,
            None if queries.tile > 1 => {
                let tiles = b.tiles(&mut used, found.query, queries).map_err(fault)?;
                let weights = self.weights(b, found, &tiles).map_err(fault)?.0;
                (b.summed(weights, &tiles).map_err(fault)?, tiles.tiles)
            }
            None => (self.whole(b, found).map_err(fault)?, found.query),
        };
        used.insert(query);
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
        let node = b.number(node).map_err(fault)?;
        let axes: Vec<AxisId> = found.others.iter().copied().chain([query, key]).collect();
        b.output(&output, &axes, node).map_err(fault)?;
        Ok(WeightMap { name: found.name.clone(), output, queries, keys })
    }

    /// All weights.
    fn whole(&self, b: &mut Builder, found: &Found) -> Result<NodeId, TypeError> {
        match found.weights {
            Weights::Value(value) => Ok(self.of(value)),
            Weights::Of(op, scores, sink) => {
                let args: Vec<NodeId> = std::iter::once(scores).chain(sink).map(|arg| self.of(arg)).collect();
                b.add(Op::Fused(op, found.key), &args)
            }
        }
    }
}

impl Found {
    fn fault(&self, e: TypeError) -> Error {
        Error::Code(format!("the weights of {} cannot be shown: {e}", self.name))
    }

    /// The axes of the weights.
    fn axes(&self) -> AxisSet {
        self.others.iter().copied().chain([self.query, self.key]).collect()
    }
}

/// How the positions of an axis go into a map.
fn along(g: &Graph, axis: AxisId, sizes: &Bindings) -> Result<Along, Error> {
    let extent = g.extent(axis);
    let length = extent.eval(sizes).ok().and_then(|n| usize::try_from(n).ok());
    let positions =
        length.ok_or_else(|| Error::Code(format!("the length {extent} of an axis of a map is not known")))?;
    let least = positions.div_ceil(MOST_TILES).max(1);
    // Long tiles are as many rows as the kernel of an attention takes at once, or a multiple of that: it then sums them itself.
    let tile = if least < kernel_rows() / 3 {
        least
    } else {
        positions.div_ceil(MOST_TILES_BESIDE).next_multiple_of(kernel_rows())
    };
    Ok(Along { positions, tile })
}

/// What is added to a graph for tiles.
trait InTiles {
    fn tiles(&mut self, used: &mut AxisSet, axis: AxisId, along: Along) -> Result<Tiles, TypeError>;
    fn summed(&mut self, weights: NodeId, tiles: &Tiles) -> Result<NodeId, TypeError>;
    fn number(&mut self, value: NodeId) -> Result<NodeId, TypeError>;
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
        let weights = self.number(weights)?;
        let weights = match tiles.is_own {
            Some(is_own) => {
                let zero = self.constant(Const::f32(0.0));
                self.map(MapOp::Select, &[is_own, weights, zero])?
            }
            None => weights,
        };
        self.reduce(ReduceOp::Sum, tiles.within, weights)
    }

    /// A value as a number.
    fn number(&mut self, value: NodeId) -> Result<NodeId, TypeError> {
        if self.node(value).dtype == DType::F32 { Ok(value) } else { self.map(MapOp::ToF32, &[value]) }
    }
}

/// Scores of the queries of tiles: what depends on queries and keys is made anew, what depends on queries alone is read.
struct Moved<'b, 'g> {
    b: &'b mut Builder,
    copy: &'b Copy<'g>,
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
        let g = self.copy.g;
        let axes = &g.node(id).axes;
        let is_made_anew = matches!(g.op(id), Op::Map(_) | Op::Reduce(..) | Op::At(_) | Op::Fused(..));
        let made = if !axes.contains(self.query) {
            self.copy.of(id)
        } else if *g.op(id) == Op::Iota(self.query) {
            self.tiles.index
        } else if axes.contains(self.key) && is_made_anew {
            let args = g.args(id);
            let mut moved = Vec::new();
            for (at, arg) in args.iter().enumerate() {
                // The tensor that is read at an index along the axis of the queries has an axis of its own there.
                let is_bound = at == 0 && *g.op(id) == Op::At(self.query);
                moved.push(if is_bound { self.copy.of(*arg) } else { self.node(*arg)? });
            }
            self.b.add(g.op(id).clone(), &moved)?
        } else if matches!(g.op(id), Op::Map(_)) && g.node(id).dtype != DType::F32 {
            let args = g.args(id).into_iter().map(|arg| self.node(arg)).collect::<Result<Vec<_>, _>>()?;
            self.b.add(g.op(id).clone(), &args)?
        } else {
            let whole = self.copy.of(id);
            self.b.at(whole, self.query, self.tiles.index)?
        };
        self.made.insert(id, made);
        Ok(made)
    }
}
