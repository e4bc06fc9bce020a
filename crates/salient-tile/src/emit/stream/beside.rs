//! What the kernel of an attention over whole rows of scores stores beside it: numbers of each row, and sums over rows for each
//! key. Rows go in parts; each part has sums of its own, so that threads do not meet, and a kernel adds them up.

use crate::dims::{LANE, ceil_div, n, var};
use crate::emit::maker::{Maker, Target, address, for_loop, let_min};
use crate::emit::stream::softmax::{UNROLL, fill};
use crate::emit::stream::tiled::RowBlock;
use crate::emit::stream::whole_rows::{Visited, Whole, index};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::attention::beside::{BesideOf, KeySum, SumParts};
use crate::plan::attention::whole_rows::WholeRows;
use crate::plan::scratch::Slot;
use crate::program::kernel::{Arg, Base, Buffer, Kernel, Kind, Stmt};
use salient_ir::{AxisId, Dim, Symbol};
use salient_vector::body::LoopKind;
use salient_vector::handle::Handle;
use salient_vector::{Body, Builder, F32};

/// A part of the rows of an attention, of which the sums for each key lie together.
pub(crate) struct RowPart {
    /// Its number.
    pub(crate) number: Dim,
    /// The number of a tile of rows, and how many there are in all parts.
    tile: Symbol,
    tiles: Dim,
    /// How many parts there are.
    parts: i64,
}

impl RowPart {
    /// The part that an item has, of so many tiles of rows in so many parts.
    pub(crate) fn of_item(m: &mut Maker<'_, '_>, (tiles, parts): (Dim, i64)) -> RowPart {
        let number = m.outer("part", &n(parts));
        let tile = m.variable("block", &tiles);
        RowPart { number, tile, tiles, parts }
    }

    /// The number of the tile at hand.
    pub(crate) fn tile(&self) -> Dim {
        var(&self.tile)
    }

    /// A block for each tile of the part.
    pub(crate) fn each_tile(&self, m: &mut Maker<'_, '_>, block: Vec<Stmt>) -> Vec<Stmt> {
        let of_part = ceil_div(&self.tiles, &n(self.parts));
        let begin = &self.number * &of_part;
        let stop = m.variable("part_end", &(&self.tiles + &n(1)));
        let end = let_min(&stop, vec![self.tiles.clone(), &begin + &of_part]);
        vec![end, for_loop(&self.tile, begin, var(&stop), n(1), block)]
    }
}

/// Where a sum of the buffer of parts lies, for a part of so many and what `env` says of the axes around.
fn place(m: &Maker<'_, '_>, (outer, key): (&[AxisId], AxisId), env: &Env, (part, parts): (&Dim, i64)) -> Dim {
    let g = m.scope.graph;
    let parts = n(parts);
    let around = outer.iter().fold(n(0), |at, axis| &(&at * g.extent(*axis)) + &index(env, *axis));
    &(&(&around * &parts) + part) * g.extent(key)
}

/// Where the sums of a part are while its rows are added up, for each of the sums over rows.
pub(crate) fn sums_of_part(m: &mut Maker<'_, '_>, plan: &WholeRows) -> Vec<Base> {
    plan.key_sums().map(|_| m.scratch(Slot::KeySums)).collect()
}

impl Whole<'_> {
    /// Before the first tile of a part no row has been added up; after the last its sums are stored.
    pub(crate) fn around_part(&self, m: &mut Maker<'_, '_>, block: &RowBlock) -> [Vec<Stmt>; 2] {
        let Some(part) = &block.part else { return [Vec::new(), Vec::new()] };
        let key = self.plan.attention.key;
        let keys = m.scope.graph.extent(key).clone();
        let at = place(m, (&block.outer, key), self.tile.env, (&part.number, part.parts));
        let buffers = self.plan.beside.iter().filter(|beside| beside.key_sum().is_some());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (beside, sums) in buffers.zip(&self.slots.key_sums) {
            before.push(fill(m, *sums, &keys, 0.0));
            let to = address(Base::Buffer(beside.buffer), at.clone());
            after.push(m.call(store_sums(), vec![to, address(*sums, n(0)), Arg::Int(keys.clone())]));
        }
        [before, after]
    }

    /// The results of a row beside its attention.
    pub(crate) fn store_beside(&self, m: &mut Maker<'_, '_>, buffers: &[Buffer], stmts: &mut Vec<Stmt>) {
        let mut key_sums = self.slots.key_sums.iter();
        for beside in &self.plan.beside {
            match &beside.of {
                BesideOf::Row => {
                    let mut env = self.tile.env.clone();
                    env.remove(&self.plan.attention.key);
                    let (id, one) = (beside.buffer, n(1));
                    let buffer = &buffers[id.0];
                    stmts.push(crate::emit::map::strip(m, beside.node, id, buffer, &env, n(0), &one));
                    m.scope.inlined.insert(beside.node);
                }
                BesideOf::Key(sum) => {
                    self.visit_in(m, &sum.key_loop.range);
                    let keys = self.visited(m, &sum.key_loop.range, stmts);
                    let sums = key_sums.next().expect("each sum over rows has a slot");
                    stmts.push(self.add_row(m, sum, &keys, *sums));
                }
            }
        }
    }

    /// Adds a row of scores to what earlier rows of the part came to.
    fn add_row(
        &self,
        m: &mut Maker<'_, '_>,
        KeySum { attention: a, key_loop }: &KeySum,
        keys: &Visited,
        sums: Base,
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let mut b = Builder::new("add_row");
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &[sums]);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = s.pointer(&mut b, sums, &keys.from);
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
    m.outer_axes(target.buffer.axes.iter().copied().filter(|axis| *axis != of.key), &mut env);
    let keys = g.extent(of.key).clone();
    let sum = m.scratch(Slot::Sum);
    let parts = n(of.count);
    let part = m.variable("part", &parts);
    let from = address(Base::Buffer(of.parts), place(&m, (&of.outer, of.key), &env, (&var(&part), of.count)));
    let add = m.call(add_to(), vec![address(sum, n(0)), from, Arg::Int(keys.clone())]);
    let mut stmts = vec![fill(&mut m, sum, &keys, 0.0), for_loop(&part, n(0), parts, n(1), vec![add])];
    env.insert(of.key, AxisValue::Poly(var(&LANE)));
    m.scope.ranges.insert(&LANE, &keys);
    let value = Maker::scratch_value(sum, n(0), vec![(of.key, n(1))]);
    let before = m.scope.stored.insert(of.sum, value);
    stmts.push(crate::emit::map::strip(&mut m, target.node, target.id, target.buffer, &env, n(0), &keys));
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
