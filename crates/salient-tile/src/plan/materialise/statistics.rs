//! Which reductions are computed in the kernel of the rows that they are of: the mean and the variance of a norm, the sum
//! that divides a row. They are held while the row is near, and never stored.
//!
//! A reduction of rows that others read too is stored; so is one that goes over all that there is, which would leave the
//! rest to one thread.

use crate::plan::Layouts;
use crate::plan::contraction::contraction;
use crate::plan::materialise::keep::Uses;
use salient_ir::{AxisId, Class, DType, Graph, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The reductions that are held, each with the element-wise node whose kernel holds it and which is stored for that.
/// `is_stored` says which element-wise nodes are stored anyway; `lies` gives the innermost axis of a node that is stored:
/// lanes run along it. What goes over anything `of_scores` is not held.
pub(crate) fn statistics(
    g: &Graph,
    (is_stored, outputs): (&dyn Fn(NodeId) -> bool, &BTreeSet<NodeId>),
    (uses, of_scores): (&[Uses], &[bool]),
    lies: impl Fn(NodeId) -> Option<AxisId>,
) -> BTreeMap<NodeId, NodeId> {
    let mut held = BTreeMap::new();
    for id in g.ids().rev() {
        let Op::Reduce(ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min, axis) = *g.op(id) else { continue };
        let rows = &g.node(id).axes;
        let over = g.args(id)[0];
        let plain =
            g.node(id).dtype == DType::F32 && g.node(over).dtype == DType::F32 && !of_scores[over.index()];
        let is_product = || contraction(g, id, rows.as_slice()).is_some();
        if !plain || rows.is_empty() || outputs.contains(&id) || is_product() {
            continue;
        }
        let mut walk = Walk { g, is_stored, held: &held, of: id, axis, known: HashMap::new() };
        let root = walk.common(id);
        if let Some(root) = root.filter(|r| !uses[r.index()].is_score && lies(*r) == Some(axis)) {
            held.insert(id, root);
        }
    }
    held
}

/// The way from a reduction to the rows that need it.
struct Walk<'a> {
    g: &'a Graph,
    is_stored: &'a dyn Fn(NodeId) -> bool,
    held: &'a BTreeMap<NodeId, NodeId>,
    of: NodeId,
    axis: AxisId,
    known: HashMap<NodeId, Option<NodeId>>,
}

impl Walk<'_> {
    /// The rows in which all uses of a node end.
    fn common(&mut self, id: NodeId) -> Option<NodeId> {
        let users = self.g.users(id);
        let first = self.end(*users.first()?)?;
        users[1..].iter().all(|user| self.end(*user) == Some(first)).then_some(first)
    }

    /// The rows in which a use ends: the last element-wise node before they are stored or read by something else.
    fn end(&mut self, user: NodeId) -> Option<NodeId> {
        if let Some(known) = self.known.get(&user) {
            return *known;
        }
        let end = match self.g.op(user).class() {
            Class::Bind if matches!(self.g.op(user), Op::Reduce(_, axis) if *axis == self.axis) => {
                self.held.get(&user).copied()
            }
            Class::Map => {
                let beyond = if (self.is_stored)(user) { None } else { self.common(user) };
                beyond.or_else(|| self.is_row(user).then_some(user))
            }
            Class::Port | Class::Leaf | Class::View | Class::Concat | Class::Bind => None,
        };
        self.known.insert(user, end);
        end
    }

    /// Whether a node is as many rows as there are reductions.
    fn is_row(&self, id: NodeId) -> bool {
        let (node, rows) = (self.g.node(id), &self.g.node(self.of).axes);
        let mut whole = rows.clone();
        whole.insert(self.axis);
        node.dtype == DType::F32 && node.axes == whole
    }
}

/// What the kernel of the rows `root` holds: the reductions in its expression that are not stored, and what else is the same
/// along a row and depends on them, arguments first.
pub(crate) fn held_by(layouts: &Layouts<'_>, root: NodeId, along: AxisId) -> BTreeSet<NodeId> {
    fn visit(layouts: &Layouts<'_>, id: NodeId, seen: &mut BTreeMap<NodeId, bool>) -> bool {
        if let Some(known) = seen.get(&id) {
            return *known;
        }
        let g = layouts.graph;
        let mut holds = false;
        if !layouts.is_stored(id) {
            g.args(id).iter().for_each(|arg| holds |= visit(layouts, *arg, seen));
            holds |= matches!(g.op(id), Op::Reduce(..));
        }
        seen.insert(id, holds);
        holds
    }
    let mut seen = BTreeMap::new();
    visit(layouts, root, &mut seen);
    let is_same = |id: &NodeId| {
        !layouts.graph.node(*id).axes.contains(along)
            && (matches!(layouts.graph.op(*id), Op::Reduce(..)) || !layouts.defined.may_report(*id))
    };
    seen.into_iter().filter(|(_, holds)| *holds).map(|(id, _)| id).filter(is_same).collect()
}
