//! Machine code to bytes: frames, moves, branches, constants.
//!
//! Branches and constants have distances of 32 bits, so that sizes do not depend on them: they are written as if what they lead
//! to began at the function's first byte, and where it begins is added when all is written. The function's bytes are code, then
//! constants, aligned to a vector.

use iced_x86::{Code as Opcode, Encoder, Instruction, OpKind, Register};
use regalloc2::{Allocation, Edit, InstOrEdit, Output, PReg, RegClass};

use super::allocate::{CALLEE_SAVED, Flat};
use super::code::{Base, Code, Cond, INT, Kind, Mem, Opnd, View, chosen};
use super::isa::{VectorIsa, Width};
use super::table;
use super::{SCRATCH_BYTES, VECTOR_BYTES};

/// The bytes of a function.
pub(crate) struct Bytes {
    /// Code and constants.
    pub(crate) bytes: Vec<u8>,
    /// How many of them are code.
    pub(crate) code: usize,
}

/// Writes code whose registers are assigned.
pub(super) fn encode(flat: &Flat<'_>, output: &Output) -> Bytes {
    let code = flat.code;
    let mut plan = Plan::new(flat, output);
    let mut bytes = plan.write();
    let code_size = bytes.len();
    let pool = code_size.next_multiple_of(VECTOR_BYTES as usize);
    for fixup in &plan.fixups {
        let start = match fixup.to {
            Label::Block(block) => plan.starts[block],
            Label::Pool => pool as u64,
        };
        let field = &mut bytes[fixup.at..fixup.at + 4];
        let there = i32::from_le_bytes((&*field).try_into().expect("four bytes"));
        field.copy_from_slice(&(there + start as i32).to_le_bytes());
    }
    if !code.pool.is_empty() {
        bytes.resize(pool, 0xcc);
        bytes.extend_from_slice(&code.pool);
    }
    Bytes { bytes, code: code_size }
}

/// Four bytes to which the start of what they lead to is still to be added.
struct Fixup {
    at: usize,
    to: Label,
}

/// What a branch or the address of a constant leads to.
enum Label {
    Block(usize),
    Pool,
}

struct Plan<'a> {
    flat: &'a Flat<'a>,
    code: &'a Code,
    output: &'a Output,
    isa: VectorIsa,
    /// Callee-saved registers in use.
    saved: Vec<PReg>,
    /// Whether there is a frame.
    frame: bool,
    /// Where each block starts.
    starts: Vec<u64>,
    /// Blocks with nothing but a jump: where they lead, for those that jump to them.
    through: Vec<usize>,
    fixups: Vec<Fixup>,
    encoder: Encoder,
    at: u64,
}

