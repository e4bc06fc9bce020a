//! Where a plan is not what is meant by fused attention: scores or weights of all queries and keys are stored, or they are
//! computed again for every position of another axis. No faults: the results are right. `--require-fused` asks for none.

use crate::plan::attention::whole_rows::WholeRows;
use crate::plan::contraction::sum_of_products;
use crate::plan::{Anchor, KernelPlan, Plan, Tiled};
use crate::program::kernel::Role;
use salient_ir::{AxisId, Class, Dim, Graph, MapOp, Name, NodeId, Op, Origin};
use std::collections::{BTreeMap, BTreeSet};

/// Something that a fused attention does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfused {
    /// The name of the value that is stored, as plans show it.
    pub value: String,
    /// Where the source computes it, if that is known.
    pub origin: Option<Origin>,
    /// What is done.
    pub why: Why,
}

/// What a fused attention does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The value, which has an element for every query and key, is stored though nobody asked for it.
    Stored {
        /// How many elements it has.
        elements: Dim,
    },
    /// The kernel that stores the value sums values with weights that were made before, by another kernel.
    Apart,
    /// The kernel that stores the value computes its scores again for every position of an axis.
    Again {
        /// The axis.
        axis: Name,
        /// How long it is.
        extent: Dim,
    },
}

impl std::fmt::Display for Unfused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Unfused { value, why, .. } = self;
        match why {
            Why::Stored { elements } => {
                write!(f, "`{value}` is stored: {elements} elements, one for every query and key")
            }
            Why::Apart => write!(f, "the kernel of `{value}` is apart from the one that makes its weights"),
            Why::Again { axis, extent } => {
                write!(
                    f,
                    "the kernel of `{value}` computes its scores again for each `{axis}`, {extent} times"
                )
            }
        }
    }
}

/// Everything in a plan that a fused attention does not do, in the order of its steps.
pub fn unfused(plan: &Plan<'_>) -> Vec<Unfused> {
    let g = &*plan.graph;
    let pairs = Pairs::of(g);
    let asked_for: BTreeSet<NodeId> =
        g.outputs().iter().flat_map(|o| pairs.scores_in(o.node)).copied().collect();
    let mut out = Vec::new();
    for step in &plan.steps {
        let buffer = &plan.buffers[step.buffer.0];
        let origin = g.nearest_user(step.node, |node| node.origin.is_some()).and_then(|node| node.origin);
        let found = |why| Unfused { value: buffer.name.clone(), origin, why };
        let is_stored = buffer.role == Role::Temporary;
        let mut scores = pairs.scores_in(step.node).peekable();
        if is_stored && scores.peek().is_some() && scores.all(|s| !asked_for.contains(s)) {
            out.push(found(Why::Stored { elements: buffer.count() }));
        }
        let kernels = &plan.kernels[step.kernels.clone()];
        if kernels.iter().any(|k| pairs.sums_apart(g, k)) {
            out.push(found(Why::Apart));
        }
        let again = kernels.iter().find_map(|k| computed_again(plan, k));
        out.extend(again.map(|axis| {
            let (axis, extent) = (g.axis(axis).name.clone(), g.extent(axis).clone());
            found(Why::Again { axis, extent })
        }));
    }
    out
}

/// An axis for every position of which a kernel computes the same scores.
fn computed_again(plan: &Plan<'_>, k: &KernelPlan) -> Option<AxisId> {
    let (Anchor::Tiled(Tiled { attention: a, scores, .. })
    | Anchor::WholeRows(WholeRows { attention: a, scores, .. })) = &k.anchor
    else {
        return None;
    };
    let g = &plan.graph;
    let outer = plan.buffers[k.buffer.0].axes.iter().copied();
    let mut outer = outer.filter(|axis| Some(*axis) != a.query && Some(*axis) != a.width);
    let is_of_none =
        |axis: &AxisId| !scores.is_empty() && scores.iter().all(|s| !g.node(s.product).axes.contains(*axis));
    outer.find(is_of_none)
}

