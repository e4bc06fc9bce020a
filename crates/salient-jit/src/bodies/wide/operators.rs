//! Operators as machine code, one arm each; `salient_vector::OPS` says what each must do.

use iced_x86::Code as Opcode;
use regalloc2::VReg;
use salient_vector::{Op, Ty, Value};

use super::code::{Arg, INT, VECTOR, View};
use super::isa::Width;
use super::lower::{Constant, In, Lower};
use super::masks::Predicate;
use super::table::{self, InstructionRow};
use crate::bodies::skeleton::Backend;

/// Modes of vroundps and vrndscaleps, without exceptions.
const NEAREST: u8 = 0x08;
const DOWN: u8 = 0x09;
const UP: u8 = 0x0a;
const TOWARD_ZERO: u8 = 0x0b;

/// An instruction for floats, and the same for integers.
#[derive(Clone, Copy)]
struct OfLanes {
    f32: &'static InstructionRow,
    i32: &'static InstructionRow,
}

const ADD: OfLanes = OfLanes { f32: table::ADD_F32, i32: table::ADD_I32 };
const SUB: OfLanes = OfLanes { f32: table::SUB_F32, i32: table::SUB_I32 };
const MUL: OfLanes = OfLanes { f32: table::MUL_F32, i32: table::MUL_I32 };
const MIN: OfLanes = OfLanes { f32: table::MIN_F32, i32: table::MIN_I32 };
const MAX: OfLanes = OfLanes { f32: table::MAX_F32, i32: table::MAX_I32 };

impl OfLanes {
    fn of(self, ty: Ty) -> &'static InstructionRow {
        if ty == Ty::F32 { self.f32 } else { self.i32 }
    }
}

/// What integers give that are known.
type Fold = fn(i64, i64) -> i64;

/// What is computed at once of known integers.
const FOLDED: [(Op, Fold); 3] =
    [(Op::Add, i64::wrapping_add), (Op::Sub, i64::wrapping_sub), (Op::Mul, i64::wrapping_mul)];

