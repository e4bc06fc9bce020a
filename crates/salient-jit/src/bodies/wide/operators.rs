//! Operators as machine code, one arm each; `salient_vector::OPS` says what each must do.

use iced_x86::Code as Opcode;
use regalloc2::VReg;
use salient_vector::{Op, Ty, Value};

use super::Wide;
use super::code::{Arg, INT, VECTOR, View};
use super::lower::{Constant, Lower};
use super::table::{self, Row};

/// Predicates of vcmpps: ordered and quiet, but for "not equal", which holds for NaN.
const EQUAL: u8 = 0x00;
const LESS: u8 = 0x11;
const LESS_OR_EQUAL: u8 = 0x12;
const NOT_EQUAL: u8 = 0x04;
/// Modes of vroundps and vrndscaleps, without exceptions.
const NEAREST: u8 = 0x08;
const DOWN: u8 = 0x09;
const UP: u8 = 0x0a;
const TOWARD_ZERO: u8 = 0x0b;

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
            return Some(self.wide.lanes() as i64);
        }
        let &[a, b] = args else { return None };
        let (a, b) = (self.known(a)?, self.known(b)?);
        match (op == Op::Add, op == Op::Sub, op == Op::Mul) {
            (true, _, _) => Some(a.wrapping_add(b)),
            (_, true, _) => Some(a.wrapping_sub(b)),
            (_, _, true) => Some(a.wrapping_mul(b)),
            (false, false, false) => None,
        }
    }

    fn compute(&mut self, op: Op, args: &[Value]) -> VReg {
        let ty = args.first().map_or(Ty::I32, |&arg| self.body.ty(arg));
        let (int, float) = (ty == Ty::Int, ty == Ty::F32);
        let number = |f32: Row, i32: Row| if float { f32 } else { i32 };
        match op {
            Op::Add if int => self.int_sum(args, false),
            Op::Add => self.two(number(table::ADD_F32, table::ADD_I32), args),
            Op::Sub if int => self.int_sum(args, true),
            Op::Sub => self.two(number(table::SUB_F32, table::SUB_I32), args),
            Op::Mul if int => self.int_two(Opcode::Imul_r64_rm64, args),
            Op::Mul => self.two(number(table::MUL_F32, table::MUL_I32), args),
            Op::Div if float => self.two(table::DIV_F32, args),
            Op::Div => self.divide(args),
            Op::Rem => {
                let quotient = self.divide(args);
                let (a, b) = (self.get(args[0]), self.get(args[1]));
                let product = self.of_vectors(table::MUL_I32, &[quotient, b]);
                self.of_vectors(table::SUB_I32, &[a, product])
            }
            Op::Fma => self.fma(args),
            Op::Neg if int => {
                let (a, negative) = (self.get(args[0]), self.code.register(INT));
                self.push(Opcode::Neg_rm64, &[Arg::Tied(negative, a, View::R64)]);
                negative
            }
            Op::Neg if float => self.with_constant(table::XOR, args[0], 1 << 31),
            Op::Neg => {
                let (zero, a) = (self.constant(Constant::Splat(0)), self.get(args[0]));
                self.of_vectors(table::SUB_I32, &[zero, a])
            }
            Op::Abs if float => self.with_constant(table::AND, args[0], !(1 << 31)),
            Op::Abs => self.one(table::ABS_I32, args),
            Op::Min if int => self.int_extreme(Opcode::Cmovg_r64_rm64, args),
            Op::Min => self.two(number(table::MIN_F32, table::MIN_I32), args),
            Op::Max if int => self.int_extreme(Opcode::Cmovl_r64_rm64, args),
            Op::Max => self.two(number(table::MAX_F32, table::MAX_I32), args),
            Op::Sqrt => self.one(table::SQRT_F32, args),
            Op::Floor => self.round(DOWN, args),
            Op::Ceil => self.round(UP, args),
            Op::Nearest => self.round(NEAREST, args),
            Op::Trunc => self.round(TOWARD_ZERO, args),
            Op::Eq if float => self.compare_f32(EQUAL, args),
            Op::Eq => self.compare_i32(EQUAL, args),
            Op::Ne if float => self.compare_f32(NOT_EQUAL, args),
            Op::Ne => self.compare_i32(NOT_EQUAL, args),
            Op::Lt if float => self.compare_f32(LESS, args),
            Op::Lt => self.compare_i32(LESS, args),
            Op::Le if float => self.compare_f32(LESS_OR_EQUAL, args),
            Op::Le => self.compare_i32(LESS_OR_EQUAL, args),
            Op::And => self.bitwise(ty, table::AND, table::MASK_AND, args),
            Op::Or => self.bitwise(ty, table::OR, table::MASK_OR, args),
            Op::Xor => self.bitwise(ty, table::XOR, table::MASK_XOR, args),
            Op::Not if ty == Ty::Mask && self.wide == Wide::Avx512 => {
                let a = self.get(args[0]);
                self.mask_register(table::MASK_NOT, &[Arg::Use(a, View::K)])
            }
            Op::Not => self.with_constant(table::XOR, args[0], u32::MAX),
            Op::Shl => self.shift(table::SHL_BY, table::SHL, args),
            Op::Shr => self.shift(table::SHR_BY, table::SHR, args),
            Op::ShrU => self.shift(table::SHRU_BY, table::SHRU, args),
            Op::Select => {
                let [mask, yes, no] = [0, 1, 2].map(|at| self.get(args[at]));
                self.select(self.body.ty(args[1]), mask, yes, no)
            }
            Op::ToI32 if float => self.one(table::TO_I32, args),
            Op::ToI32 => self.mask_as(1, args),
            Op::ToF32 if ty == Ty::I32 => self.one(table::TO_F32, args),
            Op::ToF32 => self.mask_as(1.0_f32.to_bits(), args),
            Op::BitsI32 | Op::BitsF32 => self.get(args[0]),
            Op::Splat => {
                let a = self.get(args[0]);
                self.splat(a)
            }
            Op::LaneId => self.constant(Constant::Lanes),
            Op::LaneCount => self.int(self.wide.lanes() as i64),
            Op::First => self.first(args[0]),
            Op::HSum => self.across(number(table::ADD_F32, table::ADD_I32), args),
            Op::HMax => self.across(number(table::MAX_F32, table::MAX_I32), args),
            Op::HMin => self.across(number(table::MIN_F32, table::MIN_I32), args),
            Op::HAny => self.any_or_all(false, args),
            Op::HAll => self.any_or_all(true, args),
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
        let result = self.code.register(INT);
        self.push(opcode, &[Arg::Tied(result, a, View::R64), Arg::Use(b, View::R64)]);
        result
    }

    fn int_extreme(&mut self, move_if: Opcode, args: &[Value]) -> VReg {
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        self.moved_if(move_if, a, b)
    }

    /// `b` if comparing `a` with it fulfils the condition of the move, else `a`.
    fn moved_if(&mut self, move_if: Opcode, a: VReg, b: VReg) -> VReg {
        self.push(Opcode::Cmp_r64_rm64, &[Arg::Use(a, View::R64), Arg::Use(b, View::R64)]);
        let result = self.code.register(INT);
        self.push(move_if, &[Arg::Tied(result, a, View::R64), Arg::Use(b, View::R64)]);
        result
    }

    fn one(&mut self, row: Row, args: &[Value]) -> VReg {
        let a = self.get(args[0]);
        self.of_vectors(row, &[a])
    }

    fn round(&mut self, mode: u8, args: &[Value]) -> VReg {
        let a = self.get(args[0]);
        self.vector(table::ROUND_F32, &[Arg::Use(a, View::Whole), Arg::Imm8(mode)])
    }

    /// The word where a mask is true, else zero.
    fn mask_as(&mut self, word: u32, args: &[Value]) -> VReg {
        let (mask, word) = (self.get(args[0]), self.constant(Constant::Splat(word)));
        self.keep(mask, word)
    }

    fn bitwise(&mut self, ty: Ty, vectors: Row, masks: Row, args: &[Value]) -> VReg {
        if ty == Ty::Mask && self.wide == Wide::Avx512 {
            let (a, b) = (self.get(args[0]), self.get(args[1]));
            return self.mask_register(masks, &[Arg::Use(a, View::K), Arg::Use(b, View::K)]);
        }
        self.two(vectors, args)
    }

    fn two(&mut self, row: Row, args: &[Value]) -> VReg {
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        self.of_vectors(row, &[a, b])
    }

    fn with_constant(&mut self, row: Row, a: Value, word: u32) -> VReg {
        let a = self.get(a);
        self.combined(row, a, word)
    }

    fn combined(&mut self, row: Row, a: VReg, word: u32) -> VReg {
        let constant = self.constant(Constant::Splat(word));
        self.of_vectors(row, &[a, constant])
    }

    /// Both masks.
    pub(super) fn both(&mut self, a: VReg, b: VReg) -> VReg {
        match self.wide {
            Wide::Avx2 => self.of_vectors(table::AND, &[a, b]),
            Wide::Avx512 => {
                self.mask_register(table::MASK_AND, &[Arg::Use(a, View::K), Arg::Use(b, View::K)])
            }
        }
    }

    /// The result takes the place of an operand that is not needed any more: of the sum in a chain of products, of the
    /// product in a polynomial.
    fn fma(&mut self, args: &[Value]) -> VReg {
        let [a, b, c] = [args[0], args[1], args[2]];
        let result = self.code.register(VECTOR);
        if let (true, Some(word)) = (self.crowded && self.dies(a), self.known_splat(c)) {
            let (over, b, c) = (self.get(a), self.get(b), self.splat_in_memory(word));
            let args = [Arg::Tied(result, over, View::Whole), Arg::Use(b, View::Whole), c];
            self.push(table::FMA_213.on(self.wide), &args);
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
        let args = [Arg::Tied(result, over, View::Whole), Arg::Use(x, View::Whole), Arg::Use(y, View::Whole)];
        self.push(row.on(self.wide), &args);
        result
    }

    fn compare_f32(&mut self, predicate: u8, args: &[Value]) -> VReg {
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        let args = [Arg::Use(a, View::Whole), Arg::Use(b, View::Whole), Arg::Imm8(predicate)];
        match self.wide {
            Wide::Avx2 => self.vector(table::COMPARE_F32, &args),
            Wide::Avx512 => self.mask_register(table::COMPARE_F32, &args),
        }
    }

    fn compare_i32(&mut self, predicate: u8, args: &[Value]) -> VReg {
        let (a, b) = (self.get(args[0]), self.get(args[1]));
        if self.wide == Wide::Avx512 {
            // Integers have the same predicates, in the lower bits.
            let args = [Arg::Use(a, View::Whole), Arg::Use(b, View::Whole), Arg::Imm8(predicate & 7)];
            return self.mask_register(table::COMPARE_I32, &args);
        }
        match predicate {
            EQUAL => self.of_vectors(table::EQUAL_I32, &[a, b]),
            LESS => self.of_vectors(table::GREATER_I32, &[b, a]),
            NOT_EQUAL => {
                let equal = self.of_vectors(table::EQUAL_I32, &[a, b]);
                self.combined(table::XOR, equal, u32::MAX)
            }
            _ => {
                let greater = self.of_vectors(table::GREATER_I32, &[a, b]);
                self.combined(table::XOR, greater, u32::MAX)
            }
        }
    }

    /// The mask of the lanes where `a < b`.
    pub(super) fn less_i32(&mut self, a: VReg, b: VReg) -> VReg {
        match self.wide {
            Wide::Avx2 => self.of_vectors(table::GREATER_I32, &[b, a]),
            Wide::Avx512 => {
                let args = [Arg::Use(a, View::Whole), Arg::Use(b, View::Whole), Arg::Imm8(LESS & 7)];
                self.mask_register(table::COMPARE_I32, &args)
            }
        }
    }

    fn shift(&mut self, by: Row, by_register: Row, args: &[Value]) -> VReg {
        let a = self.get(args[0]);
        if let Some(known) = self.known(args[1]) {
            return self.vector(by, &[Arg::Use(a, View::Whole), Arg::Imm8((known & 31) as u8)]);
        }
        let distance = self.get(args[1]);
        let bounded = self.code.register(INT);
        self.push(Opcode::And_rm32_imm8, &[Arg::Tied(bounded, distance, View::R32), Arg::Imm8To32(31)]);
        let row = table::FROM_GENERAL.on(self.wide);
        let bounded = self.new_register(VECTOR, View::Xmm, row, &[Arg::Use(bounded, View::R32)]);
        self.vector(by_register, &[Arg::Use(a, View::Whole), Arg::Use(bounded, View::Xmm)])
    }

    /// `yes` where the mask is true, else `no`.
    pub(super) fn select(&mut self, ty: Ty, mask: VReg, yes: VReg, no: VReg) -> VReg {
        match (self.wide, ty) {
            (Wide::Avx2, _) => self.of_vectors(table::BLEND, &[no, yes, mask]),
            (Wide::Avx512, Ty::Mask) => {
                let k = |register| Arg::Use(register, View::K);
                let yes = self.mask_register(table::MASK_AND, &[k(mask), k(yes)]);
                let no = self.mask_register(table::MASK_AND_NOT, &[k(mask), k(no)]);
                self.mask_register(table::MASK_OR, &[k(yes), k(no)])
            }
            (Wide::Avx512, Ty::F32 | Ty::I32 | Ty::Int | Ty::Ptr | Ty::PtrMut) => {
                let result = self.code.register(VECTOR);
                let args =
                    [Arg::Def(result, View::Whole), Arg::Use(no, View::Whole), Arg::Use(yes, View::Whole)];
                self.push_masked(table::BLEND.on(self.wide), &args, mask, false);
                result
            }
        }
    }

    /// The vector where the mask is true, else zero.
    pub(super) fn keep(&mut self, mask: VReg, vector: VReg) -> VReg {
        match self.wide {
            Wide::Avx2 => self.of_vectors(table::AND, &[mask, vector]),
            Wide::Avx512 => self.vector_or_zero(table::LOAD, &[Arg::Use(vector, View::Whole)], mask),
        }
    }

    /// The low 32 bits of a general register in every lane.
    pub(super) fn splat(&mut self, register: VReg) -> VReg {
        match self.wide {
            Wide::Avx512 => self.vector(table::SPLAT_GENERAL, &[Arg::Use(register, View::R32)]),
            Wide::Avx2 => {
                let row = table::FROM_GENERAL.on(self.wide);
                let first = self.new_register(VECTOR, View::Xmm, row, &[Arg::Use(register, View::R32)]);
                self.vector(table::SPLAT_FIRST, &[Arg::Use(first, View::Xmm)])
            }
        }
    }

    fn first(&mut self, n: Value) -> VReg {
        // Into 0..=L first: the low half of a large count could be anything.
        let n = self.get(n);
        let (most, least) = (self.int(self.wide.lanes() as i64), self.int(0));
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
            let mut part = register;
            if high {
                let args = [Arg::Use(register, View::Whole), Arg::Imm8(1)];
                part = lower.code.register(VECTOR);
                let all = [Arg::Def(part, View::Half), args[0], args[1]];
                lower.push(table::HIGH_HALF.on(lower.wide), &all);
            }
            lower.vector(table::I32_TO_F64, &[Arg::Use(part, View::Half)])
        };
        let [low, high] = [false, true].map(|high| {
            let (a, b) = (half(self, a, high), half(self, b, high));
            let quotient = self.of_vectors(table::DIV_F64, &[a, b]);
            let row = table::F64_TO_I32.on(self.wide);
            self.new_register(VECTOR, View::Half, row, &[Arg::Use(quotient, View::Whole)])
        });
        let args = [Arg::Use(low, View::Whole), Arg::Use(high, View::Half), Arg::Imm8(1)];
        let quotient = self.vector(table::JOIN_HALVES, &args);
        match self.wide {
            Wide::Avx2 => {
                let zero = self.constant(Constant::Splat(0));
                let by_zero = self.of_vectors(table::EQUAL_I32, &[b, zero]);
                self.of_vectors(table::AND_NOT, &[by_zero, quotient])
            }
            Wide::Avx512 => {
                let nonzero = self.nonzero(b);
                self.keep(nonzero, quotient)
            }
        }
    }

    /// The mask of the lanes of integers that are not zero, which must not be negative on AVX2.
    pub(super) fn nonzero(&mut self, a: VReg) -> VReg {
        match self.wide {
            Wide::Avx2 => {
                let zero = self.constant(Constant::Splat(0));
                self.of_vectors(table::GREATER_I32, &[a, zero])
            }
            Wide::Avx512 => {
                self.mask_register(table::TEST_I32, &[Arg::Use(a, View::Whole), Arg::Use(a, View::Whole)])
            }
        }
    }

    /// Reduces by halves, each vector with itself turned by half of what is left, then gives lane 0 to all.
    fn across(&mut self, row: Row, args: &[Value]) -> VReg {
        // Between parts of 128 bits, then within them; each with the order of the parts or lanes.
        let (between, within): (&[u8], [u8; 2]) = match self.wide {
            Wide::Avx2 => (&[0x01], [0x4e, 0xb1]),
            Wide::Avx512 => (&[0x4e, 0xb1], [0x4e, 0xb1]),
        };
        let mut whole = self.get(args[0]);
        for &order in between {
            let of = Arg::Use(whole, View::Whole);
            let turned = self.vector(table::SWAP_128, &[of, of, Arg::Imm8(order)]);
            whole = self.of_vectors(row, &[whole, turned]);
        }
        for order in within {
            let turned = self.vector(table::SWAP_IN_128, &[Arg::Use(whole, View::Whole), Arg::Imm8(order)]);
            whole = self.of_vectors(row, &[whole, turned]);
        }
        self.vector(table::BROADCAST, &[Arg::Use(whole, View::Xmm)])
    }

    fn any_or_all(&mut self, all: bool, args: &[Value]) -> VReg {
        let mask = self.get(args[0]);
        let bits = self.bits(mask);
        let test = self.code.register(INT);
        if all {
            let every = (1 << self.wide.lanes()) - 1;
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

    /// The lanes of a mask as the low bits of a general register; the others are zero.
    pub(super) fn bits(&mut self, mask: VReg) -> VReg {
        let (row, view) = match self.wide {
            Wide::Avx2 => (table::SIGNS, View::Whole),
            Wide::Avx512 => (table::MASK_TO_GENERAL, View::K),
        };
        self.general(row.on(self.wide), View::R32, &[Arg::Use(mask, view)])
    }

    /// A mask of all lanes or none from a general register of all ones or zeros.
    pub(super) fn mask_of_bits(&mut self, bits: VReg) -> VReg {
        match self.wide {
            Wide::Avx2 => self.splat(bits),
            Wide::Avx512 => self.mask_register(table::MASK_FROM_GENERAL, &[Arg::Use(bits, View::R32)]),
        }
    }
}
