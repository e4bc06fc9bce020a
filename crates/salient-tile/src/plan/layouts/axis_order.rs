//! In which order the axes of a stored value lie.
//!
//! Decided by who makes and who reads it; which values are stored is not decided here.

use crate::plan::contraction::axes_of_parameter;
use crate::plan::layouts::{Layouts, column};
use crate::plan::materialise::scatter::is_of_scatter;
use salient_ir::{AxisId, Class, Dim, Graph, MapOp, NodeId, Op, Output};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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

/// A node, and its views in which axes have other names, each with what those are in the node.
fn renamings(g: &Graph, node: NodeId) -> Vec<(NodeId, BTreeMap<AxisId, AxisId>)> {
    let mut views = vec![(node, BTreeMap::new())];
    let mut at = 0;
    while let Some((id, names)) = views.get(at).cloned() {
        for user in g.users(id) {
            if let (Op::At(axis), Some(index)) = (g.op(user), g.args(user).get(1))
                && let Op::Iota(new) = g.op(*index)
            {
                let mut names = names.clone();
                names.insert(*new, names.get(axis).copied().unwrap_or(*axis));
                views.push((user, names));
            }
        }
        at += 1;
    }
    views
}

/// The operand of which a product mixes a few positions, as heads are mixed, if it does so: no axis of the other operand, the
/// coefficients, has columns for a vector, and this one has such an axis, along which it lies.
fn mixed(g: &Graph, sum: NodeId) -> Option<NodeId> {
    let (a, b, _) = g.sum_of_products(sum)?;
    let wide = |id: NodeId| g.node(id).axes.iter().any(|axis| is_wide(g, axis));
    match (wide(a), wide(b)) {
        (true, false) => Some(a),
        (false, true) => Some(b),
        (true, true) | (false, false) => None,
    }
}

/// The axis of a node over which a product sums that has it, or a renaming of it, as an operand, unless that is what it mixes.
fn summed_over(g: &Graph, node: NodeId) -> Option<AxisId> {
    renamings(g, node).into_iter().find_map(|(id, names)| {
        let sums = g.users(id).into_iter().flat_map(|user| g.users(user));
        let others = sums.filter(|sum| mixed(g, *sum) != Some(id)).filter_map(|sum| g.sum_of_products(sum));
        let depths = others.filter(|(a, b, _)| *a == id || *b == id);
        let mut depths = depths.map(|(_, _, depth)| names.get(&depth).copied().unwrap_or(depth));
        depths.find(|depth| g.node(node).axes.contains(*depth))
    })
}

/// The last axis with columns for a vector of a node that a product mixes: the mixture is computed along it.
fn mixed_along(g: &Graph, node: NodeId) -> Option<AxisId> {
    let mut sums = g.users(node).into_iter().flat_map(|user| g.users(user));
    let is_mixed = sums.any(|sum| mixed(g, sum) == Some(node));
    g.node(node).axes.iter().rfind(|axis| is_mixed && is_wide(g, *axis))
}

/// The longest axis that a node, or a renaming of it, has as the values of an attention and the scores lack: the columns of the
/// product with the weights.
fn columns_of_values(g: &Graph, node: NodeId) -> Option<AxisId> {
    renamings(g, node).into_iter().find_map(|(id, names)| {
        let scores = g.users(id).into_iter().find_map(|user| match (g.op(user), &g.args(user)[..]) {
            (Op::Fused(op, _), [scores, values, ..]) if op.info().has_values() && *values == id => {
                Some(*scores)
            }
            _ => None,
        })?;
        let length = |axis: &AxisId| g.extent(*axis).as_constant().unwrap_or(i64::MAX);
        let own = g.node(id).axes.iter().filter(|axis| !g.node(scores).axes.contains(*axis));
        own.max_by_key(length)
            .filter(|axis| is_wide(g, *axis))
            .map(|axis| names.get(&axis).copied().unwrap_or(axis))
    })
}

