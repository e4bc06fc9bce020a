//! Rows of scores streamed over keys: a running softmax, if one makes the weights, and the weighted sum of values, tile of
//! keys by tile of keys.
//!
//! How rows are cut out of an attention and how scores are made is the business of the forms, `attend` and `split`; both
//! end a row alike.

use crate::dims::{ceil_div, n, product, var};
use crate::emit::maker::{Maker, Target, address, for_loop, let_dim, let_min};
use crate::emit::pack::{Packed, Span, pack_scaled};
use crate::emit::stream::look::{flag, look};
use crate::emit::stream::score::{Rows, hoist};
use crate::emit::stream::softmax::{Place, Softmax, divide_row, fill, log_of_row};
use crate::emit::stream::values::{Keys, Values, Weighted};
use crate::index::{Bound, Env, LANE};
use crate::plan::attention::{Attention, Normaliser, Scores};
use crate::plan::key_range::{KeyRange, Mask, key_range};
use crate::plan::layouts::Stored;
use crate::program::kernel::{Arg, Base, Int, LANES, Stmt};
use salient_ir::{AxisId, Dim, Graph, NodeId, Op};
use salient_vector::tile::{Shape, Zeros};
use std::collections::{BTreeMap, BTreeSet};

/// Rows that share keys and values, and the keys that they are streamed over.
pub(crate) struct RowTile<'t> {
    pub(crate) attention: &'t Attention,
    /// What every axis stands for: the row a variable, the key the lane.
    pub(crate) env: &'t Env,
    pub(crate) shape: Shape,
    /// The axis that the row variable runs along.
    pub(crate) axis: Option<AxisId>,
    pub(crate) row: &'t str,
    /// The row variable's range, and the most that it can be long.
    pub(crate) first: Dim,
    pub(crate) last: Dim,
    pub(crate) most: Dim,
    /// The first key that may be visited, and one past the last.
    pub(crate) keys: (Dim, Dim),
    /// Keys of a tile; it is rounded up to whole panels.
    pub(crate) tile: i64,
    /// Whether few rows meet each key, so that time is that of reading keys and values.
    pub(crate) few: bool,
    /// The products inside the scores.
    pub(crate) scores: &'t [Scores],
}

/// A tile of scores to be made: the queries, and where the scores go.
pub(crate) struct Making<'t> {
    /// Which of the products.
    pub(crate) at: usize,
    pub(crate) scores: &'t Scores,
    pub(crate) queries: Base,
    pub(crate) depth: &'t Dim,
    pub(crate) out: Base,
    /// Elements between rows of scores.
    pub(crate) row: &'t Dim,
    /// The first key, and one past the last.
    pub(crate) keys: (&'t Dim, &'t Dim),
    /// The columns of a panel.
    pub(crate) panel: &'t Dim,
}

/// What streaming leaves behind.
pub(crate) struct Streamed {
    pub(crate) stmts: Vec<Stmt>,
    pub(crate) softmax: Softmax,
    /// The weighted sums, row by row, and the elements between rows.
    pub(crate) context: Base,
    pub(crate) context_row: Dim,
}

/// The index at which the axis stands for the first row.
pub(crate) fn origin(env: &Env, axis: AxisId, row: &str, first: &Dim) -> Dim {
    match env.get(&axis) {
        Some(Bound::Poly(d)) => d.substitute(&BTreeMap::from([(row.into(), first.clone())])),
        Some(Bound::Loose(_) | Bound::Vector(_)) | None => unreachable!("rows stand for polynomials"),
    }
}

