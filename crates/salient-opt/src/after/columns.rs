//! Operands with several axes of columns: one axis for all of them.
//!
//! Values may have axes that their weights do not have, as the heads and the features of values that share their weights. A kernel sums
//! the columns of one axis under a row of weights; for each position of a further one it would compute the row again. A matrix of
//! parameters may have few columns for each position of another axis, as those of each head: less than a register tile is wide.

use crate::graph::index::AffineIndex;
use crate::graph::rewrite::{Rewritten, axis_named, rewrite_in_order};
use salient_ir::{AxisId, AxisSet, Builder, Dim, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Columns that fill a register tile on every machine.
const WIDE: i64 = 64;

/// The same graph with one axis of columns for all values.
pub(crate) fn value_columns(g: &Graph) -> Rewritten {
    let found: BTreeMap<NodeId, Columns> =
        g.ids().filter_map(|id| Some((id, Columns::of_values(g, id)?))).collect();
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite_in_order(g, |b, new, id| {
        let columns = found.get(&id)?;
        let mut args: Vec<NodeId> = g.args(id).iter().map(|arg| new[arg.index()]).collect();
        let axis = columns.axis(g, b);
        args[1] = columns.merge(g, b, axis, args[1])?;
        let summed = b.add(g.op(id).clone(), &args).ok()?;
        columns.separate(g, b, axis, summed)
    })
}

/// The same graph with one axis of columns for each parameter of a product.
pub(crate) fn parameter_columns(g: &Graph) -> Rewritten {
    let of_inputs = g.of_inputs();
    let product = |id: NodeId| Some((id, Product::of(g, &of_inputs, id)?));
    let found: BTreeMap<NodeId, Product> = g.ids().filter_map(product).collect();
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite_in_order(g, |b, new, id| {
        let Product { columns, left, parameter } = found.get(&id)?;
        let axis = columns.axis(g, b);
        let parameter = columns.merge(g, b, axis, new[parameter.index()])?;
        let terms = b.map(MapOp::Mul, &[parameter, new[left.index()]]).ok()?;
        let summed = b.add(g.op(id).clone(), &[terms]).ok()?;
        columns.separate(g, b, axis, summed)
    })
}

/// A product with a parameter, of which the parameter alone has several axes.
struct Product {
    columns: Columns,
    left: NodeId,
    parameter: NodeId,
}

impl Product {
    /// None if the innermost columns fill a register tile, or if anything but products and attentions reads the result: what is
    /// computed of it element by element is computed by the product's own kernel, over its own axes.
    fn of(g: &Graph, of_inputs: &[bool], id: NodeId) -> Option<Product> {
        let (a, c, depth) = g.sum_of_products(id)?;
        let (left, parameter) = match (of_inputs[a.index()], of_inputs[c.index()]) {
            (true, false) => (a, c),
            (false, true) => (c, a),
            (true, true) | (false, false) => return None,
        };
        let others = &g.node(left).axes;
        let own = order(g, parameter).into_iter().filter(|axis| *axis != depth && !others.contains(*axis));
        let columns = Columns(own.collect());
        let is_narrow =
            columns.0.last().is_some_and(|axis| g.extent(*axis).as_constant().is_some_and(|n| n < WIDE));
        let has_rows = g.node(id).axes.iter().any(|axis| others.contains(axis));
        let is_kept = g.outputs().iter().any(|out| out.node == id);
        (columns.0.len() > 1 && is_narrow && has_rows && !is_kept && is_operand(g, id)).then_some(Product {
            columns,
            left,
            parameter,
        })
    }
}

/// Whether products and attentions alone read a node, at whatever positions: as an operand that is multiplied and summed.
fn is_operand(g: &Graph, id: NodeId) -> bool {
    let (mut seen, mut views) = (BTreeSet::new(), vec![id]);
    while let Some(view) = views.pop() {
        for user in g.users(view) {
            if matches!(g.op(user), Op::At(_)) && g.args(user)[0] == view {
                views.extend(seen.insert(user).then_some(user));
                continue;
            }
            let sums = g.users(user);
            let is_factor = g.op(user) == &Op::Map(MapOp::Mul);
            let is_summed =
                is_factor && !sums.is_empty() && sums.into_iter().all(|sum| g.sum_of_products(sum).is_some());
            let is_value = matches!(g.op(user), Op::Fused(op, _) if op.info().has_values())
                && g.args(user).iter().enumerate().all(|(at, arg)| (at == 1) == (*arg == view));
            if !(is_summed || is_value) {
                return false;
            }
        }
    }
    true
}

/// The axes of an operand in the order in which they lie, where ports give it: parts that are stacked lie one after the other.
fn order(g: &Graph, id: NodeId) -> Vec<AxisId> {
    match (g.port(id), g.op(id)) {
        (Some(port), _) => port.axes.clone(),
        (None, Op::Concat(axis, _)) => {
            let part = order(g, g.args(id)[0]).into_iter().filter(|other| g.node(id).axes.contains(*other));
            std::iter::once(*axis).chain(part.filter(|other| other != axis)).collect()
        }
        (None, _) => g.node(id).axes.iter().collect(),
    }
}

/// The axes of columns, the outermost first.
struct Columns(Vec<AxisId>);

impl Columns {
    /// The axes of values that their weights do not have. None if there is one at most, or no row that the values do not have: what has
    /// no rows reads each value once.
    fn of_values(g: &Graph, id: NodeId) -> Option<Columns> {
        let Op::Fused(op, key) = *g.op(id) else { return None };
        let args = g.args(id);
        let (score, value) = (args[0], *args.get(1).filter(|_| op.info().has_values())?);
        let others = args.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, arg)| *arg);
        let weights: AxisSet = others.flat_map(|arg| g.node(arg).axes.iter()).collect();
        let of_value = &g.node(value).axes;
        let has_rows = g.node(score).axes.iter().any(|axis| axis != key && !of_value.contains(axis));
        let own = order(g, value).into_iter().filter(|axis| *axis != key && !weights.contains(*axis));
        let columns = Columns(own.collect());
        (has_rows && columns.0.len() > 1).then_some(columns)
    }

    /// How many columns there are for each position of each axis.
    fn spans(&self, g: &Graph) -> Vec<Dim> {
        let mut spans = vec![Dim::constant(1)];
        for axis in self.0.iter().skip(1).rev() {
            let next = spans.last().expect("one at least") * g.extent(*axis);
            spans.push(next);
        }
        spans.reverse();
        spans
    }

    /// An operand with one axis for all columns.
    fn merge(&self, g: &Graph, b: &mut Builder, columns: AxisId, operand: NodeId) -> Option<NodeId> {
        let spans = self.spans(g);
        let mut merged = operand;
        for (at, (axis, span)) in self.0.iter().zip(&spans).enumerate() {
            let mut position = b.iota(columns);
            if at + 1 < spans.len() {
                let span = b.extent_of(span);
                position = b.map(MapOp::IntDiv, &[position, span]).ok()?;
            }
            if at > 0 {
                let extent = b.extent_of(g.extent(*axis));
                position = b.map(MapOp::Mod, &[position, extent]).ok()?;
            }
            merged = b.at(merged, *axis, position).ok()?;
        }
        Some(merged)
    }

    /// What has one axis of columns, read along the axes that it stands for.
    fn separate(&self, g: &Graph, b: &mut Builder, columns: AxisId, merged: NodeId) -> Option<NodeId> {
        let terms = self.0.iter().copied().zip(self.spans(g)).collect();
        let place = AffineIndex { terms, offset: Dim::constant(0) }.add_to(b, None);
        b.at(merged, columns, place).ok()
    }

    /// The axis of all columns, which nothing else has.
    fn axis(&self, g: &Graph, b: &mut Builder) -> AxisId {
        let names: Vec<&str> = self.0.iter().map(|axis| &*g.axis(*axis).name).collect();
        let extent = &self.spans(g)[0] * g.extent(self.0[0]);
        axis_named(g, b, &names.join("_"), &extent)
    }
}
