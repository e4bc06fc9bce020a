//! Attention kernels: a softmax over keys in one pass, with the sum over values, and no row of weights in memory.
//!
//! For a tile of query rows the keys are visited tile by tile (Milakov and Gimelshein, "Online normalizer calculation
//! for softmax", 2018; Dao et al., "FlashAttention", 2022): scores by a product into scratch memory, then whatever the
//! graph says of them element by element, a running maximum and sum for each row, and the product with the values added
//! to what earlier tiles gave. Tiles that an index mask excludes are not visited; tiles that it includes whole are not
//! masked.

use crate::index::{Bound, Env, Ranges};
use crate::kernel::{Base, Kernel, Kind, LANES, Stmt};
use crate::maker::{Maker, address, ceil_div, for_loop, let_dim, let_min, n, product, stored, var};
use crate::masks::key_range;
use crate::pack::{Packed, Span, pack};
use crate::product::{Operands, sum_of_products, tiles};
use crate::rows::Target;
use crate::strip::{LANE, Scope, Strip, Visit};
use salient_ir::{AxisId, AxisSet, Dim, FusedOp, Graph, NodeId, Op};
use salient_vector::tile::{Shape, Zeros};
use salient_vector::{Body, Builder, F32, math};
use std::collections::BTreeSet;

/// Query rows of a tile.
const ROWS: i64 = 64;
/// Keys of a tile.
const KEYS: i64 = 64;

/// An attention node, its axes by role.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    pub(crate) op: FusedOp,
    /// The axis of the keys.
    pub(crate) key: AxisId,
    pub(crate) score: NodeId,
    pub(crate) value: NodeId,
    /// An axis of the scores alone: rows of it share the values.
    pub(crate) query: Option<AxisId>,
    /// The innermost axis of the values alone.
    pub(crate) width: Option<AxisId>,
}

/// The operator, bound axis, scores and values of an attention node.
fn parts(g: &Graph, node: NodeId) -> Option<(FusedOp, AxisId, NodeId, NodeId)> {
    let Op::Fused(op @ (FusedOp::Attend | FusedOp::ExpAttend), key) = *g.op(node) else { return None };
    Some((op, key, g.args(node)[0], g.args(node)[1]))
}

/// The axis whose positions are the rows of a tile, and the products inside the scores that it allows to be computed tile
/// by tile: of the axes that the scores have and the values lack, the one that allows most. `None` if `node` is no attention.
pub(crate) fn query_axis(
    g: &Graph,
    node: NodeId,
    is_stored: &dyn Fn(NodeId) -> bool,
) -> Option<(Option<AxisId>, Vec<NodeId>)> {
    let (_, key, score, value) = parts(g, node)?;
    let candidates = g.node(score).axes.iter().filter(|a| *a != key && !g.node(value).axes.contains(*a));
    let tried = candidates.map(|a| (Some(a), inner_products(g, a, key, score, is_stored)));
    Some(tried.max_by_key(|(a, inside)| (inside.len(), *a)).unwrap_or_default())
}

/// The roles of the axes of an attention node whose result is laid out in `order`.
pub(crate) fn attention(
    g: &Graph,
    node: NodeId,
    query: Option<AxisId>,
    order: &[AxisId],
) -> Option<Attention> {
    let (op, key, score, value) = parts(g, node)?;
    let of_value = |a: &AxisId| g.node(value).axes.contains(*a) && !g.node(score).axes.contains(*a);
    let width = order.iter().rev().copied().find(of_value);
    Some(Attention { op, key, score, value, query, width })
}

/// A product of queries and keys inside a score.
struct Scores {
    node: NodeId,
    query: NodeId,
    key: NodeId,
    depth: AxisId,
    /// The product's own axes that stand for the row and for the key.
    row_axis: AxisId,
    key_axis: AxisId,
    env: Env,
}

/// The products inside the scores of an attention that need not be stored: each is a sum of a factor of the row by a
/// factor of the key.
fn inner_products(
    g: &Graph,
    query: AxisId,
    key: AxisId,
    score: NodeId,
    is_stored: &dyn Fn(NodeId) -> bool,
) -> Vec<NodeId> {
    let mut env = Env::new();
    for axis in g.node(score).axes.iter() {
        env.insert(axis, Bound::Poly(var(&format!("outer.{}", axis.index()))));
    }
    env.insert(query, Bound::Poly(var("row")));
    env.insert(key, Bound::Poly(var(LANE)));
    let mut out = Vec::new();
    find_scores(g, &Ranges::default(), score, &env, "row", is_stored, &mut out);
    out.into_iter().map(|s| s.node).collect()
}

