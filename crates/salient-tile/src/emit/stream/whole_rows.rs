//! Attention whose scores are kept for all keys of a tile of rows: products first, then each row by itself, then the product
//! with the values.
//!
//! Working memory grows with the number of keys and never with its square. The maximum of a row is final before any exponential
//! is taken, so that nothing is rescaled; a row is reduced as often as its weights ask for.

use crate::dims::{LANE, n, row_major, var};
use crate::emit::maker::{Maker, Target, for_loop, let_min};
use crate::emit::stream::look::flag;
use crate::emit::stream::mixture::Coefficients;
use crate::emit::stream::phase::{Before, Making, pack_query, scores_of, visited};
use crate::emit::stream::row_tile::{RowTile, Sizes};
use crate::emit::stream::score::compute_invariant;
use crate::emit::stream::softmax::{RowState, UNROLL, fill, log_sum};
use crate::emit::stream::tiled::{packed_product, row_block};
use crate::emit::stream::values::{Keys, Values, Weighted, find_not_finite};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::attention::key_loop::{KeyLoop, NanCheck};
use crate::plan::attention::key_range::KeyRange;
use crate::plan::attention::whole_rows::WholeRows;
use crate::plan::attention::{Attention, Normaliser};
use crate::plan::layouts::Stored;
use crate::plan::scratch::{Slot, band_row, whole_row};
use crate::program::kernel::{Base, Int, Kernel, Kind, Stmt};
use salient_ir::{AxisId, Dim, NodeId};
use salient_vector::body::LoopKind;
use salient_vector::handle::Handle;
use salient_vector::tile::Zeros;
use salient_vector::{Builder, F32, Int as IntValue, Ptr, math};

/// The kernel that stores `target.node`, an expression of an attention over the axes of its result.
pub(crate) fn whole_rows(scope: &mut Scope<'_>, target: Target<'_>, plan: &WholeRows) -> Kernel {
    let a = &plan.attention;
    let rows = plan.tile_rows(scope.options.tiling);
    let mut m = Maker::planned(scope, target, Kind::Attention);
    let mut block = row_block(&mut m, target, a, &rows, &plan.heads);
    let mut stmts = std::mem::take(&mut block.stmts);
    let expressions: Vec<NodeId> = plan.members().map(|(a, _)| a.score).collect();
    let products = m.scope.scores_inside(&m.scope.ranges, &expressions, &block.env, &block.row);
    let products = products.expect("the products inside are read at one place each");
    let planned = plan.scores.iter().map(|s| s.product);
    assert!(products.iter().map(|s| s.node).eq(planned), "the products inside scores are those of the plan");
    let tile = block.tile(m.scope, a, &products, &plan.key_loop);
    let mut whole = Whole::new(&mut m, &tile, plan, &mut stmts);
    whole.weigh_rows(&mut m, &mut stmts);
    let mut of_head = Vec::new();
    whole.product(&mut m, &mut of_head);
    let (state, context) = (whole.state(&m), (whole.context, &whole.sizes.context_row));
    of_head.push(block.store(&mut m, target, a, state, context));
    stmts.extend(whole.each_head(&m, a.score, of_head));
    for (node, before) in whole.before.into_iter().rev() {
        m.scope.forget(node, before);
    }
    m.finish(stmts, target.node, target.id)
}

/// Where something of each key of a row is kept.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) base: Base,
    /// The elements between heads, and between rows if more than one is kept.
    pub(crate) heads: Vec<(AxisId, Dim)>,
    pub(crate) row: Option<Dim>,
}

/// What is held of a row.
struct Held {
    /// The reduction itself; a running sum and a mixture have none beside what they leave.
    own: Option<Base>,
    /// The coefficients of a mixture.
    coefficients: Option<Coefficients>,
    /// What is left for each key.
    left: Option<Place>,
}

