//! Passes over a graph that put something else in the place of some nodes and copy the rest.

use salient_ir::{Builder, Graph, Init, NodeId};

/// The graph with each node as `other` makes it from what the nodes before have become, or as it was where `other` makes
/// nothing; and the new id of each node that is still there.
pub(crate) fn rewrite(
    g: &Graph,
    mut other: impl FnMut(&mut Builder, &[NodeId], NodeId) -> Option<NodeId>,
) -> (Graph, Vec<Option<NodeId>>) {
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
    let (graph, moved) = finish(b, &roots);
    let new = new.into_iter().map(|id| moved[id.index()]).collect();
    (graph, new)
}

/// The same operator over what its arguments have become.
pub(crate) fn copy(g: &Graph, b: &mut Builder, id: NodeId, now: impl Fn(NodeId) -> NodeId) -> NodeId {
    let args: Vec<NodeId> = g.args(id).into_iter().map(now).collect();
    b.add(g.op(id).clone(), &args).expect("a node of a verified graph")
}

/// The finished graph, and the new id of each node of the builder: what no output needs is dropped.
pub(crate) fn finish(b: Builder, roots: &[NodeId]) -> (Graph, Vec<Option<NodeId>>) {
    let live = live(&b, roots);
    let graph = b.finish();
    let mut ids = graph.ids();
    let new = live.iter().map(|live| if *live { ids.next() } else { None }).collect();
    (graph, new)
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
