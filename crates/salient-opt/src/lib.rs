//! A graph to a cheaper equal graph, by equality saturation. Which kernels the result becomes is not decided here.
//!
//! The way of a graph; the passes of steps 2 to 4 are the rows of [`PASSES`]:
//!
//! 1. Chains of equal blocks are found and taken apart (`blocks/`): one block and what surrounds the chain go the way below,
//!    each by itself, and are put together again.
//! 2. Passes before the e-graph (`before/`) give heads, axes and what is shared one form.
//! 3. The e-graph (`egraph/`) is filled with the graph in normal form, the rules (`rules/`) add what is equal, guarded by what is
//!    known of each class (`facts/`), and the cheapest terms become a graph again.
//! 4. Passes after the e-graph (`after/`) look at who reads what, which terms cannot tell.
//! 5. The result comes with a report (`report/`): which rules led to each fused operator, and what was not proved.
//!
//! [`optimise`] goes this way, and [`trace`] shows the graph after each pass.

mod after;
mod before;
mod blocks;
mod egraph;
mod facts;
mod graph;
mod lang;
mod options;
pub mod passes;
mod pipeline;
mod report;
pub mod rules;
#[cfg(test)]
mod soundness;

pub use egraph::saturate::Stop;
pub use facts::Property;
pub use options::{Fp, Options};
pub use passes::{PASSES, Pass};
pub use pipeline::{Optimised, in_one_sum, normal_form, optimise, optimise_with, trace};
pub use report::certificate::{Certificate, Miss};
pub use report::named::{Named, NamedOp};
pub use report::walk::WalkStep;
pub use report::{Repeated, Report};
