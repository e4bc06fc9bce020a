//! Weights in blocks of few bits, as checkpoints hold them.
//!
//! A [`Quantised`] is a matrix whose rows are cut into blocks of [`BLOCK`] elements; an element is
//! `scale * code + offset` with a scale and an offset for each block. That is one form for the block types of files that
//! have it; reading those is the business of others, and so is computing with it. Nothing is quantised here: values are
//! those of the file.

use crate::array::{Array, ArrayError};

/// Elements of a row that share a scale and an offset.
pub const BLOCK: usize = 32;

/// The size of a code in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bits {
    /// 0 to 15.
    Four,
    /// 0 to 255.
    Eight,
}

/// A matrix in blocks: `rows` rows of `depth` elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantised {
    /// The number of rows.
    pub rows: usize,
    /// Elements of a row; a multiple of [`BLOCK`].
    pub depth: usize,
    /// The size of the codes.
    pub bits: Bits,
    /// One code for each element, row by row.
    pub codes: Vec<u8>,
    /// One scale for each block, row by row.
    pub scales: Vec<f32>,
    /// One offset for each block, row by row.
    pub offsets: Vec<f32>,
}

impl Quantised {
    /// The matrix in f32, `[rows, depth]`; each product and each sum is rounded once.
    ///
    /// # Errors
    /// The extents do not belong to the codes.
    pub fn widen(&self) -> Result<Array, ArrayError> {
        let blocks = self.codes.chunks(BLOCK).zip(self.scales.iter().zip(&self.offsets));
        let values = blocks.flat_map(|(codes, (scale, offset))| {
            codes.iter().map(move |code| scale.mul_add(f32::from(*code), *offset))
        });
        Array::from_f32(vec![self.rows, self.depth], values.collect())
    }
}
