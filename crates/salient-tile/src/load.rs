//! What a program does once: kernels that follow from the parameters alone run when the parameters are bound.
//!
//! Their dimensions must be fixed too: those that occur in the shapes of parameters, and the number of lanes. Decides
//! nothing about kernels themselves; a kernel that packs a weight is like any other.

use crate::kernel::{Arg, Buffer, Int, Kernel, LANES, Role, Stmt};
use salient_ir::{Dim, Graph, Name};
use std::collections::BTreeSet;

/// The order in which kernels run, those that run once before all others, and how many those are. Buffers that other
/// kernels read of them become [`Role::Loaded`].
pub(crate) fn split(g: &Graph, buffers: &mut [Buffer], kernels: &[Kernel]) -> (Vec<usize>, usize) {
    let mut fixed = BTreeSet::from([Name::from(LANES)]);
    for port in g.params() {
        g.shape(&port.axes).iter().for_each(|extent| fixed.extend(extent.symbols()));
    }
    let mut early: Vec<bool> = buffers.iter().map(|b| matches!(b.role, Role::Param(_))).collect();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (at, kernel) in kernels.iter().enumerate() {
        let inside = kernel.writes.iter().all(|id| buffers[id.0].role == Role::Temporary);
        let known = kernel.reads.iter().all(|id| early[id.0]);
        if inside && known && needs(kernel, buffers).is_subset(&fixed) {
            kernel.writes.iter().for_each(|id| early[id.0] = true);
            first.push(at);
        } else {
            rest.push(at);
        }
    }
    for id in rest.iter().flat_map(|at: &usize| &kernels[*at].reads) {
        if early[id.0] && buffers[id.0].role == Role::Temporary {
            buffers[id.0].role = Role::Loaded;
        }
    }
    let loads = first.len();
    first.extend(rest);
    (first, loads)
}

/// The symbols whose values a kernel needs.
fn needs(kernel: &Kernel, buffers: &[Buffer]) -> BTreeSet<Name> {
    let mut out = kernel.items.symbols();
    for id in kernel.reads.iter().chain(&kernel.writes) {
        buffers[id.0].shape.iter().for_each(|d| out.extend(d.symbols()));
    }
    kernel.scratch.iter().for_each(|s| out.extend(s.count.symbols()));
    let mut bound = BTreeSet::from([kernel.item.clone()]);
    for stmt in &kernel.block {
        collect(stmt, &mut out, &mut bound);
    }
    // A variable has a name of its own in its kernel, and no dimension has it.
    &out - &bound
}

fn collect(stmt: &Stmt, out: &mut BTreeSet<Name>, bound: &mut BTreeSet<Name>) {
    let mut add = |dims: &[&Dim]| dims.iter().for_each(|d| out.extend(d.symbols()));
    match stmt {
        Stmt::For { var, from, to, step, block } => {
            add(&[from, to, step]);
            bound.insert(var.clone());
            block.iter().for_each(|s| collect(s, out, bound));
        }
        Stmt::Let { var, value } => {
            match value {
                Int::Dim(d) => add(&[d]),
                Int::Min(of) | Int::Max(of) => of.iter().for_each(|d| add(&[d])),
            }
            bound.insert(var.clone());
        }
        Stmt::Read { var, offset, .. } => {
            add(&[offset]);
            bound.insert(var.clone());
        }
        Stmt::If { left, right, then, otherwise } => {
            add(&[left, right]);
            then.iter().chain(otherwise).for_each(|s| collect(s, out, bound));
        }
        Stmt::Call { args, .. } => args.iter().for_each(|arg| match arg {
            Arg::Address { offset: d, .. } | Arg::Int(d) => add(&[d]),
        }),
    }
}
