//! Axes of the graph: names that do not collide, and replacing axes by indices.
//!
//! No two axes of one tensor share a name, so that the text form of a graph can tell them apart.

use super::Lowerer;
use super::model::AxisName;
use crate::value::Slot;
use salient_ir::axis::stored_names;
use salient_ir::{AxisId, AxisSet, Const, Dim, Name, NodeId, Op, demand};
use std::collections::HashMap;

/// What nodes have become under replacements, inside an index or not: indices share their parts.
type Known = HashMap<(NodeId, Vec<(AxisId, NodeId)>, bool), NodeId>;

impl<'a> Lowerer<'a, '_> {
    /// Whether an axis would be confused with one of the others.
    pub(super) fn clashes(&self, axis: AxisId, others: &AxisSet) -> bool {
        let name = &self.b.axis(axis).name;
        others.iter().any(|o| self.b.axis(o).name == *name)
    }

    /// The axis itself where it is not confused with one of the others, else a numbered one like it.
    pub(super) fn distinct(&mut self, axis: AxisId, others: &AxisSet) -> AxisId {
        if self.clashes(axis, others) { self.aside(axis, others) } else { axis }
    }

    /// A numbered axis like this one that is confused with none of the others.
    pub(super) fn aside(&mut self, axis: AxisId, others: &AxisSet) -> AxisId {
        let (name, extent) = (self.b.axis(axis).name.clone(), self.b.extent(axis).clone());
        let stem = name.split('.').next().unwrap_or(&name).to_owned();
        let mut n = 1;
        loop {
            let next = self.b.axis_id(&format!("{stem}.{n}"), &extent);
            if !self.clashes(next, others) {
                return next;
            }
            n += 1;
        }
    }

    /// Slots for a stored tensor, and the node's axes in order. Axes go by their own names where they have some. A dimension that
    /// was set to a number still gives its name to the slot: setting it does not take the axis away from `sum[t]`.
    pub(super) fn stored_axes(&mut self, dims: &[Dim], names: &[AxisName]) -> (Vec<Slot>, Vec<AxisId>) {
        let mut used = AxisSet::new();
        let mut slots: Vec<Slot> = Vec::new();
        let mut axes = Vec::new();
        for ((dim, usual), name) in dims.iter().zip(stored_names(dims)).zip(names) {
            let own = match name {
                AxisName::Own(own) => own,
                AxisName::Dimension(_) | AxisName::None => &usual,
            };
            let axis = self.b.axis_id(own, dim);
            let axis = self.distinct(axis, &used);
            used.insert(axis);
            axes.push(axis);
            let is_free = |label: &&String| slots.iter().all(|slot| !slot.is_called(label));
            let label = match name {
                AxisName::Own(label) => Some(label),
                AxisName::Dimension(label) => Some(label).filter(|_| dim.as_constant().is_some()),
                AxisName::None => None,
            };
            let label = label.filter(is_free).map(|label| Name::from(label.as_str()));
            slots.push(match dim.as_constant() {
                Some(1) => Slot { axis: None, label },
                _ => Slot { axis: Some(axis), label: label.or_else(|| Some(self.b.axis(axis).name.clone())) },
            });
        }
        (slots, axes)
    }

    /// The axes of a stored tensor's node are all there; those of extent one are read at 0 once and for all.
    pub(super) fn without_units(&mut self, node: NodeId, axes: &[AxisId]) -> NodeId {
        let zero = self.b.extent_of(&Dim::constant(0));
        let ones: Vec<_> = axes.iter().copied().filter(|a| self.is_unit(*a)).map(|a| (a, zero)).collect();
        self.replaced(node, &ones)
    }

    /// A node with axes renamed, all at once.
    pub(super) fn moved(&mut self, node: NodeId, moves: &[(AxisId, AxisId)]) -> NodeId {
        let with: Vec<_> = moves.iter().filter(|(a, b)| a != b).map(|(a, b)| (*a, self.b.iota(*b))).collect();
        self.replaced(node, &with)
    }

    /// A node with axes replaced by integer expressions, all at once.
    ///
    /// A reading of a reading is one reading: indices are put into indices, down to where a value is computed. It stays two where
    /// the outer index would not be checked any more.
    pub(super) fn replaced(&mut self, node: NodeId, with: &[(AxisId, NodeId)]) -> NodeId {
        let free = self.b.node(node).axes.clone();
        let done = self.replaced_in(node, with, false, &mut HashMap::new());
        // A value that is the same everywhere along an axis has no place at an index outside of it all the same.
        let unseen =
            with.iter().filter(|(axis, index)| !free.contains(*axis) && !self.is_inside(*index, *axis));
        let unseen: Vec<_> = unseen.copied().collect();
        unseen.into_iter().fold(done, |node, (axis, index)| {
            self.b.add(Op::At(axis), &[node, index]).expect("an index is an integer")
        })
    }

    /// Whether an index is a position of an axis by its form.
    fn is_inside(&self, index: NodeId, axis: AxisId) -> bool {
        let extent = self.b.extent(axis).as_constant();
        let is_position = |c: &Const| extent.is_some_and(|n| (0.0..n as f64).contains(&c.value()));
        self.b.is_renamed(axis, index) || matches!(self.b.op(index), Op::Const(c) if is_position(c))
    }

    /// Whether an index that is put into a reading is refused where it lies outside the axis that it replaces.
    fn may_be_put_in(&self, node: NodeId, axis: AxisId, index: NodeId) -> bool {
        self.is_inside(index, axis) || demand::stays_checked(&self.b, node, axis)
    }

    fn replaced_in(
        &mut self,
        node: NodeId,
        with: &[(AxisId, NodeId)],
        is_index: bool,
        known: &mut Known,
    ) -> NodeId {
        let free = self.b.node(node).axes.clone();
        let mut with: Vec<(AxisId, NodeId)> = with
            .iter()
            .copied()
            .filter(|(a, index)| free.contains(*a) && *self.b.op(*index) != Op::Iota(*a))
            .collect();
        if with.is_empty() {
            return node;
        }
        let key = (node, with.clone(), is_index);
        if let Some(done) = known.get(&key) {
            return *done;
        }
        let done = match self.b.op(node).clone() {
            Op::Iota(axis) => with.iter().find(|(a, _)| *a == axis).map_or(node, |(_, index)| *index),
            Op::At(_) if with.iter().any(|(axis, index)| !self.may_be_put_in(node, *axis, *index)) => {
                let (inner, outer): (Vec<_>, Vec<_>) =
                    with.iter().copied().partition(|(axis, index)| self.may_be_put_in(node, *axis, *index));
                // All at once: an index that is put in must not be replaced by another one.
                let mentions = |(_, index): &(AxisId, NodeId), axis| self.b.node(*index).axes.contains(axis);
                let apart = !inner.iter().any(|i| outer.iter().any(|(axis, _)| mentions(i, *axis)));
                let (node, with) = match apart && !inner.is_empty() {
                    true => (self.replaced_in(node, &inner, is_index, known), outer),
                    false => (node, with),
                };
                self.b.at_all(node, &with).expect("indices are integers")
            }
            Op::At(axis) => {
                let args = self.b.args(node);
                let index = self.replaced_in(args[1], &with, true, known);
                with.retain(|(a, _)| *a != axis);
                if self.b.node(args[0]).axes.contains(axis) {
                    with.push((axis, index));
                    self.replaced_in(args[0], &with, is_index, known)
                } else {
                    let of = self.replaced_in(args[0], &with, is_index, known);
                    self.b.add(Op::At(axis), &[of, index]).expect("an index is an integer")
                }
            }
            Op::Map(op) if is_index => {
                let args = self.b.args(node);
                let args: Vec<NodeId> =
                    args.into_iter().map(|a| self.replaced_in(a, &with, true, known)).collect();
                self.folded(op, &args).expect("the types are those of the original")
            }
            Op::Map(_)
            | Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Extent(_)
            | Op::Reduce(..)
            | Op::Concat(..)
            | Op::CumSum(..)
            | Op::Fused(..) => self.b.at_all(node, &with).expect("indices are integers"),
        };
        known.insert(key, done);
        done
    }
}
