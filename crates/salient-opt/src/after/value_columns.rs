//! Values with several axes that their weights do not have, as the heads and the features of values that share their weights: one
//! axis of columns. A kernel sums the columns of one axis under a row of weights; for each position of a further one it would
//! compute the row again.

use crate::graph::index::AffineIndex;
use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use salient_ir::{AxisId, AxisSet, Builder, Dim, Graph, MapOp, NodeId, Op};
use std::collections::BTreeMap;

/// The same graph with one axis of columns for all values.
pub(crate) fn value_columns(g: &Graph) -> Rewritten {
    let found: BTreeMap<NodeId, Columns> = g.ids().filter_map(|id| Some((id, Columns::of(g, id)?))).collect();
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite_in_order(g, |b, new, id| found.get(&id)?.build(g, b, new, id))
}

/// The axes of values that their weights do not have, the outermost first.
struct Columns(Vec<AxisId>);

impl Columns {
    /// None if there is one at most, or no row that the values do not have: what has no rows reads each value once.
    fn of(g: &Graph, id: NodeId) -> Option<Columns> {
        let Op::Fused(op, key) = *g.op(id) else { return None };
        let args = g.args(id);
        let (score, value) = (args[0], *args.get(1).filter(|_| op.info().has_values())?);
        let others = args.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, arg)| *arg);
        let weights: AxisSet = others.flat_map(|arg| g.node(arg).axes.iter()).collect();
        let of_value = &g.node(value).axes;
        let has_rows = g.node(score).axes.iter().any(|axis| axis != key && !of_value.contains(axis));
        // In the order in which they lie, where that is given.
        let order = g.port(value).map_or_else(|| of_value.iter().collect(), |port| port.axes.clone());
        let own = order.into_iter().filter(|axis| *axis != key && !weights.contains(*axis));
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

    fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
        let spans = self.spans(g);
        let columns = self.axis(g, b, &(&spans[0] * g.extent(self.0[0])));
        let mut args: Vec<NodeId> = g.args(id).iter().map(|arg| new[arg.index()]).collect();
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
            args[1] = b.at(args[1], *axis, position).ok()?;
        }
        let summed = b.add(g.op(id).clone(), &args).ok()?;
        let terms = self.0.iter().copied().zip(spans).collect();
        let place = AffineIndex { terms, offset: Dim::constant(0) }.add_to(b, None);
        b.at(summed, columns, place).ok()
    }

    /// The axis of all columns, which nothing else has.
    fn axis(&self, g: &Graph, b: &mut Builder, extent: &Dim) -> AxisId {
        let names: Vec<&str> = self.0.iter().map(|axis| &*g.axis(*axis).name).collect();
        let taken: AxisSet = g.axes().map(|(axis, _)| axis).collect();
        let columns = b.axis_id(&names.join("_"), extent);
        if taken.contains(columns) { b.fresh_axis(columns, &taken) } else { columns }
    }
}
