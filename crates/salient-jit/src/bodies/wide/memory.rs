//! Places as machine code: addresses, loads and stores.
//!
//! Consecutive elements move at once, under a mask where lanes are inactive. Spread elements, and masked bytes on AVX2, move one by
//! one, without branches: an inactive lane is sent to a word of scratch memory that nobody needs. Loads put them together in
//! registers, stores take them from scratch memory.

use iced_x86::Code as Opcode;
use regalloc2::VReg;
use salient_vector::body::{Access, Addr};
use salient_vector::{Elem, Place, Value};

use super::code::{Arg, Base, INT, Masking, Mem, View};
use super::isa::MaskKind;
use super::lower::{Constant, In, Lower};
use super::table::{self, InstructionRow};
use crate::bodies::skeleton::Backend;

/// Where scratch memory holds the vector that is taken to pieces or put together.
const VALUES: i32 = 0;
/// Where it holds the indices of a gather or scatter.
const INDICES: i32 = 64;
/// The word that inactive lanes touch.
const ELSEWHERE: i32 = 128;

fn scratch(at: i32) -> Mem<VReg> {
    Mem::new(Base::Scratch(at))
}

fn at(register: VReg) -> Mem<VReg> {
    Mem::new(Base::Register(register))
}

impl Lower<'_> {
    /// An address as an operand.
    pub(super) fn mem(&mut self, addr: &Addr, elem: Elem) -> Mem<VReg> {
        let mut base = self.get(addr.base);
        let mut elems = i64::from(addr.elems) + i64::from(addr.lanes) * self.isa.lanes() as i64;
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

    pub(super) fn load_integer(&mut self, elem: Elem, addr: &Addr) -> VReg {
        let from = self.mem(addr, elem);
        match elem {
            Elem::F32 | Elem::F16 | Elem::I32 => {
                self.general(Opcode::Movsxd_r64_rm32, View::R64, &[Arg::Mem(from)])
            }
            Elem::Bool => {
                let ones = self.ones_if_nonzero(from);
                let one = self.code.register(INT);
                self.push(Opcode::And_rm32_imm8, &[Arg::Tied(one, ones, View::R32), Arg::Imm8To32(1)]);
                one
            }
        }
    }

    /// All ones if a byte in memory is not zero, else zero, in 32 bits.
    fn ones_if_nonzero(&mut self, byte: Mem<VReg>) -> VReg {
        let value = self.general(Opcode::Movzx_r32_rm8, View::R32, &[Arg::Mem(byte)]);
        let negative = self.code.register(INT);
        self.push(Opcode::Neg_rm32, &[Arg::Tied(negative, value, View::R32)]);
        let ones = self.code.register(INT);
        let same = Arg::Use(negative, View::R32);
        self.push(Opcode::Sbb_r32_rm32, &[Arg::Tied(ones, negative, View::R32), same]);
        ones
    }

    pub(super) fn load_place(&mut self, elem: Elem, place: &Place) -> VReg {
        if place.access == Access::One {
            return self.load_one(elem, place);
        }
        let mask = self.active(place.mask);
        let bytes = mask.is_none() || table::LOAD_BYTES.is_on(self.isa);
        match (place.access, elem) {
            (Access::Unit, Elem::F32 | Elem::I32) => self.load_words(elem, place, mask),
            (Access::Unit, Elem::F16) if mask.is_none() => {
                let from = self.mem(&place.addr, elem);
                self.apply(table::WIDEN_HALVES, &[from.into()])
            }
            (Access::Unit, Elem::Bool) if bytes => self.load_bytes(place, mask),
            (Access::Unit | Access::Strided(_) | Access::Indexed { .. } | Access::One, _) => {
                self.load_lanes(elem, place, mask)
            }
        }
    }

    fn load_words(&mut self, elem: Elem, place: &Place, mask: Option<VReg>) -> VReg {
        let from = In::Memory(self.mem(&place.addr, elem));
        match (mask, self.isa.masks) {
            (None, _) => self.apply(table::LOAD, &[from]),
            (Some(mask), MaskKind::Vector) => self.apply(table::MASKED_LOAD, &[mask.into(), from]),
            (Some(mask), MaskKind::Register) => {
                self.apply_in(Masking { mask, zeroing: true }, table::LOAD, &[from])
            }
        }
    }

    fn load_bytes(&mut self, place: &Place, mask: Option<VReg>) -> VReg {
        let from = In::Memory(self.mem(&place.addr, Elem::Bool));
        let bytes = match mask {
            None => from,
            Some(mask) => self.apply_in(Masking { mask, zeroing: true }, table::LOAD_BYTES, &[from]).into(),
        };
        let words = self.apply(table::WIDEN_BYTES, &[bytes]);
        self.nonzero(words)
    }

    fn load_one(&mut self, elem: Elem, place: &Place) -> VReg {
        let mut from = self.mem(&place.addr, elem);
        // Without a mask of its own it is not masked by the last strip.
        let mask = place.mask.and_then(|mask| self.active(Some(mask)));
        if let Some(mask) = mask {
            let there = self.general(Opcode::Lea_r64_m, View::R64, &[Arg::Mem(from)]);
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
                let all = self.apply(table::LOAD_BROADCAST, &[from.into()]);
                mask.map_or(all, |mask| self.keep(mask, all))
            }
            Elem::F16 => {
                let half = self.general(Opcode::Movzx_r32_rm16, View::R32, &[Arg::Mem(from)]);
                let half = self.of_registers(table::FROM_GENERAL, &[half]);
                let first = self.of_registers(table::WIDEN_HALVES, &[half]);
                let all = self.of_registers(table::BROADCAST, &[first]);
                mask.map_or(all, |mask| self.keep(mask, all))
            }
            Elem::Bool => {
                let ones = self.ones_if_nonzero(from);
                let all = self.mask_of_bits(ones);
                mask.map_or(all, |mask| self.both(mask, all))
            }
        }
    }

    /// Lane by lane, put together in registers: a vector that is read from memory that was just written lane by lane has to wait
    /// until the cache holds them all.
    fn load_lanes(&mut self, elem: Elem, place: &Place, mask: Option<VReg>) -> VReg {
        let mut walk = self.walk(elem, place, mask);
        let insert = match elem {
            Elem::F32 | Elem::I32 => table::INSERT_WORD,
            Elem::F16 => table::INSERT_I16,
            Elem::Bool => table::INSERT_I8,
        };
        let lanes = if insert.is_on(self.isa) {
            In::Register(self.lanes_in_registers(insert, &mut walk))
        } else {
            In::Memory(self.lanes_in_memory(&mut walk))
        };
        let all = match (elem, lanes) {
            (Elem::F32 | Elem::I32, In::Register(words)) => words,
            (Elem::F32 | Elem::I32, words) => self.apply(table::LOAD, &[words]),
            (Elem::F16, halves) => self.apply(table::WIDEN_HALVES, &[halves]),
            (Elem::Bool, bytes) => {
                let words = self.apply(table::WIDEN_BYTES, &[bytes]);
                let all = self.nonzero(words);
                return mask.map_or(all, |mask| self.both(mask, all));
            }
        };
        mask.map_or(all, |mask| self.keep(mask, all))
    }

    /// The elements of all lanes, as close as in memory, in parts of 128 bits.
    fn lanes_in_registers(&mut self, insert: &InstructionRow, walk: &mut Walk) -> VReg {
        let size = walk.elem.size() as usize;
        let (lanes, in_part) = (self.isa.lanes(), 16 / size);
        let mut all = None;
        for start in (0..lanes).step_by(in_part) {
            let first = at(self.lane_address(walk, start));
            let mut part = match walk.elem {
                Elem::F32 | Elem::I32 => self.apply(table::LOAD_FIRST, &[first.into()]),
                Elem::F16 => self.first_of_general(Opcode::Movzx_r32_rm16, first),
                Elem::Bool => self.first_of_general(Opcode::Movzx_r32_rm8, first),
            };
            for lane in 1..in_part.min(lanes - start) {
                let from = at(self.lane_address(walk, start + lane));
                // Of a word the upper bits of the byte say where it goes.
                let to = In::Byte(if size == 4 { lane << 4 } else { lane } as u8);
                part = self.apply(insert, &[part.into(), from.into(), to]);
            }
            all = Some(match all {
                None => part,
                Some(before) => {
                    let to = In::Byte((start / in_part) as u8);
                    self.apply(table::INSERT_128, &[VReg::into(before), part.into(), to])
                }
            });
        }
        all.expect("a vector has lanes")
    }

    /// A vector with an element of memory in its first lane.
    fn first_of_general(&mut self, load: Opcode, from: Mem<VReg>) -> VReg {
        let value = self.general(load, View::R32, &[Arg::Mem(from)]);
        self.of_registers(table::FROM_GENERAL, &[value])
    }

    /// The elements of all lanes in scratch memory, as close as where they come from: the next takes the place of what is written
    /// past one.
    fn lanes_in_memory(&mut self, walk: &mut Walk) -> Mem<VReg> {
        let (elem, size) = (walk.elem, walk.elem.size() as i32);
        for lane in 0..self.isa.lanes() {
            let from = Arg::Mem(at(self.lane_address(walk, lane)));
            let value = match elem {
                Elem::F32 | Elem::I32 => self.general(Opcode::Mov_r32_rm32, View::R32, &[from]),
                Elem::F16 => self.general(Opcode::Movzx_r32_rm16, View::R32, &[from]),
                Elem::Bool => self.general(Opcode::Movzx_r32_rm8, View::R32, &[from]),
            };
            let to = scratch(VALUES + size * lane as i32);
            self.push(Opcode::Mov_rm32_r32, &[Arg::Mem(to), Arg::Use(value, View::R32)]);
        }
        scratch(VALUES)
    }

    pub(super) fn store_place(&mut self, elem: Elem, place: &Place, value: VReg) {
        if place.access == Access::One {
            return self.store_one(elem, place, value);
        }
        let mask = self.active(place.mask);
        match (place.access, elem, self.isa.masks, mask) {
            (Access::Unit, Elem::F32 | Elem::I32, _, _) => self.store_words(elem, place, value, mask),
            (Access::Unit, Elem::Bool, MaskKind::Register, _) => self.store_bytes(place, value, mask),
            (Access::Unit, Elem::Bool, MaskKind::Vector, None) => self.store_packed(place, value),
            (Access::Unit | Access::Strided(_) | Access::Indexed { .. } | Access::One, _, _, _) => {
                self.store_lanes(elem, place, value, mask);
            }
        }
    }

    fn store_words(&mut self, elem: Elem, place: &Place, value: VReg, mask: Option<VReg>) {
        let to = self.mem(&place.addr, elem);
        match (mask, self.isa.masks) {
            (None, _) => self.write(table::STORE, to, &[value.into()]),
            (Some(mask), MaskKind::Vector) => {
                self.write(table::MASKED_STORE, to, &[mask.into(), value.into()]);
            }
            (Some(mask), MaskKind::Register) => self.write_in(mask, table::STORE, to, value),
        }
    }

    /// Truth values from a mask register: ones where it is set.
    fn store_bytes(&mut self, place: &Place, value: VReg, mask: Option<VReg>) {
        let to = self.mem(&place.addr, Elem::Bool);
        let bytes = self.result(table::LOAD_BYTES);
        let ones = self.constant(Constant::ByteOnes);
        let lanes = Masking { mask: value, zeroing: true };
        self.apply_to(bytes, table::LOAD_BYTES, &[ones.into()], Some(lanes));
        match mask {
            None => self.write(table::STORE_ALL_BYTES, to, &[bytes.into()]),
            Some(mask) => self.write_in(mask, table::STORE_BYTES, to, bytes),
        }
    }

    /// Truth values from a vector of all ones and zeros: its words packed to bytes.
    fn store_packed(&mut self, place: &Place, value: VReg) {
        let to = self.mem(&place.addr, Elem::Bool);
        let high = self.apply(table::HIGH_HALF, &[value.into(), In::Byte(1)]);
        let ones = self.constant(Constant::ByteOnes);
        let mut packed = value;
        for (row, with) in [(table::PACK_TO_I16, high), (table::PACK_TO_I8, high), (table::AND_128, ones)] {
            packed = self.of_registers(row, &[packed, with]);
        }
        self.write(table::STORE_ALL_BYTES, to, &[packed.into()]);
    }

    fn store_one(&mut self, elem: Elem, place: &Place, value: VReg) {
        let mut to = self.mem(&place.addr, elem);
        if let Some(mask) = place.mask.and_then(|mask| self.active(Some(mask))) {
            let there = self.general(Opcode::Lea_r64_m, View::R64, &[Arg::Mem(to)]);
            let elsewhere = self.elsewhere();
            let bits = self.bits(mask);
            to = at(self.redirected(there, bits, 0, elsewhere));
        }
        match elem {
            Elem::F16 => unreachable!("a half is never stored: verified"),
            Elem::F32 | Elem::I32 => self.write(table::STORE_FIRST, to, &[value.into()]),
            Elem::Bool => {
                let bits = self.bits(value);
                self.store_bit(to, bits);
            }
        }
    }

    /// Stores the lowest bit as a byte.
    fn store_bit(&mut self, to: Mem<VReg>, bits: VReg) {
        let bit = self.code.register(INT);
        self.push(Opcode::And_rm32_imm8, &[Arg::Tied(bit, bits, View::R32), Arg::Imm8To32(1)]);
        self.push(Opcode::Mov_rm8_r8, &[Arg::Mem(to), Arg::Use(bit, View::R8)]);
    }

    /// Lane by lane, in order.
    fn store_lanes(&mut self, elem: Elem, place: &Place, value: VReg, mask: Option<VReg>) {
        let value = match (elem, self.isa.masks) {
            (Elem::Bool, MaskKind::Register) => {
                let one = self.constant(Constant::Splat(1));
                self.keep(value, one)
            }
            (Elem::F32 | Elem::F16 | Elem::I32 | Elem::Bool, _) => value,
        };
        self.write(table::STORE, scratch(VALUES), &[value.into()]);
        let mut walk = self.walk(elem, place, mask);
        for lane in 0..self.isa.lanes() {
            let from = Arg::Mem(scratch(VALUES + 4 * lane as i32));
            let word = self.general(Opcode::Mov_r32_rm32, View::R32, &[from]);
            let to = at(self.lane_address(&mut walk, lane));
            match elem {
                Elem::F32 | Elem::I32 => {
                    self.push(Opcode::Mov_rm32_r32, &[Arg::Mem(to), Arg::Use(word, View::R32)]);
                }
                Elem::F16 => unreachable!("a half is never stored: verified"),
                Elem::Bool => self.store_bit(to, word),
            }
        }
    }

    /// Four columns at a time: each of four vectors takes the same four words of every fourth row, so that what is left to exchange
    /// lies within 128 bits.
    pub(super) fn transpose_square(
        &mut self,
        (from, from_row): (VReg, VReg),
        (to, to_row): (VReg, VReg),
    ) -> VReg {
        let lanes = self.isa.lanes();
        let mut parts: Vec<[Option<VReg>; 4]> = vec![[None; 4]; lanes / 4];
        let mut start = from;
        for row in 0..lanes {
            if row > 0 {
                start = self.after_words(start, from_row);
            }
            for (column, part) in parts.iter_mut().enumerate() {
                let words = Mem { distance: 16 * column as i32, ..at(start) };
                let place = &mut part[row % 4];
                *place = Some(match *place {
                    None => self.apply(table::LOAD_BROADCAST_128, &[words.into()]),
                    Some(before) => {
                        let part = In::Byte((row / 4) as u8);
                        self.apply(table::INSERT_128, &[before.into(), words.into(), part])
                    }
                });
            }
        }
        let mut columns = Vec::with_capacity(lanes);
        for part in parts {
            let [a, b, c, d] = part.map(|vector| vector.expect("there are four rows at least"));
            let mut both = |row, x: VReg, y: VReg| self.of_registers(row, &[x, y]);
            let (ab, cd) = (both(table::LOW_WORDS, a, b), both(table::LOW_WORDS, c, d));
            columns.extend([both(table::LOW_PAIRS, ab, cd), both(table::HIGH_PAIRS, ab, cd)]);
            let (ab, cd) = (both(table::HIGH_WORDS, a, b), both(table::HIGH_WORDS, c, d));
            columns.extend([both(table::LOW_PAIRS, ab, cd), both(table::HIGH_PAIRS, ab, cd)]);
        }
        let mut start = to;
        for column in columns {
            self.write(table::STORE, at(start), &[column.into()]);
            start = self.after_words(start, to_row);
        }
        start
    }

    /// The mask of a place within the last strip; `None` if all lanes are active.
    fn active(&mut self, mask: Option<Value>) -> Option<VReg> {
        let mask = mask.map(|mask| self.get(mask));
        let strip = self.last_strip.map(|strip| strip.mask);
        match (mask, strip) {
            (Some(mask), Some(strip)) => Some(self.both(mask, strip)),
            (one, other) => one.or(other),
        }
    }

    /// The address of the word that inactive lanes touch.
    fn elsewhere(&mut self) -> VReg {
        self.general(Opcode::Lea_r64_m, View::R64, &[Arg::Mem(scratch(ELSEWHERE))])
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
        let start = Arg::Mem(self.mem(&place.addr, elem));
        let start = self.general(Opcode::Lea_r64_m, View::R64, &[start]);
        let steps = match place.access {
            Access::Unit | Access::One => LaneSteps::Unit,
            Access::Strided(stride) => LaneSteps::Stride(self.get(stride)),
            Access::Indexed { index, stride } => {
                let index = self.get(index);
                self.write(table::STORE, scratch(INDICES), &[index.into()]);
                LaneSteps::Indices(self.get(stride))
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
            LaneSteps::Unit => self.add_int(walk.start, lane as i64 * size),
            LaneSteps::Stride(stride) => {
                let here = walk.next;
                walk.next = self.general(Opcode::Lea_r64_m, View::R64, &[indexed(here, stride)]);
                here
            }
            LaneSteps::Indices(stride) => {
                let from = Arg::Mem(scratch(INDICES + 4 * lane as i32));
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
    steps: LaneSteps,
    /// The bits of the active lanes, and where the others go.
    mask: Option<(VReg, VReg)>,
}

enum LaneSteps {
    Unit,
    Stride(VReg),
    Indices(VReg),
}
