//! Weights that stay in blocks of few bits: which operands of products can, and how they lie in memory.
//!
//! A parameter that a checkpoint holds in blocks is read by products straight from its codes, packed in panels once, when
//! parameters are bound. Everything else that reads the parameter reads it in f32. Which parameters are in blocks is the
//! caller's knowledge ([`Options::coded`](crate::Options)).

use half::f16;
use salient_ir::quantised::{BLOCK, Bits, Coding, Quantised, Scales};
use salient_vector::quantised as body;
use std::collections::BTreeMap;

/// Parameters in blocks, by position among the graph's.
pub type Codes<'a> = BTreeMap<usize, &'a Quantised>;

// The block of the graph's world is that of the bodies.
const _: () = assert!(BLOCK == body::BLOCK);

/// The coding of blocks as the bodies name it.
pub(crate) fn body_coding(coding: Coding) -> body::Coding {
    let bits = match coding.bits {
        Bits::Four => body::Bits::Four,
        Bits::Eight => body::Bits::Eight,
    };
    let scales = match coding.scales {
        Scales::Half => body::Scales::Half,
        Scales::Single => body::Scales::Single,
    };
    body::Coding { bits, scales }
}

/// Words that the panels of a matrix take, `width` columns each.
pub fn code_words(from: &Quantised, width: usize) -> usize {
    let [rows, depth] = *from.shape();
    rows.div_ceil(width) * (depth / BLOCK * body_coding(from.coding()).words_in_block()) * width
}

/// Writes the panels of a matrix, `width` columns each, an even number; columns past its rows are zeros.
///
/// # Panics
/// If `out` is not as long as the panels.
pub fn pack_codes(from: &Quantised, width: usize, out: &mut [i32]) {
    let ([rows, depth], coding) = (*from.shape(), body_coding(from.coding()));
    let (blocks, each) = (depth / BLOCK, coding.bits.codes_in_word());
    assert_eq!(out.len(), code_words(from, width), "the panels of the matrix");
    let lines = out.chunks_exact_mut(width * coding.words_in_block());
    for (at, lines) in lines.enumerate() {
        let (first, block) = (at / blocks * width, at % blocks);
        // The block of a column of this panel.
        let place = |j: usize| Some((first + j) * blocks + block).filter(|_| first + j < rows);
        let (floats, words) = lines.split_at_mut(width * coding.scales.words());
        let scale = |j| place(j).map_or(0.0, |at| from.scales()[at]);
        let offset = |j| place(j).map_or(0.0, |at| from.offsets()[at]);
        let both: Vec<f32> = (0..width).map(scale).chain((0..width).map(offset)).collect();
        match coding.scales {
            body::Scales::Single => {
                for (word, x) in floats.iter_mut().zip(&both) {
                    *word = x.to_bits().cast_signed();
                }
            }
            body::Scales::Half => {
                for (word, pair) in floats.iter_mut().zip(both.as_chunks::<2>().0) {
                    let [low, high] = pair.map(|x| u32::from(f16::from_f32(x).to_bits()));
                    *word = (high << 16 | low).cast_signed();
                }
            }
        }
        for (group, line) in words.chunks_exact_mut(width).enumerate() {
            for (j, word) in line.iter_mut().enumerate() {
                *word = place(j).map_or(0, |at| {
                    let codes = &from.codes()[at * BLOCK + group * each..][..each];
                    let join = |word: u32, code: &u8| word << coding.bits.count() | u32::from(*code);
                    codes.iter().rev().fold(0, join).cast_signed()
                });
            }
        }
    }
}
