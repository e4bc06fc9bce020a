//! Bodies to machine code over virtual registers: parameters, constants, instructions of the table.
//!
//! What does not change in a loop and cannot fail is computed before it; what is never used is not computed.

use std::collections::HashMap;

use iced_x86::Code as Opcode;
use regalloc2::{PReg, VReg};
use salient_vector::body::{Const, Loop};
use salient_vector::{Body, Ty, Value};

use super::code::{Arg, Base, Code, INT, MASK, Masking, Mem, VECTOR, View};
use super::isa::{MaskKind, VectorIsa};
use super::table::{self, InstructionRow, OperandRole};
use super::uses;
use crate::bodies::skeleton::{self, Backend};

/// The registers of the first arguments, by their numbers in the encoding of x86: rdi, rsi, rdx, rcx, r8, r9.
const INT_ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
/// How many floats are passed in registers.
const FLOAT_ARGUMENTS: usize = 8;

/// Makes the machine code of a verified body.
pub(super) fn lower(body: &Body, isa: VectorIsa) -> Code {
    let mut lower = Lower {
        body,
        isa,
        code: Code::default(),
        block: 0,
        constants_in: 0,
        values: vec![None; body.types.len()],
        ints: vec![None; body.types.len()],
        splats: vec![None; body.types.len()],
        crowded: false,
        constants: HashMap::new(),
        used: uses::used(body),
        last_use: uses::last_uses(body),
        fixed: vec![false; body.types.len()],
        at: (0, 0),
        last_strip: None,
    };
    lower.code.add_blocks(1);
    lower.params();
    skeleton::sections(&mut lower, body);
    lower.code.return_(lower.block);
    lower.code
}

/// What an instruction of the table reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum In {
    Register(VReg),
    Memory(Mem<VReg>),
    Byte(u8),
}

impl From<VReg> for In {
    fn from(register: VReg) -> In {
        In::Register(register)
    }
}

