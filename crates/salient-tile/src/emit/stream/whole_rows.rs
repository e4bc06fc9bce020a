//! Attention whose scores are kept for all keys of a tile of rows: products first, then each row by itself, then the product
//! with the values.
//!
//! Working memory grows with the number of keys and never with its square. The maximum of a row is final before any exponential
//! is taken, so that nothing is rescaled; a row is reduced as often as its weights ask for.

use crate::dims::{LANE, n, row_major, var};
use crate::emit::maker::{Maker, Target, for_loop, let_min};
use crate::emit::stream::beside::{PartSums, Weights, places_of_weights, sums_of_part};
use crate::emit::stream::look::flag;
use crate::emit::stream::mixture::Coefficients;
use crate::emit::stream::phase::{Before, Making, pack_query, prefetch_queries, scores_of, visited};
use crate::emit::stream::row_passes::Results;
use crate::emit::stream::row_tile::{RowTile, Sizes};
use crate::emit::stream::score::compute_invariant;
use crate::emit::stream::softmax::{RowState, fill};
use crate::emit::stream::tiled::{packed_product, row_block};
use crate::emit::stream::values::{Keys, Values, Weighted, find_not_finite};
use crate::emit::strip::Scope;
use crate::index::{AxisValue, Env};
use crate::plan::attention::key_loop::NanCheck;
use crate::plan::attention::key_range::KeyRange;
use crate::plan::attention::whole_rows::{Leaves, WeightsFrom, WholeRows};
use crate::plan::attention::{Attention, Normaliser};
use crate::plan::layouts::Stored;
use crate::plan::scratch::{Slot, band_row, whole_row};
use crate::program::kernel::{Base, Buffer, Int, Kernel, Kind, Stmt};
use salient_ir::{AxisId, Dim, NodeId};
use salient_vector::tile::Zeros;

/// The kernel that stores `target.node`, an expression of an attention over the axes of its result, and what the plan says
/// beside it; `buffers` are those of the program.
pub(crate) fn whole_rows(
    scope: &mut Scope<'_>,
    target: Target<'_>,
    plan: &WholeRows,
    buffers: &[Buffer],
) -> Kernel {
    let a = &plan.attention;
    let rows = n(plan.tile_rows);
    let mut m = Maker::planned(scope, target, Kind::Attention);
    let parts = plan.parts(m.scope.graph, m.scope.options.tiling);
    let block = row_block(&mut m, target, a, (&rows, parts), &plan.heads);
    let mut stmts = Vec::new();
    let expressions: Vec<NodeId> = plan.members().map(|(a, _)| a.score).collect();
    let products = m.scope.scores_inside(&m.scope.ranges, &expressions, &block.env, &block.row);
    let products = products.expect("the products inside are read at one place each");
    let planned = plan.scores.iter().map(|s| s.product);
    assert!(products.iter().map(|s| s.node).eq(planned), "the products inside scores are those of the plan");
    let tile = block.tile(m.scope, a, &products, &plan.key_loop);
    let mut whole = Whole::new(&mut m, &tile, plan, &mut stmts);
    let around = whole.around_part(&mut m, &block);
    whole.weigh_rows(&mut m, buffers, &mut stmts);
    whole.add_rows(&mut m, &mut stmts);
    let mut of_head = Vec::new();
    let Slots { weights, context, .. } = &whole.slots;
    let own = WeightedValues { tile: &tile, sizes: &whole.sizes, weights, context: *context };
    whole.product(&mut m, &own, &mut of_head);
    let (state, context) = (whole.state(&m), (whole.slots.context, &whole.sizes.context_row));
    // What is copied has been divided by its sum.
    let divided = Attention { normaliser: Normaliser::One, ..a.clone() };
    let of = if matches!(plan.weights, WeightsFrom::Copied(_)) { &divided } else { a };
    of_head.extend(block.store(&mut m, target, of, state, context));
    stmts.extend(whole.each_head(&m, a.score, of_head));
    whole.sum_values(&mut m, (target, &block), buffers, &mut stmts);
    let stmts = block.tiles(&mut m, around, stmts);
    for (node, before) in whole.before.into_iter().rev() {
        m.scope.forget(node, before);
    }
    m.scope.factors.clear();
    let mut kernel = m.finish(stmts, target.node, target.id);
    kernel.writes.extend(plan.beside.iter().map(|beside| beside.buffer));
    kernel
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
pub(crate) struct Held {
    /// The reduction itself; a running sum and a mixture have none beside what they leave.
    own: Option<Base>,
    /// The coefficients of a mixture.
    coefficients: Option<Coefficients>,
    /// What the exponentials that are left are multiplied by.
    pub(crate) factor: Option<Base>,
    /// What is left for each key.
    pub(crate) left: Vec<Place>,
}

/// Values that are summed over the keys of the rows of a tile.
pub(crate) struct WeightedValues<'w> {
    /// The tile, with the sum and its loop over keys.
    pub(crate) tile: &'w RowTile<'w>,
    pub(crate) sizes: &'w Sizes,
    /// The weights of all rows.
    pub(crate) weights: &'w Place,
    /// Where the sums go.
    pub(crate) context: Base,
}

