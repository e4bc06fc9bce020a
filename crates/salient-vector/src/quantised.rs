//! Quantised panels: the right operand of a product where it stays as small in memory as it was stored.
//!
//! A panel holds `vectors * L` columns. Its depth is cut into blocks of [`BLOCK`], each with one scale and one offset a
//! column: `B[k, j] = scale[k / BLOCK, j] * code[k, j] + offset[k / BLOCK, j]`, codes being unsigned integers of 4 or 8 bits.
//! In memory a block is, one after the other and `vectors * L` elements of 4 bytes each: the scales, the offsets, and
//! words of codes; a word holds those of consecutive `k` of its column, the first in its lowest bits. So a product reads
//! a panel from front to back.
//!
//! [`block_tile`] multiplies a few rows with a panel as it lies, which is what a product limited by memory wants;
//! [`widen_panel`] brings it into the form that [`product_tile`](crate::tile::product_tile) reads, for products of many
//! rows. Which formats of files fit, and who packs them, is not decided here.

use crate::body::{Body, Elem, LoopKind};
use crate::build::Builder;
use crate::handle::{F32, I32, Int, Ptr, Vector};
use crate::tile::Shape;

/// Positions along the depth that share a scale and an offset.
pub const BLOCK: usize = 32;

/// The size of a code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bits {
    /// 0 to 15.
    Four,
    /// 0 to 255.
    Eight,
}

impl Bits {
    /// Bits of a code.
    pub const fn count(self) -> usize {
        match self {
            Bits::Four => 4,
            Bits::Eight => 8,
        }
    }

    /// Codes in a word.
    pub const fn codes_in_word(self) -> usize {
        32 / self.count()
    }

    /// Elements of 4 bytes that a block takes for each of its columns.
    pub const fn words_in_block(self) -> usize {
        2 + BLOCK / self.codes_in_word()
    }
}

/// One block of a panel, at the pointer to its start.
struct Block {
    start: Ptr,
    bits: Bits,
    vectors: usize,
    low: I32,
}

impl Block {
    fn vector<T: Vector>(&self, b: &mut Builder, row: usize, v: usize) -> T {
        b.load(self.start.at_start().lanes((row * self.vectors + v) as i32))
    }

    fn scale(&self, b: &mut Builder, v: usize) -> F32 {
        self.vector(b, 0, v)
    }

    fn offset(&self, b: &mut Builder, v: usize) -> F32 {
        self.vector(b, 1, v)
    }

    /// The words of the codes of `codes_in_word` consecutive positions.
    fn words(&self, b: &mut Builder, group: usize) -> Vec<I32> {
        (0..self.vectors).map(|v| self.vector(b, 2 + group, v)).collect()
    }

    /// The code at a position of its word, as a float.
    fn code(&self, b: &mut Builder, word: I32, at: usize) -> F32 {
        let shift = at * self.bits.count();
        let moved = if shift == 0 {
            word
        } else {
            let shift = b.int(shift as i64);
            b.shru(word, shift)
        };
        let last = at + 1 == self.bits.codes_in_word();
        let code = if last { moved } else { b.and(moved, self.low) };
        b.to_f32(code)
    }

    fn next(&self, b: &mut Builder) -> Ptr {
        let step = self.bits.words_in_block() * self.vectors;
        b.address(Elem::F32, self.start.at_start().lanes(step as i32))
    }
}

