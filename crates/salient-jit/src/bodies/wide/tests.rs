//! The table against what iced knows of each instruction; and bodies for a set of instructions that nobody can choose, which
//! is one value and no code.

use iced_x86::{
    Code as Opcode, CpuidFeature, Encoder, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register,
};
use salient_vector::eval::{Arg, Machine, Memory, eval};
use salient_vector::{Body, Builder, F32, I32, Mask, math};

use super::code::View;
use super::isa::{Feature, Features, MaskKind, VectorIsa, Width};
use super::table::{ALL, Role, Row};
use crate::machine_code::MachineCode;
use crate::target::{Isa, IsaChoice, Target};
use cranelift_module::{Linkage, Module};

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
fn instruction(row: &Row, isa: VectorIsa, from_memory: bool) -> Instruction {
    let mut instruction = Instruction::default();
    instruction.set_code(row.on(isa));
    let roles = row.roles.iter().filter(|&&role| role != Role::Lanes);
    for (at, &role) in roles.enumerate() {
        let number = at as u32;
        match role {
            Role::SourceOrMemory(_) if from_memory => memory(&mut instruction, number),
            Role::Memory | Role::Stored => memory(&mut instruction, number),
            Role::Destination(view)
            | Role::Accumulator(view)
            | Role::Source(view)
            | Role::SourceOrMemory(view) => {
                instruction.set_op_kind(number, OpKind::Register);
                instruction.set_op_register(number, register(view, isa, at));
            }
            Role::Immediate => {
                instruction.set_op_kind(number, OpKind::Immediate8);
                instruction.set_immediate8(1);
            }
            Role::Lanes => unreachable!("left out"),
        }
    }
    instruction
}

fn memory(instruction: &mut Instruction, at: u32) {
    instruction.set_op_kind(at, OpKind::Memory);
    instruction.set_memory_base(Register::RDI);
}

/// Rows with each set of instructions that has them.
fn rows() -> impl Iterator<Item = (&'static Row, VectorIsa)> {
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
            let roles: Vec<Role> = row.roles.iter().copied().filter(|&role| role != Role::Lanes).collect();
            assert_eq!(instruction.op_count() as usize, roles.len(), "{row:?} for {isa:?}");
            let info = info.info(&instruction);
            for (at, &role) in roles.iter().enumerate() {
                let access = info.op_access(at as u32);
                let agrees = match role {
                    Role::Destination(_) => access == OpAccess::Write,
                    Role::Accumulator(_) => access == OpAccess::ReadWrite,
                    Role::Source(_) | Role::Immediate => access == OpAccess::Read,
                    Role::SourceOrMemory(_) | Role::Memory => {
                        matches!(access, OpAccess::Read | OpAccess::CondRead)
                    }
                    Role::Stored => matches!(access, OpAccess::Write | OpAccess::CondWrite),
                    Role::Lanes => unreachable!("left out"),
                };
                assert!(agrees, "{row:?} for {isa:?}: operand {at} is {role:?}, and iced says {access:?}");
            }
        }
    }
}

