//! The builder: how authors write bodies.
//!
//! Handles ([`F32`], [`I32`], [`Mask`], [`Int`], [`Ptr`]) are typed names of values, so that a wrong type is an error of the
//! Rust compiler. Operators are methods of [`Builder`], named as in the table [`OPS`](crate::OPS); memory is reached
//! through a [`Place`], which starts at a pointer and says where, which elements, and for which lanes.
//!
//! ```
//! use salient_vector::{Builder, F32};
//!
//! // y[i] = exp(x[i] - m) for i in 0..n, and total[0] = their sum; right for any n and any number of lanes.
//! let mut b = Builder::new("exp_and_sum");
//! let (x, y, total) = (b.input("x"), b.output("y"), b.output("total"));
//! let n = b.int_param("n");
//! let m = b.f32_param("m");
//! let zero = b.f32(0.0);
//! let sum = b.lanes(n, zero, |b, i, sum| {
//!     let v = b.load::<F32>(x.at(i));
//!     let v = b.sub(v, m);
//!     let e = salient_vector::math::exp(b, v);
//!     b.store(y.at(i), e);
//!     b.add(sum, e)
//! });
//! let sum = b.hsum(sum);
//! b.store(total.at_start().one(), sum);
//! let body = b.finish();
//! assert_eq!(body.name, "exp_and_sum");
//! ```
//!
//! Places: `x.at(i)` is lanes `x[i], x[i+1], ...`; `.plus(3)` moves by elements and `.lanes(2)` by whole vectors; `.one()` is
//! one element for all lanes (a broadcast load, or a store of lane 0); `.strided(s)` takes every `s`-th element; `.indexed(ix, s)`
//! is a gather of `x[i + ix[lane] * s]`; `.masked(m)` touches memory only in lanes where `m` is true and loads zero elsewhere.
//!
//! Masks for the edge of a register tile come from [`Builder::first`]: `let edge = b.first(n); b.store(c.at(i).masked(edge), v)`.
//! Inside [`Builder::lanes`] no such mask is needed: the emitter masks the last strip.
//!
//! The builder panics on misuse (a loop in a loop, a store through an input, a value used outside its loop): a wrong
//! body is a bug of its author. It decides nothing about machines: that is the emitters' part.

use crate::body::{Body, Carried, Const, Elem, Inst, Loop, LoopKind, Matrix, Param, Place, Section, Value};
use crate::handle::{Bits, Carry, F32, Handle, I32, Int, Mask, Number, Ptr, Vector, VectorNumber};
use crate::op::Op;
use crate::ty::Ty;

/// From so many operators on, as of a GELU, two strips of a loop over lanes that carries nothing are computed side by side: in one
/// alone most instructions wait for the one before.
const LONG_CHAIN: usize = 24;

/// Builds one body, front to back.
#[derive(Debug)]
pub struct Builder {
    body: Body,
    insts: Vec<Inst>,
    in_loop: bool,
}

impl Builder {
    /// An empty body.
    pub fn new(name: impl Into<String>) -> Builder {
        let body = Body { name: name.into(), params: Vec::new(), sections: Vec::new(), types: Vec::new() };
        Builder { body, insts: Vec::new(), in_loop: false }
    }

    /// The body, verified.
    ///
    /// # Panics
    /// If the body breaks a rule of the IR, with the body printed.
    pub fn finish(mut self) -> Body {
        self.close_straight();
        if let Err(error) = crate::verify::verify(&self.body) {
            panic!("{error}\n{}", self.body);
        }
        self.body
    }

    // Parameters.

    /// A parameter: memory that nothing writes while the body runs. Where an output may be the same memory (work in
    /// place), it is the output that must be read.
    pub fn input(&mut self, name: impl Into<String>) -> Ptr {
        Ptr::from_value(self.param(name, Ty::Ptr))
    }

    /// A parameter: memory that the body reads and writes. It overlaps no input.
    pub fn output(&mut self, name: impl Into<String>) -> Ptr {
        Ptr::from_value(self.param(name, Ty::PtrMut))
    }

    /// A parameter: a 64-bit integer.
    pub fn int_param(&mut self, name: impl Into<String>) -> Int {
        Int::from_value(self.param(name, Ty::Int))
    }

