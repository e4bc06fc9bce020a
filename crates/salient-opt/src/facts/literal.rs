//! The value of an operator on literals.

use salient_ir::{Const, DType, MapOp, Typing};

/// The element type of the result of an operator, by those of its arguments.
pub(crate) fn dtype(op: MapOp, of: impl Fn(usize) -> DType) -> DType {
    match op.info().typing {
        Typing::Float | Typing::Draw => DType::F32,
        Typing::Arithmetic | Typing::Integer => of(0),
        Typing::Compare | Typing::Logic => DType::Bool,
        Typing::Select => of(1),
        Typing::Cast(to) => to,
    }
}

/// The value of an operator, unless it is NaN or an integer that has no literal.
pub(crate) fn value(op: MapOp, dtype: DType, values: &[f64]) -> Option<Const> {
    let x = (op.info().eval)(values);
    let exact = x.fract() == 0.0 && x.abs() < 9.0e15;
    match dtype {
        DType::F32 => (!x.is_nan()).then(|| Const::f32(x as f32)),
        DType::I64 => exact.then_some(Const::I64(x as i64)),
        DType::I32 if exact => i32::try_from(x as i64).ok().map(Const::I32),
        DType::Bool => Some(Const::Bool(x != 0.0)),
        DType::I32 | DType::F16 | DType::BF16 => None,
    }
}
