//! Where a plan is not what is meant by fused attention: an array with an element for every query and key is stored, or scores are
//! computed again for every position of another axis. No faults: the results are right. `--require-fused` asks for none.

mod pairs;
mod positions;
mod reason;
mod reasons;
pub mod rewriting;

pub use reason::{Along, Reason, Then, Value};

use crate::plan::attention::whole_rows::WholeRows;
use crate::plan::{Anchor, KernelPlan, Plan, Tiled};
use crate::program::kernel::Role;
use pairs::Pairs;
use reasons::{Reasons, combination};
use rewriting::Rewriting;
use salient_ir::{AxisId, Dim, Graph, Name, NodeId, Op};
use std::collections::BTreeSet;

/// Something that a fused attention does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfused {
    /// Its node in the graph of the plan.
    pub node: NodeId,
    /// The value that is stored.
    pub value: Value,
    /// What is done.
    pub what: What,
    /// Whether the model asks for it: it returns the array, keeps it, or returns as large a one that a kernel makes of it.
    pub is_asked_for: bool,
}

/// What a fused attention does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The value, which has an element for every query and key, is stored.
    Stored {
        /// How many elements it has.
        elements: Dim,
        /// Why, the strongest reason first.
        because: Vec<Reason>,
    },
    /// The kernel that stores the value computes its scores again for every position of an axis.
    Again {
        /// The axis.
        axis: Name,
        /// How long it is.
        extent: Dim,
        /// Why.
        because: Repetition,
    },
}

/// Why scores are computed again for every position of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repetition {
    /// What is summed over the keys is no product of a weight and a value; with `true` it is a square of a difference.
    NoProduct {
        /// Whether it is a square of a difference.
        square: bool,
    },
    /// What is summed over the keys is chosen by a condition among values, for each of which it is computed.
    Choice,
    /// Values have the axis, and the weights, which they share, do not.
    SharedWeights,
}

impl Repetition {
    /// The reason in words that follow "because", of a value that is called so.
    pub fn text(self, subject: &str) -> String {
        match self {
            Repetition::NoProduct { .. } => {
                format!("{subject} is no sum over the keys of products of a weight and a value")
            }
            Repetition::Choice => format!(
                "{subject} sums what a condition chooses among values, and looks at the condition for each of them"
            ),
            Repetition::SharedWeights => {
                "values have this axis, and the weights that they share do not".to_owned()
            }
        }
    }

    /// What to write instead, where something that fuses is known.
    pub fn rewriting(self) -> Option<&'static Rewriting> {
        match self {
            Repetition::NoProduct { square: true } => Some(&rewriting::EXPAND_SQUARES),
            Repetition::SharedWeights => Some(&rewriting::ALL_VALUES),
            Repetition::NoProduct { square: false } | Repetition::Choice => None,
        }
    }
}

impl std::fmt::Display for Unfused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.value.name;
        match &self.what {
            What::Stored { elements, .. } => {
                write!(f, "`{name}` is stored: {elements} elements, one for every query and key")
            }
            What::Again { axis, extent, .. } => {
                write!(
                    f,
                    "the kernel of `{name}` computes its scores again for each `{axis}`, {extent} times"
                )
            }
        }
    }
}

/// Everything in a plan that a fused attention does not do, in the order of its steps; also what the model asks for.
pub fn unfused(plan: &Plan<'_>) -> Vec<Unfused> {
    let pairs = Pairs::of(&plan.graph);
    let reasons = Reasons::new(plan, &pairs);
    let (mut out, mut seen) = (Vec::new(), BTreeSet::new());
    for step in &plan.steps {
        // Its own array, and the forms in which its kernels read others.
        for at in step.buffers.clone().chain([step.buffer.0]) {
            let buffer = &plan.buffers[at];
            let is_made = matches!(buffer.role, Role::Temporary | Role::Output(_));
            let id = not_renamed(&plan.graph, buffer.node);
            if !is_made || !pairs.has(id) || !seen.insert(id) {
                continue;
            }
            let because = reasons.of(id);
            let is_asked_for = buffer.role != Role::Temporary || reasons.is_asked_for(id);
            let extents = plan.graph.node(id).axes.iter().map(|axis| plan.graph.extent(axis).clone());
            let elements = extents.fold(Dim::constant(1), |n, extent| &n * &extent);
            let what = What::Stored { elements, because };
            out.push(Unfused { node: id, value: Value::of(plan, id), what, is_asked_for });
        }
        let kernels = &plan.kernels[step.kernels.clone()];
        out.extend(kernels.iter().find_map(|k| computed_again(plan, step.node, k)));
    }
    out
}

/// The value of which a node renames axes.
pub(crate) fn not_renamed(g: &Graph, mut id: NodeId) -> NodeId {
    while let Op::At(axis) = g.op(id) {
        let args = g.args(id);
        if !g.is_renamed(*axis, args[1]) {
            break;
        }
        id = args[0];
    }
    id
}

/// The scores that a kernel computes again for every position of an axis.
fn computed_again(plan: &Plan<'_>, node: NodeId, k: &KernelPlan) -> Option<Unfused> {
    let none = BTreeSet::new();
    let (a, scores, heads) = match &k.anchor {
        Anchor::Tiled(Tiled { attention, scores, .. }) => (attention, scores, &none),
        Anchor::WholeRows(WholeRows { attention, scores, heads, .. }) => (attention, scores, heads),
        Anchor::Map(_) | Anchor::Append(_) | Anchor::Rows { .. } | Anchor::Reduction { .. } => return None,
        Anchor::Alias(_) => return None,
        Anchor::Columns { .. } | Anchor::Scatter(_) | Anchor::Gemm(_) | Anchor::Pack(_) => return None,
        Anchor::SplitKv(_) | Anchor::Merge(_) | Anchor::Beside(_) | Anchor::SumParts(_) => return None,
    };
    let g = &*plan.graph;
    let outer = plan.buffers[k.buffer.0].axes.iter().copied();
    // Heads that come of a mixture share the scores that are mixed, which a tile makes once for all of them.
    let is_outer = |axis: &AxisId| Some(*axis) != a.query && Some(*axis) != a.width && !heads.contains(axis);
    let mut outer = outer.filter(is_outer);
    let is_of_none =
        |axis: &AxisId| !scores.is_empty() && scores.iter().all(|s| !g.node(s.product).axes.contains(*axis));
    let axis = outer.find(is_of_none)?;
    let has_axis = |id: NodeId| g.node(id).axes.contains(axis);
    let because =
        if has_axis(a.score) { combination(g, a.score, has_axis) } else { Repetition::SharedWeights };
    let what = What::Again { axis: g.axis(axis).name.clone(), extent: g.extent(axis).clone(), because };
    Some(Unfused { node, value: Value::of(plan, node), what, is_asked_for: false })
}
