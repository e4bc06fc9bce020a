//! Attention of few rows, as in generation: nothing is packed, and keys are split over items.
//!
//! A tile of rows over packed keys pays where every key meets many rows. One row meets each key once: its time is that of
//! reading keys and values, so they are read where they lie, once for all heads of queries that share them, in parts that
//! any number of threads can take (Dao et al., "Flash-Decoding", 2023). A second kernel merges the parts, in their order:
//! the parts depend on the keys alone, so that results do not depend on threads.

use crate::dims::{LANE, n, var};
use crate::emit::maker::{Maker, Target, address, for_loop, let_dim, let_min};
use crate::emit::stream::phase::{Making, store_row, stream};
use crate::emit::stream::row_tile::RowTile;
use crate::emit::stream::softmax::{RowShift, ScoreTile, Softmax, fill};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::attention::split::{Parts, SplitKv};
use crate::plan::layouts::StridedRows;
use crate::plan::scratch::Slot;
use crate::program::kernel::{Arg, Base, Kernel, Kind, Stmt};
use salient_ir::{AxisId, Dim, Symbol};
use salient_vector::body::Elem;
use salient_vector::handle::Handle;
use salient_vector::tile::Shape;
use salient_vector::{Body, Builder, F32, math};

/// The kernel that streams each row over the parts of its keys and keeps its state after each.
pub(crate) fn parts(scope: &mut Scope<'_>, target: Target<'_>, plan: &SplitKv) -> Kernel {
    let g = scope.graph;
    let (tiling, shape) = (scope.options.tiling, scope.options.tiling.tile());
    let SplitKv { attention: a, group, parts: home, .. } = plan;
    let width = a.width.expect("planned with values");
    let part_keys = n(tiling.few_part);
    let mut m = Maker::planned(scope, target, Kind::Attention);
    let mut env = Env::new();
    let outer = home.held.iter().copied().filter(|x| group.as_ref().is_none_or(|g| g.axis != *x));
    m.outer_axes(outer, &mut env);
    let keys = g.extent(a.key).clone();
    let TileRows { row, count, each_query } = tile_rows(&mut m, plan, &mut env);
    let part = m.outer("part", &home.count);
    env.insert(a.key, AxisValue::Poly(var(&LANE)));
    m.scope.ranges.insert(&LANE, &keys);
    let scores = m.scope.find_scores(a.score, &env, &row);
    let rows_of_keys: Vec<StridedRows> = scores
        .iter()
        .map(|s| m.scope.layouts.strided_rows(&m.scope.ranges, s.key, &s.env, s.depth, s.key_axis))
        .map(|rows| rows.expect("planned as rows in memory"))
        .collect();

    let begin = &part * &part_keys;
    let end = m.variable("part_end", &(&keys + &n(1)));
    let tile = RowTile {
        attention: a,
        env: &env,
        shape,
        row: &row,
        first: n(0),
        last: count.clone(),
        most_rows: count.clone(),
        keys: (begin.clone(), var(&end)),
        tile: tiling.few_keys,
        few: true,
        scores: &scores,
        key_loop: &plan.key_loop,
    };
    let mut make = |m: &mut Maker<'_, '_>, t: &Making<'_>| {
        let keys = &rows_of_keys[t.at];
        dots(m, shape, &count, t, keys)
    };
    let streamed = stream(&mut m, &tile, &mut make);
    let mut block = streamed.stmts;

    // The state of each row of the part: the weighted sum, the maximum, the sum of exponentials.
    let wide = g.extent(width).clone();
    let place = ScoreTile { row: &row, first: &n(0), key: &n(0), count: &n(0) };
    let at = home.at(g, &env, &part);
    let context = (streamed.context, &streamed.context_row);
    let keep = keep_part(&mut m, home, &at, &wide, place, &streamed.softmax, context);
    block.push(for_loop(&row, n(0), count.clone(), n(1), vec![keep]));
    if let Some((each, queries)) = each_query {
        block = vec![for_loop(&each, n(0), queries, n(1), block)];
    }
    block.insert(0, let_min(&end, vec![keys.clone(), &begin + &part_keys]));
    m.finish(block, target.node, home.id)
}

/// What the rows of a tile are.
struct TileRows {
    /// The variable that stands for the row.
    row: Symbol,
    /// How many rows there are.
    count: Dim,
    /// The variable of the queries and how many there are, where rows are heads.
    each_query: Option<(Symbol, Dim)>,
}

/// The rows that meet the same keys: the queries, or for each query the heads that share these.
fn tile_rows(m: &mut Maker<'_, '_>, plan: &SplitKv, env: &mut Env) -> TileRows {
    let g = m.scope.graph;
    let (row, count) = queries(m, plan.parts.query, env);
    let Some(group) = &plan.group else { return TileRows { row, count, each_query: None } };
    let shares = m.outer("group", &group.count);
    let head = m.variable(&g.axis(group.axis).name.clone(), &group.size);
    env.insert(group.axis, AxisValue::Poly(&(&shares * &group.size) + &var(&head)));
    TileRows { row: head, count: group.size.clone(), each_query: Some((row, count)) }
}

