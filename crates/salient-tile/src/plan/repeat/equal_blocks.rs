//! Steps of a block as copies of those of the equal block before: the same kernels over other nodes and buffers.

use crate::plan::decide::{Decider, PanelsKey, RowsKey};
use crate::plan::layouts::Stored;
use crate::plan::layouts::panels::Panels;
use crate::plan::{CopiedStep, KernelPlan, Step};
use crate::program::kernel::{Append, Base, Buffer, BufferId, Role};
use salient_ir::{NodeId, Op};
use std::collections::BTreeMap;
use std::ops::Range;

impl Decider<'_> {
    /// The states before the call that belong to a node and to that of the block before, if they are states.
    fn states(&self, node: NodeId) -> Option<[Option<BufferId>; 2]> {
        let before = self.homes.get(&self.repeats.before(node)?)?;
        Some([*before, *self.homes.get(&node)?].map(|home| self.state_before(home)))
    }

    /// Whether a node is a state as the one of the block before is.
    pub(in crate::plan) fn appends_alike(&self, node: NodeId) -> bool {
        let of = |id: BufferId| self.done.buffers[id.0].node;
        match self.states(node) {
            Some([None, None]) => true,
            Some([Some(before), Some(own)]) => self.repeats.shift(of(before)) == of(own),
            Some([Some(_), None] | [None, Some(_)]) | None => false,
        }
    }

    /// Notes that a call appends to the state that a node is, if it does to that of the block before.
    pub(in crate::plan) fn append_again(&mut self, node: NodeId) {
        if let Some([Some(before), Some(input)]) = self.states(node)
            && self.done.appends.iter().any(|a| a.input == before)
        {
            self.done.appends.push(Append { input, output: self.homes[&node] });
        }
    }

    /// The step of a node as a copy of that of the block before; `None` where it has to be planned by itself.
    pub(in crate::plan) fn copied(&mut self, node: NodeId) -> Option<Step> {
        let before = self.repeats.before(node)?;
        let of = *self.planned.get(&before)?;
        let step = self.done.steps[of].clone();
        let (from, to) = (*self.homes.get(&before)?, *self.homes.get(&node)?);
        let alike =
            |a: &Buffer, b: &Buffer| a.axes == b.axes && a.dtype == b.dtype && is_alike(a.role, b.role);
        if !alike(&self.done.buffers[from.0], &self.done.buffers[to.0]) {
            return None;
        }
        let block = self.repeats.block_of(before)?;
        self.repeats.learn_names(block);
        // Every buffer must have its counterpart before anything is made.
        let mut next = BTreeMap::from([(from, to)]);
        let first = self.done.buffers.len();
        for (n, at) in step.buffers.clone().enumerate() {
            next.insert(BufferId(at), BufferId(first + n));
        }
        let kernels = &self.done.kernels[step.kernels.clone()];
        for id in kernels.iter().flat_map(|k| k.reads().iter().chain([&k.buffer])) {
            if !next.contains_key(id) {
                next.insert(*id, self.counterpart(*id)?);
            }
        }
        let mut added = Vec::new();
        for at in step.buffers.clone() {
            let buffer = &self.done.buffers[at];
            let (role, node) = (self.role_of_next(buffer)?, self.repeats.shift(buffer.node));
            let name = self.repeats.renamed(block, &buffer.name);
            added.push(Buffer { name, role, node, ..buffer.clone() });
        }
        let moved = |k: &KernelPlan| k.moved(|id| self.repeats.shift(id), |id| next[&id]);
        let kernels: Vec<KernelPlan> = kernels.iter().map(moved).collect();
        let at = self.done.kernels.len()..self.done.kernels.len() + kernels.len();
        let early = kernels.iter().filter(|k| k.once).map(|k| k.buffer);
        self.early.extend(early);
        self.done.kernels.extend(kernels);
        self.done.buffers.extend(added);
        self.keep_operands(&step.buffers, &next);
        self.next.extend(next.iter().map(|(a, b)| (*a, *b)));
        let copy = Some(CopiedStep { of, block, buffers: next });
        Some(Step { node, buffer: to, kernels: at, buffers: first..self.done.buffers.len(), copy })
    }

    /// The buffer that corresponds to one of the block before.
    fn counterpart(&self, id: BufferId) -> Option<BufferId> {
        if let Some(next) = self.next.get(&id) {
            return Some(*next);
        }
        let buffer = &self.done.buffers[id.0];
        if self.homes.get(&buffer.node) != Some(&id) {
            // A buffer of a node that all blocks share.
            return (!self.repeats.is_of_block(buffer.node)).then_some(id);
        }
        let next = *self.homes.get(&self.repeats.shift(buffer.node))?;
        let other = &self.done.buffers[next.0];
        let coding = |node: NodeId| self.layouts.coding(node);
        let alike = buffer.axes == other.axes
            && is_alike(buffer.role, other.role)
            && coding(buffer.node) == coding(other.node);
        alike.then_some(next)
    }

    /// The role of the counterpart of a buffer that a kernel needs of its own.
    fn role_of_next(&self, buffer: &Buffer) -> Option<Role> {
        match buffer.role {
            Role::Temporary => Some(Role::Temporary),
            Role::Coded(_) => {
                let next = self.repeats.shift(buffer.node);
                let Op::Param(n) = self.layouts.graph.op(next) else { return None };
                (self.layouts.coding(buffer.node) == self.layouts.coding(next)).then_some(Role::Coded(*n))
            }
            Role::Input(_) | Role::Param(_) | Role::Output(_) | Role::Loaded => None,
        }
    }

    /// What was packed for the block before is packed for this one: kernels that come may ask for it.
    fn keep_operands(&mut self, made: &Range<usize>, next: &BTreeMap<BufferId, BufferId>) {
        let shift = |id: NodeId| self.repeats.shift(id);
        let panels: Vec<(PanelsKey, Panels)> = (self.panels.iter())
            .filter(|(_, panels)| made.contains(&panels.id.0))
            .map(|((node, column, depth, vectors), panels)| {
                ((shift(*node), *column, *depth, *vectors), panels.in_buffer(next[&panels.id]))
            })
            .collect();
        let rows: Vec<(RowsKey, Stored)> = (self.rows.iter())
            .filter(|(_, stored)| matches!(stored.base, Base::Buffer(id) if made.contains(&id.0)))
            .map(|((node, rows, depth), stored)| {
                ((shift(*node), rows.clone(), *depth), stored.in_buffer(&|id| next[&id]))
            })
            .collect();
        self.panels.extend(panels);
        self.rows.extend(rows);
    }
}

/// Whether two buffers are for the same.
fn is_alike(a: Role, b: Role) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}
