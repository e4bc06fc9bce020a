//! Which pairs of a query and a key an attention visits, and which of them count, tile by tile at several lengths.

use super::Call;
use super::kernels::Kept;
use crate::compile::options::Options;
use crate::report::error::Error;
use crate::session::model::Model;
use crate::session::weights::Weights;
use salient_draw::page::{Mask, TileMap};
use salient_io::Arrays;
use salient_ir::array::Array;
use salient_ir::{AxisId, Bindings, Builder, Const, Graph, MapOp, Name, NodeId, Op};
use salient_tile::Plan;
use salient_tile::plan::text::key_spans::KeySpans;
use salient_tile::plan::text::lines::Made;
use std::collections::BTreeSet;

/// Lengths at which tiles are shown beside the call's own.
const LENGTHS: [i64; 7] = [16, 32, 64, 128, 256, 512, 1024];

/// Tiles along a side, at most.
const TILES: usize = 32;

/// Positions along a side, at most: a map looks at every pair.
const MOST_POSITIONS: i64 = 4096;

/// What is known of a mask.
enum Known {
    /// Every key counts.
    None,
    /// It follows from positions.
    OfPositions(NodeId),
    /// It follows from the inputs too.
    OfInputs(NodeId),
    /// It follows from parameters.
    OfParameters,
}

/// The masks of a plan's attentions: equal ones once.
pub(super) fn masks(
    plan: &Plan<'_>,
    kept: &Kept,
    (made, sizes): (&[Made], &Bindings),
    options: &Options,
    call: &Call<'_>,
) -> Result<Vec<Mask>, Error> {
    let g = plan.graph();
    let mut out: Vec<Mask> = Vec::new();
    let spans = plan.key_spans();
    let (first, repeated): (Vec<_>, Vec<_>) =
        spans.into_iter().partition(|of| made[of.kernel].repeats.is_none());
    for of in first {
        let known = known(g, of.score);
        let about = match known {
            Known::None => "No mask: every key counts.",
            Known::OfPositions(_) => "The mask follows from positions alone.",
            Known::OfParameters => "The mask depends on parameters: which pairs count is not shown.",
            Known::OfInputs(_) => {
                "The mask depends on inputs: which pairs count is known at the length of the call alone."
            }
        };
        let mut maps = Vec::new();
        for sizes in lengths(g, &of, sizes) {
            maps.extend(tile_map(plan, &of, &known, &sizes.0, (options, sizes.1.then_some(call)))?);
        }
        if maps.is_empty() {
            continue;
        }
        let place = kept.place[of.kernel];
        let times = 1 + repeated.iter().filter(|other| kept.place[other.kernel] == place).count();
        let unit = plan.outline().into_iter().find(|unit| unit.nodes.contains(&of.node));
        let name = unit.as_ref().map_or_else(|| made[of.kernel].name.clone(), |unit| unit.names.join(" + "));
        let keys = unit.and_then(|unit| unit.keys).unwrap_or_else(|| "all".to_owned());
        let mask = Mask { name, times, kernel: place, keys, about: about.to_owned(), maps };
        match out.iter_mut().find(|known| is_like(known, &mask)) {
            Some(known) => known.times += times,
            None => out.push(mask),
        }
    }
    Ok(out)
}

/// Whether two masks look the same.
fn is_like(one: &Mask, other: &Mask) -> bool {
    one.keys == other.keys && one.about == other.about && one.maps == other.maps
}

/// The mask of scores: a choice between a score and minus infinity.
fn known(g: &Graph, score: NodeId) -> Known {
    let is_masked = |id: NodeId| *g.op(id) == Op::Const(Const::f32(f32::NEG_INFINITY));
    let (Op::Map(MapOp::Select), args) = (g.op(score), g.args(score)) else { return Known::None };
    let [keep, yes, no] = args.as_slice() else { return Known::None };
    if !is_masked(*no) && !is_masked(*yes) {
        return Known::None;
    }
    if reads_parameter(g, *keep) {
        Known::OfParameters
    } else if g.of_inputs()[keep.index()] {
        Known::OfInputs(score)
    } else {
        Known::OfPositions(score)
    }
}

fn reads_parameter(g: &Graph, id: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        if matches!(g.op(id), Op::Param(_)) {
            return true;
        }
        if seen.insert(id) {
            stack.extend(g.args(id));
        }
    }
    false
}

