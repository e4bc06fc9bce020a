//! What flows from the loss into each node.

use crate::error::GradientError;
use crate::make::Make;
use crate::open::open;
use crate::slices::Slice;
use crate::stop::is_stopped;
use crate::{operators, shifts, slices};
use salient_ir::{AxisId, AxisSet, Builder, Class, DType, MapOp, Name, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// A cotangent: what a node's change is multiplied by. Where the mask does not hold it is zero, and its value is not looked at: so
/// an arm of a choice that is not taken adds nothing, even where the derivative of what it computes is infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cotangent {
    pub(crate) mask: Option<NodeId>,
    pub(crate) value: NodeId,
}

/// The cotangents of a graph while the loss is followed back.
pub(crate) struct Adjoints<'b> {
    pub(crate) b: &'b mut Builder,
    /// Whether each node of the forward graph is a number that depends on a target.
    active: Vec<bool>,
    /// Whether each is looked at only where its cotangent is: see [`open`].
    open: Vec<bool>,
    /// Maxima that the loss does not depend on.
    shifts: BTreeSet<NodeId>,
    into: BTreeMap<NodeId, Vec<Cotangent>>,
    /// What flows into parts of each node, until it is known whether they are all of it.
    slices: BTreeMap<NodeId, Vec<Slice>>,
}

impl<'b> Adjoints<'b> {
    pub(crate) fn new(b: &'b mut Builder, loss: NodeId, by: &[NodeId]) -> Adjoints<'b> {
        let active = active(b, loss, by);
        let shifts = shifts::that_cancel(b, loss, |id| active[id.index()]);
        let open = open(b, loss);
        Adjoints { b, active, open, shifts, into: BTreeMap::new(), slices: BTreeMap::new() }
    }

    /// The gradients by the targets, in their order; none where the loss does not depend on a target.
    pub(crate) fn gradients(
        mut self,
        loss: NodeId,
        by: &[NodeId],
    ) -> Result<Vec<Option<NodeId>>, GradientError> {
        let one = self.b.number(1.0);
        self.into.insert(loss, vec![Cotangent { mask: None, value: one }]);
        let forward: Vec<NodeId> = self.b.ids().take(loss.index() + 1).collect();
        let mut found: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        for id in forward.into_iter().rev() {
            let Some(total) = self.total(id) else { continue };
            if by.contains(&id) {
                found.insert(id, self.b.masked(total.mask, total.value));
            }
            operators::pull_back(&mut self, id, total)?;
        }
        Ok(by.iter().map(|id| found.get(id).copied()).collect())
    }

    /// Whether a node depends on a target, and what flows into it matters.
    pub(crate) fn is_active(&self, id: NodeId) -> bool {
        self.active.get(id.index()).copied().unwrap_or(false) && !self.shifts.contains(&id)
    }

    /// Whether a node is made of what may be read outside of its axis where its cotangent is not looked at: what is known of that stays.
    pub(crate) fn is_open(&self, id: NodeId) -> bool {
        self.open.get(id.index()).copied().unwrap_or(false)
    }

    /// Adds what flows into a node, at each position of `domain`; along the axes that the node lacks it is summed.
    pub(crate) fn add(&mut self, to: NodeId, domain: &AxisSet, flow: Cotangent) {
        if !self.is_active(to) {
            return;
        }
        let own = self.b.node(to).axes.clone();
        let mut flow = flow;
        // Along positions first, which come after examples and heads: what is left is a number for each of these.
        let others: Vec<AxisId> = domain.iter().filter(|axis| !own.contains(*axis)).collect();
        for axis in others.into_iter().rev() {
            if let Some(mask) = flow.mask.filter(|mask| self.b.node(*mask).axes.contains(axis)) {
                let value = self.b.masked(flow.mask, flow.value);
                let any = self.is_open(to).then(|| self.b.reduce(ReduceOp::Any, axis, mask));
                flow = Cotangent { mask: any.map(|any| any.expect("a mask is a truth value")), value };
            }
            flow.value = self.b.sum(axis, flow.value);
        }
        self.into.entry(to).or_default().push(flow);
    }

    /// Adds what flows into a part of a node.
    pub(crate) fn slice(&mut self, of: NodeId, slice: Slice) {
        self.slices.entry(of).or_default().push(slice);
    }

    /// All that flows into a node.
    fn total(&mut self, id: NodeId) -> Option<Cotangent> {
        if let Some(slices) = self.slices.remove(&id) {
            slices::join(self, slices);
        }
        let flows = self.into.remove(&id)?;
        let mask = self.common_mask(&flows);
        let mut sum: Option<NodeId> = None;
        for flow in flows {
            let value = if flow.mask == mask { flow.value } else { self.b.masked(flow.mask, flow.value) };
            sum = Some(match sum {
                None => value,
                Some(before) => self.b.plus(before, value),
            });
        }
        let value = sum?;
        let node = self.b.node(id);
        let (name, origin) = (node.name.as_ref().map(|name| Name::from(format!("d_{name}"))), node.origin);
        self.b.describe(value, name.as_ref(), origin);
        Some(Cotangent { mask, value })
    }

    /// A mask that holds where one of those of several flows does.
    fn common_mask(&mut self, flows: &[Cotangent]) -> Option<NodeId> {
        let mut masks = flows.iter().map(|flow| flow.mask);
        let first = masks.next()??;
        let mut all = vec![first];
        for mask in masks {
            let mask = mask?;
            if !all.contains(&mask) {
                all.push(mask);
            }
        }
        let either = |b: &mut Builder, x: NodeId, y: NodeId| b.apply(MapOp::Or, &[x, y]);
        Some(all.into_iter().reduce(|x, y| either(self.b, x, y)).unwrap_or(first))
    }
}

/// Whether each node up to the loss is a number that depends on a target by more than integers and comparisons.
fn active(b: &Builder, loss: NodeId, by: &[NodeId]) -> Vec<bool> {
    let mut out: Vec<bool> = Vec::with_capacity(loss.index() + 1);
    for id in b.ids().take(loss.index() + 1) {
        let args = b.args(id);
        let is_number = b.node(id).dtype == DType::F32;
        let reads = match b.op(id).class() {
            Class::Port | Class::Leaf => false,
            // An index has no derivative.
            Class::View => out[args[0].index()],
            Class::Map if is_stopped(b, id) || *b.op(id) == Op::Map(MapOp::Floor) => false,
            Class::Map | Class::Concat | Class::Bind => args.iter().any(|arg| out[arg.index()]),
        };
        out.push(is_number && (reads || by.contains(&id)));
    }
    out
}
