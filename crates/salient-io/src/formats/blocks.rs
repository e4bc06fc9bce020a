//! Quantised blocks of ggml, and their widening to f32.
//!
//! A block holds 32 or 256 neighbouring elements of a row in a few bits each, with one or more scales. An element is
//! `scale · q` or `scale · q + minimum`; the K types scale their scales once more (eight sub-blocks of 32, or sixteen
//! of 16, in a block of 256). Layouts: ggml's `ggml-common.h`; the products are formed in the order that ggml forms
//! them in, so that values agree to the bit.
//!
//! Nothing is quantised here.

use half::f16;
use salient_ir::quantised::{Bits, Quantised};

use crate::error::Cause;
use crate::source::reserved;

/// The types of blocks that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockType {
    /// 4 bits, symmetric.
    Q4_0,
    /// 4 bits with a minimum.
    Q4_1,
    /// 5 bits, symmetric.
    Q5_0,
    /// 5 bits with a minimum.
    Q5_1,
    /// 8 bits, symmetric.
    Q8_0,
    /// 4 bits with a minimum, scales of 6 bits.
    Q4K,
    /// 5 bits with a minimum, scales of 6 bits.
    Q5K,
    /// 6 bits, symmetric, scales of 8 bits.
    Q6K,
}

/// Elements of the plain blocks.
const SMALL: usize = 32;

/// Elements of the K blocks.
const LARGE: usize = 256;

impl BlockType {
    /// The name that ggml gives it.
    pub fn name(self) -> &'static str {
        match self {
            BlockType::Q4_0 => "Q4_0",
            BlockType::Q4_1 => "Q4_1",
            BlockType::Q5_0 => "Q5_0",
            BlockType::Q5_1 => "Q5_1",
            BlockType::Q8_0 => "Q8_0",
            BlockType::Q4K => "Q4_K",
            BlockType::Q5K => "Q5_K",
            BlockType::Q6K => "Q6_K",
        }
    }

    /// Elements of one block.
    pub fn elements(self) -> usize {
        match self {
            BlockType::Q4_0 | BlockType::Q4_1 | BlockType::Q5_0 | BlockType::Q5_1 | BlockType::Q8_0 => SMALL,
            BlockType::Q4K | BlockType::Q5K | BlockType::Q6K => LARGE,
        }
    }

    /// Bytes of one block.
    pub fn bytes(self) -> usize {
        match self {
            BlockType::Q4_0 => 2 + 16,
            BlockType::Q4_1 => 4 + 16,
            BlockType::Q5_0 => 2 + 4 + 16,
            BlockType::Q5_1 => 4 + 4 + 16,
            BlockType::Q8_0 => 2 + 32,
            BlockType::Q4K => 4 + 12 + 128,
            BlockType::Q5K => 4 + 12 + 32 + 128,
            BlockType::Q6K => 128 + 64 + 16 + 2,
        }
    }

    /// The elements of whole blocks in f32; bytes after the last whole block are not looked at.
    ///
    /// # Errors
    /// They do not fit into memory.
    pub fn widen(self, bytes: &[u8]) -> Result<Vec<f32>, Cause> {
        match self {
            BlockType::Q4_0 => widen_each(bytes, q4_0),
            BlockType::Q4_1 => widen_each(bytes, q4_1),
            BlockType::Q5_0 => widen_each(bytes, q5_0),
            BlockType::Q5_1 => widen_each(bytes, q5_1),
            BlockType::Q8_0 => widen_each(bytes, q8_0),
            BlockType::Q4K => widen_each(bytes, q4_k),
            BlockType::Q5K => widen_each(bytes, q5_k),
            BlockType::Q6K => widen_each(bytes, q6_k),
        }
    }
}

impl BlockType {
    /// A matrix of whole blocks with its codes as they are; `None` for bytes that are not of the shape, and for types that are not of the form: in [`BlockType::Q6K`] a
    /// scale serves sixteen elements. Elements are those of [`BlockType::widen`] up to the rounding of `scale * code + offset`.
    pub fn quantised(self, bytes: &[u8], shape: [usize; 2]) -> Option<Quantised> {
        let bits = match self {
            BlockType::Q4_0 | BlockType::Q4_1 | BlockType::Q4K => Bits::Four,
            BlockType::Q5_0 | BlockType::Q5_1 | BlockType::Q8_0 | BlockType::Q5K => Bits::Eight,
            BlockType::Q6K => return None,
        };
        let (mut codes, mut scales, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        for block in bytes.chunks_exact(self.bytes()) {
            for part in 0..self.elements() / SMALL {
                let (scale, offset) = self.scale_and_offset(block, part);
                scales.push(scale);
                offsets.push(offset);
                codes.extend((0..SMALL).map(|i| self.code(block, part, i)));
            }
        }
        Quantised::new(shape, bits, codes, scales, offsets).ok()
    }

    /// What part `part` of 32 elements of a block is multiplied by, and what is added to it.
    fn scale_and_offset(self, block: &[u8], part: usize) -> (f32, f32) {
        let first = half_at(block, 0);
        match self {
            BlockType::Q4_0 => (first, -8.0 * first),
            BlockType::Q5_0 => (first, -16.0 * first),
            BlockType::Q8_0 => (first, -128.0 * first),
            BlockType::Q4_1 | BlockType::Q5_1 => (first, half_at(block, 2)),
            BlockType::Q4K | BlockType::Q5K => {
                let (scale, minimum) = scale_and_minimum(&block[4..16], part);
                (first * scale, -half_at(block, 2) * minimum)
            }
            BlockType::Q6K => unreachable!("its scales serve sixteen elements"),
        }
    }

    /// The code of element `i` of part `part` of a block, not negative.
    fn code(self, block: &[u8], part: usize, i: usize) -> u8 {
        match self {
            BlockType::Q4_0 => nibble(&block[2..], i),
            BlockType::Q4_1 => nibble(&block[4..], i),
            BlockType::Q5_0 => nibble(&block[6..], i) | fifth_bit(&block[2..], i),
            BlockType::Q5_1 => nibble(&block[8..], i) | fifth_bit(&block[4..], i),
            BlockType::Q8_0 => block[2 + i] ^ 0x80,
            BlockType::Q4K => paired_nibble(&block[16..], part, i),
            BlockType::Q5K => paired_nibble(&block[48..], part, i) | (block[16 + i] >> part & 1) << 4,
            BlockType::Q6K => unreachable!("its scales serve sixteen elements"),
        }
    }
}

fn widen_each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    widen: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) -> Result<Vec<f32>, Cause> {
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    let mut out = reserved(blocks.len() * ELEMENTS)?;
    out.resize(blocks.len() * ELEMENTS, 0.0);
    for (block, elements) in blocks.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        widen(block, elements);
    }
    Ok(out)
}

