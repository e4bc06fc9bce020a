//! Machine code before registers are assigned: blocks of x86 instructions over virtual registers.
//!
//! An instruction is an opcode of iced's table and its operands in the order of the assembler; which of them are read and
//! written is said by [`Arg`] when it is pushed. It knows neither bodies nor bytes.

use iced_x86::Code as Opcode;
use regalloc2::{Allocation, Operand, PReg, RegClass, VReg};

/// General registers hold pointers and integers.
pub(super) const INT: RegClass = RegClass::Int;
/// Vector registers.
pub(super) const VECTOR: RegClass = RegClass::Float;
/// Mask registers of AVX-512.
pub(super) const MASK: RegClass = RegClass::Vector;

/// How much of a register an operand names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum View {
    /// A general register, by its size in bits.
    R64,
    R32,
    R8,
    /// A whole vector register of the instruction set.
    Whole,
    /// Its lower half.
    Half,
    /// Its lowest 128 bits.
    Xmm,
    /// A mask: a mask register, or a whole vector, whichever holds masks.
    Mask,
}

/// The start of an address.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base<R> {
    /// A general register.
    Register(R),
    /// Constants after the code, by distance in bytes.
    Pool(u32),
    /// The function's scratch memory, by distance in bytes.
    Scratch(i32),
    /// An argument on the stack, counted from the first.
    Caller(i32),
}

/// An address: base + index * scale + distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mem<R> {
    pub(super) base: Base<R>,
    pub(super) index: Option<(R, u8)>,
    pub(super) distance: i32,
}

impl<R> Mem<R> {
    pub(super) fn new(base: Base<R>) -> Mem<R> {
        Mem { base, index: None, distance: 0 }
    }
}

/// An operand as it is pushed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// Written.
    Def(VReg, View),
    /// Read.
    Use(VReg, View),
    /// Written to the first register in place of the second, which is read.
    Tied(VReg, VReg, View),
    /// Memory.
    Mem(Mem<VReg>),
    /// Immediates, as the opcode has them.
    Imm8(u8),
    Imm32(i32),
    Imm32To64(i32),
    Imm8To32(i8),
    Imm64(i64),
}

/// An operand; registers by their number among those of the instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opnd {
    Register(u8, View),
    Mem(Mem<u8>),
    Imm8(u8),
    Imm32(i32),
    Imm32To64(i32),
    Imm8To32(i8),
    Imm64(i64),
}

/// The lanes of an instruction that count, on AVX-512.
#[derive(Clone, Copy, Debug)]
pub(super) struct Masking<R> {
    pub(super) mask: R,
    /// Whether the other lanes become zero.
    pub(super) zeroing: bool,
}

/// The condition of a branch, on signed integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cond {
    Less,
    LessOrEqual,
}

/// What a branch depends on: whether the first register compares so with the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) cond: Cond,
    pub(super) a: VReg,
    pub(super) b: VReg,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// The start of the function: defines the parameters.
    Entry,
    /// One instruction.
    Machine { opcode: Opcode, operands: Vec<Opnd>, masking: Option<Masking<u8>> },
    /// To the block's only successor, which takes these as its parameters.
    Jump { args: Vec<VReg> },
    /// To the first successor if the first register compares so with the second, else to the second successor.
    Branch { cond: Cond },
    /// Out of the function.
    Return,
}

impl Kind {
    /// What a jump passes on as the parameters of the block that it leads to.
    pub(super) fn passed(&self) -> &[VReg] {
        match self {
            Kind::Jump { args } => args,
            Kind::Branch { .. } | Kind::Entry | Kind::Machine { .. } | Kind::Return => &[],
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Inst {
    pub(super) kind: Kind,
    /// The registers of the operands, for the allocator.
    pub(super) registers: Vec<Operand>,
}

/// Blocks are in the order in which they are laid out.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) params: Vec<VReg>,
    pub(super) insts: Vec<Inst>,
    pub(super) succs: Vec<regalloc2::Block>,
    pub(super) preds: Vec<regalloc2::Block>,
}

impl Block {
    /// What the jump at its end, if it ends with one, passes on as the parameters of its successor.
    pub(super) fn passed(&self) -> &[VReg] {
        self.insts.last().map_or(&[], |inst| inst.kind.passed())
    }
}

/// A function under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub(super) blocks: Vec<Block>,
    pub(super) registers: usize,
    pub(super) pool: Vec<u8>,
    /// Whether scratch memory is used.
    pub(super) scratch: bool,
}

impl Code {
    pub(super) fn register(&mut self, class: RegClass) -> VReg {
        self.registers += 1;
        VReg::new(self.registers - 1, class)
    }

