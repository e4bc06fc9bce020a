//! Passes over a graph that put something else in the place of some nodes and copy the rest.

use salient_ir::{AxisId, AxisSet, Builder, Dim, Graph, NodeId};

/// A graph that a pass made of another.
#[derive(Clone, Debug)]
pub(crate) struct Rewritten {
    /// The graph.
    pub(crate) graph: Graph,
    /// The new id of each node before that is still there.
    pub(crate) moved: Vec<Option<NodeId>>,
}

impl Rewritten {
    /// The graph as it was.
    pub(crate) fn unchanged(g: &Graph) -> Rewritten {
        Rewritten { graph: g.clone(), moved: g.ids().map(Some).collect() }
    }
}

/// The graph with each node as `other` makes it from what the nodes before have become, or as it was where `other` makes
/// nothing.
pub(crate) fn rewrite(
    g: &Graph,
    mut other: impl FnMut(&mut Builder, &[NodeId], NodeId) -> Option<NodeId>,
) -> Rewritten {
    let mut b = Builder::like(g);
    let mut new: Vec<NodeId> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let node = other(&mut b, &new, id).unwrap_or_else(|| copy(g, &mut b, id, |arg| new[arg.index()]));
        b.describe(node, g.node(id).name.as_ref(), g.node(id).origin);
        new.push(node);
    }
    for out in g.outputs() {
        b.output(&out.name, &out.axes, new[out.node.index()]).expect("axes are as before");
    }
    let (graph, finished) = b.finish_moved();
    let moved = new.into_iter().map(|id| finished[id.index()]).collect();
    Rewritten { graph, moved }
}

/// As [`rewrite`], with the nodes in the order in which the outputs come to need them.
pub(crate) fn rewrite_in_order(
    g: &Graph,
    make: impl FnMut(&mut Builder, &[NodeId], NodeId) -> Option<NodeId>,
) -> Rewritten {
    let rewritten = rewrite(g, make);
    let ordered = in_order_of_use(&rewritten.graph);
    let moved = rewritten.moved.into_iter().map(|id| ordered.moved[id?.index()]).collect();
    Rewritten { graph: ordered.graph, moved }
}

/// The same graph with its nodes in the order in which the outputs come to need them, which no spelling changes.
fn in_order_of_use(g: &Graph) -> Rewritten {
    let mut b = Builder::like(g);
    let mut new: Vec<Option<NodeId>> = vec![None; g.len()];
    for out in g.outputs() {
        // With a stack of its own: models are deep.
        let mut stack = vec![out.node];
        while let Some(id) = stack.last().copied() {
            let missing: Vec<NodeId> = g.args(id).into_iter().filter(|a| new[a.index()].is_none()).collect();
            if new[id.index()].is_none() && !missing.is_empty() {
                stack.extend(missing.into_iter().rev());
                continue;
            }
            stack.pop();
            if new[id.index()].is_none() {
                let node = copy(g, &mut b, id, |arg| new[arg.index()].expect("none is missing"));
                b.describe(node, g.node(id).name.as_ref(), g.node(id).origin);
                new[id.index()] = Some(node);
            }
        }
        let node = new[out.node.index()].expect("just built");
        b.output(&out.name, &out.axes, node).expect("axes are as before");
    }
    let (graph, finished) = b.finish_moved();
    let moved = new.into_iter().map(|id| finished[id?.index()]).collect();
    Rewritten { graph, moved }
}

/// The same operator over what its arguments have become.
pub(crate) fn copy(g: &Graph, b: &mut Builder, id: NodeId, now: impl Fn(NodeId) -> NodeId) -> NodeId {
    let args: Vec<NodeId> = g.args(id).into_iter().map(now).collect();
    b.add(g.op(id).clone(), &args).expect("a node of a verified graph")
}

/// An axis with that name that the graph does not have; one of the same name and extent that the pass made before is the same.
pub(crate) fn axis_named(g: &Graph, b: &mut Builder, name: &str, extent: &Dim) -> AxisId {
    let taken: AxisSet = g.axes().map(|(axis, _)| axis).collect();
    let axis = b.axis_id(name, extent);
    if taken.contains(axis) { b.fresh_axis(axis, &taken) } else { axis }
}
