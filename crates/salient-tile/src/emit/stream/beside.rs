//! What the kernel of an attention over whole rows of scores stores beside it: numbers of each row, other weighted sums over the keys,
//! and sums over rows for each key or each distance, of scores or of values of the rows under scores. Rows go in parts; each part has
//! sums of its own, so that threads do not meet, and a kernel adds them up.

use crate::dims::{LANE, ceil_div, n, var};
use crate::emit::gemm::{Operands, tiles_into};
use crate::emit::maker::{Maker, Target, address, for_loop, let_min};
use crate::emit::pack::{Packed, Span, pack_panel};
use crate::emit::stream::look::flag;
use crate::emit::stream::row_tile::Sizes;
use crate::emit::stream::softmax::{RowState, UNROLL, fill, scale_row};
use crate::emit::stream::tiled::RowBlock;
use crate::emit::stream::values::find_not_finite;
use crate::emit::stream::whole_rows::{
    Held, Place, Visited, WeightedValues, Whole, heads_of, index, over_heads, place_of_head, strides_of_heads,
};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::attention::beside::{Beside, BesideOf, Distances, KeySum, RowValue, SumOverRows, SumParts};
use crate::plan::attention::key_range::KeyRange;
use crate::plan::attention::whole_rows::{WeightsBeside, WholeRows};
use crate::plan::scratch::{Slot, padded};
use crate::program::kernel::{Arg, Base, Buffer, BufferId, Kernel, Kind, Stmt};
use salient_ir::{AxisId, Dim, Symbol};
use salient_vector::body::LoopKind;
use salient_vector::handle::Handle;
use salient_vector::tile::{Into, Zeros};
use salient_vector::{Body, Builder, F32};

/// A part of the rows of an attention, of which the sums for each key lie together.
pub(crate) struct RowPart {
    /// Its number.
    pub(crate) number: Dim,
    /// The number of a tile of rows, and how many there are in all parts.
    tile: Symbol,
    tiles: Dim,
    /// How many parts there are.
    parts: Dim,
}

impl RowPart {
    /// The part that an item has, of so many tiles of rows in so many parts.
    pub(crate) fn of_item(m: &mut Maker<'_, '_>, (tiles, parts): (Dim, Dim)) -> RowPart {
        let number = m.outer("part", &parts);
        let tile = m.variable("block", &tiles);
        RowPart { number, tile, tiles, parts }
    }

    /// The number of the tile at hand.
    pub(crate) fn tile(&self) -> Dim {
        var(&self.tile)
    }

    /// A block for each tile of the part.
    pub(crate) fn each_tile(&self, m: &mut Maker<'_, '_>, block: Vec<Stmt>) -> Vec<Stmt> {
        let of_part = ceil_div(&self.tiles, &self.parts);
        let begin = &self.number * &of_part;
        let stop = m.variable("part_end", &(&self.tiles + &n(1)));
        let end = let_min(&stop, vec![self.tiles.clone(), &begin + &of_part]);
        vec![end, for_loop(&self.tile, begin, var(&stop), n(1), block)]
    }
}

/// Where the first of the sums along `axis` lies in the buffer of parts, for a part of so many and what `env` says of the axes around.
fn place(
    m: &Maker<'_, '_>,
    (around, axis): (&[AxisId], AxisId),
    env: &Env,
    (part, parts): (&Dim, &Dim),
) -> Dim {
    let g = m.scope.graph;
    let around = around.iter().fold(n(0), |at, axis| &(&at * g.extent(*axis)) + &index(env, *axis));
    &(&(&around * parts) + part) * g.extent(axis)
}

/// Where the sums of a part are while its rows are added up.
pub(crate) struct PartSums {
    sums: Base,
    /// The mixed heads of which there are sums, with the elements between them.
    heads: Vec<(AxisId, Dim)>,
    /// The product that is added to them, if they are of values.
    product: Option<RowProduct>,
}

/// Weights of the values of rows, or of keys.
#[derive(Clone)]
pub(crate) struct Weights {
    pub(crate) place: Place,
    /// What they are still to be multiplied by, a number for each row of the tile.
    factor: Option<Base>,
}

