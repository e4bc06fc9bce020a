//! Attention kernels: a softmax over keys in one pass, with the sum over values, and no row of weights in memory.
//!
//! For a tile of query rows the keys are visited tile by tile (Milakov and Gimelshein, "Online normalizer calculation
//! for softmax", 2018; Dao et al., "FlashAttention", 2022): scores by a product into scratch memory, then whatever the
//! graph says of them element by element, a running maximum and sum for each row, and the product with the values added
//! to what earlier tiles gave. Tiles that an index mask excludes are not visited; tiles that it includes whole are not
//! masked. Keys are packed before, once for all tiles of rows.

use crate::attention::{Attention, find_scores, inner_products};
use crate::index::{Bound, Env, Ranges};
use crate::kernel::{Arg, Base, Buffer, Int, Kernel, Kind, LANES, Stmt};
use crate::maker::{Maker, address, ceil_div, for_loop, let_dim, let_min, n, product, var};
use crate::masks::key_range;
use crate::pack::{Packed, Span, pack};
use crate::panels::{pack_panels, peel};
use crate::product::{Operands, tiles};
use crate::rows::Target;
use crate::strip::{LANE, Scope, Stored, Strip, Visit};
use crate::values::{Keys, Values, Weighted};
use salient_ir::{AxisId, AxisSet, Dim, FusedOp, Graph, NodeId, Op};
use salient_vector::tile::{Shape, Zeros};
use salient_vector::{Body, Builder, F32, math};
use std::collections::{BTreeMap, BTreeSet};

/// Query rows of a tile.
const ROWS: i64 = 64;
/// Keys of a tile, rounded up to whole panels: a tile begins where a panel does.
const KEYS: i64 = 64;

/// The state of each row of a tile, in scratch memory.
struct State {
    /// The greatest score so far.
    max: Base,
    /// The sum of exponentials so far, relative to the maximum.
    sum: Base,
    /// What the newest tile multiplies earlier results by.
    factor: Base,
    /// The exponentials of the newest tile, row by row.
    weights: Base,
    /// Elements between the rows of them: the keys of a tile.
    weights_row: Dim,
    /// The weighted sum of values so far, row by row.
    context: Base,
}

