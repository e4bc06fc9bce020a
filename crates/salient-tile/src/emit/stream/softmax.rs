//! The state of streamed weights for the rows of a tile, and the bodies that bring it forward by a tile of keys.
//!
//! For each tile of keys: scores as the graph says, with the greatest of each row; then for all rows at once the new
//! maximum and what it does to earlier results (Milakov and Gimelshein, "Online normalizer calculation for softmax",
//! 2018); then exponentials and their sums. Where no softmax makes the weights, the scores are the weights, and of these
//! passes only the first is left. Products are made elsewhere.

use crate::dims::{n, var};
use crate::emit::maker::{Maker, address};
use crate::emit::pack::{Packed, Span, pack};
use crate::emit::strip::{Strip, Visit};
use crate::index::Env;
use crate::plan::attention::{Attention, Normaliser};
use crate::plan::scratch::Slot;
use crate::program::kernel::{Arg, Base, Stmt};
use salient_ir::{AxisId, Dim, NodeId, Symbol};
use salient_vector::body::LoopKind;
use salient_vector::handle::Handle;
use salient_vector::{Body, Builder, F32, math};

/// Strips that are laid out in a row where a pass is short of independent work.
pub(crate) const UNROLL: u32 = 4;

/// The state of each row of a tile, in scratch memory.
pub(crate) struct Softmax {
    pub(crate) normaliser: Normaliser,
    /// Whether scores report what they read outside its axis.
    reports: Option<NodeId>,
    /// The greatest score so far; zero where no softmax makes the weights.
    pub(crate) max: Base,
    /// The greatest score of the newest tile.
    newest: Base,
    /// What is subtracted before exponentials: the maximum, or zero where no key was kept yet.
    shift: Base,
    /// The sum of weights so far, relative to the maximum.
    pub(crate) sum: Base,
    /// What the newest tile multiplies earlier results by.
    factor: Base,
    /// The scores of the newest tile, then their exponentials, row by row.
    pub(crate) weights: Base,
    /// Elements between the rows of them: the keys of a tile.
    pub(crate) weights_row: Dim,
}

/// Where the state of the rows of a tile lies once all keys were visited.
#[derive(Clone)]
pub(crate) struct RowState {
    pub(crate) max: Base,
    pub(crate) sum: Base,
    /// The place of the first row's.
    pub(crate) at: Dim,
}

/// A tile of scores: the row as a variable, the first row, the first key, and how many keys there are.
#[derive(Clone, Copy)]
pub(crate) struct ScoreTile<'p> {
    pub(crate) row: &'p Symbol,
    pub(crate) first: &'p Dim,
    pub(crate) key: &'p Dim,
    pub(crate) count: &'p Dim,
}

impl ScoreTile<'_> {
    /// The row's position in the tile.
    pub(crate) fn local(&self) -> Dim {
        &var(self.row) - self.first
    }
}

impl Softmax {
    /// The state of rows.
    pub(crate) fn new(m: &mut Maker<'_, '_>, a: &Attention, weights: Base, weights_row: Dim) -> Softmax {
        let (max, newest) = (m.scratch(Slot::Max), m.scratch(Slot::Newest));
        let (shift, sum, factor) = (m.scratch(Slot::Shift), m.scratch(Slot::Sum), m.scratch(Slot::Factor));
        let (normaliser, reports) = (a.normaliser, m.scope.defined.demanding(a.score));
        Softmax { normaliser, reports, max, newest, shift, sum, factor, weights, weights_row }
    }

    /// What is left of it at the end.
    pub(crate) fn state(&self) -> RowState {
        RowState { max: self.max, sum: self.sum, at: n(0) }
    }

    /// No key seen.
    pub(crate) fn start(&self, m: &mut Maker<'_, '_>, rows: &Dim) -> [Stmt; 2] {
        let max = match self.normaliser {
            Normaliser::Softmax { .. } | Normaliser::Greatest => f32::NEG_INFINITY,
            Normaliser::Sum | Normaliser::One | Normaliser::Running(_) | Normaliser::Mixture => 0.0,
        };
        [fill(m, self.max, rows, max), fill(m, self.sum, rows, 0.0)]
    }

    /// What each row of earlier results is multiplied by before the newest tile is added.
    pub(crate) fn factor(&self) -> Option<Base> {
        match self.normaliser {
            Normaliser::Softmax { .. } => Some(self.factor),
            Normaliser::Sum | Normaliser::One | Normaliser::Greatest => None,
            Normaliser::Running(_) | Normaliser::Mixture => None,
        }
    }

