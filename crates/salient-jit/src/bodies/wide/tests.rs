//! The table against what iced knows of each instruction, and the assignment of registers.

use iced_x86::{
    Code as Opcode, CpuidFeature, Encoder, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register,
};
use regalloc2::{PReg, VReg};

use super::allocate::{Flat, allocate};
use super::code::{Arg, Base, Code, Cond, INT, Mem, Test, View};
use super::isa::{Features, MaskKind, VectorIsa, Width};
use super::table::{ALL, InstructionRow, OperandRole};
use crate::target::Feature;

const ISAS: [VectorIsa; 3] = [VectorIsa::AVX2, VectorIsa::AVX512, VectorIsa::AVX512_OF_256];

/// A register of which an operand names so much.
fn register(view: View, isa: VectorIsa, number: usize) -> Register {
    let first = match (view, isa.width) {
        (View::R64, _) => Register::RAX,
        (View::R32, _) => Register::EAX,
        (View::R8, _) => Register::AL,
        (View::Mask, _) if isa.masks == MaskKind::Register => Register::K1,
        (View::Xmm, _) | (View::Half, Width::W256) => Register::XMM0,
        (View::Whole | View::Mask, Width::W256) | (View::Half, Width::W512) => Register::YMM0,
        (View::Whole | View::Mask, Width::W512) => Register::ZMM0,
    };
    first + number as u32
}

/// An instruction of the row with an operand for each role; memory for a source where it may be.
fn instruction(row: &InstructionRow, isa: VectorIsa, from_memory: bool) -> Instruction {
    let mut instruction = Instruction::default();
    instruction.set_code(row.on(isa));
    let roles = row.roles.iter().filter(|&&role| role != OperandRole::Lanes);
    for (at, &role) in roles.enumerate() {
        let number = at as u32;
        match role {
            OperandRole::SourceOrMemory(_) if from_memory => memory(&mut instruction, number),
            OperandRole::Memory | OperandRole::Stored => memory(&mut instruction, number),
            OperandRole::Destination(view)
            | OperandRole::Accumulator(view)
            | OperandRole::Source(view)
            | OperandRole::SourceOrMemory(view) => {
                instruction.set_op_kind(number, OpKind::Register);
                instruction.set_op_register(number, register(view, isa, at));
            }
            OperandRole::Immediate => {
                instruction.set_op_kind(number, OpKind::Immediate8);
                instruction.set_immediate8(1);
            }
            OperandRole::Lanes => unreachable!("left out"),
        }
    }
    instruction
}

fn memory(instruction: &mut Instruction, at: u32) {
    instruction.set_op_kind(at, OpKind::Memory);
    instruction.set_memory_base(Register::RDI);
}

/// Rows with each set of instructions that has them.
fn rows() -> impl Iterator<Item = (&'static InstructionRow, VectorIsa)> {
    ISAS.into_iter()
        .flat_map(|isa| ALL.iter().map(move |&row| (row, isa)))
        .filter(|(row, isa)| row.is_on(*isa))
}

#[test]
fn operands_have_the_roles_that_the_table_gives_them() {
    let mut info = InstructionInfoFactory::new();
    for (row, isa) in rows() {
        for from_memory in [false, true] {
            let instruction = instruction(row, isa, from_memory);
            let encoded = Encoder::new(64).encode(&instruction, 0);
            assert!(encoded.is_ok(), "{row:?} for {isa:?}: {encoded:?}");
            let roles: Vec<OperandRole> =
                row.roles.iter().copied().filter(|&role| role != OperandRole::Lanes).collect();
            assert_eq!(instruction.op_count() as usize, roles.len(), "{row:?} for {isa:?}");
            let info = info.info(&instruction);
            for (at, &role) in roles.iter().enumerate() {
                let access = info.op_access(at as u32);
                let agrees = match role {
                    OperandRole::Destination(_) => access == OpAccess::Write,
                    OperandRole::Accumulator(_) => access == OpAccess::ReadWrite,
                    OperandRole::Source(_) | OperandRole::Immediate => access == OpAccess::Read,
                    OperandRole::SourceOrMemory(_) | OperandRole::Memory => {
                        matches!(access, OpAccess::Read | OpAccess::CondRead)
                    }
                    OperandRole::Stored => matches!(access, OpAccess::Write | OpAccess::CondWrite),
                    OperandRole::Lanes => unreachable!("left out"),
                };
                assert!(agrees, "{row:?} for {isa:?}: operand {at} is {role:?}, and iced says {access:?}");
            }
        }
    }
}

#[test]
fn rows_that_take_a_mask_register_have_one_in_evex() {
    for (row, isa) in rows() {
        if !row.roles.contains(&OperandRole::Lanes) || isa.masks == MaskKind::Vector {
            continue;
        }
        let mut instruction = instruction(row, isa, false);
        instruction.set_op_mask(Register::K1);
        instruction.set_zeroing_masking(matches!(row.roles[0], OperandRole::Destination(_)));
        let encoded = Encoder::new(64).encode(&instruction, 0);
        assert!(encoded.is_ok(), "{row:?} for {isa:?}: {encoded:?}");
    }
}

