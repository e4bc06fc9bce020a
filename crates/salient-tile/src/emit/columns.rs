//! Reductions and normalisations over rows: many columns at once, where neighbours along the bound axis lie far apart.
//!
//! A strip of columns of the result is begun with the operator's value of nothing, and row after row is added to it while
//! it stays in the first cache. Weights take two passes over the rows, one for the greatest scores and one for the exponentials
//! relative to them. Which axes run over columns is decided by where the operand lies in memory.

use crate::dims::{LANE, ceil_div, n, var};
use crate::emit::maker::{Maker, Target, for_loop, let_dim, let_min};
use crate::emit::stream::softmax::{RowShift, divisor, inverse, log_sum};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::STRIP_OF_COLUMNS;
use crate::plan::layouts::stored;
use crate::plan::scratch::Slot;
use crate::program::kernel::{Base, Kernel, Kind, Stmt};
use salient_ir::op::RowWeights;
use salient_ir::{AxisId, DType, Dim, FusedOp, NodeId, ReduceOp, Symbol};
use salient_vector::body::{Const, Value};
use salient_vector::handle::Handle;
use salient_vector::{Builder, F32, I32, Int, Mask, Op, Ptr, math};

/// The kernel that stores the reduction of `x` along `axis` by columns; for every operator but the position of the
/// greatest.
pub(crate) fn reduce_columns(
    scope: &mut Scope<'_>,
    target: Target<'_>,
    op: ReduceOp,
    (axis, column): (AxisId, AxisId),
    x: NodeId,
) -> Kernel {
    let mut frame = Frame::new(scope, target, (axis, column), &[column]);
    let Frame { from, count, .. } = &frame;
    let dtype = frame.m.scope.graph.node(x).dtype;
    let strip = Columns { target, op, dtype, from: var(from), count: var(count) };
    let begin = strip.call(&mut frame.m, None, &frame.above);
    let add = strip.call(&mut frame.m, Some(x), &frame.env);
    let each = frame.each_row(add);
    frame.finish(target, vec![begin, each])
}

/// What kernels of columns have in common: items of so many columns, and a loop over the rows.
struct Frame<'s, 'g> {
    m: Maker<'s, 'g>,
    /// The first column of an item, and how many it has.
    from: Symbol,
    count: Symbol,
    chunk: Dim,
    width: Dim,
    /// The row at hand.
    row: Symbol,
    depth: Dim,
    /// Where the axes are outside of the loop over the rows, and inside.
    above: Env,
    env: Env,
}

impl<'s, 'g> Frame<'s, 'g> {
    /// `inner` are the axes of the buffer that are no items.
    fn new(
        scope: &'s mut Scope<'g>,
        target: Target<'_>,
        (axis, column): (AxisId, AxisId),
        inner: &[AxisId],
    ) -> Frame<'s, 'g> {
        let mut m = Maker::planned(scope, target, Kind::Rows);
        let g = m.scope.graph;
        let (depth, width) = (g.extent(axis).clone(), g.extent(column).clone());
        let mut above = Env::from([(column, AxisValue::Poly(var(&LANE)))]);
        m.scope.ranges.insert(&LANE, &width);
        m.outer_axes(target.buffer.axes.iter().copied().filter(|a| !inner.contains(a)), &mut above);
        let chunk = m.outer("chunk", &ceil_div(&width, &n(STRIP_OF_COLUMNS)));
        let (from, count) = (m.variable("from", &width), m.variable("count", &n(STRIP_OF_COLUMNS + 1)));
        let name = m.axis_name(axis);
        let row = m.variable(&name, &depth);
        let mut env = above.clone();
        env.insert(axis, AxisValue::Poly(var(&row)));
        Frame { m, from, count, chunk, width, row, depth, above, env }
    }

    /// A statement for each row.
    fn each_row(&self, stmt: Stmt) -> Stmt {
        for_loop(&self.row, n(0), self.depth.clone(), n(1), vec![stmt])
    }

    fn finish(self, target: Target<'_>, stmts: Vec<Stmt>) -> Kernel {
        let Frame { from, count, chunk, width, .. } = &self;
        let strip = n(STRIP_OF_COLUMNS);
        let mut block =
            vec![let_dim(from, chunk * &strip), let_min(count, vec![strip.clone(), width - &var(from)])];
        block.extend(stmts);
        self.m.finish(block, target.node, target.id)
    }
}

/// A strip of columns of the result.
struct Columns<'b> {
    target: Target<'b>,
    op: ReduceOp,
    dtype: DType,
    from: Dim,
    count: Dim,
}

