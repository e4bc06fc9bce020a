//! The keys that the rows of each attention of a plan visit, in numbers.

use super::facts::over_keys;
use crate::dims::n;
use crate::index::{AxisValue, Env};
use crate::plan::Plan;
use crate::plan::attention::key_range::KeyRange;
use salient_ir::{AxisId, Bindings, NodeId};
use std::ops::Range;

/// The keys that a kernel visits, row by row.
#[derive(Debug)]
pub struct KeySpans<'p> {
    /// The kernel, by its position in [`Plan::made`].
    pub kernel: usize,
    /// What it computes.
    pub node: NodeId,
    /// The scores.
    pub score: NodeId,
    /// The axis of the rows.
    pub query: AxisId,
    /// The axis of the keys.
    pub key: AxisId,
    range: &'p KeyRange,
}

impl Plan<'_> {
    /// Those of each attention that has an axis of queries, once where a kernel for few rows computes the same.
    pub fn key_spans(&self) -> Vec<KeySpans<'_>> {
        let mut out: Vec<KeySpans<'_>> = Vec::new();
        for (kernel, set) in self.order.iter().enumerate() {
            for (a, of, _) in set.iter().filter_map(|k| over_keys(&self.kernels[*k].anchor)) {
                let is_new = out.iter().all(|known| known.node != a.node);
                if let Some(query) = a.query.filter(|_| is_new) {
                    let (node, score, key) = (a.node, a.score, a.key);
                    out.push(KeySpans { kernel, node, score, query, key, range: &of.range });
                }
            }
        }
        out
    }

    /// The keys that a row visits at these sizes, at the first place along all other axes.
    pub fn keys_of_row(&self, of: &KeySpans<'_>, row: i64, sizes: &Bindings) -> Option<Range<i64>> {
        let g = &self.graph;
        let place = |axis: AxisId| AxisValue::Poly(n(if axis == of.query { row } else { 0 }));
        let env: Env = g.node(of.score).axes.iter().map(|axis| (axis, place(axis))).collect();
        let KeyRange { begins, ends } = of.range.at(&env);
        let keys = g.extent(of.key).eval(sizes).ok()?;
        let begin = begins.iter().try_fold(0, |least, dim| Some(dim.eval(sizes).ok()?.max(least)))?;
        let end = ends.iter().try_fold(keys, |most, dim| Some(dim.eval(sizes).ok()?.min(most)))?;
        Some(begin..end.max(begin))
    }
}