    /// Each row: the scores of the tile, and what the pass over them can say of the row: the greatest for a softmax, for weights
    /// that are divided by their sum that. Where `there` says so the scores lie in place already.
    pub(crate) fn scores(
        &self,
        m: &mut Maker<'_, '_>,
        score: NodeId,
        env: &Env,
        place: ScoreTile<'_>,
        there: bool,
    ) -> Option<Stmt> {
        match self.normaliser {
            Normaliser::Softmax { .. } => Some(self.score(m, score, env, place, there)),
            Normaliser::One if there => None,
            Normaliser::Sum | Normaliser::One => Some(self.weight(m, score, env, place, there)),
            Normaliser::Greatest => Some(self.greatest(m, score, env, place, there)),
            Normaliser::Running(_) | Normaliser::Mixture => unreachable!("whole rows hold these"),
        }
    }

    /// What makes weights of the scores of a tile: all rows at once, then each by itself.
    pub(crate) fn normalise(
        &self,
        m: &mut Maker<'_, '_>,
        rows: &Dim,
        place: ScoreTile<'_>,
    ) -> Option<(Stmt, Stmt)> {
        match self.normaliser {
            Normaliser::Softmax { .. } => Some((self.shift(m, rows), self.exponentials(m, place))),
            Normaliser::Sum | Normaliser::One | Normaliser::Greatest => None,
            Normaliser::Running(_) | Normaliser::Mixture => None,
        }
    }