    /// A parameter: one float, given to every lane.
    pub fn f32_param(&mut self, name: impl Into<String>) -> F32 {
        F32::from_value(self.param(name, Ty::F32))
    }

    /// A parameter of any type that can be passed.
    pub fn param(&mut self, name: impl Into<String>, ty: Ty) -> Value {
        let value = self.fresh(ty);
        self.body.params.push(Param { name: name.into(), value });
        value
    }

    // Constants.

    /// A float in every lane.
    pub fn f32(&mut self, value: f32) -> F32 {
        F32::from_value(self.constant(Const::F32(value)))
    }

    /// An integer in every lane.
    pub fn i32(&mut self, value: i32) -> I32 {
        I32::from_value(self.constant(Const::I32(value)))
    }

    /// A truth value in every lane.
    pub fn mask(&mut self, value: bool) -> Mask {
        Mask::from_value(self.constant(Const::Mask(value)))
    }

    /// A 64-bit integer.
    pub fn int(&mut self, value: i64) -> Int {
        Int::from_value(self.constant(Const::Int(value)))
    }

    /// Any constant.
    pub fn constant(&mut self, value: Const) -> Value {
        let out = self.fresh(value.ty());
        self.insts.push(Inst::Const { out, value });
        out
    }

    /// The integer that every lane holds, if it is a constant.
    pub fn known(&self, of: I32) -> Option<i32> {
        let closed = self.body.sections.iter().flat_map(|section| match section {
            Section::Straight(insts) | Section::Loop(Loop { insts, .. }) => insts,
        });
        closed.chain(&self.insts).find_map(|inst| match inst {
            Inst::Const { out, value: Const::I32(value) } if *out == of.value() => Some(*value),
            Inst::Const { .. } | Inst::Op { .. } | Inst::Address { .. } => None,
            Inst::Load { .. } | Inst::LoadInt { .. } | Inst::Store { .. } => None,
            Inst::Transpose { .. } | Inst::Prefetch { .. } => None,
        })
    }

    // Memory.

    /// A vector from memory, of the element that the handle names.
    pub fn load<T: Vector>(&mut self, place: impl Into<Place>) -> T {
        T::from_value(self.load_elem(T::ELEM, place))
    }

    /// A vector from memory; its type is [`Elem::ty`].
    pub fn load_elem(&mut self, elem: Elem, place: impl Into<Place>) -> Value {
        let out = self.fresh(elem.ty());
        self.insts.push(Inst::Load { out, elem, place: place.into() });
        out
    }

    /// One element from memory as an Int: `I32` sign extended, `Bool` as 0 or 1. The access and mask of the place are not used.
    pub fn load_int(&mut self, elem: Elem, place: impl Into<Place>) -> Int {
        let out = self.fresh(Ty::Int);
        self.insts.push(Inst::LoadInt { out, elem, addr: place.into().addr });
        Int::from_value(out)
    }

    /// Writes a vector to memory.
    pub fn store<T: Vector>(&mut self, place: impl Into<Place>, value: T) {
        self.store_elem(T::ELEM, place, value.value());
    }

    /// Writes a vector to memory; its type is [`Elem::ty`].
    pub fn store_elem(&mut self, elem: Elem, place: impl Into<Place>, value: Value) {
        self.insts.push(Inst::Store { elem, place: place.into(), value });
    }

    /// Copies a matrix of 32-bit words with its rows and columns exchanged: see [`Inst::Transpose`]. Each side is the place of its first
    /// word and the words between its rows; then rows and columns of what is read.
    pub fn transpose(
        &mut self,
        (from, from_row): (impl Into<Place>, Int),
        (to, to_row): (impl Into<Place>, Int),
        (rows, columns): (Int, Int),
    ) {
        let from = Matrix { addr: from.into().addr, row: from_row.value() };
        let to = Matrix { addr: to.into().addr, row: to_row.value() };
        self.insts.push(Inst::Transpose { from, to, rows: rows.value(), columns: columns.value() });
    }

    /// Says that memory will be read soon.
    pub fn prefetch(&mut self, elem: Elem, place: impl Into<Place>) {
        self.insts.push(Inst::Prefetch { elem, addr: place.into().addr });
    }

    /// Halves from memory, widened.
    pub fn load_halves(&mut self, place: impl Into<Place>) -> F32 {
        F32::from_value(self.load_elem(Elem::F16, place))
    }