/// A product of the scores of the rows of a tile with the values of these rows.
struct RowProduct {
    /// The weights of each row: those of the attention, or others.
    weights: Weights,
    /// The values of the rows of a tile in panels, and whether one of them is not finite.
    values: Base,
    not_finite: Base,
    value: RowValue,
    /// The columns, and those of all panels.
    wide: Dim,
    padded: Dim,
}

/// Where the weights are of what is stored beside an attention, for each that sums values under weights; those of the attention are at
/// `own`, and `row` are the elements between rows of scores.
pub(crate) fn places_of_weights(
    m: &mut Maker<'_, '_>,
    plan: &WholeRows,
    row: &Dim,
    (own, held): (&Place, &[Held]),
) -> Vec<Option<Weights>> {
    let mut places: Vec<Option<Weights>> = Vec::new();
    for at in 0..plan.beside.len() {
        let place = plan.weights_beside(m.scope.graph, at).map(|weights| match weights {
            WeightsBeside::Attention => Weights { place: own.clone(), factor: None },
            WeightsBeside::Another(at) => places[at].clone().expect("it sums values under these weights"),
            WeightsBeside::Exponentials(at) => {
                let place = held[at].left.first().expect("it leaves exponentials behind").clone();
                Weights { place, factor: held[at].factor }
            }
            WeightsBeside::Own => {
                let (of, _) = plan.beside[at].weighted().expect("it sums values under weights");
                let heads = heads_of(m, plan, of.score);
                let heads = strides_of_heads(m, &heads, &(&n(plan.tile_rows) * row));
                let place = Place { base: m.scratch(Slot::RowWeights), heads, row: Some(row.clone()) };
                Weights { place, factor: None }
            }
        });
        places.push(place);
    }
    places
}

/// Where the sums over rows are, in order, given where the weights of what is stored beside the attention are.
pub(crate) fn sums_of_part(
    m: &mut Maker<'_, '_>,
    plan: &WholeRows,
    weights: &[Option<Weights>],
) -> Vec<PartSums> {
    let of_sum = |(sum, weights): (&KeySum, &Option<Weights>)| {
        let sums = m.scratch(Slot::KeySums);
        let of_head = m.scope.graph.extent(sum.of.axis()).clone();
        let columns = sum.of.width().map(|axis| padded(m.scope.options, m.scope.graph.extent(axis)));
        let heads = heads_of(m, plan, sum.of.node());
        let heads = strides_of_heads(m, &heads, &columns.map_or(of_head.clone(), |wide| &of_head * &wide));
        let product = sum.of.value.map(|value| {
            let weights = weights.clone().expect("it sums values under weights");
            let wide = m.scope.graph.extent(value.width).clone();
            let padded = padded(m.scope.options, &wide);
            let (values, not_finite) = (m.scratch(Slot::RowValues), m.scratch(Slot::NotFinite));
            RowProduct { weights, values, not_finite, value, wide, padded }
        });
        PartSums { sums, heads, product }
    };
    let with_weights = plan.beside.iter().zip(weights);
    with_weights.filter_map(|(beside, weights)| Some((beside.key_sum()?, weights))).map(of_sum).collect()
}