/// The variable of the queries, and how many there are: one, where no axis has them.
fn queries(m: &mut Maker<'_, '_>, query: Option<AxisId>, env: &mut Env) -> (Symbol, Dim) {
    let count = query.map_or(n(1), |query| m.scope.graph.extent(query).clone());
    let name = query.map_or_else(|| "row".into(), |query| m.axis_name(query));
    let row = m.variable(&name, &count);
    if let Some(query) = query {
        env.insert(query, AxisValue::Poly(var(&row)));
    }
    (row, count)
}

/// Rows of keys whose dot products with one row are summed at once.
const KEYS_AT_ONCE: usize = 8;

/// The dot products of all rows of queries with the keys of a tile.
fn dots(m: &mut Maker<'_, '_>, shape: Shape, count: &Dim, t: &Making<'_>, keys: &StridedRows) -> Vec<Stmt> {
    let sums = shape.rows * shape.vectors;
    let (from, upto) = t.keys;
    let mut out = Vec::new();
    let mut begin = n(0);
    for rows in [4, 2, 1] {
        let row = m.variable("row", count);
        let size = n(rows as i64);
        let whole = &begin + &(&size * &(count - &begin).floor_div(&size).expect("a tile has rows"));
        let end = m.variable("whole", &(count + &n(1)));
        out.push(let_dim(&end, whole));
        let mut block = Vec::new();
        let mut at = from.clone();
        for many in [(sums / rows).clamp(1, KEYS_AT_ONCE / rows.div_ceil(2)), 1] {
            let key = m.variable("key", upto);
            let size = n(many as i64);
            let stop = m.variable("whole_keys", &(upto + &n(1)));
            let whole = &at + &(&size * &(upto - &at).floor_div(&size).expect("a tile has keys"));
            block.push(let_dim(&stop, whole));
            let args = vec![
                address(t.queries, &var(&row) * t.depth),
                address(keys.base, &keys.start + &(&var(&key) * &keys.row)),
                address(t.out.0, &(&var(&row) * t.row) + &(&(&var(&key) - from) + t.out.1)),
                Arg::Int(t.depth.clone()),
                Arg::Int(keys.row.clone()),
                Arg::Int(t.row.clone()),
            ];
            let call = m.call(dot_products(rows, many), args);
            block.push(for_loop(&key, at, var(&stop), size, vec![call]));
            at = var(&stop);
        }
        out.push(for_loop(&row, begin, var(&end), size, block));
        begin = var(&end);
    }
    out
}

/// `out[r, k] = sum over d of q[r, d] * keys[k, d]` for so many rows and keys.
fn dot_products(rows: usize, keys: usize) -> Body {
    let mut b = Builder::new(format!("dots_{rows}x{keys}"));
    let (q, k, out) = (b.input("q"), b.input("k"), b.output("out"));
    let (depth, key_row, out_row) = (b.int_param("depth"), b.int_param("k_row"), b.int_param("out_row"));
    let (mut queries, mut keys_at, mut outs) = (vec![q], vec![k], vec![out]);
    for r in 1..rows {
        queries.push(b.address(Elem::F32, queries[r - 1].at(depth)));
        outs.push(b.address(Elem::F32, outs[r - 1].at(out_row)));
    }
    // Each key is read once: those that follow come nearer meanwhile.
    let mut next = key_row;
    for j in 1..keys {
        next = b.add(next, key_row);
        keys_at.push(b.address(Elem::F32, keys_at[j - 1].at(key_row)));
    }
    let zero = b.f32(0.0);
    let sums = b.lanes(depth, vec![zero; rows * keys], |b, index, mut sums| {
        let left: Vec<F32> = queries.iter().map(|q| b.load::<F32>(q.at(index))).collect();
        let later = b.add(index, next);
        for (j, key) in keys_at.iter().enumerate() {
            b.prefetch(Elem::F32, key.at(later));
            let right = b.load::<F32>(key.at(index));
            for (r, left) in left.iter().enumerate() {
                let sum = &mut sums[r * keys + j];
                *sum = b.fma(*left, right, *sum);
            }
        }
        sums
    });
    for (at, sum) in sums.into_iter().enumerate() {
        let sum = b.hsum(sum);
        b.store(outs[at / keys].at_start().plus((at % keys) as i32).one(), sum);
    }
    b.finish()
}