/// The axis along which an operator adds up an operand, if it does: an attention adds up its scores and what lies at each of them
/// along the keys. Values with columns of their own are read by those.
fn added_up_along(g: &Graph, user: NodeId, operand: NodeId) -> Option<AxisId> {
    match (g.op(user), &g.args(user)[..]) {
        (Op::Reduce(_, axis), _) => Some(*axis),
        (Op::Fused(op, key), [scores, ..]) if op.info().reduces => {
            let of_scores = &g.node(*scores).axes;
            g.node(operand).axes.iter().all(|axis| of_scores.contains(axis)).then_some(*key)
        }
        _ => None,
    }
}

/// Whether an operator adds up values under these weights: a tile of them is copied as it lies, however that is.
fn are_weights(g: &Graph, user: NodeId, weights: NodeId) -> bool {
    matches!(g.op(user), Op::Fused(op, _) if op.info().has_values()) && g.args(user)[0] == weights
}

/// The axis along which what a mixture mixes lies, if it has columns for a vector: the mixture is computed along it.
fn lies_as_mixed(g: &Graph, node: NodeId) -> Option<AxisId> {
    let last = lies_along(g, mixed(g, node)?);
    last.filter(|last| is_wide(g, *last) && g.node(node).axes.contains(*last))
}

/// The innermost axis of an operand.
fn lies_along(g: &Graph, operand: NodeId) -> Option<AxisId> {
    match *g.op(operand) {
        Op::Input(at) => g.inputs()[at].axes.last().copied(),
        Op::Param(at) => g.params()[at].axes.last().copied(),
        Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) | Op::Reduce(..) | Op::At(_) => {
            layout(g, operand, None).last().copied()
        }
        Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => layout(g, operand, None).last().copied(),
    }
}

/// The axis along which the nearest lies of what a node is made of element by element, if it has all axes of the node and columns for
/// a vector: the node is computed along it.
fn lies_as_operand(g: &Graph, node: NodeId) -> Option<AxisId> {
    let mut seen = BTreeSet::from([node]);
    let mut next = VecDeque::from([node]);
    while let Some(id) = next.pop_front() {
        if g.op(id).class() == Class::Map {
            next.extend(g.args(id).into_iter().filter(|arg| seen.insert(*arg)));
        } else if id != node && g.node(id).axes == g.node(node).axes {
            return lies_along(g, id).filter(|axis| is_wide(g, *axis));
        }
    }
    None
}

/// The axis of a node along which a reduction runs that reads it, or an expression of it element by element: that of a
/// norm, for the values between the layers of a model. Of several the one of the nearest reader, and none with few positions where
/// another axis has columns for a vector, as a sum over a batch: that adds rows, as a scatter does.
fn reduced_along(g: &Graph, node: NodeId) -> Option<AxisId> {
    let axes = &g.node(node).axes;
    let has_columns = axes.iter().any(|axis| is_wide(g, axis));
    let mut seen = BTreeSet::from([node]);
    let mut readers = VecDeque::from([node]);
    while let Some(id) = readers.pop_front() {
        for user in g.users(id) {
            if let Some(axis) = added_up_along(g, user, id)
                && axes.contains(axis)
                && (is_wide(g, axis) || !has_columns)
                && mixed(g, user).is_none()
                && !is_of_scatter(g, user)
                && !(mixed(g, node).is_some() && are_weights(g, user, node))
            {
                return Some(axis);
            }
            if g.op(user).class() == Class::Map && seen.insert(user) {
                readers.push_back(user);
            }
        }
    }
    None
}

/// The order of axes in the output that a node is a part of, as what is appended to a state is: there it is copied row
/// by row.
fn order_in_whole(g: &Graph, node: NodeId) -> Option<Vec<AxisId>> {
    let wholes = g.users(node).into_iter().filter_map(|whole| {
        let Op::Concat(along, parts) = g.op(whole) else { return None };
        let order = g.outputs().iter().find(|o| o.node == whole).and_then(|o| order_of_output(g, o))?;
        let part = parts[g.args(whole).iter().position(|a| *a == node)?];
        Some(order.into_iter().map(|a| if a == *along { part } else { a }).collect::<Vec<AxisId>>())
    });
    let axes = &g.node(node).axes;
    wholes.into_iter().find(|order| order.len() == axes.len() && order.iter().all(|a| axes.contains(*a)))
}