    /// The address of a place as a pointer; its unit is `elem`.
    pub fn address(&mut self, elem: Elem, place: impl Into<Place>) -> Ptr {
        let addr = place.into().addr;
        let out = self.fresh(self.body.ty(addr.base));
        self.insts.push(Inst::Address { out, elem, addr });
        Ptr::from_value(out)
    }

    // Operators: one generic way in, and the typed names.

    /// Any operator of the table on values of any type.
    ///
    /// # Panics
    /// If the types do not fit.
    pub fn op(&mut self, op: Op, args: &[Value]) -> Value {
        let types: Vec<Ty> = args.iter().map(|&arg| self.body.ty(arg)).collect();
        let Some(ty) = op.info().sig.result(&types) else {
            panic!("`{}` does not take {types:?} (in body `{}`)", op.info().mnemonic, self.body.name)
        };
        let out = self.fresh(ty);
        self.insts.push(Inst::Op { out, op, args: args.to_vec() });
        out
    }

    fn op1<A: Handle, R: Handle>(&mut self, op: Op, a: A) -> R {
        R::from_value(self.op(op, &[a.value()]))
    }

    fn op2<A: Handle, B: Handle, R: Handle>(&mut self, op: Op, a: A, b: B) -> R {
        R::from_value(self.op(op, &[a.value(), b.value()]))
    }

    /// `a + b`.
    pub fn add<T: Number>(&mut self, a: T, b: T) -> T {
        self.op2(Op::Add, a, b)
    }

    /// `a - b`.
    pub fn sub<T: Number>(&mut self, a: T, b: T) -> T {
        self.op2(Op::Sub, a, b)
    }

    /// `a * b`.
    pub fn mul<T: Number>(&mut self, a: T, b: T) -> T {
        self.op2(Op::Mul, a, b)
    }

    /// `a / b`; see the table for integers.
    pub fn div<T: VectorNumber>(&mut self, a: T, b: T) -> T {
        self.op2(Op::Div, a, b)
    }

    /// The remainder of the division toward zero; see the table.
    pub fn rem(&mut self, a: I32, b: I32) -> I32 {
        self.op2(Op::Rem, a, b)
    }

    /// `a * b + c`, rounded once where the target can.
    pub fn fma(&mut self, a: F32, b: F32, c: F32) -> F32 {
        F32::from_value(self.op(Op::Fma, &[a.value(), b.value(), c.value()]))
    }

    /// `-a`.
    pub fn neg<T: Number>(&mut self, a: T) -> T {
        self.op1(Op::Neg, a)
    }

    /// `|a|`.
    pub fn abs<T: VectorNumber>(&mut self, a: T) -> T {
        self.op1(Op::Abs, a)
    }

    /// `a` if `a < b`, else `b` (so: `b` where either is NaN).
    pub fn min<T: Number>(&mut self, a: T, b: T) -> T {
        self.op2(Op::Min, a, b)
    }

    /// `a` if `b < a`, else `b` (so: `b` where either is NaN).
    pub fn max<T: Number>(&mut self, a: T, b: T) -> T {
        self.op2(Op::Max, a, b)
    }

    /// The square root.
    pub fn sqrt(&mut self, a: F32) -> F32 {
        self.op1(Op::Sqrt, a)
    }

    /// Rounds toward -inf.
    pub fn floor(&mut self, a: F32) -> F32 {
        self.op1(Op::Floor, a)
    }

    /// Rounds toward +inf.
    pub fn ceil(&mut self, a: F32) -> F32 {
        self.op1(Op::Ceil, a)
    }

    /// Rounds to the nearest integer, ties to even.
    pub fn nearest(&mut self, a: F32) -> F32 {
        self.op1(Op::Nearest, a)
    }

    /// Rounds toward zero.
    pub fn trunc(&mut self, a: F32) -> F32 {
        self.op1(Op::Trunc, a)
    }

    /// `a = b`.
    pub fn eq<T: VectorNumber>(&mut self, a: T, b: T) -> Mask {
        self.op2(Op::Eq, a, b)
    }

    /// Not `a = b`.
    pub fn ne<T: VectorNumber>(&mut self, a: T, b: T) -> Mask {
        self.op2(Op::Ne, a, b)
    }

