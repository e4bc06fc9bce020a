//! What vector code is written for, in four parts that are chosen apart: how wide vectors are, what a mask is, how
//! instructions are encoded, and which extensions the processor has.

use crate::target::{Feature, Isa};

/// The width of a vector register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    /// 256 bits: ymm registers.
    W256,
    /// 512 bits: zmm registers.
    W512,
}

impl Width {
    /// Lanes of 32 bits.
    pub(crate) const fn lanes(self) -> usize {
        match self {
            Width::W256 => 8,
            Width::W512 => 16,
        }
    }
}

/// What a mask is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MaskKind {
    /// A vector whose lanes are all ones or zeros.
    Vector,
    /// A mask register, with a bit for each lane.
    Register,
}

/// How vector instructions are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    /// Of AVX: 16 vector registers.
    Vex,
    /// Of AVX-512: 32 vector registers, and a mask register on most instructions.
    Evex,
}

impl Encoding {
    /// How many vector registers an instruction can name.
    pub(super) const fn registers(self) -> usize {
        match self {
            Encoding::Vex => 16,
            Encoding::Evex => 32,
        }
    }
}

/// A set of extensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Features(u16);

impl Features {
    pub(super) const fn of(features: &[Feature]) -> Features {
        let (mut bits, mut at) = (0, 0);
        while at < features.len() {
            bits |= 1 << features[at] as u16;
            at += 1;
        }
        Features(bits)
    }

    pub(super) const fn and(self, others: Features) -> Features {
        Features(self.0 | others.0)
    }

    pub(super) const fn include(self, others: Features) -> bool {
        self.0 & others.0 == others.0
    }
}

/// The instruction set that vector code is written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VectorIsa {
    pub(crate) width: Width,
    pub(super) masks: MaskKind,
    pub(super) encoding: Encoding,
    pub(super) features: Features,
}

impl VectorIsa {
    pub(crate) const AVX2: VectorIsa = VectorIsa {
        width: Width::W256,
        masks: MaskKind::Vector,
        encoding: Encoding::Vex,
        features: Features::of(Isa::Avx2.features()),
    };

    pub(crate) const AVX512: VectorIsa = VectorIsa {
        width: Width::W512,
        masks: MaskKind::Register,
        encoding: Encoding::Evex,
        features: Features::of(Isa::Avx512.features()),
    };

    /// AVX-512 with vectors of 256 bits. Users cannot choose it: it shows that a set of instructions is a value.
    pub(crate) const AVX512_OF_256: VectorIsa = VectorIsa { width: Width::W256, ..VectorIsa::AVX512 };

    /// Lanes of a vector.
    pub(crate) const fn lanes(self) -> usize {
        self.width.lanes()
    }
}