/// The order of axes in an output that is the node with one of its axes read as several, side by side, as merged heads and features
/// are: the node has that axis in their place.
fn order_in_parts(g: &Graph, node: NodeId) -> Option<Vec<AxisId>> {
    let axes = &g.node(node).axes;
    g.outputs().iter().find_map(|output| {
        let Op::At(axis) = *g.op(output.node) else { return None };
        let (of, index) = (g.args(output.node)[0], g.args(output.node)[1]);
        if of != node {
            return None;
        }
        let parts = &g.node(index).axes;
        let is_part = |other: &AxisId| parts.contains(*other);
        let mut order = order_of_output(g, output)?;
        let first = order.iter().position(is_part)?;
        let end = order.iter().rposition(is_part)? + 1;
        let is_run = axes.contains(axis)
            && end - first == parts.len()
            && parts.iter().all(|part| !axes.contains(part));
        order.splice(first..end, [axis]);
        is_run.then_some(order)
    })
}

/// The order of axes in an output that is the node with some of its axes merged into one, as the rows of windows are: those axes stand
/// in the place of that one, the outermost first.
fn order_in_merged(g: &Graph, node: NodeId) -> Option<Vec<AxisId>> {
    let of_output = |output: &Output| {
        let mut indices: BTreeMap<AxisId, NodeId> = BTreeMap::new();
        let mut at = output.node;
        while let (Op::At(axis), true) = (g.op(at), at != node) {
            // Below a view an axis may be another one of the same name.
            let is_own = !indices.values().any(|index| g.node(*index).axes.contains(*axis));
            indices.insert(*axis, g.args(at)[1]).is_none().then_some(()).filter(|()| is_own)?;
            at = g.args(at)[0];
        }
        if at != node || indices.is_empty() {
            return None;
        }
        let order = order_of_output(g, output)?;
        let mut places: Vec<(usize, Dim, AxisId)> = Vec::new();
        for axis in g.node(node).axes.iter() {
            let (from, span) = match indices.get(&axis) {
                None => (axis, Dim::constant(1)),
                Some(index) => part_of_axis(g, *index)?,
            };
            places.push((order.iter().position(|other| *other == from)?, span, axis));
        }
        places.sort_by(|(a, of_a, _), (b, of_b, _)| {
            // What spans a multiple of the positions is further out.
            let is_multiple = |of: &Dim, by: &Dim| of.split_multiple(by).1 == Dim::constant(0);
            let by_span = || match (is_multiple(of_a, of_b), is_multiple(of_b, of_a)) {
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (true, true) | (false, false) => Ordering::Equal,
            };
            a.cmp(b).then_with(by_span)
        });
        Some(places.into_iter().map(|(.., axis)| axis).collect())
    };
    g.outputs().iter().find_map(of_output)
}

/// The axis of which an index is a part, by quotients and remainders, and how many positions of it one of the index spans.
fn part_of_axis(g: &Graph, index: NodeId) -> Option<(AxisId, Dim)> {
    let (mut at, mut span) = (index, Dim::constant(1));
    while let Op::Map(op @ (MapOp::IntDiv | MapOp::Mod)) = g.op(at) {
        let by = match g.op(g.args(at)[1]) {
            Op::Extent(dim) => dim.clone(),
            Op::Const(c) => Dim::constant(c.value() as i64),
            Op::Input(_) | Op::Param(_) | Op::Iota(_) | Op::Map(_) | Op::Reduce(..) => return None,
            Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => return None,
        };
        if *op == MapOp::IntDiv {
            span = &span * &by;
        }
        at = g.args(at)[0];
    }
    let Op::Iota(axis) = *g.op(at) else { return None };
    Some((axis, span))
}

