//! The type of a node from its operator and its arguments: the one place that decides what is well-typed.

use crate::axis::{AxisId, AxisSet};
use crate::dim::Dim;
use crate::graph::{Graph, NodeId};
use crate::op::{Op, ReduceOp, Typing};
use crate::ty::DType;

/// Why a node cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum TypeError {
    #[error("`{op}` takes {expected} arguments, found {found}")]
    Arity { op: String, expected: usize, found: usize },
    #[error("`{op}` does not take {found}")]
    DType { op: String, found: String },
    #[error("`{op}` takes values of one type, found {left} and {right}")]
    Mixed { op: String, left: DType, right: DType },
    #[error("an index must be an integer, found {0}")]
    Index(DType),
    #[error("the parts of a concatenation along an axis of length {expected} have {found} positions in all")]
    Concat { expected: Dim, found: Dim },
    #[error("part {0} of a concatenation does not have the axis `{1}`")]
    ConcatAxis(usize, String),
    #[error("a node of {0} arguments is too large")]
    TooManyArguments(usize),
    #[error("there is no input or parameter number {0}")]
    Port(usize),
    #[error("the output `{0}` lists an axis twice")]
    RepeatedAxis(String),
    #[error("the output `{0}` depends on the axis `{1}`, which it does not list")]
    UnlistedAxis(String, String),
}

fn arity(op: &str, expected: usize, args: &[NodeId]) -> Result<(), TypeError> {
    if args.len() == expected {
        Ok(())
    } else {
        Err(TypeError::Arity { op: op.to_owned(), expected, found: args.len() })
    }
}

fn same(op: &str, left: DType, right: DType) -> Result<DType, TypeError> {
    if left == right { Ok(left) } else { Err(TypeError::Mixed { op: op.to_owned(), left, right }) }
}

fn map_dtype(op: &str, typing: Typing, found: &[DType]) -> Result<DType, TypeError> {
    let all_same = |args: &[DType]| args.iter().skip(1).try_fold(args[0], |d, x| same(op, d, *x));
    let refuse = |d: DType| Err(TypeError::DType { op: op.to_owned(), found: d.name().to_owned() });
    match typing {
        Typing::Float => all_same(found).and_then(|d| if d == DType::F32 { Ok(d) } else { refuse(d) }),
        Typing::Arithmetic => all_same(found).and_then(|d| if d == DType::Bool { refuse(d) } else { Ok(d) }),
        Typing::Integer => all_same(found).and_then(|d| if d.is_int() { Ok(d) } else { refuse(d) }),
        Typing::Compare => all_same(found).map(|_| DType::Bool),
        Typing::Logic => all_same(found).and_then(|d| if d == DType::Bool { Ok(d) } else { refuse(d) }),
        Typing::Select if found[0] != DType::Bool => refuse(found[0]),
        Typing::Select => same(op, found[1], found[2]),
        Typing::Cast(to) => Ok(to),
        Typing::Draw => all_same(found).and_then(|d| if d.is_int() { Ok(DType::F32) } else { refuse(d) }),
    }
}

/// The dtype and the free axes of a node with that operator and those arguments.
pub(crate) fn result_type(g: &Graph, op: &Op, args: &[NodeId]) -> Result<(DType, AxisSet), TypeError> {
    let dtype = |n: usize| g.node(args[n]).dtype;
    let axes = |n: usize| g.node(args[n]).axes.clone();
    let without = |mut set: AxisSet, axis: AxisId| {
        set.remove(axis);
        set
    };
    let with = |mut set: AxisSet, axis: AxisId| {
        set.insert(axis);
        set
    };
    let all_axes = || args.iter().fold(AxisSet::new(), |s, a| s.union(&g.node(*a).axes));
    match op {
        Op::Input(at) | Op::Param(at) => {
            arity("a source", 0, args)?;
            let ports = if matches!(op, Op::Input(_)) { g.inputs() } else { g.params() };
            let port = ports.get(*at).ok_or(TypeError::Port(*at))?;
            Ok((port.dtype.compute(), port.axes.iter().copied().collect()))
        }
        Op::Const(c) => arity("a literal", 0, args).map(|()| (c.dtype(), AxisSet::new())),
        Op::Iota(axis) => arity("an index", 0, args).map(|()| (DType::I64, [*axis].into_iter().collect())),
        Op::Extent(_) => arity("a dimension", 0, args).map(|()| (DType::I64, AxisSet::new())),
        Op::Map(map) => {
            let info = map.info();
            arity(info.name, info.arity, args)?;
            let found: Vec<DType> = (0..args.len()).map(dtype).collect();
            Ok((map_dtype(info.name, info.typing, &found)?, all_axes()))
        }
        Op::Reduce(reduce, axis) => {
            let info = reduce.info();
            arity(info.name, 1, args)?;
            let element = match (reduce, dtype(0)) {
                (ReduceOp::ArgMax, DType::Bool) => {
                    return Err(TypeError::DType { op: info.name.to_owned(), found: "bool".to_owned() });
                }
                (_, found) => map_dtype(info.name, info.typing, &[found])?,
            };
            Ok((element, without(axes(0), *axis)))
        }
        Op::At(axis) => {
            arity("at", 2, args)?;
            if !dtype(1).is_int() {
                return Err(TypeError::Index(dtype(1)));
            }
            Ok((dtype(0), without(axes(0), *axis).union(&axes(1))))
        }
        Op::Concat(axis, parts) => {
            arity("concat", parts.len().max(1), args)?;
            let mut total = Dim::constant(0);
            let mut free = AxisSet::new();
            for (n, part) in parts.iter().enumerate() {
                same("concat", dtype(0), dtype(n))?;
                total = &total + g.extent(*part);
                free = free.union(&without(axes(n), *part));
            }
            if total != *g.extent(*axis) {
                return Err(TypeError::Concat { expected: g.extent(*axis).clone(), found: total });
            }
            Ok((dtype(0), with(free, *axis)))
        }
        Op::CumSum(direction, axis) => {
            arity(direction.name(), 1, args)?;
            Ok((map_dtype(direction.name(), Typing::Arithmetic, &[dtype(0)])?, with(axes(0), *axis)))
        }
        Op::Fused(fused, axis) => {
            let info = fused.info();
            arity(info.name, info.arity(), args)?;
            let found: Vec<DType> = (0..args.len()).map(dtype).collect();
            let element = map_dtype(info.name, Typing::Float, &found)?;
            let free = all_axes();
            Ok((element, if info.reduces { without(free, *axis) } else { with(free, *axis) }))
        }
    }
}
