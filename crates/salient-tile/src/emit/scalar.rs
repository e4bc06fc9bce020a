//! Scalar operators of the graph as vector code, one row each.
//!
//! What an operator's arguments are, and whether they are read at all, is decided elsewhere: see `strip`.

use salient_ir::{DType, MapOp};
use salient_vector::body::Value;
use salient_vector::handle::Handle;
use salient_vector::{Builder, F32, I32, math};

/// A scalar operator of the graph as vector code. `dtype` is that of the first argument.
pub(crate) fn scalar(b: &mut Builder, op: MapOp, dtype: DType, args: &[Value]) -> Value {
    use salient_vector::Op as V;
    let f = |n: usize| F32::from_value(args[n]);
    let i = |n: usize| I32::from_value(args[n]);
    match op {
        MapOp::Neg => b.op(V::Neg, args),
        MapOp::Recip => {
            let one = b.f32(1.0);
            b.div(one, f(0)).value()
        }
        MapOp::Abs => b.op(V::Abs, args),
        MapOp::Floor => b.op(V::Floor, args),
        MapOp::Exp => math::exp(b, f(0)).value(),
        MapOp::Log => math::log(b, f(0)).value(),
        MapOp::Sqrt => b.op(V::Sqrt, args),
        MapOp::Tanh => math::tanh(b, f(0)).value(),
        MapOp::Erf => math::erf(b, f(0)).value(),
        MapOp::Sin => math::sin(b, f(0)).value(),
        MapOp::Cos => math::cos(b, f(0)).value(),
        MapOp::Pow => math::pow(b, f(0), f(1)).value(),
        MapOp::Not => b.op(V::Not, args),
        MapOp::ToF32 if dtype.is_float() => args[0],
        MapOp::ToF32 => b.op(V::ToF32, args),
        MapOp::ToI32 | MapOp::ToI64 if dtype.is_int() => args[0],
        MapOp::ToI32 | MapOp::ToI64 => b.op(V::ToI32, args),
        MapOp::Add => b.op(V::Add, args),
        MapOp::Sub => b.op(V::Sub, args),
        MapOp::Mul => b.op(V::Mul, args),
        MapOp::Div => b.op(V::Div, args),
        MapOp::Min if dtype.is_float() => math::min_or_nan(b, f(0), f(1)).value(),
        MapOp::Max if dtype.is_float() => math::max_or_nan(b, f(0), f(1)).value(),
        MapOp::Min | MapOp::Max => b.op(if op == MapOp::Min { V::Min } else { V::Max }, args),
        MapOp::IntDiv => math::div_floor(b, i(0), i(1)).value(),
        MapOp::Mod => math::rem_floor(b, i(0), i(1)).value(),
        MapOp::Eq | MapOp::Ne if dtype == DType::Bool => {
            let differ = b.op(V::Xor, args);
            if op == MapOp::Ne { differ } else { b.op(V::Not, &[differ]) }
        }
        MapOp::Eq => b.op(V::Eq, args),
        MapOp::Ne => b.op(V::Ne, args),
        MapOp::Lt => b.op(V::Lt, args),
        MapOp::Le => b.op(V::Le, args),
        MapOp::And => b.op(V::And, args),
        MapOp::Or => b.op(V::Or, args),
        MapOp::Philox => math::philox(b, [i(0), i(1)], [i(2), i(3)]).value(),
        MapOp::Select => unreachable!("select decides which of its arms is read"),
    }
}