/// Which values have an element for every query and key.
struct Pairs {
    /// For each node the products of queries and keys that it is made of.
    scores: Vec<BTreeSet<NodeId>>,
    /// The products that are scores: an exponential, or a softmax in any form, is taken of them.
    exponentiated: BTreeSet<NodeId>,
    /// Whether each node follows from an exponential.
    weights: Vec<bool>,
}

impl Pairs {
    fn of(graph: &Graph) -> Pairs {
        let of_inputs = graph.of_inputs();
        let mut extents: BTreeMap<NodeId, [Dim; 2]> = BTreeMap::new();
        let mut scores: Vec<BTreeSet<NodeId>> = Vec::with_capacity(graph.len());
        let mut exponentiated = BTreeSet::new();
        let mut weights: Vec<bool> = Vec::with_capacity(graph.len());
        for id in graph.ids() {
            let args = graph.args(id);
            let inherited =
                || args.iter().flat_map(|a| scores[a.index()].iter().copied()).collect::<BTreeSet<_>>();
            if is_exponential(graph.op(id)) {
                exponentiated.extend(args.first().into_iter().flat_map(|a| &scores[a.index()]));
            }
            let mut own = if graph.op(id).class() == Class::Leaf { BTreeSet::new() } else { inherited() };
            // What is summed over queries or keys has no longer an element for each.
            own.retain(|product| has_both(graph, id, &extents[product]));
            if let Some(lengths) = queries_and_keys(graph, &of_inputs, id) {
                extents.insert(id, lengths);
                own.insert(id);
            }
            weights.push(is_exponential(graph.op(id)) || args.iter().any(|a| weights[a.index()]));
            scores.push(own);
        }
        Pairs { scores, exponentiated, weights }
    }

    /// Whether a kernel sums values with weights of every query and key, and is not the one that makes these.
    fn sums_apart(&self, g: &Graph, k: &KernelPlan) -> bool {
        let is_one_pass = matches!(
            k.anchor,
            Anchor::Tiled(_) | Anchor::WholeRows(_) | Anchor::SplitKv(_) | Anchor::Merge(_)
        );
        let is_weight = |id: NodeId| self.weights[id.index()] && self.scores_in(id).next().is_some();
        let sums = |id: &NodeId| {
            let Some((a, b, _)) = sum_of_products(g, *id) else { return false };
            // A sum of weights by themselves, as of an entropy, has no values.
            is_weight(a) != is_weight(b)
        };
        !is_one_pass && k.expression.computes.iter().any(sums)
    }

    /// The products of queries and keys in a value that has an element for each.
    fn scores_in(&self, id: NodeId) -> impl Iterator<Item = &NodeId> + Clone {
        self.scores[id.index()].intersection(&self.exponentiated)
    }
}

/// How many queries and keys a product has of which both factors follow from inputs.
fn queries_and_keys(g: &Graph, of_inputs: &[bool], id: NodeId) -> Option<[Dim; 2]> {
    let (a, b, _) = sum_of_products(g, id)?;
    let own = |x: NodeId, y: NodeId| {
        let mut axes = g.node(x).axes.iter();
        axes.rfind(|k| !g.node(y).axes.contains(*k) && g.node(id).axes.contains(*k))
    };
    let (query, key) = (own(a, b)?, own(b, a)?);
    (of_inputs[a.index()] && of_inputs[b.index()]).then(|| [query, key].map(|axis| g.extent(axis).clone()))
}

/// Whether a node has an axis for queries and another one for keys.
fn has_both(g: &Graph, id: NodeId, [queries, keys]: &[Dim; 2]) -> bool {
    let axes = &g.node(id).axes;
    let of = |length: &Dim| axes.iter().filter(|axis| g.extent(*axis) == length).count();
    if queries == keys { of(queries) >= 2 } else { of(queries) >= 1 && of(keys) >= 1 }
}

/// Whether an operator takes exponentials of its first argument.
fn is_exponential(op: &Op) -> bool {
    match op {
        Op::Map(op) => *op == MapOp::Exp,
        Op::Fused(op, _) => op.info().weights.is_exponential(),
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(_) => false,
    }
}
