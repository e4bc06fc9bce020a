//! Passes over a graph that put something else in the place of some nodes and copy the rest.

use salient_ir::{Builder, Graph, Init, NodeId};

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
    let roots: Vec<NodeId> = g.outputs().iter().map(|out| new[out.node.index()]).collect();
    for (out, node) in g.outputs().iter().zip(&roots) {
        b.output(&out.name, &out.axes, *node).expect("axes are as before");
    }
    let finished = finish(b, &roots);
    let moved = new.into_iter().map(|id| finished.moved[id.index()]).collect();
    Rewritten { graph: finished.graph, moved }
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
    let roots: Vec<NodeId> = b.outputs().iter().map(|o| o.node).collect();
    let finished = finish(b, &roots);
    let moved = new.into_iter().map(|id| finished.moved[id?.index()]).collect();
    Rewritten { graph: finished.graph, moved }
}

/// The same operator over what its arguments have become.
pub(crate) fn copy(g: &Graph, b: &mut Builder, id: NodeId, now: impl Fn(NodeId) -> NodeId) -> NodeId {
    let args: Vec<NodeId> = g.args(id).into_iter().map(now).collect();
    b.add(g.op(id).clone(), &args).expect("a node of a verified graph")
}

/// The finished graph, and the new id of each node of the builder: what no output needs is dropped.
pub(crate) fn finish(b: Builder, roots: &[NodeId]) -> Rewritten {
    let live = live(&b, roots);
    let graph = b.finish();
    let mut ids = graph.ids();
    let moved = live.iter().map(|live| if *live { ids.next() } else { None }).collect();
    Rewritten { graph, moved }
}

fn live(g: &Graph, roots: &[NodeId]) -> Vec<bool> {
    let mut live = vec![false; g.len()];
    let inits = g.params().iter().filter_map(|p| p.init).flat_map(|init| match init {
        Init::Zeros | Init::Ones => vec![],
        Init::Normal(s) => vec![s],
        Init::Uniform(a, b) => vec![a, b],
    });
    inits.chain(roots.iter().copied()).for_each(|r| live[r.index()] = true);
    for id in g.ids().rev() {
        if live[id.index()] {
            g.args(id).iter().for_each(|a| live[a.index()] = true);
        }
    }
    live
}
