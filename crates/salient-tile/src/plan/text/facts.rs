//! What a plan does that a user would want to know has changed: which keys its attentions visit, and which arrays it stores that
//! grow faster than a dimension. Said as values, so that two plans can be compared without looking at texts.

use crate::plan::attention::Attention;
use crate::plan::attention::key_loop::KeyLoop;
use crate::plan::attention::split::SplitKv;
use crate::plan::attention::whole_rows::WholeRows;
use crate::plan::text::fold::numbered;
use crate::plan::text::key_bounds;
use crate::plan::{Anchor, Plan, Tiled};
use crate::program::kernel::Role;
use crate::program::memory::degree;
use crate::verify::unfused::not_renamed;
use salient_ir::text::Expressions;
use salient_ir::{Dim, Graph, Name, NodeId, Op};
use std::collections::BTreeSet;

/// A kernel that goes over keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionFact {
    /// What it stores, in the graph of the plan.
    pub node: NodeId,
    /// The fused operator in it.
    pub fused: NodeId,
    /// The source's name for it, or the one that plans show.
    pub name: String,
    /// The keys that a row visits, `0 .. t + 1`.
    pub keys: String,
    /// Whether these are bounded by the mask.
    pub is_bounded: bool,
    /// Whether a look at the mask leaves tiles out.
    pub is_probed: bool,
    /// Whether the scores of all keys of a row are kept.
    pub keeps_rows: bool,
}

/// A temporary with an element for every pair of positions along a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayFact {
    /// What it holds, in the graph of the plan.
    pub node: NodeId,
    /// The source's name for it, or the one that plans show.
    pub name: String,
    /// How many elements it has.
    pub elements: Dim,
    /// The dimensions that it grows faster than.
    pub faster_than: Vec<Name>,
}

/// The block of a model, as the paths of its parameters number it: the third of `h.` is `h.2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layer {
    /// What stands before the number, with its point.
    pub stem: String,
    /// The number.
    pub number: usize,
}

impl Plan<'_> {
    /// The graph that it computes.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Its attentions, in the order in which they are stored.
    pub fn attentions(&self) -> Vec<AttentionFact> {
        let expressions = Expressions::new(&self.graph, std::iter::empty());
        let of_step = |step: &super::Step| {
            let kernels = &self.kernels[step.kernels.clone()];
            let (a, of, keeps_rows) = kernels.iter().find_map(|k| over_keys(&k.anchor))?;
            let bounds = key_bounds(self, |axis| expressions.axis(axis), a, of);
            Some(AttentionFact {
                node: step.node,
                fused: a.node,
                name: self.nearest_name(step.node),
                keys: format!("{} .. {}", bounds.begin, bounds.end),
                is_bounded: bounds.is_bounded,
                is_probed: of.mask.as_ref().is_some_and(|mask| mask.probe.is_some()),
                keeps_rows,
            })
        };
        self.steps.iter().filter_map(of_step).collect()
    }

    /// The temporaries that grow faster than a dimension, in the order in which they are stored, each value once.
    pub fn large_arrays(&self) -> Vec<ArrayFact> {
        let dimensions = self.dimensions();
        let mut seen = BTreeSet::new();
        let temporaries = self.buffers.iter().filter(|buffer| buffer.role == Role::Temporary);
        let fact = |buffer: &crate::program::kernel::Buffer| {
            let elements = buffer.count();
            let form = elements.to_node();
            let faster_than: Vec<Name> =
                dimensions.iter().filter(|name| degree(&form, name) > 1).cloned().collect();
            let node = not_renamed(&self.graph, buffer.node);
            let is_new = !faster_than.is_empty() && seen.insert(node);
            is_new.then(|| ArrayFact { node, name: self.source_name(node), elements, faster_than })
        };
        temporaries.filter_map(fact).collect()
    }

    /// What the source calls a value: by its name, or as a part of what has one.
    pub fn source_name(&self, id: NodeId) -> String {
        match &self.graph.node(id).name {
            Some(name) => name.to_string(),
            None => format!("a part of {}", self.nearest_name(id)),
        }
    }

    /// The source's name for a value or for the nearest that is made of it, or else the one that plans show.
    pub(super) fn nearest_name(&self, id: NodeId) -> String {
        let named = self.graph.nearest_user(id, |node| node.name.is_some());
        let name = named.and_then(|node| node.name.as_ref()).map(ToString::to_string);
        name.or_else(|| self.names[id.index()].clone()).unwrap_or_else(|| "a value".to_owned())
    }
}

/// What goes over the keys in a kernel, and whether it keeps the scores of whole rows.
pub(super) fn over_keys(anchor: &Anchor) -> Option<(&Attention, &KeyLoop, bool)> {
    match anchor {
        Anchor::Tiled(Tiled { attention, key_loop, .. }) => Some((attention, key_loop, false)),
        Anchor::WholeRows(WholeRows { attention, key_loop, .. }) => Some((attention, key_loop, true)),
        Anchor::SplitKv(SplitKv { attention, key_loop, .. }) => Some((attention, key_loop, false)),
        Anchor::Map(_) | Anchor::Append(_) | Anchor::Alias(_) | Anchor::Rows { .. } => None,
        Anchor::Reduction { .. } | Anchor::Columns { .. } | Anchor::Scatter(_) => None,
        Anchor::Gemm(_) | Anchor::Pack(_) => None,
        Anchor::Beside(_) | Anchor::SumParts(_) | Anchor::Merge(_) => None,
    }
}

/// The block in which a value is computed: that of the nearest parameters, by steps from a value to what it reads, if the path of
/// one has a number.
pub fn layer_of(g: &Graph, node: NodeId) -> Option<Layer> {
    let (mut next, mut seen) = (vec![node], BTreeSet::from([node]));
    while !next.is_empty() {
        let params = next.iter().filter(|id| matches!(g.op(**id), Op::Param(_)));
        let paths: Vec<&str> = params.filter_map(|id| Some(&*g.port(*id)?.name)).collect();
        if !paths.is_empty() {
            let (stem, number, _) = paths.into_iter().find_map(numbered)?;
            return Some(Layer { stem: stem.to_owned(), number });
        }
        next = next.iter().flat_map(|id| g.args(*id)).filter(|id| seen.insert(*id)).collect();
    }
    None
}
