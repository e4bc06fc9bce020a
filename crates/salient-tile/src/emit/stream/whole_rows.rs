//! Attention whose scores are kept for all keys of a tile of rows: products first, then each row by itself, then the product
//! with the values.
//!
//! Working memory grows with the number of keys and never with its square. The maximum of a row is final before any exponential
//! is taken, so that nothing is rescaled; a row is reduced as often as its weights ask for.

use crate::dims::{LANE, n, var};
use crate::emit::maker::{Maker, Target, for_loop, let_min};
use crate::emit::stream::look::flag;
use crate::emit::stream::phase::{Before, Making, pack_queries, scores, visited};
use crate::emit::stream::row_tile::{RowTile, Sizes};
use crate::emit::stream::score::compute_invariant;
use crate::emit::stream::softmax::{RowState, UNROLL, fill, log_sum};
use crate::emit::stream::tiled::{packed_product, row_block};
use crate::emit::stream::values::{Keys, Values, Weighted, find_not_finite};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::plan::attention::key_loop::{KeyLoop, NanCheck};
use crate::plan::attention::key_range::KeyRange;
use crate::plan::attention::whole_rows::{RowReduction, WholeRows};
use crate::plan::attention::{Attention, Normaliser};
use crate::plan::scratch::{Slot, whole_row};
use crate::program::kernel::{Base, Int, Kernel, Kind, Stmt};
use salient_ir::{Dim, NodeId};
use salient_vector::body::LoopKind;
use salient_vector::handle::Handle;
use salient_vector::tile::Zeros;
use salient_vector::{Builder, F32, Int as IntValue, Ptr, math};

/// The kernel that stores `target.node`, an expression of an attention over the axes of its result.
pub(crate) fn whole_rows(scope: &mut Scope<'_>, target: Target<'_>, plan: &WholeRows) -> Kernel {
    let a = &plan.attention;
    let rows = n(scope.options.tiling.whole_rows);
    let mut m = Maker::planned(scope, target, Kind::Attention);
    let mut block = row_block(&mut m, target, a, &rows);
    let mut stmts = std::mem::take(&mut block.stmts);
    let expressions: Vec<NodeId> = plan.members().map(|(a, _)| a.score).collect();
    let products = m.scope.scores_inside(&m.scope.ranges, &expressions, &block.env, &block.row);
    let products = products.expect("the products inside are read at one place each");
    let planned = plan.scores.iter().map(|s| s.product);
    assert!(products.iter().map(|s| s.node).eq(planned), "the products inside scores are those of the plan");
    let tile = block.tile(m.scope, a, &products, &plan.key_loop);
    let mut whole = Whole::new(&mut m, &tile, plan, &mut stmts);
    whole.stream(&mut m, &mut stmts);
    stmts.push(block.store(&mut m, target, a, whole.state, (whole.context, &whole.sizes.context_row)));
    for (node, before) in whole.before.into_iter().rev() {
        m.scope.forget(node, before);
    }
    m.finish(stmts, target.node, target.id)
}

/// A tile of rows whose scores are made.
struct Whole<'t> {
    tile: &'t RowTile<'t>,
    plan: &'t WholeRows,
    sizes: Sizes,
    /// Elements between the rows of scores.
    row: Dim,
    /// The first key of which scores are there, and one past the last.
    keys: (Dim, Dim),
    /// What is held of the rows, each with where its exponentials are left, if they are.
    held: Vec<(Base, Option<Base>)>,
    /// Where the weights go.
    weights: Base,
    state: RowState,
    context: Base,
    /// What nodes stood for before their values were stored in scratch memory.
    before: Before,
}

