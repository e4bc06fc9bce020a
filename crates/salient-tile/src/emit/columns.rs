//! Reductions over rows: many columns at once, where neighbours along the bound axis lie far apart.
//!
//! A strip of columns of the result is begun with the operator's value of nothing, and row after row is added to it while
//! it stays in the first cache. Which axes run over columns is decided by where the operand lies in memory.

use crate::dims::{LANE, ceil_div, n, var};
use crate::emit::maker::{Maker, Target, for_loop, let_dim, let_min};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::layouts::stored;
use crate::program::kernel::{Kernel, Kind, Stmt};
use salient_ir::{AxisId, DType, Dim, NodeId, ReduceOp};
use salient_vector::body::{Const, Value};
use salient_vector::handle::Handle;
use salient_vector::{Builder, F32, I32, Mask, Op, math};

/// Columns that one item computes.
const CHUNK: i64 = 512;

/// The kernel that stores the reduction of `x` along `axis` by columns; for every operator but the position of the
/// greatest.
pub(crate) fn reduce_columns(
    scope: &mut Scope<'_>,
    target: Target<'_>,
    op: ReduceOp,
    (axis, column): (AxisId, AxisId),
    x: NodeId,
) -> Kernel {
    let mut m = Maker::planned(scope, target, Kind::Rows);
    let g = m.scope.graph;
    let (depth, width) = (g.extent(axis).clone(), g.extent(column).clone());
    let mut env = Env::from([(column, AxisValue::Poly(var(&LANE)))]);
    m.scope.ranges.insert(&LANE, &width);
    m.outer_axes(target.buffer.axes.iter().copied().filter(|a| *a != column), &mut env);
    let chunk = m.outer("chunk", &ceil_div(&width, &n(CHUNK)));
    let (from, count) = (m.variable("from", &width), m.variable("count", &n(CHUNK + 1)));
    let name = m.axis_name(axis);
    let row = m.variable(&name, &depth);
    let strip = Columns { target, op, dtype: g.node(x).dtype, from: var(&from), count: var(&count) };
    let begin = strip.call(&mut m, None, &env);
    env.insert(axis, AxisValue::Poly(var(&row)));
    let add = strip.call(&mut m, Some(x), &env);
    let block = vec![
        let_dim(&from, &chunk * &n(CHUNK)),
        let_min(&count, vec![n(CHUNK), &width - &var(&from)]),
        begin,
        for_loop(&row, n(0), depth.clone(), n(1), vec![add]),
    ];
    m.finish(block, target.node, target.id)
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
