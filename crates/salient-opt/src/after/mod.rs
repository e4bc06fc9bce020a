//! The passes after the e-graph. They ask who else reads a value, which is known only of the graph that was extracted.

pub(crate) mod columns;
pub(crate) mod distances;
pub(crate) mod joined;
pub(crate) mod keys_first;
pub(crate) mod log_sum_exp;
pub(crate) mod masks;
pub(crate) mod mean_products;
pub(crate) mod merge_sums;
pub(crate) mod names_outermost;
pub(crate) mod order_factors;
mod scores;
pub(crate) mod tables;
pub(crate) mod values;
pub(crate) mod weighted_sums;
