//! Kernels that run along rows: reductions, normalisations, running sums. One item is one row.

use crate::dims::{LANE, n, var};
use crate::emit::maker::{Maker, Target};
use crate::emit::stream::softmax::{RowShift, divisor, inverse, log_sum};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::layouts::{Stored, stored};
use crate::program::kernel::{Kernel, Kind};
use salient_ir::op::RowWeights;
use salient_ir::{AxisId, DType, Direction, FusedOp, NodeId, Op, ReduceOp};
use salient_vector::body::Value;
use salient_vector::handle::{Carry, Handle, VectorNumber};
use salient_vector::{Builder, F32, I32, Int, Mask, math};
use std::collections::BTreeSet;

/// Begins a row kernel: items go over the axes `loops`, the outermost first, and `along` runs over the lanes.
fn begin<'s, 'g>(
    scope: &'s mut Scope<'g>,
    target: Target<'_>,
    along: AxisId,
    loops: &[AxisId],
) -> (Maker<'s, 'g>, Env) {
    let mut m = Maker::planned(scope, target, Kind::Rows);
    let extent = m.scope.graph.extent(along).clone();
    m.scope.ranges.insert(&LANE, &extent);
    let mut env = Env::from([(along, AxisValue::Poly(var(&LANE)))]);
    m.outer_axes(loops.iter().copied(), &mut env);
    (m, env)
}

/// The kernel that stores the reduction of `x` along `axis`.
pub(crate) fn reduce(
    scope: &mut Scope<'_>,
    (target, loops): (Target<'_>, &[AxisId]),
    op: ReduceOp,
    axis: AxisId,
    x: NodeId,
) -> Kernel {
    let (mut m, env) = begin(scope, target, axis, loops);
    let extent = m.scope.graph.extent(axis).clone();
    let dtype = m.scope.graph.node(x).dtype;
    let out = stored(target.id, target.buffer);
    let mut b = Builder::new(op.info().name);
    // There is no product across lanes: it is taken one by one.
    let visit = if op == ReduceOp::Prod { Visit::Single } else { Visit::Lanes };
    let mut s = Strip::new(m.scope, visit, n(0), &[out.base]);
    let trip = s.integer(&mut b, &extent);
    if op == ReduceOp::ArgMax {
        s.scope.limit_integer(&extent.to_node());
    }
    let row = Row { trip, x, env: &env };
    let result = match dtype {
        DType::Bool => row.truths(&mut b, &mut s, op).value(),
        DType::F32 | DType::F16 | DType::BF16 => row.floats(&mut b, &mut s, op),
        DType::I32 | DType::I64 => row.integers(&mut b, &mut s, op).value(),
    };
    s.leave();
    let place = s.place(&mut b, &out, &env).one();
    b.store_elem(out.elem, place, result);
    let args = s.finish();
    let call = m.call(b.finish(), args);
    m.finish(vec![call], target.node, target.id)
}

/// One row of a reduction.
struct Row<'e> {
    trip: Int,
    x: NodeId,
    env: &'e Env,
}