/// The statements that stream the rows over their keys; `make` computes a tile of scores.
pub(crate) fn stream(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
    make: &mut dyn FnMut(&mut Maker<'_, '_>, &Making<'_>) -> Vec<Stmt>,
) -> Streamed {
    let g = m.scope.graph;
    let (a, env, row, first, last) = (t.attention, t.env, t.row, &t.first, &t.last);
    let one = n(1);
    let (keys, wide) = (g.extent(a.key).clone(), a.width.map_or(one.clone(), |x| g.extent(x).clone()));
    let panel_width = &n(t.shape.vectors as i64) * &var(LANES);
    let panels = ceil_div(&wide, &panel_width);
    let padded = |columns: &Dim| &ceil_div(columns, &panel_width) * &panel_width;
    // Rows of scratch memory hold whole panels, so that register tiles need no edges.
    let (score_row, context_row) = (padded(&n(t.tile)), padded(&wide));
    let mut stmts = Vec::new();
    let mut bound = |m: &mut Maker<'_, '_>, name: &str, value: &Dim| {
        let name = m.variable(name, &(value + &one));
        stmts.push(let_dim(&name, value.clone()));
        var(&name)
    };
    let panel_width = bound(m, "width", &panel_width);
    let keys_padded = bound(m, "score_row", &score_row);
    let context_width = bound(m, "context_row", &context_row);
    let count = last - first;
    let at_first = t.axis.map_or_else(|| first.clone(), |axis| origin(env, axis, row, first));
    let rows = Rows { axis: t.axis, origin: &at_first, variable: row, last, count: &count, most: &t.most };
    let (hoisted, before) = hoist(m, a.score, env, &rows);
    stmts.extend(before);

    // Queries once for the tile of rows.
    let mut packed = Vec::new();
    for s in t.scores {
        let depth = g.extent(s.depth).clone();
        let base = m.scratch("queries", &t.most * &depth);
        let from = origin(&s.env, s.row_axis, row, first);
        let over_rows = Span { axis: Some(s.row_axis), from, count: count.clone() };
        let over_depth = Span { axis: Some(s.depth), from: n(0), count: depth.clone() };
        let to = Packed { base, offset: n(0), outer: depth.clone(), inner: n(1) };
        let queries = (s.query, s.scale);
        stmts.push(pack_scaled(m, "pack_query", queries, &s.env, &over_rows, &over_depth, &to));
        let out = m.scratch("scores", &t.most * &score_row);
        packed.push((base, out, depth));
    }
    // Weights take the place of the scores that they are made of.
    let weights = packed.first().map(|(_, out, _)| *out);
    let weights = weights.unwrap_or_else(|| m.scratch("weights", &t.most * &score_row));
    let softmax = Softmax::new(m, a, &t.most, weights, keys_padded.clone());
    let context = m.scratch("context", &t.most * &context_row);
    match a.sink {
        None => stmts.extend(softmax.start(m, &count)),
        Some(sink) => stmts.extend(softmax.start_at(m, sink, t.axis, env, &at_first, &count)),
    }
    stmts.push(fill(m, context, &(&count * &context_width), 0.0));

    // The keys that some row of the tile keeps.
    m.scope.ranges.insert(LANE, &keys);
    let mut range = key_range(g, &m.scope.ranges, (a.score, a.masked), env, row, (first, last));
    if range.mask.is_some_and(|mask| m.scope.defined.may_report(mask.condition)) {
        // All of it is looked at, so that whatever it uses outside its axis is reported.
        range = KeyRange {
            mask: range.mask.map(|mask| Mask { understood: false, ..mask }),
            ..KeyRange::default()
        };
    }
    let (first_key, begin) = (m.variable("first_key", &keys), m.variable("begin", &keys));
    let end = m.variable("end", &(&keys + &one));
    let begins = std::iter::once(t.keys.0.clone()).chain(range.begins.iter().cloned());
    stmts.push(Stmt::Let { var: first_key.as_str().into(), value: Int::Max(begins.collect()) });
    // Tiles begin where panels do.
    let whole_panels = var(&first_key).floor_div(&panel_width).expect("a panel has columns");
    let aligned = &whole_panels * &panel_width;
    stmts.push(Stmt::Let { var: begin.as_str().into(), value: Int::Max(vec![aligned, t.keys.0.clone()]) });
    let ends = std::iter::once(t.keys.1.clone()).chain(range.ends.iter().cloned());
    stmts.push(let_min(&end, ends.collect()));

    let (key, stop) = (m.variable("key", &keys), m.variable("stop", &(&keys + &one)));
    let (from, upto) = (var(&key), var(&stop));
    let here = &upto - &from;
    let mut tile_stmts = Vec::new();
    let mut passing = hoisted;
    for (at, (s, (queries, out, depth))) in t.scores.iter().zip(&packed).enumerate() {
        let making = Making {
            at,
            scores: s,
            queries: *queries,
            depth,
            out: *out,
            row: &keys_padded,
            keys: (&from, &upto),
            panel: &panel_width,
        };
        tile_stmts.extend(make(m, &making));
        // The scores as a value that expressions can read: row by row, from the tile's first key on.
        let offset = &n(0) - &(&(&origin(&s.env, s.row_axis, row, first) * &keys_padded) + &from);
        let strides = vec![(s.row_axis, keys_padded.clone()), (s.key_axis, n(1))];
        let value = Maker::scratch_value(*out, offset, strides);
        passing.push((s.scaled(), m.scope.stored.insert(s.scaled(), value)));
        m.scope.inlined.extend([s.node, s.scaled()]);
    }

    // The values of the tile, and the scores to weights element by element: unmasked where the whole tile is kept.
    let tile_keys =
        Keys { first: from.clone(), count: here.clone(), row: keys_padded.clone(), most: score_row.clone() };
    let values = a.value.map(|value| {
        let wide = (&wide, &panels);
        Values::new(m, a, value, env, (t.shape, t.few), tile_keys, &panel_width, wide, &mut stmts)
    });
    if let Some(values) = &values {
        tile_stmts.push(values.pack(m, a, env));
    }
    m.scope.ranges.insert(LANE, &keys);
    let each_row = |block: Stmt| for_loop(row, first.clone(), last.clone(), n(1), vec![block]);
    let place = Place { row, first, key: &from, count: &here };
    // A product that is a score as it stands has been stored as such.
    let there = |score| t.scores.first().is_some_and(|s| s.scaled() == score);
    // A masked key adds nothing even where its value is NaN or infinite, which a weight of zero alone does not ensure.
    let watched = values.as_ref().filter(|_| may_be_masked(g, a.score, a.masked, &m.scope.stored));
    let watch = watched.map(|values| (values, m.scratch("wild", n(1))));
    if let Some((_, wild)) = watch {
        tile_stmts.push(fill(m, wild, &n(1), 0.0));
    }
    let scored = |m: &mut Maker<'_, '_>, score: NodeId| {
        let mut stmts: Vec<Stmt> =
            softmax.scores(m, score, env, place, there(score)).map(each_row).into_iter().collect();
        // Where the mask of a softmax lets all through, no weight is zero.
        let masked = score == a.score || !matches!(a.normaliser, Normaliser::Softmax { .. });
        let watch = watch.filter(|_| masked && may_be_masked(g, score, a.masked, &m.scope.stored));
        stmts.extend(watch.map(|(values, wild)| values.find_wild(m, wild)).into_iter().flatten());
        stmts
    };
    let masked = scored(m, a.score);
    let mut looked = None;
    // Scores that are stored are stored masked; a mask that reads scores of the tile is not known before they are.
    let of_scores = |id: NodeId| t.scores.iter().any(|s| s.node == id || s.scaled() == id);
    let before_scores = |mask: &Mask| !reads_any(g, mask.condition, &m.scope.stored, of_scores);
    let mask = range.mask.filter(|_| !m.scope.stored.contains_key(&a.score)).filter(before_scores);
    match mask {
        None => tile_stmts.extend(masked),
        Some(mask) => {
            let plain = scored(m, mask.unmasked);
            if mask.understood {
                tile_stmts.extend(unmasked_inside(&range, (&from, &upto), plain, &masked));
            } else {
                let (stmts, any, hidden) = look(m, mask.condition, env, place, &rows);
                looked = Some((stmts, any));
                tile_stmts.push(Stmt::If { left: n(0), right: hidden, then: masked, otherwise: plain });
            }
        }
    }
    if let Some((all_rows, one_row)) = softmax.normalise(m, &count, place) {
        tile_stmts.extend([all_rows, each_row(one_row)]);
    }

    // The product of the weights with the values.
    let to = Weighted {
        rows: (first, last),
        weights: softmax.weights,
        factor: softmax.factor(),
        context,
        context_row: &context_width,
    };
    let plain = values.as_ref().map(|values| values.weigh(m, Zeros::Multiply, &to)).unwrap_or_default();
    match watch {
        None => tile_stmts.extend(plain),
        Some((values, wild)) => {
            let (read, found) = flag(m, wild, 0);
            tile_stmts.push(read);
            let then = values.weigh(m, Zeros::Skip, &to);
            tile_stmts.push(Stmt::If { left: n(0), right: found, then, otherwise: plain });
        }
    }
    let mut block = vec![let_min(&stop, vec![var(&end), &from + &keys_padded])];
    match looked {
        None => block.extend(tile_stmts),
        // A tile of which nothing is kept is not computed.
        Some((stmts, any)) => {
            block.extend(stmts);
            block.push(Stmt::If { left: n(0), right: any, then: tile_stmts, otherwise: Vec::new() });
        }
    }
    stmts.push(for_loop(&key, var(&begin), var(&end), keys_padded.clone(), block));

    for (node, before) in passing.into_iter().rev() {
        m.scope.forget(node, before);
    }
    Streamed { stmts, softmax, context, context_row: context_width }
}

/// The end of a row: the weighted sum, divided by the sum of weights if that is the normaliser, through whatever follows, to its place.
pub(crate) fn store_row(
    m: &mut Maker<'_, '_>,
    target: Target<'_>,
    a: &Attention,
    env: &Env,
    place: Place<'_>,
    softmax: &Softmax,
    (context, context_width): (Base, &Dim),
) -> Vec<Stmt> {
    let g = m.scope.graph;
    let local = place.local();
    let row = address(context, &local * context_width);
    let mut divide = |zeros| {
        let args = vec![row.clone(), Arg::Int(context_width.clone()), address(softmax.sum, local.clone())];
        m.call(divide_row(zeros), args)
    };
    let finish = match (a.value, a.normaliser) {
        (Some(_), Normaliser::Softmax { zeros }) => Some(divide(zeros)),
        (Some(_), Normaliser::Sum) => Some(divide(false)),
        (None, Normaliser::Softmax { .. }) => {
            let args = vec![row, address(softmax.max, local.clone()), address(softmax.sum, local)];
            Some(m.call(log_of_row(), args))
        }
        (_, Normaliser::One | Normaliser::Greatest) | (None, Normaliser::Sum) => None,
    };
    // What the state of a row holds is read there.
    let one = n(1);
    let (held, held_row) = match (a.value, a.normaliser) {
        (None, Normaliser::Sum) => (softmax.sum, &one),
        (_, Normaliser::Greatest) => (softmax.max, &one),
        (_, Normaliser::Softmax { .. } | Normaliser::Sum | Normaliser::One) => (context, context_width),
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
        strides.push((query, held_row.clone()));
        offset = &offset - &(place.first * held_row);
    }
    let before = m.scope.stored.insert(a.node, Maker::scratch_value(held, offset, strides));
    let store = crate::emit::map::strip(m, target.node, target.id, target.buffer, &env, n(0), &count);
    m.scope.forget(a.node, before);
    m.scope.inlined.insert(a.node);
    finish.into_iter().chain([store]).collect()
}

/// Operations of the products of an attention whose scores sum over these axes, for rows at each position of the outer ones.
pub(crate) fn flops(
    g: &Graph,
    outer: impl Iterator<Item = AxisId>,
    a: &Attention,
    depths: impl Iterator<Item = AxisId>,
) -> Dim {
    let wide = a.width.map_or(n(1), |x| g.extent(x).clone());
    let depths = depths.fold(wide, |sum, axis| &sum + g.extent(axis));
    let outer: Vec<Dim> = outer.map(|x| g.extent(x).clone()).collect();
    &(&product(&outer) * g.extent(a.key)) * &(&depths * &n(2))
}

/// The tile `from..upto` without its mask where the bounds say that all of it is kept, else with it.
fn unmasked_inside(
    range: &KeyRange,
    (from, upto): (&Dim, &Dim),
    plain: Vec<Stmt>,
    masked: &[Stmt],
) -> Vec<Stmt> {
    let one = n(1);
    let ends = range.all_ends.iter().map(|e| (upto - &one, e.clone()));
    let begins = range.all_begins.iter().map(|b| (b - &one, from.clone()));
    ends.chain(begins)
        .fold(plain, |then, (left, right)| vec![Stmt::If { left, right, then, otherwise: masked.to_vec() }])
}

/// Whether a score can be that of a masked key: where the constant occurs in it, or a stored tensor that could hold one.
fn may_be_masked(g: &Graph, id: NodeId, masked: f32, stored: &BTreeMap<NodeId, Stored>) -> bool {
    reads_any(g, id, stored, |id| match stored.get(&id) {
        Some(at) => g.node(id).dtype.is_float() && matches!(at.base, Base::Buffer(_)),
        None => *g.op(id) == Op::Const(salient_ir::Const::f32(masked)),
    })
}

/// Whether an expression of what is stored has a node like that in it.
fn reads_any(
    g: &Graph,
    id: NodeId,
    stored: &BTreeMap<NodeId, Stored>,
    is_one: impl Fn(NodeId) -> bool,
) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        if is_one(id) {
            return true;
        }
        if seen.insert(id) && !stored.contains_key(&id) {
            stack.extend(g.args(id));
        }
    }
    false
}