impl Whole<'_> {
    /// Before the first tile of a part no row has been added up; after the last its sums are stored.
    pub(crate) fn around_part(&self, m: &mut Maker<'_, '_>, block: &RowBlock) -> [Vec<Stmt>; 2] {
        let Some(part) = &block.part else { return [Vec::new(), Vec::new()] };
        let of_sum = |beside: &'_ Beside| Some((beside.buffer, beside.key_sum()?.of.clone()));
        let sums: Vec<(BufferId, SumOverRows)> = self.plan.beside.iter().filter_map(of_sum).collect();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for ((buffer, sum), PartSums { sums, heads, product }) in sums.into_iter().zip(&self.slots.key_sums) {
            let axis = sum.axis();
            let keys = m.scope.graph.extent(axis).clone();
            let around = sum.around(m.scope.graph);
            let at = place(m, (&around, axis), self.tile.env, (&part.number, &part.parts));
            let of_head = place_of_head(self.tile.env, heads);
            let heads: Vec<AxisId> = heads.iter().map(|(axis, _)| *axis).collect();
            let count =
                &m.scope.graph.shape(&heads).iter().fold(n(1), |count, extent| &count * extent) * &keys;
            let store = match product {
                None => {
                    before.push(fill(m, *sums, &count, 0.0));
                    let to = address(Base::Buffer(buffer), at);
                    m.call(store_sums(), vec![to, address(*sums, of_head), Arg::Int(keys)])
                }
                Some(RowProduct { wide, padded, .. }) => {
                    before.push(fill(m, *sums, &(&count * padded), 0.0));
                    let name = m.variable("key", &keys);
                    let to = address(Base::Buffer(buffer), &(&at + &var(&name)) * wide);
                    let from = address(*sums, &of_head + &(&var(&name) * padded));
                    let store = m.call(store_sums(), vec![to, from, Arg::Int(wide.clone())]);
                    for_loop(&name, n(0), keys, n(1), vec![store])
                }
            };
            after.extend(over_heads(m, self.tile.env, &heads, vec![store]));
        }
        [before, after]
    }

    /// The results of a row beside its attention.
    pub(crate) fn store_beside(&self, m: &mut Maker<'_, '_>, buffers: &[Buffer], stmts: &mut Vec<Stmt>) {
        let mut key_sums = self.slots.key_sums.iter();
        for (at, beside) in self.plan.beside.iter().enumerate() {
            self.copy_weights(m, at, stmts);
            match &beside.of {
                BesideOf::Row => {
                    let mut env = self.tile.env.clone();
                    env.remove(&self.plan.attention.key);
                    let (id, one) = (beside.buffer, n(1));
                    let buffer = &buffers[id.0];
                    let strip = crate::emit::map::strip(m, beside.node, id, buffer, &env, n(0), &one);
                    stmts.extend(self.each_head(m, beside.node, vec![strip]));
                    m.scope.inlined.insert(beside.node);
                }
                BesideOf::Key(sum) => {
                    let to = key_sums.next().expect("each sum over rows has a slot");
                    if to.product.is_none() {
                        self.visit_in(m, &sum.key_loop.range);
                        let mut of_head = Vec::new();
                        let keys = self.visited(m, &sum.key_loop.range, &mut of_head);
                        of_head.push(self.add_row(m, sum, &keys, to));
                        stmts.extend(self.each_head(m, sum.of.node(), of_head));
                    }
                }
                // Summed when the weights of all rows of the tile are there.
                BesideOf::Values(_) => {}
            }
        }
    }

    /// The weights of a row for what is stored beside at a position, where it has weights of its own.
    fn copy_weights(&self, m: &mut Maker<'_, '_>, at: usize, stmts: &mut Vec<Stmt>) {
        let weighted = self.plan.beside[at].weighted();
        let own = (self.plan.weights_beside(m.scope.graph, at) == Some(WeightsBeside::Own))
            .then_some(weighted)
            .flatten();
        let (Some((a, key_loop)), Some(weights)) = (own, &self.slots.weights_beside[at]) else { return };
        self.visit_in(m, &key_loop.range);
        let mut of_head = Vec::new();
        let keys = self.visited(m, &key_loop.range, &mut of_head);
        let of = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        of_head.push(self.copy(m, of, &keys, &weights.place));
        stmts.extend(self.each_head(m, a.score, of_head));
    }

    /// The weighted sums over keys of the rows of the tile beside the attention, each of which goes to its place.
    pub(crate) fn sum_values(
        &self,
        m: &mut Maker<'_, '_>,
        (target, block): (Target<'_>, &RowBlock),
        buffers: &[Buffer],
        stmts: &mut Vec<Stmt>,
    ) {
        for (at, beside) in self.plan.beside.iter().enumerate() {
            let (Some(sum), Some(weights)) = (beside.value_sum(), &self.slots.weights_beside[at]) else {
                continue;
            };
            let a = &sum.attention;
            self.visit_in(m, &KeyRange::default());
            let tile = block.tile(m.scope, a, self.tile.scores, &sum.key_loop);
            let mut of_head = Vec::new();
            let sizes = Sizes::new(m, &tile, &mut of_head);
            let context = m.scratch(Slot::Context);
            assert!(weights.factor.is_none(), "these weights are whole");
            let weights = &weights.place;
            self.product(m, &WeightedValues { tile: &tile, sizes: &sizes, weights, context }, &mut of_head);
            let to =
                Target { node: beside.node, id: beside.buffer, buffer: &buffers[beside.buffer.0], ..target };
            let state = RowState { max: self.slots.max, sum: self.slots.sum, at: n(0) };
            of_head.extend(block.store(m, to, a, state, (context, &sizes.context_row)));
            stmts.extend(self.each_head(m, a.score, of_head));
        }
    }

    /// Adds the values of the rows of the tile, under their weights, to the sums of each key. A weight of zero adds nothing, even where the
    /// value is NaN or infinite.
    pub(crate) fn add_rows(&self, m: &mut Maker<'_, '_>, stmts: &mut Vec<Stmt>) {
        for (at, to) in self.slots.key_sums.iter().enumerate() {
            let Some(product) = &to.product else { continue };
            let sum = self.plan.key_sums().nth(at).expect("each has its own");
            let rows = self.tile.count();
            let mut of_head = self.pack_rows(m, product, &rows);
            let (begin, end) = self.keys_in(m, &sum.key_loop.range, &mut of_head);
            let (read, is_found) = flag(m, product.not_finite, 0);
            let [otherwise, then] = [Zeros::Multiply, Zeros::Skip]
                .map(|zeros| self.multiply_rows(m, (to, product), zeros, &rows, (&begin, &end)));
            of_head.extend([
                read,
                Stmt::If { left: n(0), right: is_found, then: vec![then], otherwise: vec![otherwise] },
            ]);
            stmts.extend(self.each_head(m, sum.of.node(), of_head));
        }
    }

    /// The values of the rows of the tile in panels, and whether one of them is not finite.
    fn pack_rows(&self, m: &mut Maker<'_, '_>, product: &RowProduct, rows: &Dim) -> Vec<Stmt> {
        let RowProduct { weights, values, not_finite, value, wide, padded } = product;
        let width = &self.sizes.panel;
        let query = self.plan.attention.query;
        let column = m.variable("column", padded);
        let edge = m.variable("edge", &(wide + &n(1)));
        let from = var(&column);
        let offset = &from * rows;
        let over_rows = Span { axis: query, from: self.tile.first.clone(), count: rows.clone() };
        let over_width = Span { axis: Some(value.width), from: from.clone(), count: &var(&edge) - &from };
        let to = Packed { base: *values, offset, outer: width.clone(), inner: n(1) };
        let mut env = self.tile.env.clone();
        env.retain(|axis, _| ![Some(self.plan.attention.key), query].contains(&Some(*axis)));
        let limit = let_min(&edge, vec![wide.clone(), &from + width]);
        let mut of_panel =
            vec![limit, pack_panel(m, "pack_rows", value.node, &env, (&over_rows, &over_width), &to)];
        if let Some(factor) = weights.factor {
            let row = address(*values, &(&from * rows) + &(&self.local() * width));
            let args = vec![row, Arg::Int(width.clone()), address(factor, self.local())];
            let scale = m.call(scale_row(), args);
            of_panel.push(self.tile.each_row(scale));
        }
        let each_panel = for_loop(&column, n(0), padded.clone(), width.clone(), of_panel);
        // Columns that fill up the last panel are zeros, which are finite.
        let clear = vec![fill(m, *values, &(rows * padded), 0.0)];
        let clear =
            Stmt::If { left: wide.clone(), right: padded.clone(), then: clear, otherwise: Vec::new() };
        let look = find_not_finite(m, (*values, n(0)), &(rows * padded), (*not_finite, n(0)));
        vec![clear, each_panel, fill(m, *not_finite, &n(1), 0.0), look]
    }

    /// The product of the weights, a row for each key, with the values of the rows.
    fn multiply_rows(
        &self,
        m: &mut Maker<'_, '_>,
        (to, product): (&PartSums, &RowProduct),
        zeros: Zeros,
        rows: &Dim,
        (begin, end): (&Dim, &Dim),
    ) -> Stmt {
        let column = m.variable("column", &product.padded);
        let at = var(&column);
        let weights = &product.weights.place;
        let step = weights.row.as_ref().expect("they are of all rows of the tile");
        let first = &place_of_head(self.tile.env, &weights.heads) + &(begin - &self.keys.0);
        let sums = &place_of_head(self.tile.env, &to.heads) + &(begin * &product.padded);
        let operands = Operands {
            left: (weights.base, &first, &n(1)),
            left_step: Some(step),
            panel: (product.values, &(&at * rows)),
            panel_row: None,
            depth: rows,
            dest: (to.sums, &(&sums + &at), &product.padded),
            factors: None,
            ahead: None,
        };
        let block = tiles_into(m, self.tile.shape, (zeros, Into::Add), (begin, end), &operands);
        for_loop(&column, n(0), product.padded.clone(), self.sizes.panel.clone(), block)
    }

    /// Adds a row of scores to what earlier rows of the part came to, at each key or at the distance of the key from the row.
    fn add_row(
        &self,
        m: &mut Maker<'_, '_>,
        KeySum { of, key_loop }: &KeySum,
        keys: &Visited,
        PartSums { sums, heads, .. }: &PartSums,
    ) -> Stmt {
        let a = &of.attention;
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let mut b = Builder::new("add_row");
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &[*sums]);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let first = match &of.distances {
            None => keys.from.clone(),
            Some(Distances { origin, .. }) => &(&keys.from - &var(self.tile.row)) + origin,
        };
        let to = s.pointer(&mut b, *sums, &(&place_of_head(self.tile.env, heads) + &first));
        s.hoist(&mut b, score, self.tile.env);
        b.repeat(LoopKind::Lanes, UNROLL, trip, (), |b, lane, ()| {
            s.enter(lane);
            let v = F32::from_value(s.root_of(b, score, self.tile.env, reports));
            let before = b.load::<F32>(to.at(lane));
            let sum = b.add(before, v);
            b.store(to.at(lane), sum);
        });
        s.leave();
        let args = s.finish();
        m.call(b.finish(), args)
    }
}