impl Row<'_> {
    fn truths(&self, b: &mut Builder, s: &mut Strip<'_, '_>, op: ReduceOp) -> Mask {
        let all = op == ReduceOp::All;
        let start = b.mask(all);
        let out = b.lanes(self.trip, start, |b, index, acc| {
            s.enter(index);
            let v = Mask::from_value(s.root(b, self.x, self.env));
            if all { b.and(acc, v) } else { b.or(acc, v) }
        });
        if all { b.hall(out) } else { b.hany(out) }
    }

    fn floats(&self, b: &mut Builder, s: &mut Strip<'_, '_>, op: ReduceOp) -> Value {
        let start = b.f32(op.info().empty as f32);
        match op {
            ReduceOp::Prod => {
                let out = b.count(self.trip, start, |b, index, acc| {
                    s.enter(index);
                    let v = F32::from_value(s.root(b, self.x, self.env));
                    b.mul(acc, v)
                });
                out.value()
            }
            ReduceOp::Max | ReduceOp::Min => {
                let greatest = op == ReduceOp::Max;
                let clean = b.mask(false);
                // The vector operators lose a NaN; whether there was one is carried beside.
                let (out, nan) = b.lanes(self.trip, (start, clean), |b, index, (acc, nan)| {
                    s.enter(index);
                    let v = F32::from_value(s.root(b, self.x, self.env));
                    let bad = b.ne(v, v);
                    let acc = if greatest { b.max(v, acc) } else { b.min(v, acc) };
                    (acc, b.or(nan, bad))
                });
                let out = if greatest { b.hmax(out) } else { b.hmin(out) };
                let (nan, value) = (b.hany(nan), b.f32(f32::NAN));
                b.select(nan, value, out).value()
            }
            ReduceOp::ArgMax => self.argmax(b, s).value(),
            ReduceOp::Sum | ReduceOp::Any | ReduceOp::All => {
                let out = b.lanes(self.trip, start, |b, index, acc| {
                    s.enter(index);
                    let v = F32::from_value(s.root(b, self.x, self.env));
                    b.add(acc, v)
                });
                b.hsum(out).value()
            }
        }
    }

    /// The first position of the greatest value; a NaN counts as greatest.
    fn argmax(&self, b: &mut Builder, s: &mut Strip<'_, '_>) -> I32 {
        let (low, none, clean) = (b.f32(f32::NEG_INFINITY), b.i32(i32::MAX), b.mask(false));
        let start = ((low, none), (clean, none));
        let ((best, at), (nan, nan_at)) =
            b.lanes(self.trip, start, |b, index, ((best, at), (nan, nan_at))| {
                s.enter(index);
                let v = F32::from_value(s.root(b, self.x, self.env));
                let here = b.lane_index(index);
                let better = b.lt(best, v);
                let first = b.eq(at, none);
                let same = b.eq(best, v);
                let start = b.and(first, same);
                let take = b.or(better, start);
                let bad = b.ne(v, v);
                let nan_here = b.select(bad, here, none);
                let best = b.select(take, v, best);
                ((best, b.select(take, here, at)), (b.or(nan, bad), b.min(nan_at, nan_here)))
            });
        let most = b.hmax(best);
        let is_most = b.eq(best, most);
        let at = b.select(is_most, at, none);
        let at = b.hmin(at);
        let (nan, nan_at) = (b.hany(nan), b.hmin(nan_at));
        let at = b.select(nan, nan_at, at);
        // Nothing was seen on an empty axis.
        let (unseen, zero) = (b.eq(at, none), b.i32(0));
        b.select(unseen, zero, at)
    }

    fn integers(&self, b: &mut Builder, s: &mut Strip<'_, '_>, op: ReduceOp) -> I32 {
        let value = |b: &mut Builder, s: &mut Strip<'_, '_>| I32::from_value(s.root(b, self.x, self.env));
        match op {
            ReduceOp::Prod => {
                let start = b.i32(1);
                b.count(self.trip, start, |b, index, acc| {
                    s.enter(index);
                    let v = value(b, s);
                    b.mul(acc, v)
                })
            }
            ReduceOp::Max | ReduceOp::Min => {
                let greatest = op == ReduceOp::Max;
                let start = b.i32(if greatest { i32::MIN } else { i32::MAX });
                let out = b.lanes(self.trip, start, |b, index, acc| {
                    s.enter(index);
                    let v = value(b, s);
                    if greatest { b.max(acc, v) } else { b.min(acc, v) }
                });
                if greatest { b.hmax(out) } else { b.hmin(out) }
            }
            ReduceOp::ArgMax => {
                let (start, none) = (b.i32(i32::MIN), b.i32(i32::MAX));
                let (best, at) = b.lanes(self.trip, (start, none), |b, index, (best, at)| {
                    s.enter(index);
                    let v = value(b, s);
                    let here = b.lane_index(index);
                    let better = b.lt(best, v);
                    let first = b.eq(at, none);
                    let take = b.or(better, first);
                    (b.select(take, v, best), b.select(take, here, at))
                });
                let most = b.hmax(best);
                let is_most = b.eq(best, most);
                let at = b.select(is_most, at, none);
                let at = b.hmin(at);
                let (unseen, zero) = (b.eq(at, none), b.i32(0));
                b.select(unseen, zero, at)
            }
            ReduceOp::Sum | ReduceOp::Any | ReduceOp::All => {
                let start = b.i32(0);
                let out = b.lanes(self.trip, start, |b, index, acc| {
                    s.enter(index);
                    let v = value(b, s);
                    b.add(acc, v)
                });
                b.hsum(out)
            }
        }
    }
}

