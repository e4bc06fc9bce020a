//! Quantised panels: the right operand of a product where it stays as small in memory as it was stored.
//!
//! A panel holds `vectors * L` columns. Its depth is cut into blocks of [`BLOCK`], each with one scale and one offset a
//! column: `B[k, j] = scale[k / BLOCK, j] * code[k, j] + offset[k / BLOCK, j]`, codes being unsigned integers of 4 or 8 bits.
//! In memory a block is, one after the other and `vectors * L` elements each: the scales, the offsets, both of 2 or 4 bytes,
//! and words of codes, of 4 bytes; a word holds those of consecutive `k` of its column, the first in its lowest bits. So a
//! product reads a panel from front to back.
//!
//! [`block_tile`] multiplies a few rows with a panel as it lies, which is what a product limited by memory wants. Codes are
//! not shifted to the low end of their word for it: rows are divided beforehand by what that makes them too great, a power
//! of two ([`spread_row`]). [`widen_panel`] brings a panel into the form that
//! [`product_tile`](crate::tile::product_tile) reads, for products of many rows. Which formats of files fit, and who packs
//! them, is not decided here.

use crate::body::{Body, Elem, LoopKind, Place};
use crate::build::Builder;
use crate::handle::{F32, I32, Int, Ptr};
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

    /// Whether this is the last position of a word, whose code a shift alone sets free.
    const fn is_last(self, at: usize) -> bool {
        at + 1 == self.codes_in_word()
    }

    /// The bits of a word that hold the code at a position before the last.
    const fn mask(self, at: usize) -> i32 {
        ((1 << self.count()) - 1) << (at * self.count())
    }
}

/// The size of a scale, and of an offset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scales {
    /// Two bytes, IEEE 754 binary16.
    Half,
    /// Four bytes, IEEE 754 binary32.
    Single,
}

impl Scales {
    /// Elements of 4 bytes that a scale and an offset take together.
    pub const fn words(self) -> usize {
        match self {
            Scales::Half => 1,
            Scales::Single => 2,
        }
    }
}

/// How the blocks of a panel are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Coding {
    /// Of codes.
    pub bits: Bits,
    /// Of scales and offsets.
    pub scales: Scales,
}

impl Coding {
    /// Elements of 4 bytes that a block takes for each of its columns.
    pub const fn words_in_block(self) -> usize {
        self.scales.words() + BLOCK / self.bits.codes_in_word()
    }

    /// A name for bodies that read it: `q4h`, say.
    fn name(self) -> String {
        let scales = match self.scales {
            Scales::Half => "h",
            Scales::Single => "s",
        };
        format!("q{}{scales}", self.bits.count())
    }
}

/// One block of a panel, at the pointer to its start.
struct Block {
    start: Ptr,
    coding: Coding,
    vectors: usize,
}

impl Block {
    /// Where a vector of a row is, rows being made of elements of one size.
    fn place(&self, row: usize, v: usize) -> Place {
        self.start.at_start().lanes((row * self.vectors + v) as i32)
    }

    fn scale(&self, b: &mut Builder, v: usize) -> F32 {
        self.float(b, 0, v)
    }

    fn offset(&self, b: &mut Builder, v: usize) -> F32 {
        self.float(b, 1, v)
    }

    fn float(&self, b: &mut Builder, row: usize, v: usize) -> F32 {
        let place = self.place(row, v);
        match self.coding.scales {
            Scales::Half => b.load_halves(place),
            Scales::Single => b.load(place),
        }
    }

    /// The words of the codes of `codes_in_word` consecutive positions.
    fn words(&self, b: &mut Builder, group: usize) -> Vec<I32> {
        let first = self.coding.scales.words();
        (0..self.vectors).map(|v| b.load(self.place(first + group, v))).collect()
    }