impl Columns<'_> {
    /// The call that begins the strip, or adds a row of `x` to it.
    fn call(&self, m: &mut Maker<'_, '_>, x: Option<NodeId>, env: &Env) -> Stmt {
        let out = stored(self.target.id, self.target.buffer);
        let word = if x.is_some() { self.op.info().name } else { "begin" };
        let mut b = Builder::new(word);
        let mut s = Strip::new(m.scope, Visit::Lanes, self.from.clone(), &[out.base]);
        let trip = s.integer(&mut b, &self.count);
        x.into_iter().for_each(|x| s.hoist(&mut b, x, env));
        b.lanes(trip, (), |b, index, ()| {
            s.enter(index);
            let place = s.place(b, &out, env);
            let value = match x {
                None => b.constant(self.nothing()),
                Some(x) => {
                    let sum = b.load_elem(out.elem, place);
                    let value = s.root(b, x, env);
                    self.combine(b, sum, value)
                }
            };
            b.store_elem(out.elem, place, value);
        });
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// The operator's value of nothing.
    fn nothing(&self) -> Const {
        let empty = self.op.info().empty;
        match (self.dtype, self.op) {
            (DType::Bool, op) => Const::Mask(op == ReduceOp::All),
            (DType::F32 | DType::F16 | DType::BF16, _) => Const::F32(empty as f32),
            (DType::I32 | DType::I64, ReduceOp::Max) => Const::I32(i32::MIN),
            (DType::I32 | DType::I64, ReduceOp::Min) => Const::I32(i32::MAX),
            (DType::I32 | DType::I64, ReduceOp::Prod) => Const::I32(1),
            (DType::I32 | DType::I64, ReduceOp::Sum | ReduceOp::Any | ReduceOp::All | ReduceOp::ArgMax) => {
                Const::I32(0)
            }
        }
    }

    fn combine(&self, b: &mut Builder, sum: Value, value: Value) -> Value {
        let float = |v: Value| F32::from_value(v);
        match (self.dtype, self.op) {
            (DType::Bool, ReduceOp::All) => b.and(Mask::from_value(sum), Mask::from_value(value)).value(),
            (DType::Bool, _) => b.or(Mask::from_value(sum), Mask::from_value(value)).value(),
            (DType::F32 | DType::F16 | DType::BF16, ReduceOp::Max) => {
                math::max_or_nan(b, float(sum), float(value)).value()
            }
            (DType::F32 | DType::F16 | DType::BF16, ReduceOp::Min) => {
                math::min_or_nan(b, float(sum), float(value)).value()
            }
            (DType::I32 | DType::I64, ReduceOp::Max) => {
                b.max(I32::from_value(sum), I32::from_value(value)).value()
            }
            (DType::I32 | DType::I64, ReduceOp::Min) => {
                b.min(I32::from_value(sum), I32::from_value(value)).value()
            }
            (_, ReduceOp::Prod) => b.op(Op::Mul, &[sum, value]),
            (_, ReduceOp::Sum | ReduceOp::Any | ReduceOp::All | ReduceOp::ArgMax) => {
                b.op(Op::Add, &[sum, value])
            }
        }
    }
}

/// The kernel that stores what the rows of scores `args[0]` along `axis` come to by columns: the weights that they make, the sum of
/// values under them, or their log-sum-exp. As [`rows`](crate::emit::rows) do it one row after the other.
pub(crate) fn weigh_columns(
    scope: &mut Scope<'_>,
    target: Target<'_>,
    op: FusedOp,
    (axis, column): (AxisId, AxisId),
    args: &[NodeId],
) -> Kernel {
    let info = op.info();
    let inner: &[AxisId] = if info.reduces { &[column] } else { &[column, axis] };
    let mut frame = Frame::new(scope, target, (axis, column), inner);
    let [shift, sum] = [Slot::Shift, Slot::Sum].map(|slot| frame.m.scratch(slot));
    let strip = WeighedColumns {
        target,
        op,
        score: args[0],
        value: info.has_values().then(|| args[1]),
        sink: info.sink.then(|| args[args.len() - 1]),
        from: var(&frame.from),
        count: var(&frame.count),
        shift,
        sum,
    };
    let mut stmts = Vec::new();
    if info.weights.is_exponential() {
        stmts.push(strip.lowest(&mut frame.m));
        let greatest = strip.greatest(&mut frame.m, &frame.env);
        stmts.push(frame.each_row(greatest));
    }
    stmts.push(strip.begin(&mut frame.m, &frame.above));
    let add = strip.add(&mut frame.m, &frame.env);
    stmts.push(frame.each_row(add));
    if info.reduces {
        stmts.push(strip.divide(&mut frame.m, &frame.above));
    } else if info.weights != RowWeights::Unnormalised {
        stmts.extend((info.weights == RowWeights::Softmax).then(|| strip.invert(&mut frame.m)));
        let divide = strip.divide(&mut frame.m, &frame.env);
        stmts.push(frame.each_row(divide));
    }
    frame.finish(target, stmts)
}

/// A strip of columns, each a row of scores.
struct WeighedColumns<'b> {
    target: Target<'b>,
    op: FusedOp,
    score: NodeId,
    value: Option<NodeId>,
    /// A further score of each row, which has no value.
    sink: Option<NodeId>,
    from: Dim,
    count: Dim,
    /// The greatest score of each, then what is subtracted from all.
    shift: Base,
    /// The sum of the weights of each.
    sum: Base,
}

