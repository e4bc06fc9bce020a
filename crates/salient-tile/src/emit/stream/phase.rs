//! Rows of scores streamed over keys: a running softmax, if one makes the weights, and the weighted sum of values, tile of
//! keys by tile of keys.
//!
//! How rows are cut out of an attention and how scores are made is the business of the forms, `attend` and `split`; both
//! end a row alike.

use crate::dims::{LANE, n, var};
use crate::emit::maker::{Maker, Target, address, for_loop, let_dim, let_min};
use crate::emit::pack::{Packed, Span, pack_scaled, pack_through, pack_transposed};
use crate::emit::stream::look::{flag, look};
use crate::emit::stream::retry::{Retry, Skips};
use crate::emit::stream::row_tile::{RowTile, Sizes, origin};
use crate::emit::stream::score::compute_invariant;
use crate::emit::stream::softmax::{
    RowState, ScoreTile, Softmax, divide_row, fill, log_of_row, normalise_row,
};
use crate::emit::stream::values::{Keys, Values, Weighted};
use crate::index::{AxisValue, Env};
use crate::plan::attention::key_range::{KeyRange, RowSpan, TileRange};
use crate::plan::attention::{Attention, Normaliser, Scores};
use crate::plan::layouts::Stored;
use crate::plan::scratch::Slot;
use crate::program::kernel::{Arg, Base, Int, Stmt};
use salient_ir::{AxisId, Dim, NodeId};
use salient_vector::tile::Zeros;
use salient_vector::{Builder, Elem};
use std::collections::BTreeMap;

