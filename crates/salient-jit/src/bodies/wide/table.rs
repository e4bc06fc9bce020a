//! Vector instructions by what they do: a row each, with the roles of its operands and its form in each encoding and width.
//!
//! Rows of the same roles stand together. Where an encoding lacks an instruction its form is [`Opcode::INVALID`]; lowering
//! asks whether a row is there where it can do without. Which registers and memory an instruction reads and writes follows
//! from the roles alone.

use iced_x86::Code as Opcode;
use iced_x86::Code::*;

use super::code::View::{self, Half, Mask, R32, Whole, Xmm};
use super::isa::{Encoding, Features, VectorIsa, Width};
use crate::target::Feature;

/// What an operand is to its instruction, and how much of a register it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OperandRole {
    /// The register that is written.
    Destination(View),
    /// A register that is read, and written over with the result.
    Accumulator(View),
    /// A register that is read.
    Source(View),
    /// A register that is read, or memory in its place.
    SourceOrMemory(View),
    /// Memory that is read.
    Memory,
    /// Memory that is written.
    Stored,
    /// A byte of the instruction itself.
    Immediate,
    /// In EVEX, where it is wanted: the mask register of the lanes that count.
    Lanes,
}

use OperandRole::{Accumulator, Destination, Immediate, Lanes, Memory, Source, SourceOrMemory, Stored};

/// An instruction in one encoding, for one width.
#[derive(Clone, Copy)]
struct Encoded {
    opcode: Opcode,
    /// Extensions that it needs beside those of its encoding and width.
    needs: Features,
}

/// An instruction. Messages have its name: those that iced gives its opcodes fill a fiftieth of a small binary.
pub(super) struct InstructionRow {
    name: &'static str,
    pub(super) roles: &'static [OperandRole],
    vex_256: Encoded,
    evex_256: Encoded,
    evex_512: Encoded,
}

impl std::fmt::Debug for InstructionRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl InstructionRow {
    /// The form for an encoding and a width.
    fn form(&self, isa: VectorIsa) -> Option<Encoded> {
        match (isa.encoding, isa.width) {
            (Encoding::Vex, Width::W256) => Some(self.vex_256),
            (Encoding::Evex, Width::W256) => Some(self.evex_256),
            (Encoding::Evex, Width::W512) => Some(self.evex_512),
            (Encoding::Vex, Width::W512) => None,
        }
    }

    /// The opcode, if the instruction set has it.
    fn opcode(&self, isa: VectorIsa) -> Option<Opcode> {
        let form = self.form(isa).filter(|form| form.opcode != INVALID)?;
        let needs = base(isa.encoding, isa.width).and(form.needs);
        isa.features.include(needs).then_some(form.opcode)
    }

    /// The extensions that bring its encoding and width, and those that it needs beside them.
    #[cfg(test)]
    pub(super) fn needs(&self, isa: VectorIsa) -> (Features, Features) {
        let own = self.form(isa).map_or(Features::of(&[]), |form| form.needs);
        (base(isa.encoding, isa.width), own)
    }

    /// Whether an instruction set has it.
    pub(super) fn is_on(&self, isa: VectorIsa) -> bool {
        self.opcode(isa).is_some()
    }

    /// How much of a register it makes.
    pub(super) fn result(&self) -> View {
        let (Destination(view) | Accumulator(view)) = self.roles[0] else {
            panic!("{} makes no register", self.name)
        };
        view
    }

    /// Its opcode.
    ///
    /// # Panics
    /// If the instruction set does not have it.
    pub(super) fn on(&self, isa: VectorIsa) -> Opcode {
        self.opcode(isa).unwrap_or_else(|| panic!("{} has no form for {isa:?}", self.name))
    }
}

/// The extensions that bring an encoding and a width.
const fn base(encoding: Encoding, width: Width) -> Features {
    match (encoding, width) {
        (Encoding::Vex, _) => Features::of(&[Feature::Avx, Feature::Avx2]),
        (Encoding::Evex, Width::W256) => Features::of(&[Feature::Avx512F, Feature::Avx512Vl]),
        (Encoding::Evex, Width::W512) => Features::of(&[Feature::Avx512F]),
    }
}