/// The kernel that stores the rows of an expression with reductions of the same rows in it.
pub(crate) fn with_statistics(
    scope: &mut Scope<'_>,
    target: Target<'_>,
    along: AxisId,
    held: &BTreeSet<NodeId>,
) -> Kernel {
    let loops: Vec<AxisId> = target.buffer.axes.iter().copied().filter(|axis| *axis != along).collect();
    let (mut m, env) = begin(scope, target, along, &loops);
    let extent = m.scope.graph.extent(along).clone();
    let out = stored(target.id, target.buffer);
    let mut b = Builder::new("rows");
    let mut s = Strip::new(m.scope, Visit::Lanes, n(0), &[out.base]);
    let trip = s.integer(&mut b, &extent);
    for &id in held {
        let value = if let Op::Reduce(op, _) = *s.scope.graph.op(id) {
            let x = s.scope.graph.args(id)[0];
            let value = Row { trip, x, env: &env }.floats(&mut b, &mut s, op);
            s.leave();
            value
        } else {
            s.value(&mut b, id, &env)
        };
        s.hold(id, value);
    }
    s.hoist(&mut b, target.node, &env);
    b.lanes(trip, (), |b, index, ()| {
        s.enter(index);
        let value = s.root(b, target.node, &env);
        let place = s.place(b, &out, &env);
        b.store_elem(out.elem, place, value);
    });
    let args = s.finish();
    let call = m.call(b.finish(), args);
    m.finish(vec![call], target.node, target.id)
}