/// The kernel that adds up the parts of a sum over rows, and stores what follows from it.
pub(crate) fn sum_parts(scope: &mut Scope<'_>, target: Target<'_>, of: &SumParts) -> Kernel {
    let g = scope.graph;
    let mut m = Maker::planned(scope, target, Kind::Rows);
    let mut env = Env::new();
    let along = of.width.unwrap_or(of.axis);
    m.outer_axes(target.buffer.axes.iter().copied().filter(|axis| *axis != along), &mut env);
    let count = g.extent(along).clone();
    let sum = m.scratch(Slot::Sum);
    let parts = of.count.clone();
    let part = m.variable("part", &parts);
    let first = place(&m, (&of.outer, of.axis), &env, (&var(&part), &parts));
    let first = if of.width.is_some() { &(&first + &index(&env, of.axis)) * &count } else { first };
    let from = address(Base::Buffer(of.parts), first);
    let add = m.call(add_to(), vec![address(sum, n(0)), from, Arg::Int(count.clone())]);
    let mut stmts = vec![fill(&mut m, sum, &count, 0.0), for_loop(&part, n(0), parts, n(1), vec![add])];
    env.insert(along, AxisValue::Poly(var(&LANE)));
    m.scope.ranges.insert(&LANE, &count);
    let value = Maker::scratch_value(sum, n(0), vec![(along, n(1))]);
    let before = m.scope.stored.insert(of.sum, value);
    stmts.push(crate::emit::map::strip(&mut m, target.node, target.id, target.buffer, &env, n(0), &count));
    m.scope.forget(of.sum, before);
    m.scope.inlined.insert(of.sum);
    m.finish(stmts, target.node, target.id)
}

/// `x[..n] = y[..n]`.
fn store_sums() -> Body {
    let mut b = Builder::new("store_sums");
    let to = b.output("x");
    let from = b.input("y");
    let trip = b.int_param("n");
    b.lanes(trip, (), |b, lane, ()| {
        let y = b.load::<F32>(from.at(lane));
        b.store(to.at(lane), y);
    });
    b.finish()
}

/// `x[..n] += y[..n]`.
fn add_to() -> Body {
    let mut b = Builder::new("add");
    let to = b.output("x");
    let from = b.input("y");
    let trip = b.int_param("n");
    b.lanes(trip, (), |b, lane, ()| {
        let (x, y) = (b.load::<F32>(to.at(lane)), b.load::<F32>(from.at(lane)));
        let sum = b.add(x, y);
        b.store(to.at(lane), sum);
    });
    b.finish()
}