impl WeighedColumns<'_> {
    /// The call of a body that goes over the columns; `code` is given their state.
    fn call(
        &self,
        m: &mut Maker<'_, '_>,
        word: &str,
        code: impl Fn(&mut Builder, &mut Strip<'_, '_>, Int, (Ptr, Ptr)),
    ) -> Stmt {
        let out = stored(self.target.id, self.target.buffer);
        let mut b = Builder::new(word);
        let mut s = Strip::new(m.scope, Visit::Lanes, self.from.clone(), &[out.base, self.shift, self.sum]);
        let trip = s.integer(&mut b, &self.count);
        let state = (s.pointer(&mut b, self.shift, &n(0)), s.pointer(&mut b, self.sum, &n(0)));
        b.lanes(trip, (), |b, index, ()| {
            s.enter(index);
            code(b, &mut s, index, state);
        });
        let args = s.finish();
        m.call(b.finish(), args)
    }

    /// No score has been seen.
    fn lowest(&self, m: &mut Maker<'_, '_>) -> Stmt {
        self.call(m, "lowest", |b, _, index, (max, _)| {
            let low = b.f32(f32::NEG_INFINITY);
            b.store(max.at(index), low);
        })
    }

    /// The greatest scores, with those of a row.
    fn greatest(&self, m: &mut Maker<'_, '_>, env: &Env) -> Stmt {
        self.call(m, "greatest", |b, s, index, (max, _)| {
            let v = F32::from_value(s.root(b, self.score, env));
            let before = b.load::<F32>(max.at(index));
            let most = b.max(v, before);
            b.store(max.at(index), most);
        })
    }

    /// What the exponentials are relative to; nothing is summed.
    fn begin(&self, m: &mut Maker<'_, '_>, env: &Env) -> Stmt {
        let out = stored(self.target.id, self.target.buffer);
        self.call(m, "begin", |b, s, index, (shift, sum)| {
            let zero = b.f32(0.0);
            if self.op.info().weights.is_exponential() {
                let max = b.load::<F32>(shift.at(index));
                let sink = self.sink.map(|sink| F32::from_value(s.root(b, sink, env)));
                let relative = RowShift::new(b, max, sink);
                b.store(shift.at(index), relative.shift);
                let beside = relative.total(b, zero);
                b.store(sum.at(index), beside);
            } else {
                b.store(sum.at(index), zero);
            }
            if self.value.is_some() {
                let place = s.place(b, &out, env);
                b.store(place, zero);
            }
        })
    }

    /// The weights of a row are added, and its values under them; or they are stored.
    fn add(&self, m: &mut Maker<'_, '_>, env: &Env) -> Stmt {
        let out = stored(self.target.id, self.target.buffer);
        let info = self.op.info();
        self.call(m, "add", |b, s, index, (shift, sum)| {
            let score = F32::from_value(s.root(b, self.score, env));
            let weight = if info.weights.is_exponential() {
                let shift = b.load::<F32>(shift.at(index));
                let drop = b.sub(score, shift);
                math::exp_nonpositive(b, drop)
            } else {
                score
            };
            let before = b.load::<F32>(sum.at(index));
            let total = b.add(before, weight);
            b.store(sum.at(index), total);
            if let Some(value) = self.value {
                let value = F32::from_value(s.root(b, value, env));
                let place = s.place(b, &out, env);
                let before = b.load::<F32>(place);
                let (masked, zero) = (b.f32(info.masked()), b.f32(0.0));
                let (term, kept) = (b.mul(weight, value), b.ne(score, masked));
                let term = b.select(kept, term, zero);
                let weighed = b.add(before, term);
                b.store(place, weighed);
            } else if !info.reduces {
                let place = s.place(b, &out, env);
                b.store(place, weight);
            }
        })
    }

    /// One over what each weight of a softmax is divided by, in place of their sum, which is at least one or there are no weights.
    fn invert(&self, m: &mut Maker<'_, '_>) -> Stmt {
        self.call(m, "invert", |b, _, index, (_, sum)| {
            let total = b.load::<F32>(sum.at(index));
            let divisor = divisor(b, total);
            let factor = inverse(b, divisor);
            b.store(sum.at(index), factor);
        })
    }

    /// What is stored is divided by the sum of the weights; weights of a softmax are multiplied by what [`Self::invert`] leaves.
    fn divide(&self, m: &mut Maker<'_, '_>, env: &Env) -> Stmt {
        let out = stored(self.target.id, self.target.buffer);
        self.call(m, "divide", |b, s, index, (shift, sum)| {
            let place = s.place(b, &out, env);
            let sum = b.load::<F32>(sum.at(index));
            let y = match self.op.info().weights {
                RowWeights::Unnormalised => return,
                RowWeights::LogSumExp => {
                    let shift = b.load::<F32>(shift.at(index));
                    log_sum(b, shift, sum)
                }
                RowWeights::Softmax if self.op.info().reduces => {
                    let (x, divisor) = (b.load::<F32>(place), divisor(b, sum));
                    b.div(x, divisor)
                }
                RowWeights::Softmax => {
                    let x = b.load::<F32>(place);
                    b.mul(x, sum)
                }
                RowWeights::ExpNorm | RowWeights::Share => {
                    let x = b.load::<F32>(place);
                    b.div(x, sum)
                }
            };
            b.store(place, y);
        })
    }
}
