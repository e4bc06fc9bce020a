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
pub use emit::emit;
pub use kernel::{
    Append, Arg, Base, Buffer, BufferId, Check, Int, Kernel, Kind, LANES, Limit, Program, Role, Scratch,
    Section, Stmt,
};
pub use plan::{Options, Plan, plan};
pub use tiling::{Knob, TILING, Tiling};

use salient_ir::Graph;

/// As [`schedule`], and says what is wrong with the plan or with the program, wherever it runs; of the addresses those that
/// are known to lie outside for some sizes, and of the elements those that are known to be written twice or never.
///
/// # Panics
/// If something is wrong with them: the compiler has made it so.
pub fn verified(g: &Graph, options: Options<'_>) -> Program {
    let plan = plan(g, options);
    let program = emit(&plan);
    let found = [verify::plan::verify(&plan), verify::program::verify(&program)].into_iter().flatten();
    let mut faults: Vec<String> = found.map(|fault| fault.to_string()).collect();
    if faults.is_empty() {
        let addresses = verify::bounds::bounds(&program, g.requirements()).undecided;
        faults.extend(addresses.iter().filter(|a| a.outside.is_some()).map(ToString::to_string));
        let elements = verify::coverage::coverage(&program, g.requirements()).open;
        faults.extend(elements.iter().filter(|e| e.shown.is_some()).map(ToString::to_string));
    }
    assert!(faults.is_empty(), "the program of `{}` is wrong:\n{}", g.name(), faults.join("\n"));
    program
}

/// The program of a graph.
pub fn schedule(g: &Graph, options: Options<'_>) -> Program {
    let plan = plan(g, options);
    debug_assert_eq!(verify::plan::verify(&plan), [], "a plan has faults");
    let program = emit(&plan);
    debug_assert_eq!(verify::program::verify(&program), [], "a program has faults");
    program
}
