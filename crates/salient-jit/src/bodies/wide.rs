//! The wide emitter: a body as x86-64 machine code with vectors of 256 (AVX2) or 512 bits (AVX-512).
//!
//! A body is lowered to instructions over virtual registers (`lower`, `operators`, `memory`, with opcodes from `table`), registers are
//! assigned by regalloc2 (`allocate`), and bytes are written by iced's encoder (`encode`). Functions follow the System V
//! convention and stand alone: constants lie behind the code, and nothing is relocated.
//!
//! Masks are mask registers on AVX-512 and vectors of all ones or zeros on AVX2. Broadcasts from memory are instructions of their
//! own: embedded in arithmetic they run at half speed. Windows' convention is not supported: there the portable emitter serves.

mod allocate;
mod code;
mod encode;
mod lower;
mod memory;
mod operators;
mod table;

use salient_vector::Body;

pub(crate) use encode::Bytes;

/// The instruction set written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wide {
    /// 256 bits, 16 registers, masks as vectors.
    Avx2,
    /// 512 bits, 32 registers, mask registers.
    Avx512,
}

impl Wide {
    /// Lanes of a vector.
    pub(crate) const fn lanes(self) -> usize {
        match self {
            Wide::Avx2 => 8,
            Wide::Avx512 => 16,
        }
    }

    /// Vector registers.
    const fn registers(self) -> usize {
        match self {
            Wide::Avx2 => 16,
            Wide::Avx512 => 32,
        }
    }
}

/// The size and alignment of the widest vector: of spill slots, of constants, of functions.
pub(crate) const VECTOR_BYTES: u64 = 64;

/// Scratch memory of a function: lanes are taken to pieces there. Two vectors and a word that inactive lanes may touch.
const SCRATCH_BYTES: u64 = 192;

/// Makes the function of a verified body.
pub(crate) fn emit(body: &Body, wide: Wide) -> Bytes {
    let code = lower::lower(body, wide);
    let flat = allocate::Flat::new(&code, wide);
    let output = allocate::allocate(&flat);
    encode::encode(&flat, &output)
}

/// The assembly of a function.
pub(crate) fn listing(bytes: &Bytes) -> String {
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_space_after_operand_separator(true);
    let mut text = String::new();
    for instruction in Decoder::new(64, &bytes.bytes[..bytes.code], DecoderOptions::NONE).iter() {
        text.push_str(&format!("{:5x}  ", instruction.ip()));
        formatter.format(&instruction, &mut text);
        text.push('\n');
    }
    text
}