impl<'a> Plan<'a> {
    fn new(flat: &'a Flat<'a>, output: &'a Output) -> Plan<'a> {
        let (code, isa) = (flat.code, flat.isa);
        let used = |register: PReg| {
            let defined = output.allocs.iter().any(|allocation| allocation.as_reg() == Some(register));
            let moved = output.edits.iter().any(|(_, Edit::Move { to, .. })| to.as_reg() == Some(register));
            defined || moved
        };
        let saved: Vec<PReg> = CALLEE_SAVED
            .into_iter()
            .map(|number| PReg::new(number, INT))
            .filter(|&register| used(register))
            .collect();
        let from_caller = flat.insts.iter().any(|inst| match &inst.kind {
            Kind::Machine { operands, .. } => {
                operands.iter().any(|operand| matches!(operand, Opnd::Mem(Mem { base: Base::Caller(_), .. })))
            }
            Kind::Entry | Kind::Jump { .. } | Kind::Branch { .. } | Kind::Return => false,
        });
        let frame = output.num_spillslots > 0 || code.scratch || from_caller || !saved.is_empty();
        let mut plan = Plan {
            flat,
            code,
            output,
            isa,
            saved,
            frame,
            starts: vec![0; code.blocks.len()],
            through: (0..code.blocks.len()).collect(),
            fixups: Vec::new(),
            encoder: Encoder::new(64),
            at: 0,
        };
        // Backwards, so that chains of such blocks end where they lead. Jumps only go back to blocks that do something.
        for block in (0..code.blocks.len()).rev() {
            let edits = output.block_insts_and_edits(flat, regalloc2::Block::new(block));
            let mut only_jump = true;
            for item in edits {
                only_jump &= match item {
                    InstOrEdit::Edit(Edit::Move { from, to }) => from == to,
                    InstOrEdit::Inst(inst) => matches!(flat.insts[inst.index()].kind, Kind::Jump { .. }),
                };
            }
            if only_jump && block > 0 {
                plan.through[block] = plan.through[code.blocks[block].succs[0].index()];
            }
        }
        plan
    }

    fn write(&mut self) -> Vec<u8> {
        self.prologue();
        for block in 0..self.code.blocks.len() {
            self.starts[block] = self.at;
            if self.through[block] == block {
                self.block(block);
            }
        }
        self.encoder.take_buffer()
    }

    fn block(&mut self, block: usize) {
        let (flat, output) = (self.flat, self.output);
        for item in output.block_insts_and_edits(flat, regalloc2::Block::new(block)) {
            match item {
                InstOrEdit::Edit(&Edit::Move { from, to }) => self.move_(from, to),
                InstOrEdit::Inst(inst) => self.inst(block, inst),
            }
        }
    }

    fn inst(&mut self, block: usize, number: regalloc2::Inst) {
        let (flat, output) = (self.flat, self.output);
        let allocations = output.inst_allocs(number);
        let succ = |at: usize| flat.code.blocks[block].succs[at].index();
        match &flat.insts[number.index()].kind {
            Kind::Entry => {}
            Kind::Machine { opcode, operands, masking } => {
                let mut instruction = Instruction::default();
                instruction.set_code(*opcode);
                for (at, operand) in operands.iter().enumerate() {
                    self.operand(&mut instruction, at as u32, operand, allocations);
                }
                if let Some(masking) = masking {
                    let mask = chosen(allocations[usize::from(masking.mask)]);
                    instruction.set_op_mask(self.register(mask, View::Mask));
                    instruction.set_zeroing_masking(masking.zeroing);
                }
                let start = self.at as usize;
                self.put(&instruction);
                if operands.iter().any(|of| matches!(of, Opnd::Mem(Mem { base: Base::Pool(_), .. }))) {
                    let at = start + self.encoder.get_constant_offsets().displacement_offset();
                    self.fixups.push(Fixup { at, to: Label::Pool });
                }
            }
            Kind::Jump { .. } => self.jump(block, Opcode::Jmp_rel32_64, succ(0)),
            Kind::Branch { cond } => {
                let [a, b] = [0, 1].map(|at| self.register(chosen(allocations[at]), View::R64));
                self.two(Opcode::Cmp_r64_rm64, a, b);
                let (yes, no) = match cond {
                    Cond::Less => (Opcode::Jl_rel32_64, Opcode::Jge_rel32_64),
                    Cond::LessOrEqual => (Opcode::Jle_rel32_64, Opcode::Jg_rel32_64),
                };
                if self.follows(block, succ(0)) {
                    self.jump(block, no, succ(1));
                } else {
                    self.jump(block, yes, succ(0));
                    self.jump(block, Opcode::Jmp_rel32_64, succ(1));
                }
            }
            Kind::Return => self.epilogue(),
        }
    }

    /// Whether control runs on from one block into another without a jump.
    fn follows(&self, block: usize, to: usize) -> bool {
        let next = (block + 1..self.code.blocks.len()).find(|&next| self.through[next] == next);
        next == Some(self.through[to])
    }

    fn jump(&mut self, block: usize, opcode: Opcode, to: usize) {
        if opcode == Opcode::Jmp_rel32_64 && self.follows(block, to) {
            return;
        }
        let mut instruction = Instruction::default();
        instruction.set_code(opcode);
        instruction.set_op_kind(0, OpKind::NearBranch64);
        instruction.set_near_branch64(0);
        self.put(&instruction);
        self.fixups.push(Fixup { at: self.at as usize - 4, to: Label::Block(self.through[to]) });
    }

    fn operand(&self, instruction: &mut Instruction, at: u32, operand: &Opnd, allocations: &[Allocation]) {
        let register = |number: u8, view: View| self.register(chosen(allocations[usize::from(number)]), view);
        match *operand {
            Opnd::Register(number, view) => {
                instruction.set_op_kind(at, OpKind::Register);
                instruction.set_op_register(at, register(number, view));
            }
            Opnd::Mem(mem) => {
                instruction.set_op_kind(at, OpKind::Memory);
                let mut distance = i64::from(mem.distance);
                let base = match mem.base {
                    Base::Register(number) => register(number, View::R64),
                    Base::Pool(place) => {
                        distance += i64::from(place);
                        Register::RIP
                    }
                    Base::Scratch(place) => {
                        distance += 8 * self.output.num_spillslots as i64 + i64::from(place);
                        Register::RSP
                    }
                    Base::Caller(place) => {
                        // Above the saved rbp and the return address.
                        distance += 16 + 8 * i64::from(place);
                        Register::RBP
                    }
                };
                instruction.set_memory_base(base);
                if let Some((number, scale)) = mem.index {
                    instruction.set_memory_index(register(number, View::R64));
                    instruction.set_memory_index_scale(u32::from(scale));
                }
                set_distance(instruction, base, distance);
            }
            Opnd::Imm8(value) => {
                instruction.set_op_kind(at, OpKind::Immediate8);
                instruction.set_immediate8(value);
            }
            Opnd::Imm32(value) => {
                instruction.set_op_kind(at, OpKind::Immediate32);
                instruction.set_immediate_i32(at, value);
            }
            Opnd::Imm32To64(value) => {
                instruction.set_op_kind(at, OpKind::Immediate32to64);
                instruction.set_immediate_i32(at, value);
            }
            Opnd::Imm8To32(value) => {
                instruction.set_op_kind(at, OpKind::Immediate8to32);
                instruction.set_immediate_i32(at, i32::from(value));
            }
            Opnd::Imm64(value) => {
                instruction.set_op_kind(at, OpKind::Immediate64);
                instruction.set_immediate_i64(at, value);
            }
        }
    }

    fn prologue(&mut self) {
        if !self.frame {
            return;
        }
        self.one(Opcode::Push_r64, Register::RBP);
        self.two(Opcode::Mov_r64_rm64, Register::RBP, Register::RSP);
        for register in self.saved.clone() {
            self.one(Opcode::Push_r64, self.register(register, View::R64));
        }
        let scratch = if self.code.scratch { SCRATCH_BYTES } else { 0 };
        let size = (8 * self.output.num_spillslots as u64 + scratch).next_multiple_of(VECTOR_BYTES) as i64;
        for (opcode, kind, value) in [
            (Opcode::Sub_rm64_imm32, OpKind::Immediate32to64, size),
            // Spilled vectors should not straddle cache lines.
            (Opcode::And_rm64_imm8, OpKind::Immediate8to64, -(VECTOR_BYTES as i64)),
        ] {
            let mut instruction = Instruction::default();
            instruction.set_code(opcode);
            instruction.set_op_kind(0, OpKind::Register);
            instruction.set_op_register(0, Register::RSP);
            instruction.set_op_kind(1, kind);
            instruction.set_immediate_i64(1, value);
            self.put(&instruction);
        }
    }

    fn epilogue(&mut self) {
        for (at, register) in self.saved.clone().into_iter().enumerate() {
            let mut instruction = Instruction::default();
            instruction.set_code(Opcode::Mov_r64_rm64);
            instruction.set_op_kind(0, OpKind::Register);
            instruction.set_op_register(0, self.register(register, View::R64));
            instruction.set_op_kind(1, OpKind::Memory);
            instruction.set_memory_base(Register::RBP);
            set_distance(&mut instruction, Register::RBP, -8 * (at as i64 + 1));
            self.put(&instruction);
        }
        if self.frame {
            self.two(Opcode::Mov_r64_rm64, Register::RSP, Register::RBP);
            self.one(Opcode::Pop_r64, Register::RBP);
        }
        // Callers use older encodings, which are several times slower while upper halves are in use.
        for opcode in [Opcode::VEX_Vzeroupper, Opcode::Retnq] {
            let mut instruction = Instruction::default();
            instruction.set_code(opcode);
            self.put(&instruction);
        }
    }

    fn move_(&mut self, from: Allocation, to: Allocation) {
        if from == to {
            return;
        }
        let class = from.as_reg().or(to.as_reg()).map(PReg::class).expect("one side is a register");
        let (load, store, view) = match class {
            RegClass::Int => (Opcode::Mov_r64_rm64, Opcode::Mov_rm64_r64, View::R64),
            RegClass::Float => (table::UNSPILL.on(self.isa), table::SPILL.on(self.isa), View::Whole),
            RegClass::Vector => (Opcode::VEX_Kmovq_kr_km64, Opcode::VEX_Kmovq_m64_kr, View::Mask),
        };
        let mut instruction = Instruction::default();
        instruction.set_code(if to.is_stack() { store } else { load });
        for (at, side) in [to, from].into_iter().enumerate() {
            let at = at as u32;
            if let Some(register) = side.as_reg() {
                instruction.set_op_kind(at, OpKind::Register);
                instruction.set_op_register(at, self.register(register, view));
            } else {
                let slot = side.as_stack().expect("a register or a slot");
                instruction.set_op_kind(at, OpKind::Memory);
                instruction.set_memory_base(Register::RSP);
                set_distance(&mut instruction, Register::RSP, 8 * slot.index() as i64);
            }
        }
        self.put(&instruction);
    }

    fn register(&self, register: PReg, view: View) -> Register {
        let first = match (register.class(), view, self.isa.width) {
            (RegClass::Int, View::R64, _) => Register::RAX,
            (RegClass::Int, View::R32, _) => Register::EAX,
            (RegClass::Int, View::R8, _) => return BYTE_REGISTERS[register.hw_enc()],
            (RegClass::Float, View::Xmm, _) | (RegClass::Float, View::Half, Width::W256) => Register::XMM0,
            (RegClass::Float, View::Whole | View::Mask, Width::W256)
            | (RegClass::Float, View::Half, Width::W512) => Register::YMM0,
            (RegClass::Float, View::Whole | View::Mask, Width::W512) => Register::ZMM0,
            (RegClass::Vector, View::Mask, _) => Register::K0,
            (RegClass::Int | RegClass::Float | RegClass::Vector, _, _) => {
                panic!("{register:?} has no part {view:?}")
            }
        };
        first + register.hw_enc() as u32
    }

    fn one(&mut self, opcode: Opcode, register: Register) {
        let mut instruction = Instruction::default();
        instruction.set_code(opcode);
        instruction.set_op_kind(0, OpKind::Register);
        instruction.set_op_register(0, register);
        self.put(&instruction);
    }

    fn two(&mut self, opcode: Opcode, a: Register, b: Register) {
        let mut instruction = Instruction::default();
        instruction.set_code(opcode);
        for (at, register) in [(0, a), (1, b)] {
            instruction.set_op_kind(at, OpKind::Register);
            instruction.set_op_register(at, register);
        }
        self.put(&instruction);
    }

    fn put(&mut self, instruction: &Instruction) {
        let size = self.encoder.encode(instruction, self.at).unwrap_or_else(|error| {
            panic!("code {} of iced cannot be encoded: {error}", instruction.code() as u32)
        });
        self.at += size as u64;
    }
}

/// The low bytes of the general registers, in the order of their numbers.
const BYTE_REGISTERS: [Register; 16] = [
    Register::AL,
    Register::CL,
    Register::DL,
    Register::BL,
    Register::SPL,
    Register::BPL,
    Register::SIL,
    Register::DIL,
    Register::R8L,
    Register::R9L,
    Register::R10L,
    Register::R11L,
    Register::R12L,
    Register::R13L,
    Register::R14L,
    Register::R15L,
];

fn set_distance(instruction: &mut Instruction, base: Register, distance: i64) {
    instruction.set_memory_displacement64(distance as u64);
    // "1" lets the encoder choose the size; an address from rip always has four bytes, told as eight.
    let size = if base == Register::RIP { 8 } else { u32::from(distance != 0) };
    instruction.set_memory_displ_size(size);
}
