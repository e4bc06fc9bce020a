//! Operators in Cranelift's IR, one arm each; `salient_vector::OPS` says what each must do.

use cranelift_codegen::entity::packed_option::ReservedValue;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, ConstantData, InstBuilder, types};
use salient_vector::{Op, Ty, Value};

use super::{Emit, LANES};
use crate::bodies::skeleton::Backend;

impl Emit<'_> {
    pub(super) fn op(&mut self, op: Op, args: &[Value]) -> ir::Value {
        let ty = args.first().map_or(Ty::I32, |&arg| self.body.ty(arg));
        let float = ty == Ty::F32;
        // Operators with fewer arguments do not look at the others.
        let [a, b, c] = [0, 1, 2].map(|at| match args.get(at) {
            Some(&arg) => self.get(arg),
            None => ir::Value::reserved_value(),
        });
        match op {
            Op::Add if float => self.b.ins().fadd(a, b),
            Op::Add => self.b.ins().iadd(a, b),
            Op::Sub if float => self.b.ins().fsub(a, b),
            Op::Sub => self.b.ins().isub(a, b),
            Op::Mul if float => self.b.ins().fmul(a, b),
            Op::Mul => self.b.ins().imul(a, b),
            Op::Div if float => self.b.ins().fdiv(a, b),
            Op::Div => self.divide(a, b, false),
            Op::Rem => self.divide(a, b, true),
            Op::Fma => self.fma(a, b, c),
            Op::Neg if float => self.b.ins().fneg(a),
            Op::Neg => self.b.ins().ineg(a),
            Op::Abs if float => self.b.ins().fabs(a),
            Op::Abs => self.b.ins().iabs(a),
            Op::Min | Op::Max => self.extreme(op == Op::Max, ty, a, b),
            Op::Sqrt => self.b.ins().sqrt(a),
            Op::Floor => self.b.ins().floor(a),
            Op::Ceil => self.b.ins().ceil(a),
            Op::Nearest => self.b.ins().nearest(a),
            Op::Trunc => self.b.ins().trunc(a),
            Op::Eq => self.compare(float, FloatCC::Equal, IntCC::Equal, [a, b]),
            Op::Ne => self.compare(float, FloatCC::NotEqual, IntCC::NotEqual, [a, b]),
            Op::Lt => self.compare(float, FloatCC::LessThan, IntCC::SignedLessThan, [a, b]),
            Op::Le => self.compare(float, FloatCC::LessThanOrEqual, IntCC::SignedLessThanOrEqual, [a, b]),
            Op::And => self.b.ins().band(a, b),
            Op::Or => self.b.ins().bor(a, b),
            Op::Xor => self.b.ins().bxor(a, b),
            Op::Not => self.b.ins().bnot(a),
            Op::Shl => self.b.ins().ishl(a, b),
            Op::Shr => self.b.ins().sshr(a, b),
            Op::ShrU => self.b.ins().ushr(a, b),
            Op::Select => self.select(a, b, c),
            Op::ToI32 if float => self.truncate(a),
            Op::ToI32 => self.mask_as(a, 1),
            Op::ToF32 if ty == Ty::I32 => self.b.ins().fcvt_from_sint(types::F32X4, a),
            Op::ToF32 => {
                let bits = self.mask_as(a, 1.0_f32.to_bits());
                self.cast(types::F32X4, bits)
            }
            Op::BitsI32 => self.cast(types::I32X4, a),
            Op::BitsF32 => self.cast(types::F32X4, a),
            Op::Splat => {
                let low = self.b.ins().ireduce(types::I32, a);
                self.b.ins().splat(types::I32X4, low)
            }
            Op::LaneId => self.lanes_of(types::I32X4, [0, 1, 2, 3]),
            Op::LaneCount => self.b.ins().iconst(types::I64, LANES as i64),
            Op::FirstLane => self.first_lane(a),
            Op::First => self.first(a),
            Op::HSum => self.across(ty, a, |emit, low, high| match ty {
                Ty::F32 => emit.b.ins().fadd(low, high),
                Ty::I32 | Ty::Mask | Ty::Int | Ty::Ptr | Ty::PtrMut => emit.b.ins().iadd(low, high),
            }),
            Op::HMax => self.across(ty, a, |emit, low, high| emit.extreme(true, ty, low, high)),
            Op::HMin => self.across(ty, a, |emit, low, high| emit.extreme(false, ty, low, high)),
            Op::HAny => {
                let any = self.b.ins().vany_true(a);
                self.everywhere(any)
            }
            Op::HAll => {
                let all = self.b.ins().vall_true(a);
                self.everywhere(all)
            }
            Op::PrefixSum => {
                self.scan(ty, a, [([0, 0, 1, 2], [0, !0, !0, !0]), ([0, 0, 0, 1], [0, 0, !0, !0])])
            }
            Op::SuffixSum => {
                self.scan(ty, a, [([1, 2, 3, 3], [!0, !0, !0, 0]), ([2, 3, 3, 3], [!0, !0, 0, 0])])
            }
        }
    }

    fn fma(&mut self, a: ir::Value, b: ir::Value, c: ir::Value) -> ir::Value {
        if self.target.fma() {
            return self.b.ins().fma(a, b, c);
        }
        // As a call for each lane it would be exact, and a hundred times slower.
        let product = self.b.ins().fmul(a, b);
        self.b.ins().fadd(product, c)
    }

    fn compare(&mut self, float: bool, of_f32: FloatCC, of_i32: IntCC, [a, b]: [ir::Value; 2]) -> ir::Value {
        if float { self.b.ins().fcmp(of_f32, a, b) } else { self.b.ins().icmp(of_i32, a, b) }
    }

    /// The word where a mask is true, else zero.
    fn mask_as(&mut self, mask: ir::Value, word: u32) -> ir::Value {
        let word = self.lanes_of(types::I32X4, [word; LANES]);
        self.b.ins().band(mask, word)
    }

    /// `a` where the mask is true, else `b`.
    pub(super) fn select(&mut self, mask: ir::Value, a: ir::Value, b: ir::Value) -> ir::Value {
        // As integers: only there does the x86 backend see that a compare is all ones or all zeros, and blend.
        let ty = self.b.func.dfg.value_type(a);
        let (a, b) = (self.cast(types::I32X4, a), self.cast(types::I32X4, b));
        let chosen = self.b.ins().bitselect(mask, a, b);
        self.cast(ty, chosen)
    }

    /// The mask of the lanes below `n`.
    pub(super) fn first(&mut self, n: ir::Value) -> ir::Value {
        // Into 0..=4 first: the low half of a large count could be anything.
        let most = self.b.ins().iconst(types::I64, LANES as i64);
        let n = self.extreme(false, Ty::Int, n, most);
        let least = self.b.ins().iconst(types::I64, 0);
        let n = self.extreme(true, Ty::Int, n, least);
        let n = self.b.ins().ireduce(types::I32, n);
        let n = self.b.ins().splat(types::I32X4, n);
        let lane = self.lanes_of(types::I32X4, [0, 1, 2, 3]);
        self.b.ins().icmp(IntCC::SignedGreaterThan, n, lane)
    }

    /// Minimum or maximum by the rule of the table: the second where the compare is false.
    fn extreme(&mut self, max: bool, ty: Ty, a: ir::Value, b: ir::Value) -> ir::Value {
        match ty {
            Ty::F32 => {
                // This shape is one instruction on x86 (minps, maxps), whose rule the table took over.
                let (low, high) = if max { (b, a) } else { (a, b) };
                let first = self.b.ins().fcmp(FloatCC::LessThan, low, high);
                let first = self.cast(types::F32X4, first);
                self.b.ins().bitselect(first, a, b)
            }
            Ty::I32 if max => self.b.ins().smax(a, b),
            Ty::I32 => self.b.ins().smin(a, b),
            Ty::Int | Ty::Ptr | Ty::PtrMut | Ty::Mask => {
                let code = if max { IntCC::SignedGreaterThan } else { IntCC::SignedLessThan };
                let first = self.b.ins().icmp(code, a, b);
                self.b.ins().select(first, a, b)
            }
        }
    }

    /// Integer division or its remainder, lane by lane in 64 bits, where neither zero nor MIN / -1 can trap.
    fn divide(&mut self, a: ir::Value, b: ir::Value, remainder: bool) -> ir::Value {
        let zero = self.lanes_of(types::I32X4, [0; LANES]);
        let by_zero = self.b.ins().icmp(IntCC::Equal, b, zero);
        let one = self.lanes_of(types::I32X4, [1; LANES]);
        let divisor = self.select(by_zero, one, b);
        let mut result = zero;
        for lane in 0..LANES as u8 {
            let [a, b] = [a, divisor].map(|vector| {
                let value = self.b.ins().extractlane(vector, lane);
                self.b.ins().sextend(types::I64, value)
            });
            let value = if remainder { self.b.ins().srem(a, b) } else { self.b.ins().sdiv(a, b) };
            let value = self.b.ins().ireduce(types::I32, value);
            result = self.b.ins().insertlane(result, value, lane);
        }
        let otherwise = if remainder { a } else { zero };
        self.select(by_zero, otherwise, result)
    }

    fn first_lane(&mut self, a: ir::Value) -> ir::Value {
        let first = self.b.ins().extractlane(a, 0);
        self.b.ins().sextend(types::I64, first)
    }

    /// Floats to integers, toward zero; MIN where it does not fit.
    fn truncate(&mut self, a: ir::Value) -> ir::Value {
        if cfg!(target_arch = "x86_64") {
            return self.b.ins().x86_cvtt2dq(types::I32X4, a);
        }
        let saturated = self.b.ins().fcvt_to_sint_sat(types::I32X4, a);
        let limit = self.lanes_of(types::F32X4, [2_147_483_648.0_f32.to_bits(); LANES]);
        let fits = self.b.ins().fcmp(FloatCC::LessThan, a, limit);
        let least = self.lanes_of(types::I32X4, [i32::MIN as u32; LANES]);
        self.select(fits, saturated, least)
    }

    /// Reduces by halves, then gives lane 0 to all.
    fn across(
        &mut self,
        ty: Ty,
        a: ir::Value,
        combine: impl Fn(&mut Self, ir::Value, ir::Value) -> ir::Value,
    ) -> ir::Value {
        let to = super::clif(ty);
        let high = self.shuffle(a, [2, 3, 0, 1]);
        let high = self.cast(to, high);
        let pairs = combine(self, a, high);
        let high = self.shuffle(pairs, [1, 0, 3, 2]);
        let high = self.cast(to, high);
        let whole = combine(self, pairs, high);
        let whole = self.shuffle(whole, [0; LANES]);
        self.cast(to, whole)
    }

    /// Adds to each lane the one 1 and 2 before or behind it: of each step the lanes that others are taken from, and where there is
    /// one.
    fn scan(&mut self, ty: Ty, a: ir::Value, steps: [([u8; LANES], [u32; LANES]); 2]) -> ir::Value {
        steps.into_iter().fold(a, |whole, (from, is_there)| {
            // Lanes of one vector are moved by one instruction on every target, those of two by a call where SSSE3 is missing.
            let other = self.shuffle(whole, from);
            let (other, is_there) = (self.cast(types::I32X4, other), self.lanes_of(types::I32X4, is_there));
            let other = self.b.ins().band(other, is_there);
            let other = self.cast(super::clif(ty), other);
            match ty {
                Ty::F32 => self.b.ins().fadd(whole, other),
                Ty::I32 | Ty::Mask | Ty::Int | Ty::Ptr | Ty::PtrMut => self.b.ins().iadd(whole, other),
            }
        })
    }

    /// A vector whose lane `l` is lane `from[l]`, as bytes.
    pub(super) fn shuffle(&mut self, a: ir::Value, from: [u8; LANES]) -> ir::Value {
        let bytes: Vec<u8> = from.iter().flat_map(|lane| (0..4).map(move |byte| lane * 4 + byte)).collect();
        let mask = self.b.func.dfg.immediates.push(ConstantData::from(&bytes[..]));
        let a = self.cast(types::I8X16, a);
        self.b.ins().shuffle(a, a, mask)
    }

    /// A scalar truth value in every lane.
    fn everywhere(&mut self, truth: ir::Value) -> ir::Value {
        let wide = self.b.ins().uextend(types::I32, truth);
        let bits = self.b.ins().ineg(wide);
        self.b.ins().splat(types::I32X4, bits)
    }
}
