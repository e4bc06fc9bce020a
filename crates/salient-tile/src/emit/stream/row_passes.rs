//! Passes over a row of scores while it is near: exponentials with their sum, sums, the greatest, running sums.

use crate::dims::{LANES, ceil_div, var};
use crate::emit::maker::Maker;
use crate::emit::stream::softmax::{RowShift, UNROLL, divisor, inverse, log_sum};
use crate::emit::stream::whole_rows::{Place, Visited, Whole};
use crate::emit::strip::{Strip, Visit};
use crate::plan::attention::key_loop::KeyLoop;
use crate::plan::attention::{Attention, Normaliser};
use crate::program::kernel::{Base, Stmt};
use salient_ir::{Dim, Direction, NodeId};
use salient_vector::body::LoopKind;
use salient_vector::handle::Handle;
use salient_vector::{Builder, F32, Int as IntValue, Ptr, math};

/// What a pass over a row of scores gives beside the exponentials.
#[derive(Clone, Default)]
pub(crate) struct Results<'p> {
    /// Where the logarithm of the sum goes.
    pub(crate) log: Option<(Base, Dim)>,
    /// Where the maximum and the sum go.
    pub(crate) state: Option<[(Base, Dim); 2]>,
    /// Where the exponentials go.
    pub(crate) exponentials: Option<&'p Place>,
    /// Where one over their sum goes.
    pub(crate) factor: Option<(Base, Dim)>,
    /// Whether they are divided by their sum.
    pub(crate) divided: bool,
    /// A further score of the row, which has no value.
    pub(crate) sink: Option<NodeId>,
}

