//! What passes share, whether before the e-graph or after: how a graph is rewritten, what its products are made of, which
//! places its indices are, and which of its reads are made in any case.

pub(crate) mod border;
pub(crate) mod choices;
pub(crate) mod demanded;
pub(crate) mod digest;
pub(crate) mod factors;
pub(crate) mod index;
pub(crate) mod inequalities;
pub(crate) mod rewrite;
pub(crate) mod sizes;
pub(crate) mod views;
