//! What the skeleton of a body's code needs of this emitter: registers for values, and loops as blocks.
//!
//! Loops test at the bottom, behind a guard. The last strip of a loop over lanes is code of its own, under a mask.

use iced_x86::Code as Opcode;
use regalloc2::VReg;
use salient_vector::body::{Addr, Const, Inst, Loop};
use salient_vector::{Elem, Op, Place, Value};

use super::code::{Arg, Base, Cond, INT, Mem, Test, View};
use super::lower::{Constant, LastStrip, Lower};
use super::uses;
use crate::bodies::skeleton::{Backend, State, Trip};

impl Backend for Lower<'_> {
    type Value = VReg;

    fn lanes(&self) -> usize {
        self.isa.lanes()
    }

    fn get(&mut self, value: Value) -> VReg {
        if let Some(known) = self.ints[value.index()] {
            return self.int(known);
        }
        if let Some(word) = self.splats[value.index()] {
            return self.constant(Constant::Splat(word));
        }
        self.values[value.index()].expect("a verified body defines values before their uses")
    }

    fn set(&mut self, value: Value, is: VReg) {
        self.ints[value.index()] = None;
        self.values[value.index()] = Some(is);
    }

    fn define(&mut self, out: Value, value: Const) {
        self.define_constant(out, value);
    }

    fn operator(&mut self, out: Value, op: Op, args: &[Value]) {
        self.op(out, op, args);
    }

    fn integer(&mut self, value: i64) -> VReg {
        self.int(value)
    }

    fn plus(&mut self, a: VReg, distance: i64) -> VReg {
        self.add_int(a, distance)
    }

    fn minus(&mut self, a: VReg, b: VReg) -> VReg {
        self.int_of(Opcode::Sub_r64_rm64, a, b)
    }

    fn times(&mut self, a: VReg, b: VReg) -> VReg {
        self.int_of(Opcode::Imul_r64_rm64, a, b)
    }

    fn least(&mut self, a: VReg, b: VReg) -> VReg {
        self.moved_if(Opcode::Cmovg_r64_rm64, a, b)
    }

    fn where_active(&mut self, of: Value, new: VReg, old: VReg) -> VReg {
        let strip = self.last_strip.expect("within the last strip");
        self.select(self.body.ty(of), strip.mask, new, old)
    }

    fn address(&mut self, elem: Elem, addr: &Addr) -> VReg {
        let mem = self.mem(addr, elem);
        self.general(Opcode::Lea_r64_m, View::R64, &[Arg::Mem(mem)])
    }

    fn load(&mut self, elem: Elem, place: &Place) -> VReg {
        self.load_place(elem, place)
    }

    fn load_int(&mut self, elem: Elem, addr: &Addr) -> VReg {
        self.load_integer(elem, addr)
    }

    fn store(&mut self, elem: Elem, place: &Place, value: Value) {
        let value = self.get(value);
        self.store_place(elem, place, value);
    }

    fn after_words(&mut self, address: VReg, words: VReg) -> VReg {
        let after = Mem { base: Base::Register(address), index: Some((words, 4)), distance: 0 };
        self.general(Opcode::Lea_r64_m, View::R64, &[Arg::Mem(after)])
    }

    fn times_strips(&mut self, elements: VReg, count: VReg) -> VReg {
        let whole = self.code.register(INT);
        let by = Arg::Imm8(self.isa.lanes().trailing_zeros() as u8);
        self.push(Opcode::Sar_rm64_imm8, &[Arg::Tied(whole, elements, View::R64), by]);
        self.times(whole, count)
    }

    fn square(&mut self, from: (VReg, VReg), to: (VReg, VReg)) -> VReg {
        self.transpose_square(from, to)
    }

    fn word(&mut self, from: VReg, to: VReg) {
        let [from, to] = [from, to].map(|at| Arg::Mem(Mem::new(Base::Register(at))));
        let word = self.general(Opcode::Mov_r32_rm32, View::R32, &[from]);
        self.push(Opcode::Mov_rm32_r32, &[to, Arg::Use(word, View::R32)]);
    }

    fn prefetch(&mut self, elem: Elem, addr: &Addr) {
        let from = Arg::Mem(self.mem(addr, elem));
        self.push(Opcode::Prefetcht1_m8, &[from]);
    }

    fn while_whole(
        &mut self,
        whole: Trip<VReg>,
        start: State<VReg>,
        step: impl FnOnce(&mut Self, State<VReg>) -> State<VReg>,
    ) -> State<VReg> {
        let skip = self.code.add_blocks(3);
        let [enter, inside] = [1, 2].map(|n| skip + n);
        let last = self.add_int(whole.trip, -whole.stride);
        self.code.branch(self.block, Test { cond: Cond::LessOrEqual, a: start.index, b: last }, enter, skip);
        let start = start.all();
        self.code.jump(enter, inside, start.clone());

        let params = self.parameters(inside, &start);
        self.block = inside;
        let next = step(self, State::of(&params));
        // Registers are assigned block by block: those of a loop inside stand before what follows them.
        let again = self.code.add_blocks(3);
        let [leave, after] = [1, 2].map(|n| again + n);
        self.code.branch(self.block, Test { cond: Cond::LessOrEqual, a: next.index, b: last }, again, leave);
        let next = next.all();
        self.code.jump(again, inside, next.clone());
        self.code.jump(leave, after, next);
        self.code.jump(skip, after, start.clone());

        let results = self.parameters(after, &start);
        self.block = after;
        State::of(&results)
    }

    fn if_any_left(
        &mut self,
        trip: VReg,
        start: State<VReg>,
        strip: impl FnOnce(&mut Self, State<VReg>) -> Vec<VReg>,
    ) -> Vec<VReg> {
        let inside = self.code.add_blocks(3);
        let [skip, after] = [inside + 1, inside + 2];
        let lanes = self.constant(Constant::Lanes);
        self.code.branch(self.block, Test { cond: Cond::Less, a: start.index, b: trip }, inside, skip);
        self.block = inside;
        let active = self.code.register(INT);
        let args = [Arg::Tied(active, trip, View::R64), Arg::Use(start.index, View::R64)];
        self.push(Opcode::Sub_r64_rm64, &args);
        let active = self.splat(active);
        let mask = self.less_i32(lanes, active);
        let before = start.carried.clone();
        self.last_strip = Some(LastStrip { mask });
        let kept = strip(self, start);
        self.last_strip = None;
        self.code.jump(self.block, after, kept);
        self.code.jump(skip, after, before.clone());
        let results = self.parameters(after, &before);
        self.block = after;
        results
    }

    fn section(&mut self, number: usize, insts: &[Inst]) {
        self.at = (number, 0);
        self.constants.clear();
        self.constants_in = self.block;
        let splats = uses::splats(insts, |value| self.used[value.index()]);
        self.crowded = splats > self.isa.encoding.registers() / 2;
    }

    /// All but those that are done already or never used.
    fn wants(&mut self, at: usize, inst: &Inst) -> bool {
        self.at.1 = at;
        inst.out().is_none_or(|out| self.used[out.index()] && !self.fixed[out.index()])
    }

    /// What memory holds, and what may fail.
    fn varies(inst: &Inst) -> bool {
        !matches!(inst, Inst::Const { .. } | Inst::Op { .. } | Inst::Address { .. })
    }

    fn enter_loop(&mut self, code: &Loop, changing: Vec<bool>) {
        self.compute_fixed(code, &changing);
    }
}

impl Lower<'_> {
    /// Parameters of a block, of the classes of what goes in.
    fn parameters(&mut self, block: usize, like: &[VReg]) -> Vec<VReg> {
        let params: Vec<VReg> = like.iter().map(|register| self.code.register(register.class())).collect();
        self.code.blocks[block].params = params.clone();
        params
    }
}