impl Whole<'_> {
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
    pub(crate) fn exponentials(
        &self,
        m: &mut Maker<'_, '_>,
        (a, key_loop): (&Attention, &KeyLoop),
        keys: &Visited,
        results: Results<'_>,
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let mut b = Builder::new("exponentials_of_row");
        let Results { log, state, exponentials, factor, divided, sink } = results;
        let numbers = log.iter().chain(&factor).chain(state.iter().flatten()).map(|(base, _)| *base);
        let written: Vec<Base> = numbers.chain(exponentials.map(|place| place.base)).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &written);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = exponentials.map(|p| s.pointer(&mut b, p.base, &self.at(p, &keys.from)));
        let (low, zero) = (b.f32(f32::NEG_INFINITY), b.f32(0.0));
        s.hoist(&mut b, score, self.tile.env);
        let max = b.repeat(LoopKind::Lanes, UNROLL, trip, low, |b, index, max| {
            s.enter(index);
            let v = F32::from_value(s.root_of(b, score, self.tile.env, reports));
            store_at(b, to, index, v);
            b.max(v, max)
        });
        s.leave();
        let max = b.hmax(max);
        let sink = sink.map(|sink| F32::from_value(s.root(&mut b, sink, self.tile.env)));
        let relative = RowShift::new(&mut b, max, sink);
        let sum = b.repeat(LoopKind::Lanes, UNROLL, trip, zero, |b, index, sum| {
            s.enter(index);
            let v = match to {
                Some(to) => b.load::<F32>(to.at(index)),
                None => F32::from_value(s.value(b, score, self.tile.env)),
            };
            let v = b.sub(v, relative.shift);
            let e = math::exp_weight(b, v);
            store_at(b, to, index, e);
            b.add(sum, e)
        });
        s.leave();
        let sum = b.hsum(sum);
        let sum = relative.total(&mut b, sum);
        let divisor = divisor(&mut b, sum);
        if let Some(at) = factor {
            let factor = inverse(&mut b, divisor);
            store_one(&mut b, &mut s, &at, factor);
        }
        if let (Some(to), true) = (to, divided) {
            let factor = inverse(&mut b, divisor);
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
            let y = log_sum(&mut b, relative.max, sum);
            store_one(&mut b, &mut s, &log, y);
        }
        if let Some([max_at, sum_at]) = state {
            store_one(&mut b, &mut s, &max_at, relative.max);
            store_one(&mut b, &mut s, &sum_at, sum);
        }
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// The sum or the greatest of a row of scores, if there is a place for it. Nodes of their expression are stored for which there are
    /// places: the scores themselves, which become the weights, or parts of them.
    pub(crate) fn reduction(
        &self,
        m: &mut Maker<'_, '_>,
        (a, key_loop): (&Attention, &KeyLoop),
        keys: &Visited,
        own: Option<(Base, Dim)>,
        kept: &[(NodeId, &Place)],
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let greatest = a.normaliser == Normaliser::Greatest;
        let mut b = Builder::new(match (&own, greatest) {
            (None, _) => "weights_of_row",
            (Some(_), false) => "sum_of_row",
            (Some(_), true) => "greatest_of_row",
        });
        let numbers = own.iter().map(|(base, _)| *base);
        let written: Vec<Base> = numbers.chain(kept.iter().map(|(_, place)| place.base)).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &written);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let pointer =
            |(node, p): &(NodeId, &Place)| (*node, s.pointer(&mut b, p.base, &self.at(p, &keys.from)));
        let to: Vec<(NodeId, Ptr)> = kept.iter().map(pointer).collect();
        let start = b.f32(if greatest { f32::NEG_INFINITY } else { 0.0 });
        let clean = b.mask(false);
        s.hoist(&mut b, score, self.tile.env);
        // The vector operator for the greatest loses a NaN; whether there was one is carried beside.
        let (total, nan) =
            b.repeat(LoopKind::Lanes, UNROLL, trip, (start, clean), |b, index, (total, nan)| {
                s.enter(index);
                let v = F32::from_value(s.root_of(b, score, self.tile.env, reports));
                // A part may take the place of what another one is made of.
                let parts: Vec<F32> = to.iter().map(|(node, _)| s.f32(b, *node, self.tile.env)).collect();
                for (part, (_, to)) in parts.into_iter().zip(&to) {
                    b.store(to.at(index), part);
                }
                match (&own, greatest) {
                    (None, _) => (total, nan),
                    (Some(_), false) => (b.add(total, v), nan),
                    (Some(_), true) => {
                        let bad = b.ne(v, v);
                        (b.max(v, total), b.or(nan, bad))
                    }
                }
            });
        s.leave();
        for (_, place) in kept {
            self.zeros(&mut b, &mut s, place, keys);
        }
        if let Some(own) = own {
            let total = if greatest {
                let (most, nan, value) = (b.hmax(total), b.hany(nan), b.f32(f32::NAN));
                b.select(nan, value, most)
            } else {
                b.hsum(total)
            };
            store_one(&mut b, &mut s, &own, total);
        }
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

    /// Scores of a row themselves, and who reports what they read outside its axis.
    pub(crate) fn copy(
        &self,
        m: &mut Maker<'_, '_>,
        (score, reports): (NodeId, Option<NodeId>),
        keys: &Visited,
        out: &Place,
    ) -> Stmt {
        let mut b = Builder::new("scores_of_row");
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &[out.base]);
        let trip = s.integer(&mut b, &(&keys.upto - &keys.from));
        let to = s.pointer(&mut b, out.base, &self.at(out, &keys.from));
        s.hoist(&mut b, score, self.tile.env);
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

    /// The running sum of a row of scores, which comes to the sum of the row at its end.
    pub(crate) fn running_sum(
        &self,
        m: &mut Maker<'_, '_>,
        (a, key_loop): (&Attention, &KeyLoop),
        keys: &Visited,
        direction: Direction,
        (out, end_at): (&Place, Option<(Base, Dim)>),
    ) -> Stmt {
        let (score, reports) = (key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
        let mut b = Builder::new(match direction {
            Direction::Forward => "running_sum_of_row",
            Direction::Reverse => "reverse_running_sum_of_row",
        });
        let written: Vec<Base> = [out.base].into_iter().chain(end_at.iter().map(|(base, _)| *base)).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, keys.from.clone(), &written);
        let count = &keys.upto - &keys.from;
        let trip = s.integer(&mut b, &count);
        let to = s.pointer(&mut b, out.base, &self.at(out, &keys.from));
        s.hoist(&mut b, score, self.tile.env);
        let read = |b: &mut Builder, s: &mut Strip<'_, '_>, index: IntValue| {
            s.enter(index);
            F32::from_value(s.root_of(b, score, self.tile.env, reports))
        };
        let end = match direction {
            Direction::Forward => run_forward(&mut b, &mut s, (trip, to), read),
            Direction::Reverse => {
                let vectors = s.integer(&mut b, &ceil_div(&count, &var(&LANES)));
                run_backward(&mut b, &mut s, (trip, vectors, to), read)
            }
        };
        s.leave();
        self.zeros(&mut b, &mut s, out, keys);
        if let Some(end_at) = end_at {
            store_one(&mut b, &mut s, &end_at, end);
        }
        let args = s.finish();
        m.call(b.finish(), args)
    }
}