fn find_scores(
    g: &Graph,
    ranges: &Ranges,
    id: NodeId,
    env: &Env,
    row: &str,
    is_stored: &dyn Fn(NodeId) -> bool,
    out: &mut Vec<Scores>,
) {
    if is_stored(id) || out.iter().any(|s| s.node == id) {
        return;
    }
    match g.op(id) {
        Op::Map(_) => g.args(id).iter().for_each(|a| find_scores(g, ranges, *a, env, row, is_stored, out)),
        Op::At(axis) => {
            let args = g.args(id);
            if let Some(index) = ranges.evaluate(g, args[1], env) {
                let mut inner = env.clone();
                inner.insert(*axis, Bound::Poly(index));
                find_scores(g, ranges, args[0], &inner, row, is_stored, out);
            }
        }
        Op::Reduce(..) => out.extend(as_scores(g, id, env, row)),
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
        Op::Concat(..) | Op::CumSum(_) | Op::Fused(..) => {}
    }
}

fn as_scores(g: &Graph, node: NodeId, env: &Env, row: &str) -> Option<Scores> {
    let (a, b, depth) = sum_of_products(g, node)?;
    let mentions = |x: NodeId, symbol: &str| {
        g.node(x).axes.iter().filter(|k| *k != depth).any(|k| match env.get(&k) {
            Some(Bound::Poly(d)) => d.mentions(symbol),
            Some(Bound::Vector(_)) | None => true,
        })
    };
    let role = |x: NodeId| (mentions(x, row), mentions(x, LANE));
    let (query, key) = match (role(a), role(b)) {
        ((true, false), (false, true)) => (a, b),
        ((false, true), (true, false)) => (b, a),
        _ => return None,
    };
    let exactly = |symbol: &str| {
        let axes: Vec<AxisId> = g
            .node(node)
            .axes
            .iter()
            .filter(|k| matches!(env.get(k), Some(Bound::Poly(d)) if d.mentions(symbol)))
            .collect();
        match axes.as_slice() {
            [one] if env.get(one) == Some(&Bound::Poly(var(symbol))) => Some(*one),
            _ => None,
        }
    };
    let (row_axis, key_axis) = (exactly(row)?, exactly(LANE)?);
    Some(Scores { node, query, key, depth, row_axis, key_axis, env: env.clone() })
}

/// The state of each row of a tile, in scratch memory.
#[derive(Clone, Copy)]
struct State {
    /// The greatest score so far.
    max: Base,
    /// The sum of exponentials so far, relative to the maximum.
    sum: Base,
    /// What the newest tile multiplies earlier results by.
    factor: Base,
    /// The exponentials of the newest tile, row by row.
    weights: Base,
    /// The weighted sum of values so far, row by row.
    context: Base,
}

