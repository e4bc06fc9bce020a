//! Sharing up to renaming: what is computed under two namings of its indices is computed once and read twice.
//!
//! After [`axes`](super::axes), a layer norm read as queries and as keys stands there twice, over `t` and over `t.1`.
//! Here every group of nodes that differ only in the names of free axes keeps one member; the others become views of
//! it. Only what holds a reduction is shared: elementwise work is cheaper to repeat than to store.

use salient_ir::{AxisId, Builder, Class, Dim, Graph, NodeId, Op, Output};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The same model with each computation that differs from another only in names replaced by a view of the other.
pub(crate) fn share(g: &Graph) -> Graph {
    let shapes = shapes(g);
    let keeper = keepers(g, &shapes);
    if g.ids().all(|id| keeper[id.index()] == id) {
        return g.clone();
    }
    let mut b = Builder::like(g);
    let mut new: Vec<Option<NodeId>> = vec![None; g.len()];
    for out in g.outputs() {
        // A result has names of its own for its axes: where it is another value but for these, it is that value.
        let (node, axes) = match renamed_output(out, &shapes, keeper[out.node.index()]) {
            Some(axes) => (keeper[out.node.index()], axes),
            None => (out.node, out.axes.clone()),
        };
        let node = rebuild(g, &mut b, &shapes, &keeper, &mut new, node);
        b.output(&out.name, &axes, node).expect("views have the axes of what they replace");
    }
    b.finish()
}

/// The axes of an output where it is the value that is computed in its place, if each of them has one name there.
fn renamed_output(out: &Output, shapes: &[Shape], kept: NodeId) -> Option<Vec<AxisId>> {
    let (from, to) = (&shapes[kept.index()].axes, &shapes[out.node.index()].axes);
    let own = |axis: &AxisId| to.iter().position(|t| t == axis).map_or(*axis, |at| from[at]);
    let axes: Vec<AxisId> = out.axes.iter().map(own).collect();
    let names: BTreeSet<AxisId> = axes.iter().copied().collect();
    (names.len() == axes.len() && from.iter().all(|axis| names.contains(axis))).then_some(axes)
}

/// For each node the one that is computed in its place. From the outputs down: what only a replaced node needs is not
/// needed, so that the names inside of what is kept go together.
fn keepers(g: &Graph, shapes: &[Shape]) -> Vec<NodeId> {
    let mut keeper: Vec<NodeId> = g.ids().collect();
    let mut needed = vec![false; g.len()];
    g.outputs().iter().for_each(|o| needed[o.node.index()] = true);
    let mut levels: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
    for id in g.ids() {
        levels.entry(shapes[id.index()].height).or_default().push(id);
    }
    for level in levels.into_values().rev() {
        // A view is as high as what it views, and is no member of a class: it is built from that, whatever it becomes.
        for id in level.iter().rev().filter(|id| shapes[id.index()].view) {
            if needed[id.index()] {
                g.args(*id).iter().for_each(|a| needed[a.index()] = true);
            }
        }
        let mut members: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        for id in level.into_iter().filter(|id| needed[id.index()] && !shapes[id.index()].view) {
            // What is cheap is repeated: each is a class of its own.
            let shape = &shapes[id.index()];
            let class = if shape.heavy { shape.class } else { shapes.len() + id.index() };
            members.entry(class).or_default().push(id);
        }
        for ids in members.into_values() {
            // The member with the lowest names stays, whatever the order in which the source mentions them.
            let names =
                |id: &NodeId| shapes[id.index()].axes.iter().map(|a| g.axis(*a).clone()).collect::<Vec<_>>();
            let kept = *ids.iter().min_by_key(|id| names(id)).expect("a class has members");
            ids.iter().for_each(|id| keeper[id.index()] = kept);
            g.args(kept).iter().for_each(|a| needed[a.index()] = true);
        }
    }
    keeper
}

fn rebuild(
    g: &Graph,
    b: &mut Builder,
    shapes: &[Shape],
    keeper: &[NodeId],
    new: &mut Vec<Option<NodeId>>,
    id: NodeId,
) -> NodeId {
    if let Some(done) = new[id.index()] {
        return done;
    }
    let kept = keeper[id.index()];
    let node = if kept == id {
        let args: Vec<NodeId> = g.args(id).iter().map(|a| rebuild(g, b, shapes, keeper, new, *a)).collect();
        let node = b.add(g.op(id).clone(), &args).expect("views have the types of what they replace");
        b.describe(node, g.node(id).name.as_ref(), g.node(id).origin);
        node
    } else {
        let source = rebuild(g, b, shapes, keeper, new, kept);
        let (from, to) = (&shapes[kept.index()].axes, &shapes[id.index()].axes);
        let with: Vec<_> = from.iter().zip(to).map(|(f, t)| (*f, b.iota(*t))).collect();
        b.at_all(source, &with).expect("renaming axes keeps types")
    };
    new[id.index()] = Some(node);
    node
}

