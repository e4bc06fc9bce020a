//! The innermost body of every product: a register tile over packed operands.

use salient_vector::{Body, Builder, F32};

/// The register tile: so many rows by so many vectors. A property of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of the left operand.
    pub rows: usize,
    /// Vectors of a packed panel of the right operand.
    pub vectors: usize,
}

impl Default for Tile {
    /// One row by eight vectors with the sum unrolled: of all tiles, the one that the portable emitter keeps in registers.
    fn default() -> Tile {
        Tile { rows: 1, vectors: 8 }
    }
}

/// What a tile does with what stands in its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Overwrites it.
    Zero,
    /// Adds to it, after a multiplication of each row by the row's factor.
    Scaled,
}

/// Whether a factor of zero on the left says that the right is not to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zeros {
    /// Zero times NaN or infinity is NaN, as arithmetic has it.
    Multiply,
    /// Zero means absent: what stands on the right adds nothing, whatever it is.
    Skip,
}

/// `c[r][x] = start + sum over k of a[r][k] * panel[k][x]` for `rows` rows and `vectors * L` columns.
///
/// Parameters: `a`, `a_row` (elements between rows), `a_step` (elements between neighbours in a row), `panel` (rows of
/// `vectors * L` elements), `k`, `c`, `c_row`, and for [`Start::Scaled`] `factor` (one for each row, contiguous).
pub(crate) fn tile(rows: usize, vectors: usize, start: Start, zeros: Zeros) -> Body {
    let suffix = if start == Start::Scaled { "_scaled" } else { "" };
    let skip = if zeros == Zeros::Skip { "_skip" } else { "" };
    let mut b = Builder::new(format!("tile_{rows}x{vectors}{suffix}{skip}"));
    let a = b.input("a");
    let a_row = b.int_param("a_row");
    let a_step = b.int_param("a_step");
    let panel = b.input("panel");
    let k = b.int_param("k");
    let c = b.output("c");
    let c_row = b.int_param("c_row");
    let lanes = b.lane_count();
    let vectors_int = b.int(vectors as i64);
    let width = b.mul(lanes, vectors_int);
    let mut row_a = vec![a];
    let mut row_c = vec![c];
    for r in 1..rows {
        let next = b.address(salient_vector::Elem::F32, row_a[r - 1].at(a_row));
        row_a.push(next);
        let next = b.address(salient_vector::Elem::F32, row_c[r - 1].at(c_row));
        row_c.push(next);
    }
    let mut sums = Vec::with_capacity(rows * vectors);
    match start {
        Start::Zero => {
            let zero = b.f32(0.0);
            sums.resize(rows * vectors, zero);
        }
        Start::Scaled => {
            let factors = b.input("factor");
            for (r, row) in row_c.iter().enumerate() {
                let factor = b.load::<F32>(factors.at_start().plus(r as i32).one());
                for v in 0..vectors {
                    let old = b.load::<F32>(row.at_start().lanes(v as i32));
                    sums.push(b.mul(old, factor));
                }
            }
        }
    }
    let unroll = 4;
    let sums = b.repeat(salient_vector::body::LoopKind::Count, unroll, k, sums, |b, index, mut sums| {
        let (at_a, at_panel) = (b.mul(index, a_step), b.mul(index, width));
        let columns: Vec<F32> =
            (0..vectors).map(|v| b.load::<F32>(panel.at(at_panel).lanes(v as i32))).collect();
        for (r, row) in row_a.iter().enumerate() {
            let left = b.load::<F32>(row.at(at_a).one());
            let present = (zeros == Zeros::Skip).then(|| {
                let zero = b.f32(0.0);
                b.ne(left, zero)
            });
            for (v, column) in columns.iter().enumerate() {
                let sum = &mut sums[r * vectors + v];
                let next = b.fma(*column, left, *sum);
                *sum = present.map_or(next, |m| b.select(m, next, *sum));
            }
        }
        sums
    });
    for (at, sum) in sums.into_iter().enumerate() {
        b.store(row_c[at / vectors].at_start().lanes((at % vectors) as i32), sum);
    }
    b.finish()
}