/// The kernel that stores `target.node`, an expression of the attention node `node` over the axes of its result.
pub(crate) fn attend(
    scope: &mut Scope<'_>,
    target: Target<'_>,
    node: NodeId,
    a: &Attention,
    shape: Shape,
) -> Kernel {
    let g = scope.graph;
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

    let stored_nodes: BTreeSet<NodeId> = m.scope.stored.keys().copied().collect();
    let mut scores = Vec::new();
    if a.query.is_some() {
        let is_stored = |id: NodeId| stored_nodes.contains(&id);
        find_scores(g, &m.scope.ranges, a.score, &env, &row, &is_stored, &mut scores);
    }

    let panel_width = &n(shape.vectors as i64) * &var(LANES);
    let panels = ceil_div(&wide, &panel_width);
    let padded = |columns: &Dim| &ceil_div(columns, &panel_width) * &panel_width;
    // Rows of scratch memory hold whole panels, so that register tiles need no edges.
    let (score_row, context_row) = (padded(&n(KEYS)), padded(&wide));
    let state = State {
        max: m.scratch("max", n(ROWS)),
        sum: m.scratch("sum", n(ROWS)),
        factor: m.scratch("factor", n(ROWS)),
        weights: m.scratch("weights", n(ROWS * KEYS)),
        context: m.scratch("context", &n(ROWS) * &context_row),
    };
    let values = m.scratch("values", &n(KEYS) * &context_row);

    let mut stmts = Vec::new();
    let mut bound = |m: &mut Maker<'_, '_>, name: &str, value: &Dim| {
        let name = m.variable(name, &(value + &one));
        stmts.push(let_dim(&name, value.clone()));
        var(&name)
    };
    let panel_width = bound(&mut m, "width", &panel_width);
    let keys_padded = bound(&mut m, "score_row", &score_row);
    let context_width = bound(&mut m, "context_row", &context_row);
    stmts.push(let_dim(&first, &block * &n(ROWS)));
    stmts.push(let_min(&last, vec![rows.clone(), &var(&first) + &n(ROWS)]));
    let (first, last) = (var(&first), var(&last));
    let count = &last - &first;
    stmts.push(fill(&mut m, state.max, &count, f32::NEG_INFINITY));
    stmts.push(fill(&mut m, state.sum, &count, 0.0));
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
        let panel = m.scratch("keys", &depth * &(&n(shape.vectors as i64) * &var(LANES)));
        let out = m.scratch("scores", &n(ROWS) * &score_row);
        packed.push((base, panel, out, depth));
    }

    // The keys that some row of the tile keeps.
    m.scope.ranges.insert(LANE, &keys);
    let range = key_range(g, &m.scope.ranges, a.score, &env, &row, (&first, &last));
    let (begin, end) = (m.variable("begin", &keys), m.variable("end", &(&keys + &one)));
    stmts.push(Stmt::Let {
        var: begin.as_str().into(),
        value: crate::kernel::Int::Max(std::iter::once(n(0)).chain(range.begins.iter().cloned()).collect()),
    });
    stmts.push(let_min(&end, std::iter::once(keys.clone()).chain(range.ends.iter().cloned()).collect()));

    let (key, stop) = (m.variable("key", &keys), m.variable("stop", &(&keys + &one)));
    let (from, upto) = (var(&key), var(&stop));
    let here = &upto - &from;
    let mut tile_stmts = vec![let_min(&stop, vec![var(&end), &from + &n(KEYS)])];
    for (s, (queries, panel, out, depth)) in scores.iter().zip(&packed) {
        let (column, edge) = (m.variable("column", &keys), m.variable("edge", &(&keys + &one)));
        let at = var(&column);
        let mut block = vec![let_min(&edge, vec![upto.clone(), &at + &panel_width])];
        let over_depth = Span { axis: Some(s.depth), from: n(0), count: depth.clone() };
        let over_keys = Span { axis: Some(s.key_axis), from: at.clone(), count: &var(&edge) - &at };
        let to = Packed { base: *panel, offset: n(0), outer: panel_width.clone(), inner: n(1) };
        block.push(pack(&mut m, "pack_key", s.key, &s.env, &over_depth, &over_keys, &to));
        let operands = Operands {
            left: (*queries, depth),
            panel: (*panel, &n(0)),
            depth,
            dest: (*out, &(&at - &from), &keys_padded),
            factors: None,
        };
        block.extend(tiles(&mut m, shape, Zeros::Multiply, (&first, &last), &operands));
        tile_stmts.push(for_loop(&column, from.clone(), upto.clone(), panel_width.clone(), block));
        // The scores as a value that expressions can read: row by row, from the tile's first key on.
        let offset = &n(0) - &(&(&first * &keys_padded) + &from);
        let strides = vec![(s.row_axis, keys_padded.clone()), (s.key_axis, n(1))];
        m.scope.stored.insert(s.node, Maker::scratch_value(*out, offset, strides));
        m.scope.inlined.insert(s.node);
    }

    // The values of the tile, panel by panel.
    let panel_var = m.variable("panel", &panels);
    let wide_at = &var(&panel_var) * &panel_width;
    let edge = m.variable("edge", &(&wide + &one));
    let panel_at = &var(&panel_var) * &(&n(KEYS) * &panel_width);
    let over_keys = Span { axis: Some(a.key), from: from.clone(), count: here.clone() };
    let over_width = Span { axis: a.width, from: wide_at.clone(), count: &var(&edge) - &wide_at };
    let to = Packed { base: values, offset: panel_at.clone(), outer: panel_width.clone(), inner: n(1) };
    let pack_panel = vec![
        let_min(&edge, vec![wide.clone(), &wide_at + &panel_width]),
        pack(&mut m, "pack_value", a.value, &env, &over_keys, &over_width, &to),
    ];
    let over_panels = |block: Vec<Stmt>| for_loop(&panel_var, n(0), panels.clone(), n(1), block);
    tile_stmts.push(over_panels(pack_panel));

    // Element by element: scores to weights, unmasked where the whole tile is kept.
    m.scope.ranges.insert(LANE, &keys);
    let each_row = |block: Stmt| for_loop(&row, first.clone(), last.clone(), n(1), vec![block]);
    let step = |m: &mut Maker<'_, '_>, score| softmax_step(m, score, &env, &row, &first, &from, &here, state);
    let mut masked = vec![each_row(step(&mut m, a.score))];
    // A masked key adds nothing even where its value is NaN or infinite, which a weight of zero alone does not ensure.
    let watch = may_be_masked(g, a.score, &m.scope.stored).then(|| m.scratch("wild", n(1)));
    if let Some(wild) = watch {
        let cells = &here * &panel_width;
        masked.push(over_panels(vec![find_wild(&mut m, values, &panel_at, &cells, wild)]));
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
    let weigh = |m: &mut Maker<'_, '_>, zeros: Zeros| {
        let operands = Operands {
            left: (state.weights, &n(KEYS)),
            panel: (values, &panel_at),
            depth: &here,
            dest: (state.context, &wide_at, &context_width),
            factors: Some(state.factor),
        };
        let block = tiles(m, shape, zeros, (&first, &last), &operands);
        over_panels(block)
    };
    let plain = weigh(&mut m, Zeros::Multiply);
    match watch {
        None => tile_stmts.push(plain),
        Some(wild) => {
            let Base::Scratch(slot) = wild else { unreachable!("a slot of scratch memory") };
            let found = m.variable("wild", &n(2));
            tile_stmts.push(Stmt::Read { var: found.as_str().into(), scratch: slot, offset: n(0) });
            let skip = weigh(&mut m, Zeros::Skip);
            let (left, right) = (n(0), var(&found));
            tile_stmts.push(Stmt::If { left, right, then: vec![skip], otherwise: vec![plain] });
        }
    }
    stmts.push(for_loop(&key, var(&begin), var(&end), n(KEYS), tile_stmts));

    for s in &scores {
        m.scope.stored.remove(&s.node);
    }
    let finish = store_row(&mut m, target, node, a, &env, &row, &first, &context_width, state);
    stmts.push(for_loop(&row, first, last, one.clone(), finish));
    let depths = packed.iter().fold(wide.clone(), |d, (.., depth)| &d + depth);
    let outer: Vec<Dim> =
        target.buffer.axes.iter().filter(|x| a.width != Some(**x)).map(|x| g.extent(*x).clone()).collect();
    let flops = &(&product(&outer) * &keys) * &(&depths * &n(2));
    m.finish(stmts, target.node, target.id, flops)
}