/// Extensions as iced calls them.
const FEATURES: [(CpuidFeature, Feature); 8] = [
    (CpuidFeature::AVX, Feature::Avx),
    (CpuidFeature::AVX2, Feature::Avx2),
    (CpuidFeature::FMA, Feature::Fma),
    (CpuidFeature::F16C, Feature::F16c),
    (CpuidFeature::AVX512F, Feature::Avx512F),
    (CpuidFeature::AVX512VL, Feature::Avx512Vl),
    (CpuidFeature::AVX512DQ, Feature::Avx512Dq),
    (CpuidFeature::AVX512BW, Feature::Avx512Bw),
];

/// The extensions that iced says an instruction needs.
fn features_of(opcode: Opcode) -> Features {
    let ours = |theirs: &CpuidFeature| {
        let found = FEATURES.iter().find(|(feature, _)| feature == theirs);
        found.unwrap_or_else(|| panic!("{opcode:?} needs {theirs:?}, which no set of instructions has")).1
    };
    Features::of(&opcode.cpuid_features().iter().map(ours).collect::<Vec<_>>())
}

#[test]
fn rows_need_what_their_instructions_need() {
    for (row, isa) in rows() {
        let (base, extra) = row.needs(isa);
        let needed = features_of(row.on(isa));
        assert!(base.and(extra).include(needed), "{row:?} for {isa:?} needs more: {needed:?}");
        assert!(needed.include(extra), "{row:?} for {isa:?} needs less: {needed:?}");
    }
}

/// A function of a loop that adds one to `count` values at once, each of which becomes the value beside it in the next iteration where
/// `rotates` says so, and what was added up is read after the loop.
fn loop_over(count: usize, rotates: bool) -> Code {
    let mut code = Code::default();
    let [inside, again, after] = [1, 2, 3];
    code.add_blocks(4);
    let end = code.register(INT);
    code.entry(&[(end, PReg::new(7, INT))]);
    let zero = code.register(INT);
    code.push(0, Opcode::Mov_r32_imm32, &[Arg::Def(zero, View::R32), Arg::Imm32(0)], None);
    code.jump(0, inside, vec![zero; count]);
    let params: Vec<VReg> = (0..count).map(|_| code.register(INT)).collect();
    code.blocks[inside].params = params.clone();
    let mut next: Vec<VReg> = params
        .iter()
        .map(|&param| {
            let sum = code.register(INT);
            let args = [Arg::Tied(sum, param, View::R64), Arg::Imm8To32(1)];
            code.push(inside, Opcode::Add_rm64_imm8, &args, None);
            sum
        })
        .collect();
    let sums = next.clone();
    code.branch(inside, Test { cond: Cond::Less, a: next[0], b: end }, again, after);
    if rotates {
        next.rotate_left(1);
    }
    code.jump(again, inside, next);
    for sum in sums {
        let to = Mem::new(Base::Register(end));
        code.push(after, Opcode::Mov_rm64_r64, &[Arg::Mem(to), Arg::Use(sum, View::R64)], None);
    }
    code.return_(after);
    code
}

/// How many copies and how many spill slots the code has once its registers are assigned; `allocate` lets regalloc2 check them.
fn assigned(code: &Code) -> (usize, usize) {
    let output = allocate(&Flat::new(code, VectorIsa::AVX2));
    (output.edits.len(), output.num_spillslots)
}

#[test]
fn values_of_a_loop_keep_their_registers() {
    // The zero becomes the first of them and is copied to the others.
    assert_eq!(assigned(&loop_over(8, false)), (7, 0));
}

#[test]
fn values_that_change_places_in_a_cycle_take_a_spare_register() {
    assert_eq!(assigned(&loop_over(8, true)), (7 + 9, 0));
}

#[test]
fn values_that_find_no_register_are_spilled() {
    let (_, slots) = assigned(&loop_over(20, false));
    assert!(slots > 0);
}

#[test]
fn a_value_that_is_read_once_more_is_not_written_over() {
    let mut code = Code::default();
    code.add_blocks(1);
    let at = code.register(INT);
    code.entry(&[(at, PReg::new(7, INT))]);
    let next = code.register(INT);
    code.push(0, Opcode::Add_rm64_imm8, &[Arg::Tied(next, at, View::R64), Arg::Imm8To32(8)], None);
    let to = Mem::new(Base::Register(at));
    code.push(0, Opcode::Mov_rm64_r64, &[Arg::Mem(to), Arg::Use(next, View::R64)], None);
    code.return_(0);
    assert_eq!(assigned(&code), (1, 0));
}
