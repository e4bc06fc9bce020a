//! The wide emitter: a body as x86-64 machine code with vectors of 256 (AVX2) or 512 bits (AVX-512).
//!
//! A body is lowered to instructions over virtual registers (`lower`, `control`, `operators`, `masks`, `memory`), registers are
//! assigned (`allocate`, `colour`), and bytes are written by iced's encoder (`encode`). Functions follow the System V
//! convention and stand alone: constants lie behind the code, and nothing is relocated.
//!
//! What code is written for is a value of four parts, the width, the kind of masks, the encoding and the features (`isa`);
//! the instructions, with the roles of their operands, are rows (`table`). What depends on the kind of masks stands in
//! `masks`, but for memory, constants of masks and their registers.
//!
//! Broadcasts from memory are instructions of their
//! own: embedded in arithmetic they run at half speed. Windows' convention is not supported: there the portable emitter serves.

mod allocate;
mod code;
mod colour;
mod control;
mod encode;
mod isa;
mod lower;
mod masks;
mod memory;
mod operators;
mod table;
#[cfg(test)]
mod tests;
mod uses;

use salient_vector::Body;

pub(crate) use encode::Bytes;
pub(crate) use isa::VectorIsa;

/// The size and alignment of the widest vector: of spill slots, of constants, of functions.
pub(crate) const VECTOR_BYTES: u64 = 64;

/// Scratch memory of a function: lanes are taken to pieces there. Two vectors and a word that inactive lanes may touch.
const SCRATCH_BYTES: u64 = 192;

/// Makes the function of a verified body.
pub(crate) fn emit(body: &Body, isa: VectorIsa) -> Bytes {
    let code = lower::lower(body, isa);
    let flat = allocate::Flat::new(&code, isa);
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