/// A tile of rows whose scores are made.
pub(crate) struct Whole<'t> {
    pub(crate) tile: &'t RowTile<'t>,
    pub(crate) plan: &'t WholeRows,
    pub(crate) sizes: Sizes,
    /// Elements between the rows of scores.
    pub(crate) row: Dim,
    /// The first key of which scores are there, and one past the last.
    pub(crate) keys: (Dim, Dim),
    held: Vec<Held>,
    /// Where the weights go.
    weights: Place,
    /// Where the greatest score and the sum of the weights of each row go.
    max: Base,
    sum: Base,
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
        m.scope.ranges.insert(&LANE, &keys);
        let (_, begin, end) = visited(m, t, &plan.visits, &sizes.panel, stmts);
        let mut places = Vec::new();
        for (at, product) in t.scores.iter().enumerate() {
            let heads = heads_of(m, plan, product.node);
            let tile_rows = plan.tile_rows(m.scope.options.tiling);
            let is_band = product.shift.is_some();
            let of_row = if is_band { band_row(m.scope.options, &keys, &tile_rows) } else { row.clone() };
            let mut of_head = Vec::new();
            let mut queries = pack_query(m, t, product, &mut of_head);
            queries.heads = strides_of_heads(m, &heads, &(&tile_rows * &of_row));
            queries.at = place_of_head(t.env, &queries.heads);
            let place = Place { base: queries.out, heads: queries.heads.clone(), row: Some(of_row.clone()) };
            m.scope.ranges.insert(&LANE, &keys);
            let mut make =
                |m: &mut Maker<'_, '_>, making: &Making<'_>| packed_product(m, t, making, &plan.scores);
            let widths = (&of_row, &sizes.panel);
            let (made, replaced) = scores_of(m, t, widths, (at, &queries), (&begin, &end), &mut make);
            of_head.extend(made);
            stmts.extend(over_heads(m, t.env, &heads, of_head));
            before.push(replaced);
            places.push(place);
        }
        let mut whole = Whole {
            tile: t,
            plan,
            sizes,
            row,
            keys: (begin, end),
            held: Vec::new(),
            weights: Place { base: Base::Scratch(0), heads: Vec::new(), row: None },
            max: Base::Scratch(0),
            sum: Base::Scratch(0),
            context: Base::Scratch(0),
            before,
        };
        whole.slots(m, &places, stmts);
        whole
    }

    /// Asks for the slots of what is held and of the weights, and packs coefficients.
    fn slots(&mut self, m: &mut Maker<'_, '_>, places: &[Place], stmts: &mut Vec<Stmt>) {
        let plan = self.plan;
        for (at, h) in plan.held.iter().enumerate() {
            let is_weights = plan.ends_in_mixture && at + 1 == plan.held.len();
            let coefficients =
                plan.mixture(m.scope.graph, h).map(|x| Coefficients::pack(m, self, h, x, stmts));
            let is_kept = coefficients.is_none() && h.attention.normaliser != Normaliser::Running;
            let own = is_kept.then(|| m.scratch(Slot::Held));
            let left = h.leaves.as_ref().filter(|_| !is_weights).map(|leaves| match leaves.in_place_of {
                Some(at) => places[at].clone(),
                None => {
                    let (base, heads) = (m.scratch(Slot::Weights), heads_of(m, plan, leaves.node));
                    Place { base, heads: strides_of_heads(m, &heads, &self.row), row: None }
                }
            });
            self.held.push(Held { own, coefficients, left });
        }
        let rows = self.plan.tile_rows(m.scope.options.tiling);
        let heads = heads_of(m, plan, plan.attention.score);
        let heads = strides_of_heads(m, &heads, &(&rows * &self.row));
        let base = match plan.weights_in_place_of(m.scope.graph) {
            Some(at) => places[at].base,
            None => m.scratch(Slot::Weights),
        };
        self.weights = Place { base, heads, row: Some(self.row.clone()) };
        if let Some(last) = self.held.last_mut().filter(|_| plan.ends_in_mixture) {
            last.left = Some(self.weights.clone());
        }
        (self.max, self.sum) = (m.scratch(Slot::Max), m.scratch(Slot::Sum));
        self.context = m.scratch(Slot::Context);
    }

    /// What is held of each row, and its weights.
    fn weigh_rows(&mut self, m: &mut Maker<'_, '_>, stmts: &mut Vec<Stmt>) {
        let (t, plan) = (self.tile, self.plan);
        let mut of_row = Vec::new();
        for at in 0..plan.held.len() {
            self.visit_in(m, &plan.held[at].key_loop.range);
            self.hold(m, at, &mut of_row);
        }
        self.visit_in(m, &plan.key_loop.range);
        if !plan.ends_in_mixture {
            let mut of_head = Vec::new();
            self.weigh_row(m, &mut of_head);
            of_row.extend(self.each_head(m, plan.attention.score, of_head));
        }
        self.visit_in(m, &KeyRange::default());
        stmts.push(for_loop(t.row, t.first.clone(), t.last.clone(), n(1), of_row));
    }

    /// Says that lanes are keys of a range, so that what is read at a distance from them is known to lie inside of its axis.
    fn visit_in(&self, m: &mut Maker<'_, '_>, range: &KeyRange) {
        let KeyRange { ends, .. } = range.at(self.tile.env);
        let keys = m.scope.graph.extent(self.tile.attention.key);
        m.scope.ranges.insert(&LANE, ends.first().unwrap_or(keys));
    }

    /// A block for each of the mixed heads that a node has.
    fn each_head(&self, m: &Maker<'_, '_>, node: NodeId, block: Vec<Stmt>) -> Vec<Stmt> {
        over_heads(m, self.tile.env, &heads_of(m, self.plan, node), block)
    }

    /// Where the state of the rows of a head is.
    fn state(&self, m: &Maker<'_, '_>) -> RowState {
        RowState { max: self.max, sum: self.sum, at: self.first_row(m, self.plan.attention.score) }
    }

    /// The place of the first row among numbers of rows of the heads that a node has.
    fn first_row(&self, m: &Maker<'_, '_>, node: NodeId) -> Dim {
        let rows = self.plan.tile_rows(m.scope.options.tiling);
        place_of_head(self.tile.env, &strides_of_heads(m, &heads_of(m, self.plan, node), &rows))
    }
}