impl Lower<'_> {
    pub(super) fn op(&mut self, out: Value, op: Op, args: &[Value]) {
        if let Some(known) = self.folded(op, args) {
            self.know(out, known);
        } else {
            let register = self.compute(op, args);
            self.set(out, register);
        }
    }

    /// The result, if it is a known integer.
    fn folded(&self, op: Op, args: &[Value]) -> Option<i64> {
        if op == Op::LaneCount {
            return Some(self.isa.lanes() as i64);
        }
        let &[a, b] = args else { return None };
        let (a, b) = (self.known(a)?, self.known(b)?);
        FOLDED.iter().find(|(folded, _)| *folded == op).map(|(_, compute)| compute(a, b))
    }

    fn compute(&mut self, op: Op, args: &[Value]) -> VReg {
        let ty = args.first().map_or(Ty::I32, |&arg| self.body.ty(arg));
        match op {
            Op::Add if ty == Ty::Int => self.int_sum(args, false),
            Op::Add => self.two(ADD.of(ty), args),
            Op::Sub if ty == Ty::Int => self.int_sum(args, true),
            Op::Sub => self.two(SUB.of(ty), args),
            Op::Mul if ty == Ty::Int => self.int_two(Opcode::Imul_r64_rm64, args),
            Op::Mul => self.two(MUL.of(ty), args),
            Op::Div if ty == Ty::F32 => self.two(table::DIV_F32, args),
            Op::Div => self.divide(args),
            Op::Rem => self.remainder(args),
            Op::Fma => self.fma(args),
            Op::Neg => self.negate(ty, args[0]),
            Op::Abs if ty == Ty::F32 => self.with_constant(table::AND, args[0], !(1 << 31)),
            Op::Abs => self.one(table::ABS_I32, args),
            Op::Min if ty == Ty::Int => self.int_extreme(Opcode::Cmovg_r64_rm64, args),
            Op::Min => self.two(MIN.of(ty), args),
            Op::Max if ty == Ty::Int => self.int_extreme(Opcode::Cmovl_r64_rm64, args),
            Op::Max => self.two(MAX.of(ty), args),
            Op::Sqrt => self.one(table::SQRT_F32, args),
            Op::Floor => self.round(DOWN, args),
            Op::Ceil => self.round(UP, args),
            Op::Nearest => self.round(NEAREST, args),
            Op::Trunc => self.round(TOWARD_ZERO, args),
            Op::Eq => self.compare(ty, Predicate::Equal, args),
            Op::Ne => self.compare(ty, Predicate::NotEqual, args),
            Op::Lt => self.compare(ty, Predicate::Less, args),
            Op::Le => self.compare(ty, Predicate::LessOrEqual, args),
            Op::And if ty == Ty::Mask => self.two(table::MASK_AND, args),
            Op::And => self.two(table::AND, args),
            Op::Or if ty == Ty::Mask => self.two(table::MASK_OR, args),
            Op::Or => self.two(table::OR, args),
            Op::Xor if ty == Ty::Mask => self.two(table::MASK_XOR, args),
            Op::Xor => self.two(table::XOR, args),
            Op::Not if ty == Ty::Mask => {
                let a = self.get(args[0]);
                self.not_mask(a)
            }
            Op::Not => self.with_constant(table::XOR, args[0], u32::MAX),
            Op::Shl => self.shift(table::SHL_BY, table::SHL, args),
            Op::Shr => self.shift(table::SHR_BY, table::SHR, args),
            Op::ShrU => self.shift(table::SHRU_BY, table::SHRU, args),
            Op::Select => {
                let [mask, yes, no] = [0, 1, 2].map(|at| self.get(args[at]));
                self.select(self.body.ty(args[1]), mask, yes, no)
            }
            Op::ToI32 if ty == Ty::F32 => self.one(table::TO_I32, args),
            Op::ToI32 => self.mask_as(1, args),
            Op::ToF32 if ty == Ty::I32 => self.one(table::TO_F32, args),
            Op::ToF32 => self.mask_as(1.0_f32.to_bits(), args),
            Op::BitsI32 | Op::BitsF32 => self.get(args[0]),
            Op::Splat => {
                let a = self.get(args[0]);
                self.splat(a)
            }
            Op::LaneId => self.constant(Constant::Lanes),
            Op::LaneCount => self.int(self.isa.lanes() as i64),
            Op::FirstLane => {
                let vector = self.get(args[0]);
                let first = self.of_registers(table::TO_GENERAL, &[vector]);
                self.general(Opcode::Movsxd_r64_rm32, View::R64, &[Arg::Use(first, View::R32)])
            }
            Op::First => self.first(args[0]),
            Op::HSum => self.across(ADD.of(ty), args),
            Op::HMax => self.across(MAX.of(ty), args),
            Op::HMin => self.across(MIN.of(ty), args),
            Op::HAny => self.any_or_all(false, args),
            Op::HAll => self.any_or_all(true, args),
            Op::PrefixSum => self.scan(ADD.of(ty), args, Self::lanes_before),
            Op::SuffixSum => self.scan(ADD.of(ty), args, Self::lanes_behind),
        }
    }

    fn int_sum(&mut self, args: &[Value], minus: bool) -> VReg {
        match self.known(args[1]) {
            Some(known) => {
                let a = self.get(args[0]);
                self.add_int(a, if minus { known.wrapping_neg() } else { known })
            }
            None => self.int_two(if minus { Opcode::Sub_r64_rm64 } else { Opcode::Add_r64_rm64 }, args),
        }
    }

    fn int_two(&mut self, opcode: Opcode, args: &[Value]) -> VReg {
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        self.int_of(opcode, a, b)
    }

    pub(super) fn int_of(&mut self, opcode: Opcode, a: VReg, b: VReg) -> VReg {
        let result = self.code.register(INT);
        self.push(opcode, &[Arg::Tied(result, a, View::R64), Arg::Use(b, View::R64)]);
        result
    }

    fn int_extreme(&mut self, move_if: Opcode, args: &[Value]) -> VReg {
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        self.moved_if(move_if, a, b)
    }

    /// `b` if comparing `a` with it fulfils the condition of the move, else `a`.
    pub(super) fn moved_if(&mut self, move_if: Opcode, a: VReg, b: VReg) -> VReg {
        self.push(Opcode::Cmp_r64_rm64, &[Arg::Use(a, View::R64), Arg::Use(b, View::R64)]);
        let result = self.code.register(INT);
        self.push(move_if, &[Arg::Tied(result, a, View::R64), Arg::Use(b, View::R64)]);
        result
    }

    fn one(&mut self, row: &InstructionRow, args: &[Value]) -> VReg {
        let a = self.get(args[0]);
        self.of_registers(row, &[a])
    }

    fn negate(&mut self, ty: Ty, a: Value) -> VReg {
        match ty {
            Ty::F32 => self.with_constant(table::XOR, a, 1 << 31),
            Ty::Int => {
                let (a, negative) = (self.get(a), self.code.register(INT));
                self.push(Opcode::Neg_rm64, &[Arg::Tied(negative, a, View::R64)]);
                negative
            }
            Ty::I32 | Ty::Mask | Ty::Ptr | Ty::PtrMut => {
                let (zero, a) = (self.constant(Constant::Splat(0)), self.get(a));
                self.of_registers(table::SUB_I32, &[zero, a])
            }
        }
    }

    fn remainder(&mut self, args: &[Value]) -> VReg {
        let quotient = self.divide(args);
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        let product = self.of_registers(table::MUL_I32, &[quotient, b]);
        self.of_registers(table::SUB_I32, &[a, product])
    }

    fn round(&mut self, mode: u8, args: &[Value]) -> VReg {
        let a = self.get(args[0]);
        self.apply(table::ROUND_F32, &[a.into(), In::Byte(mode)])
    }

    fn compare(&mut self, ty: Ty, predicate: Predicate, args: &[Value]) -> VReg {
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        if ty == Ty::F32 { self.compare_f32(predicate, a, b) } else { self.compare_i32(predicate, a, b) }
    }

    /// The word where a mask is true, else zero.
    fn mask_as(&mut self, word: u32, args: &[Value]) -> VReg {
        let (mask, word) = (self.get(args[0]), self.constant(Constant::Splat(word)));
        self.keep(mask, word)
    }

    fn two(&mut self, row: &InstructionRow, args: &[Value]) -> VReg {
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        self.of_registers(row, &[a, b])
    }

    fn with_constant(&mut self, row: &InstructionRow, a: Value, word: u32) -> VReg {
        let a = self.get(a);
        self.combined(row, a, word)
    }

    pub(super) fn combined(&mut self, row: &InstructionRow, a: VReg, word: u32) -> VReg {
        let constant = self.constant(Constant::Splat(word));
        self.of_registers(row, &[a, constant])
    }

    /// The result takes the place of an operand that is not needed any more: of the sum in a chain of products, of the
    /// product in a polynomial.
    fn fma(&mut self, args: &[Value]) -> VReg {
        let [a, b, c] = [args[0], args[1], args[2]];
        let result = self.code.register(VECTOR);
        if let (true, Some(word)) = (self.crowded && self.dies(a), self.known_splat(c)) {
            let (over, b, c) = (self.get(a), self.get(b), self.splat_in_memory(word));
            self.apply_to(result, table::FMA_213, &[over.into(), b.into(), c], None);
            return result;
        }
        let [ra, rb, rc] = [self.get(a), self.get(b), self.get(c)];
        let (row, over, x, y) = if self.dies(c) {
            (table::FMA_231, rc, ra, rb)
        } else if self.dies(a) {
            (table::FMA_213, ra, rb, rc)
        } else if self.dies(b) {
            (table::FMA_213, rb, ra, rc)
        } else {
            (table::FMA_231, rc, ra, rb)
        };
        self.apply_to(result, row, &[over.into(), x.into(), y.into()], None);
        result
    }

    fn shift(&mut self, by: &InstructionRow, by_register: &InstructionRow, args: &[Value]) -> VReg {
        let a = self.get(args[0]);
        if let Some(known) = self.known(args[1]) {
            return self.apply(by, &[a.into(), In::Byte((known & 31) as u8)]);
        }
        let distance = self.get(args[1]);
        let bounded = self.code.register(INT);
        self.push(Opcode::And_rm32_imm8, &[Arg::Tied(bounded, distance, View::R32), Arg::Imm8To32(31)]);
        let bounded = self.of_registers(table::FROM_GENERAL, &[bounded]);
        self.of_registers(by_register, &[a, bounded])
    }

    /// The low 32 bits of a general register in every lane.
    pub(super) fn splat(&mut self, register: VReg) -> VReg {
        if table::SPLAT_GENERAL.is_on(self.isa) {
            return self.of_registers(table::SPLAT_GENERAL, &[register]);
        }
        let first = self.of_registers(table::FROM_GENERAL, &[register]);
        self.of_registers(table::SPLAT_FIRST, &[first])
    }

    fn first(&mut self, n: Value) -> VReg {
        // Into 0..=L first: the low half of a large count could be anything.
        let n = self.get(n);
        let (most, least) = (self.int(self.isa.lanes() as i64), self.int(0));
        let n = self.moved_if(Opcode::Cmovg_r64_rm64, n, most);
        let n = self.moved_if(Opcode::Cmovl_r64_rm64, n, least);
        let n = self.splat(n);
        let lanes = self.constant(Constant::Lanes);
        self.less_i32(lanes, n)
    }

    /// Quotients of integers by way of doubles, which hold them exactly: rounding never reaches the next integer. What does not
    /// fit (MIN / -1) becomes MIN by the conversion, and division by zero is made zero after it.
    fn divide(&mut self, args: &[Value]) -> VReg {
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        let half = |lower: &mut Self, register: VReg, high: bool| -> VReg {
            let part =
                if high { lower.apply(table::HIGH_HALF, &[register.into(), In::Byte(1)]) } else { register };
            lower.of_registers(table::I32_TO_F64, &[part])
        };
        let [low, high] = [false, true].map(|high| {
            let (a, b) = (half(self, a, high), half(self, b, high));
            let quotient = self.of_registers(table::DIV_F64, &[a, b]);
            self.of_registers(table::F64_TO_I32, &[quotient])
        });
        let quotient = self.apply(table::JOIN_HALVES, &[low.into(), high.into(), In::Byte(1)]);
        self.unless_zero(b, quotient)
    }

    /// Reduces by halves, each vector with itself turned by half of what is left, then gives lane 0 to all.
    fn across(&mut self, row: &InstructionRow, args: &[Value]) -> VReg {
        // Between parts of 128 bits, then within them; each with the order of the parts or lanes.
        let between: &[u8] = match self.isa.width {
            Width::W256 => &[0x01],
            Width::W512 => &[0x4e, 0xb1],
        };
        let within = [0x4e, 0xb1];
        let mut whole = self.get(args[0]);
        for &order in between {
            let of = In::Register(whole);
            let turned = self.apply(table::SWAP_128, &[of, of, In::Byte(order)]);
            whole = self.of_registers(row, &[whole, turned]);
        }
        for order in within {
            let turned = self.apply(table::SWAP_IN_128, &[whole.into(), In::Byte(order)]);
            whole = self.of_registers(row, &[whole, turned]);
        }
        self.of_registers(table::BROADCAST, &[whole])
    }

    /// Adds to each lane the one at a distance of 1, 2, 4, ...
    fn scan(&mut self, add: &InstructionRow, args: &[Value], at: fn(&mut Self, VReg, usize) -> VReg) -> VReg {
        let mut whole = self.get(args[0]);
        let lanes = self.isa.lanes();
        for distance in std::iter::successors(Some(1), |distance| Some(distance * 2)) {
            if distance == lanes {
                break;
            }
            let other = at(self, whole, distance);
            whole = self.of_registers(add, &[whole, other]);
        }
        whole
    }

    /// In each lane the one at a distance before it, zero where there is none.
    fn lanes_before(&mut self, whole: VReg, distance: usize) -> VReg {
        let of = In::Register(whole);
        if table::ALIGN.is_on(self.isa) {
            let zero = self.constant(Constant::Splat(0));
            let turn = (self.isa.lanes() - distance) as u8;
            return self.apply(table::ALIGN, &[of, zero.into(), In::Byte(turn)]);
        }
        // Zeros in the lower half, the lower half in the upper one: what is four lanes before.
        let half = self.apply(table::SWAP_128, &[of, of, In::Byte(0x08)]);
        if distance == 4 {
            return half;
        }
        let bytes = (4 - distance) * 4;
        self.apply(table::ALIGN_IN_128, &[of, half.into(), In::Byte(bytes as u8)])
    }

    /// In each lane the one at a distance behind it, zero where there is none.
    fn lanes_behind(&mut self, whole: VReg, distance: usize) -> VReg {
        let of = In::Register(whole);
        if table::ALIGN.is_on(self.isa) {
            let zero = self.constant(Constant::Splat(0));
            return self.apply(table::ALIGN, &[zero.into(), of, In::Byte(distance as u8)]);
        }
        // The upper half in the lower one, zeros in the upper half: what is four lanes behind.
        let half = self.apply(table::SWAP_128, &[of, of, In::Byte(0x81)]);
        if distance == 4 {
            return half;
        }
        self.apply(table::ALIGN_IN_128, &[half.into(), of, In::Byte((distance * 4) as u8)])
    }

    fn any_or_all(&mut self, all: bool, args: &[Value]) -> VReg {
        let mask = self.get(args[0]);
        let bits = self.bits(mask);
        let test = self.code.register(INT);
        if all {
            let every = (1 << self.isa.lanes()) - 1;
            let others = self.code.register(INT);
            self.push(Opcode::Xor_rm32_imm32, &[Arg::Tied(others, bits, View::R32), Arg::Imm32(every)]);
            // Less than 1 as an unsigned number: no lane is false. The carry says so.
            self.push(Opcode::Cmp_rm32_imm8, &[Arg::Use(others, View::R32), Arg::Imm8To32(1)]);
            self.push(
                Opcode::Sbb_r32_rm32,
                &[Arg::Tied(test, others, View::R32), Arg::Use(others, View::R32)],
            );
        } else {
            // The carry of a negation says that the number was not zero.
            let negative = self.code.register(INT);
            self.push(Opcode::Neg_rm32, &[Arg::Tied(negative, bits, View::R32)]);
            let same = Arg::Use(negative, View::R32);
            self.push(Opcode::Sbb_r32_rm32, &[Arg::Tied(test, negative, View::R32), same]);
        }
        self.mask_of_bits(test)
    }
}