/// The half-precision number at a position of a block.
fn half_at(block: &[u8], position: usize) -> f32 {
    f16::from_le_bytes([block[position], block[position + 1]]).to_f32()
}

/// Element `i` of 32 in 16 bytes of nibbles: the low ones come first, then the high ones.
fn nibble(bytes: &[u8], i: usize) -> u8 {
    if i < 16 { bytes[i] & 0xf } else { bytes[i - 16] >> 4 }
}

/// The fifth bit of element `i`, in its place: bit `i` of four bytes.
fn fifth_bit(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 8] >> (i % 8) & 1) << 4
}

fn q4_0(block: &[u8; 18], out: &mut [f32; SMALL]) {
    let scale = half_at(block, 0);
    for (i, x) in out.iter_mut().enumerate() {
        *x = scale * (f32::from(nibble(&block[2..], i)) - 8.0);
    }
}

fn q4_1(block: &[u8; 20], out: &mut [f32; SMALL]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    for (i, x) in out.iter_mut().enumerate() {
        *x = scale * f32::from(nibble(&block[4..], i)) + minimum;
    }
}

fn q5_0(block: &[u8; 22], out: &mut [f32; SMALL]) {
    let scale = half_at(block, 0);
    for (i, x) in out.iter_mut().enumerate() {
        *x = scale * (f32::from(nibble(&block[6..], i) | fifth_bit(&block[2..], i)) - 16.0);
    }
}

fn q5_1(block: &[u8; 24], out: &mut [f32; SMALL]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    for (i, x) in out.iter_mut().enumerate() {
        *x = scale * f32::from(nibble(&block[8..], i) | fifth_bit(&block[4..], i)) + minimum;
    }
}

fn q8_0(block: &[u8; 34], out: &mut [f32; SMALL]) {
    let scale = half_at(block, 0);
    for (x, &q) in out.iter_mut().zip(&block[2..]) {
        *x = scale * f32::from(q.cast_signed());
    }
}

/// Scale and minimum of sub-block `j` of eight, six bits each in twelve bytes: the first four lie in the low bits of
/// bytes 0..8; of the others the low nibbles lie in bytes 8..12 and the high bits above those of the first.
fn scale_and_minimum(packed: &[u8], j: usize) -> (f32, f32) {
    let (scale, minimum) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (packed[j + 4] & 0xf | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
    };
    (f32::from(scale), f32::from(minimum))
}

/// Element `i` of sub-block `j` of eight in 128 bytes of nibbles: two sub-blocks share 32 bytes, low then high.
fn paired_nibble(bytes: &[u8], j: usize, i: usize) -> u8 {
    bytes[j / 2 * 32 + i] >> (j % 2 * 4) & 0xf
}

fn q4_k(block: &[u8; 144], out: &mut [f32; LARGE]) {
    let (scales, minimums, packed, low) = (half_at(block, 0), half_at(block, 2), &block[4..16], &block[16..]);
    for (j, elements) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(packed, j);
        for (i, x) in elements.iter_mut().enumerate() {
            *x = scales * scale * f32::from(paired_nibble(low, j, i)) - minimums * minimum;
        }
    }
}

fn q5_k(block: &[u8; 176], out: &mut [f32; LARGE]) {
    let (scales, minimums, packed) = (half_at(block, 0), half_at(block, 2), &block[4..16]);
    let (high, low) = (&block[16..48], &block[48..]);
    for (j, elements) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(packed, j);
        for (i, x) in elements.iter_mut().enumerate() {
            let q = paired_nibble(low, j, i) | (high[i] >> j & 1) << 4;
            *x = scales * scale * f32::from(q) - minimums * minimum;
        }
    }
}

/// Two halves of 128 elements; in each, quarter `k` takes the nibbles `k / 2` of the bytes `k % 2` of 32, and the bit
/// pair `k` of its 32 bytes of high bits. Scales go by sixteen elements.
fn q6_k(block: &[u8; 210], out: &mut [f32; LARGE]) {
    let scales = half_at(block, 208);
    for (j, elements) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = f32::from(block[192 + j].cast_signed());
        let (half, quarter, start) = (j / 8, j % 8 / 2, j % 2 * 16);
        let low = &block[half * 64 + quarter % 2 * 32 + start..];
        let high = &block[128 + half * 32 + start..];
        for (i, x) in elements.iter_mut().enumerate() {
            let q = low[i] >> (quarter / 2 * 4) & 0xf | (high[i] >> (quarter * 2) & 3) << 4;
            *x = scales * scale * (f32::from(q) - 32.0);
        }
    }
}