    /// One row: the weights of the tile, added to their sum if that divides them.
    fn weight(
        &self,
        m: &mut Maker<'_, '_>,
        weight: NodeId,
        env: &Env,
        place: ScoreTile<'_>,
        there: bool,
    ) -> Stmt {
        let local = place.local();
        let summed = self.normaliser == Normaliser::Sum;
        let mut b = Builder::new(if there { "sum" } else { "weight" });
        let mut s = Strip::new(m.scope, Visit::Lanes, place.key.clone(), &[self.sum, self.weights]);
        let trip = s.integer(&mut b, place.count);
        let weights = s.pointer(&mut b, self.weights, &(&local * &self.weights_row));
        let sum = s.pointer(&mut b, self.sum, &local);
        let zero = b.f32(0.0);
        let more = b.repeat(LoopKind::Lanes, UNROLL, trip, zero, |b, index, more| {
            s.enter(index);
            let v = in_place(b, &mut s, weights.at(index), (!there).then_some((weight, env)), self.reports);
            if summed { b.add(more, v) } else { more }
        });
        s.leave();
        if summed {
            let more = b.hsum(more);
            let total = b.load::<F32>(sum.at_start().one());
            let total = b.add(total, more);
            b.store(sum.at_start().one(), total);
        }
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// No key seen, but a further score of each row, which has no value: the greatest so far, and exp(0) is 1.
    pub(crate) fn start_at(
        &self,
        m: &mut Maker<'_, '_>,
        sink: NodeId,
        axis: Option<AxisId>,
        env: &Env,
        first: &Dim,
        rows: &Dim,
    ) -> [Stmt; 2] {
        let over_rows = Span { axis, from: first.clone(), count: rows.clone() };
        let once = Span { axis: None, from: n(0), count: n(1) };
        let to = Packed { base: self.max, offset: n(0), outer: n(1), inner: n(1) };
        [pack(m, "pack_sink", sink, env, &over_rows, &once, &to), fill(m, self.sum, rows, 1.0)]
    }

    /// One row: the greatest score of the tile and of earlier ones; NaN if one is.
    fn greatest(
        &self,
        m: &mut Maker<'_, '_>,
        score: NodeId,
        env: &Env,
        place: ScoreTile<'_>,
        there: bool,
    ) -> Stmt {
        let local = place.local();
        let mut b = Builder::new("greatest_of_row");
        let mut s = Strip::new(m.scope, Visit::Lanes, place.key.clone(), &[self.max, self.weights]);
        let trip = s.integer(&mut b, place.count);
        let weights = s.pointer(&mut b, self.weights, &(&local * &self.weights_row));
        let max = s.pointer(&mut b, self.max, &local);
        let (low, clean) = (b.f32(f32::NEG_INFINITY), b.mask(false));
        // The vector operator loses a NaN; whether there was one is carried beside.
        let (most, nan) = b.lanes(trip, (low, clean), |b, index, (most, nan)| {
            s.enter(index);
            let v = if there {
                b.load::<F32>(weights.at(index))
            } else {
                F32::from_value(s.root_of(b, score, env, self.reports))
            };
            let bad = b.ne(v, v);
            (b.max(v, most), b.or(nan, bad))
        });
        s.leave();
        let (most, nan) = (b.hmax(most), b.hany(nan));
        let before = b.load::<F32>(max.at_start().one());
        let (bad, most) = (b.ne(before, before), b.max(most, before));
        let (nan, value) = (b.or(nan, bad), b.f32(f32::NAN));
        let most = b.select(nan, value, most);
        b.store(max.at_start().one(), most);
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// One row: the scores of the tile and the greatest of them. Where `there` says so the scores lie in place already.
    fn score(
        &self,
        m: &mut Maker<'_, '_>,
        score: NodeId,
        env: &Env,
        place: ScoreTile<'_>,
        there: bool,
    ) -> Stmt {
        let local = place.local();
        let mut b = Builder::new(if there { "greatest" } else { "score" });
        let mut s = Strip::new(m.scope, Visit::Lanes, place.key.clone(), &[self.newest, self.weights]);
        let trip = s.integer(&mut b, place.count);
        let weights = s.pointer(&mut b, self.weights, &(&local * &self.weights_row));
        let newest = s.pointer(&mut b, self.newest, &local);
        let low = b.f32(f32::NEG_INFINITY);
        let most = b.repeat(LoopKind::Lanes, UNROLL, trip, low, |b, index, most| {
            s.enter(index);
            let v = in_place(b, &mut s, weights.at(index), (!there).then_some((score, env)), self.reports);
            b.max(v, most)
        });
        s.leave();
        let most = b.hmax(most);
        b.store(newest.at_start().one(), most);
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// All rows at once: the new maximum, and the factor of earlier results.
    fn shift(&self, m: &mut Maker<'_, '_>, rows: &Dim) -> Stmt {
        let mut b = Builder::new("shift");
        let trip = b.int_param("n");
        let newest = b.input("newest");
        let (max, shift, sum, factor) =
            (b.output("max"), b.output("shift"), b.output("sum"), b.output("factor"));
        b.lanes(trip, (), |b, index, ()| {
            let (before, new) = (b.load::<F32>(max.at(index)), b.load::<F32>(newest.at(index)));
            let now = b.max(new, before);
            // Nothing kept so far: any shift will do, and -inf would make NaN of -inf - -inf.
            let (low, zero) = (b.f32(f32::NEG_INFINITY), b.f32(0.0));
            let nothing = b.eq(now, low);
            let by = b.select(nothing, zero, now);
            let drop = b.sub(before, by);
            let scale = math::exp_nonpositive(b, drop);
            let total = b.load::<F32>(sum.at(index));
            let total = b.mul(total, scale);
            b.store(max.at(index), now);
            b.store(shift.at(index), by);
            b.store(sum.at(index), total);
            b.store(factor.at(index), scale);
        });
        let bases = [self.newest, self.max, self.shift, self.sum, self.factor];
        let mut args = vec![Arg::Int(rows.clone())];
        args.extend(bases.map(|base| address(base, n(0))));
        m.call(b.finish(), args)
    }

    /// One row: scores to exponentials, added to the sum.
    fn exponentials(&self, m: &mut Maker<'_, '_>, place: ScoreTile<'_>) -> Stmt {
        let local = place.local();
        let mut b = Builder::new("exponentials");
        let trip = b.int_param("n");
        let shift = b.input("shift");
        let (weights, sum) = (b.output("weights"), b.output("sum"));
        let by = b.load::<F32>(shift.at_start().one());
        let zero = b.f32(0.0);
        let more = b.repeat(LoopKind::Lanes, UNROLL, trip, zero, |b, index, more| {
            let v = b.load::<F32>(weights.at(index));
            let v = b.sub(v, by);
            let e = math::exp_weight(b, v);
            b.store(weights.at(index), e);
            b.add(more, e)
        });
        let more = b.hsum(more);
        let total = b.load::<F32>(sum.at_start().one());
        let total = b.add(total, more);
        b.store(sum.at_start().one(), total);
        let args = vec![
            Arg::Int(place.count.clone()),
            address(self.shift, local.clone()),
            address(self.weights, &local * &self.weights_row),
            address(self.sum, local),
        ];
        m.call(b.finish(), args)
    }
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

/// `x[..n] /= sum`, by any sum.
pub(crate) fn divide_row() -> Body {
    change_row("divide", |_, sum| sum, Builder::div)
}

/// `x[..n] *= factor`.
pub(crate) fn scale_row() -> Body {
    change_row("scale", |_, factor| factor, Builder::mul)
}

/// `x[..n] /= sum` by a sum of the exponentials of a softmax. Where it is zero, every key was masked, and the row is zeros or NaN.
pub(crate) fn normalise_row(zeros: bool) -> Body {
    let by = |b: &mut Builder, sum| {
        let sum = if zeros { divisor(b, sum) } else { sum };
        inverse(b, sum)
    };
    change_row(if zeros { "normalise_or_zero" } else { "normalise" }, by, Builder::mul)
}

/// Changes each element of a row by what is made of its sum, or of another number of the row.
fn change_row(
    name: &str,
    by: impl FnOnce(&mut Builder, F32) -> F32,
    change: impl FnOnce(&mut Builder, F32, F32) -> F32,
) -> Body {
    let mut b = Builder::new(name);
    let x = b.output("x");
    let trip = b.int_param("n");
    let sum = b.input("sum");
    let sum = b.load::<F32>(sum.at_start().one());
    let by = by(&mut b, sum);
    b.lanes(trip, (), |b, index, ()| {
        let v = b.load::<F32>(x.at(index));
        let v = change(b, v, by);
        b.store(x.at(index), v);
    });
    b.finish()
}

/// `x = max + log(sum)`: where every key was masked, -inf.
pub(crate) fn log_of_row() -> Body {
    let mut b = Builder::new("log_of_row");
    let x = b.output("x");
    let (max, sum) = (b.input("max"), b.input("sum"));
    let max = b.load::<F32>(max.at_start().one());
    let sum = b.load::<F32>(sum.at_start().one());
    let y = log_sum(&mut b, max, sum);
    b.store(x.at_start().one(), y);
    b.finish()
}

/// What the exponentials of a row of scores are relative to.
pub(crate) struct RowShift {
    /// The greatest score, -inf where there is none. A vector maximum loses a NaN, which the sum of exponentials shows.
    pub(crate) max: F32,
    /// What is subtracted from every score: the greatest, or zero where all are -inf, because -inf - -inf is NaN.
    pub(crate) shift: F32,
    /// The exponential of a further score of the row, which has no value.
    beside: Option<F32>,
}

impl RowShift {
    /// From the greatest score of a row and a further score.
    pub(crate) fn new(b: &mut Builder, max: F32, sink: Option<F32>) -> RowShift {
        let (low, zero) = (b.f32(f32::NEG_INFINITY), b.f32(0.0));
        let max = sink.map_or(max, |sink| b.max(sink, max));
        let empty = b.eq(max, low);
        let shift = b.select(empty, zero, max);
        let beside = sink.map(|sink| {
            let drop = b.sub(sink, shift);
            math::exp_nonpositive(b, drop)
        });
        RowShift { max, shift, beside }
    }

    /// The sum of all exponentials, from that of the scores which have values.
    pub(crate) fn total(&self, b: &mut Builder, sum: F32) -> F32 {
        self.beside.map_or(sum, |beside| b.add(sum, beside))
    }
}

/// What the exponentials of a softmax are divided by: their sum, or one where all are zero, so that their weights are zeros.
pub(crate) fn divisor(b: &mut Builder, sum: F32) -> F32 {
    let (zero, one) = (b.f32(0.0), b.f32(1.0));
    let nothing = b.eq(sum, zero);
    b.select(nothing, one, sum)
}

/// One over a sum of exponentials: they are multiplied by it in place of a division of each. The greatest of them is one, so that
/// the sum is at least one, and one over it a number, or there are none.
pub(crate) fn inverse(b: &mut Builder, sum: F32) -> F32 {
    let one = b.f32(1.0);
    b.div(one, sum)
}

/// `max + log(sum)`, -inf where all exponentials are zero.
pub(crate) fn log_sum(b: &mut Builder, max: F32, sum: F32) -> F32 {
    let (low, zero) = (b.f32(f32::NEG_INFINITY), b.f32(0.0));
    let nothing = b.eq(sum, zero);
    let log = math::log(b, sum);
    let y = b.add(max, log);
    b.select(nothing, low, y)
}

/// What lies at a place; where an expression is given it is computed and stored there first.
fn in_place(
    b: &mut Builder,
    s: &mut Strip<'_, '_>,
    at: salient_vector::Place,
    of: Option<(NodeId, &Env)>,
    reports: Option<NodeId>,
) -> F32 {
    let Some((node, env)) = of else { return b.load(at) };
    let value = F32::from_value(s.root_of(b, node, env, reports));
    b.store::<F32>(at, value);
    value
}
