//! Opcodes by what they do: one row each, for AVX2 and for AVX-512.
//!
//! Rows without an AVX2 (or AVX-512) form have [`Opcode::INVALID`] there; lowering never asks for it.

use iced_x86::Code as Opcode;
use iced_x86::Code::*;

use super::Wide;

/// The opcode for each instruction set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row(Opcode, Opcode);

impl Row {
    pub(super) fn on(self, wide: Wide) -> Opcode {
        let opcode = match wide {
            Wide::Avx2 => self.0,
            Wide::Avx512 => self.1,
        };
        assert_ne!(opcode, Opcode::INVALID, "{self:?} has no form for {wide:?}");
        opcode
    }
}

macro_rules! rows {
    ($($name:ident: $avx2:ident, $avx512:ident;)*) => {
        $(pub(super) const $name: Row = Row($avx2, $avx512);)*
    };
}

// Whole vectors.
rows! {
    ADD_F32: VEX_Vaddps_ymm_ymm_ymmm256, EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
    SUB_F32: VEX_Vsubps_ymm_ymm_ymmm256, EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er;
    MUL_F32: VEX_Vmulps_ymm_ymm_ymmm256, EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
    DIV_F32: VEX_Vdivps_ymm_ymm_ymmm256, EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er;
    DIV_F64: VEX_Vdivpd_ymm_ymm_ymmm256, EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er;
    MIN_F32: VEX_Vminps_ymm_ymm_ymmm256, EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae;
    MAX_F32: VEX_Vmaxps_ymm_ymm_ymmm256, EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae;
    SQRT_F32: VEX_Vsqrtps_ymm_ymmm256, EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er;
    ROUND_F32: VEX_Vroundps_ymm_ymmm256_imm8, EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae;
    FMA_231: VEX_Vfmadd231ps_ymm_ymm_ymmm256, EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er;
    FMA_213: VEX_Vfmadd213ps_ymm_ymm_ymmm256, EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
    COMPARE_F32: VEX_Vcmpps_ymm_ymm_ymmm256_imm8, EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
    ADD_I32: VEX_Vpaddd_ymm_ymm_ymmm256, EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
    SUB_I32: VEX_Vpsubd_ymm_ymm_ymmm256, EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
    MUL_I32: VEX_Vpmulld_ymm_ymm_ymmm256, EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32;
    MIN_I32: VEX_Vpminsd_ymm_ymm_ymmm256, EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32;
    MAX_I32: VEX_Vpmaxsd_ymm_ymm_ymmm256, EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32;
    ABS_I32: VEX_Vpabsd_ymm_ymmm256, EVEX_Vpabsd_zmm_k1z_zmmm512b32;
    EQUAL_I32: VEX_Vpcmpeqd_ymm_ymm_ymmm256, INVALID;
    GREATER_I32: VEX_Vpcmpgtd_ymm_ymm_ymmm256, INVALID;
    COMPARE_I32: INVALID, EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8;
    TEST_I32: INVALID, EVEX_Vptestmd_kr_k1_zmm_zmmm512b32;
    AND: VEX_Vpand_ymm_ymm_ymmm256, EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
    AND_NOT: VEX_Vpandn_ymm_ymm_ymmm256, EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32;
    OR: VEX_Vpor_ymm_ymm_ymmm256, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
    XOR: VEX_Vpxor_ymm_ymm_ymmm256, EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
    SHL_BY: VEX_Vpslld_ymm_ymm_imm8, EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
    SHR_BY: VEX_Vpsrad_ymm_ymm_imm8, EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8;
    SHRU_BY: VEX_Vpsrld_ymm_ymm_imm8, EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
    SHL: VEX_Vpslld_ymm_ymm_xmmm128, EVEX_Vpslld_zmm_k1z_zmm_xmmm128;
    SHR: VEX_Vpsrad_ymm_ymm_xmmm128, EVEX_Vpsrad_zmm_k1z_zmm_xmmm128;
    SHRU: VEX_Vpsrld_ymm_ymm_xmmm128, EVEX_Vpsrld_zmm_k1z_zmm_xmmm128;
    TO_I32: VEX_Vcvttps2dq_ymm_ymmm256, EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae;
    TO_F32: VEX_Vcvtdq2ps_ymm_ymmm256, EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er;
    I32_TO_F64: VEX_Vcvtdq2pd_ymm_xmmm128, EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er;
    F64_TO_I32: VEX_Vcvttpd2dq_xmm_ymmm256, EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae;
    HIGH_HALF: VEX_Vextracti128_xmmm128_ymm_imm8, EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
    JOIN_HALVES: VEX_Vinserti128_ymm_ymm_xmmm128_imm8, EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8;
    BLEND: VEX_Vblendvps_ymm_ymm_ymmm256_ymm, EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
    SWAP_IN_128: VEX_Vpermilps_ymm_ymmm256_imm8, EVEX_Vpermilps_zmm_k1z_zmmm512b32_imm8;
    SWAP_128: VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8;
}