/// The kernels that store `target.node`, an expression of the attention node `node` over the axes of its result: those
/// that pack keys, then the attention itself.
pub(crate) fn attend(
    scope: &mut Scope<'_>,
    buffers: &mut Vec<Buffer>,
    target: Target<'_>,
    node: NodeId,
    a: &Attention,
    shape: Shape,
) -> Vec<Kernel> {
    let g = scope.graph;
    let mut kernels = Vec::new();
    let stored_nodes: BTreeSet<NodeId> = scope.stored.keys().copied().collect();
    let is_stored = |id: NodeId| stored_nodes.contains(&id);
    let anywhere = Ranges::default();
    let mut key_panels = Vec::new();
    for s in a.query.map(|q| inner_products(g, q, a.key, a.score, &is_stored)).unwrap_or_default() {
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
    let (rows, keys, wide) = (extent(a.query), g.extent(a.key).clone(), extent(a.width));
    let block = m.outer("block", &ceil_div(&rows, &n(ROWS)));
    let (first, last) = (m.variable("first", &rows), m.variable("last", &(&rows + &one)));
    let row_name = a.query.map_or_else(|| "row".into(), |x| m.axis_name(x));
    let row = m.variable(&row_name, &rows);
    if let Some(query) = a.query {
        env.insert(query, Bound::Poly(var(&row)));
    }
    env.insert(a.key, Bound::Poly(var(LANE)));
    m.scope.ranges.insert(LANE, &keys);

    let mut scores = Vec::new();
    if a.query.is_some() {
        find_scores(g, &m.scope.ranges, a.score, &env, &row, &is_stored, &mut scores);
    }

    let panel_width = &n(shape.vectors as i64) * &var(LANES);
    let panels = ceil_div(&wide, &panel_width);
    let padded = |columns: &Dim| &ceil_div(columns, &panel_width) * &panel_width;
    // Rows of scratch memory hold whole panels, so that register tiles need no edges.
    let (score_row, context_row) = (padded(&n(KEYS)), padded(&wide));
    let mut state = State {
        max: m.scratch("max", n(ROWS)),
        sum: m.scratch("sum", n(ROWS)),
        factor: m.scratch("factor", n(ROWS)),
        weights: m.scratch("weights", &n(ROWS) * &score_row),
        weights_row: score_row.clone(),
        context: m.scratch("context", &n(ROWS) * &context_row),
    };
    let mut stmts = Vec::new();
    let mut bound = |m: &mut Maker<'_, '_>, name: &str, value: &Dim| {
        let name = m.variable(name, &(value + &one));
        stmts.push(let_dim(&name, value.clone()));
        var(&name)
    };
    let panel_width = bound(&mut m, "width", &panel_width);
    let keys_padded = bound(&mut m, "score_row", &score_row);
    state.weights_row = keys_padded.clone();
    let context_width = bound(&mut m, "context_row", &context_row);
    stmts.push(let_dim(&first, &block * &n(ROWS)));
    stmts.push(let_min(&last, vec![rows.clone(), &var(&first) + &n(ROWS)]));
    let (first, last) = (var(&first), var(&last));
    let count = &last - &first;
    // A further score without a value is where the softmax begins: it is the greatest so far, and exp(0) is 1.
    match a.sink {
        None => {
            stmts.push(fill(&mut m, state.max, &count, f32::NEG_INFINITY));
            stmts.push(fill(&mut m, state.sum, &count, 0.0));
        }
        Some(sink) => {
            let over_rows = Span { axis: a.query, from: first.clone(), count: count.clone() };
            let once = Span { axis: None, from: n(0), count: n(1) };
            let to = Packed { base: state.max, offset: n(0), outer: n(1), inner: n(1) };
            stmts.push(pack(&mut m, "pack_sink", sink, &env, &over_rows, &once, &to));
            stmts.push(fill(&mut m, state.sum, &count, 1.0));
        }
    }
    stmts.push(fill(&mut m, state.context, &(&count * &context_width), 0.0));

    // Queries once for the tile of rows.
    let mut packed = Vec::new();
    for s in &scores {
        let depth = g.extent(s.depth).clone();
        let base = m.scratch("queries", &n(ROWS) * &depth);
        let over_rows = Span { axis: Some(s.row_axis), from: first.clone(), count: count.clone() };
        let over_depth = Span { axis: Some(s.depth), from: n(0), count: depth.clone() };
        let to = Packed { base, offset: n(0), outer: depth.clone(), inner: n(1) };
        stmts.push(pack(&mut m, "pack_query", s.query, &s.env, &over_rows, &over_depth, &to));
        let out = m.scratch("scores", &n(ROWS) * &score_row);
        packed.push((base, out, depth));
    }

    // The keys that some row of the tile keeps.
    m.scope.ranges.insert(LANE, &keys);
    let range = key_range(g, &m.scope.ranges, a.score, &env, &row, (&first, &last));
    let (first_key, begin) = (m.variable("first_key", &keys), m.variable("begin", &keys));
    let end = m.variable("end", &(&keys + &one));
    stmts.push(Stmt::Let {
        var: first_key.as_str().into(),
        value: Int::Max(std::iter::once(n(0)).chain(range.begins.iter().cloned()).collect()),
    });
    // Tiles begin where panels do.
    let whole_tiles = var(&first_key).floor_div(&keys_padded).expect("a tile has keys");
    stmts.push(let_dim(&begin, &whole_tiles * &keys_padded));
    stmts.push(let_min(&end, std::iter::once(keys.clone()).chain(range.ends.iter().cloned()).collect()));

    let (key, stop) = (m.variable("key", &keys), m.variable("stop", &(&keys + &one)));
    let (from, upto) = (var(&key), var(&stop));
    let here = &upto - &from;
    let mut tile_stmts = vec![let_min(&stop, vec![var(&end), &from + &keys_padded])];
    for ((s, panels), (queries, out, depth)) in scores.iter().zip(&key_panels).zip(&packed) {
        let column = m.variable("column", &keys);
        let at = var(&column);
        let keys_env = peel(g, &m.scope.ranges, s.key, s.key_axis, &s.env).env;
        let panel = at.floor_div(&panel_width).expect("a panel has columns");
        let place = panels.at(g, &keys_env, &panel, &panel_width);
        m.scope.reads.insert(panels.id);
        let operands = Operands {
            left: (*queries, &n(0), depth),
            panel: (panels.base(), &place),
            panel_row: None,
            depth,
            dest: (*out, &(&at - &from), &keys_padded),
            factors: None,
        };
        let block = tiles(&mut m, shape, Zeros::Multiply, (&first, &last), &operands);
        tile_stmts.push(for_loop(&column, from.clone(), upto.clone(), panel_width.clone(), block));
        // The scores as a value that expressions can read: row by row, from the tile's first key on.
        let offset = &n(0) - &(&(&first * &keys_padded) + &from);
        let strides = vec![(s.row_axis, keys_padded.clone()), (s.key_axis, n(1))];
        m.scope.stored.insert(s.node, Maker::scratch_value(*out, offset, strides));
        m.scope.inlined.insert(s.node);
    }

    // The values of the tile, and the scores to weights element by element: unmasked where the whole tile is kept.
    let tile_keys =
        Keys { first: from.clone(), count: here.clone(), row: keys_padded.clone(), most: score_row.clone() };
    let values = a.value.map(|value| {
        let wide = (&wide, &panels);
        Values::new(&mut m, a, value, &env, shape, tile_keys, &panel_width, wide, &mut stmts)
    });
    if let Some(values) = &values {
        tile_stmts.push(values.pack(&mut m, a, &env));
    }
    m.scope.ranges.insert(LANE, &keys);
    let each_row = |block: Stmt| for_loop(&row, first.clone(), last.clone(), n(1), vec![block]);
    let step =
        |m: &mut Maker<'_, '_>, score| softmax_step(m, score, &env, &row, &first, &from, &here, &state);
    let mut masked = vec![each_row(step(&mut m, a.score))];
    // A masked key adds nothing even where its value is NaN or infinite, which a weight of zero alone does not ensure.
    let watched = values.as_ref().filter(|_| may_be_masked(g, a.score, &m.scope.stored));
    let watch = watched.map(|values| (values, m.scratch("wild", n(1))));
    if let Some((values, wild)) = watch {
        masked.extend(values.find_wild(&mut m, wild));
        tile_stmts.push(fill(&mut m, wild, &n(1), 0.0));
    }
    match range.unmasked.filter(|_| !range.all_ends.is_empty() || !range.all_begins.is_empty()) {
        None => tile_stmts.extend(masked),
        Some(plain) => {
            let mut block = vec![each_row(step(&mut m, plain))];
            let ends = range.all_ends.iter().map(|e| (&upto - &one, e.clone()));
            let begins = range.all_begins.iter().map(|b| (b - &one, from.clone()));
            for (left, right) in ends.chain(begins) {
                block = vec![Stmt::If { left, right, then: block, otherwise: masked.clone() }];
            }
            tile_stmts.extend(block);
        }
    }

    // The product of the weights with the values.
    let to = Weighted {
        rows: (&first, &last),
        weights: state.weights,
        factor: state.factor,
        context: state.context,
        context_row: &context_width,
    };
    let plain = values.as_ref().map(|values| values.weigh(&mut m, Zeros::Multiply, &to)).unwrap_or_default();
    match watch {
        None => tile_stmts.extend(plain),
        Some((values, wild)) => {
            let Base::Scratch(slot) = wild else { unreachable!("a slot of scratch memory") };
            let found = m.variable("wild", &n(2));
            tile_stmts.push(Stmt::Read { var: found.as_str().into(), scratch: slot, offset: n(0) });
            let then = values.weigh(&mut m, Zeros::Skip, &to);
            let (left, right) = (n(0), var(&found));
            tile_stmts.push(Stmt::If { left, right, then, otherwise: plain });
        }
    }
    stmts.push(for_loop(&key, var(&begin), var(&end), keys_padded.clone(), tile_stmts));

    for s in &scores {
        m.scope.stored.remove(&s.node);
    }
    let finish = store_row(&mut m, target, node, a, &env, &row, &first, &context_width, &state);
    stmts.push(for_loop(&row, first, last, one.clone(), finish));
    let depths = packed.iter().fold(wide.clone(), |d, (.., depth)| &d + depth);
    let outer: Vec<Dim> =
        target.buffer.axes.iter().filter(|x| a.width != Some(**x)).map(|x| g.extent(*x).clone()).collect();
    let flops = &(&product(&outer) * &keys) * &(&depths * &n(2));
    kernels.push(m.finish(stmts, target.node, target.id, flops));
    kernels
}

/// Whether a score can be -inf: where the constant occurs in it, or a stored tensor that could hold one.
fn may_be_masked(g: &Graph, id: NodeId, stored: &BTreeMap<NodeId, Stored>) -> bool {
    if let Some(at) = stored.get(&id) {
        return g.node(id).dtype.is_float() && matches!(at.base, Base::Buffer(_));
    }
    *g.op(id) == Op::Const(salient_ir::Const::f32(f32::NEG_INFINITY))
        || g.args(id).iter().any(|a| may_be_masked(g, *a, stored))
}

/// Sets so many elements at the start of a slot.
pub(crate) fn fill(m: &mut Maker<'_, '_>, base: Base, count: &Dim, value: f32) -> Stmt {
    let mut b = Builder::new(match value {
        0.0 => "zeros",
        1.0 => "ones",
        _ => "lowest",
    });
    let to = b.output("to");
    let trip = b.int_param("n");
    let v = b.f32(value);
    b.lanes(trip, (), |b, index, ()| b.store(to.at(index), v));
    m.call(b.finish(), vec![address(base, n(0)), Arg::Int(count.clone())])
}

/// One row of a tile: scores to exponentials, and the row's running maximum and sum.
#[expect(clippy::too_many_arguments, reason = "a row of a tile is that many things")]
fn softmax_step(
    m: &mut Maker<'_, '_>,
    score: NodeId,
    env: &Env,
    row: &str,
    first: &Dim,
    key: &Dim,
    count: &Dim,
    state: &State,
) -> Stmt {
    let local = &var(row) - first;
    let written = [state.max, state.sum, state.factor, state.weights];
    let mut b = Builder::new("softmax_step");
    let mut s = Strip::new(m.scope, Visit::Lanes, key.clone(), &written);
    let trip = s.integer(&mut b, count);
    let weights = s.pointer(&mut b, state.weights, &(&local * &state.weights_row));
    let max_at = s.pointer(&mut b, state.max, &local);
    let sum_at = s.pointer(&mut b, state.sum, &local);
    let factor_at = s.pointer(&mut b, state.factor, &local);
    let low = b.f32(f32::NEG_INFINITY);
    let most = b.lanes(trip, low, |b, index, most| {
        s.enter(index);
        let v = s.f32(b, score, env);
        b.store::<F32>(weights.at(index), v);
        b.max(v, most)
    });
    s.leave();
    let most = b.hmax(most);
    let before = b.load::<F32>(max_at.at_start().one());
    let max = b.max(most, before);
    // Nothing kept so far: any shift will do, and -inf would make NaN of -inf - -inf.
    let (nothing, zero) = (b.eq(max, low), b.f32(0.0));
    let shift = b.select(nothing, zero, max);
    let drop = b.sub(before, shift);
    let factor = math::exp_nonpositive(&mut b, drop);
    let sum = b.lanes(trip, zero, |b, index, sum| {
        let v = b.load::<F32>(weights.at(index));
        let v = b.sub(v, shift);
        let e = math::exp_nonpositive(b, v);
        b.store(weights.at(index), e);
        b.add(sum, e)
    });
    let sum = b.hsum(sum);
    let total = b.load::<F32>(sum_at.at_start().one());
    let total = b.fma(total, factor, sum);
    b.store(max_at.at_start().one(), max);
    b.store(sum_at.at_start().one(), total);
    b.store(factor_at.at_start().one(), factor);
    let args = s.finish();
    m.call(b.finish(), args)
}

/// The end of a row: the weighted sum divided by the sum of weights, through whatever follows, to its place.
#[expect(clippy::too_many_arguments, reason = "a row of a tile is that many things")]
fn store_row(
    m: &mut Maker<'_, '_>,
    target: Target<'_>,
    node: NodeId,
    a: &Attention,
    env: &Env,
    row: &str,
    first: &Dim,
    context_width: &Dim,
    state: &State,
) -> Vec<Stmt> {
    let g = m.scope.graph;
    let local = &var(row) - first;
    let place = address(state.context, &local * context_width);
    let divide = match a.value {
        Some(_) => {
            let args = vec![place, Arg::Int(context_width.clone()), address(state.sum, local)];
            m.call(divide_row(a.op), args)
        }
        None => {
            let args = vec![place, address(state.max, local.clone()), address(state.sum, local)];
            m.call(log_of_row(), args)
        }
    };
    let mut env = env.clone();
    env.remove(&a.key);
    let mut strides = Vec::new();
    let mut count = n(1);
    if let Some(width) = a.width {
        env.insert(width, Bound::Poly(var(LANE)));
        strides.push((width, n(1)));
        count = g.extent(width).clone();
        m.scope.ranges.insert(LANE, &count);
    }
    let mut offset = n(0);
    if let Some(query) = a.query {
        strides.push((query, context_width.clone()));
        offset = &offset - &(first * context_width);
    }
    let before = m.scope.stored.insert(node, Maker::scratch_value(state.context, offset, strides));
    let store = crate::map::strip(m, target.node, target.id, target.buffer, &env, n(0), &count);
    match before {
        Some(stored) => m.scope.stored.insert(node, stored),
        None => m.scope.stored.remove(&node),
    };
    m.scope.inlined.insert(node);
    vec![divide, store]
}

/// `x = max + log(sum)`: where every key was masked, -inf.
fn log_of_row() -> Body {
    let mut b = Builder::new("log_of_row");
    let x = b.output("x");
    let (max, sum) = (b.input("max"), b.input("sum"));
    let max = b.load::<F32>(max.at_start().one());
    let sum = b.load::<F32>(sum.at_start().one());
    let y = log_sum(&mut b, max, sum);
    b.store(x.at_start().one(), y);
    b.finish()
}

/// `max + log(sum)`, the greatest score where nothing was summed.
pub(crate) fn log_sum(b: &mut Builder, max: F32, sum: F32) -> F32 {
    let low = b.f32(f32::NEG_INFINITY);
    let nothing = b.eq(max, low);
    let log = math::log(b, sum);
    let y = b.add(max, log);
    b.select(nothing, low, y)
}

/// `x[..n] /= sum`: where the sum is zero, every key was masked, and the row is zeros or NaN as the operator says.
fn divide_row(op: FusedOp) -> Body {
    let zeros = op == FusedOp::Attend;
    let mut b = Builder::new(if zeros { "divide_or_zero" } else { "divide" });
    let x = b.output("x");
    let trip = b.int_param("n");
    let sum = b.input("sum");
    let sum = b.load::<F32>(sum.at_start().one());
    let (zero, one) = (b.f32(0.0), b.f32(1.0));
    let divisor = if zeros {
        let nothing = b.eq(sum, zero);
        b.select(nothing, one, sum)
    } else {
        sum
    };
    b.lanes(trip, (), |b, index, ()| {
        let v = b.load::<F32>(x.at(index));
        let v = b.div(v, divisor);
        b.store(x.at(index), v);
    });
    b.finish()
}
