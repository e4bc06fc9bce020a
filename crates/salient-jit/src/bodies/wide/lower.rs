//! Bodies to machine code over virtual registers: sections, loops, strips, constants.
//!
//! Loops test at the bottom, behind a guard. What does not change in a loop and cannot fail is computed before it; what is never
//! used is not computed. The last strip of a loop over lanes is code of its own, under a mask.

use std::collections::{HashMap, HashSet};

use iced_x86::Code as Opcode;
use regalloc2::{PReg, RegClass, VReg};
use salient_vector::body::{Const, Inst, Loop, LoopKind, Section};
use salient_vector::{Body, Ty, Value};

use super::Wide;
use super::code::{Arg, Base, Code, Cond, INT, MASK, Masking, Mem, VECTOR, View};
use super::table::{self, Row};

/// The registers of the first arguments, by their numbers in the encoding of x86: rdi, rsi, rdx, rcx, r8, r9.
const INT_ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
/// How many floats are passed in registers.
const FLOAT_ARGUMENTS: usize = 8;

/// Makes the machine code of a verified body.
pub(super) fn lower(body: &Body, wide: Wide) -> Code {
    let mut lower = Lower {
        body,
        wide,
        code: Code::default(),
        block: 0,
        constants_in: 0,
        values: vec![None; body.types.len()],
        ints: vec![None; body.types.len()],
        splats: vec![None; body.types.len()],
        crowded: false,
        constants: HashMap::new(),
        used: used(body),
        last_use: last_uses(body),
        fixed: vec![false; body.types.len()],
        at: (0, 0),
        strip: None,
    };
    lower.code.add_blocks(1);
    lower.params();
    for (number, section) in body.sections.iter().enumerate() {
        lower.at = (number, 0);
        lower.constants.clear();
        lower.constants_in = lower.block;
        let insts = match section {
            Section::Straight(insts) => insts,
            Section::Loop(code) => &code.insts,
        };
        lower.crowded = lower.splats_in(insts) > wide.registers() / 2;
        match section {
            Section::Straight(insts) => lower.insts(insts),
            Section::Loop(code) => lower.repeat(code),
        }
    }
    lower.code.return_(lower.block);
    lower.code
}

/// A vector constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Constant {
    /// The same word in every lane.
    Splat(u32),
    /// 0, 1, 2, ...
    Lanes,
    /// The byte 1 in all lanes of 128 bits.
    ByteOnes,
    /// A mask register of all or no lanes.
    Mask(bool),
    /// A general register.
    Int(i64),
}

/// The last strip of a loop over lanes.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    /// The active lanes.
    pub(super) mask: VReg,
}

pub(super) struct Lower<'a> {
    pub(super) body: &'a Body,
    pub(super) wide: Wide,
    pub(super) code: Code,
    /// Where instructions go.
    pub(super) block: usize,
    /// Where constants go: before the present section's loop.
    constants_in: usize,
    values: Vec<Option<VReg>>,
    /// Values that are known integers.
    ints: Vec<Option<i64>>,
    /// Values that are known words, the same in every lane. They get a register where they are first needed in one.
    splats: Vec<Option<u32>>,
    /// Whether the present section has more constants than registers to spare: sums then take theirs from memory.
    pub(super) crowded: bool,
    constants: HashMap<Constant, VReg>,
    used: Vec<bool>,
    /// The section and instruction that use a value last.
    last_use: Vec<(usize, usize)>,
    /// Values of the present loop that are computed before it.
    fixed: Vec<bool>,
    /// The present section and instruction.
    at: (usize, usize),
    pub(super) strip: Option<Strip>,
}