    /// `a < b`.
    pub fn lt<T: VectorNumber>(&mut self, a: T, b: T) -> Mask {
        self.op2(Op::Lt, a, b)
    }

    /// `a <= b`.
    pub fn le<T: VectorNumber>(&mut self, a: T, b: T) -> Mask {
        self.op2(Op::Le, a, b)
    }

    /// `a > b`, which is `b < a`.
    pub fn gt<T: VectorNumber>(&mut self, a: T, b: T) -> Mask {
        self.lt(b, a)
    }

    /// `a >= b`, which is `b <= a`.
    pub fn ge<T: VectorNumber>(&mut self, a: T, b: T) -> Mask {
        self.le(b, a)
    }

    /// `a` and `b`.
    pub fn and<T: Bits>(&mut self, a: T, b: T) -> T {
        self.op2(Op::And, a, b)
    }

    /// `a` or `b`.
    pub fn or<T: Bits>(&mut self, a: T, b: T) -> T {
        self.op2(Op::Or, a, b)
    }

    /// Either `a` or `b`, not both.
    pub fn xor<T: Bits>(&mut self, a: T, b: T) -> T {
        self.op2(Op::Xor, a, b)
    }

    /// Not `a`.
    pub fn not<T: Bits>(&mut self, a: T) -> T {
        self.op1(Op::Not, a)
    }

    /// `a << n`, `n` modulo 32.
    pub fn shl(&mut self, a: I32, n: Int) -> I32 {
        self.op2(Op::Shl, a, n)
    }

    /// `a >> n` filled with the sign, `n` modulo 32.
    pub fn shr(&mut self, a: I32, n: Int) -> I32 {
        self.op2(Op::Shr, a, n)
    }

    /// `a >> n` filled with zeros, `n` modulo 32.
    pub fn shru(&mut self, a: I32, n: Int) -> I32 {
        self.op2(Op::ShrU, a, n)
    }

    /// `a` where `mask` is true, else `b`.
    pub fn select<T: Vector>(&mut self, mask: Mask, a: T, b: T) -> T {
        T::from_value(self.op(Op::Select, &[mask.value(), a.value(), b.value()]))
    }

    /// A float rounded toward zero as an integer; MIN where it is NaN or does not fit.
    pub fn to_i32(&mut self, a: F32) -> I32 {
        self.op1(Op::ToI32, a)
    }

    /// An integer as the nearest float.
    pub fn to_f32(&mut self, a: I32) -> F32 {
        self.op1(Op::ToF32, a)
    }

    /// 1 where true, else 0.
    pub fn mask_to_i32(&mut self, a: Mask) -> I32 {
        self.op1(Op::ToI32, a)
    }

    /// 1.0 where true, else 0.0.
    pub fn mask_to_f32(&mut self, a: Mask) -> F32 {
        self.op1(Op::ToF32, a)
    }

    /// The bits of a float.
    pub fn bits_i32(&mut self, a: F32) -> I32 {
        self.op1(Op::BitsI32, a)
    }

    /// The float of these bits.
    pub fn bits_f32(&mut self, a: I32) -> F32 {
        self.op1(Op::BitsF32, a)
    }

    /// The low 32 bits of an Int in every lane.
    pub fn splat(&mut self, a: Int) -> I32 {
        self.op1(Op::Splat, a)
    }

    /// 0, 1, 2, ..., L - 1.
    pub fn lane_id(&mut self) -> I32 {
        I32::from_value(self.op(Op::LaneId, &[]))
    }

    /// The number of lanes.
    pub fn lane_count(&mut self) -> Int {
        Int::from_value(self.op(Op::LaneCount, &[]))
    }

    /// What lane 0 holds.
    pub fn first_lane(&mut self, a: I32) -> Int {
        Int::from_value(self.op(Op::FirstLane, &[a.value()]))
    }

    /// `base + lane`: in a loop over lanes, the index of each lane's element.
    pub fn lane_index(&mut self, base: Int) -> I32 {
        let base = self.splat(base);
        let id = self.lane_id();
        self.add(base, id)
    }

    /// True in the lanes below `n`.
    pub fn first(&mut self, n: Int) -> Mask {
        self.op1(Op::First, n)
    }