    /// Appends `count` blocks; gives the first. The rest follow.
    pub(super) fn add_blocks(&mut self, count: usize) -> usize {
        self.blocks.resize_with(self.blocks.len() + count, Block::default);
        self.blocks.len() - count
    }

    /// Appends an instruction to a block.
    pub(super) fn push(
        &mut self,
        block: usize,
        opcode: Opcode,
        args: &[Arg],
        masking: Option<Masking<VReg>>,
    ) {
        let mut registers = Vec::with_capacity(args.len() + 1);
        let mut add = |operand: Operand| {
            registers.push(operand);
            (registers.len() - 1) as u8
        };
        let mut operands = Vec::with_capacity(args.len());
        for arg in args {
            operands.push(match *arg {
                Arg::Def(register, view) => Opnd::Register(add(Operand::reg_def(register)), view),
                Arg::Use(register, view) => Opnd::Register(add(Operand::reg_use(register)), view),
                Arg::Tied(register, from, view) => {
                    let from = add(Operand::reg_use(from));
                    Opnd::Register(add(Operand::reg_reuse_def(register, usize::from(from))), view)
                }
                Arg::Mem(mem) => Opnd::Mem(Mem {
                    base: match mem.base {
                        Base::Register(register) => Base::Register(add(Operand::reg_use(register))),
                        Base::Pool(at) => Base::Pool(at),
                        Base::Scratch(at) => Base::Scratch(at),
                        Base::Caller(at) => Base::Caller(at),
                    },
                    index: mem.index.map(|(register, scale)| (add(Operand::reg_use(register)), scale)),
                    distance: mem.distance,
                }),
                Arg::Imm8(value) => Opnd::Imm8(value),
                Arg::Imm32(value) => Opnd::Imm32(value),
                Arg::Imm32To64(value) => Opnd::Imm32To64(value),
                Arg::Imm8To32(value) => Opnd::Imm8To32(value),
                Arg::Imm64(value) => Opnd::Imm64(value),
            });
            if let Arg::Mem(Mem { base: Base::Scratch(_), .. }) = arg {
                self.scratch = true;
            }
        }
        let masking = masking
            .map(|masking| Masking { mask: add(Operand::reg_use(masking.mask)), zeroing: masking.zeroing });
        self.blocks[block].insts.push(Inst { kind: Kind::Machine { opcode, operands, masking }, registers });
    }

    /// The start of the entry block: parameters in the registers that the caller put them in.
    pub(super) fn entry(&mut self, params: &[(VReg, PReg)]) {
        let registers = params.iter().map(|&(v, p)| Operand::reg_fixed_def(v, p)).collect();
        self.blocks[0].insts.push(Inst { kind: Kind::Entry, registers });
    }

    pub(super) fn jump(&mut self, from: usize, to: usize, args: Vec<VReg>) {
        self.end(from, Kind::Jump { args }, Vec::new(), &[to]);
    }

    /// Both successors have this block as their only predecessor.
    pub(super) fn branch(&mut self, from: usize, test: Test, yes: usize, no: usize) {
        let registers = vec![Operand::reg_use(test.a), Operand::reg_use(test.b)];
        self.end(from, Kind::Branch { cond: test.cond }, registers, &[yes, no]);
    }

    pub(super) fn return_(&mut self, from: usize) {
        self.end(from, Kind::Return, Vec::new(), &[]);
    }

    fn end(&mut self, from: usize, kind: Kind, registers: Vec<Operand>, to: &[usize]) {
        self.blocks[from].insts.push(Inst { kind, registers });
        for &to in to {
            self.blocks[from].succs.push(regalloc2::Block::new(to));
            self.blocks[to].preds.push(regalloc2::Block::new(from));
        }
    }

    /// Places bytes in the pool, aligned to their size, or finds them there; gives their distance.
    pub(super) fn place(&mut self, bytes: &[u8]) -> u32 {
        if let Some(at) = self.pool.chunks_exact(bytes.len()).position(|there| there == bytes) {
            return (at * bytes.len()) as u32;
        }
        let aligned = self.pool.len().next_multiple_of(bytes.len());
        self.pool.resize(aligned, 0);
        self.pool.extend_from_slice(bytes);
        aligned as u32
    }
}

/// The register that the allocator chose.
pub(super) fn chosen(allocation: Allocation) -> PReg {
    allocation.as_reg().expect("every operand is constrained to a register")
}