// Between registers and memory.
rows! {
    LOAD: VEX_Vmovups_ymm_ymmm256, EVEX_Vmovups_zmm_k1z_zmmm512;
    STORE: VEX_Vmovups_ymmm256_ymm, EVEX_Vmovups_zmmm512_k1z_zmm;
    MASKED_LOAD: VEX_Vmaskmovps_ymm_ymm_m256, INVALID;
    MASKED_STORE: VEX_Vmaskmovps_m256_ymm_ymm, INVALID;
    LOAD_BROADCAST: VEX_Vbroadcastss_ymm_m32, EVEX_Vbroadcastss_zmm_k1z_xmmm32;
    BROADCAST: VEX_Vbroadcastss_ymm_xmm, EVEX_Vbroadcastss_zmm_k1z_xmmm32;
    STORE_FIRST: VEX_Vmovss_m32_xmm, EVEX_Vmovss_m32_k1_xmm;
    WIDEN_BYTES: VEX_Vpmovzxbd_ymm_xmmm64, EVEX_Vpmovzxbd_zmm_k1z_xmmm128;
    WIDEN_HALVES: VEX_Vcvtph2ps_ymm_xmmm128, EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae;
    LOAD_BYTES: INVALID, EVEX_Vmovdqu8_xmm_k1z_xmmm128;
    STORE_BYTES: INVALID, EVEX_Vmovdqu8_xmmm128_k1z_xmm;
    STORE_QUAD: VEX_Vmovq_xmmm64_xmm, INVALID;
    FROM_GENERAL: VEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32;
    SPLAT_FIRST: VEX_Vpbroadcastd_ymm_xmmm32, EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
    SPLAT_GENERAL: INVALID, EVEX_Vpbroadcastd_zmm_k1z_r32;
    PACK_TO_I16: VEX_Vpackssdw_xmm_xmm_xmmm128, INVALID;
    PACK_TO_I8: VEX_Vpacksswb_xmm_xmm_xmmm128, INVALID;
    AND_128: VEX_Vpand_xmm_xmm_xmmm128, INVALID;
    SIGNS: VEX_Vmovmskps_r32_ymm, INVALID;
}

// Mask registers.
rows! {
    MASK_AND: INVALID, VEX_Kandw_kr_kr_kr;
    MASK_AND_NOT: INVALID, VEX_Kandnw_kr_kr_kr;
    MASK_OR: INVALID, VEX_Korw_kr_kr_kr;
    MASK_XOR: INVALID, VEX_Kxorw_kr_kr_kr;
    MASK_NOT: INVALID, VEX_Knotw_kr_kr;
    MASK_TO_GENERAL: INVALID, VEX_Kmovw_r32_kr;
    MASK_FROM_GENERAL: INVALID, VEX_Kmovw_kr_r32;
}
