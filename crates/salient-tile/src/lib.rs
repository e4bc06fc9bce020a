//! A fused graph to loop programs over tiles, and the memory plan.
//!
//! Knows the graph and the vector bodies; knows neither source text nor machine code.

mod attend;
mod attention;
pub mod coded;
mod columns;
mod contraction;
mod defined;
mod emit;
pub mod eval;
mod index;
mod join;
mod keep;
pub mod kernel;
mod layout;
mod look;
mod maker;
mod map;
mod masks;
pub mod memory;
mod pack;
mod panels;
pub mod plan;
mod product;
mod repeat;
mod report;
mod rows;
mod scalar;
mod score;
mod softmax;
mod split;
mod statistics;
mod streamed;
mod strip;
pub mod text;
mod tiling;
mod values;

pub use defined::MOST_CHECKS;
pub use emit::emit;
pub use kernel::{
    Append, Arg, Base, Buffer, BufferId, Check, Int, Kernel, Kind, LANES, Limit, Program, Role, Scratch,
    Section, Stmt,
};
pub use plan::{Options, Plan, plan};
pub use tiling::{Knob, TILING, Tiling};

use salient_ir::Graph;

/// The program of a graph.
pub fn schedule(g: &Graph, options: Options<'_>) -> Program {
    emit(&plan(g, options))
}