/// Stores the sum up to each element: within its vector, then what the vectors before come to. Gives the sum of all.
fn run_forward(
    b: &mut Builder,
    s: &mut Strip<'_, '_>,
    (trip, to): (IntValue, Ptr),
    read: impl Fn(&mut Builder, &mut Strip<'_, '_>, IntValue) -> F32,
) -> F32 {
    let zero = b.f32(0.0);
    b.lanes(trip, zero, |b, index, before| {
        let v = read(b, s, index);
        let own = b.prefix_sum(v);
        b.store(to.at(index), own);
        let (lanes, one) = (b.lane_count(), b.int(1));
        let next = b.add(index, lanes);
        let end = b.min(next, trip);
        let last = b.sub(end, one);
        let total = b.load::<F32>(to.at(last).one());
        let sum = b.add(own, before);
        b.store(to.at(index), sum);
        b.add(before, total)
    })
}

/// Stores the sum from each element on. The elements are made first: vectors of them do not wait for each other, as their sums do. Then,
/// from the last vector back, the sum within each and what the vectors behind it come to. Gives the sum of all.
fn run_backward(
    b: &mut Builder,
    s: &mut Strip<'_, '_>,
    (trip, vectors, to): (IntValue, IntValue, Ptr),
    read: impl Fn(&mut Builder, &mut Strip<'_, '_>, IntValue) -> F32,
) -> F32 {
    b.lanes(trip, (), |b, index, ()| {
        let v = read(b, s, index);
        b.store(to.at(index), v);
    });
    let (zero, one, lanes) = (b.f32(0.0), b.int(1), b.lane_count());
    let others = b.sub(vectors, one);
    // The last vector, if there is one; it may be short. What a vector comes to is in its first lane, which every vector has.
    let once = b.min(vectors, one);
    let last = b.count(once, zero, |b, _, _| {
        let at = b.mul(others, lanes);
        let left = b.sub(trip, at);
        let is_there = b.first(left);
        let v = b.load::<F32>(to.at(at).masked(is_there));
        let v = b.select(is_there, v, zero);
        let own = b.suffix_sum(v);
        b.store(to.at(at).masked(is_there), own);
        b.load::<F32>(to.at(at).one())
    });
    b.count(others, last, |b, step, behind| {
        let left = b.sub(others, step);
        let at = b.sub(left, one);
        let at = b.mul(at, lanes);
        let v = b.load::<F32>(to.at(at));
        let own = b.suffix_sum(v);
        b.store(to.at(at), own);
        let total = b.load::<F32>(to.at(at).one());
        let sum = b.add(own, behind);
        b.store(to.at(at), sum);
        b.add(behind, total)
    })
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
