//! The passes before the e-graph, which make up axes or compare whole expressions, as no rule can: each is local, takes a graph
//! and returns an equal one.

pub(crate) mod axes;
pub(crate) mod batch;
pub(crate) mod behind;
pub(crate) mod distances;
pub(crate) mod ends;
pub(crate) mod guards;
pub(crate) mod merged;
pub(crate) mod nested_sums;
pub(crate) mod numbers;
pub(crate) mod parts;
pub(crate) mod running;
pub(crate) mod share;
