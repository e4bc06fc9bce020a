//! Products of one left operand as one kernel: queries, keys and values of an attention.
//!
//! The items of all of them are taken block of rows by block of rows, so that the operand is read once, while it is near;
//! threads have one job to begin and to end where there were several. Each product keeps its panels, what follows it and
//! the buffer that it fills. Nothing is computed differently: a joined kernel does what its parts did.

use crate::dims::{n, var};
use crate::emit::maker::{JOINT_WORDS, let_dim};
use crate::plan::text::summary::JOINT;
use crate::program::kernel::{Arg, Base, Kernel, Scratch, Stmt};
use salient_ir::{Dim, Symbol};

/// One kernel that does what several did; one alone as it is.
pub(crate) fn joined(mut parts: Vec<Kernel>) -> Kernel {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let [item, row_block, group] = JOINT_WORDS.map(Symbol::variable);
    let rows = parts[0].row_blocks.clone().expect("joined for its rows");
    let groups: Vec<Dim> =
        (parts.iter()).flat_map(|k| k.row_blocks.as_ref().map(|o| o.groups.clone())).collect();
    let all = groups.iter().fold(n(0), |sum, count| &sum + count);
    let names: Vec<&str> = parts.iter().map(|k| k.name.as_str()).collect();
    let mut out = Kernel {
        name: names.join("+"),
        kind: parts[0].kind,
        fuses: parts.iter().flat_map(|k| k.fuses.iter().cloned()).collect(),
        reads: vec![rows.buffer],
        writes: parts.iter().flat_map(|k| k.writes.iter().copied()).collect(),
        item: item.clone(),
        items: &rows.blocks * &all,
        scratch: Vec::new(),
        block: Vec::new(),
        bodies: Vec::new(),
        flops: parts.iter().fold(n(0), |sum, k| &sum + &k.flops),
        form: Some(JOINT),
        row_blocks: None,
    };
    // Without columns there is no item.
    let block = var(&item).floor_div(&all).unwrap_or_else(|| n(0));
    out.block = vec![let_dim(&row_block, block), let_dim(&group, &var(&item) - &(&all * &var(&row_block)))];
    let mut from = n(0);
    let mut branches = Vec::new();
    for (part, count) in parts.into_iter().zip(&groups) {
        let item = &(&var(&row_block) * count) + &(&var(&group) - &from);
        from = &from + count;
        let mut block = vec![let_dim(&part.item, item)];
        // Buffers other than the operand stand in the order of the parts, whoever shares them: copies are compared in order.
        out.reads.extend(part.reads.iter().filter(|id| **id != rows.buffer));
        block.extend(taken_over(&mut out, part));
        branches.push((from.clone(), block));
    }
    let (_, mut rest) = branches.pop().expect("there are parts");
    for (end, then) in branches.into_iter().rev() {
        rest = vec![Stmt::If { left: var(&group), right: end, then, otherwise: rest }];
    }
    out.block.extend(rest);
    out
}

/// The statements of a part in the joined kernel, which gets the part's bodies and shares scratch memory between parts.
fn taken_over(out: &mut Kernel, part: Kernel) -> Vec<Stmt> {
    let mut free: Vec<bool> = vec![true; out.scratch.len()];
    let same = |a: &Scratch, b: &Scratch| a.name == b.name && a.count == b.count;
    let slots: Vec<usize> = (part.scratch.into_iter())
        .map(|slot| {
            let known = out.scratch.iter().zip(&free).position(|(s, free)| *free && same(s, &slot));
            let at = known.unwrap_or_else(|| {
                out.scratch.push(slot);
                free.push(true);
                out.scratch.len() - 1
            });
            free[at] = false;
            at
        })
        .collect();
    let bodies: Vec<usize> = (part.bodies.into_iter())
        .map(|body| {
            out.bodies.iter().position(|known| *known == body).unwrap_or_else(|| {
                out.bodies.push(body);
                out.bodies.len() - 1
            })
        })
        .collect();
    renumbered(part.block, &slots, &bodies)
}

/// The statements with other numbers of scratch slots and bodies.
fn renumbered(block: Vec<Stmt>, slots: &[usize], bodies: &[usize]) -> Vec<Stmt> {
    let arg = |arg: Arg| match arg {
        Arg::Address { base: Base::Scratch(slot), offset } => {
            Arg::Address { base: Base::Scratch(slots[slot]), offset }
        }
        Arg::Address { base: Base::Buffer(_) | Base::Status, .. } | Arg::Int(_) => arg,
    };
    let statement = |stmt: Stmt| match stmt {
        Stmt::For { var, from, to, step, block } => {
            Stmt::For { var, from, to, step, block: renumbered(block, slots, bodies) }
        }
        Stmt::Let { .. } => stmt,
        Stmt::Read { var, scratch, offset } => Stmt::Read { var, scratch: slots[scratch], offset },
        Stmt::If { left, right, then, otherwise } => Stmt::If {
            left,
            right,
            then: renumbered(then, slots, bodies),
            otherwise: renumbered(otherwise, slots, bodies),
        },
        Stmt::Call { body, args } => {
            Stmt::Call { body: bodies[body], args: args.into_iter().map(arg).collect() }
        }
    };
    block.into_iter().map(statement).collect()
}