    /// The code at a position of its word, as a float.
    fn code(&self, b: &mut Builder, word: I32, at: usize) -> F32 {
        let shift = at * self.coding.bits.count();
        let moved = if shift == 0 {
            word
        } else {
            let shift = b.int(shift as i64);
            b.shru(word, shift)
        };
        let low = b.i32(self.coding.bits.mask(0));
        let code = if self.coding.bits.is_last(at) { moved } else { b.and(moved, low) };
        b.to_f32(code)
    }

    /// As [`Block::code`], times what [`spread_row`] divides by at this position.
    fn code_in_place(&self, b: &mut Builder, word: I32, at: usize) -> F32 {
        if self.coding.bits.is_last(at) {
            return self.code(b, word, at);
        }
        let mask = b.i32(self.coding.bits.mask(at));
        let code = b.and(word, mask);
        b.to_f32(code)
    }

    fn next(&self, b: &mut Builder) -> Ptr {
        let step = self.coding.words_in_block() * self.vectors;
        b.address(Elem::F32, self.start.at_start().lanes(step as i32))
    }
}

/// The body that brings a row into the form in which [`block_tile`] reads it: elements that meet codes which are left where
/// they stand in their word, 2^n times too great, are divided by 2^n, which rounds nothing but subnormal numbers.
///
/// Parameters, in order: `a` (input), `out`, `totals` (outputs: the row, and the sum of each block of `a`), `blocks`.
pub fn spread_row(bits: Bits) -> Body {
    /// Sums side by side, so that additions need not wait for one another.
    const CHAINS: usize = 4;
    /// Bits below the exponent of a float, and the exponent of 1.
    const MANTISSA: i64 = 23;
    const ONE: i32 = 127 << MANTISSA;
    let mut b = Builder::new(format!("spread_q{}", bits.count()));
    let (a, out, totals) = (b.input("a"), b.output("out"), b.output("totals"));
    let blocks = b.int_param("blocks");
    let block = b.int(BLOCK as i64);
    let depth = b.mul(blocks, block);
    let last = b.i32(bits.codes_in_word() as i32 - 1);
    let one = b.i32(ONE);
    let by = b.int(MANTISSA + i64::from(bits.count().ilog2()));
    b.lanes(depth, (), |b, k, ()| {
        let index = b.lane_index(k);
        let at = b.and(index, last);
        let shift = b.shl(at, by);
        let less = b.sub(one, shift);
        let is_last = b.eq(at, last);
        let factor = b.select(is_last, one, less);
        let factor = b.bits_f32(factor);
        let value: F32 = b.load(a.at(k));
        let value = b.mul(value, factor);
        b.store(out.at(k), value);
    });
    let zero = b.f32(0.0);
    b.repeat(LoopKind::Count, 1, blocks, (a, totals), |b, _, (a, totals)| {
        let mut sums = [zero; CHAINS];
        for k in 0..BLOCK {
            let value = b.load(a.at_start().plus(k as i32).one());
            sums[k % CHAINS] = b.add(sums[k % CHAINS], value);
        }
        let [p, q] = [b.add(sums[0], sums[1]), b.add(sums[2], sums[3])];
        let total = b.add(p, q);
        b.store(totals.at_start().one(), total);
        (
            b.address(Elem::F32, a.at_start().plus(BLOCK as i32)),
            b.address(Elem::F32, totals.at_start().plus(1)),
        )
    });
    b.finish()
}

/// Sums of products of a column that are made side by side within a block: so many that a fused multiplication and addition
/// of two need not wait for the one before it, and few enough to stay in registers.
fn chains(shape: Shape) -> usize {
    6_usize.div_ceil(shape.rows * shape.vectors)
}