/// The axes that a reader merges into one, the outermost first, of each such reader: it reads them by quotients and remainders of
/// one index.
fn merged_axes(g: &Graph, node: NodeId) -> Vec<Vec<AxisId>> {
    let mut groups: BTreeMap<NodeId, BTreeSet<(Reverse<usize>, AxisId)>> = BTreeMap::new();
    let mut views = g.users(node);
    while let Some(id) = views.pop() {
        let Op::At(axis) = g.op(id) else { continue };
        let (mut index, mut divisions) = (g.args(id)[1], 0);
        while let Op::Map(op @ (MapOp::IntDiv | MapOp::Mod)) = g.op(index) {
            divisions += usize::from(*op == MapOp::IntDiv);
            index = g.args(index)[0];
        }
        if index != g.args(id)[1] && g.node(node).axes.contains(*axis) {
            groups.entry(index).or_default().insert((Reverse(divisions), *axis));
        }
        views.extend(g.users(id));
    }
    let axes = |group: BTreeSet<(Reverse<usize>, AxisId)>| group.into_iter().map(|(_, axis)| axis).collect();
    let mut groups: Vec<Vec<AxisId>> = groups.into_values().map(axes).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Puts an axis last, if it is there.
fn put_last(order: &mut Vec<AxisId>, axis: AxisId) {
    if let Some(at) = order.iter().position(|a| *a == axis) {
        let axis = order.remove(at);
        order.push(axis);
    }
}

/// The order of the axes of a temporary: as in the output that it is a part of or that merges some of them, else as in one that is made of it element by
/// element or of which several axes are parts of one of its own, else as they are numbered, the columns of a product by a parameter
/// last, or the axis along which its operands lie. Axes that a reader merges into one lie side by side, so that the merged axis is contiguous: at the inner end, unless they
/// are side by side further out and something else runs along what lies behind them.
pub(crate) fn layout(g: &Graph, node: NodeId, product: Option<NodeId>) -> Vec<AxisId> {
    let columns = product.map_or_else(Vec::new, |sum| axes_of_parameter(g, sum));
    let of_reader = || g.order_in_output(node).filter(|_| columns.is_empty());
    let of_parts = || order_in_parts(g, node).filter(|_| columns.is_empty());
    let mut order = order_in_whole(g, node).or_else(of_reader).or_else(of_parts).unwrap_or_else(|| {
        let others = g.node(node).axes.iter().filter(|a| !columns.contains(a));
        let mut order = others.chain(columns.iter().copied()).collect();
        let along = lies_as_operand(g, node).filter(|_| columns.is_empty());
        along.into_iter().for_each(|axis| put_last(&mut order, axis));
        order
    });
    // A product reads its rows in place where they are contiguous along what it sums over; so do other reductions. An attention
    // reads values in panels of columns.
    let along = summed_over(g, node)
        .or_else(|| reduced_along(g, node))
        .or_else(|| columns_of_values(g, node))
        .or_else(|| mixed_along(g, node))
        .or_else(|| lies_as_mixed(g, node));
    let is_free =
        along.is_none() && columns.is_empty() && g.op(node).bound().is_none_or(|axis| !order.contains(&axis));
    if let Some(order) = order_in_merged(g, node).filter(|_| is_free) {
        return order;
    }
    let merged = merged_axes(g, node);
    let last = if merged.is_empty() { along } else { columns.last().copied().or(along) };
    let is_merged = |axis: &AxisId| merged.iter().any(|group| group.contains(axis));
    let mut wanted = order.clone();
    last.iter().filter(|axis| !is_merged(axis)).for_each(|axis| put_last(&mut wanted, *axis));
    let side_by_side = |group: &Vec<AxisId>| wanted.windows(group.len()).any(|axes| axes == group);
    let behind = wanted.last().copied();
    let has_reader = merged.len() > 1 || last.is_some() && last == behind;
    if merged.is_empty() || has_reader && merged.iter().all(side_by_side) {
        order = wanted;
    } else {
        merged.iter().flatten().for_each(|axis| put_last(&mut order, *axis));
    }
    // Values that lie one behind the other are stored one after the other.
    if let Op::Concat(axis, _) = g.op(node)
        && along == Some(*axis)
    {
        put_last(&mut order, *axis);
    }
    // A row-wise kernel runs along the axis that it binds.
    g.op(node).bound().into_iter().for_each(|axis| put_last(&mut order, axis));
    order
}

/// The axes around the rows of a kernel in the order of its loops, where each row is computed of these expressions: first those that most of
/// the stored values have that they read, so that what the inner loops do not change stays in the cache.
pub(crate) fn shared_first(
    layouts: &Layouts<'_>,
    expressions: &[NodeId],
    mut axes: Vec<AxisId>,
) -> Vec<AxisId> {
    let g = layouts.graph;
    let (mut read, mut seen, mut stack) = (Vec::new(), BTreeSet::new(), expressions.to_vec());
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        if layouts.is_stored(id) || g.op(id).class() == Class::View {
            read.push(&g.node(id).axes);
        } else {
            stack.extend(g.args(id));
        }
    }
    axes.sort_by_key(|axis| Reverse(read.iter().filter(|of| of.contains(*axis)).count()));
    axes
}