/// The body that multiplies `shape.rows` rows with a quantised panel: `C[r, j] = sum over k of A[r, k] * B[k, j]`.
///
/// Parameters, in order: `a`, `panel` (inputs), `c` (output), `blocks` (the depth in blocks), `a_row` and `c_row` (elements
/// between rows). Rows of `A` are contiguous along the depth.
/// Within a block codes are summed first; the scale and the offset enter once.
///
/// # Panics
/// If the shape has no rows or no vectors.
pub fn block_tile(shape: Shape, bits: Bits) -> Body {
    let Shape { rows, vectors } = shape;
    assert!(rows > 0 && vectors > 0, "{shape:?} holds nothing");
    let mut b = Builder::new(format!("tile_{rows}x{vectors}_q{}", bits.count()));
    let (a, panel, c) = (b.input("a"), b.input("panel"), b.output("c"));
    let blocks = b.int_param("blocks");
    let (a_row, c_row) = (b.int_param("a_row"), b.int_param("c_row"));
    let starts = row_starts(&mut b, a_row, rows);
    let zero = b.f32(0.0);
    let low = b.i32((1 << bits.count()) - 1);
    let init = (a, panel, vec![zero; rows * vectors]);
    let (_, _, sums) = b.repeat(LoopKind::Count, 1, blocks, init, |b, _, (a, panel, mut sums)| {
        let block = Block { start: panel, bits, vectors, low };
        let mut parts = vec![zero; rows * vectors];
        let mut totals = vec![zero; rows];
        for group in 0..BLOCK / bits.codes_in_word() {
            let words = block.words(b, group);
            for at in 0..bits.codes_in_word() {
                let k = (group * bits.codes_in_word() + at) as i32;
                let left: Vec<F32> = (0..rows)
                    .map(|r| {
                        let row = if r == 0 { a.at_start() } else { a.at(starts[r - 1]) };
                        b.load::<F32>(row.plus(k).one())
                    })
                    .collect();
                for (total, left) in totals.iter_mut().zip(&left) {
                    *total = b.add(*total, *left);
                }
                for (v, word) in words.iter().enumerate() {
                    let code = block.code(b, *word, at);
                    for (r, left) in left.iter().enumerate() {
                        let part = &mut parts[r * vectors + v];
                        *part = b.fma(code, *left, *part);
                    }
                }
            }
        }
        for v in 0..vectors {
            let (scale, offset) = (block.scale(b, v), block.offset(b, v));
            for r in 0..rows {
                let sum = &mut sums[r * vectors + v];
                *sum = b.fma(parts[r * vectors + v], scale, *sum);
                *sum = b.fma(totals[r], offset, *sum);
            }
        }
        let next_a = b.address(Elem::F32, a.at_start().plus(BLOCK as i32));
        (next_a, block.next(b), sums)
    });
    let mut row = c;
    for (r, sums) in sums.chunks(vectors).enumerate() {
        if r > 0 {
            row = b.address(Elem::F32, row.at(c_row));
        }
        for (v, &sum) in sums.iter().enumerate() {
            b.store(row.at_start().lanes(v as i32), sum);
        }
    }
    b.finish()
}

/// The body that widens a quantised panel into a packed one of floats: `vectors * L` consecutive elements for each `k`.
///
/// Parameters, in order: `panel` (input), `out` (output), `blocks` (how many to widen).
///
/// # Panics
/// If there are no vectors.
pub fn widen_panel(vectors: usize, bits: Bits) -> Body {
    assert!(vectors > 0, "a panel holds columns");
    let mut b = Builder::new(format!("widen_q{}x{vectors}", bits.count()));
    let (panel, out) = (b.input("panel"), b.output("out"));
    let blocks = b.int_param("blocks");
    let low = b.i32((1 << bits.count()) - 1);
    b.repeat(LoopKind::Count, 1, blocks, (panel, out), |b, _, (panel, out)| {
        let block = Block { start: panel, bits, vectors, low };
        let scales: Vec<F32> = (0..vectors).map(|v| block.scale(b, v)).collect();
        let offsets: Vec<F32> = (0..vectors).map(|v| block.offset(b, v)).collect();
        for group in 0..BLOCK / bits.codes_in_word() {
            let words = block.words(b, group);
            for at in 0..bits.codes_in_word() {
                let k = group * bits.codes_in_word() + at;
                for (v, word) in words.iter().enumerate() {
                    let code = block.code(b, *word, at);
                    let value = b.fma(code, scales[v], offsets[v]);
                    b.store(out.at_start().lanes((k * vectors + v) as i32), value);
                }
            }
        }
        let next = b.address(Elem::F32, out.at_start().lanes((BLOCK * vectors) as i32));
        (block.next(b), next)
    });
    b.finish()
}

/// Distances from the first row to the rows after it.
fn row_starts(b: &mut Builder, a_row: Int, rows: usize) -> Vec<Int> {
    let mut starts: Vec<Int> = Vec::new();
    for _ in 1..rows {
        let next = starts.last().map_or(a_row, |before| b.add(*before, a_row));
        starts.push(next);
    }
    starts
}
