//! The operators: one closed vocabulary and the tables of what is true of each.
//!
//! A row's mnemonic is *the* name: the builtin of the language, the word of the text form and the symbol in the
//! optimiser's rules. Typing, evaluation and code generation go by class. Nothing here knows about graphs.

use crate::axis::AxisId;
use crate::dim::Dim;
use crate::ty::DType;
use smallvec::SmallVec;

pub mod curve;
pub mod fused;
pub mod map;
pub mod math;
pub mod notation;
pub mod reduce;

pub use curve::Curve;
pub use fused::{FUSED, FusedInfo, FusedOp, RowWeights, Shares};
pub use map::{MAPS, MOST_ARGUMENTS, MapInfo, MapOp};
pub use notation::{Binding, Notation};
pub use reduce::{REDUCES, ReduceInfo, ReduceOp};

/// How the dtypes of a scalar operator's arguments give the dtype of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// `f32 … -> f32`.
    Float,
    /// The same arithmetic type (`f32` or an integer) in and out.
    Arithmetic,
    /// The same integer type in and out.
    Integer,
    /// The same type twice, `bool` out.
    Compare,
    /// `bool … -> bool`.
    Logic,
    /// `bool, t, t -> t`.
    Select,
    /// Any type to the given one.
    Cast(DType),
    /// The same integer type throughout, `f32` out.
    Draw,
}

/// A literal. Floats are kept (and compared) by their bits, so that -0 and 0 stay two constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Const {
    /// The bits of an f32.
    F32(u32),
    /// A 32-bit integer.
    I32(i32),
    /// A 64-bit integer.
    I64(i64),
    /// A truth value.
    Bool(bool),
}

impl Const {
    /// The f32 constant `x`.
    pub fn f32(x: f32) -> Const {
        Const::F32(x.to_bits())
    }

    /// Its element type.
    pub fn dtype(self) -> DType {
        match self {
            Const::F32(_) => DType::F32,
            Const::I32(_) => DType::I32,
            Const::I64(_) => DType::I64,
            Const::Bool(_) => DType::Bool,
        }
    }

    /// Its value; a truth value is 0 or 1.
    pub fn value(self) -> f64 {
        match self {
            Const::F32(bits) => f64::from(f32::from_bits(bits)),
            Const::I32(n) => f64::from(n),
            Const::I64(n) => n as f64,
            Const::Bool(b) => map::truth(b),
        }
    }
}

/// What a node of the graph does. Arguments are edges of the graph, in the order that each variant states.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// The input with that position in the graph's list.
    Input(usize),
    /// The parameter with that position in the graph's list.
    Param(usize),
    /// A literal.
    Const(Const),
    /// The index along the axis, `i64`.
    Iota(AxisId),
    /// The value of a dimension, `i64`.
    Extent(Dim),
    /// A scalar operator over its arguments.
    Map(MapOp),
    /// A reduction of its one argument along the axis. An axis that is not free in the argument is still counted:
    /// the sum of ones over `T` is `T`.
    Reduce(ReduceOp, AxisId),
    /// Arguments `x, index`: `x` at position `index` of the axis. Renaming, slicing, splitting and gathering.
    At(AxisId),
    /// Its arguments one after the other along the first axis; argument `k` lies along `parts[k]`.
    Concat(AxisId, SmallVec<[AxisId; 2]>),
    /// The running sum of its argument along the axis, from its beginning or its end on, including the own position.
    CumSum(Direction, AxisId),
    /// A fused operator that binds the axis.
    Fused(FusedOp, AxisId),
}

/// Which way a running sum goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the first position on: what is at positions up to the own one.
    Forward,
    /// From the last position back: what is at the own one and those behind it.
    Reverse,
}

impl Direction {
    /// Both.
    pub const ALL: [Direction; 2] = [Direction::Forward, Direction::Reverse];

    /// What the running sum is called.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Forward => "cumsum",
            Direction::Reverse => "reverse_cumsum",
        }
    }

    /// The part of a row that the sum at a position is over.
    pub fn part<T>(self, row: &[T], at: usize) -> &[T] {
        match self {
            Direction::Forward => &row[..=at],
            Direction::Reverse => &row[at..],
        }
    }
}

