//! From source text to code that runs, and why the code is what it is.
//!
//! [`sources`] reads a program and what it imports, [`pipeline`] takes it through the stages, [`choose`] says which of
//! its plans is compiled, [`engine`] holds what comes
//! out: machine code or the interpreter. [`options`] and [`tuning`] are what a caller and a machine have a say in,
//! [`drawing`] gives graphs and plans as boxes and edges, [`stage`] names the stages and engines, [`integers`] checks that whole numbers fit 32 bits, [`pairs`] says what is not fused and why, and [`explain`] puts into
//! words what the optimiser and the planner report. Nothing here knows the arrays of a call.

pub(crate) mod choose;
pub(crate) mod drawing;
pub(crate) mod engine;
pub(crate) mod explain;
pub(crate) mod integers;
pub(crate) mod options;
pub(crate) mod pairs;
pub(crate) mod pipeline;
pub(crate) mod plan_text;
pub(crate) mod sources;
pub(crate) mod stage;
pub(crate) mod tuning;