/// Where what comes of the scores goes.
pub(crate) struct Slots {
    held: Vec<Held>,
    weights: Place,
    /// The weights of what is stored beside the attention and sums values under them, of which some are those of the attention.
    pub(crate) weights_beside: Vec<Option<Weights>>,
    /// The sums over the rows of a part, for each key.
    pub(crate) key_sums: Vec<PartSums>,
    /// The greatest score and the sum of the weights of each row.
    pub(crate) max: Base,
    pub(crate) sum: Base,
    context: Base,
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
    pub(crate) slots: Slots,
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
            let tile_rows = n(plan.tile_rows);
            let is_band = product.shift.is_some();
            let of_row = if is_band { band_row(m.scope.options, &keys, &tile_rows) } else { row.clone() };
            let mut of_head = Vec::new();
            let mut queries = pack_query(m, t, product, &mut of_head);
            of_head.extend(prefetch_queries(m, t, product));
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
        let slots = Slots::new(m, (t, plan), &row, &places, stmts);
        Whole { tile: t, plan, sizes, row, keys: (begin, end), slots, before }
    }

    /// What is held of each row, what is stored beside the attention, and the weights.
    fn weigh_rows(&mut self, m: &mut Maker<'_, '_>, buffers: &[Buffer], stmts: &mut Vec<Stmt>) {
        let (t, plan) = (self.tile, self.plan);
        let mut of_row = Vec::new();
        for at in 0..plan.held.len() {
            self.visit_in(m, &plan.held[at].key_loop.range);
            self.hold(m, at, &mut of_row);
        }
        self.store_beside(m, buffers, &mut of_row);
        self.visit_in(m, &plan.key_loop.range);
        match plan.weights {
            WeightsFrom::Scores => {
                let mut of_head = Vec::new();
                self.weigh_row(m, &mut of_head);
                of_row.extend(self.each_head(m, plan.attention.score, of_head));
            }
            WeightsFrom::Held(_) | WeightsFrom::Reduction(_) => {}
            WeightsFrom::Copied(at) => {
                let left = plan.held[at].left().next().expect("it leaves the weights behind");
                let keys = self.visited(m, &plan.key_loop.range, &mut of_row);
                of_row.push(self.copy(m, (left, None), &keys, &self.slots.weights));
            }
        }
        self.visit_in(m, &KeyRange::default());
        stmts.push(for_loop(t.row, t.first.clone(), t.last.clone(), n(1), of_row));
    }

    /// Says that lanes are keys of a range, so that what is read at a distance from them is known to lie inside of its axis.
    pub(crate) fn visit_in(&self, m: &mut Maker<'_, '_>, range: &KeyRange) {
        let KeyRange { ends, .. } = range.at(self.tile.env);
        let keys = m.scope.graph.extent(self.tile.attention.key);
        m.scope.ranges.insert(&LANE, ends.first().unwrap_or(keys));
    }

    /// A block for each of the mixed heads that a node has.
    pub(crate) fn each_head(&self, m: &Maker<'_, '_>, node: NodeId, block: Vec<Stmt>) -> Vec<Stmt> {
        over_heads(m, self.tile.env, &heads_of(m, self.plan, node), block)
    }

    /// Where the state of the rows of a head is.
    fn state(&self, m: &Maker<'_, '_>) -> RowState {
        let itself = match self.plan.weights {
            WeightsFrom::Reduction(at) => self.slots.held[at].own,
            WeightsFrom::Scores | WeightsFrom::Held(_) | WeightsFrom::Copied(_) => None,
        };
        RowState {
            max: itself.unwrap_or(self.slots.max),
            sum: itself.unwrap_or(self.slots.sum),
            at: self.first_row(m, self.plan.attention.score),
        }
    }

    /// The place of the first row among numbers of rows of the heads that a node has.
    fn first_row(&self, m: &Maker<'_, '_>, node: NodeId) -> Dim {
        let rows = n(self.plan.tile_rows);
        place_of_head(self.tile.env, &strides_of_heads(m, &heads_of(m, self.plan, node), &rows))
    }
}

