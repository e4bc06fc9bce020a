//! Masks, of whichever kind: vectors of all ones and zeros, or mask registers.

use regalloc2::VReg;
use salient_vector::Ty;

use super::code::Masking;
use super::isa::MaskKind;
use super::lower::{Constant, In, Lower};
use super::table;

/// What a comparison asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Predicate {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
}

impl Predicate {
    /// As vcmpps takes it: ordered and quiet, but for "not equal", which holds for NaN.
    const fn of_f32(self) -> u8 {
        match self {
            Predicate::Equal => 0x00,
            Predicate::NotEqual => 0x04,
            Predicate::Less => 0x11,
            Predicate::LessOrEqual => 0x12,
        }
    }

    /// As vpcmpd takes it: the same, in the lower bits.
    const fn of_i32(self) -> u8 {
        self.of_f32() & 7
    }
}

impl Lower<'_> {
    /// The mask of the lanes of floats that compare so.
    pub(super) fn compare_f32(&mut self, predicate: Predicate, a: VReg, b: VReg) -> VReg {
        self.apply(table::COMPARE_F32, &[a.into(), b.into(), In::Byte(predicate.of_f32())])
    }

    /// The mask of the lanes of integers that compare so.
    pub(super) fn compare_i32(&mut self, predicate: Predicate, a: VReg, b: VReg) -> VReg {
        match (self.isa.masks, predicate) {
            (MaskKind::Register, _) => {
                self.apply(table::COMPARE_I32, &[a.into(), b.into(), In::Byte(predicate.of_i32())])
            }
            (MaskKind::Vector, Predicate::Equal) => self.of_registers(table::EQUAL_I32, &[a, b]),
            (MaskKind::Vector, Predicate::Less) => self.of_registers(table::GREATER_I32, &[b, a]),
            (MaskKind::Vector, Predicate::NotEqual) => {
                let equal = self.of_registers(table::EQUAL_I32, &[a, b]);
                self.not_mask(equal)
            }
            (MaskKind::Vector, Predicate::LessOrEqual) => {
                let greater = self.of_registers(table::GREATER_I32, &[a, b]);
                self.not_mask(greater)
            }
        }
    }

    /// The mask of the lanes where `a < b`.
    pub(super) fn less_i32(&mut self, a: VReg, b: VReg) -> VReg {
        self.compare_i32(Predicate::Less, a, b)
    }

    /// The mask of the lanes of integers that are not zero, which must not be negative where masks are vectors.
    pub(super) fn nonzero(&mut self, a: VReg) -> VReg {
        match self.isa.masks {
            MaskKind::Vector => {
                let zero = self.constant(Constant::Splat(0));
                self.of_registers(table::GREATER_I32, &[a, zero])
            }
            MaskKind::Register => self.of_registers(table::TEST_I32, &[a, a]),
        }
    }

    /// The vector, with zero in the lanes where `divisor` is zero.
    pub(super) fn unless_zero(&mut self, divisor: VReg, vector: VReg) -> VReg {
        match self.isa.masks {
            MaskKind::Vector => {
                let zero = self.constant(Constant::Splat(0));
                let by_zero = self.of_registers(table::EQUAL_I32, &[divisor, zero]);
                self.of_registers(table::AND_NOT, &[by_zero, vector])
            }
            MaskKind::Register => {
                let nonzero = self.nonzero(divisor);
                self.keep(nonzero, vector)
            }
        }
    }

    /// Both masks.
    pub(super) fn both(&mut self, a: VReg, b: VReg) -> VReg {
        self.of_registers(table::MASK_AND, &[a, b])
    }

    pub(super) fn not_mask(&mut self, a: VReg) -> VReg {
        match self.isa.masks {
            MaskKind::Vector => self.combined(table::XOR, a, u32::MAX),
            MaskKind::Register => self.of_registers(table::MASK_NOT, &[a]),
        }
    }

    /// `yes` where the mask is true, else `no`.
    pub(super) fn select(&mut self, ty: Ty, mask: VReg, yes: VReg, no: VReg) -> VReg {
        match (self.isa.masks, ty) {
            (MaskKind::Vector, _) => self.of_registers(table::BLEND, &[no, yes, mask]),
            (MaskKind::Register, Ty::Mask) => {
                let yes = self.of_registers(table::MASK_AND, &[mask, yes]);
                let no = self.of_registers(table::MASK_AND_NOT, &[mask, no]);
                self.of_registers(table::MASK_OR, &[yes, no])
            }
            (MaskKind::Register, Ty::F32 | Ty::I32 | Ty::Int | Ty::Ptr | Ty::PtrMut) => {
                let lanes = Masking { mask, zeroing: false };
                self.apply_in(lanes, table::BLEND_LANES, &[no.into(), yes.into()])
            }
        }
    }

    /// The vector where the mask is true, else zero.
    pub(super) fn keep(&mut self, mask: VReg, vector: VReg) -> VReg {
        match self.isa.masks {
            MaskKind::Vector => self.of_registers(table::AND, &[mask, vector]),
            MaskKind::Register => {
                self.apply_in(Masking { mask, zeroing: true }, table::LOAD, &[vector.into()])
            }
        }
    }

    /// The lanes of a mask as the low bits of a general register; the others are zero.
    pub(super) fn bits(&mut self, mask: VReg) -> VReg {
        self.of_registers(table::MASK_TO_GENERAL, &[mask])
    }

    /// A mask of all lanes or none from a general register of all ones or zeros.
    pub(super) fn mask_of_bits(&mut self, bits: VReg) -> VReg {
        match self.isa.masks {
            MaskKind::Vector => self.splat(bits),
            MaskKind::Register => self.of_registers(table::MASK_FROM_GENERAL, &[bits]),
        }
    }
}