#[test]
fn rows_that_take_a_mask_register_have_one_in_evex() {
    for (row, isa) in rows() {
        if !row.roles.contains(&Role::Lanes) || isa.masks == MaskKind::Vector {
            continue;
        }
        let mut instruction = instruction(row, isa, false);
        instruction.set_op_mask(Register::K1);
        instruction.set_zeroing_masking(matches!(row.roles[0], Role::Destination(_)));
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

/// Loads and stores of each kind, carried values of each type under a mask, and reductions behind the loop.
fn softmax_like() -> Body {
    let mut b = Builder::new("softmax_like");
    let (x, keep) = (b.input("x"), b.input("keep"));
    let (y, seen, totals) = (b.output("y"), b.output("seen"), b.output("totals"));
    let n = b.int_param("n");
    let init = (b.f32(0.0), b.i32(-1), b.mask(false));
    let (sum, last, any) = b.lanes(n, init, |b, i, (sum, last, any)| {
        let v = b.load::<F32>(x.at(i));
        let k = b.load::<Mask>(keep.at(i));
        let e = math::exp(b, v);
        let zero = b.f32(0.0);
        let e = b.select(k, e, zero);
        b.store(y.at(i), e);
        let was = b.not(k);
        b.store(seen.at(i), was);
        let index = b.lane_index(i);
        (b.add(sum, e), b.select(k, index, last), b.or(any, k))
    });
    let (sum, last, any) = (b.hsum(sum), b.hmax(last), b.hany(any));
    let any = b.mask_to_i32(any);
    b.store(totals.at_start().one(), sum);
    b.store(totals.at_start().plus(1).one(), last);
    b.store(totals.at_start().plus(2).one(), any);
    b.finish()
}

/// Integers: quotients by way of halves, shifts by what is known and what is not, and elements that lie apart.
fn integers() -> Body {
    let mut b = Builder::new("integers");
    let (x, keep) = (b.input("x"), b.input("keep"));
    let (y, seen, totals) = (b.output("y"), b.output("seen"), b.output("totals"));
    let n = b.int_param("n");
    let (one, init) = (b.int(1), b.i32(0));
    let most = b.lanes(n, init, |b, i, most| {
        let v = b.load::<I32>(x.at(i).strided(one));
        let k = b.load::<Mask>(keep.at(i).strided(one));
        let seven = b.i32(7);
        let (quotient, rest) = (b.div(v, seven), b.rem(seven, v));
        let (left, right) = (b.shl(quotient, one), b.shr(rest, n));
        let v = b.sub(left, right);
        let negative = b.lt(v, seven);
        let both = b.and(negative, k);
        b.store(y.at(i).masked(both), v);
        b.store(seen.at(i).masked(k), negative);
        b.max(most, v)
    });
    let most = b.hmax(most);
    let all = b.eq(most, most);
    let all = b.hall(all);
    let all = b.mask_to_i32(all);
    b.store(totals.at_start().one(), most);
    b.store(totals.at_start().plus(1).one(), all);
    b.finish()
}

/// Runs a body of two inputs, three outputs and a length; bytes behind each buffer must stay what they were.
fn run(body: &Body, isa: VectorIsa, memory: &Memory, n: i64) -> Vec<Vec<u8>> {
    const BEHIND: [u8; 64] = [0xa5; 64];
    let target = Target::host(IsaChoice::Auto).expect("a target");
    let mut module = target.module().expect("a module");
    let signature = crate::bodies::signature(body, &target);
    let id = module.declare_function("body", Linkage::Local, &signature).expect("declared");
    let code = MachineCode::of_bytes(id, super::emit(body, isa).bytes, super::VECTOR_BYTES);
    code.define(&mut module).expect("defined");
    module.finalize_definitions().expect("finalised");
    let code = module.get_finalized_function(id);
    type Entry = extern "C" fn(*const u8, *const u8, *mut u8, *mut u8, *mut u8, i64);
    // SAFETY: `code` is the function just defined, whose parameters are these; it lives as long as the module.
    let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code) };
    let mut buffers: Vec<Vec<u8>> =
        memory.buffers.iter().map(|bytes| [bytes.as_slice(), &BEHIND].concat()).collect();
    let [x, keep, y, seen, totals] = &mut buffers[..] else { panic!("five buffers") };
    entry(x.as_ptr(), keep.as_ptr(), y.as_mut_ptr(), seen.as_mut_ptr(), totals.as_mut_ptr(), n);
    // SAFETY: nothing refers to the code any more.
    unsafe { module.free_memory() };
    for bytes in &mut buffers {
        let behind = bytes.split_off(bytes.len() - BEHIND.len());
        assert_eq!(behind, BEHIND, "`{}` wrote behind a buffer, n = {n}", body.name);
    }
    buffers
}

#[test]
fn vectors_of_256_bits_in_evex_are_one_more_value() {
    let isa = VectorIsa::AVX512_OF_256;
    for body in [softmax_like(), integers()] {
        let listing = super::listing(&super::emit(&body, isa));
        assert!(!listing.contains("zmm") && !listing.contains("(bad)"), "{listing}");
        assert!(listing.contains("ymm") && listing.contains("{k"), "{listing}");
        if Isa::detect() < Isa::Avx512 {
            continue;
        }
        for n in 0..=27 {
            let mut memory = Memory::default();
            let floats: Vec<f32> = (0..n).map(|i| ((i * 37 + 11) % 101) as f32 / 8.0 - 5.0).collect();
            let args = [
                memory.add_f32(&floats),
                memory.add((0..n).map(|i| u8::from(i % 3 != 1) * 3).collect()),
                memory.add_f32(&floats),
                memory.add(vec![7; n as usize]),
                memory.add(vec![0; 12]),
                Arg::Int(n),
            ];
            let found = run(&body, isa, &memory, n);
            let machine = Machine { lanes: isa.lanes(), fused: true };
            eval(&body, machine, &args, &mut memory).expect("a body that is defined");
            assert_eq!(found, memory.buffers, "`{}`, n = {n}", body.name);
        }
    }
}