/// A tile of scores to be made: the queries, and where the scores go.
pub(crate) struct Making<'t> {
    /// Which of the products.
    pub(crate) at: usize,
    pub(crate) scores: &'t Scores,
    pub(crate) queries: Base,
    pub(crate) depth: &'t Dim,
    /// Where the scores go: the place of the first row's first, and the elements between rows.
    pub(crate) out: (Base, &'t Dim),
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

/// The statements that stream the rows over their keys; `make` computes a tile of scores.
pub(crate) fn stream(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
    make: &mut dyn FnMut(&mut Maker<'_, '_>, &Making<'_>) -> Vec<Stmt>,
) -> Streamed {
    let a = t.attention;
    let keys = m.scope.graph.extent(a.key).clone();
    let mut stmts = Vec::new();
    let sizes = Sizes::new(m, t, &mut stmts);
    let (count, at_first) = (t.count(), t.origin());
    let (invariant, before) = compute_invariant(m, t);
    stmts.extend(before);

    let products = pack_queries(m, t, &mut stmts);
    // Weights take the place of the scores that they are made of.
    let weights = products.first().map(|product| product.out);
    let weights = weights.unwrap_or_else(|| m.scratch(Slot::Weights));
    let square = t.key_loop.is_turned.then(|| m.scratch(Slot::Square));
    let softmax = Softmax::new(m, a, weights, sizes.score_row.clone());
    let context = m.scratch(Slot::Context);
    let wide = &count * &sizes.context_row;

    // The keys that some row of the tile keeps.
    m.scope.ranges.insert(&LANE, &keys);
    let (range, begin, end) = visited(m, t, &t.key_loop.range, &sizes.panel, &mut stmts);
    let (key, stop) = (m.variable("key", &keys), m.variable("stop", &(&keys + &n(1))));
    let (from, upto) = (var(&key), var(&stop));
    let here = &upto - &from;
    let of_tile = Keys { first: from.clone(), count: here.clone(), row: sizes.score_row.clone() };
    let values = a.value.map(|value| Values::new(m, t, value, of_tile, &sizes, &mut stmts));
    let retry = values.as_ref().and_then(|_| Retry::new(m, t.key_loop.nan_check));
    let mut pass = match a.sink {
        None => softmax.start(m, &count).to_vec(),
        Some(sink) => softmax.start_at(m, sink, t.axis(), t.env, &at_first, &count).to_vec(),
    };
    pass.push(fill(m, context, &wide, 0.0));
    let widths = (&sizes.score_row, &sizes.panel);
    let (mut tile, made) = scores(m, t, widths, &products, (&from, &upto), make);

    // The values of the tile, and the scores to weights element by element: unmasked where the whole tile is kept.
    if let Some(values) = &values {
        tile.push(values.pack(m, a, t.env));
    }
    m.scope.ranges.insert(&LANE, &keys);
    let place = ScoreTile { row: t.row, first: &t.first, key: &from, count: &here };
    let skips = retry.as_ref().map(|retry| retry.of_tile(m, &mut tile));
    let looked = weights_of(m, t, (&softmax, square), (place, &range, &upto), retry.as_ref(), &mut tile);
    if let Some((all_rows, one_row)) = softmax.normalise(m, &count, place) {
        tile.extend([all_rows, t.each_row(one_row)]);
    }
    let to = Weighted {
        rows: (&t.first, &t.last),
        weights: (softmax.weights, &n(0), &sizes.score_row),
        factor: softmax.factor(),
        context,
        context_row: &sizes.context_row,
    };
    weigh(m, values.as_ref(), skips, &to, &mut tile);
    let limit = let_min(&stop, vec![end.clone(), &from + &sizes.score_row]);
    let block = visit(limit, looked, tile);
    pass.push(for_loop(&key, begin, end, sizes.score_row.clone(), block));
    match retry {
        None => stmts.extend(pass),
        Some(retry) => stmts.extend(retry.passes(m, pass, (context, &wide))),
    }
    for (node, before) in invariant.into_iter().chain(made).rev() {
        m.scope.forget(node, before);
    }
    Streamed { stmts, softmax, context, context_row: sizes.context_row }
}

/// A tile of keys: where it ends, what a probe does before, and the tile itself, if any of its keys is kept.
fn visit(limit: Stmt, looked: Option<(Vec<Stmt>, Dim)>, tile: Vec<Stmt>) -> Vec<Stmt> {
    let mut block = vec![limit];
    match looked {
        None => block.extend(tile),
        Some((stmts, any)) => {
            block.extend(stmts);
            block.push(Stmt::If { left: n(0), right: any, then: tile, otherwise: Vec::new() });
        }
    }
    block
}

/// A product of queries and keys whose queries are packed.
pub(crate) struct QueryTile<'t> {
    pub(crate) scores: &'t Scores,
    queries: Base,
    /// Where its scores go.
    pub(crate) out: Base,
    depth: Dim,
    /// The place of the first score, and the elements between the heads of a tile that holds several.
    pub(crate) at: Dim,
    pub(crate) heads: Vec<(AxisId, Dim)>,
}

/// Packs the queries, once for the tile of rows.
pub(crate) fn pack_queries<'t>(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'t>,
    stmts: &mut Vec<Stmt>,
) -> Vec<QueryTile<'t>> {
    t.scores.iter().map(|s| pack_query(m, t, s, stmts)).collect()
}

/// Packs the queries of one product.
pub(crate) fn pack_query<'t>(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
    s: &'t Scores,
    stmts: &mut Vec<Stmt>,
) -> QueryTile<'t> {
    let depth = m.scope.graph.extent(s.depth).clone();
    let queries = m.scratch(Slot::Queries);
    let from = origin(&s.env, s.row_axis, t.row, &t.first);
    let over_rows = Span { axis: Some(s.row_axis), from, count: t.count() };
    let over_depth = Span { axis: Some(s.depth), from: n(0), count: depth.clone() };
    let to = Packed { base: queries, offset: n(0), outer: depth.clone(), inner: n(1) };
    stmts.extend(pack_scaled(m, "pack_query", (s.query, s.scale), &s.env, &over_rows, &over_depth, &to));
    let out = m.scratch(Slot::Scores);
    QueryTile { scores: s, queries, out, depth, at: n(0), heads: Vec::new() }
}

