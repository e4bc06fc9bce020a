//! Registers for code that has enough of them, by colouring in the order of dominance.
//!
//! In SSA form two values are live at once only where one of them is defined while the other is live. A walk over the blocks,
//! dominators first, that gives each definition a register which no live value holds therefore never takes a choice back, and
//! needs no more registers than are live at once (S. Hack, D. Grund, G. Goos: Register allocation for programs in SSA form,
//! Compiler Construction 2006). A value has one register for its whole life and nothing is spilled. Code that needs more
//! registers than there are is left to the backtracking allocator, which takes five times as many instructions.

use regalloc2::{
    Allocation, Edit, Function, Inst, MachineEnv, Operand, OperandConstraint, OperandKind, Output, PReg,
    PRegSet, ProgPoint, VReg,
};

use super::allocate::Flat;

/// Assigns registers, or gives nothing where there are too few.
///
/// Blocks must be in an order in which each comes after those that dominate it.
pub(super) fn colour(flat: &Flat<'_>, environment: &MachineEnv) -> Option<Output> {
    let order = |class: usize| -> Vec<PReg> {
        let sets =
            [environment.preferred_regs_by_class[class], environment.non_preferred_regs_by_class[class]];
        sets.into_iter().flatten().collect()
    };
    let mut colouring = Colouring {
        flat,
        order: [0, 1, 2].map(order),
        of: vec![None; flat.num_vregs()],
        held: PRegSet::empty(),
        parameter: parameters(flat),
        output: Output::default(),
    };
    let live = Live::new(flat);
    for block in 0..flat.num_blocks() {
        colouring.block(block, &live)?;
    }
    for block in 0..flat.num_blocks() {
        colouring.jump(block, &live)?;
    }
    // The moves of jumps were added last.
    colouring.output.edits.sort_by_key(|&(point, _)| point);
    Some(colouring.output)
}

/// For each value that a jump passes on, the parameter that it becomes.
fn parameters(flat: &Flat<'_>) -> Vec<Option<VReg>> {
    let mut parameter = vec![None; flat.num_vregs()];
    for block in &flat.code.blocks {
        for (at, arg) in block.passed().iter().enumerate() {
            parameter[arg.vreg()] = Some(flat.code.blocks[block.succs[0].index()].params[at]);
        }
    }
    parameter
}

/// Why a value that is read has a register.
const DOMINATED: &str = "blocks come after those that dominate them";

struct Colouring<'a> {
    flat: &'a Flat<'a>,
    /// Registers of each class, in the order in which they are taken.
    order: [Vec<PReg>; 3],
    /// The register of each value that is defined so far.
    of: Vec<Option<PReg>>,
    /// Those of values that are live.
    held: PRegSet,
    /// For each value that a jump passes on, the parameter that it becomes.
    parameter: Vec<Option<VReg>>,
    output: Output,
}