/// Whether a score can be -inf: where the constant occurs in it, or a stored tensor that could hold one.
fn may_be_masked(
    g: &Graph,
    id: NodeId,
    stored: &std::collections::BTreeMap<NodeId, crate::strip::Stored>,
) -> bool {
    if let Some(at) = stored.get(&id) {
        return g.node(id).dtype.is_float() && matches!(at.base, Base::Buffer(_));
    }
    *g.op(id) == Op::Const(salient_ir::Const::f32(f32::NEG_INFINITY))
        || g.args(id).iter().any(|a| may_be_masked(g, *a, stored))
}

/// Sets the flag where one of so many packed values is NaN or infinite.
fn find_wild(m: &mut Maker<'_, '_>, values: Base, at: &Dim, count: &Dim, flag: Base) -> Stmt {
    let mut b = Builder::new("find_wild");
    let x = b.input("x");
    let trip = b.int_param("n");
    let flag_at = b.output("flag");
    let clean = b.mask(false);
    let wild = b.lanes(trip, clean, |b, index, wild| {
        let v = b.load::<F32>(x.at(index));
        let (gone, zero) = (b.sub(v, v), b.f32(0.0));
        let bad = b.ne(gone, zero);
        b.or(wild, bad)
    });
    let wild = b.hany(wild);
    let one = b.i32(1);
    b.store(flag_at.at_start().one().masked(wild), one);
    let args = vec![address(values, at.clone()), crate::kernel::Arg::Int(count.clone()), address(flag, n(0))];
    m.call(b.finish(), args)
}

/// Sets so many elements at the start of a slot.
fn fill(m: &mut Maker<'_, '_>, base: Base, count: &Dim, value: f32) -> Stmt {
    let mut b = Builder::new(if value == 0.0 { "zeros" } else { "lowest" });
    let to = b.output("to");
    let trip = b.int_param("n");
    let v = b.f32(value);
    b.lanes(trip, (), |b, index, ()| b.store(to.at(index), v));
    m.call(b.finish(), vec![address(base, n(0)), crate::kernel::Arg::Int(count.clone())])
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
    state: State,
) -> Stmt {
    let local = &var(row) - first;
    let written = [state.max, state.sum, state.factor, state.weights];
    let mut b = Builder::new("softmax_step");
    let mut s = Strip::new(m.scope, Visit::Lanes, key.clone(), &written);
    let trip = s.integer(&mut b, count);
    let weights = s.pointer(&mut b, state.weights, &(&local * &n(KEYS)));
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
    state: State,
) -> Vec<Stmt> {
    let g = m.scope.graph;
    let local = &var(row) - first;
    let divide = m.call(
        divide_row(a.op),
        vec![
            address(state.context, &local * context_width),
            crate::kernel::Arg::Int(context_width.clone()),
            address(state.sum, local),
        ],
    );
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
    match a.query {
        Some(query) => {
            strides.push((query, context_width.clone()));
            offset = &offset - &(first * context_width);
        }
        None => debug_assert!(stored(target.id, target.buffer).offset == n(0)),
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
