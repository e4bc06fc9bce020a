//! Weights in blocks of few bits, as checkpoints hold them.
//!
//! A [`Quantised`] is a matrix whose rows are cut into blocks of [`BLOCK`] elements; an element is
//! `scale * code + offset` with a scale and an offset for each block. That is one form for the block types of files that
//! have it; reading those is the business of others, and so is computing with it. Nothing is quantised here: values are
//! those of the file, and scales are told to be halves only where each of them is one.

use super::{Array, ArrayError, collected, element_count};
use crate::ty::DType;
use half::f16;

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

/// The size of scales and offsets in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scales {
    /// IEEE 754 binary16, as most types of blocks hold them.
    Half,
    /// IEEE 754 binary32, where a scale is a product, as in blocks whose scales are scaled once more.
    Single,
}

/// How the blocks of a matrix are stored: what code that reads them is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Coding {
    /// Of codes.
    pub bits: Bits,
    /// Of scales and offsets.
    pub scales: Scales,
}

/// A matrix in blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantised {
    shape: [usize; 2],
    coding: Coding,
    codes: Vec<u8>,
    scales: Vec<f32>,
    offsets: Vec<f32>,
}

impl Quantised {
    /// A matrix of so many rows and so many elements a row. Row by row there is one code for each element, and one scale and
    /// one offset for each block; bits of a code above its size are dropped. Scales and offsets that all are halves are stored
    /// as such.
    ///
    /// # Errors
    /// [`ArrayError::Count`] if rows are not made of whole blocks, or if the counts do not belong to the shape.
    pub fn new(
        shape: [usize; 2],
        bits: Bits,
        mut codes: Vec<u8>,
        scales: Vec<f32>,
        offsets: Vec<f32>,
    ) -> Result<Quantised, ArrayError> {
        let expected = element_count(&shape, DType::F32)?;
        let blocks = expected / BLOCK;
        let whole = shape[1].is_multiple_of(BLOCK) && codes.len() == expected;
        if whole && scales.len() == blocks && offsets.len() == blocks {
            match bits {
                Bits::Four => codes.iter_mut().for_each(|code| *code &= 0xf),
                Bits::Eight => {}
            }
            let halves = scales.iter().chain(&offsets).all(|x| is_half(*x));
            let coding = Coding { bits, scales: if halves { Scales::Half } else { Scales::Single } };
            Ok(Quantised { shape, coding, codes, scales, offsets })
        } else {
            let found = codes.len().min(scales.len() * BLOCK).min(offsets.len() * BLOCK);
            Err(ArrayError::Count { shape: shape.to_vec(), expected, found })
        }
    }

    /// The number of rows, and of elements of a row; the latter is a multiple of [`BLOCK`].
    pub fn shape(&self) -> &[usize; 2] {
        &self.shape
    }

    /// How it is stored.
    pub fn coding(&self) -> Coding {
        self.coding
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
    pub fn widen(&self) -> Result<Array, ArrayError> {
        let blocks = self.codes.chunks(BLOCK).zip(self.scales.iter().zip(&self.offsets));
        let values = blocks.flat_map(|(codes, (scale, offset))| {
            codes.iter().map(move |code| scale.mul_add(f32::from(*code), *offset))
        });
        let values = collected(self.codes.len(), values);
        Array::from_f32(
            self.shape.to_vec(),
            values.ok_or_else(|| ArrayError::no_memory(DType::F32, &self.shape))?,
        )
    }
}

/// Whether a number is a half, to the bit. No NaN is: its payload is not kept.
fn is_half(x: f32) -> bool {
    f16::from_f32(x).to_f32().to_bits() == x.to_bits() && !x.is_nan()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_halves_only_where_all_of_them_are() {
        let coding = |x: f32| {
            let (scales, offsets) = (vec![1.0, x], vec![-0.0, 65504.0]);
            let matrix = Quantised::new([2, BLOCK], Bits::Four, vec![0; 2 * BLOCK], scales, offsets).unwrap();
            assert_eq!(matrix.scales()[1].to_bits(), x.to_bits());
            matrix.coding().scales
        };
        // The least of the subnormal halves, and the greatest.
        let least = 2.0_f32.powi(-24);
        for half in [0.0, -0.0, least, -3.0 * least, 1023.0 * least, 1.5, -65504.0, f32::NEG_INFINITY] {
            assert_eq!(coding(half), Scales::Half, "{half}");
        }
        for other in [0.1, least / 2.0, 1.5 * least, 1.0 + 2.0_f32.powi(-11), 65520.0, f32::MAX, f32::NAN] {
            assert_eq!(coding(other), Scales::Single, "{other}");
        }
    }

    #[test]
    fn bits_above_the_size_of_a_code_are_dropped() {
        let codes: Vec<u8> = (0..32).map(|code| code * 8).collect();
        let matrix = |bits| Quantised::new([1, BLOCK], bits, codes.clone(), vec![1.0], vec![0.0]).unwrap();
        assert_eq!(matrix(Bits::Eight).codes(), codes);
        assert!(matrix(Bits::Four).codes().iter().zip(&codes).all(|(found, given)| *found == given % 16));
    }
}