/// Keeps the state of a row after its part.
fn keep_part(
    m: &mut Maker<'_, '_>,
    home: &Parts,
    at: &Dim,
    wide: &Dim,
    place: ScoreTile<'_>,
    softmax: &Softmax,
    (context, context_row): (Base, &Dim),
) -> Stmt {
    let mut b = Builder::new("keep_part");
    let (x, max, sum, to) = (b.input("x"), b.input("max"), b.input("sum"), b.output("to"));
    let trip = b.int_param("n");
    b.lanes(trip, (), |b, index, ()| {
        let v = b.load::<F32>(x.at(index));
        b.store(to.at(index), v);
    });
    let (max, sum) = (b.load::<F32>(max.at_start().one()), b.load::<F32>(sum.at_start().one()));
    b.store(to.at(trip).one(), max);
    b.store(to.at(trip).plus(1).one(), sum);
    let local = place.local();
    let args = vec![
        address(context, &local * context_row),
        address(softmax.max, local.clone()),
        address(softmax.sum, local),
        address(home.base(), at.clone()),
        Arg::Int(wide.clone()),
    ];
    m.call(b.finish(), args)
}

/// The kernel that merges the parts of each row and stores what follows.
pub(crate) fn merge(scope: &mut Scope<'_>, target: Target<'_>, plan: &SplitKv) -> Kernel {
    let g = scope.graph;
    let SplitKv { attention: a, parts: home, .. } = plan;
    let mut m = Maker::planned(scope, target, Kind::Attention);
    let mut env = Env::new();
    m.outer_axes(home.held.iter().copied(), &mut env);
    let (row, rows) = queries(&mut m, home.query, &mut env);
    let wide = home.width();
    let (context, factors) = (m.scratch(Slot::Context), m.scratch(Slot::Factors));
    let softmax = Softmax::new(&mut m, a, context, wide.clone());
    let first = home.at(g, &env, &n(0));

    let sums = merge_sums(&mut m, plan, &env, &first, factors, softmax.sum);

    let mut b = Builder::new("merge_part");
    let (x, factor, to) = (b.input("x"), b.input("factor"), b.output("to"));
    let trip = b.int_param("n");
    let factor = b.load::<F32>(factor.at_start().one());
    b.lanes(trip, (), |b, index, ()| {
        let (v, sum) = (b.load::<F32>(x.at(index)), b.load::<F32>(to.at(index)));
        let sum = b.fma(v, factor, sum);
        b.store(to.at(index), sum);
    });
    let part = m.variable("part", &home.count);
    let args = vec![
        address(home.base(), &first + &(&var(&part) * &home.size)),
        address(factors, var(&part)),
        address(context, n(0)),
        Arg::Int(wide.clone()),
    ];
    let add = m.call(b.finish(), args);
    let mut block = vec![sums, fill(&mut m, context, &wide, 0.0)];
    block.push(for_loop(&part, n(0), home.count.clone(), n(1), vec![add]));
    let (here, zero) = (var(&row), n(0));
    let place = ScoreTile { row: &row, first: &here, key: &zero, count: &zero };
    block.extend(store_row(&mut m, target, a, &env, place, softmax.state(), (context, &wide)));
    let block = vec![for_loop(&row, n(0), rows, n(1), block)];
    m.finish(block, target.node, target.id)
}

/// What each part of a row is multiplied by, and the row's sum of exponentials, from the states of the parts, the first of which lies at
/// `first`.
fn merge_sums(
    m: &mut Maker<'_, '_>,
    plan: &SplitKv,
    env: &Env,
    first: &Dim,
    factors: Base,
    total: Base,
) -> Stmt {
    let home = &plan.parts;
    let mut b = Builder::new("merge_sums");
    let mut s = Strip::new(m.scope, Visit::Lanes, n(0), &[factors, total]);
    let (count, size) = (s.integer(&mut b, &home.count), s.integer(&mut b, &home.size));
    let states = s.pointer(&mut b, home.base(), &(first + &home.width()));
    let (factor, total) = (s.pointer(&mut b, factors, &n(0)), s.pointer(&mut b, total, &n(0)));
    let (low, zero) = (b.f32(f32::NEG_INFINITY), b.f32(0.0));
    let most = b.lanes(count, low, |b, index, most| {
        let at = b.mul(index, size);
        let max = b.load::<F32>(states.at(at).strided(size));
        b.max(max, most)
    });
    let most = b.hmax(most);
    let sink = plan.sink.map(|sink| F32::from_value(s.root(&mut b, sink, env)));
    let relative = RowShift::new(&mut b, most, sink);
    let sum = b.lanes(count, zero, |b, index, sum| {
        let at = b.mul(index, size);
        let place = states.at(at).strided(size);
        let (max, part) = (b.load::<F32>(place), b.load::<F32>(place.plus(1)));
        let drop = b.sub(max, relative.shift);
        let scale = math::exp_nonpositive(b, drop);
        b.store(factor.at(index), scale);
        b.fma(part, scale, sum)
    });
    let sum = b.hsum(sum);
    let sum = relative.total(&mut b, sum);
    b.store(total.at_start().one(), sum);
    let args = s.finish();
    m.call(b.finish(), args)
}
