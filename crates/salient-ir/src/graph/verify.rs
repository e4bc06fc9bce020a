//! The verifier: what must be true of every graph, whoever made it.
//!
//! [`Builder`](crate::Builder) upholds most of it while building; passes call this on their results, and a failure is a
//! bug of the pass, never the user's mistake.

use super::typing::result_type;
use crate::axis::AxisSet;
use crate::graph::{Graph, Growth, NodeId, State};

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
    faults.extend(misnamed(g));
    let growths: Vec<Growth> = g.states().iter().filter_map(|s| g.growth(*s)).collect();
    faults.extend(g.states().iter().filter_map(|s| state_fault(g, *s, &growths).err()));
    faults.extend(unreachable(g).map(|id| format!("node {} is used by nothing", id.index())));
    faults
}

/// Whether a name may be that of a dimension. Names in lower case are those of indices, which compiled code counts by.
pub fn names_a_dimension(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// A sentence for each dimension that has the name of an index.
pub fn misnamed(g: &Graph) -> impl Iterator<Item = String> {
    let wrong = g.dimensions().into_iter().filter(|name| !names_a_dimension(name));
    wrong.map(|name| format!("`{name}` is no dimension: those begin with a capital letter"))
}

/// What [`State`] promises, where the states of the model grow so.
fn state_fault(g: &Graph, state: State, growths: &[Growth]) -> Result<(), String> {
    let (Some(before), Some(after)) = (g.inputs().get(state.input), g.outputs().get(state.output)) else {
        return Err("a state is no input or no output".to_owned());
    };
    let fault = |what: &str| Err(format!("the state `{}` {what}", before.name));
    let same = |of: fn(&State) -> usize| g.states().iter().filter(|s| of(s) == of(&state)).count() == 1;
    if before.name != after.name {
        return fault(&format!("is `{}` after the call", after.name));
    }
    if !same(|s| s.input) || !same(|s| s.output) {
        return fault("is declared twice");
    }
    if before.dtype != g.node(after.node).dtype {
        return fault("has another dtype after the call");
    }
    let (held, kept) = (g.shape(&before.axes), g.shape(&after.axes));
    let grows = g.growth(state);
    let from = usize::from(grows.is_some());
    if held.len() != kept.len() || held[from..] != kept[from..] {
        return fault("has another shape after the call");
    }
    let Some(growth) = grows else { return Ok(()) };
    if growth.added.dimensions().contains(&growth.held) {
        return fault(&format!("grows by {}", growth.added));
    }
    match growths.iter().find(|o| o.held == growth.held && **o != growth) {
        Some(other) => fault(&format!("grows by {} where others grow by {}", growth.added, other.added)),
        None => Ok(()),
    }
}

fn distinct(axes: &[crate::AxisId]) -> usize {
    axes.iter().copied().collect::<AxisSet>().len()
}

fn unreachable(g: &Graph) -> impl Iterator<Item = NodeId> + '_ {
    let used = |id: NodeId| g.outputs().iter().any(|o| o.node == id) || g.init_nodes().any(|node| node == id);
    g.ids().filter(move |id| g.users(*id).is_empty() && !used(*id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AxisId, Builder, DType, Dim, NodeId};

    /// A state `keys: f32[S, D]` that `next` gives its value after the call.
    fn faults(next: impl Fn(&mut Builder, AxisId, NodeId) -> (AxisId, NodeId)) -> Vec<String> {
        let mut b = Builder::new("m");
        let (s, d) = (b.axis_id("s", &Dim::symbol("S")), b.axis_id("d", &Dim::symbol("D")));
        let keys = b.input("keys", &[s, d], DType::F32, None);
        let (axis, node) = next(&mut b, s, keys);
        b.state(0, &[s, d], &[axis, d], node).unwrap();
        verify(&b.finish())
    }

    /// `keys` and so many positions more.
    fn grown(b: &mut Builder, s: AxisId, keys: NodeId, by: &Dim) -> (AxisId, NodeId) {
        let part = b.axis_id("t", by);
        let axis = b.axis_id("s", &(b.extent(s) + by));
        let zero = b.constant(crate::Const::f32(0.0));
        let node = b.add(crate::Op::Concat(axis, [s, part].into_iter().collect()), &[keys, zero]).unwrap();
        (axis, node)
    }

    #[test]
    fn a_state_must_be_the_same_before_and_after() {
        assert_eq!(faults(|_, s, keys| (s, keys)), Vec::<String>::new());
        assert_eq!(faults(|b, s, keys| grown(b, s, keys, &Dim::symbol("T"))), Vec::<String>::new());
        assert_eq!(
            faults(|b, s, keys| grown(b, s, keys, &Dim::symbol("S"))),
            ["the state `keys` grows by S"]
        );
        let truth = |b: &mut Builder, s, keys| (s, b.map(crate::MapOp::Eq, &[keys, keys]).unwrap());
        assert_eq!(faults(truth), ["the state `keys` has another dtype after the call"]);
        let two = |first: &str, second: &str| {
            let mut b = Builder::new("m");
            let s = b.axis_id("s", &Dim::symbol("S"));
            let keys = ["a", "b"].map(|name| b.input(name, &[s], DType::F32, None));
            for (n, by) in [first, second].into_iter().enumerate() {
                let (axis, node) = grown(&mut b, s, keys[n], &Dim::symbol(by));
                b.state(n, &[s], &[axis], node).unwrap();
            }
            verify(&b.finish())
        };
        assert_eq!(two("T", "T"), Vec::<String>::new());
        assert_eq!(two("T", "R").len(), 2);
    }
}