/// The axes of mixed heads that a node has.
pub(crate) fn heads_of(m: &Maker<'_, '_>, plan: &WholeRows, node: NodeId) -> Vec<AxisId> {
    plan.heads_of(m.scope.graph, node)
}

/// The elements between heads of which each has so many.
pub(crate) fn strides_of_heads(m: &Maker<'_, '_>, heads: &[AxisId], size: &Dim) -> Vec<(AxisId, Dim)> {
    let strides = row_major(heads, &m.scope.graph.shape(heads));
    strides.into_iter().map(|(axis, stride)| (axis, &stride * size)).collect()
}

/// The place of the head at hand.
pub(crate) fn place_of_head(env: &Env, heads: &[(AxisId, Dim)]) -> Dim {
    heads.iter().fold(n(0), |place, (axis, stride)| &place + &(&index(env, *axis) * stride))
}

/// What an axis of heads stands for.
pub(crate) fn index(env: &Env, axis: AxisId) -> Dim {
    match env.get(&axis) {
        Some(AxisValue::Poly(d)) => d.clone(),
        Some(AxisValue::Loose(_) | AxisValue::Vector(_)) | None => unreachable!("heads stand for variables"),
    }
}

/// A block for each position of these axes, which stand for variables.
pub(crate) fn over_heads(m: &Maker<'_, '_>, env: &Env, heads: &[AxisId], block: Vec<Stmt>) -> Vec<Stmt> {
    heads.iter().rev().fold(block, |block, axis| {
        let at = index(env, *axis);
        let index = at.as_symbol().expect("heads stand for variables");
        vec![for_loop(index, n(0), m.scope.graph.extent(*axis).clone(), n(1), block)]
    })
}

/// Positions of a row that are visited: the first key, and one past the last.
pub(crate) struct Visited {
    pub(crate) from: Dim,
    pub(crate) upto: Dim,
}

