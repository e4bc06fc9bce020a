//! Loops from a plan: what each kernel of a plan does, statement by statement. What is stored, where and by which kernel is
//! decided by then.

pub(crate) mod columns;
pub(crate) mod copies;
pub(crate) mod gemm;
pub(crate) mod join;
pub(crate) mod maker;
pub(crate) mod map;
pub(crate) mod pack;
mod report;
pub(crate) mod rows;
mod scalar;
pub(crate) mod scatter;
pub(crate) mod stream;
pub(crate) mod strip;

use crate::emit::columns::{reduce_columns, weigh_columns};
use crate::emit::copies::over_buffers;
use crate::emit::gemm::gemm;
use crate::emit::join::joined;
use crate::emit::maker::Target;
use crate::emit::map::{append, map};
use crate::emit::pack::pack_panels;
use crate::emit::rows::{cumulate, normalise, reduce, weigh, with_statistics};
use crate::emit::scatter::scatter;
use crate::emit::stream::beside::sum_parts;
use crate::emit::stream::split::{merge, parts};
use crate::emit::stream::tiled::tiled;
use crate::emit::stream::whole_rows::whole_rows;
use crate::emit::strip::Scope;
use crate::plan::layouts::stored;
use crate::plan::order::host_of;
use crate::plan::repeat::Repeats;
use crate::plan::{Anchor, KernelPlan, Plan};
use crate::program::kernel::{Kernel, Program, Stmt};
use crate::program::values::value;
use salient_ir::Op;

/// The program of a plan.
pub fn emit(plan: &Plan<'_>) -> Program {
    let g = &*plan.graph;
    let mut scope = Scope::new(plan.layouts());
    let mut repeats = Repeats::new(g, &plan.names, plan.options.chains);
    let mut kernels: Vec<Option<Kernel>> = Vec::with_capacity(plan.kernels.len());
    for step in &plan.steps {
        match &step.copy {
            None => {
                kernels.extend(plan.kernels[step.kernels.clone()].iter().map(|k| kernel(&mut scope, plan, k)))
            }
            Some(copy) => {
                repeats.learn_names(copy.block);
                let of = plan.steps[copy.of].kernels.clone();
                let renamed = |name: &str| repeats.renamed(copy.block, name);
                let copied = |k: &Kernel| over_buffers(k, &copy.buffers, renamed);
                let copies: Vec<Option<Kernel>> =
                    kernels[of].iter().map(|k| k.as_ref().map(copied)).collect();
                kernels.extend(copies);
            }
        }
        let place = stored(step.buffer, &plan.buffers[step.buffer.0]);
        scope.layouts.stored.entry(step.node).or_insert(place);
    }
    let copies = copies(plan);
    let mut of_set = |set: &Vec<usize>| {
        let parts: Vec<Kernel> = set.iter().filter_map(|at| kernels[*at].take()).collect();
        let mut kernel = joined(parts);
        // The kernel of an attention reads what its further results are made of.
        let beside = set.iter().map(|at| &plan.kernels[*at]).filter(|k| host_of(k).is_some());
        for id in beside.flat_map(KernelPlan::reads) {
            if !kernel.reads.contains(id) {
                kernel.reads.push(*id);
            }
        }
        kernel
    };
    let places = plan.places();
    let is_moved = places.iter().any(|(id, place)| id != place);
    let in_place = |kernel: Kernel| match is_moved {
        true => over_buffers(&kernel, &places, str::to_owned),
        false => kernel,
    };
    let kernels = plan.order.iter().map(&mut of_set).map(in_place).collect();
    Program {
        name: g.name().clone(),
        dimensions: plan.dimensions(),
        buffers: plan.buffers.clone(),
        kernels,
        copies,
        loads: plan.loads,
        appends: plan.appends.clone(),
        checks: scope.checks,
        values: plan.buffers.iter().map(|buffer| value(g, buffer)).collect(),
        limits: scope.limits,
    }
}

/// For each kernel as it runs the one that it is a copy of, if it is one.
fn copies(plan: &Plan<'_>) -> Vec<Option<usize>> {
    let originals = plan.originals();
    let mut position = vec![0; plan.kernels.len()];
    for (new, set) in plan.order.iter().enumerate() {
        set.iter().for_each(|old| position[*old] = new);
    }
    let copy = |set: &Vec<usize>| {
        let is_copy = |old: &usize| originals[*old] != *old;
        let of =
            set.iter().all(is_copy).then(|| set.iter().map(|old| originals[*old]).collect::<Vec<_>>())?;
        let new = position[of[0]];
        (plan.order[new] == of).then_some(new)
    };
    plan.order.iter().map(copy).collect()
}

/// The loops of a kernel; what is stored beside an attention is in the loops of that.
fn kernel(scope: &mut Scope<'_>, plan: &Plan<'_>, k: &KernelPlan) -> Option<Kernel> {
    let g = scope.graph;
    let target =
        Target { node: k.node, id: k.buffer, buffer: &plan.buffers[k.buffer.0], scratch: &k.scratch };
    let mut out = match &k.anchor {
        Anchor::Map(order) => map(scope, target, *order),
        Anchor::Append(part) => append(scope, target, part),
        Anchor::Rows { along, held } => with_statistics(scope, target, *along, held),
        Anchor::Reduction { loops } => {
            let args = g.args(target.node);
            match *g.op(target.node) {
                Op::Reduce(op, along) => reduce(scope, (target, loops), op, along, args[0]),
                Op::CumSum(direction, along) => cumulate(scope, (target, loops), (direction, along), args[0]),
                Op::Fused(op, along) if op.info().reduces => weigh(scope, (target, loops), op, along, &args),
                Op::Fused(op, along) => normalise(scope, (target, loops), op, along, &args),
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {
                    unreachable!("sources have no rows")
                }
                Op::Map(_) | Op::At(_) | Op::Concat(..) => unreachable!("computed element by element"),
            }
        }
        Anchor::Columns { column } => {
            let args = g.args(target.node);
            match *g.op(target.node) {
                Op::Reduce(op, along) => reduce_columns(scope, target, op, (along, *column), args[0]),
                Op::Fused(op, along) => weigh_columns(scope, target, op, (along, *column), &args),
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => {
                    unreachable!("columns are reduced")
                }
                Op::At(_) | Op::Concat(..) | Op::CumSum(..) => unreachable!("columns are reduced"),
            }
        }
        Anchor::Scatter(of) => scatter(scope, target, of),
        Anchor::Gemm(of) => gemm(scope, target, of),
        Anchor::Pack(pack) => pack_panels(scope, target, pack),
        Anchor::Tiled(of) => tiled(scope, target, of),
        Anchor::WholeRows(of) => whole_rows(scope, target, of, &plan.buffers),
        Anchor::SumParts(of) => sum_parts(scope, target, of),
        Anchor::Beside(_) | Anchor::Alias(_) => return None,
        Anchor::SplitKv(of) => parts(scope, target, of),
        Anchor::Merge(of) => merge(scope, target, of),
    };
    out.reads = k.reads().iter().copied().collect();
    out.flops = k.flops.clone();
    out.form = k.anchor.note();
    if let Some((left, right)) = &k.when {
        let then = std::mem::take(&mut out.block);
        let (left, right) = (left.clone(), right.clone());
        out.block = vec![Stmt::If { left, right, then, otherwise: Vec::new() }];
    }
    Some(out)
}