impl From<Mem<VReg>> for In {
    fn from(mem: Mem<VReg>) -> In {
        In::Memory(mem)
    }
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
pub(super) struct LastStrip {
    /// The active lanes.
    pub(super) mask: VReg,
}

pub(super) struct Lower<'a> {
    pub(super) body: &'a Body,
    pub(super) isa: VectorIsa,
    pub(super) code: Code,
    /// Where instructions go.
    pub(super) block: usize,
    /// Where constants go: before the present section's loop.
    pub(super) constants_in: usize,
    pub(super) values: Vec<Option<VReg>>,
    /// Values that are known integers.
    pub(super) ints: Vec<Option<i64>>,
    /// Values that are known words, the same in every lane. They get a register where they are first needed in one.
    pub(super) splats: Vec<Option<u32>>,
    /// Whether the present section has more constants than registers to spare: sums then take theirs from memory.
    pub(super) crowded: bool,
    pub(super) constants: HashMap<Constant, VReg>,
    pub(super) used: Vec<bool>,
    /// The section and instruction that use a value last.
    last_use: Vec<(usize, usize)>,
    /// Values of the present loop that are computed before it.
    pub(super) fixed: Vec<bool>,
    /// The present section and instruction.
    pub(super) at: (usize, usize),
    pub(super) last_strip: Option<LastStrip>,
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
            let vector = self.apply(table::BROADCAST, &[register.into()]);
            self.set(value, vector);
        }
        for (value, float, place) in below {
            let from = Mem::new(Base::Caller(place));
            let register = match float {
                true => self.apply(table::LOAD_BROADCAST, &[from.into()]),
                false => self.general(Opcode::Mov_r64_rm64, View::R64, &[Arg::Mem(from)]),
            };
            self.set(value, register);
        }
    }

    pub(super) fn define_constant(&mut self, out: Value, value: Const) {
        let word = match value {
            Const::Int(value) => {
                self.ints[out.index()] = Some(value);
                return;
            }
            Const::F32(value) => value.to_bits(),
            Const::I32(value) => value as u32,
            Const::Mask(value) => match self.isa.masks {
                MaskKind::Vector => u32::from(value).wrapping_neg(),
                MaskKind::Register => {
                    let register = self.constant(Constant::Mask(value));
                    self.set(out, register);
                    return;
                }
            },
        };
        self.splats[out.index()] = Some(word);
    }

    /// Computes what does not change in the loop and cannot fail.
    pub(super) fn compute_fixed(&mut self, code: &Loop, changing: &[bool]) {
        // Nothing dies before the loop.
        self.at.1 = usize::MAX;
        for inst in &code.insts {
            let Some(out) = inst.out() else { continue };
            if !changing[out.index()] {
                if self.used[out.index()] {
                    skeleton::instruction(self, inst);
                }
                self.fixed[out.index()] = true;
            }
        }
    }

    /// Whether the present instruction is the last to use a value, so that its register may be overwritten.
    pub(super) fn dies(&self, value: Value) -> bool {
        let held = self.splats[value.index()].is_some() || self.fixed[value.index()];
        !held && self.last_use[value.index()] == self.at
    }

    pub(super) fn known(&self, value: Value) -> Option<i64> {
        self.ints[value.index()]
    }

    /// A value that is the same known word in every lane.
    pub(super) fn known_splat(&self, value: Value) -> Option<u32> {
        self.splats[value.index()]
    }

    /// A vector of one word, as memory.
    pub(super) fn splat_in_memory(&mut self, word: u32) -> In {
        let bytes: Vec<u8> = std::iter::repeat_n(word.to_le_bytes(), self.isa.lanes()).flatten().collect();
        Mem::new(Base::Pool(self.code.place(&bytes))).into()
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
                self.apply(table::LOAD_BROADCAST, &[Mem::new(Base::Pool(at)).into()])
            }
            Constant::Lanes => {
                let bytes: Vec<u8> = (0..self.isa.lanes() as u32).flat_map(u32::to_le_bytes).collect();
                let at = self.code.place(&bytes);
                self.apply(table::LOAD, &[Mem::new(Base::Pool(at)).into()])
            }
            Constant::ByteOnes => {
                let at = self.code.place(&0x0101_0101_u32.to_le_bytes());
                self.apply(table::LOAD_BROADCAST, &[Mem::new(Base::Pool(at)).into()])
            }
            Constant::Mask(value) => {
                let at = self.code.place(&[if value { 0xff } else { 0 }; 8]);
                self.apply(table::MASK_LOAD, &[Mem::new(Base::Pool(at)).into()])
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

    /// An instruction of the table that makes a new register, out of these.
    pub(super) fn apply(&mut self, row: &InstructionRow, from: &[In]) -> VReg {
        let result = self.result(row);
        self.apply_to(result, row, from, None);
        result
    }

    /// As [`Lower::apply`], out of registers alone.
    pub(super) fn of_registers(&mut self, row: &InstructionRow, from: &[VReg]) -> VReg {
        let from: Vec<In> = from.iter().map(|&register| register.into()).collect();
        self.apply(row, &from)
    }

    /// As [`Lower::apply`], in the lanes of a mask register alone.
    pub(super) fn apply_in(&mut self, lanes: Masking<VReg>, row: &InstructionRow, from: &[In]) -> VReg {
        let result = self.result(row);
        self.apply_to(result, row, from, Some(lanes));
        result
    }

    /// An instruction of the table that writes memory, which is the first of these.
    pub(super) fn write(&mut self, row: &InstructionRow, to: Mem<VReg>, value: &[In]) {
        let all: Vec<In> = [to.into()].into_iter().chain(value.iter().copied()).collect();
        self.push_row(row, None, &all, None);
    }

    /// As [`Lower::write`], in the lanes of a mask register alone.
    pub(super) fn write_in(&mut self, mask: VReg, row: &InstructionRow, to: Mem<VReg>, value: VReg) {
        self.push_row(row, None, &[to.into(), value.into()], Some(Masking { mask, zeroing: false }));
    }

    /// As [`Lower::apply`], into a register that there is already.
    pub(super) fn apply_to(
        &mut self,
        result: VReg,
        row: &InstructionRow,
        from: &[In],
        lanes: Option<Masking<VReg>>,
    ) {
        self.push_row(row, Some(result), from, lanes);
    }

    /// A register for what a row makes.
    pub(super) fn result(&mut self, row: &InstructionRow) -> VReg {
        let class = match (row.result(), self.isa.masks) {
            (View::R64 | View::R32 | View::R8, _) => INT,
            (View::Mask, MaskKind::Register) => MASK,
            (View::Mask, MaskKind::Vector) | (View::Whole | View::Half | View::Xmm, _) => VECTOR,
        };
        self.code.register(class)
    }

    /// Each operand by its role: the result, then what is read, in its order.
    fn push_row(
        &mut self,
        row: &InstructionRow,
        result: Option<VReg>,
        from: &[In],
        lanes: Option<Masking<VReg>>,
    ) {
        let mut from = from.iter().copied();
        let mut args = Vec::with_capacity(row.roles.len());
        for &role in row.roles.iter().filter(|&&role| role != OperandRole::Lanes) {
            if let (OperandRole::Destination(view), Some(result)) = (role, result) {
                args.push(Arg::Def(result, view));
                continue;
            }
            args.push(match (role, from.next()) {
                (OperandRole::Accumulator(view), Some(In::Register(over))) => {
                    Arg::Tied(result.expect("it makes a register"), over, view)
                }
                (
                    OperandRole::Source(view) | OperandRole::SourceOrMemory(view),
                    Some(In::Register(register)),
                ) => Arg::Use(register, view),
                (
                    OperandRole::SourceOrMemory(_) | OperandRole::Memory | OperandRole::Stored,
                    Some(In::Memory(mem)),
                ) => Arg::Mem(mem),
                (OperandRole::Immediate, Some(In::Byte(byte))) => Arg::Imm8(byte),
                (role, given) => panic!("{row:?} takes no {given:?} as its {role:?}"),
            });
        }
        assert!(from.next().is_none(), "{row:?} takes no more operands");
        assert!(lanes.is_none() || row.roles.contains(&OperandRole::Lanes), "{row:?} takes no mask register");
        self.code.push(self.block, row.on(self.isa), &args, lanes);
    }

    /// An instruction that makes a general register.
    pub(super) fn general(&mut self, opcode: Opcode, view: View, args: &[Arg]) -> VReg {
        let register = self.code.register(INT);
        let mut all = vec![Arg::Def(register, view)];
        all.extend_from_slice(args);
        self.push(opcode, &all);
        register
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
