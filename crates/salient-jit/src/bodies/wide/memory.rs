//! Places as machine code: addresses, loads and stores.
//!
//! Consecutive elements move at once, under a mask where lanes are inactive. Spread elements, and masked bytes on AVX2, move one by
//! one through scratch memory, without branches: an inactive lane is sent to a word of the scratch that nobody needs.

use iced_x86::Code as Opcode;
use regalloc2::VReg;
use salient_vector::body::{Access, Addr};
use salient_vector::{Elem, Place, Value};

use super::Wide;
use super::code::{Arg, Base, INT, Mem, VECTOR, View};
use super::lower::{Constant, Lower};
use super::table;

/// Where scratch memory holds the vector that is taken to pieces or put together.
const VALUES: i32 = 0;
/// Where it holds the indices of a gather or scatter.
const INDICES: i32 = 64;
/// The word that inactive lanes touch.
const ELSEWHERE: i32 = 128;

fn scratch(at: i32) -> Arg {
    Arg::Mem(Mem::new(Base::Scratch(at)))
}

fn at(register: VReg) -> Arg {
    Arg::Mem(Mem::new(Base::Register(register)))
}

impl Lower<'_> {
    /// An address as an operand.
    pub(super) fn address(&mut self, addr: &Addr, elem: Elem) -> Mem<VReg> {
        let mut base = self.get(addr.base);
        let mut elems = i64::from(addr.elems) + i64::from(addr.lanes) * self.wide.lanes() as i64;
        let mut index = None;
        if let Some(value) = addr.index {
            match self.known(value) {
                Some(known) => elems = elems.wrapping_add(known),
                None => index = Some((self.get(value), elem.size() as u8)),
            }
        }
        let bytes = elems.wrapping_mul(elem.size());
        let distance = i32::try_from(bytes).unwrap_or_else(|_| {
            base = self.add_int(base, bytes);
            0
        });
        Mem { base: Base::Register(base), index, distance }
    }

    pub(super) fn load_int(&mut self, elem: Elem, addr: &Addr) -> VReg {
        let from = Arg::Mem(self.address(addr, elem));
        match elem {
            Elem::F32 | Elem::F16 | Elem::I32 => self.general(Opcode::Movsxd_r64_rm32, View::R64, &[from]),
            Elem::Bool => {
                let ones = self.ones_if_nonzero(from);
                let one = self.code.register(INT);
                self.push(Opcode::And_rm32_imm8, &[Arg::Tied(one, ones, View::R32), Arg::Imm8To32(1)]);
                one
            }
        }
    }

    /// All ones if a byte in memory is not zero, else zero, in 32 bits.
    fn ones_if_nonzero(&mut self, byte: Arg) -> VReg {
        let value = self.general(Opcode::Movzx_r32_rm8, View::R32, &[byte]);
        let negative = self.code.register(INT);
        self.push(Opcode::Neg_rm32, &[Arg::Tied(negative, value, View::R32)]);
        let ones = self.code.register(INT);
        let same = Arg::Use(negative, View::R32);
        self.push(Opcode::Sbb_r32_rm32, &[Arg::Tied(ones, negative, View::R32), same]);
        ones
    }

    pub(super) fn load(&mut self, elem: Elem, place: &Place) -> VReg {
        if place.access == Access::One {
            return self.load_one(elem, place);
        }
        let mask = self.active(place.mask);
        match (place.access, elem, self.wide, mask) {
            (Access::Unit, Elem::F32 | Elem::I32, _, _) => self.load_words(elem, place, mask),
            (Access::Unit, Elem::F16, _, None) => {
                let from = Arg::Mem(self.address(&place.addr, elem));
                self.vector(table::WIDEN_HALVES, &[from])
            }
            (Access::Unit, Elem::Bool, _, None) | (Access::Unit, Elem::Bool, Wide::Avx512, _) => {
                self.load_bytes(place, mask)
            }
            (Access::Unit | Access::Strided(_) | Access::Indexed { .. } | Access::One, _, _, _) => {
                self.load_lanes(elem, place, mask)
            }
        }
    }

    fn load_words(&mut self, elem: Elem, place: &Place, mask: Option<VReg>) -> VReg {
        let from = Arg::Mem(self.address(&place.addr, elem));
        match (mask, self.wide) {
            (None, _) => self.vector(table::LOAD, &[from]),
            (Some(mask), Wide::Avx2) => self.vector(table::MASKED_LOAD, &[Arg::Use(mask, View::Whole), from]),
            (Some(mask), Wide::Avx512) => self.vector_or_zero(table::LOAD, &[from], mask),
        }
    }

    fn load_bytes(&mut self, place: &Place, mask: Option<VReg>) -> VReg {
        let from = Arg::Mem(self.address(&place.addr, Elem::Bool));
        let words = match mask {
            None => self.vector(table::WIDEN_BYTES, &[from]),
            Some(mask) => {
                let bytes = self.code.register(VECTOR);
                let args = [Arg::Def(bytes, View::Xmm), from];
                self.push_masked(table::LOAD_BYTES.on(self.wide), &args, mask, true);
                self.vector(table::WIDEN_BYTES, &[Arg::Use(bytes, View::Xmm)])
            }
        };
        self.nonzero(words)
    }

    fn load_one(&mut self, elem: Elem, place: &Place) -> VReg {
        let mut from = Arg::Mem(self.address(&place.addr, elem));
        // Without a mask of its own it is not masked by the strip.
        let mask = place.mask.and_then(|mask| self.active(Some(mask)));
        if let Some(mask) = mask {
            let there = self.general(Opcode::Lea_r64_m, View::R64, &[from]);
            let elsewhere = self.elsewhere();
            let bits = self.bits(mask);
            self.push(Opcode::Test_rm32_r32, &[Arg::Use(bits, View::R32), Arg::Use(bits, View::R32)]);
            let safe = self.code.register(INT);
            let args = [Arg::Tied(safe, there, View::R64), Arg::Use(elsewhere, View::R64)];
            self.push(Opcode::Cmove_r64_rm64, &args);
            from = at(safe);
        }
        match elem {
            Elem::F32 | Elem::I32 => {
                let all = self.vector(table::LOAD_BROADCAST, &[from]);
                mask.map_or(all, |mask| self.keep(mask, all))
            }
            Elem::F16 => {
                let half = self.general(Opcode::Movzx_r32_rm16, View::R32, &[from]);
                let row = table::FROM_GENERAL.on(self.wide);
                let half = self.new_register(VECTOR, View::Xmm, row, &[Arg::Use(half, View::R32)]);
                let first = self.vector(table::WIDEN_HALVES, &[Arg::Use(half, View::Half)]);
                let all = self.vector(table::BROADCAST, &[Arg::Use(first, View::Xmm)]);
                mask.map_or(all, |mask| self.keep(mask, all))
            }
            Elem::Bool => {
                let ones = self.ones_if_nonzero(from);
                let all = self.mask_of_bits(ones);
                mask.map_or(all, |mask| self.both(mask, all))
            }
        }
    }

    fn load_lanes(&mut self, elem: Elem, place: &Place, mask: Option<VReg>) -> VReg {
        let mut walk = self.walk(elem, place, mask);
        let (row, size) = match elem {
            Elem::F32 | Elem::I32 | Elem::Bool => (table::LOAD, 4),
            Elem::F16 => (table::WIDEN_HALVES, 2),
        };
        for lane in 0..self.wide.lanes() {
            let from = at(self.lane_address(&mut walk, lane));
            let value = match elem {
                Elem::F32 | Elem::I32 => self.general(Opcode::Mov_r32_rm32, View::R32, &[from]),
                Elem::F16 => self.general(Opcode::Movzx_r32_rm16, View::R32, &[from]),
                Elem::Bool => self.general(Opcode::Movzx_r32_rm8, View::R32, &[from]),
            };
            // Halves lie as close as in memory: the next takes the place of what is written past one.
            let to = scratch(VALUES + size * lane as i32);
            self.push(Opcode::Mov_rm32_r32, &[to, Arg::Use(value, View::R32)]);
        }
        let all = self.vector(row, &[scratch(VALUES)]);
        match elem {
            Elem::F32 | Elem::F16 | Elem::I32 => mask.map_or(all, |mask| self.keep(mask, all)),
            Elem::Bool => {
                let all = self.nonzero(all);
                mask.map_or(all, |mask| self.both(mask, all))
            }
        }
    }

    pub(super) fn store(&mut self, elem: Elem, place: &Place, value: Value) {
        let value = self.get(value);
        if place.access == Access::One {
            return self.store_one(elem, place, value);
        }
        let mask = self.active(place.mask);
        match (place.access, elem, self.wide, mask) {
            (Access::Unit, Elem::F32 | Elem::I32, _, _) => {
                let to = Arg::Mem(self.address(&place.addr, elem));
                let value = Arg::Use(value, View::Whole);
                match (mask, self.wide) {
                    (None, _) => self.push(table::STORE.on(self.wide), &[to, value]),
                    (Some(mask), Wide::Avx2) => {
                        let args = [to, Arg::Use(mask, View::Whole), value];
                        self.push(table::MASKED_STORE.on(self.wide), &args);
                    }
                    (Some(mask), Wide::Avx512) => {
                        self.push_masked(table::STORE.on(self.wide), &[to, value], mask, false);
                    }
                }
            }
            (Access::Unit, Elem::Bool, Wide::Avx512, _) => {
                let to = Arg::Mem(self.address(&place.addr, elem));
                let bytes = self.code.register(VECTOR);
                let ones = self.constant(Constant::ByteOnes);
                let args = [Arg::Def(bytes, View::Xmm), Arg::Use(ones, View::Xmm)];
                self.push_masked(table::LOAD_BYTES.on(self.wide), &args, value, true);
                let args = [to, Arg::Use(bytes, View::Xmm)];
                let opcode = table::STORE_BYTES.on(self.wide);
                match mask {
                    None => self.push(opcode, &args),
                    Some(mask) => self.push_masked(opcode, &args, mask, false),
                }
            }
            (Access::Unit, Elem::Bool, Wide::Avx2, None) => {
                let to = Arg::Mem(self.address(&place.addr, elem));
                let high = self.code.register(VECTOR);
                let args = [Arg::Def(high, View::Half), Arg::Use(value, View::Whole), Arg::Imm8(1)];
                self.push(table::HIGH_HALF.on(self.wide), &args);
                let ones = self.constant(Constant::ByteOnes);
                let mut packed = value;
                for (row, with) in
                    [(table::PACK_TO_I16, high), (table::PACK_TO_I8, high), (table::AND_128, ones)]
                {
                    let args = [Arg::Use(packed, View::Xmm), Arg::Use(with, View::Xmm)];
                    packed = self.new_register(VECTOR, View::Xmm, row.on(self.wide), &args);
                }
                self.push(table::STORE_QUAD.on(self.wide), &[to, Arg::Use(packed, View::Xmm)]);
            }
            (Access::Unit | Access::Strided(_) | Access::Indexed { .. } | Access::One, _, _, _) => {
                self.store_lanes(elem, place, value, mask);
            }
        }
    }

    fn store_one(&mut self, elem: Elem, place: &Place, value: VReg) {
        let mut to = Arg::Mem(self.address(&place.addr, elem));
        if let Some(mask) = place.mask.and_then(|mask| self.active(Some(mask))) {
            let there = self.general(Opcode::Lea_r64_m, View::R64, &[to]);
            let elsewhere = self.elsewhere();
            let bits = self.bits(mask);
            to = at(self.redirected(there, bits, 0, elsewhere));
        }
        match elem {
            Elem::F16 => unreachable!("a half is never stored: verified"),
            Elem::F32 | Elem::I32 => {
                self.push(table::STORE_FIRST.on(self.wide), &[to, Arg::Use(value, View::Xmm)]);
            }
            Elem::Bool => {
                let bits = self.bits(value);
                self.store_bit(to, bits);
            }
        }
    }

    /// Stores the lowest bit as a byte.
    fn store_bit(&mut self, to: Arg, bits: VReg) {
        let bit = self.code.register(INT);
        self.push(Opcode::And_rm32_imm8, &[Arg::Tied(bit, bits, View::R32), Arg::Imm8To32(1)]);
        self.push(Opcode::Mov_rm8_r8, &[to, Arg::Use(bit, View::R8)]);
    }

    /// Lane by lane, in order.
    fn store_lanes(&mut self, elem: Elem, place: &Place, value: VReg, mask: Option<VReg>) {
        let value = match (elem, self.wide) {
            (Elem::Bool, Wide::Avx512) => {
                let one = self.constant(Constant::Splat(1));
                self.keep(value, one)
            }
            (Elem::F32 | Elem::F16 | Elem::I32 | Elem::Bool, _) => value,
        };
        self.push(table::STORE.on(self.wide), &[scratch(VALUES), Arg::Use(value, View::Whole)]);
        let mut walk = self.walk(elem, place, mask);
        for lane in 0..self.wide.lanes() {
            let from = scratch(VALUES + 4 * lane as i32);
            let word = self.general(Opcode::Mov_r32_rm32, View::R32, &[from]);
            let to = at(self.lane_address(&mut walk, lane));
            match elem {
                Elem::F32 | Elem::I32 => self.push(Opcode::Mov_rm32_r32, &[to, Arg::Use(word, View::R32)]),
                Elem::F16 => unreachable!("a half is never stored: verified"),
                Elem::Bool => self.store_bit(to, word),
            }
        }
    }

    /// The mask of a place within the present strip; `None` if all lanes are active.
    fn active(&mut self, mask: Option<Value>) -> Option<VReg> {
        let mask = mask.map(|mask| self.get(mask));
        let strip = self.strip.map(|strip| strip.mask);
        match (mask, strip) {
            (Some(mask), Some(strip)) => Some(self.both(mask, strip)),
            (one, other) => one.or(other),
        }
    }

    /// The address of the word that inactive lanes touch.
    fn elsewhere(&mut self) -> VReg {
        self.general(Opcode::Lea_r64_m, View::R64, &[scratch(ELSEWHERE)])
    }

    /// `there` if a bit is set, else `elsewhere`.
    fn redirected(&mut self, there: VReg, bits: VReg, bit: usize, elsewhere: VReg) -> VReg {
        self.push(Opcode::Bt_rm32_imm8, &[Arg::Use(bits, View::R32), Arg::Imm8(bit as u8)]);
        let safe = self.code.register(INT);
        let args = [Arg::Tied(safe, there, View::R64), Arg::Use(elsewhere, View::R64)];
        self.push(Opcode::Cmovae_r64_rm64, &args);
        safe
    }

    fn walk(&mut self, elem: Elem, place: &Place, mask: Option<VReg>) -> Walk {
        let start = Arg::Mem(self.address(&place.addr, elem));
        let start = self.general(Opcode::Lea_r64_m, View::R64, &[start]);
        let steps = match place.access {
            Access::Unit | Access::One => Steps::Unit,
            Access::Strided(stride) => Steps::Stride(self.get(stride)),
            Access::Indexed { index, stride } => {
                let index = self.get(index);
                let store = table::STORE.on(self.wide);
                self.push(store, &[scratch(INDICES), Arg::Use(index, View::Whole)]);
                Steps::Indices(self.get(stride))
            }
        };
        let mask = mask.map(|mask| (self.bits(mask), self.elsewhere()));
        Walk { elem, start, next: start, steps, mask }
    }

    /// Where a lane is, or a harmless word if it is inactive. Lanes are asked for in order.
    fn lane_address(&mut self, walk: &mut Walk, lane: usize) -> VReg {
        let size = walk.elem.size();
        let indexed = |register: VReg, index: VReg| {
            let index = Some((index, size as u8));
            Arg::Mem(Mem { base: Base::Register(register), index, distance: 0 })
        };
        let address = match walk.steps {
            Steps::Unit => self.add_int(walk.start, lane as i64 * size),
            Steps::Stride(stride) => {
                let here = walk.next;
                walk.next = self.general(Opcode::Lea_r64_m, View::R64, &[indexed(here, stride)]);
                here
            }
            Steps::Indices(stride) => {
                let from = scratch(INDICES + 4 * lane as i32);
                let index = self.general(Opcode::Movsxd_r64_rm32, View::R64, &[from]);
                let elems = self.code.register(INT);
                let args = [Arg::Tied(elems, index, View::R64), Arg::Use(stride, View::R64)];
                self.push(Opcode::Imul_r64_rm64, &args);
                self.general(Opcode::Lea_r64_m, View::R64, &[indexed(walk.start, elems)])
            }
        };
        match walk.mask {
            None => address,
            Some((bits, elsewhere)) => self.redirected(address, bits, lane, elsewhere),
        }
    }
}

/// A way through the lanes of a place, one by one.
struct Walk {
    elem: Elem,
    start: VReg,
    /// Where the next lane is, if lanes are a stride apart.
    next: VReg,
    steps: Steps,
    /// The bits of the active lanes, and where the others go.
    mask: Option<(VReg, VReg)>,
}

enum Steps {
    Unit,
    Stride(VReg),
    Indices(VReg),
}