/// Sizes with other lengths of the queries and keys, where one dimension is behind these, the shortest first, and whether they
/// are the call's.
fn lengths(g: &Graph, of: &KeySpans<'_>, sizes: &Bindings) -> Vec<(Bindings, bool)> {
    let mut out = vec![(sizes.clone(), true)];
    let names = |axis: AxisId| -> Vec<Name> {
        g.extent(axis).symbols().iter().filter_map(|symbol| symbol.as_dimension().cloned()).collect()
    };
    let (rows, keys) = (names(of.query), names(of.key));
    if let ([row], [key]) = (rows.as_slice(), keys.as_slice())
        && row == key
    {
        let own = sizes.get(row).copied();
        for length in LENGTHS.iter().filter(|length| Some(**length) != own) {
            let mut sizes = sizes.clone();
            sizes.insert(row.clone(), *length);
            out.push((sizes, false));
        }
        out.sort_by_key(|(sizes, _)| sizes.get(row).copied());
    }
    out
}

/// The tiles at one length; none where that is too long.
fn tile_map(
    plan: &Plan<'_>,
    of: &KeySpans<'_>,
    known: &Known,
    sizes: &Bindings,
    (options, call): (&Options, Option<&Call<'_>>),
) -> Result<Option<TileMap>, Error> {
    let g = plan.graph();
    let extent = |axis: AxisId| g.extent(axis).eval(sizes).ok().filter(|n| (1..=MOST_POSITIONS).contains(n));
    let (Some(queries), Some(keys)) = (extent(of.query), extent(of.key)) else { return Ok(None) };
    let ranges: Option<Vec<_>> = (0..queries).map(|row| plan.keys_of_row(of, row, sizes)).collect();
    let Some(ranges) = ranges else { return Ok(None) };
    let counts = match (known, call) {
        (Known::None, _) => Some(vec![true; (queries * keys) as usize]),
        (Known::OfPositions(score), _) => Some(kept_pairs(g, of, *score, (options, sizes), None)?),
        (Known::OfInputs(score), Some(call)) => {
            Some(kept_pairs(g, of, *score, (options, sizes), Some(call))?)
        }
        (Known::OfInputs(_), None) | (Known::OfParameters, _) => None,
    };
    let (queries, keys) = (queries as usize, keys as usize);
    let tile = queries.max(keys).div_ceil(TILES).next_multiple_of(4).max(4);
    let columns = keys.div_ceil(tile);
    let mut tiles = String::new();
    let (mut visited, mut kept) = (0_usize, 0_usize);
    for range in &ranges {
        visited += (range.end - range.start) as usize;
    }
    for first in (0..queries).step_by(tile) {
        for key in (0..keys).step_by(tile) {
            let (mut any, mut all) = (false, true);
            for row in first..(first + tile).min(queries) {
                for column in key..(key + tile).min(keys) {
                    let is_visited = ranges[row].contains(&(column as i64));
                    let counts = is_visited && counts.as_ref().is_none_or(|c| c[row * keys + column]);
                    any |= is_visited;
                    all &= counts && is_visited;
                    kept += usize::from(counts);
                }
            }
            tiles.push(if !any {
                '-'
            } else if all {
                '#'
            } else {
                '~'
            });
        }
    }
    let pairs = (queries * keys) as f64;
    Ok(Some(TileMap {
        queries,
        keys,
        tile,
        columns,
        tiles,
        skipped: 1.0 - visited as f64 / pairs,
        kept: counts.map(|_| kept as f64 / pairs),
    }))
}

/// For each query and key whether the pair counts, at the first place along all other axes.
fn kept_pairs(
    g: &Graph,
    of: &KeySpans<'_>,
    score: NodeId,
    (options, sizes): (&Options, &Bindings),
    call: Option<&Call<'_>>,
) -> Result<Vec<bool>, Error> {
    let fault = |e: salient_ir::TypeError| Error::Code(format!("a mask cannot be shown: {e}"));
    let is_masked = |id: NodeId| *g.op(id) == Op::Const(Const::f32(f32::NEG_INFINITY));
    let mut b = if call.is_some() { Builder::with_inputs(g) } else { Builder::with_axes(g) };
    let args = g.args(score);
    let mut keep = b.copy(g, args[0]);
    if is_masked(args[1]) {
        keep = b.map(MapOp::Not, &[keep]).map_err(fault)?;
    }
    for axis in b.node(keep).axes.clone().iter().filter(|axis| *axis != of.query && *axis != of.key) {
        let first = b.constant(Const::I64(0));
        keep = b.at(keep, axis, first).map_err(fault)?;
    }
    b.output("keep", &[of.query, of.key], keep).map_err(fault)?;
    let graph = b.finish();
    let dimensions = graph.dimensions();
    let sizes = sizes.iter().filter(|(name, _)| dimensions.contains(*name));
    let sizes: Bindings = sizes.map(|(name, length)| (name.clone(), *length)).collect();
    let model = Model::from_graph(graph, &Options { inner: Vec::new(), ..options.clone() })?;
    let none = Arrays::new();
    let inputs = call.map_or(&none, |call| call.inputs);
    let results = model.session_with(inputs, Weights::none(), &sizes)?.call(inputs)?;
    Ok(results.get("keep").and_then(Array::as_bool).map(<[bool]>::to_vec).unwrap_or_default())
}