impl Lower<'_> {
    fn params(&mut self) {
        let (mut ints, mut floats, mut stack) = (0, 0, 0);
        let (mut fixed, mut spread, mut below) = (Vec::new(), Vec::new(), Vec::new());
        for param in &self.body.params {
            let float = self.body.ty(param.value) == Ty::F32;
            let (taken, limit) =
                if float { (&mut floats, FLOAT_ARGUMENTS) } else { (&mut ints, INT_ARGUMENTS.len()) };
            if *taken < limit {
                let register = self.code.register(if float { VECTOR } else { INT });
                let number = if float { *taken } else { INT_ARGUMENTS[*taken] };
                fixed.push((register, PReg::new(number, register.class())));
                if float {
                    spread.push((param.value, register));
                } else {
                    self.values[param.value.index()] = Some(register);
                }
                *taken += 1;
            } else {
                below.push((param.value, float, stack));
                stack += 1;
            }
        }
        self.code.entry(&fixed);
        for (value, register) in spread {
            let vector = self.vector(table::BROADCAST, &[Arg::Use(register, View::Xmm)]);
            self.set(value, vector);
        }
        for (value, float, place) in below {
            let from = Arg::Mem(Mem::new(Base::Caller(place)));
            let register = match float {
                true => self.vector(table::LOAD_BROADCAST, &[from]),
                false => self.general(Opcode::Mov_r64_rm64, View::R64, &[from]),
            };
            self.set(value, register);
        }
    }

    /// Instructions, but for those that are done already or never used.
    fn insts(&mut self, insts: &[Inst]) {
        for (at, inst) in insts.iter().enumerate() {
            self.at.1 = at;
            if inst.out().is_none_or(|out| self.used[out.index()] && !self.fixed[out.index()]) {
                self.inst(inst);
            }
        }
    }

    fn inst(&mut self, inst: &Inst) {
        match inst {
            Inst::Const { out, value } => self.define_constant(*out, *value),
            Inst::Op { out, op, args } => self.op(*out, *op, args),
            Inst::Address { out, elem, addr } => {
                let mem = self.address(addr, *elem);
                let register = self.general(Opcode::Lea_r64_m, View::R64, &[Arg::Mem(mem)]);
                self.set(*out, register);
            }
            Inst::Load { out, elem, place } => {
                let register = self.load(*elem, place);
                self.set(*out, register);
            }
            Inst::LoadInt { out, elem, addr } => {
                let register = self.load_int(*elem, addr);
                self.set(*out, register);
            }
            Inst::Store { elem, place, value } => self.store(*elem, place, *value),
            Inst::Prefetch { elem, addr } => {
                let from = Arg::Mem(self.address(addr, *elem));
                self.push(Opcode::Prefetcht1_m8, &[from]);
            }
        }
    }

    fn define_constant(&mut self, out: Value, value: Const) {
        let word = match value {
            Const::Int(value) => {
                self.ints[out.index()] = Some(value);
                return;
            }
            Const::F32(value) => value.to_bits(),
            Const::I32(value) => value as u32,
            Const::Mask(value) => match self.wide {
                Wide::Avx2 => u32::from(value).wrapping_neg(),
                Wide::Avx512 => {
                    let register = self.constant(Constant::Mask(value));
                    self.set(out, register);
                    return;
                }
            },
        };
        self.splats[out.index()] = Some(word);
    }

    /// How many different vector constants there are.
    fn splats_in(&self, insts: &[Inst]) -> usize {
        let words: HashSet<u32> = insts
            .iter()
            .filter_map(|inst| match inst {
                Inst::Const { out, value: Const::F32(value) } if self.used[out.index()] => {
                    Some(value.to_bits())
                }
                Inst::Const { out, value: Const::I32(value) } if self.used[out.index()] => {
                    Some(*value as u32)
                }
                Inst::Const { .. }
                | Inst::Op { .. }
                | Inst::Address { .. }
                | Inst::Load { .. }
                | Inst::LoadInt { .. }
                | Inst::Store { .. }
                | Inst::Prefetch { .. } => None,
            })
            .collect();
        words.len()
    }

    fn repeat(&mut self, code: &Loop) {
        let trip = self.get(code.trip);
        let step = match code.kind {
            LoopKind::Count => 1,
            LoopKind::Lanes => self.wide.lanes() as i64,
        };
        let mut index = self.int(0);
        let mut state: Vec<VReg> = code.carried.iter().map(|carried| self.get(carried.init)).collect();
        self.compute_fixed(code);
        if code.unroll > 1 {
            (index, state) = self.whole_steps(code, trip, index, state, step, code.unroll);
        }
        (index, state) = self.whole_steps(code, trip, index, state, step, 1);
        if code.kind == LoopKind::Lanes {
            state = self.last_strip(code, trip, index, state);
        }
        for (carried, register) in code.carried.iter().zip(state) {
            self.set(carried.result, register);
        }
    }

    /// Computes what does not change in the loop and cannot fail.
    fn compute_fixed(&mut self, code: &Loop) {
        let mut changing = vec![false; self.body.types.len()];
        changing[code.index.index()] = true;
        for carried in &code.carried {
            changing[carried.param.index()] = true;
        }
        // Nothing dies before the loop.
        self.at.1 = usize::MAX;
        for inst in &code.insts {
            let Some(out) = inst.out() else { continue };
            let pure = matches!(inst, Inst::Const { .. } | Inst::Op { .. } | Inst::Address { .. });
            changing[out.index()] = !pure || inst.uses().iter().any(|used| changing[used.index()]);
            if !changing[out.index()] {
                if self.used[out.index()] {
                    self.inst(inst);
                }
                self.fixed[out.index()] = true;
            }
        }
    }

    /// Steps of the loop, `copies` in a row, as long as all of them are whole. Gives the index and the state after.
    #[allow(clippy::too_many_arguments, reason = "the state of a loop under construction")]
    fn whole_steps(
        &mut self,
        code: &Loop,
        trip: VReg,
        index: VReg,
        state: Vec<VReg>,
        step: i64,
        copies: u32,
    ) -> (VReg, Vec<VReg>) {
        let stride = step * i64::from(copies);
        let enter = self.code.add_blocks(6);
        let [inside, again, leave, skip, after] = [1, 2, 3, 4, 5].map(|n| enter + n);
        let last = self.add_int(trip, -stride);
        self.code.branch(self.block, Cond::LessOrEqual, index, last, enter, skip);
        let start: Vec<VReg> = [index].into_iter().chain(state).collect();
        self.code.jump(enter, inside, start.clone());

        let params = self.parameters(inside, &start);
        self.block = inside;
        let mut next = params[1..].to_vec();
        for copy in 0..i64::from(copies) {
            let at = if copy == 0 { params[0] } else { self.add_int(params[0], copy * step) };
            next = self.iteration(code, at, &next);
        }
        let index = self.add_int(params[0], stride);
        self.code.branch(self.block, Cond::LessOrEqual, index, last, again, leave);
        let next: Vec<VReg> = [index].into_iter().chain(next).collect();
        self.code.jump(again, inside, next.clone());
        self.code.jump(leave, after, next);
        self.code.jump(skip, after, start.clone());

        let mut results = self.parameters(after, &start);
        self.block = after;
        (results.remove(0), results)
    }

    /// The strip that is not whole, if elements are left.
    fn last_strip(&mut self, code: &Loop, trip: VReg, index: VReg, state: Vec<VReg>) -> Vec<VReg> {
        let inside = self.code.add_blocks(3);
        let [skip, after] = [inside + 1, inside + 2];
        let lanes = self.constant(Constant::Lanes);
        self.code.branch(self.block, Cond::Less, index, trip, inside, skip);
        self.block = inside;
        let active = self.code.register(INT);
        self.push(Opcode::Sub_r64_rm64, &[Arg::Tied(active, trip, View::R64), Arg::Use(index, View::R64)]);
        let active = self.splat(active);
        let mask = self.less_i32(lanes, active);
        self.strip = Some(Strip { mask });
        let next = self.iteration(code, index, &state);
        self.strip = None;
        let kept: Vec<VReg> = code
            .carried
            .iter()
            .zip(next.iter().zip(&state))
            .map(|(carried, (&next, &old))| self.select(self.body.ty(carried.param), mask, next, old))
            .collect();
        self.code.jump(self.block, after, kept);
        self.code.jump(skip, after, state.clone());
        let results = self.parameters(after, &state);
        self.block = after;
        results
    }

    /// The code of a loop once; gives what it carries on.
    fn iteration(&mut self, code: &Loop, index: VReg, state: &[VReg]) -> Vec<VReg> {
        self.set(code.index, index);
        for (carried, &register) in code.carried.iter().zip(state) {
            self.set(carried.param, register);
        }
        self.insts(&code.insts);
        code.carried.iter().map(|carried| self.get(carried.next)).collect()
    }

    /// Parameters of a block, of the classes of what goes in.
    fn parameters(&mut self, block: usize, like: &[VReg]) -> Vec<VReg> {
        let params: Vec<VReg> = like.iter().map(|register| self.code.register(register.class())).collect();
        self.code.blocks[block].params = params.clone();
        params
    }

    /// Whether the present instruction is the last to use a value, so that its register may be overwritten.
    pub(super) fn dies(&self, value: Value) -> bool {
        let held = self.splats[value.index()].is_some() || self.fixed[value.index()];
        !held && self.last_use[value.index()] == self.at
    }

    /// The register of a value; a known integer gets one.
    pub(super) fn get(&mut self, value: Value) -> VReg {
        if let Some(known) = self.ints[value.index()] {
            return self.int(known);
        }
        if let Some(word) = self.splats[value.index()] {
            return self.constant(Constant::Splat(word));
        }
        self.values[value.index()].expect("a verified body defines values before their uses")
    }

    pub(super) fn set(&mut self, value: Value, register: VReg) {
        self.ints[value.index()] = None;
        self.values[value.index()] = Some(register);
    }

    pub(super) fn known(&self, value: Value) -> Option<i64> {
        self.ints[value.index()]
    }

    /// A value that is the same known word in every lane.
    pub(super) fn known_splat(&self, value: Value) -> Option<u32> {
        self.splats[value.index()]
    }

    /// A vector of one word, as memory.
    pub(super) fn splat_in_memory(&mut self, word: u32) -> Arg {
        let bytes: Vec<u8> = std::iter::repeat_n(word.to_le_bytes(), self.wide.lanes()).flatten().collect();
        Arg::Mem(Mem::new(Base::Pool(self.code.place(&bytes))))
    }

    pub(super) fn know(&mut self, value: Value, is: i64) {
        self.ints[value.index()] = Some(is);
    }

    pub(super) fn int(&mut self, value: i64) -> VReg {
        self.constant(Constant::Int(value))
    }

    /// A constant, made once for a section, before its loop.
    pub(super) fn constant(&mut self, constant: Constant) -> VReg {
        if let Some(&register) = self.constants.get(&constant) {
            return register;
        }
        let here = std::mem::replace(&mut self.block, self.constants_in);
        // The block may have ended with its jump already.
        let end = self.end_of(self.block);
        let register = self.make_constant(constant);
        if let Some(end) = end {
            let insts = &mut self.code.blocks[self.block].insts;
            insts[end..].rotate_left(1);
        }
        self.block = here;
        self.constants.insert(constant, register);
        register
    }

    /// Where the last instruction of a block is, if it ends the block.
    fn end_of(&self, block: usize) -> Option<usize> {
        let block = &self.code.blocks[block];
        (!block.succs.is_empty()).then(|| block.insts.len() - 1)
    }

    fn make_constant(&mut self, constant: Constant) -> VReg {
        match constant {
            Constant::Splat(word) => {
                let at = self.code.place(&word.to_le_bytes());
                self.vector(table::LOAD_BROADCAST, &[Arg::Mem(Mem::new(Base::Pool(at)))])
            }
            Constant::Lanes => {
                let bytes: Vec<u8> = (0..self.wide.lanes() as u32).flat_map(u32::to_le_bytes).collect();
                let at = self.code.place(&bytes);
                self.vector(table::LOAD, &[Arg::Mem(Mem::new(Base::Pool(at)))])
            }
            Constant::ByteOnes => {
                let at = self.code.place(&0x0101_0101_u32.to_le_bytes());
                self.vector(table::LOAD_BROADCAST, &[Arg::Mem(Mem::new(Base::Pool(at)))])
            }
            Constant::Mask(value) => {
                let at = self.code.place(&[if value { 0xff } else { 0 }; 8]);
                let register = self.code.register(MASK);
                let from = Arg::Mem(Mem::new(Base::Pool(at)));
                self.push(Opcode::VEX_Kmovq_kr_km64, &[Arg::Def(register, View::K), from]);
                register
            }
            Constant::Int(value) => match i32::try_from(value) {
                Ok(value) => self.general(Opcode::Mov_rm64_imm32, View::R64, &[Arg::Imm32To64(value)]),
                Err(_) => self.general(Opcode::Mov_r64_imm64, View::R64, &[Arg::Imm64(value)]),
            },
        }
    }

    // Instructions.

    pub(super) fn push(&mut self, opcode: Opcode, args: &[Arg]) {
        self.code.push(self.block, opcode, args, None);
    }

    pub(super) fn push_masked(&mut self, opcode: Opcode, args: &[Arg], mask: VReg, zeroing: bool) {
        self.code.push(self.block, opcode, args, Some(Masking { mask, zeroing }));
    }

    /// An instruction whose first operand is a new register of a class.
    pub(super) fn new_register(&mut self, class: RegClass, view: View, opcode: Opcode, args: &[Arg]) -> VReg {
        let register = self.code.register(class);
        let mut all = vec![Arg::Def(register, view)];
        all.extend_from_slice(args);
        self.push(opcode, &all);
        register
    }

    /// An instruction that makes a whole vector.
    pub(super) fn vector(&mut self, row: Row, args: &[Arg]) -> VReg {
        self.new_register(VECTOR, View::Whole, row.on(self.wide), args)
    }

    /// An instruction that makes a whole vector out of whole vectors.
    pub(super) fn of_vectors(&mut self, row: Row, from: &[VReg]) -> VReg {
        let args: Vec<Arg> = from.iter().map(|&register| Arg::Use(register, View::Whole)).collect();
        self.vector(row, &args)
    }

    /// An instruction that makes a vector under a mask, with zero in the other lanes.
    pub(super) fn vector_or_zero(&mut self, row: Row, args: &[Arg], mask: VReg) -> VReg {
        let register = self.code.register(VECTOR);
        let mut all = vec![Arg::Def(register, View::Whole)];
        all.extend_from_slice(args);
        self.push_masked(row.on(self.wide), &all, mask, true);
        register
    }

    /// An instruction that makes a mask register.
    pub(super) fn mask_register(&mut self, row: Row, args: &[Arg]) -> VReg {
        self.new_register(MASK, View::K, row.on(self.wide), args)
    }

    /// An instruction that makes a general register.
    pub(super) fn general(&mut self, opcode: Opcode, view: View, args: &[Arg]) -> VReg {
        self.new_register(INT, view, opcode, args)
    }

    /// `register + distance`, in 64 bits.
    pub(super) fn add_int(&mut self, register: VReg, distance: i64) -> VReg {
        match i32::try_from(distance) {
            Ok(distance) => {
                let mem = Mem { base: Base::Register(register), index: None, distance };
                self.general(Opcode::Lea_r64_m, View::R64, &[Arg::Mem(mem)])
            }
            Err(_) => {
                let distance = self.int(distance);
                let sum = self.code.register(INT);
                let args = [Arg::Tied(sum, register, View::R64), Arg::Use(distance, View::R64)];
                self.push(Opcode::Add_r64_rm64, &args);
                sum
            }
        }
    }
}

/// Which values a store or a loop's next iteration needs, by way of others or not.
fn used(body: &Body) -> Vec<bool> {
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
fn last_uses(body: &Body) -> Vec<(usize, usize)> {
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
