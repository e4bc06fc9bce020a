//! Kernels of equal blocks: those of one over other buffers.

use crate::program::kernel::{Arg, Base, BufferId, Kernel, RowBlocks, Stmt};
use std::collections::BTreeMap;

/// A kernel over other buffers, and under other names.
pub(crate) fn over_buffers(
    kernel: &Kernel,
    next: &BTreeMap<BufferId, BufferId>,
    renamed: impl Fn(&str) -> String,
) -> Kernel {
    let all = |ids: &[BufferId]| ids.iter().map(|id| next[id]).collect();
    Kernel {
        name: renamed(&kernel.name),
        fuses: kernel.fuses.iter().map(|name| renamed(name)).collect(),
        reads: all(&kernel.reads),
        writes: all(&kernel.writes),
        block: statements(&kernel.block, next),
        bodies: kernel.bodies.clone(),
        item: kernel.item.clone(),
        items: kernel.items.clone(),
        scratch: kernel.scratch.clone(),
        flops: kernel.flops.clone(),
        kind: kernel.kind,
        form: kernel.form,
        row_blocks: kernel.row_blocks.as_ref().map(|r| RowBlocks { buffer: next[&r.buffer], ..r.clone() }),
    }
}

/// The statements over other buffers.
fn statements(block: &[Stmt], next: &BTreeMap<BufferId, BufferId>) -> Vec<Stmt> {
    let statement = |stmt: &Stmt| match stmt {
        Stmt::For { var, from, to, step, block } => Stmt::For {
            var: var.clone(),
            from: from.clone(),
            to: to.clone(),
            step: step.clone(),
            block: statements(block, next),
        },
        Stmt::If { left, right, then, otherwise } => Stmt::If {
            left: left.clone(),
            right: right.clone(),
            then: statements(then, next),
            otherwise: statements(otherwise, next),
        },
        Stmt::Call { body, args } => {
            let arg = |arg: &Arg| match arg {
                Arg::Address { base: Base::Buffer(id), offset } => {
                    Arg::Address { base: Base::Buffer(next[id]), offset: offset.clone() }
                }
                Arg::Address { .. } | Arg::Int(_) => arg.clone(),
            };
            Stmt::Call { body: *body, args: args.iter().map(arg).collect() }
        }
        Stmt::Let { .. } | Stmt::Read { .. } => stmt.clone(),
    };
    block.iter().map(statement).collect()
}