impl Colouring<'_> {
    fn register(&self, value: VReg) -> PReg {
        self.of[value.vreg()].expect(DOMINATED)
    }

    /// The registers of the values that are live at the start of a block.
    fn held_into(&self, block: usize, live: &Live) -> PRegSet {
        let mut held = PRegSet::empty();
        live.into[block].values().for_each(|value| held.add(self.of[value].expect(DOMINATED)));
        held
    }

    /// Gives a value the register of the first hint, a value that it is a copy of or becomes, whose register is free; else the
    /// first free one.
    fn take(&mut self, value: VReg, hints: impl Iterator<Item = VReg>) -> Option<PReg> {
        let free = |register: &PReg| !self.held.contains(*register);
        let hinted = hints.filter_map(|hint| self.of[hint.vreg()]).find(free);
        let register = hinted.or_else(|| self.order[value.class() as usize].iter().copied().find(free))?;
        self.hold(value, register);
        Some(register)
    }

    fn hold(&mut self, value: VReg, register: PReg) {
        self.of[value.vreg()] = Some(register);
        self.held.add(register);
    }

    fn block(&mut self, block: usize, live: &Live) -> Option<()> {
        let flat = self.flat;
        self.held = self.held_into(block, live);
        let code = &flat.code.blocks[block];
        for (at, &param) in code.params.iter().enumerate() {
            let args =
                code.preds.iter().filter_map(|pred| flat.code.blocks[pred.index()].passed().get(at).copied());
            self.take(param, args)?;
        }
        let range = flat.block_insns(regalloc2::Block::new(block));
        let ends = live.ends(flat, block);
        ends.unread.iter().for_each(|&param| self.held.remove(self.register(param)));
        let mut last = ends.last.as_slice();
        for inst in range.iter() {
            let operands = flat.inst_operands(inst);
            let (here, rest) = last.split_at(operands.len());
            last = rest;
            self.inst(inst, operands, here)?;
        }
        Some(())
    }

    /// Assigns the operands of an instruction. `last` tells which of them are the last of their value.
    fn inst(&mut self, inst: Inst, operands: &[Operand], last: &[bool]) -> Option<()> {
        let start = self.output.allocs.len();
        self.output.inst_alloc_offsets.push(start as u32);
        self.output.allocs.resize(start + operands.len(), Allocation::none());
        let ends = |value: VReg| operands.iter().zip(last).any(|(of, &last)| last && of.vreg() == value);
        for (at, operand) in operands.iter().enumerate().filter(|(_, of)| of.kind() == OperandKind::Use) {
            self.output.allocs[start + at] = Allocation::reg(self.register(operand.vreg()));
        }
        // What is written over a value that is still needed gets a copy of it, before anything else is read.
        let mut written_over = PRegSet::empty();
        for (at, operand) in operands.iter().enumerate() {
            let OperandConstraint::Reuse(source) = operand.constraint() else { continue };
            let (value, from) = (operand.vreg(), self.register(operands[source].vreg()));
            let to = if ends(operands[source].vreg()) && !written_over.contains(from) {
                self.of[value.vreg()] = Some(from);
                written_over.add(from);
                from
            } else {
                let to = self.take(value, self.parameter[value.vreg()].into_iter())?;
                let copy = Edit::Move { from: Allocation::reg(from), to: Allocation::reg(to) };
                self.output.edits.push((ProgPoint::before(inst), copy));
                to
            };
            self.output.allocs[start + source] = Allocation::reg(to);
            self.output.allocs[start + at] = Allocation::reg(to);
        }
        for (operand, _) in
            operands.iter().zip(last).filter(|(of, last)| **last && of.kind() == OperandKind::Use)
        {
            let register = self.register(operand.vreg());
            if !written_over.contains(register) {
                self.held.remove(register);
            }
        }
        for (at, operand) in operands.iter().enumerate().filter(|(_, of)| of.kind() == OperandKind::Def) {
            let value = operand.vreg();
            let register = match operand.constraint() {
                OperandConstraint::FixedReg(register) => {
                    self.hold(value, register);
                    register
                }
                OperandConstraint::Reuse(_) => continue,
                OperandConstraint::Reg => self.take(value, self.parameter[value.vreg()].into_iter())?,
                OperandConstraint::Any | OperandConstraint::Stack | OperandConstraint::Limit(_) => {
                    return None;
                }
            };
            self.output.allocs[start + at] = Allocation::reg(register);
        }
        // Values that nothing reads.
        for (operand, _) in
            operands.iter().zip(last).filter(|(of, last)| **last && of.kind() == OperandKind::Def)
        {
            self.held.remove(self.register(operand.vreg()));
        }
        Some(())
    }

    /// Moves what the jump at the end of a block passes on to where the parameters are.
    fn jump(&mut self, block: usize, live: &Live) -> Option<()> {
        let code = &self.flat.code.blocks[block];
        let Some(to) = code.succs.first().filter(|_| !code.passed().is_empty()) else { return Some(()) };
        let params = &self.flat.code.blocks[to.index()].params;
        let pairs = code.passed().iter().zip(params);
        let moves: Vec<(PReg, PReg)> =
            pairs.map(|(&arg, &param)| (self.register(arg), self.register(param))).collect();
        let mut held = self.held_into(to.index(), live);
        moves.iter().flat_map(|&(from, to)| [from, to]).for_each(|register| held.add(register));
        let point = ProgPoint::before(self.flat.block_insns(regalloc2::Block::new(block)).last());
        for (from, to) in self.in_sequence(moves, held)? {
            let (from, to) = (Allocation::reg(from), Allocation::reg(to));
            self.output.edits.push((point, Edit::Move { from, to }));
        }
        Some(())
    }

    /// A parallel copy as moves one after the other. A cycle of them takes a register that is not held.
    fn in_sequence(&self, mut moves: Vec<(PReg, PReg)>, mut held: PRegSet) -> Option<Vec<(PReg, PReg)>> {
        moves.retain(|(from, to)| from != to);
        let mut sequence = Vec::with_capacity(moves.len());
        while !moves.is_empty() {
            let ready = moves.iter().position(|&(_, to)| moves.iter().all(|&(from, _)| from != to));
            if let Some(ready) = ready {
                sequence.push(moves.swap_remove(ready));
            } else {
                let cycle = moves[0].0;
                let spare =
                    self.order[cycle.class() as usize].iter().copied().find(|&of| !held.contains(of))?;
                held.add(spare);
                sequence.push((cycle, spare));
                moves.iter_mut().filter(|(from, _)| *from == cycle).for_each(|(from, _)| *from = spare);
            }
        }
        Some(sequence)
    }
}