impl<'t> Whole<'t> {
    /// Makes the scores.
    fn new(
        m: &mut Maker<'_, '_>,
        t: &'t RowTile<'t>,
        plan: &'t WholeRows,
        stmts: &mut Vec<Stmt>,
    ) -> Whole<'t> {
        let sizes = Sizes::new(m, t, stmts);
        let keys = m.scope.graph.extent(t.attention.key).clone();
        let row = whole_row(m.scope.options, &keys);
        let (mut before, invariant) = compute_invariant(m, t);
        stmts.extend(invariant);
        let products = pack_queries(m, t, stmts);
        m.scope.ranges.insert(&LANE, &keys);
        let (_, begin, end) = visited(m, t, &plan.visits, &sizes.panel, stmts);
        let mut make =
            |m: &mut Maker<'_, '_>, making: &Making<'_>| packed_product(m, t, making, &plan.scores);
        let (made, replaced) = scores(m, t, (&row, &sizes.panel), &products, (&begin, &end), &mut make);
        stmts.extend(made);
        before.extend(replaced);
        let mut held = Vec::new();
        for h in &plan.held {
            let own = m.scratch(Slot::Held);
            let left = h.leaves.as_ref().map(|leaves| match leaves.in_place_of {
                Some(at) => products[at].out,
                None => m.scratch(Slot::Weights),
            });
            held.push((own, left));
        }
        let weights = match plan.weights_in_place_of() {
            Some(at) => products[at].out,
            None => m.scratch(Slot::Weights),
        };
        let state = RowState { max: m.scratch(Slot::Max), sum: m.scratch(Slot::Sum) };
        let context = m.scratch(Slot::Context);
        Whole { tile: t, plan, sizes, row, keys: (begin, end), held, weights, state, context, before }
    }

    /// What is held of each row, its weights, and the product of those with the values.
    fn stream(&mut self, m: &mut Maker<'_, '_>, stmts: &mut Vec<Stmt>) {
        let (t, plan) = (self.tile, self.plan);
        m.scope.ranges.insert(&LANE, m.scope.graph.extent(t.attention.key));
        let mut of_row = Vec::new();
        for (at, held) in plan.held.iter().enumerate() {
            let before = at.checked_sub(1).filter(|before| plan.held[*before].is_end_of_next);
            let end = before.map(|before| self.held[before].0);
            self.hold(m, held, (self.held[at].0, self.held[at].1, end), &mut of_row);
        }
        self.weigh_row(m, &mut of_row);
        stmts.push(for_loop(t.row, t.first.clone(), t.last.clone(), n(1), of_row));
        self.product(m, stmts);
    }
}

/// Positions of a row that are visited: the first key, and one past the last.
struct Visited {
    from: Dim,
    upto: Dim,
}

/// What a pass over a row of scores gives beside the exponentials.
#[derive(Clone, Copy, Default)]
struct Results {
    /// Where the logarithm of the sum goes.
    log: Option<Base>,
    /// Where the maximum and the sum go.
    state: Option<RowState>,
    /// Where the exponentials go.
    exponentials: Option<Base>,
    /// Whether they are divided by their sum.
    divided: bool,
    /// A further score of the row, which has no value.
    sink: Option<NodeId>,
}

