//! What is used of a body: which values, how long, and how many constants at once.

use std::collections::HashSet;

use salient_vector::body::{Const, Inst, Section};
use salient_vector::{Body, Value};

/// Which values a store or a loop's next iteration needs, by way of others or not.
pub(super) fn used(body: &Body) -> Vec<bool> {
    let mut used = vec![false; body.types.len()];
    for section in body.sections.iter().rev() {
        let insts = match section {
            Section::Straight(insts) => insts,
            Section::Loop(code) => {
                used[code.trip.index()] = true;
                for carried in &code.carried {
                    used[carried.init.index()] = true;
                    used[carried.next.index()] = true;
                }
                &code.insts
            }
        };
        for inst in insts.iter().rev() {
            if inst.out().is_none_or(|out| used[out.index()]) {
                for value in inst.uses() {
                    used[value.index()] = true;
                }
            }
        }
    }
    used
}

/// For each value, the section and instruction that use it last. A value from before a loop does not die in it.
pub(super) fn last_uses(body: &Body) -> Vec<(usize, usize)> {
    let mut last = vec![(usize::MAX, 0); body.types.len()];
    let mut home = vec![usize::MAX; body.types.len()];
    for (number, section) in body.sections.iter().enumerate() {
        let (insts, carried) = match section {
            Section::Straight(insts) => (insts, &[][..]),
            Section::Loop(code) => {
                for carried in &code.carried {
                    home[carried.param.index()] = number;
                }
                (&code.insts, &code.carried[..])
            }
        };
        let looped = matches!(section, Section::Loop(_));
        for (at, inst) in insts.iter().enumerate() {
            if let Some(out) = inst.out() {
                home[out.index()] = number;
            }
            for value in inst.uses() {
                let inside = !looped || home[value.index()] == number;
                last[value.index()] = if inside { (number, at) } else { (number, usize::MAX - 1) };
            }
        }
        for carried in carried {
            last[carried.next.index()] = (number, usize::MAX - 1);
            last[carried.init.index()] = (number, usize::MAX - 1);
        }
    }
    last
}

/// How many different vector constants these instructions have, of those that are used.
pub(super) fn splats(insts: &[Inst], used: impl Fn(Value) -> bool) -> usize {
    let words: HashSet<u32> = insts
        .iter()
        .filter_map(|inst| match inst {
            Inst::Const { out, value: Const::F32(value) } if used(*out) => Some(value.to_bits()),
            Inst::Const { out, value: Const::I32(value) } if used(*out) => Some(*value as u32),
            Inst::Const { .. }
            | Inst::Op { .. }
            | Inst::Address { .. }
            | Inst::Load { .. }
            | Inst::LoadInt { .. }
            | Inst::Store { .. }
            | Inst::Transpose { .. }
            | Inst::Prefetch { .. } => None,
        })
        .collect();
    words.len()
}
