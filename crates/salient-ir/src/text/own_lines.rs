//! Which parts of an expression that is written out in place have lines of their own, and in which order.

use super::Printer;
use super::lines::has_line;
use crate::axis::AxisId;
use crate::graph::{Graph, NodeId};
use crate::op::Op;
use std::collections::{BTreeMap, BTreeSet};

/// What is written by its name.
#[derive(Clone, Debug, Default)]
pub struct Leaves {
    /// Values that are stored.
    pub stored: BTreeSet<NodeId>,
    /// Operands in a form of their own, each with a word for the form: the stored value that such an operand is, or is a view
    /// of, has the word behind its name.
    pub forms: BTreeMap<NodeId, String>,
    /// Values that have lines of their own.
    pub lines: BTreeSet<NodeId>,
    /// All values that have lines of their own, if that is not to be decided.
    pub chosen: Option<BTreeSet<NodeId>>,
}

impl Leaves {
    /// Lines in the order in which the expression comes to them, each after those that it reads: an order that the text alone
    /// gives.
    pub(super) fn in_order(&self, g: &Graph, root: NodeId, lines: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let (mut out, mut seen) = (Vec::new(), BTreeSet::from([root]));
        let mut stack: Vec<(NodeId, bool)> =
            self.inner(g, root).into_iter().rev().map(|arg| (arg, false)).collect();
        while let Some((id, is_done)) = stack.pop() {
            if is_done {
                out.extend(Some(id).filter(|id| lines.contains(id)));
            } else if seen.insert(id) {
                stack.push((id, true));
                stack.extend(self.inner(g, id).into_iter().rev().map(|arg| (arg, false)));
            }
        }
        out
    }

    /// The parts of an expression that have lines of their own: what is read twice or more, what the source names, what
    /// binds an axis under a view, and a part of a concatenation that does not show how long it is.
    pub(super) fn own_lines(&self, p: &Printer<'_>, root: NodeId) -> BTreeSet<NodeId> {
        let g = p.g;
        if self.stored.contains(&root) {
            return BTreeSet::new();
        }
        let mut inside = BTreeSet::from([root]);
        let mut uses: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut under_view = BTreeSet::new();
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            for arg in self.inner(g, id) {
                *uses.entry(arg).or_default() += 1;
                if inside.insert(arg) {
                    stack.push(arg);
                }
            }
        }
        // Users have greater ids than what they use.
        for id in inside.iter().rev() {
            let is_view = matches!(g.op(*id), Op::At(_));
            for (n, arg) in g.args(*id).into_iter().enumerate() {
                if is_view && n == 0 || under_view.contains(id) {
                    under_view.insert(arg);
                }
            }
        }
        inside.remove(&root);
        if let Some(chosen) = &self.chosen {
            return inside.intersection(chosen).copied().collect();
        }
        let parts = self.parts_without_length(g, &inside, root);
        let is_named = |id: NodeId| p.names.nodes[id.index()].is_some();
        let has_own = |id: &NodeId| {
            let of_indices = p.lines.of_indices[id.index()];
            let may = has_line(g.op(*id)) && !of_indices && is_named(*id);
            let binds = !matches!(g.op(*id), Op::Map(_));
            if self.forms.contains_key(id) {
                return false;
            }
            let is_named_part = parts.contains(id) && is_named(*id);
            is_named_part
                || may
                    && (uses[id] > 1
                        || self.lines.contains(id)
                        || g.node(*id).name.is_some()
                        || under_view.contains(id) && binds)
        };
        inside.into_iter().filter(has_own).collect()
    }

    /// The values that are written out in place of their names in what stands for a value. Of an operand in a form of its own
    /// these are the indices of views alone.
    fn inner(&self, g: &Graph, id: NodeId) -> Vec<NodeId> {
        let mut out: Vec<NodeId> = Vec::new();
        if self.forms.contains_key(&id) {
            let mut of = id;
            while let (Op::At(_), [inner, index]) = (g.op(of), g.args(of).as_slice()) {
                out.push(*index);
                of = *inner;
            }
        } else {
            out.extend(g.args(id));
        }
        out.retain(|arg| !self.stored.contains(arg));
        out
    }

    /// The parts of concatenations of which no operand shows how long they are.
    fn parts_without_length(&self, g: &Graph, inside: &BTreeSet<NodeId>, root: NodeId) -> BTreeSet<NodeId> {
        let mut out = BTreeSet::new();
        for id in inside.iter().chain([&root]) {
            let Op::Concat(_, parts) = g.op(*id) else { continue };
            let hidden = |arg: NodeId, part: AxisId| {
                g.extent(part).as_constant() != Some(1) && !self.shows(g, arg, part)
            };
            out.extend(g.args(*id).into_iter().zip(parts).filter(|(a, p)| hidden(*a, **p)).map(|(a, _)| a));
        }
        out
    }

    /// Whether a value that is written out shows how long an axis is: the axis stands by itself in an operand.
    fn shows(&self, g: &Graph, root: NodeId, axis: AxisId) -> bool {
        let (mut seen, mut stack) = (BTreeSet::new(), vec![(root, axis)]);
        while let Some((id, axis)) = stack.pop() {
            if !g.node(id).axes.contains(axis) || !seen.insert((id, axis)) {
                continue;
            }
            match (g.op(id), g.args(id).as_slice()) {
                (Op::Iota(_), _) => {}
                _ if self.stored.contains(&id) => return true,
                (Op::At(replaced), [of, index]) => {
                    if *g.op(*index) == Op::Iota(axis) && g.is_renamed(*replaced, *index) {
                        stack.push((*of, *replaced));
                    } else {
                        stack.push((*index, axis));
                    }
                    if *replaced != axis {
                        stack.push((*of, axis));
                    }
                }
                (Op::Map(_), args) => stack.extend(args.iter().map(|arg| (*arg, axis))),
                _ => return true,
            }
        }
        false
    }
}