/// Prefetches the queries of the next tile if they lie in memory as they are: the tile at hand takes long enough for memory to answer, and
/// what comes after the last tile is not read.
pub(crate) fn prefetch_queries(m: &mut Maker<'_, '_>, t: &RowTile<'_>, s: &Scores) -> Option<Stmt> {
    let lies = m.scope.strided_rows(&m.scope.ranges, s.query, &s.env, s.depth, s.row_axis)?;
    let Base::Buffer(_) = lies.base else { return None };
    let rows = m.scope.graph.extent(s.row_axis).clone();
    if rows.provably_le(&t.most_rows) {
        return None;
    }
    let mut b = Builder::new("prefetch");
    let from = b.input("x");
    let trip = b.int_param("n");
    b.lanes(trip, (), |b, index, ()| b.prefetch(Elem::F32, from.at(index)));
    let row = m.variable(&m.axis_name(s.row_axis), &rows);
    let place = &lies.start + &(&(&var(&row) + &t.most_rows) * &lies.row);
    let depth = m.scope.graph.extent(s.depth).clone();
    let call = m.call(b.finish(), vec![address(lies.base, place), Arg::Int(depth)]);
    let from = origin(&s.env, s.row_axis, t.row, &t.first);
    Some(for_loop(&row, from.clone(), &from + &t.count(), n(1), vec![call]))
}

/// The keys of a range that the tiles of these rows visit: what is known of them, the first, and one past the last.
pub(crate) fn visited(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
    range: &KeyRange,
    panel: &Dim,
    stmts: &mut Vec<Stmt>,
) -> (TileRange, Dim, Dim) {
    let keys = m.scope.graph.extent(t.attention.key).clone();
    let rows = RowSpan { variable: t.row, first: &t.first, last: &t.last };
    let range = range.of_tile(t.env, rows);
    let (first_key, begin) = (m.variable("first_key", &keys), m.variable("begin", &keys));
    let end = m.variable("end", &(&keys + &n(1)));
    let begins = std::iter::once(t.keys.0.clone()).chain(range.begins.iter().cloned());
    stmts.push(Stmt::Let { var: first_key.clone(), value: Int::Max(begins.collect()) });
    // Tiles begin where panels do.
    let whole_panels = var(&first_key).floor_div(panel).expect("a panel has columns");
    let aligned = &whole_panels * panel;
    stmts.push(Stmt::Let { var: begin.clone(), value: Int::Max(vec![aligned, t.keys.0.clone()]) });
    let ends = std::iter::once(t.keys.1.clone()).chain(range.ends.iter().cloned());
    stmts.push(let_min(&end, ends.collect()));
    (range, var(&begin), var(&end))
}

/// What nodes stood for before something else was stored for them.
pub(crate) type Before = Vec<(NodeId, Option<Stored>)>;

