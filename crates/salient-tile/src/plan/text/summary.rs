//! A plan in numbers, kernel by kernel: what each computes, and how much work and how many bytes that is.

use super::words::KernelWord;
use crate::dims::n;
use crate::plan::{Anchor, KernelPlan, Plan};
use crate::program::kernel::BufferId;
use salient_ir::{Dim, NodeId};
use std::collections::BTreeSet;

/// Why few rows have a kernel of their own.
const SPLIT_KV: &str = "keys in parts, read where they lie: few rows do not pay for packing them";
/// Why several products are one kernel.
pub(crate) const JOINT: &str = "one pass over the rows that its products share";

/// A kernel as it runs.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The word for what it is built around, as plans print it.
    pub word: &'static str,
    /// What it stores.
    pub name: String,
    /// The values with names of their own that it computes, the one that it stores last.
    pub computes: Vec<String>,
    /// It runs only where the first is less than the second.
    pub when: Option<(Dim, Dim)>,
    /// Whether it runs once, when the parameters are bound.
    pub once: bool,
    /// Floating-point operations; what a mask hides is not subtracted.
    pub flops: Dim,
    /// Bytes read and written, each buffer once.
    pub bytes: Dim,
    /// Why it is as it is, where there is a choice.
    pub note: Option<&'static str>,
}

impl Anchor {
    /// The word of a kernel around it.
    pub(crate) fn word(&self) -> KernelWord {
        match self {
            Anchor::Map(_) => KernelWord::Map,
            Anchor::Append(_) => KernelWord::Append,
            Anchor::Alias(_) => KernelWord::Alias,
            Anchor::Rows { .. } | Anchor::Reduction { .. } => KernelWord::Rows,
            Anchor::Columns { .. } => KernelWord::Columns,
            Anchor::Scatter(_) => KernelWord::Scatter,
            Anchor::Gemm(_) => KernelWord::Gemm,
            Anchor::Pack(_) => KernelWord::Pack,
            Anchor::Beside(_) | Anchor::SumParts(_) => KernelWord::Beside,
            Anchor::Tiled(_) | Anchor::WholeRows(_) | Anchor::SplitKv(_) | Anchor::Merge(_) => {
                KernelWord::Attention
            }
        }
    }

    /// Why it is as it is, where there is a choice.
    pub(crate) fn note(&self) -> Option<&'static str> {
        match self {
            Anchor::SplitKv(_) => Some(SPLIT_KV),
            Anchor::Map(_) | Anchor::Append(_) | Anchor::Rows { .. } | Anchor::Reduction { .. } => None,
            Anchor::Columns { .. } | Anchor::Scatter(_) | Anchor::Gemm(_) => None,
            Anchor::Pack(_) | Anchor::Tiled(_) => None,
            Anchor::Merge(_) | Anchor::WholeRows(_) | Anchor::Beside(_) | Anchor::SumParts(_) => None,
            Anchor::Alias(_) => None,
        }
    }
}

impl Plan<'_> {
    /// The kernels as they run.
    pub fn summary(&self) -> Vec<Summary> {
        self.order.iter().map(|set| self.summary_of(set)).collect()
    }

    fn summary_of(&self, set: &[usize]) -> Summary {
        let kernels: Vec<&KernelPlan> = set.iter().map(|at| &self.kernels[*at]).collect();
        let first = kernels[0];
        let touched: BTreeSet<BufferId> =
            kernels.iter().flat_map(|k| k.reads().iter().copied().chain([k.buffer])).collect();
        let bytes = touched.iter().map(|id| &self.buffers[id.0]);
        let bytes = bytes.fold(n(0), |sum, b| &sum + &(&b.count() * &n(b.elem().size())));
        let names: Vec<&str> = kernels.iter().map(|k| self.buffers[k.buffer.0].name.as_str()).collect();
        Summary {
            word: first.anchor.word().text(),
            name: names.join("+"),
            computes: kernels.iter().flat_map(|k| self.names_in(k)).collect(),
            when: first.when.clone(),
            once: first.once,
            flops: kernels.iter().fold(n(0), |sum, k| &sum + &k.flops),
            bytes,
            note: if kernels.len() > 1 { Some(JOINT) } else { first.anchor.note() },
        }
    }

    /// The values that a kernel computes and that the source names, and the one that it stores.
    fn names_in(&self, k: &KernelPlan) -> Vec<String> {
        let has_name = |id: &&NodeId| **id != k.node && self.graph.node(**id).name.is_some();
        let inner = k.expression.computes.iter().filter(has_name);
        inner.chain([&k.node]).filter_map(|id| self.names[id.index()].clone()).collect()
    }
}