/// Whether an axis has columns for a vector: of few ones exponentials would be made for all the same.
pub(crate) fn is_wide(g: &Graph, column: AxisId) -> bool {
    g.extent(column).as_constant().is_none_or(|n| n >= 16)
}

/// The order of the axes of weights whose scores are stored with another axis than the keys last: as the scores lie, so that the
/// kernel runs along columns of both. `None` where the scores lie otherwise, or where a product sums over the keys.
pub(crate) fn weights_by_columns(layouts: &Layouts<'_>, node: NodeId) -> Option<Vec<AxisId>> {
    let g = layouts.graph;
    let Op::Fused(op, key) = *g.op(node) else { return None };
    if op.info().reduces || summed_over(g, node) == Some(key) {
        return None;
    }
    let others = g.node(node).axes.iter().filter(|axis| *axis != key && is_wide(g, *axis));
    others.into_iter().find_map(|last| {
        let mut order = layout(g, node, None);
        put_last(&mut order, last);
        (column(layouts, &order, key, g.args(node)[0]) == Some(last)).then_some(order)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Anchor, MapOrder, Options, plan};
    use salient_ir::{Builder, Const, DType, Dim, FusedOp, ReduceOp};

    /// The order of a value over batches, positions and features, by the names of its axes, of which a product sums over batches and
    /// positions in one, and, if `by_features`, another one over features.
    fn order(by_features: bool) -> Vec<String> {
        let mut b = Builder::new("m");
        let [f, batch, t, o] = ["F", "B", "T", "O"].map(|d| b.axis_id(&d.to_lowercase(), &Dim::symbol(d)));
        let k = b.axis_id("k", &Dim::symbol("K"));
        let x = b.input("x", &[batch, t, f, k], DType::F32, None);
        let y = b.input("y", &[batch, t, o], DType::F32, None);
        let w = b.input("w", &[f, o], DType::F32, None);
        let value = b.reduce(ReduceOp::Sum, k, x).unwrap();
        let rows = b.axis_id("rows", &(b.extent(batch) * b.extent(t)));
        let (at, length) = (b.iota(rows), b.extent_of(&Dim::symbol("T")));
        let [quotient, remainder] = [MapOp::IntDiv, MapOp::Mod].map(|op| b.map(op, &[at, length]).unwrap());
        let of_rows = [(batch, quotient), (t, remainder)];
        let [left, right] = [value, y].map(|x| b.at_all(x, &of_rows).unwrap());
        let product = b.map(MapOp::Mul, &[left, right]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, rows, product).unwrap();
        b.output("dw", &[f, o], sum).unwrap();
        if by_features {
            let product = b.map(MapOp::Mul, &[value, w]).unwrap();
            let sum = b.reduce(ReduceOp::Sum, f, product).unwrap();
            b.output("dx", &[batch, t, o], sum).unwrap();
        }
        let g = b.finish();
        let value = g.ids().find(|id| *g.op(*id) == Op::Reduce(ReduceOp::Sum, k)).expect("it is there");
        layout(&g, value, None).into_iter().map(|axis| g.axis(axis).name.to_string()).collect()
    }

    /// The order of softmax weights along the rows of `x[s, d]`, of which each, or what is greater, is added up along that axis, or which are
    /// multiplied with `y[s, e]`.
    fn order_of_weights(is_multiplied: bool) -> Vec<String> {
        let mut b = Builder::new("m");
        let [s, d, e] = ["S", "D", "E"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
        let [x, z] = ["x", "z"].map(|name| b.input(name, &[s, d], DType::F32, None));
        let y = b.input("y", &[s, e], DType::F32, None);
        let weights = b.add(Op::Fused(FusedOp::Softmax, s), &[x]).unwrap();
        let (op, other) = if is_multiplied { (MapOp::Mul, y) } else { (MapOp::Max, z) };
        let terms = b.map(op, &[weights, other]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, s, terms).unwrap();
        let axes = if is_multiplied { vec![d, e] } else { vec![d] };
        b.output("sum", &axes, sum).unwrap();
        let g = b.finish();
        let plan = plan(&g, Options::default());
        let is_weights = |node: NodeId| matches!(plan.graph.op(node), Op::Fused(FusedOp::Softmax, _));
        let stored = plan.buffers.iter().find(|buffer| is_weights(buffer.node)).expect("it is stored");
        stored.axes.iter().map(|axis| plan.graph.axis(*axis).name.to_string()).collect()
    }

    /// The order of `value[d, h * E + e]`, of which an output has the axes `[h, e, d]` or `[h, d, e]`.
    fn order_of_parts(are_side_by_side: bool) -> Vec<String> {
        let mut b = Builder::new("m");
        let [d, h, e, k] =
            ["D", "H", "E", "K"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
        let n = b.axis_id("n", &(b.extent(h) * b.extent(e)));
        let x = b.input("x", &[d, n, k], DType::F32, None);
        let value = b.reduce(ReduceOp::Sum, k, x).unwrap();
        let (head, feature, features) = (b.iota(h), b.iota(e), b.extent_of(&Dim::symbol("E")));
        let first = b.map(MapOp::Mul, &[head, features]).unwrap();
        let at = b.map(MapOp::Add, &[first, feature]).unwrap();
        let parts = b.at(value, n, at).unwrap();
        let axes = if are_side_by_side { [h, e, d] } else { [h, d, e] };
        b.output("y", &axes, parts).unwrap();
        let g = b.finish();
        let value = g.ids().find(|id| *g.op(*id) == Op::Reduce(ReduceOp::Sum, k)).expect("it is there");
        layout(&g, value, None).into_iter().map(|axis| g.axis(axis).name.to_string()).collect()
    }

    /// The order of `value[d, m, n]`, of which an output has the axes `[t, d]` with `t = m * W + n`, and a product of it, if there is one,
    /// sums over `d`.
    fn order_of_windows(is_multiplied: bool) -> Vec<String> {
        let mut b = Builder::new("m");
        let [d, m, n, k] =
            ["D", "M", "W", "K"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
        let t = b.axis_id("t", &(b.extent(m) * b.extent(n)));
        let x = b.input("x", &[d, n, m, k], DType::F32, None);
        let value = b.reduce(ReduceOp::Sum, k, x).unwrap();
        let (at, width) = (b.iota(t), b.extent_of(&Dim::symbol("W")));
        let [window, row] = [MapOp::IntDiv, MapOp::Mod].map(|op| b.map(op, &[at, width]).unwrap());
        let merged = b.at_all(value, &[(m, window), (n, row)]).unwrap();
        b.output("y", &[t, d], merged).unwrap();
        if is_multiplied {
            let w = b.input("w", &[d, k], DType::F32, None);
            let product = b.map(MapOp::Mul, &[value, w]).unwrap();
            let sum = b.reduce(ReduceOp::Sum, d, product).unwrap();
            b.output("z", &[n, m, k], sum).unwrap();
        }
        let g = b.finish();
        let value = g.ids().find(|id| *g.op(*id) == Op::Reduce(ReduceOp::Sum, k)).expect("it is there");
        layout(&g, value, None).into_iter().map(|axis| g.axis(axis).name.to_string()).collect()
    }

    /// The order of `value[t, h]`, of which a product with `by[h, g]` sums over `h`.
    fn order_of_mixed(heads: i64) -> Vec<String> {
        let mut b = Builder::new("m");
        let [t, k] = ["T", "K"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
        let [h, g] = ["h", "g"].map(|name| b.axis_id(name, &Dim::constant(heads)));
        let x = b.input("x", &[h, t, k], DType::F32, None);
        let by = b.input("by", &[h, g], DType::F32, None);
        let value = b.reduce(ReduceOp::Sum, k, x).unwrap();
        let product = b.map(MapOp::Mul, &[value, by]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, h, product).unwrap();
        b.output("y", &[g, t], sum).unwrap();
        let g = b.finish();
        let value = g.ids().find(|id| *g.op(*id) == Op::Reduce(ReduceOp::Sum, k)).expect("it is there");
        layout(&g, value, None).into_iter().map(|axis| g.axis(axis).name.to_string()).collect()
    }

    #[test]
    fn a_value_of_which_few_positions_are_mixed_lies_along_its_long_axis() {
        assert_eq!(order_of_mixed(4), ["h", "t"]);
        assert_eq!(order_of_mixed(64), ["t", "h"]);
    }

    /// The order of mixtures `by[g, h] * x[h, t, s]` that are the weights of values `v[t, e]`, or that are added up along `t`.
    fn order_of_mixture(are_weights: bool) -> Vec<String> {
        let mut b = Builder::new("m");
        let [s, t, e] = ["S", "T", "E"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
        let [h, g] = ["h", "g"].map(|name| b.axis_id(name, &Dim::constant(4)));
        let x = b.input("x", &[h, t, s], DType::F32, None);
        let by = b.input("by", &[g, h], DType::F32, None);
        let product = b.map(MapOp::Mul, &[x, by]).unwrap();
        let mixture = b.reduce(ReduceOp::Sum, h, product).unwrap();
        if are_weights {
            let v = b.input("v", &[t, e], DType::F32, None);
            let y = b.add(Op::Fused(FusedOp::WeightedSum, t), &[mixture, v]).unwrap();
            b.output("y", &[g, s, e], y).unwrap();
        } else {
            let y = b.reduce(ReduceOp::Max, t, mixture).unwrap();
            b.output("y", &[g, s], y).unwrap();
        }
        let graph = b.finish();
        let mixture =
            graph.ids().find(|id| *graph.op(*id) == Op::Reduce(ReduceOp::Sum, h)).expect("it is there");
        layout(&graph, mixture, None).into_iter().map(|axis| graph.axis(axis).name.to_string()).collect()
    }

    #[test]
    fn a_mixture_of_weights_lies_as_what_it_mixes() {
        assert_eq!(order_of_mixture(true).last().map(String::as_str), Some("s"));
        assert_eq!(order_of_mixture(false).last().map(String::as_str), Some("t"));
    }

    #[test]
    fn what_is_made_of_columns_is_computed_along_them() {
        let mut b = Builder::new("m");
        let [s, t] = ["S", "T"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
        let [x, z] = ["x", "z"].map(|name| b.input(name, &[s, t], DType::F32, None));
        let product = b.map(MapOp::Mul, &[x, z]).unwrap();
        b.output("as_they_lie", &[s, t], product).unwrap();
        let sum = b.map(MapOp::Add, &[x, z]).unwrap();
        b.output("across", &[t, s], sum).unwrap();
        let graph = b.finish();
        let plan = plan(&graph, Options::default());
        let orders: Vec<MapOrder> = (plan.kernels.iter())
            .filter_map(|k| if let Anchor::Map(order) = k.anchor { Some(order) } else { None })
            .collect();
        assert_eq!(orders, [MapOrder::Rows, MapOrder::Squares { along: t, computed: true }]);
    }

    #[test]
    fn axes_that_most_operands_have_are_the_outer_loops() {
        let mut b = Builder::new("m");
        let [i, j] = ["I", "J"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
        let [h, g] = ["h", "g"].map(|name| b.axis_id(name, &Dim::constant(4)));
        let x = b.input("x", &[h, i, j], DType::F32, None);
        let [y, z] = ["y", "z"].map(|name| b.input(name, &[g, i, j], DType::F32, None));
        let product = b.map(MapOp::Mul, &[y, z]).unwrap();
        let product = b.map(MapOp::Mul, &[x, product]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, j, product).unwrap();
        b.output("sum", &[h, g, i], sum).unwrap();
        let graph = b.finish();
        let plan = plan(&graph, Options::default());
        let product = plan.graph.args(plan.graph.outputs()[0].node)[0];
        assert_eq!(shared_first(&plan.layouts(), &[product], vec![h, g, i]), [i, g, h]);
    }

    /// The order of `value = 2 * x[b, s, d]`, whose axes are numbered `d`, `s`, `b`. It is read by `sum[b](value)` and a scatter,
    /// `sum[b](sum[s](if ids[b, s] == n then value else 0))`, or by `max[d](exp(value))` and, further away, a maximum along `s`.
    fn order_of_gradient(is_scattered: bool) -> Vec<String> {
        let mut b = Builder::new("m");
        let [d, s, n] = ["D", "S", "N"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
        let batch = b.axis_id("b", &Dim::constant(12));
        let x = b.input("x", &[batch, s, d], DType::F32, None);
        let ids = b.input("ids", &[batch, s], DType::I64, None);
        let two = b.constant(Const::f32(2.0));
        let value = b.map(MapOp::Mul, &[x, two]).unwrap();
        if is_scattered {
            let batches = b.reduce(ReduceOp::Sum, batch, value).unwrap();
            b.output("batches", &[s, d], batches).unwrap();
            let (position, zero) = (b.iota(n), b.constant(Const::f32(0.0)));
            let is_there = b.map(MapOp::Eq, &[ids, position]).unwrap();
            let term = b.map(MapOp::Select, &[is_there, value, zero]).unwrap();
            let inner = b.reduce(ReduceOp::Sum, s, term).unwrap();
            let table = b.reduce(ReduceOp::Sum, batch, inner).unwrap();
            b.output("table", &[n, d], table).unwrap();
        } else {
            let near = b.map(MapOp::Exp, &[value]).unwrap();
            let near = b.reduce(ReduceOp::Max, d, near).unwrap();
            b.output("near", &[batch, s], near).unwrap();
            let far = b.map(MapOp::Mul, &[value, value]).unwrap();
            let far = b.map(MapOp::Exp, &[far]).unwrap();
            let far = b.reduce(ReduceOp::Max, s, far).unwrap();
            b.output("far", &[batch, d], far).unwrap();
        }
        let g = b.finish();
        let value = g.ids().find(|id| *g.op(*id) == Op::Map(MapOp::Mul)).expect("it is there");
        layout(&g, value, None).into_iter().map(|axis| g.axis(axis).name.to_string()).collect()
    }

    #[test]
    fn what_is_added_row_by_row_lies_as_its_operands() {
        assert_eq!(order_of_gradient(true).last().map(String::as_str), Some("d"));
    }

    #[test]
    fn the_nearest_of_several_reductions_says_how_a_value_lies() {
        assert_eq!(order_of_gradient(false).last().map(String::as_str), Some("d"));
    }

    #[test]
    fn axes_that_an_output_merges_lie_as_they_do_there() {
        assert_eq!(order_of_windows(false), ["m", "w", "d"]);
        assert_eq!(order_of_windows(true), ["m", "w", "d"]);
    }

    #[test]
    fn an_axis_lies_as_its_parts_in_an_output_if_they_lie_side_by_side() {
        assert_eq!(order_of_parts(true), ["n", "d"]);
        assert_eq!(order_of_parts(false), ["d", "n"]);
    }

    #[test]
    fn weights_lie_as_their_scores_unless_a_product_sums_over_them() {
        assert_eq!(order_of_weights(false), ["s", "d"]);
        assert_eq!(order_of_weights(true), ["d", "s"]);
    }

    #[test]
    fn axes_that_are_merged_stay_further_out_where_something_runs_along_another_one() {
        assert_eq!(order(false), ["f", "b", "t"]);
        assert_eq!(order(true), ["b", "t", "f"]);
    }
}