/// What an operator is to a pass that treats all of a kind alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// An input or a parameter: a stored tensor.
    Port,
    /// A literal, an index or a dimension: known wherever it is read, and stored nowhere.
    Leaf,
    /// A scalar operator, element by element.
    Map,
    /// A tensor at positions that an index says.
    View,
    /// Parts one after the other.
    Concat,
    /// What combines the values along an axis that it binds: a reduction, a running sum or a fused operator.
    Bind,
}

/// The axes that an operator names, in order.
pub type OpAxes = SmallVec<[AxisId; 4]>;

impl Op {
    /// What kind of operator it is.
    pub fn class(&self) -> Class {
        match self {
            Op::Input(_) | Op::Param(_) => Class::Port,
            Op::Const(_) | Op::Iota(_) | Op::Extent(_) => Class::Leaf,
            Op::Map(_) => Class::Map,
            Op::At(_) => Class::View,
            Op::Concat(..) => Class::Concat,
            Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) => Class::Bind,
        }
    }

    /// Whether it has no arguments.
    pub fn is_source(&self) -> bool {
        matches!(self.class(), Class::Port | Class::Leaf)
    }

    /// The axis that it binds in its arguments: that of a reduction, a running sum or a fused operator.
    pub fn bound(&self) -> Option<AxisId> {
        match self {
            Op::Reduce(_, axis) | Op::CumSum(_, axis) | Op::Fused(_, axis) => Some(*axis),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => None,
            Op::Map(_) | Op::At(_) | Op::Concat(..) => None,
        }
    }

    /// Every axis that the operator itself names, in the order in which [`Op::map_axes`] goes through them; those of its
    /// arguments are not among them. Of a concatenation the whole comes first, then its parts.
    pub fn axes(&self) -> OpAxes {
        let mut named = OpAxes::new();
        self.map_axes(|axis| {
            named.push(axis);
            axis
        });
        named
    }

    /// The same operator over other axes.
    pub fn map_axes(&self, mut to: impl FnMut(AxisId) -> AxisId) -> Op {
        match self {
            Op::Iota(axis) => Op::Iota(to(*axis)),
            Op::Reduce(op, axis) => Op::Reduce(*op, to(*axis)),
            Op::At(axis) => Op::At(to(*axis)),
            Op::Concat(axis, parts) => Op::Concat(to(*axis), parts.iter().map(|part| to(*part)).collect()),
            Op::CumSum(direction, axis) => Op::CumSum(*direction, to(*axis)),
            Op::Fused(op, axis) => Op::Fused(*op, to(*axis)),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Extent(_) | Op::Map(_) => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axes_of_an_operator_are_those_that_are_replaced() {
        let [a, b, c] = [0, 1, 2].map(AxisId::new);
        let operators = [
            (Op::Input(0), Class::Port, vec![], None),
            (Op::Extent(Dim::symbol("T")), Class::Leaf, vec![], None),
            (Op::Iota(a), Class::Leaf, vec![a], None),
            (Op::Map(MapOp::Add), Class::Map, vec![], None),
            (Op::At(b), Class::View, vec![b], None),
            (Op::Concat(c, [a, b].into_iter().collect()), Class::Concat, vec![c, a, b], None),
            (Op::Reduce(ReduceOp::Sum, a), Class::Bind, vec![a], Some(a)),
            (Op::CumSum(Direction::Reverse, b), Class::Bind, vec![b], Some(b)),
            (Op::Fused(FusedOp::Attend, c), Class::Bind, vec![c], Some(c)),
        ];
        for (op, class, axes, bound) in operators {
            assert_eq!((op.class(), op.axes().to_vec(), op.bound()), (class, axes, bound), "{op:?}");
            assert_eq!(op.is_source(), matches!(class, Class::Port | Class::Leaf), "{op:?}");
            let next = |axis: AxisId| AxisId::new(axis.index() + 1);
            let moved: Vec<AxisId> = op.axes().into_iter().map(next).collect();
            assert_eq!(op.map_axes(next).axes().to_vec(), moved, "{op:?}");
        }
    }
}