/// What a pass over a row of scores gives beside the exponentials.
#[derive(Clone, Default)]
struct Results<'p> {
    /// Where the logarithm of the sum goes.
    log: Option<(Base, Dim)>,
    /// Where the maximum and the sum go.
    state: Option<[(Base, Dim); 2]>,
    /// Where the exponentials go.
    exponentials: Option<&'p Place>,
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

    /// The place of a key of the row and the head at hand.
    pub(crate) fn at(&self, place: &Place, key: &Dim) -> Dim {
        let head = place_of_head(self.tile.env, &place.heads);
        let row = place.row.as_ref().map_or_else(|| n(0), |row| &self.local() * row);
        &(&head + &row) + &(key - &self.keys.0)
    }

    /// What is kept there as a value that expressions read.
    fn stored(&self, place: &Place) -> Stored {
        let mut strides = vec![(self.plan.attention.key, n(1))];
        strides.extend(place.heads.iter().cloned());
        let mut offset = &n(0) - &self.keys.0;
        if let (Some(row), Some(query)) = (&place.row, self.plan.attention.query) {
            offset = &offset - &(&self.tile.first * row);
            strides.push((query, row.clone()));
        }
        Maker::scratch_value(place.base, offset, strides)
    }

    /// The keys of a range that the row visits.
    pub(crate) fn visited(&self, m: &mut Maker<'_, '_>, range: &KeyRange, stmts: &mut Vec<Stmt>) -> Visited {
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

    /// Computes what is held of the row, with what it leaves behind.
    fn hold(&mut self, m: &mut Maker<'_, '_>, at: usize, stmts: &mut Vec<Stmt>) {
        let held = &self.plan.held[at];
        let a = &held.attention;
        if let Some(coefficients) = &self.held[at].coefficients {
            let to = self.held[at].left.as_ref().expect("a mixture leaves itself behind");
            stmts.extend(coefficients.mix(m, self, held, to));
        } else {
            let mut of_head = Vec::new();
            let keys = self.visited(m, &held.key_loop.range, &mut of_head);
            of_head.extend(self.reduce(m, at, &keys));
            stmts.extend(self.each_head(m, a.score, of_head));
        }
        let query = a.query.expect("planned with rows");
        if let Some(own) = self.held[at].own {
            let rows = self.plan.tile_rows(m.scope.options.tiling);
            let mut strides = strides_of_heads(m, &heads_of(m, self.plan, a.score), &rows);
            strides.push((query, n(1)));
            let value = Maker::scratch_value(own, &n(0) - &self.tile.first, strides);
            self.before.push((a.node, m.scope.stored.insert(a.node, value)));
        }
        if let (Some(leaves), Some(left)) = (&held.leaves, &self.held[at].left) {
            let value = self.stored(left);
            self.before.push((leaves.node, m.scope.stored.insert(leaves.node, value)));
            m.scope.inlined.insert(leaves.node);
        }
    }

    /// A reduction of the row and of the head at hand.
    fn reduce(&self, m: &mut Maker<'_, '_>, at: usize, keys: &Visited) -> Option<Stmt> {
        let held = &self.plan.held[at];
        let (a, Held { own, left, .. }) = (&held.attention, &self.held[at]);
        let row = &self.first_row(m, a.score) + &self.local();
        let own = own.map(|own| (own, row.clone()));
        let of = (a, &held.key_loop);
        match a.normaliser {
            Normaliser::Softmax { .. } => {
                let exponentials = left.as_ref();
                let results = Results { log: own, exponentials, divided: true, ..Results::default() };
                Some(self.exponentials(m, of, keys, results))
            }
            // The running sum that comes next gives it.
            Normaliser::Sum if held.is_end_of_next => None,
            Normaliser::Sum | Normaliser::Greatest | Normaliser::One => {
                Some(self.reduction(m, of, keys, own.expect("a reduction is kept"), None))
            }
            Normaliser::Running => {
                let to = left.as_ref().expect("a running sum leaves itself behind");
                let before = at.checked_sub(1).filter(|before| self.plan.held[*before].is_end_of_next);
                let end = before.and_then(|before| self.held[before].own).map(|own| (own, row));
                Some(self.running_sum(m, of, keys, (to, end)))
            }
            Normaliser::Mixture => unreachable!("heads are mixed by a product"),
        }
    }

    /// The weights of the row, and what they are divided by.
    fn weigh_row(&self, m: &mut Maker<'_, '_>, stmts: &mut Vec<Stmt>) {
        let (a, key_loop) = (&self.plan.attention, &self.plan.key_loop);
        let keys = self.visited(m, &key_loop.range, stmts);
        let weights = a.value.map(|_| &self.weights);
        let row = &self.first_row(m, a.score) + &self.local();
        match a.normaliser {
            Normaliser::Softmax { .. } => {
                let state = Some([self.max, self.sum].map(|base| (base, row.clone())));
                let results = Results { state, exponentials: weights, sink: a.sink, ..Results::default() };
                stmts.push(self.exponentials(m, (a, key_loop), &keys, results));
            }
            Normaliser::Sum | Normaliser::One => {
                stmts.push(self.reduction(m, (a, key_loop), &keys, (self.sum, row), weights));
            }
            Normaliser::Greatest => {
                stmts.push(self.reduction(m, (a, key_loop), &keys, (self.max, row), weights));
            }
            Normaliser::Running | Normaliser::Mixture => unreachable!("these are held"),
        }
    }

    /// Zeros in place of the keys that the row does not visit.
    fn zeros(&self, b: &mut Builder, s: &mut Strip<'_, '_>, place: &Place, keys: &Visited) {
        let (begin, end) = &self.keys;
        for (from, upto) in [(begin, &keys.from), (&keys.upto, end)] {
            if from == upto {
                continue;
            }
            let trip = s.integer(b, &(upto - from));
            let to = s.pointer(b, place.base, &self.at(place, from));
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
        results: Results<'_>,
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let mut b = Builder::new("exponentials_of_row");
        let Results { log, state, exponentials, divided, sink } = results;
        let numbers = log.iter().chain(state.iter().flatten()).map(|(base, _)| *base);
        let written: Vec<Base> = numbers.chain(exponentials.map(|place| place.base)).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &written);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = exponentials.map(|p| s.pointer(&mut b, p.base, &self.at(p, &keys.from)));
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
        if let Some(place) = exponentials {
            self.zeros(&mut b, &mut s, place, keys);
        }
        if let Some(log) = log {
            let y = log_sum(&mut b, max, sum);
            store_one(&mut b, &mut s, &log, y);
        }
        if let Some([max_at, sum_at]) = state {
            store_one(&mut b, &mut s, &max_at, max);
            store_one(&mut b, &mut s, &sum_at, sum);
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
        own: (Base, Dim),
        weights: Option<&Place>,
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let greatest = a.normaliser == Normaliser::Greatest;
        let mut b = Builder::new(if greatest { "greatest_of_row" } else { "sum_of_row" });
        let written: Vec<Base> = [own.0].into_iter().chain(weights.map(|place| place.base)).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &written);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = weights.map(|p| s.pointer(&mut b, p.base, &self.at(p, &keys.from)));
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
        if let Some(place) = weights {
            self.zeros(&mut b, &mut s, place, keys);
        }
        store_one(&mut b, &mut s, &own, total);
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// Zeros in place of the keys of a mixture that the row does not visit.
    pub(crate) fn clear(&self, m: &mut Maker<'_, '_>, keys: &Visited, place: &Place) -> Stmt {
        let mut b = Builder::new("clear_row");
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &[place.base]);
        self.zeros(&mut b, &mut s, place, keys);
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// The scores of a row themselves.
    pub(crate) fn copy(
        &self,
        m: &mut Maker<'_, '_>,
        (a, key_loop): (&Attention, &KeyLoop),
        keys: &Visited,
        out: &Place,
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let mut b = Builder::new("scores_of_row");
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &[out.base]);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = s.pointer(&mut b, out.base, &self.at(out, &keys.from));
        b.repeat(LoopKind::Lanes, UNROLL, trip, (), |b, index, ()| {
            s.enter(index);
            let v = F32::from_value(s.root_of(b, score, self.tile.env, reports));
            b.store(to.at(index), v);
        });
        s.leave();
        self.zeros(&mut b, &mut s, out, keys);
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
        (out, end_at): (&Place, Option<(Base, Dim)>),
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let mut b = Builder::new("running_sum_of_row");
        let written: Vec<Base> = [out.base].into_iter().chain(end_at.iter().map(|(base, _)| *base)).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &written);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = s.pointer(&mut b, out.base, &self.at(out, &keys.from));
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
        if let Some(end_at) = end_at {
            store_one(&mut b, &mut s, &end_at, end);
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
        let head = place_of_head(t.env, &self.weights.heads);
        let weights_at = &head + &(&var(&key) - &self.keys.0);
        let to = Weighted {
            rows: (&t.first, &t.last),
            weights: (self.weights.base, &weights_at, &self.row),
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
fn store_one(b: &mut Builder, s: &mut Strip<'_, '_>, (base, at): &(Base, Dim), value: F32) {
    let to = s.pointer(b, *base, at);
    b.store(to.at_start().one(), value);
}
