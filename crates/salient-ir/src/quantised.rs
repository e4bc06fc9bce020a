//! Weights in blocks of few bits, as checkpoints hold them.
//!
//! A [`Quantised`] is a matrix whose rows are cut into blocks of [`BLOCK`] elements; an element is
//! `scale * code + offset` with a scale and an offset for each block. That is one form for the block types of files that
//! have it; reading those is the business of others, and so is computing with it. Nothing is quantised here: values are
//! those of the file.

use crate::array::{Array, ArrayError, element_count};
use crate::ty::DType;

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

/// A matrix in blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantised {
    shape: [usize; 2],
    bits: Bits,
    codes: Vec<u8>,
    scales: Vec<f32>,
    offsets: Vec<f32>,
}

impl Quantised {
    /// A matrix of so many rows and so many elements a row. Row by row there is one code for each element, and one scale and
    /// one offset for each block; bits of a code above its size are not looked at.
    ///
    /// # Errors
    /// [`ArrayError::Count`] if rows are not made of whole blocks, or if the counts do not belong to the shape.
    pub fn new(
        shape: [usize; 2],
        bits: Bits,
        codes: Vec<u8>,
        scales: Vec<f32>,
        offsets: Vec<f32>,
    ) -> Result<Quantised, ArrayError> {
        let expected = element_count(&shape, DType::F32)?;
        let blocks = expected / BLOCK;
        let whole = shape[1].is_multiple_of(BLOCK) && codes.len() == expected;
        if whole && scales.len() == blocks && offsets.len() == blocks {
            Ok(Quantised { shape, bits, codes, scales, offsets })
        } else {
            let found = codes.len().min(scales.len() * BLOCK).min(offsets.len() * BLOCK);
            Err(ArrayError::Count { shape: shape.to_vec(), expected, found })
        }
    }

    /// The number of rows, and of elements of a row; the latter is a multiple of [`BLOCK`].
    pub fn shape(&self) -> &[usize; 2] {
        &self.shape
    }

    /// The size of the codes.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// One code for each element, row by row.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// One scale for each block, row by row.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// One offset for each block, row by row.
    pub fn offsets(&self) -> &[f32] {
        &self.offsets
    }

    /// The matrix in f32; each element is rounded once.
    pub fn widen(&self) -> Array {
        let blocks = self.codes.chunks(BLOCK).zip(self.scales.iter().zip(&self.offsets));
        let values = blocks.flat_map(|(codes, (scale, offset))| {
            codes.iter().map(move |code| scale.mul_add(f32::from(*code), *offset))
        });
        Array::from_f32(self.shape.to_vec(), values.collect()).expect("counts were checked")
    }
}
