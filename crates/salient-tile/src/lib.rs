//! A fused graph to loop programs over tiles, and the memory plan.
//!
//! Knows the graph and the vector bodies; knows neither source text nor machine code.

pub mod coded;
mod defined;
mod dims;
mod emit;
mod index;
pub mod plan;
mod program;
mod tiling;
pub mod verify;

pub use program::{eval, kernel, memory, text};

pub use defined::MOST_CHECKS;
pub use dims::LANES;
pub use emit::emit;
pub use kernel::{
    Append, Arg, Base, Buffer, BufferId, Check, Int, Kernel, Kind, Limit, Program, Role, Scratch, Section,
    Sizes, Stmt,
};
pub use plan::{Options, Plan, plan};
pub use program::values::Value;
pub use tiling::{Knob, TILING, Tiling};

use salient_ir::Graph;

/// The program of a graph.
pub fn schedule(g: &Graph, options: Options<'_>) -> Program {
    program_of(&plan(g, options), false)
}

/// The program of a plan. In debug builds, and with `verify` in every build, the plan and the program are verified wherever
/// they run; with `verify` so are the addresses: one that is shown to lie outside is a fault.
///
/// # Panics
/// If something is wrong with them: the compiler has made it so.
pub fn program_of(plan: &Plan<'_>, verify: bool) -> Program {
    let looked_at = verify || cfg!(debug_assertions);
    if looked_at {
        verify::assert_plan(plan);
    }
    let program = emit(plan);
    if looked_at {
        let requirements = plan.graph.requirements();
        verify::assert_program(plan.graph.name(), &program, verify.then_some(requirements));
    }
    program
}