/// A set of values, one bit each.
#[derive(Clone)]
struct Values(Vec<u64>);

impl Values {
    fn none(count: usize) -> Values {
        Values(vec![0; count.div_ceil(64)])
    }

    fn contains(&self, value: VReg) -> bool {
        self.0[value.vreg() / 64] >> (value.vreg() % 64) & 1 == 1
    }

    /// Adds a value; whether it is new.
    fn add(&mut self, value: VReg) -> bool {
        let is_new = !self.contains(value);
        self.0[value.vreg() / 64] |= 1 << (value.vreg() % 64);
        is_new
    }

    fn remove(&mut self, value: VReg) {
        self.0[value.vreg() / 64] &= !(1 << (value.vreg() % 64));
    }

    fn values(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let some = |word: u64| (word != 0).then_some(word);
            std::iter::successors(some(word), move |word| some(word & (word - 1)))
                .map(move |word| 64 * at + word.trailing_zeros() as usize)
        })
    }
}

/// Which values are live at the start and at the end of each block. Parameters are not among those at its start.
struct Live {
    into: Vec<Values>,
    out_of: Vec<Values>,
}

/// Where values of one block end.
struct Ends {
    /// For each operand of its instructions, in their order: whether the value is not read after it.
    last: Vec<bool>,
    /// Parameters that nothing reads.
    unread: Vec<VReg>,
}

impl Live {
    fn new(flat: &Flat<'_>) -> Live {
        let (blocks, none) = (flat.num_blocks(), Values::none(flat.num_vregs()));
        // What a block reads of others, and what it defines.
        let mut into = vec![none.clone(); blocks];
        let mut defined = vec![none.clone(); blocks];
        for (block, code) in flat.code.blocks.iter().enumerate() {
            code.params.iter().for_each(|&param| _ = defined[block].add(param));
            for inst in &code.insts {
                let passed = inst.kind.passed();
                let uses = inst.registers.iter().filter(|of| of.kind() == OperandKind::Use);
                for value in uses.map(|of| of.vreg()).chain(passed.iter().copied()) {
                    if !defined[block].contains(value) {
                        into[block].add(value);
                    }
                }
                for of in inst.registers.iter().filter(|of| of.kind() == OperandKind::Def) {
                    defined[block].add(of.vreg());
                }
            }
        }
        let mut live = Live { into, out_of: vec![none; blocks] };
        while live.extend(flat, &defined) {}
        live
    }

    /// Carries what blocks read to those before them; whether anything changed.
    fn extend(&mut self, flat: &Flat<'_>, defined: &[Values]) -> bool {
        let mut changed = false;
        for block in (0..flat.num_blocks()).rev() {
            for succ in &flat.code.blocks[block].succs {
                let read = self.into[succ.index()].clone();
                for (at, word) in read.0.into_iter().enumerate() {
                    changed |= word & !self.out_of[block].0[at] != 0;
                    self.out_of[block].0[at] |= word;
                    self.into[block].0[at] |= word & !defined[block].0[at];
                }
            }
        }
        changed
    }

    fn ends(&self, flat: &Flat<'_>, block: usize) -> Ends {
        let mut live = self.out_of[block].clone();
        let code = &flat.code.blocks[block];
        code.passed().iter().for_each(|&arg| _ = live.add(arg));
        let mut last = vec![false; code.insts.iter().map(|inst| inst.registers.len()).sum()];
        let mut end = last.len();
        for inst in code.insts.iter().rev() {
            let start = end - inst.registers.len();
            let here = &mut last[start..end];
            for (of, last) in
                inst.registers.iter().zip(&mut *here).filter(|(of, _)| of.kind() == OperandKind::Def)
            {
                *last = !live.contains(of.vreg());
                live.remove(of.vreg());
            }
            for (of, last) in inst.registers.iter().zip(here).filter(|(of, _)| of.kind() == OperandKind::Use)
            {
                *last = live.add(of.vreg());
            }
            end = start;
        }
        let unread = code.params.iter().copied().filter(|&param| !live.contains(param)).collect();
        Ends { last, unread }
    }
}