impl Whole<'_> {
    /// The row's position in the tile.
    fn local(&self) -> Dim {
        &var(self.tile.row) - &self.tile.first
    }

    /// The distance of a key's score from the start of a slot.
    fn at(&self, key: &Dim) -> Dim {
        &(&self.local() * &self.row) + &(key - &self.keys.0)
    }

    /// The keys of a range that the row visits.
    fn visited(&self, m: &mut Maker<'_, '_>, range: &KeyRange, stmts: &mut Vec<Stmt>) -> Visited {
        let (begin, end) = &self.keys;
        let KeyRange { begins, ends } = range.at(self.tile.env);
        let keys = m.scope.graph.extent(self.tile.attention.key).clone();
        let mut bound = |word: &str, value: Int| {
            let name = m.variable(word, &(&keys + &n(1)));
            stmts.push(Stmt::Let { var: name.clone(), value });
            var(&name)
        };
        let from = if begins.is_empty() {
            begin.clone()
        } else {
            let low = bound("low", Int::Max(begins.into_iter().chain([begin.clone()]).collect()));
            bound("from", Int::Min(vec![low, end.clone()]))
        };
        let upto = if ends.is_empty() {
            end.clone()
        } else {
            let high = bound("high", Int::Min(ends.into_iter().chain([end.clone()]).collect()));
            bound("upto", Int::Max(vec![high, from.clone()]))
        };
        Visited { from, upto }
    }

    /// Computes a reduction of the row and keeps it, with what it leaves behind.
    fn hold(
        &mut self,
        m: &mut Maker<'_, '_>,
        held: &RowReduction,
        (own, left, end): (Base, Option<Base>, Option<Base>),
        stmts: &mut Vec<Stmt>,
    ) {
        let a = &held.attention;
        let keys = self.visited(m, &held.key_loop.range, stmts);
        match a.normaliser {
            Normaliser::Softmax { .. } => {
                let results =
                    Results { log: Some(own), exponentials: left, divided: true, ..Results::default() };
                stmts.push(self.exponentials(m, (a, &held.key_loop), &keys, results));
            }
            // The running sum that comes next gives it.
            Normaliser::Sum if held.is_end_of_next => {}
            Normaliser::Sum | Normaliser::Greatest | Normaliser::One => {
                stmts.push(self.reduction(m, (a, &held.key_loop), &keys, own, None));
            }
            Normaliser::Running => {
                let to = left.expect("a running sum leaves itself behind");
                stmts.push(self.running_sum(m, (a, &held.key_loop), &keys, (to, end)));
            }
        }
        let query = a.query.expect("planned with rows");
        if a.normaliser != Normaliser::Running {
            let value = Maker::scratch_value(own, &n(0) - &self.tile.first, vec![(query, n(1))]);
            self.before.push((a.node, m.scope.stored.insert(a.node, value)));
        }
        if let (Some(leaves), Some(left)) = (&held.leaves, left) {
            let offset = &n(0) - &(&(&self.tile.first * &self.row) + &self.keys.0);
            let value = Maker::scratch_value(left, offset, vec![(query, self.row.clone()), (a.key, n(1))]);
            self.before.push((leaves.node, m.scope.stored.insert(leaves.node, value)));
            m.scope.inlined.insert(leaves.node);
        }
    }

    /// The weights of the row, and what they are divided by.
    fn weigh_row(&self, m: &mut Maker<'_, '_>, stmts: &mut Vec<Stmt>) {
        let (a, key_loop) = (&self.plan.attention, &self.plan.key_loop);
        let keys = self.visited(m, &key_loop.range, stmts);
        let weights = a.value.map(|_| self.weights);
        match a.normaliser {
            Normaliser::Softmax { .. } => {
                let state = Some(self.state);
                let results = Results { state, exponentials: weights, sink: a.sink, ..Results::default() };
                stmts.push(self.exponentials(m, (a, key_loop), &keys, results));
            }
            Normaliser::Sum | Normaliser::One => {
                stmts.push(self.reduction(m, (a, key_loop), &keys, self.state.sum, weights));
            }
            Normaliser::Greatest => {
                stmts.push(self.reduction(m, (a, key_loop), &keys, self.state.max, weights));
            }
            Normaliser::Running => unreachable!("a running sum is held"),
        }
    }

    /// Zeros in place of the keys that the row does not visit.
    fn zeros(&self, b: &mut Builder, s: &mut Strip<'_, '_>, base: Base, keys: &Visited) {
        let (begin, end) = &self.keys;
        for (from, upto) in [(begin, &keys.from), (&keys.upto, end)] {
            if from == upto {
                continue;
            }
            let trip = s.integer(b, &(upto - from));
            let to = s.pointer(b, base, &self.at(from));
            let zero = b.f32(0.0);
            b.lanes(trip, (), |b, index, ()| b.store(to.at(index), zero));
        }
    }

    /// Exponentials of a row of scores, relative to the greatest, with their sum.
    fn exponentials(
        &self,
        m: &mut Maker<'_, '_>,
        (a, key_loop): (&Attention, &KeyLoop),
        keys: &Visited,
        results: Results,
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let mut b = Builder::new("exponentials_of_row");
        let Results { log, state, exponentials, divided, sink } = results;
        let written: Vec<Base> = log
            .into_iter()
            .chain(state.into_iter().flat_map(|s| [s.max, s.sum]))
            .chain(exponentials)
            .collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &written);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = exponentials.map(|base| s.pointer(&mut b, base, &self.at(&keys.from)));
        let (low, zero) = (b.f32(f32::NEG_INFINITY), b.f32(0.0));
        let max = b.repeat(LoopKind::Lanes, UNROLL, trip, low, |b, index, max| {
            s.enter(index);
            let v = F32::from_value(s.root_of(b, score, self.tile.env, reports));
            store_at(b, to, index, v);
            b.max(v, max)
        });
        s.leave();
        let max = b.hmax(max);
        let sink = sink.map(|sink| F32::from_value(s.root(&mut b, sink, self.tile.env)));
        let max = sink.map_or(max, |sink| b.max(sink, max));
        // Nothing kept: any shift will do, and -inf would make NaN of -inf - -inf.
        let empty = b.eq(max, low);
        let shift = b.select(empty, zero, max);
        let sum = b.repeat(LoopKind::Lanes, UNROLL, trip, zero, |b, index, sum| {
            s.enter(index);
            let v = match to {
                Some(to) => b.load::<F32>(to.at(index)),
                None => F32::from_value(s.value(b, score, self.tile.env)),
            };
            let v = b.sub(v, shift);
            let e = math::exp_weight(b, v);
            store_at(b, to, index, e);
            b.add(sum, e)
        });
        s.leave();
        let sum = b.hsum(sum);
        let beside = sink.map(|sink| {
            let drop = b.sub(sink, shift);
            math::exp_nonpositive(&mut b, drop)
        });
        let sum = beside.map_or(sum, |beside| b.add(sum, beside));
        if let (Some(to), true) = (to, divided) {
            let (nothing, one) = (b.eq(sum, zero), b.f32(1.0));
            let divisor = b.select(nothing, one, sum);
            let factor = b.div(one, divisor);
            b.repeat(LoopKind::Lanes, UNROLL, trip, (), |b, index, ()| {
                let e = b.load::<F32>(to.at(index));
                let e = b.mul(e, factor);
                b.store(to.at(index), e);
            });
        }
        if let Some(base) = exponentials {
            self.zeros(&mut b, &mut s, base, keys);
        }
        let local = self.local();
        if let Some(log) = log {
            let y = log_sum(&mut b, max, sum);
            store_one(&mut b, &mut s, log, &local, y);
        }
        if let Some(RowState { max: max_at, sum: sum_at }) = state {
            store_one(&mut b, &mut s, max_at, &local, max);
            store_one(&mut b, &mut s, sum_at, &local, sum);
        }
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// The sum or the greatest of a row of scores, which become the weights if there is a place for these.
    fn reduction(
        &self,
        m: &mut Maker<'_, '_>,
        (a, key_loop): (&Attention, &KeyLoop),
        keys: &Visited,
        own: Base,
        weights: Option<Base>,
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let greatest = a.normaliser == Normaliser::Greatest;
        let mut b = Builder::new(if greatest { "greatest_of_row" } else { "sum_of_row" });
        let written: Vec<Base> = [own].into_iter().chain(weights).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &written);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = weights.map(|base| s.pointer(&mut b, base, &self.at(&keys.from)));
        let start = b.f32(if greatest { f32::NEG_INFINITY } else { 0.0 });
        let clean = b.mask(false);
        // The vector operator for the greatest loses a NaN; whether there was one is carried beside.
        let (total, nan) =
            b.repeat(LoopKind::Lanes, UNROLL, trip, (start, clean), |b, index, (total, nan)| {
                s.enter(index);
                let v = F32::from_value(s.root_of(b, score, self.tile.env, reports));
                store_at(b, to, index, v);
                if greatest {
                    let bad = b.ne(v, v);
                    (b.max(v, total), b.or(nan, bad))
                } else {
                    (b.add(total, v), nan)
                }
            });
        s.leave();
        let total = if greatest {
            let (most, nan, value) = (b.hmax(total), b.hany(nan), b.f32(f32::NAN));
            b.select(nan, value, most)
        } else {
            b.hsum(total)
        };
        if let Some(base) = weights {
            self.zeros(&mut b, &mut s, base, keys);
        }
        store_one(&mut b, &mut s, own, &self.local(), total);
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// The running sum of a row of scores: the scores; within each vector the sums of one, two, four and eight before it, after
    /// Hillis and Steele, "Data parallel algorithms", 1986; then what the vectors before come to. Its end is
    /// the sum of the row.
    fn running_sum(
        &self,
        m: &mut Maker<'_, '_>,
        (a, key_loop): (&Attention, &KeyLoop),
        keys: &Visited,
        (out, end_at): (Base, Option<Base>),
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let mut b = Builder::new("running_sum_of_row");
        let written: Vec<Base> = [out].into_iter().chain(end_at).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &written);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = s.pointer(&mut b, out, &self.at(&keys.from));
        b.repeat(LoopKind::Lanes, UNROLL, trip, (), |b, index, ()| {
            s.enter(index);
            let v = F32::from_value(s.root_of(b, score, self.tile.env, reports));
            b.store(to.at(index), v);
        });
        s.leave();
        for before in [1, 2, 4, 8] {
            b.lanes(trip, (), |b, index, ()| {
                let (lane, distance) = (b.lane_id(), b.i32(before));
                let is_inside = b.le(distance, lane);
                let own = b.load::<F32>(to.at(index));
                let other = b.load::<F32>(to.at(index).plus(-before).masked(is_inside));
                let sum = b.add(own, other);
                b.store(to.at(index), sum);
            });
        }
        let zero = b.f32(0.0);
        let end = b.lanes(trip, zero, |b, index, carry| {
            let (lanes, one) = (b.lane_count(), b.int(1));
            let next = b.add(index, lanes);
            let end = b.min(next, trip);
            let last = b.sub(end, one);
            let total = b.load::<F32>(to.at(last).one());
            let own = b.load::<F32>(to.at(index));
            let sum = b.add(own, carry);
            b.store(to.at(index), sum);
            b.add(carry, total)
        });
        self.zeros(&mut b, &mut s, out, keys);
        if let Some(base) = end_at {
            store_one(&mut b, &mut s, base, &self.local(), end);
        }
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// Adds up the values under their weights. A masked key adds nothing, even where its value is NaN or infinite: where a sum
    /// comes out so it is computed again without the keys of no weight.
    fn product(&self, m: &mut Maker<'_, '_>, stmts: &mut Vec<Stmt>) {
        let (t, plan) = (self.tile, self.plan);
        let wide = &(&t.count() * &self.sizes.context_row);
        let clear = fill(m, self.context, wide, 0.0);
        stmts.push(clear.clone());
        let Some(value) = t.attention.value else { return };
        let (begin, end) = if plan.key_loop.range == plan.visits {
            self.keys.clone()
        } else {
            let (_, begin, end) = visited(m, t, &plan.key_loop.range, &self.sizes.panel, stmts);
            (begin, end)
        };
        let keys = m.scope.graph.extent(t.attention.key).clone();
        let (key, stop) = (m.variable("key", &keys), m.variable("stop", &(&keys + &n(1))));
        let here = &var(&stop) - &var(&key);
        let of_tile = Keys { first: var(&key), count: here, row: self.sizes.score_row.clone() };
        let values = Values::new(m, t, value, of_tile, &self.sizes, stmts);
        let weights_at = &var(&key) - &self.keys.0;
        let to = Weighted {
            rows: (&t.first, &t.last),
            weights: (self.weights, &weights_at, &self.row),
            factor: None,
            context: self.context,
            context_row: &self.sizes.context_row,
        };
        let over_keys = |m: &mut Maker<'_, '_>, zeros: Zeros| {
            let limit = let_min(&stop, vec![end.clone(), &var(&key) + &self.sizes.score_row]);
            let mut tile = vec![limit, values.pack(m, t.attention, t.env)];
            tile.extend(values.weigh(m, zeros, &to));
            for_loop(&key, begin.clone(), end.clone(), self.sizes.score_row.clone(), tile)
        };
        stmts.push(over_keys(m, Zeros::Multiply));
        if plan.key_loop.nan_check != NanCheck::Never {
            let found = m.scratch(Slot::NotFinite);
            stmts.push(fill(m, found, &n(1), 0.0));
            let row = (self.context, &self.local() * &self.sizes.context_row);
            let look = find_not_finite(m, row, &self.sizes.wide, found);
            stmts.push(t.each_row(look));
            let (read, is_found) = flag(m, found, 0);
            let again = vec![clear, over_keys(m, Zeros::Skip)];
            stmts
                .extend([read, Stmt::If { left: n(0), right: is_found, then: again, otherwise: Vec::new() }]);
        }
    }
}

/// Stores the elements of a vector, if there is a place for them.
fn store_at(b: &mut Builder, to: Option<Ptr>, index: IntValue, value: F32) {
    if let Some(to) = to {
        b.store(to.at(index), value);
    }
}

/// Stores a number of the row.
fn store_one(b: &mut Builder, s: &mut Strip<'_, '_>, base: Base, at: &Dim, value: F32) {
    let to = s.pointer(b, base, at);
    b.store(to.at_start().one(), value);
}
