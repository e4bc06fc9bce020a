//! The verifier: what must be true of every graph, whoever made it.
//!
//! [`Builder`](crate::Builder) upholds most of it while building; passes call this on their results, and a failure is a
//! bug of the pass, never the user's mistake.

use crate::axis::AxisSet;
use crate::graph::{Graph, NodeId};
use crate::typing::result_type;

/// Everything that is wrong with a graph; empty if nothing is.
pub fn verify(g: &Graph) -> Vec<String> {
    let mut faults = Vec::new();
    for id in g.ids() {
        let args = g.args(id);
        if let Some(late) = args.iter().find(|a| **a >= id) {
            faults.push(format!(
                "node {} depends on node {}, which comes after it",
                id.index(),
                late.index()
            ));
            continue;
        }
        let node = g.node(id);
        match result_type(g, &node.op, &args) {
            Err(e) => faults.push(format!("node {}: {e}", id.index())),
            Ok((dtype, axes)) if dtype != node.dtype || axes != node.axes => {
                faults.push(format!("node {} does not have the type of its operator", id.index()));
            }
            Ok(_) => {}
        }
    }
    for port in g.inputs().iter().chain(g.params()) {
        if distinct(&port.axes) != port.axes.len() {
            faults.push(format!("`{}` has an axis twice", port.name));
        }
    }
    for out in g.outputs() {
        let listed: AxisSet = out.axes.iter().copied().collect();
        if listed.len() != out.axes.len() {
            faults.push(format!("the output `{}` has an axis twice", out.name));
        }
        if !g.node(out.node).axes.is_subset(&listed) {
            faults.push(format!("the output `{}` depends on an axis that it does not list", out.name));
        }
    }
    faults.extend(unreachable(g).map(|id| format!("node {} is used by nothing", id.index())));
    faults
}

fn distinct(axes: &[crate::AxisId]) -> usize {
    axes.iter().copied().collect::<AxisSet>().len()
}

fn unreachable(g: &Graph) -> impl Iterator<Item = NodeId> + '_ {
    let used = |id: NodeId| {
        let init = |p: &crate::Port| match p.init {
            None | Some(crate::Init::Zeros | crate::Init::Ones) => false,
            Some(crate::Init::Normal(s)) => s == id,
            Some(crate::Init::Uniform(a, b)) => a == id || b == id,
        };
        g.outputs().iter().any(|o| o.node == id) || g.params().iter().any(init)
    };
    g.ids().filter(move |id| g.users(*id).is_empty() && !used(*id))
}
