//! In which order the axes of a stored value lie.
//!
//! Decided by who makes and who reads it; which values are stored is not decided here.

use crate::plan::contraction::{axes_of_parameter, sum_of_products};
use salient_ir::{AxisId, Class, Graph, MapOp, NodeId, Op, Output};
use std::collections::{BTreeMap, BTreeSet};

/// The axes of its node in the order of an output that holds the node and nothing else: axes that the node lacks have one
/// place. `None` where there are others, along which the output repeats it.
pub(crate) fn order_of_output(g: &Graph, output: &Output) -> Option<Vec<AxisId>> {
    let axes = &g.node(output.node).axes;
    let (own, others): (Vec<_>, Vec<_>) = output.axes.iter().partition(|a| axes.contains(**a));
    let one_place = |a: &AxisId| g.extent(*a).as_constant() == Some(1);
    others.iter().all(one_place).then_some(own)
}

/// The innermost axis of a node where it is stored.
pub(crate) fn innermost(g: &Graph, node: NodeId) -> Option<AxisId> {
    let output = g.outputs().iter().filter(|o| o.node == node).find_map(|o| order_of_output(g, o));
    output.unwrap_or_else(|| layout(g, node, None)).last().copied()
}

/// The axis of a node over which a product sums that has it, or a renaming of it, as an operand.
fn summed_over(g: &Graph, node: NodeId) -> Option<AxisId> {
    // Views of the node, each with what its renamed axes are in the node.
    let mut views: Vec<(NodeId, BTreeMap<AxisId, AxisId>)> = vec![(node, BTreeMap::new())];
    while let Some((id, names)) = views.pop() {
        let own = |axis: AxisId| names.get(&axis).copied().unwrap_or(axis);
        for user in g.users(id) {
            if let (Op::At(axis), Some(index)) = (g.op(user), g.args(user).get(1))
                && let Op::Iota(new) = g.op(*index)
            {
                let mut names = names.clone();
                names.insert(*new, own(*axis));
                views.push((user, names));
            }
            for sum in g.users(user) {
                if let Some((a, b, depth)) = sum_of_products(g, sum)
                    && (a == id || b == id)
                {
                    return Some(own(depth));
                }
            }
        }
    }
    None
}

/// The axis of a node along which a reduction runs that reads it, or an expression of it element by element: that of a
/// norm, for the values between the layers of a model.
fn reduced_along(g: &Graph, node: NodeId) -> Option<AxisId> {
    let mut seen = BTreeSet::from([node]);
    let mut readers = vec![node];
    while let Some(id) = readers.pop() {
        for user in g.users(id) {
            if let Op::Reduce(_, axis) = g.op(user)
                && g.node(node).axes.contains(*axis)
            {
                return Some(*axis);
            }
            if g.op(user).class() == Class::Map && seen.insert(user) {
                readers.push(user);
            }
        }
    }
    None
}

/// The order of axes in the output that a node is a part of, as what is appended to a state is: there it is copied row
/// by row.
fn order_in_output(g: &Graph, node: NodeId) -> Option<Vec<AxisId>> {
    let wholes = g.users(node).into_iter().filter_map(|whole| {
        let Op::Concat(along, parts) = g.op(whole) else { return None };
        let order = g.outputs().iter().find(|o| o.node == whole).and_then(|o| order_of_output(g, o))?;
        let part = parts[g.args(whole).iter().position(|a| *a == node)?];
        Some(order.into_iter().map(|a| if a == *along { part } else { a }).collect::<Vec<AxisId>>())
    });
    let axes = &g.node(node).axes;
    wholes.into_iter().find(|order| order.len() == axes.len() && order.iter().all(|a| axes.contains(*a)))
}

/// The order of the axes of a temporary: as in the output that it is a part of, else as they are numbered, the columns of
/// a product by a parameter last; but two axes that a reader merges into one lie side by side at the inner end, so that
/// the merged axis is contiguous.
pub(crate) fn layout(g: &Graph, node: NodeId, product: Option<NodeId>) -> Vec<AxisId> {
    let mut order = order_in_output(g, node).unwrap_or_else(|| {
        let columns = product.map_or_else(Vec::new, |sum| axes_of_parameter(g, sum));
        let others = g.node(node).axes.iter().filter(|a| !columns.contains(a));
        others.chain(columns.iter().copied()).collect()
    });
    let (mut quotient, mut remainder) = (None, None);
    let mut views = g.users(node);
    while let Some(id) = views.pop() {
        let Op::At(axis) = g.op(id) else { continue };
        let index = g.op(g.args(id)[1]);
        if *index == Op::Map(MapOp::IntDiv) {
            quotient = Some(*axis);
        } else if *index == Op::Map(MapOp::Mod) {
            remainder = Some(*axis);
        }
        views.extend(g.users(id));
    }
    for axis in quotient.into_iter().chain(remainder) {
        if let Some(at) = order.iter().position(|a| *a == axis) {
            let axis = order.remove(at);
            order.push(axis);
        }
    }
    // A product reads its rows in place where they are contiguous along what it sums over; so do other reductions.
    if quotient.is_none()
        && remainder.is_none()
        && let Some(depth) = summed_over(g, node).or_else(|| reduced_along(g, node))
        && let Some(at) = order.iter().position(|a| *a == depth)
    {
        let axis = order.remove(at);
        order.push(axis);
    }
    // A row-wise kernel runs along the axis that it binds.
    if let Some(axis) = g.op(node).bound()
        && let Some(at) = order.iter().position(|a| *a == axis)
    {
        let axis = order.remove(at);
        order.push(axis);
    }
    order
}