    /// The sum over the lanes, in every lane.
    pub fn hsum<T: VectorNumber>(&mut self, a: T) -> T {
        self.op1(Op::HSum, a)
    }

    /// The maximum over the lanes, in every lane.
    pub fn hmax<T: VectorNumber>(&mut self, a: T) -> T {
        self.op1(Op::HMax, a)
    }

    /// The minimum over the lanes, in every lane.
    pub fn hmin<T: VectorNumber>(&mut self, a: T) -> T {
        self.op1(Op::HMin, a)
    }

    /// Whether any lane is true, in every lane.
    pub fn hany(&mut self, a: Mask) -> Mask {
        self.op1(Op::HAny, a)
    }

    /// Whether all lanes are true, in every lane.
    pub fn hall(&mut self, a: Mask) -> Mask {
        self.op1(Op::HAll, a)
    }

    /// The sum over the lanes up to each.
    pub fn prefix_sum<T: VectorNumber>(&mut self, a: T) -> T {
        self.op1(Op::PrefixSum, a)
    }

    /// The sum over the lanes from each on.
    pub fn suffix_sum<T: VectorNumber>(&mut self, a: T) -> T {
        self.op1(Op::SuffixSum, a)
    }

    // Loops.

    /// Runs `code` for the index 0, 1, 2, ... below `trip`; gives back what it carries.
    pub fn count<C: Carry>(&mut self, trip: Int, init: C, code: impl FnOnce(&mut Builder, Int, C) -> C) -> C {
        self.repeat(LoopKind::Count, 1, trip, init, code)
    }

    /// Runs `code` over the elements 0 .. `trip`, `L` at a time; the index is the first element of the strip. Inactive lanes of
    /// the last strip touch no memory, and keep what is carried. Only vectors can be carried; reduce them after the loop.
    pub fn lanes<C: Carry>(&mut self, trip: Int, init: C, code: impl FnOnce(&mut Builder, Int, C) -> C) -> C {
        self.repeat(LoopKind::Lanes, 1, trip, init, code)
    }

    /// Either kind of loop, with a hint of how many iterations (strips) to lay out in a row; a long loop over lanes that carries nothing
    /// has at least two.
    pub fn repeat<C: Carry>(
        &mut self,
        kind: LoopKind,
        unroll: u32,
        trip: Int,
        init: C,
        code: impl FnOnce(&mut Builder, Int, C) -> C,
    ) -> C {
        assert!(!self.in_loop, "loops do not nest (in body `{}`)", self.body.name);
        self.close_straight();
        let mut inits = Vec::new();
        init.give(&mut inits);
        let index = self.fresh(Ty::Int);
        let params: Vec<Value> = inits.iter().map(|&value| self.fresh(self.body.ty(value))).collect();

        self.in_loop = true;
        let next = code(self, Int::from_value(index), init.take(&mut params.iter().copied()));
        self.in_loop = false;

        let mut nexts = Vec::new();
        next.give(&mut nexts);
        assert_eq!(
            nexts.len(),
            inits.len(),
            "a loop must give on as much as it takes (in body `{}`)",
            self.body.name
        );
        let insts = std::mem::take(&mut self.insts);
        let operators = insts.iter().filter(|inst| matches!(inst, Inst::Op { .. })).count();
        let waits = kind == LoopKind::Lanes && inits.is_empty() && operators >= LONG_CHAIN;
        let unroll = if waits { unroll.max(2) } else { unroll };
        let results: Vec<Value> = inits.iter().map(|&value| self.fresh(self.body.ty(value))).collect();
        let carried = (0..inits.len())
            .map(|at| Carried { param: params[at], init: inits[at], next: nexts[at], result: results[at] })
            .collect();
        self.body.sections.push(Section::Loop(Loop {
            kind,
            trip: trip.value(),
            index,
            carried,
            insts,
            unroll,
        }));
        init.take(&mut results.into_iter())
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Ty {
        self.body.ty(value)
    }

    fn fresh(&mut self, ty: Ty) -> Value {
        let number = u32::try_from(self.body.types.len()).expect("a body has fewer than 2^32 values");
        self.body.types.push(ty);
        Value(number)
    }

    fn close_straight(&mut self) {
        if !self.insts.is_empty() {
            self.body.sections.push(Section::Straight(std::mem::take(&mut self.insts)));
        }
    }
}
