//! Places in Cranelift's IR: addresses, loads and stores.
//!
//! Whole vectors move at once; everything else lane by lane and without branches: an inactive lane is sent to an
//! address that is safe to touch. In a last strip that is lane 0's element for a load and the last active lane's for a store
//! (which is written again with the same value); under a mask of the author's own it is a slot on the stack.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use salient_vector::body::{Access, Addr};
use salient_vector::{Elem, Place, Ty};

use super::{Emit, LANES};
use crate::bodies::skeleton::Backend;

/// For each lane, its address and whether it is active (`None`: always).
type Spread = [(ir::Value, Option<ir::Value>); LANES];

impl Emit<'_> {
    /// An address as a base and a distance in bytes that fits an instruction.
    pub(super) fn base_and_distance(&mut self, addr: &Addr, elem: Elem) -> (ir::Value, i32) {
        let mut base = self.get(addr.base);
        if let Some(index) = addr.index {
            let index = self.get(index);
            let bytes = self.scaled(index, elem);
            base = self.b.ins().iadd(base, bytes);
        }
        let elems = i64::from(addr.elems) + i64::from(addr.lanes) * LANES as i64;
        match i32::try_from(elems * elem.size()) {
            Ok(distance) => (base, distance),
            Err(_) => (self.b.ins().iadd_imm_s(base, elems * elem.size()), 0),
        }
    }

    pub(super) fn load_integer(&mut self, elem: Elem, addr: &Addr) -> ir::Value {
        let (base, distance) = self.base_and_distance(addr, elem);
        let flags = self.flags(addr, false);
        match elem {
            Elem::F32 | Elem::F16 | Elem::I32 => self.b.ins().sload32(flags, base, distance),
            Elem::Bool => {
                let byte = self.b.ins().uload8(types::I64, flags, base, distance);
                let truth = self.b.ins().icmp_imm_s(IntCC::NotEqual, byte, 0);
                self.b.ins().uextend(types::I64, truth)
            }
        }
    }

    /// Word by word: all are read before the first is written.
    pub(super) fn transpose_square(
        &mut self,
        (mut from, from_row): (ir::Value, ir::Value),
        (mut to, to_row): (ir::Value, ir::Value),
    ) -> ir::Value {
        let flags = MemFlagsData::new().with_notrap();
        let mut words = Vec::with_capacity(LANES);
        for _ in 0..LANES {
            let row = [0, 4, 8, 12].map(|at| self.b.ins().load(types::F32, flags, from, at));
            words.push(row);
            from = self.after_words(from, from_row);
        }
        for column in 0..LANES {
            for (row, of_row) in words.iter().enumerate() {
                self.b.ins().store(flags, of_row[column], to, 4 * row as i32);
            }
            to = self.after_words(to, to_row);
        }
        to
    }

    pub(super) fn load_place(&mut self, elem: Elem, place: &Place) -> ir::Value {
        let bits = match (place.access, place.mask, self.last_strip) {
            (Access::One, _, _) => self.load_one(elem, place),
            (Access::Unit, None, None) => self.load_whole(elem, place),
            (Access::Unit | Access::Strided(_) | Access::Indexed { .. }, _, _) => {
                self.load_lanes(elem, place)
            }
        };
        match elem {
            Elem::F32 | Elem::I32 => bits,
            Elem::F16 => self.widened(bits),
            Elem::Bool => {
                let zero = self.lanes_of(types::I32X4, [0; LANES]);
                self.b.ins().icmp(IntCC::NotEqual, bits, zero)
            }
        }
    }

    /// One element in every lane; a byte or a half as an integer.
    fn load_one(&mut self, elem: Elem, place: &Place) -> ir::Value {
        let (mut base, mut distance) = self.base_and_distance(&place.addr, elem);
        let mut flags = self.flags(&place.addr, place.mask.is_some());
        let mask = place.mask.map(|mask| self.mask(mask));
        if let Some(mask) = mask {
            let any = self.b.ins().vany_true(mask);
            let there = self.b.ins().iadd_imm_s(base, i64::from(distance));
            let elsewhere = self.elsewhere();
            (base, distance) = (self.b.ins().select(any, there, elsewhere), 0);
            flags = MemFlagsData::new().with_notrap();
        }
        let (lane, vector) = lane_types(elem);
        let value = match elem {
            Elem::F32 | Elem::I32 => self.b.ins().load(lane, flags, base, distance),
            Elem::F16 => self.b.ins().uload16(lane, flags, base, distance),
            Elem::Bool => self.b.ins().uload8(lane, flags, base, distance),
        };
        let all = self.b.ins().splat(vector, value);
        mask.map_or(all, |mask| self.keep(mask, all))
    }

    /// All lanes from consecutive elements; bytes and halves as integers.
    fn load_whole(&mut self, elem: Elem, place: &Place) -> ir::Value {
        let (base, distance) = self.base_and_distance(&place.addr, elem);
        let flags = self.flags(&place.addr, false);
        match elem {
            Elem::F32 => self.b.ins().load(types::F32X4, flags, base, distance),
            Elem::I32 => self.b.ins().load(types::I32X4, flags, base, distance),
            Elem::F16 => {
                let four = self.b.ins().load(types::I64, flags, base, distance);
                let halves = self.b.ins().scalar_to_vector(types::I64X2, four);
                let halves = self.cast(types::I16X8, halves);
                self.b.ins().uwiden_low(halves)
            }
            Elem::Bool => {
                let four = self.b.ins().load(types::I32, flags, base, distance);
                let bytes = self.b.ins().scalar_to_vector(types::I32X4, four);
                let bytes = self.cast(types::I8X16, bytes);
                let halves = self.b.ins().uwiden_low(bytes);
                self.b.ins().uwiden_low(halves)
            }
        }
    }

    /// Lane by lane; bytes and halves as integers.
    fn load_lanes(&mut self, elem: Elem, place: &Place) -> ir::Value {
        let spread = self.spread(elem, place);
        let safe = match spread[0] {
            (first, None) => first,
            (_, Some(_)) => self.elsewhere(),
        };
        let mut flags = MemFlagsData::new().with_notrap();
        if self.body.ty(place.addr.base) == Ty::Ptr && place.mask.is_none() {
            flags = flags.with_readonly();
        }
        let (lane_type, vector) = lane_types(elem);
        let mut result = self.lanes_of(vector, [0; LANES]);
        for (lane, (address, active)) in spread.into_iter().enumerate() {
            let address = active.map_or(address, |active| self.b.ins().select(active, address, safe));
            let value = match elem {
                Elem::F32 | Elem::I32 => self.b.ins().load(lane_type, flags, address, 0),
                Elem::F16 => self.b.ins().uload16(lane_type, flags, address, 0),
                Elem::Bool => self.b.ins().uload8(lane_type, flags, address, 0),
            };
            result = self.b.ins().insertlane(result, value, lane as u8);
        }
        match place.mask {
            None => result,
            Some(mask) => {
                let mask = self.mask(mask);
                self.keep(mask, result)
            }
        }
    }

    /// The floats that halves in the low bits of their lanes stand for. Where a float has its exponent and mantissa, those of a
    /// half are a number 2^112 times too small, subnormal or not; infinities and NaNs have the largest exponent in either.
    fn widened(&mut self, halves: ir::Value) -> ir::Value {
        let [sign, magnitude, infinite, most] =
            [0x8000, 0x7fff, 0x1f << 23, 0xff << 23].map(|bits| self.lanes_of(types::I32X4, [bits; LANES]));
        let scale = self.lanes_of(types::F32X4, [2.0_f32.powi(112).to_bits(); LANES]);
        let sign = self.b.ins().band(halves, sign);
        let sign = self.b.ins().ishl_imm_u(sign, 16);
        let magnitude = self.b.ins().band(halves, magnitude);
        let magnitude = self.b.ins().ishl_imm_u(magnitude, 13);
        let small = self.cast(types::F32X4, magnitude);
        let value = self.b.ins().fmul(small, scale);
        let value = self.cast(types::I32X4, value);
        let beyond = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, magnitude, infinite);
        let beyond = self.b.ins().band(beyond, most);
        let value = self.b.ins().bor(value, beyond);
        let value = self.b.ins().bor(value, sign);
        self.cast(types::F32X4, value)
    }

    pub(super) fn store_place(&mut self, elem: Elem, place: &Place, value: ir::Value) {
        match (place.access, place.mask, self.last_strip) {
            (Access::One, _, _) => self.store_one(elem, place, value),
            (Access::Unit, None, None) => self.store_whole(elem, place, value),
            (Access::Unit | Access::Strided(_) | Access::Indexed { .. }, _, _) => {
                self.store_lanes(elem, place, value);
            }
        }
    }

    fn store_one(&mut self, elem: Elem, place: &Place, value: ir::Value) {
        let (mut base, mut distance) = self.base_and_distance(&place.addr, elem);
        if let Some(active) = place.mask.and_then(|mask| self.actives(Some(mask))[0]) {
            let there = self.b.ins().iadd_imm_s(base, i64::from(distance));
            let elsewhere = self.elsewhere();
            (base, distance) = (self.b.ins().select(active, there, elsewhere), 0);
        }
        let value = self.b.ins().extractlane(value, 0);
        self.store_element(elem, value, base, distance);
    }

    fn store_whole(&mut self, elem: Elem, place: &Place, value: ir::Value) {
        let (base, distance) = self.base_and_distance(&place.addr, elem);
        let flags = MemFlagsData::new().with_notrap();
        let value = match elem {
            Elem::F32 | Elem::I32 => value,
            Elem::F16 => unreachable!("a half is never stored: verified"),
            Elem::Bool => {
                let halves = self.b.ins().snarrow(value, value);
                let bytes = self.b.ins().snarrow(halves, halves);
                let words = self.cast(types::I32X4, bytes);
                let four = self.b.ins().extractlane(words, 0);
                self.b.ins().band_imm_u(four, 0x0101_0101)
            }
        };
        self.b.ins().store(flags, value, base, distance);
    }

    /// Lane by lane, in order.
    fn store_lanes(&mut self, elem: Elem, place: &Place, vector: ir::Value) {
        let spread = self.spread(elem, place);
        let mut last = match spread[0] {
            (_, None) => None,
            (_, Some(_)) => Some((self.elsewhere(), self.b.ins().extractlane(vector, 0))),
        };
        for (lane, (address, active)) in spread.into_iter().enumerate() {
            let value = self.b.ins().extractlane(vector, lane as u8);
            let (address, value) = match (active, last) {
                (Some(active), Some((safe, kept))) => {
                    (self.b.ins().select(active, address, safe), self.b.ins().select(active, value, kept))
                }
                (None, _) | (_, None) => (address, value),
            };
            self.store_element(elem, value, address, 0);
            last = Some((address, value));
        }
    }

    fn store_element(&mut self, elem: Elem, value: ir::Value, base: ir::Value, distance: i32) {
        let flags = MemFlagsData::new().with_notrap();
        match elem {
            Elem::F32 | Elem::I32 => self.b.ins().store(flags, value, base, distance),
            Elem::F16 => unreachable!("a half is never stored: verified"),
            Elem::Bool => {
                let bit = self.b.ins().band_imm_u(value, 1);
                self.b.ins().istore8(flags, bit, base, distance)
            }
        };
    }

    /// Where each lane is, and whether it is active.
    fn spread(&mut self, elem: Elem, place: &Place) -> Spread {
        let actives = self.actives(place.mask);
        let (base, distance) = self.base_and_distance(&place.addr, elem);
        let start = self.b.ins().iadd_imm_s(base, i64::from(distance));
        std::array::from_fn(|lane| {
            let address = match place.access {
                Access::Unit | Access::One => self.b.ins().iadd_imm_s(start, lane as i64 * elem.size()),
                Access::Strided(stride) => {
                    let stride = self.get(stride);
                    let elems = self.b.ins().imul_imm_s(stride, lane as i64);
                    let bytes = self.scaled(elems, elem);
                    self.b.ins().iadd(start, bytes)
                }
                Access::Indexed { index, stride } => {
                    let (index, stride) = (self.get(index), self.get(stride));
                    let index = self.b.ins().extractlane(index, lane as u8);
                    let index = self.b.ins().sextend(types::I64, index);
                    let elems = self.b.ins().imul(index, stride);
                    let bytes = self.scaled(elems, elem);
                    self.b.ins().iadd(start, bytes)
                }
            };
            (address, actives[lane])
        })
    }

    /// Whether each lane is active under the mask of a place and in the last strip; `None` where it always is.
    fn actives(&mut self, mask: Option<salient_vector::Value>) -> [Option<ir::Value>; LANES] {
        std::array::from_fn(|lane| {
            let in_strip = self.last_strip.filter(|_| lane > 0).map(|strip| self.above(strip.active, lane));
            let in_mask = mask.map(|mask| match self.bounds[mask.index()] {
                Some(bound) => self.above(bound, lane),
                None => {
                    let mask = self.get(mask);
                    let bits = self.b.ins().extractlane(mask, lane as u8);
                    self.b.ins().icmp_imm_s(IntCC::NotEqual, bits, 0)
                }
            });
            match (in_strip, in_mask) {
                (Some(a), Some(b)) => Some(self.b.ins().band(a, b)),
                (one, other) => one.or(other),
            }
        })
    }

    fn above(&mut self, bound: ir::Value, lane: usize) -> ir::Value {
        self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, bound, lane as i64)
    }

    /// The mask of a place within the last strip.
    fn mask(&mut self, mask: salient_vector::Value) -> ir::Value {
        let mask = self.get(mask);
        match self.last_strip {
            Some(strip) => self.b.ins().band(mask, strip.mask),
            None => mask,
        }
    }

    /// Zero where the mask is false.
    fn keep(&mut self, mask: ir::Value, value: ir::Value) -> ir::Value {
        let ty = self.b.func.dfg.value_type(value);
        let bits = self.cast(types::I32X4, value);
        let kept = self.b.ins().band(bits, mask);
        self.cast(ty, kept)
    }

    pub(super) fn scaled(&mut self, elems: ir::Value, elem: Elem) -> ir::Value {
        match elem.size() {
            1 => elems,
            size => self.b.ins().ishl_imm_u(elems, i64::from(size.trailing_zeros())),
        }
    }

    /// What Cranelift may assume of a load. Vectors are not aligned to their size. A load that may move must not leave a
    /// loop that may run no times: there the memory may not exist. So within loops only those move that change with the loop.
    fn flags(&self, addr: &Addr, masked: bool) -> MemFlagsData {
        let flags = MemFlagsData::new().with_notrap();
        if self.body.ty(addr.base) != Ty::Ptr || masked {
            return flags;
        }
        let changes = |changing: &Vec<bool>| addr.uses().any(|value| changing[value.index()]);
        let bound = self.changing.as_ref().is_none_or(changes);
        if bound { flags.with_readonly().with_can_move() } else { flags.with_readonly() }
    }
}

/// The types of a lane and of the vector that an element is loaded as.
fn lane_types(elem: Elem) -> (ir::Type, ir::Type) {
    match elem {
        Elem::F32 => (types::F32, types::F32X4),
        Elem::F16 | Elem::I32 | Elem::Bool => (types::I32, types::I32X4),
    }
}
