//! The typed tensor graph and what is true of it alone.
//!
//! A tensor is a function of named indices: a node has a dtype and a set of free axes, no order and no layout.
//! This crate knows neither source text, nor the optimiser, nor machine code.

pub mod array;
pub mod axis;
pub mod dim;
pub mod eval;
pub mod graph;
pub mod op;
pub mod stack;
pub mod text;
pub mod ty;

pub use array::quantised;
pub use axis::{Axis, AxisId, AxisSet};
pub use dim::range::{self, Range};
pub use dim::set::{DimAt, Dims};
pub use dim::{Bindings, Dim, DimError, DimNode, Factor, Limit, Name, Numbers, Symbol, SymbolKind};
pub use graph::builder::Builder;
pub use graph::typing::TypeError;
pub use graph::{
    Args, Graph, Growth, Init, Node, NodeId, Origin, Output, Port, Relation, Requirement, State,
};
pub use graph::{demand, integers, remainders, typing, verify};
pub use op::math;
pub use op::{Class, Const, Direction, FusedOp, MapOp, Op, ReduceOp, Typing};
pub use ty::DType;