impl Slots {
    /// Asks for the slots of what is held and of the weights, and packs coefficients; `row` are the elements between rows of
    /// scores, `places` those of the products.
    fn new(
        m: &mut Maker<'_, '_>,
        (t, plan): (&RowTile<'_>, &WholeRows),
        row: &Dim,
        places: &[Place],
        stmts: &mut Vec<Stmt>,
    ) -> Slots {
        let mut held = Vec::new();
        for (at, h) in plan.held.iter().enumerate() {
            let mixture = plan.mixture(m.scope.graph, h);
            let coefficients = mixture.map(|x| Coefficients::pack(m, (t, plan), h, x, stmts));
            let own = h.is_kept.then(|| m.scratch(Slot::Held));
            let factor = plan.is_to_be_divided(at).then(|| m.scratch(Slot::Factor));
            let leaves = h.leaves.iter().filter(|_| !plan.is_weights(at));
            let place = |leaves: &Leaves| match leaves.in_place_of {
                Some(at) => places[at].clone(),
                None => {
                    let (base, heads) = (m.scratch(Slot::Weights), heads_of(m, plan, leaves.node));
                    Place { base, heads: strides_of_heads(m, &heads, row), row: None }
                }
            };
            let left = leaves.map(place).collect();
            held.push(Held { own, coefficients, factor, left });
        }
        let of_head = &n(plan.tile_rows) * row;
        let heads = strides_of_heads(m, &heads_of(m, plan, plan.attention.score), &of_head);
        let base = match plan.weights_in_place_of(m.scope.graph) {
            Some(at) => places[at].base,
            None => m.scratch(Slot::Weights),
        };
        let weights = Place { base, heads, row: Some(row.clone()) };
        if let WeightsFrom::Held(at) = plan.weights {
            held[at].left = vec![weights.clone()];
        }
        let weights_beside = places_of_weights(m, plan, row, (&weights, &held));
        let key_sums = sums_of_part(m, plan, &weights_beside);
        let (max, sum) = (m.scratch(Slot::Max), m.scratch(Slot::Sum));
        Slots { held, weights, weights_beside, key_sums, max, sum, context: m.scratch(Slot::Context) }
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

impl Whole<'_> {
    /// The row's position in the tile.
    pub(crate) fn local(&self) -> Dim {
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

    /// The keys of a range that some row of the tile visits, in whole panels: the first, and one past the last.
    pub(crate) fn keys_in(
        &self,
        m: &mut Maker<'_, '_>,
        range: &KeyRange,
        stmts: &mut Vec<Stmt>,
    ) -> (Dim, Dim) {
        if *range == self.plan.visits {
            return self.keys.clone();
        }
        let (_, begin, end) = visited(m, self.tile, range, &self.sizes.panel, stmts);
        (begin, end)
    }

    /// Computes what is held of the row, with what it leaves behind.
    fn hold(&mut self, m: &mut Maker<'_, '_>, at: usize, stmts: &mut Vec<Stmt>) {
        let held = &self.plan.held[at];
        let a = &held.attention;
        if let Some(coefficients) = &self.slots.held[at].coefficients {
            let to = self.slots.held[at].left.first().expect("a mixture leaves itself behind");
            stmts.extend(coefficients.mix(m, self, held, to));
        } else {
            let mut of_head = Vec::new();
            let keys = self.visited(m, &held.key_loop.range, &mut of_head);
            of_head.extend(self.reduce(m, at, &keys));
            stmts.extend(self.each_head(m, a.score, of_head));
        }
        let query = a.query.expect("planned with rows");
        if let Some(own) = self.slots.held[at].own {
            let rows = n(self.plan.tile_rows);
            let mut strides = strides_of_heads(m, &heads_of(m, self.plan, a.score), &rows);
            strides.push((query, n(1)));
            let value = Maker::scratch_value(own, &n(0) - &self.tile.first, strides);
            self.before.push((a.node, m.scope.stored.insert(a.node, value)));
        }
        for (node, left) in held.left().zip(&self.slots.held[at].left) {
            let value = self.stored(left);
            self.before.push((node, m.scope.stored.insert(node, value)));
            m.scope.inlined.insert(node);
            if let Some(factor) = self.slots.held[at].factor {
                let value = Maker::scratch_value(factor, &n(0) - &self.tile.first, vec![(query, n(1))]);
                m.scope.factors.insert(node, value);
            }
        }
    }

    /// Where the greatest score and the sum of the weights of a row are.
    fn state_of(&self, row: &Dim) -> [(Base, Dim); 2] {
        [self.slots.max, self.slots.sum].map(|base| (base, row.clone()))
    }

    /// A reduction of the row and of the head at hand.
    fn reduce(&self, m: &mut Maker<'_, '_>, at: usize, keys: &Visited) -> Option<Stmt> {
        let held = &self.plan.held[at];
        let (a, Held { own, factor, left, .. }) = (&held.attention, &self.slots.held[at]);
        let row = &self.first_row(m, a.score) + &self.local();
        let own = own.map(|own| (own, row.clone()));
        let of = (a, &held.key_loop);
        match a.normaliser {
            Normaliser::Softmax { .. } => {
                let results = Results {
                    log: own,
                    state: self.plan.is_weights(at).then(|| self.state_of(&row)),
                    exponentials: left.first(),
                    factor: factor.map(|factor| (factor, self.local())),
                    divided: !self.plan.heads.is_empty(),
                    sink: None,
                };
                Some(self.exponentials(m, of, keys, results))
            }
            // The running sum that comes next gives it.
            Normaliser::Sum if self.plan.is_end_of_next(at) => None,
            Normaliser::Sum | Normaliser::Greatest | Normaliser::One => {
                let kept: Vec<(NodeId, &Place)> = held.left().zip(left).collect();
                Some(self.reduction(m, of, keys, Some(own.expect("a reduction is kept")), &kept))
            }
            Normaliser::Running(direction) => {
                let to = left.first().expect("a running sum leaves itself behind");
                let before = at.checked_sub(1).filter(|before| self.plan.is_end_of_next(*before));
                let end = before.and_then(|before| self.slots.held[before].own).map(|own| (own, row));
                Some(self.running_sum(m, of, keys, direction, (to, end)))
            }
            Normaliser::Mixture => unreachable!("heads are mixed by a product"),
        }
    }

    /// The weights of the row, and what they are divided by.
    fn weigh_row(&self, m: &mut Maker<'_, '_>, stmts: &mut Vec<Stmt>) {
        let (a, key_loop) = (&self.plan.attention, &self.plan.key_loop);
        let keys = self.visited(m, &key_loop.range, stmts);
        let weights = a.value.map(|_| &self.slots.weights);
        let kept = Vec::from_iter(weights.map(|weights| (key_loop.score_in_range(a), weights)));
        let row = &self.first_row(m, a.score) + &self.local();
        match a.normaliser {
            Normaliser::Softmax { .. } => {
                let state = Some(self.state_of(&row));
                let results = Results { state, exponentials: weights, sink: a.sink, ..Results::default() };
                stmts.push(self.exponentials(m, (a, key_loop), &keys, results));
            }
            // What is not divided by their sum needs none.
            Normaliser::One => stmts.push(self.reduction(m, (a, key_loop), &keys, None, &kept)),
            Normaliser::Sum => {
                let sum = Some((self.slots.sum, row));
                stmts.push(self.reduction(m, (a, key_loop), &keys, sum, &kept));
            }
            Normaliser::Greatest => {
                let greatest = Some((self.slots.max, row));
                stmts.push(self.reduction(m, (a, key_loop), &keys, greatest, &kept));
            }
            Normaliser::Running(_) | Normaliser::Mixture => unreachable!("these are held"),
        }
    }

    /// Adds up the values under their weights. A masked key adds nothing, even where its value is NaN or infinite: where a sum
    /// comes out so it is computed again without the keys of no weight.
    pub(crate) fn product(&self, m: &mut Maker<'_, '_>, of: &WeightedValues<'_>, stmts: &mut Vec<Stmt>) {
        let WeightedValues { tile: t, sizes, weights, context } = of;
        let wide = &(&t.count() * &sizes.context_row);
        let clear = fill(m, *context, wide, 0.0);
        stmts.push(clear.clone());
        let Some(value) = t.attention.value else { return };
        let (begin, end) = self.keys_in(m, &t.key_loop.range, stmts);
        let keys = m.scope.graph.extent(t.attention.key).clone();
        let (key, stop) = (m.variable("key", &keys), m.variable("stop", &(&keys + &n(1))));
        let here = &var(&stop) - &var(&key);
        let of_tile = Keys { first: var(&key), count: here, row: sizes.score_row.clone() };
        let values = Values::new(m, t, value, of_tile, sizes, stmts);
        let head = place_of_head(t.env, &weights.heads);
        let weights_at = &head + &(&var(&key) - &self.keys.0);
        let to = Weighted {
            rows: (&t.first, &t.last),
            weights: (weights.base, &weights_at, &self.row),
            factor: None,
            context: *context,
            context_row: &sizes.context_row,
        };
        let over_keys = |m: &mut Maker<'_, '_>, zeros: Zeros| {
            let limit = let_min(&stop, vec![end.clone(), &var(&key) + &sizes.score_row]);
            let mut tile = vec![limit, values.pack(m, t.attention, t.env)];
            tile.extend(values.weigh(m, zeros, &to));
            for_loop(&key, begin.clone(), end.clone(), sizes.score_row.clone(), tile)
        };
        stmts.push(over_keys(m, Zeros::Multiply));
        if t.key_loop.nan_check != NanCheck::Never {
            let found = m.scratch(Slot::NotFinite);
            stmts.push(fill(m, found, &n(1), 0.0));
            let row = (*context, &self.local() * &sizes.context_row);
            let look = find_not_finite(m, row, &sizes.wide, (found, n(0)));
            stmts.push(t.each_row(look));
            let (read, is_found) = flag(m, found, 0);
            let again = vec![clear, over_keys(m, Zeros::Skip)];
            stmts
                .extend([read, Stmt::If { left: n(0), right: is_found, then: again, otherwise: Vec::new() }]);
        }
    }
}