/// Rows under their roles: VEX of 256 bits, EVEX of 256 bits, EVEX of 512 bits, each with what else it needs.
macro_rules! rows {
    ($($roles:tt {
        $($name:ident: $vex:ident $(($($vn:ident)+))?, $half:ident $(($($hn:ident)+))?, $full:ident $(($($fn:ident)+))?;)*
    })*) => {
        $($(pub(super) const $name: &InstructionRow = &InstructionRow {
            name: stringify!($name),
            roles: &$roles,
            vex_256: Encoded { opcode: $vex, needs: Features::of(&[$($(Feature::$vn),+)?]) },
            evex_256: Encoded { opcode: $half, needs: Features::of(&[$($(Feature::$hn),+)?]) },
            evex_512: Encoded { opcode: $full, needs: Features::of(&[$($(Feature::$fn),+)?]) },
        };)*)*

        #[cfg(test)]
        pub(super) const ALL: &[&InstructionRow] = &[$($($name),*),*];
    };
}

rows! {
    // Arithmetic on whole vectors.
    [Destination(Whole), Source(Whole), SourceOrMemory(Whole)] {
        ADD_F32: VEX_Vaddps_ymm_ymm_ymmm256,
            EVEX_Vaddps_ymm_k1z_ymm_ymmm256b32, EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
        SUB_F32: VEX_Vsubps_ymm_ymm_ymmm256,
            EVEX_Vsubps_ymm_k1z_ymm_ymmm256b32, EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er;
        MUL_F32: VEX_Vmulps_ymm_ymm_ymmm256,
            EVEX_Vmulps_ymm_k1z_ymm_ymmm256b32, EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
        DIV_F32: VEX_Vdivps_ymm_ymm_ymmm256,
            EVEX_Vdivps_ymm_k1z_ymm_ymmm256b32, EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er;
        DIV_F64: VEX_Vdivpd_ymm_ymm_ymmm256,
            EVEX_Vdivpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er;
        MIN_F32: VEX_Vminps_ymm_ymm_ymmm256,
            EVEX_Vminps_ymm_k1z_ymm_ymmm256b32, EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae;
        MAX_F32: VEX_Vmaxps_ymm_ymm_ymmm256,
            EVEX_Vmaxps_ymm_k1z_ymm_ymmm256b32, EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae;
        ADD_I32: VEX_Vpaddd_ymm_ymm_ymmm256,
            EVEX_Vpaddd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
        SUB_I32: VEX_Vpsubd_ymm_ymm_ymmm256,
            EVEX_Vpsubd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
        MUL_I32: VEX_Vpmulld_ymm_ymm_ymmm256,
            EVEX_Vpmulld_ymm_k1z_ymm_ymmm256b32, EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32;
        MIN_I32: VEX_Vpminsd_ymm_ymm_ymmm256,
            EVEX_Vpminsd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32;
        MAX_I32: VEX_Vpmaxsd_ymm_ymm_ymmm256,
            EVEX_Vpmaxsd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32;
        AND: VEX_Vpand_ymm_ymm_ymmm256,
            EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
        AND_NOT: VEX_Vpandn_ymm_ymm_ymmm256,
            EVEX_Vpandnd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32;
        OR: VEX_Vpor_ymm_ymm_ymmm256, EVEX_Vpord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
        XOR: VEX_Vpxor_ymm_ymm_ymmm256,
            EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        LOW_WORDS: VEX_Vunpcklps_ymm_ymm_ymmm256,
            EVEX_Vunpcklps_ymm_k1z_ymm_ymmm256b32, EVEX_Vunpcklps_zmm_k1z_zmm_zmmm512b32;
        HIGH_WORDS: VEX_Vunpckhps_ymm_ymm_ymmm256,
            EVEX_Vunpckhps_ymm_k1z_ymm_ymmm256b32, EVEX_Vunpckhps_zmm_k1z_zmm_zmmm512b32;
        LOW_PAIRS: VEX_Vunpcklpd_ymm_ymm_ymmm256,
            EVEX_Vunpcklpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vunpcklpd_zmm_k1z_zmm_zmmm512b64;
        HIGH_PAIRS: VEX_Vunpckhpd_ymm_ymm_ymmm256,
            EVEX_Vunpckhpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vunpckhpd_zmm_k1z_zmm_zmmm512b64;
    }
    [Accumulator(Whole), Source(Whole), SourceOrMemory(Whole)] {
        FMA_231: VEX_Vfmadd231ps_ymm_ymm_ymmm256(Fma),
            EVEX_Vfmadd231ps_ymm_k1z_ymm_ymmm256b32, EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er;
        FMA_213: VEX_Vfmadd213ps_ymm_ymm_ymmm256(Fma),
            EVEX_Vfmadd213ps_ymm_k1z_ymm_ymmm256b32, EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
    }
    [Destination(Whole), SourceOrMemory(Whole)] {
        SQRT_F32: VEX_Vsqrtps_ymm_ymmm256,
            EVEX_Vsqrtps_ymm_k1z_ymmm256b32, EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er;
        ABS_I32: VEX_Vpabsd_ymm_ymmm256, EVEX_Vpabsd_ymm_k1z_ymmm256b32, EVEX_Vpabsd_zmm_k1z_zmmm512b32;
        TO_I32: VEX_Vcvttps2dq_ymm_ymmm256,
            EVEX_Vcvttps2dq_ymm_k1z_ymmm256b32, EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae;
        TO_F32: VEX_Vcvtdq2ps_ymm_ymmm256,
            EVEX_Vcvtdq2ps_ymm_k1z_ymmm256b32, EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er;
        UNSPILL: VEX_Vmovaps_ymm_ymmm256, EVEX_Vmovaps_ymm_k1z_ymmm256, EVEX_Vmovaps_zmm_k1z_zmmm512;
    }
    [Destination(Whole), Source(Whole), Immediate] {
        ROUND_F32: VEX_Vroundps_ymm_ymmm256_imm8,
            EVEX_Vrndscaleps_ymm_k1z_ymmm256b32_imm8, EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae;
        SHL_BY: VEX_Vpslld_ymm_ymm_imm8,
            EVEX_Vpslld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
        SHR_BY: VEX_Vpsrad_ymm_ymm_imm8,
            EVEX_Vpsrad_ymm_k1z_ymmm256b32_imm8, EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8;
        SHRU_BY: VEX_Vpsrld_ymm_ymm_imm8,
            EVEX_Vpsrld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
        SWAP_IN_128: VEX_Vpermilps_ymm_ymmm256_imm8,
            EVEX_Vpermilps_ymm_k1z_ymmm256b32_imm8, EVEX_Vpermilps_zmm_k1z_zmmm512b32_imm8;
    }
    [Destination(Whole), Source(Whole), SourceOrMemory(Xmm)] {
        SHL: VEX_Vpslld_ymm_ymm_xmmm128, EVEX_Vpslld_ymm_k1z_ymm_xmmm128, EVEX_Vpslld_zmm_k1z_zmm_xmmm128;
        SHR: VEX_Vpsrad_ymm_ymm_xmmm128, EVEX_Vpsrad_ymm_k1z_ymm_xmmm128, EVEX_Vpsrad_zmm_k1z_zmm_xmmm128;
        SHRU: VEX_Vpsrld_ymm_ymm_xmmm128, EVEX_Vpsrld_ymm_k1z_ymm_xmmm128, EVEX_Vpsrld_zmm_k1z_zmm_xmmm128;
    }
    [Destination(Whole), Source(Whole), SourceOrMemory(Whole), Immediate] {
        SWAP_128: VEX_Vperm2f128_ymm_ymm_ymmm256_imm8,
            EVEX_Vshuff32x4_ymm_k1z_ymm_ymmm256b32_imm8, EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8;
        ALIGN: INVALID, EVEX_Valignd_ymm_k1z_ymm_ymmm256b32_imm8, EVEX_Valignd_zmm_k1z_zmm_zmmm512b32_imm8;
        ALIGN_IN_128: VEX_Vpalignr_ymm_ymm_ymmm256_imm8, INVALID, INVALID;
    }

    // Between a vector and half of one.
    [Destination(Whole), SourceOrMemory(Half)] {
        I32_TO_F64: VEX_Vcvtdq2pd_ymm_xmmm128,
            EVEX_Vcvtdq2pd_ymm_k1z_xmmm128b32, EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er;
        WIDEN_HALVES: VEX_Vcvtph2ps_ymm_xmmm128(F16c),
            EVEX_Vcvtph2ps_ymm_k1z_xmmm128, EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae;
    }
    [Destination(Half), SourceOrMemory(Whole)] {
        F64_TO_I32: VEX_Vcvttpd2dq_xmm_ymmm256,
            EVEX_Vcvttpd2dq_xmm_k1z_ymmm256b64, EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae;
    }
    [Destination(Half), Source(Whole), Immediate] {
        HIGH_HALF: VEX_Vextracti128_xmmm128_ymm_imm8,
            EVEX_Vextracti32x4_xmmm128_k1z_ymm_imm8, EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
    }
    [Destination(Whole), Source(Whole), SourceOrMemory(Half), Immediate] {
        JOIN_HALVES: VEX_Vinserti128_ymm_ymm_xmmm128_imm8,
            EVEX_Vinserti32x4_ymm_k1z_ymm_xmmm128_imm8, EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8;
    }

    [Destination(Whole), Source(Whole), SourceOrMemory(Xmm), Immediate] {
        INSERT_128: VEX_Vinsertf128_ymm_ymm_xmmm128_imm8,
            EVEX_Vinsertf32x4_ymm_k1z_ymm_xmmm128_imm8, EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8;
    }

    // A lane from memory.
    [Destination(Xmm), Memory] {
        LOAD_FIRST: VEX_Vmovss_xmm_m32, EVEX_Vmovss_xmm_k1z_m32, EVEX_Vmovss_xmm_k1z_m32;
    }
    [Destination(Xmm), Source(Xmm), Memory, Immediate] {
        INSERT_WORD: VEX_Vinsertps_xmm_xmm_xmmm32_imm8,
            EVEX_Vinsertps_xmm_xmm_xmmm32_imm8, EVEX_Vinsertps_xmm_xmm_xmmm32_imm8;
        INSERT_I16: VEX_Vpinsrw_xmm_xmm_r32m16_imm8,
            EVEX_Vpinsrw_xmm_xmm_r32m16_imm8(Avx512Bw), EVEX_Vpinsrw_xmm_xmm_r32m16_imm8(Avx512Bw);
        INSERT_I8: VEX_Vpinsrb_xmm_xmm_r32m8_imm8,
            EVEX_Vpinsrb_xmm_xmm_r32m8_imm8(Avx512Bw), EVEX_Vpinsrb_xmm_xmm_r32m8_imm8(Avx512Bw);
    }

    // Masks, of whichever kind.
    [Destination(Mask), Source(Whole), SourceOrMemory(Whole), Immediate] {
        COMPARE_F32: VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
            EVEX_Vcmpps_kr_k1_ymm_ymmm256b32_imm8, EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
        COMPARE_I32: INVALID, EVEX_Vpcmpd_kr_k1_ymm_ymmm256b32_imm8, EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8;
    }
    [Destination(Mask), Source(Whole), SourceOrMemory(Whole)] {
        EQUAL_I32: VEX_Vpcmpeqd_ymm_ymm_ymmm256, INVALID, INVALID;
        GREATER_I32: VEX_Vpcmpgtd_ymm_ymm_ymmm256, INVALID, INVALID;
        TEST_I32: INVALID, EVEX_Vptestmd_kr_k1_ymm_ymmm256b32, EVEX_Vptestmd_kr_k1_zmm_zmmm512b32;
    }
    [Destination(Mask), Source(Mask), Source(Mask)] {
        MASK_AND: VEX_Vpand_ymm_ymm_ymmm256, VEX_Kandb_kr_kr_kr(Avx512Dq), VEX_Kandw_kr_kr_kr;
        MASK_AND_NOT: VEX_Vpandn_ymm_ymm_ymmm256, VEX_Kandnb_kr_kr_kr(Avx512Dq), VEX_Kandnw_kr_kr_kr;
        MASK_OR: VEX_Vpor_ymm_ymm_ymmm256, VEX_Korb_kr_kr_kr(Avx512Dq), VEX_Korw_kr_kr_kr;
        MASK_XOR: VEX_Vpxor_ymm_ymm_ymmm256, VEX_Kxorb_kr_kr_kr(Avx512Dq), VEX_Kxorw_kr_kr_kr;
    }
    [Destination(Mask), Source(Mask)] {
        MASK_NOT: INVALID, VEX_Knotb_kr_kr(Avx512Dq), VEX_Knotw_kr_kr;
    }
    [Destination(Mask), Memory] {
        MASK_LOAD: INVALID, VEX_Kmovb_kr_km8(Avx512Dq), VEX_Kmovq_kr_km64(Avx512Bw);
    }
    [Destination(R32), Source(Mask)] {
        MASK_TO_GENERAL: VEX_Vmovmskps_r32_ymm, VEX_Kmovb_r32_kr(Avx512Dq), VEX_Kmovw_r32_kr;
    }
    [Destination(Mask), Source(R32)] {
        MASK_FROM_GENERAL: INVALID, VEX_Kmovb_kr_r32(Avx512Dq), VEX_Kmovw_kr_r32;
    }
    [Destination(Whole), Source(Whole), SourceOrMemory(Whole), Source(Mask)] {
        BLEND: VEX_Vblendvps_ymm_ymm_ymmm256_ymm, INVALID, INVALID;
    }
    [Destination(Whole), Source(Whole), SourceOrMemory(Whole), Lanes] {
        BLEND_LANES: INVALID, EVEX_Vblendmps_ymm_k1z_ymm_ymmm256b32, EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
    }

    // Between registers and memory.
    [Destination(Whole), SourceOrMemory(Whole), Lanes] {
        LOAD: VEX_Vmovups_ymm_ymmm256, EVEX_Vmovups_ymm_k1z_ymmm256, EVEX_Vmovups_zmm_k1z_zmmm512;
    }
    [Stored, Source(Whole), Lanes] {
        STORE: VEX_Vmovups_ymmm256_ymm, EVEX_Vmovups_ymmm256_k1z_ymm, EVEX_Vmovups_zmmm512_k1z_zmm;
    }
    [Stored, Source(Whole)] {
        SPILL: VEX_Vmovaps_ymmm256_ymm, EVEX_Vmovaps_ymmm256_k1z_ymm, EVEX_Vmovaps_zmmm512_k1z_zmm;
    }
    [Destination(Whole), Source(Mask), Memory] {
        MASKED_LOAD: VEX_Vmaskmovps_ymm_ymm_m256, INVALID, INVALID;
    }
    [Stored, Source(Mask), Source(Whole)] {
        MASKED_STORE: VEX_Vmaskmovps_m256_ymm_ymm, INVALID, INVALID;
    }
    [Destination(Whole), Memory] {
        LOAD_BROADCAST: VEX_Vbroadcastss_ymm_m32,
            EVEX_Vbroadcastss_ymm_k1z_xmmm32, EVEX_Vbroadcastss_zmm_k1z_xmmm32;
        LOAD_BROADCAST_128: VEX_Vbroadcastf128_ymm_m128,
            EVEX_Vbroadcastf32x4_ymm_k1z_m128, EVEX_Vbroadcastf32x4_zmm_k1z_m128;
    }
    [Destination(Whole), Source(Xmm)] {
        BROADCAST: VEX_Vbroadcastss_ymm_xmm,
            EVEX_Vbroadcastss_ymm_k1z_xmmm32, EVEX_Vbroadcastss_zmm_k1z_xmmm32;
        SPLAT_FIRST: VEX_Vpbroadcastd_ymm_xmmm32,
            EVEX_Vpbroadcastd_ymm_k1z_xmmm32, EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
    }
    [Destination(Whole), Source(R32)] {
        SPLAT_GENERAL: INVALID, EVEX_Vpbroadcastd_ymm_k1z_r32, EVEX_Vpbroadcastd_zmm_k1z_r32;
    }
    [Destination(Xmm), Source(R32)] {
        FROM_GENERAL: VEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32;
    }
    [Destination(R32), Source(Xmm)] {
        TO_GENERAL: VEX_Vmovd_rm32_xmm, EVEX_Vmovd_rm32_xmm, EVEX_Vmovd_rm32_xmm;
    }
    [Stored, Source(Xmm)] {
        STORE_FIRST: VEX_Vmovss_m32_xmm, EVEX_Vmovss_m32_k1_xmm, EVEX_Vmovss_m32_k1_xmm;
        STORE_ALL_BYTES: VEX_Vmovq_xmmm64_xmm,
            EVEX_Vmovq_xmmm64_xmm, EVEX_Vmovdqu8_xmmm128_k1z_xmm(Avx512Vl Avx512Bw);
    }
    [Destination(Whole), SourceOrMemory(Xmm)] {
        WIDEN_BYTES: VEX_Vpmovzxbd_ymm_xmmm64,
            EVEX_Vpmovzxbd_ymm_k1z_xmmm64, EVEX_Vpmovzxbd_zmm_k1z_xmmm128;
    }
    [Destination(Xmm), SourceOrMemory(Xmm), Lanes] {
        LOAD_BYTES: INVALID,
            EVEX_Vmovdqu8_xmm_k1z_xmmm128(Avx512Bw), EVEX_Vmovdqu8_xmm_k1z_xmmm128(Avx512Vl Avx512Bw);
    }
    [Stored, Source(Xmm), Lanes] {
        STORE_BYTES: INVALID,
            EVEX_Vmovdqu8_xmmm128_k1z_xmm(Avx512Bw), EVEX_Vmovdqu8_xmmm128_k1z_xmm(Avx512Vl Avx512Bw);
    }
    [Destination(Xmm), Source(Xmm), Source(Xmm)] {
        PACK_TO_I16: VEX_Vpackssdw_xmm_xmm_xmmm128, INVALID, INVALID;
        PACK_TO_I8: VEX_Vpacksswb_xmm_xmm_xmmm128, INVALID, INVALID;
        AND_128: VEX_Vpand_xmm_xmm_xmmm128, INVALID, INVALID;
    }
}
