//! The form in which a loss is differentiated. A sum of gates between two positions has another adjoint than a difference of running
//! sums, though both are one number: with one form for its spellings a loss has one gradient for all of them.

use crate::results::LOSS;
use crate::stop::is_stopped;
use salient_ir::{Args, Axis, AxisId, Builder, Graph, NodeId};
use std::borrow::Cow;

/// A graph in the form that `form` gives it, an equal graph of the same ports and results. One that holds values through which nothing is
/// differentiated stays as it is: a form may fold them.
pub fn in_normal_form(graph: &Graph, form: fn(&Graph) -> Graph) -> Cow<'_, Graph> {
    let has_stop = graph.ids().any(|id| is_stopped(graph, id));
    if has_stop { Cow::Borrowed(graph) } else { Cow::Owned(form(graph)) }
}

/// A loss among other nodes in the form that `form` gives a graph of it alone.
///
/// # Panics
/// If `form` gives a graph of other ports, or without a result.
pub fn loss_in_normal_form(b: &mut Builder, loss: NodeId, form: fn(&Graph) -> Graph) -> NodeId {
    let mut alone = Builder::like(b);
    alone.states_of(&Builder::new(b.name()).finish());
    let copied = alone.copy(b, loss);
    alone.output(LOSS, &[], copied).expect("a number is a result");
    let alone = alone.finish();
    let normal = in_normal_form(&alone, form);
    adopt(b, &normal, normal.outputs()[0].node)
}

/// A node of another graph of the same ports, with everything that it is made of. Nodes that are there already are shared.
fn adopt(b: &mut Builder, from: &Graph, root: NodeId) -> NodeId {
    let axes: Vec<AxisId> = from.axes().map(|(_, Axis { name, extent })| b.axis_id(name, extent)).collect();
    let mut new: Vec<NodeId> = Vec::with_capacity(from.len());
    for id in from.ids().take(root.index() + 1) {
        let args: Args = from.args(id).iter().map(|arg| new[arg.index()]).collect();
        let node = from.node(id);
        let op = node.op.map_axes(|axis| axes[axis.index()]);
        let before = b.len();
        let adopted = b.add(op, &args).expect("a node of a verified graph");
        if b.len() > before {
            b.describe(adopted, node.name.as_ref(), node.origin);
        }
        new.push(adopted);
    }
    new[root.index()]
}
