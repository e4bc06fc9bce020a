//! The typed tensor graph and what is true of it alone.
//!
//! A tensor is a function of named indices: a node has a dtype and a set of free axes, no order and no layout.
//! This crate knows neither source text, nor the optimiser, nor machine code.

pub mod array;
pub mod axis;
pub mod demand;
pub mod dim;
pub mod eval;
pub mod graph;
pub mod integers;
pub mod math;
pub mod op;
pub mod quantised;
pub mod range;
pub mod stack;
pub mod text;
pub mod ty;
pub mod typing;
pub mod verify;

pub use axis::{Axis, AxisId, AxisSet};
pub use dim::set::{DimAt, Dims};
pub use dim::{Bindings, Dim, DimError, DimNode, Factor, Limit, Name};
pub use graph::builder::Builder;
pub use graph::{
    Args, Graph, Growth, Init, Node, NodeId, Origin, Output, Port, Relation, Requirement, State,
};
pub use op::{Const, FusedOp, MapOp, Op, ReduceOp, Typing};
pub use range::Range;
pub use ty::DType;
pub use typing::TypeError;