/// The kernel that stores a normalised row: `norm`, `softmax` or `exp_norm` of `x` along `axis`.
pub(crate) fn normalise(
    scope: &mut Scope<'_>,
    (target, loops): (Target<'_>, &[AxisId]),
    op: FusedOp,
    axis: AxisId,
    args: &[NodeId],
) -> Kernel {
    let x = args[0];
    let (mut m, env) = begin(scope, target, axis, loops);
    let extent = m.scope.graph.extent(axis).clone();
    let out = stored(target.id, target.buffer);
    let mut b = Builder::new(op.info().name);
    let mut s = Strip::new(m.scope, Visit::Lanes, n(0), &[out.base]);
    let trip = s.integer(&mut b, &extent);
    let zero = b.f32(0.0);
    let mut relative = None;
    let sum = match op.info().weights {
        RowWeights::Share => b.lanes(trip, zero, |b, index, sum| {
            s.enter(index);
            let v = F32::from_value(s.root(b, x, &env));
            let place = s.place(b, &out, &env);
            b.store(place, v);
            b.add(sum, v)
        }),
        RowWeights::Softmax | RowWeights::ExpNorm => {
            let low = b.f32(f32::NEG_INFINITY);
            let max = b.lanes(trip, low, |b, index, max| {
                s.enter(index);
                let v = F32::from_value(s.root(b, x, &env));
                let place = s.place(b, &out, &env);
                b.store(place, v);
                b.max(v, max)
            });
            let max = b.hmax(max);
            // The further score is read as any value that does not depend on the lane.
            s.leave();
            let sink = op.info().sink.then(|| F32::from_value(s.root(&mut b, args[1], &env)));
            let row = RowShift::new(&mut b, max, sink);
            let shift = row.shift;
            relative = Some(row);
            b.lanes(trip, zero, |b, index, sum| {
                s.enter(index);
                let place = s.place(b, &out, &env);
                let v = b.load::<F32>(place);
                let v = b.sub(v, shift);
                let e = math::exp_nonpositive(b, v);
                b.store(place, e);
                b.add(sum, e)
            })
        }
        RowWeights::Unnormalised | RowWeights::LogSumExp => unreachable!("reduces its axis"),
    };
    s.leave();
    let sum = b.hsum(sum);
    let is_relative = relative.is_some();
    let sum = relative.map_or(sum, |row| row.total(&mut b, sum));
    // All scores -inf: a softmax is zeros, the others divide zero by zero.
    let divisor = if op == FusedOp::Softmax { divisor(&mut b, sum) } else { sum };
    let by = if is_relative { inverse(&mut b, divisor) } else { divisor };
    b.lanes(trip, (), |b, index, ()| {
        s.enter(index);
        let place = s.place(b, &out, &env);
        let v = b.load::<F32>(place);
        let v = if is_relative { b.mul(v, by) } else { b.div(v, by) };
        b.store(place, v);
    });
    let args = s.finish();
    let call = m.call(b.finish(), args);
    m.finish(vec![call], target.node, target.id)
}

/// The kernel that stores what the rows of scores `args[0]` along `axis` come to: their log-sum-exp, or the sum of values under the
/// weights that they make, where the values are read element by element as the scores are.
pub(crate) fn weigh(
    scope: &mut Scope<'_>,
    (target, loops): (Target<'_>, &[AxisId]),
    op: FusedOp,
    axis: AxisId,
    args: &[NodeId],
) -> Kernel {
    let (mut m, env) = begin(scope, target, axis, loops);
    let extent = m.scope.graph.extent(axis).clone();
    let out = stored(target.id, target.buffer);
    let info = op.info();
    let mut b = Builder::new(info.name);
    let mut s = Strip::new(m.scope, Visit::Lanes, n(0), &[out.base]);
    let trip = s.integer(&mut b, &extent);
    let row = WeighedRow {
        trip,
        score: args[0],
        value: info.has_values().then(|| args[1]),
        masked: info.masked(),
        env: &env,
    };
    let sink = info.sink.then(|| args[args.len() - 1]);
    let y = match info.weights {
        RowWeights::Unnormalised => row.sums(&mut b, &mut s, None).1,
        RowWeights::Share => {
            let (sum, weighed) = row.sums(&mut b, &mut s, None);
            b.div(weighed, sum)
        }
        RowWeights::Softmax | RowWeights::ExpNorm | RowWeights::LogSumExp => {
            let max = row.greatest(&mut b, &mut s);
            let sink = sink.map(|sink| F32::from_value(s.root(&mut b, sink, &env)));
            let relative = RowShift::new(&mut b, max, sink);
            let (sum, weighed) = row.sums(&mut b, &mut s, Some(relative.shift));
            let sum = relative.total(&mut b, sum);
            match info.weights {
                RowWeights::LogSumExp => log_sum(&mut b, relative.max, sum),
                RowWeights::Softmax => {
                    let divisor = divisor(&mut b, sum);
                    b.div(weighed, divisor)
                }
                RowWeights::ExpNorm | RowWeights::Unnormalised | RowWeights::Share => b.div(weighed, sum),
            }
        }
    };
    let place = s.place(&mut b, &out, &env).one();
    b.store(place, y);
    let args = s.finish();
    let call = m.call(b.finish(), args);
    m.finish(vec![call], target.node, target.id)
}

/// One row of scores with the values that they weigh.
struct WeighedRow<'e> {
    trip: Int,
    score: NodeId,
    value: Option<NodeId>,
    /// The score of a key whose value adds nothing.
    masked: f32,
    env: &'e Env,
}

impl WeighedRow<'_> {
    fn score(&self, b: &mut Builder, s: &mut Strip<'_, '_>) -> F32 {
        F32::from_value(s.root(b, self.score, self.env))
    }

    /// The greatest score.
    fn greatest(&self, b: &mut Builder, s: &mut Strip<'_, '_>) -> F32 {
        let low = b.f32(f32::NEG_INFINITY);
        let max = b.lanes(self.trip, low, |b, index, max| {
            s.enter(index);
            let v = self.score(b, s);
            b.max(v, max)
        });
        s.leave();
        b.hmax(max)
    }

    /// The sum of the weights, and that of the values under them: the scores, or their exponentials relative to a shift.
    fn sums(&self, b: &mut Builder, s: &mut Strip<'_, '_>, shift: Option<F32>) -> (F32, F32) {
        let (zero, masked) = (b.f32(0.0), b.f32(self.masked));
        let (sum, weighed) = b.lanes(self.trip, (zero, zero), |b, index, (sum, weighed)| {
            s.enter(index);
            let score = self.score(b, s);
            let weight = shift.map_or(score, |shift| {
                let drop = b.sub(score, shift);
                math::exp_nonpositive(b, drop)
            });
            let weighed = self.value.map_or(weighed, |value| {
                let value = F32::from_value(s.root(b, value, self.env));
                let (term, kept) = (b.mul(weight, value), b.ne(score, masked));
                let term = b.select(kept, term, zero);
                b.add(weighed, term)
            });
            (b.add(sum, weight), weighed)
        });
        s.leave();
        (b.hsum(sum), b.hsum(weighed))
    }
}