/// What a node is up to the names of its free axes.
struct Shape {
    /// Equal for two nodes exactly if a renaming of free axes makes them equal.
    class: usize,
    /// The free axes, in an order that corresponds between nodes of a class.
    axes: Vec<AxisId>,
    /// Whether a reduction is in it.
    heavy: bool,
    /// Whether it only renames an axis of another node.
    view: bool,
    /// Length of the longest path down to a source, renamings not counted: equal within a class.
    height: usize,
}

/// An argument seen from its user: its class, and for each of its axes the position among the user's, by extent.
type Seen = (usize, Vec<(usize, Dim)>);

fn shapes(g: &Graph) -> Vec<Shape> {
    let mut classes: HashMap<(Op, Vec<Seen>), usize> = HashMap::new();
    let mut shapes: Vec<Shape> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let mut args = g.args(id);
        let op = g.op(id);
        if let Some(shape) = renamed(g, &shapes, op, &args) {
            shapes.push(shape);
            continue;
        }
        if let Op::Map(map) = op
            && map.info().commutative
        {
            args.sort_by_key(|a| shapes[a.index()].class);
        }
        // Axes are numbered as they are met, those that the operator itself names first.
        let mut met: Vec<AxisId> = Vec::new();
        let mut number = |axis: AxisId| {
            let at = met.iter().position(|a| *a == axis).unwrap_or_else(|| {
                met.push(axis);
                met.len() - 1
            });
            (at, g.extent(axis).clone())
        };
        let (bare, named) = without_names(g, op);
        let mut seen: Vec<Seen> = vec![(usize::MAX, named.into_iter().map(&mut number).collect())];
        for arg in &args {
            let shape = &shapes[arg.index()];
            seen.push((shape.class, shape.axes.iter().map(|a| number(*a)).collect()));
        }
        let count = classes.len();
        let class = *classes.entry((bare, seen)).or_insert(count);
        let free = &g.node(id).axes;
        let heavy = op.class() == Class::Bind || args.iter().any(|a| shapes[a.index()].heavy);
        // A port's axes are its own: two nodes of one port are one node, and its reads differ only by views.
        let axes = match g.port(id) {
            Some(port) => port.axes.clone(),
            None => met.into_iter().filter(|a| free.contains(*a)).collect(),
        };
        let height = args.iter().map(|a| shapes[a.index()].height + 1).max().unwrap_or(0);
        shapes.push(Shape { class, axes, heavy, view: false, height });
    }
    shapes
}

/// The shape of a view that only renames an axis: that of what it views, the axis under its new name.
fn renamed(g: &Graph, shapes: &[Shape], op: &Op, args: &[NodeId]) -> Option<Shape> {
    let Op::At(from) = *op else { return None };
    let Op::Iota(to) = *g.op(args[1]) else { return None };
    let source = &shapes[args[0].index()];
    if !g.is_renamed(from, args[1]) || source.axes.contains(&to) {
        return None;
    }
    let axes = source.axes.iter().map(|a| if *a == from { to } else { *a }).collect();
    Some(Shape { class: source.class, axes, heavy: source.heavy, view: true, height: source.height })
}

/// The operator with every axis it names replaced by one and the same, and the axes it names.
fn without_names(g: &Graph, op: &Op) -> (Op, salient_ir::op::OpAxes) {
    let Some((blank, _)) = g.axes().next() else { return (op.clone(), op.axes()) };
    (op.map_axes(|_| blank), op.axes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::before::axes::canonicalise;
    use salient_ir::{DType, MapOp, ReduceOp};

    /// Two rounds of `y[i] = sum_j x[i] x[j] x[j]`, the second reading the first under both names.
    #[test]
    fn what_is_read_under_two_names_is_computed_once_and_keeps_its_own_names_together() {
        let mut b = Builder::new("m");
        let n = Dim::symbol("T");
        let (i, j) = (b.axis_id("i", &n), b.axis_id("j", &n));
        let mut x = b.input("x", &[i], DType::F32, None);
        for _ in 0..2 {
            let other = b.rename(x, i, j).unwrap();
            let s = b.map(MapOp::Mul, &[x, other]).unwrap();
            let e = b.map(MapOp::Exp, &[s]).unwrap();
            let w = b.map(MapOp::Mul, &[e, other]).unwrap();
            x = b.reduce(ReduceOp::Sum, j, w).unwrap();
        }
        b.output("y", &[i], x).unwrap();
        let shared = share(&canonicalise(&b.finish(), &[]));
        let text = salient_ir::text::print(&shared);
        let uses = |what: &str| text.lines().filter(|l| l.contains(what)).count();
        // Of each round one product of two names, one exponential, one sum over the second name.
        assert_eq!((uses("= exp("), uses("= sum[t.1")), (2, 2), "{text}");
        assert!(text.contains("= y.4[t] * y.4[t.1]"), "{text}");
    }
}