/// The scores of the keys `from..upto`, in rows of so many elements, and what they replace among what is stored.
fn scores(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
    widths: (&Dim, &Dim),
    products: &[QueryTile<'_>],
    keys: (&Dim, &Dim),
    make: &mut dyn FnMut(&mut Maker<'_, '_>, &Making<'_>) -> Vec<Stmt>,
) -> (Vec<Stmt>, Before) {
    let (mut stmts, mut replaced) = (Vec::new(), Before::new());
    for product in products.iter().enumerate() {
        let (made, before) = scores_of(m, t, widths, product, keys, make);
        stmts.extend(made);
        replaced.push(before);
    }
    (stmts, replaced)
}

/// The scores of one product, given with its position, of the keys `from..upto`.
pub(crate) fn scores_of(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
    (score_row, panel): (&Dim, &Dim),
    (at, product): (usize, &QueryTile<'_>),
    (from, upto): (&Dim, &Dim),
    make: &mut dyn FnMut(&mut Maker<'_, '_>, &Making<'_>) -> Vec<Stmt>,
) -> (Vec<Stmt>, (NodeId, Option<Stored>)) {
    let (mut stmts, s) = (Vec::new(), product.scores);
    let (from, upto) = match &s.shift {
        None => (from.clone(), upto.clone()),
        Some(shift) => band(m, t, (s.key_axis, shift), (from, upto), panel, &mut stmts),
    };
    let making = Making {
        at,
        scores: s,
        queries: product.queries,
        depth: &product.depth,
        out: (product.out, &product.at),
        row: score_row,
        keys: (&from, &upto),
        panel,
    };
    stmts.extend(make(m, &making));
    // The scores as a value that expressions can read: row by row, from the tile's first key on.
    let first_row = origin(&s.env, s.row_axis, t.row, &t.first);
    let offset = &n(0) - &(&(&first_row * score_row) + &from);
    let strides = [(s.row_axis, score_row.clone()), (s.key_axis, n(1))];
    let strides = strides.into_iter().chain(product.heads.iter().cloned()).collect();
    let value = Maker::scratch_value(product.out, offset, strides);
    let before = m.scope.stored.insert(s.scaled(), value);
    m.scope.inlined.extend([s.node, s.scaled()]);
    (stmts, (s.scaled(), before))
}

/// The columns that the rows of a tile read of a product whose axis stands for the key at a distance that falls from row to row:
/// the first, where a panel begins, and one past the last.
fn band(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
    (axis, shift): (AxisId, &Dim),
    (from, upto): (&Dim, &Dim),
    panel: &Dim,
    stmts: &mut Vec<Stmt>,
) -> (Dim, Dim) {
    let extent = m.scope.graph.extent(axis).clone();
    let at = |row: &Dim| shift.substitute(&BTreeMap::from([(t.row.clone(), row.clone())]));
    let [least, begin] = ["least", "band"].map(|word| m.variable(word, &extent));
    let end = m.variable("band_end", &(&extent + &n(1)));
    let lowest = from + &at(&(&t.last - &n(1)));
    stmts.push(Stmt::Let { var: least.clone(), value: Int::Max(vec![lowest, n(0)]) });
    let whole_panels = var(&least).floor_div(panel).expect("a panel has columns");
    stmts.push(let_dim(&begin, &whole_panels * panel));
    stmts.push(let_min(&end, vec![extent, upto + &at(&t.first)]));
    (var(&begin), var(&end))
}

/// Makes a tile of scores by squares that are stored with the rows of the tile side by side, or that read what lies so, and go through
/// `square`: a row at a time would read an element of each line of the cache.
fn turn(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
    score: NodeId,
    (softmax, square): (&Softmax, Option<Base>),
    place: ScoreTile<'_>,
) -> Option<Stmt> {
    let (rows, key) = (t.axis()?, t.attention.key);
    let mut env = t.env.clone();
    env.retain(|axis, _| ![rows, key].contains(axis));
    let over_rows = Span { axis: Some(rows), from: t.origin(), count: t.count() };
    let over_keys = Span { axis: Some(key), from: place.key.clone(), count: place.count.clone() };
    let to = Packed { base: softmax.weights, offset: n(0), outer: softmax.weights_row.clone(), inner: n(1) };
    match square {
        None => pack_transposed(m, score, &env, &over_rows, &over_keys, &to),
        Some(square) => {
            Some(pack_through(m, score, &env, (&over_rows, &over_keys), &to, (square, &t.most_rows)))
        }
    }
}

/// Adds the statements that make weights of the scores of a tile. What a probe does before, and the number that is not zero if
/// any key is kept, is given back.
fn weights_of(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
    (softmax, square): (&Softmax, Option<Base>),
    (place, range, upto): (ScoreTile<'_>, &TileRange, &Dim),
    retry: Option<&Retry>,
    tile: &mut Vec<Stmt>,
) -> Option<(Vec<Stmt>, Dim)> {
    let a = t.attention;
    let weights = |m: &mut Maker<'_, '_>, score: NodeId| {
        // A product that is a score as it stands has been stored as such.
        let is_product = t.scores.first().is_some_and(|s| s.scaled() == score);
        let copied = turn(m, t, score, (softmax, square), place);
        let made = softmax.scores(m, score, t.env, place, is_product || copied.is_some());
        copied.into_iter().chain(made.map(|row| t.each_row(row))).collect::<Vec<Stmt>>()
    };
    let mut masked = weights(m, a.score);
    masked.extend(retry.and_then(|retry| retry.masked(m)));
    let Some(mask) = &t.key_loop.mask else {
        tile.extend(masked);
        return None;
    };
    let plain = weights(m, mask.unmasked);
    match &mask.probe {
        None => {
            tile.extend(unmasked_inside(range, (place.key, upto), plain, &masked));
            None
        }
        Some(probe) => {
            let (stmts, any, hidden) = look(m, (mask.condition, probe), t, place);
            tile.push(Stmt::If { left: n(0), right: hidden, then: masked, otherwise: plain });
            Some((stmts, any))
        }
    }
}

/// Adds the product of the weights with the values.
fn weigh(
    m: &mut Maker<'_, '_>,
    values: Option<&Values>,
    skips: Option<Skips>,
    to: &Weighted<'_>,
    tile: &mut Vec<Stmt>,
) {
    let Some(values) = values else { return };
    let plain = values.weigh(m, Zeros::Multiply, to);
    let found = match skips {
        None => return tile.extend(plain),
        Some(Skips::AllWhere(found)) => found,
        Some(Skips::Marked(flags)) => {
            let (read, found) = flag(m, flags, Retry::OF_TILE);
            tile.push(read);
            found
        }
    };
    let then = values.weigh(m, Zeros::Skip, to);
    tile.push(Stmt::If { left: n(0), right: found, then, otherwise: plain });
}

/// The end of a row: the weighted sum, divided by the sum of weights if that is the normaliser, through whatever follows, to its place.
pub(crate) fn store_row(
    m: &mut Maker<'_, '_>,
    target: Target<'_>,
    a: &Attention,
    env: &Env,
    place: ScoreTile<'_>,
    state: RowState,
    (context, context_width): (Base, &Dim),
) -> Vec<Stmt> {
    let finish = finish_row(m, a, place, &state, (context, context_width));
    let mut env = env.clone();
    env.remove(&a.key);
    let mut count = n(1);
    if let Some(width) = a.width {
        env.insert(width, AxisValue::Poly(var(&LANE)));
        count = m.scope.graph.extent(width).clone();
        m.scope.ranges.insert(&LANE, &count);
    }
    let made = of_rows(a, place.first, state, (context, context_width));
    let before = m.scope.stored.insert(a.node, made);
    let store = crate::emit::map::strip(m, target.node, target.id, target.buffer, &env, n(0), &count);
    m.scope.forget(a.node, before);
    m.scope.inlined.insert(a.node);
    finish.into_iter().chain([store]).collect()
}

/// What is left to do for a row in scratch memory: the weighted sum is divided by the sum of the weights, or a log-sum-exp made.
pub(crate) fn finish_row(
    m: &mut Maker<'_, '_>,
    a: &Attention,
    place: ScoreTile<'_>,
    state: &RowState,
    (context, context_width): (Base, &Dim),
) -> Option<Stmt> {
    let local = place.local();
    let row = address(context, &local * context_width);
    let state_at = &local + &state.at;
    let mut change = |body| {
        let args = vec![row.clone(), Arg::Int(context_width.clone()), address(state.sum, state_at.clone())];
        Some(m.call(body, args))
    };
    match (a.value, a.normaliser) {
        (Some(_), Normaliser::Softmax { zeros }) => change(normalise_row(zeros)),
        (Some(_), Normaliser::Sum) => change(divide_row()),
        (None, Normaliser::Softmax { .. }) => {
            let args = vec![row, address(state.max, state_at.clone()), address(state.sum, state_at)];
            Some(m.call(log_of_row(), args))
        }
        (_, Normaliser::One | Normaliser::Greatest | Normaliser::Running(_) | Normaliser::Mixture) => None,
        (None, Normaliser::Sum) => None,
    }
}

/// The rows of a tile that begins with the row `first`, as what is stored for the attention: what the state of a row holds is read
/// there.
pub(crate) fn of_rows(
    a: &Attention,
    first: &Dim,
    state: RowState,
    (context, context_width): (Base, &Dim),
) -> Stored {
    let one = n(1);
    let (held, held_row, mut offset) = match (a.value, a.normaliser) {
        (None, Normaliser::Sum) => (state.sum, &one, state.at),
        (_, Normaliser::Greatest) => (state.max, &one, state.at),
        (_, Normaliser::Softmax { .. } | Normaliser::Sum | Normaliser::One) => (context, context_width, n(0)),
        (_, Normaliser::Running(_) | Normaliser::Mixture) => unreachable!("these are held"),
    };
    let mut strides: Vec<(AxisId, Dim)> = a.width.into_iter().map(|width| (width, n(1))).collect();
    if let Some(query) = a.query {
        strides.push((query, held_row.clone()));
        offset = &offset - &(first * held_row);
    }
    Maker::scratch_value(held, offset, strides)
}

/// The tile `from..upto` without its mask where the bounds say that all of it is kept, else with it.
fn unmasked_inside(
    range: &TileRange,
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