/// The kernel that stores the running sum of `x` along an axis.
pub(crate) fn cumulate(
    scope: &mut Scope<'_>,
    (target, loops): (Target<'_>, &[AxisId]),
    (direction, axis): (Direction, AxisId),
    x: NodeId,
) -> Kernel {
    let (mut m, env) = begin(scope, target, axis, loops);
    let extent = m.scope.graph.extent(axis).clone();
    let is_float = m.scope.graph.node(x).dtype.is_float();
    let out = stored(target.id, target.buffer);
    let mut b = Builder::new(direction.name());
    let mut s = Strip::new(m.scope, Visit::Single, n(0), &[out.base]);
    let trip = s.integer(&mut b, &extent);
    if is_float {
        let zero = b.f32(0.0);
        run(&mut b, &mut s, Run { direction, trip, x, out: &out, env: &env }, zero);
    } else {
        let zero = b.i32(0);
        run(&mut b, &mut s, Run { direction, trip, x, out: &out, env: &env }, zero);
    }
    let args = s.finish();
    let call = m.call(b.finish(), args);
    m.finish(vec![call], target.node, target.id)
}

/// A running sum of one row.
struct Run<'e> {
    direction: Direction,
    trip: Int,
    x: NodeId,
    out: &'e Stored,
    env: &'e Env,
}

/// Stores the running sum of a row, one element after the other.
fn run<T: VectorNumber + Carry>(b: &mut Builder, s: &mut Strip<'_, '_>, row: Run<'_>, zero: T) {
    b.count(row.trip, zero, |b, step, sum| {
        let at = match row.direction {
            Direction::Forward => step,
            Direction::Reverse => {
                let (left, one) = (b.sub(row.trip, step), b.int(1));
                b.sub(left, one)
            }
        };
        s.enter(at);
        let v = T::from_value(s.root(b, row.x, row.env));
        let sum = b.add(sum, v);
        let place = s.place(b, row.out, row.env);
        b.store(place, sum);
        sum
    });
}