/// The body that multiplies `shape.rows` rows with a quantised panel: `C[r, j] = sum over k of A[r, k] * B[k, j]`.
///
/// Parameters, in order: `a`, `totals` (inputs: rows as [`spread_row`] makes them), `panel` (input), `c` (output), `blocks`
/// (the depth in blocks), `a_row`, `t_row` and `c_row` (elements between rows). Rows of `A` are contiguous along the depth.
/// Within a block codes are summed first; the scale and the offset enter once.
///
/// # Panics
/// If the shape has no rows or no vectors.
pub fn block_tile(shape: Shape, coding: Coding) -> Body {
    let (Shape { rows, vectors }, bits) = (shape, coding.bits);
    assert!(rows > 0 && vectors > 0, "{shape:?} holds nothing");
    let chains = chains(shape);
    let mut b = Builder::new(format!("tile_{rows}x{vectors}_{}", coding.name()));
    let (a, totals, panel, c) = (b.input("a"), b.input("totals"), b.input("panel"), b.output("c"));
    let blocks = b.int_param("blocks");
    let (a_row, t_row, c_row) = (b.int_param("a_row"), b.int_param("t_row"), b.int_param("c_row"));
    let (a_starts, t_starts) = (row_starts(&mut b, a_row, rows), row_starts(&mut b, t_row, rows));
    let zero = b.f32(0.0);
    let init = (a, totals, panel, vec![zero; rows * vectors]);
    let (.., sums) = b.repeat(LoopKind::Count, 1, blocks, init, |b, _, (a, totals, panel, mut sums)| {
        let block = Block { start: panel, coding, vectors };
        let row = |from: Ptr, starts: &[Int], r: usize| match r {
            0 => from.at_start(),
            _ => from.at(starts[r - 1]),
        };
        // By chain, row and vector.
        let mut parts = vec![zero; chains * rows * vectors];
        for group in 0..BLOCK / bits.codes_in_word() {
            let words = block.words(b, group);
            for at in 0..bits.codes_in_word() {
                let k = group * bits.codes_in_word() + at;
                let left: Vec<F32> =
                    (0..rows).map(|r| b.load(row(a, &a_starts, r).plus(k as i32).one())).collect();
                for (v, word) in words.iter().enumerate() {
                    let code = block.code_in_place(b, *word, at);
                    for (r, left) in left.iter().enumerate() {
                        let part = &mut parts[(k % chains * rows + r) * vectors + v];
                        *part = b.fma(code, *left, *part);
                    }
                }
            }
        }
        let (whole, others) = parts.split_at_mut(rows * vectors);
        for other in others.chunks(rows * vectors) {
            for (sum, part) in whole.iter_mut().zip(other) {
                *sum = b.add(*sum, *part);
            }
        }
        let total: Vec<F32> = (0..rows).map(|r| b.load(row(totals, &t_starts, r).one())).collect();
        for v in 0..vectors {
            let (scale, offset) = (block.scale(b, v), block.offset(b, v));
            for r in 0..rows {
                let sum = &mut sums[r * vectors + v];
                *sum = b.fma(whole[r * vectors + v], scale, *sum);
                *sum = b.fma(total[r], offset, *sum);
            }
        }
        let next_a = b.address(Elem::F32, a.at_start().plus(BLOCK as i32));
        let next_total = b.address(Elem::F32, totals.at_start().plus(1));
        (next_a, next_total, block.next(b), sums)
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
pub fn widen_panel(vectors: usize, coding: Coding) -> Body {
    let bits = coding.bits;
    assert!(vectors > 0, "a panel holds columns");
    let mut b = Builder::new(format!("widen_{}x{vectors}", coding.name()));
    let (panel, out) = (b.input("panel"), b.output("out"));
    let blocks = b.int_param("blocks");
    b.repeat(LoopKind::Count, 1, blocks, (panel, out), |b, _, (panel, out)| {
        let block = Block { start: panel, coding, vectors };
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
fn row_starts(b: &mut Builder, row: Int, rows: usize) -> Vec<Int> {
    let mut starts: Vec<Int> = Vec::new();
    for _ in 1..rows {
        let next = starts.last().map_or(row, |before| b.add(*before, row));
        starts.push(next);
    }
    starts
}
