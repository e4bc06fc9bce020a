//! Registers for machine code: by colouring where there are enough of them (`colour`), else by regalloc2's backtracking allocator
//! (its fast one spills inner loops to pieces). In debug builds regalloc2 checks the registers of both.

use regalloc2::{
    Block, Function, Inst, InstRange, MachineEnv, Operand, Output, PReg, PRegSet, RegClass, VReg,
};

use super::code::{Code, INT, Kind, MASK, VECTOR};
use super::colour;
use super::isa::{MaskKind, VectorIsa};

/// Which numbers of general registers are free to use, in the encoding of x86. Not rsp (4), nor rbp (5), which holds the frame.
const CALLER_SAVED: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
/// Those that the function must save first.
pub(super) const CALLEE_SAVED: [usize; 5] = [3, 12, 13, 14, 15];

/// Assigns registers.
///
/// # Panics
/// If the code is not in SSA form, or an instruction needs more registers than there are.
pub(super) fn allocate(flat: &Flat<'_>) -> Output {
    let environment = environment(flat.isa);
    let output = colour::colour(flat, &environment).unwrap_or_else(|| backtrack(flat, &environment));
    if cfg!(debug_assertions) {
        let mut checker = regalloc2::checker::Checker::new(flat, &environment);
        checker.prepare(&output);
        if let Err(errors) = checker.run() {
            panic!("registers were assigned wrongly: {errors:?}");
        }
    }
    output
}

fn backtrack(flat: &Flat<'_>, environment: &MachineEnv) -> Output {
    let options = regalloc2::RegallocOptions { validate_ssa: cfg!(debug_assertions), ..Default::default() };
    regalloc2::run(flat, environment, &options)
        .unwrap_or_else(|error| panic!("registers cannot be assigned: {error:?}"))
}

fn environment(isa: VectorIsa) -> MachineEnv {
    let set = |class: RegClass, numbers: &mut dyn Iterator<Item = usize>| -> PRegSet {
        numbers.map(|number| PReg::new(number, class)).collect()
    };
    // k0 as an operand means "no mask", so it is left out.
    let masks = match isa.masks {
        MaskKind::Vector => 0..0,
        MaskKind::Register => 1..8,
    };
    let mut preferred = [PRegSet::empty(); 3];
    preferred[INT as usize] = set(INT, &mut CALLER_SAVED.into_iter());
    preferred[VECTOR as usize] = set(VECTOR, &mut (0..isa.encoding.registers()));
    preferred[MASK as usize] = set(MASK, &mut masks.into_iter());
    let mut others = [PRegSet::empty(); 3];
    others[INT as usize] = set(INT, &mut CALLEE_SAVED.into_iter());
    MachineEnv {
        preferred_regs_by_class: preferred,
        non_preferred_regs_by_class: others,
        scratch_by_class: [None; 3],
        fixed_stack_slots: Vec::new(),
    }
}

/// The code as the allocator reads it: instructions in one row.
pub(super) struct Flat<'a> {
    pub(super) code: &'a Code,
    pub(super) isa: VectorIsa,
    pub(super) insts: Vec<&'a super::code::Inst>,
    ranges: Vec<InstRange>,
}

impl<'a> Flat<'a> {
    pub(super) fn new(code: &'a Code, isa: VectorIsa) -> Flat<'a> {
        let mut insts = Vec::new();
        let ranges = code
            .blocks
            .iter()
            .map(|block| {
                let start = Inst::new(insts.len());
                insts.extend(&block.insts);
                InstRange::new(start, Inst::new(insts.len()))
            })
            .collect();
        Flat { code, isa, insts, ranges }
    }
}

impl Function for Flat<'_> {
    fn num_insts(&self) -> usize {
        self.insts.len()
    }

    fn num_blocks(&self) -> usize {
        self.code.blocks.len()
    }

    fn entry_block(&self) -> Block {
        Block::new(0)
    }

    fn block_insns(&self, block: Block) -> InstRange {
        self.ranges[block.index()]
    }

    fn block_succs(&self, block: Block) -> &[Block] {
        &self.code.blocks[block.index()].succs
    }

    fn block_preds(&self, block: Block) -> &[Block] {
        &self.code.blocks[block.index()].preds
    }

    fn block_params(&self, block: Block) -> &[VReg] {
        &self.code.blocks[block.index()].params
    }

    fn is_ret(&self, inst: Inst) -> bool {
        matches!(self.insts[inst.index()].kind, Kind::Return)
    }

    fn is_branch(&self, inst: Inst) -> bool {
        matches!(self.insts[inst.index()].kind, Kind::Jump { .. } | Kind::Branch { .. })
    }

    fn branch_blockparams(&self, _: Block, inst: Inst, _: usize) -> &[VReg] {
        self.insts[inst.index()].kind.passed()
    }

    fn inst_operands(&self, inst: Inst) -> &[Operand] {
        &self.insts[inst.index()].registers
    }

    fn inst_clobbers(&self, _: Inst) -> PRegSet {
        PRegSet::empty()
    }

    fn num_vregs(&self) -> usize {
        self.code.registers
    }

    fn spillslot_size(&self, class: RegClass) -> usize {
        // In units of eight bytes.
        if class == VECTOR { self.isa.lanes() / 2 } else { 1 }
    }
}
