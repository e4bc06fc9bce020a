//! The register tile: the innermost body of every product.
//!
//! A tile of `rows` x `vectors * L` results lives in registers while the inner index runs:
//! `C[r, j] = sum over k of A[r, k] * B[k, j]`. `B` is a packed panel: `vectors * L` consecutive elements for each `k`. Panels, blocks
//! for the caches and the loops over tiles are made by the callers; so is the choice of shape, by target and by problem.

use crate::body::{Body, Elem, LoopKind};
use crate::build::Builder;
use crate::handle::{F32, Int, Mask, Ptr};

/// How the left operand lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Left {
    /// Packed: `rows` consecutive elements for each `k`.
    Packed,
    /// As it is: row `r` starts `r * a_row` elements on, and `k` moves by `a_step` elements.
    Strided,
}

/// How the right operand lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Right {
    /// A packed panel: `vectors * L` consecutive elements for each `k`.
    Packed,
    /// As it is: the columns are consecutive, and `k` moves by `b_step` elements.
    Strided,
}

/// What happens to the results in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Into {
    /// They are overwritten.
    Set,
    /// The tile is added to them.
    Add,
    /// The tile is added to them after each row of them is multiplied by the row's factor.
    AddScaled,
}

/// What a zero in the left operand means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Zeros {
    /// A number: times NaN or infinity it is NaN.
    Multiply,
    /// Nothing: what stands on the right adds nothing, whatever it is.
    Skip,
}

/// The extent of a register tile: what targets choose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Rows of the left operand and of the results.
    pub rows: usize,
    /// Columns of the right operand and of the results, in vectors.
    pub vectors: usize,
}

/// How many of the tile's columns exist in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Columns {
    /// All.
    All,
    /// The first `columns`, a parameter: at the right edge. The panel is padded to its full width all the same.
    First,
}

/// A tile's shape and surroundings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Rows and vectors.
    pub shape: Shape,
    /// The left operand.
    pub left: Left,
    /// The right operand.
    pub right: Right,
    /// The results.
    pub into: Into,
    /// Zeros of the left operand.
    pub zeros: Zeros,
    /// The right edge.
    pub columns: Columns,
    /// How many steps of the inner index to lay out in a row.
    pub unroll: u32,
    /// Whether memory that comes later is asked for meanwhile, as many elements on at each step of the inner index as the pace
    /// says: for a packed panel at most [`LINE`], for rows as many as are between them. While several tiles share a panel that
    /// lies in a near cache, memory would rest; and where each row is read once, nobody else asks early enough.
    pub ahead: bool,
}

/// Elements in a line of the cache.
pub const LINE: i32 = 16;

/// The body of a tile. Parameters, in order: `a`, `b` (inputs), `c` (output), `k` (the inner extent), then for a strided `A` `a_row` and
/// `a_step`, for a strided `B` `b_step`, then `c_row` (elements between rows of `C`), then for [`Into::AddScaled`] `factors` (an input: one for each row), then for
/// [`Columns::First`] `columns`, then `ahead` (an input) and `pace` if memory is asked for from there on.
///
/// # Panics
/// If the tile has no rows or no vectors.
pub fn product_tile(tile: &Tile) -> Body {
    let Shape { rows, vectors } = tile.shape;
    assert!(rows > 0 && vectors > 0, "{tile:?} holds nothing");
    let into = match tile.into {
        Into::Set => "",
        Into::Add => "_add",
        Into::AddScaled => "_scaled",
    };
    let zeros = match tile.zeros {
        Zeros::Multiply => "",
        Zeros::Skip => "_skip",
    };
    let right = match tile.right {
        Right::Packed => "",
        Right::Strided => "_strided",
    };
    let ahead = if tile.ahead { "_ahead" } else { "" };
    let mut b = Builder::new(format!("tile_{rows}x{vectors}{right}{into}{zeros}{ahead}"));
    let (a, panel, c) = (b.input("a"), b.input("b"), b.output("c"));
    let k = b.int_param("k");
    let strides = match tile.left {
        Left::Packed => None,
        Left::Strided => Some((b.int_param("a_row"), b.int_param("a_step"))),
    };
    let b_step = match tile.right {
        Right::Packed => None,
        Right::Strided => Some(b.int_param("b_step")),
    };
    let c_row = b.int_param("c_row");
    let factors = match tile.into {
        Into::Set | Into::Add => None,
        Into::AddScaled => Some(b.input("factors")),
    };
    let columns = match tile.columns {
        Columns::All => None,
        Columns::First => Some(b.int_param("columns")),
    };
    let ahead = tile.ahead.then(|| (b.input("ahead"), b.int_param("pace")));
    let sums = inner_loop(&mut b, tile, (a, panel, ahead), k, strides, b_step);
    let edges = columns.map(|columns| edges(&mut b, vectors, columns));

    let mut row = c;
    for (r, sums) in sums.chunks(vectors).enumerate() {
        if r > 0 {
            row = b.address(Elem::F32, row.at(c_row));
        }
        let factor = factors.map(|f| b.load::<F32>(f.at_start().plus(r as i32).one()));
        for (v, &sum) in sums.iter().enumerate() {
            let mut place = row.at_start().lanes(v as i32);
            if let Some(edges) = &edges {
                place = place.masked(edges[v]);
            }
            let value = match (tile.into, factor) {
                (Into::Set, _) => sum,
                (Into::Add | Into::AddScaled, factor) => {
                    let old = b.load::<F32>(place);
                    match factor {
                        None => b.add(old, sum),
                        Some(factor) => b.fma(old, factor, sum),
                    }
                }
            };
            b.store(place, value);
        }
    }
    b.finish()
}

/// The sums, row by row.
fn inner_loop(
    b: &mut Builder,
    tile: &Tile,
    (a, panel, ahead): (Ptr, Ptr, Option<(Ptr, Int)>),
    k: Int,
    strides: Option<(Int, Int)>,
    b_step: Option<Int>,
) -> Vec<F32> {
    let Shape { rows: count, vectors } = tile.shape;
    // Where row r starts, for rows after the first.
    let rows: Vec<Int> = match strides {
        None => Vec::new(),
        Some((a_row, _)) => {
            let mut rows = vec![a_row];
            while rows.len() + 1 < count {
                let next = b.add(rows[rows.len() - 1], a_row);
                rows.push(next);
            }
            rows
        }
    };
    let zero = b.f32(0.0);
    let (ahead, pace) = ahead.unzip();
    let init = (a, panel, ahead, vec![zero; count * vectors]);
    let (.., sums) = b.repeat(LoopKind::Count, tile.unroll, k, init, |b, _, (a, panel, ahead, mut sums)| {
        let ahead = ahead.zip(pace).map(|(ahead, pace): (Ptr, Int)| {
            // Of a packed panel a line at a time; of rows, a whole row of the tile.
            let vectors = if tile.right == Right::Packed { 1 } else { vectors };
            (0..vectors).for_each(|v| b.prefetch(Elem::F32, ahead.at_start().lanes(v as i32)));
            b.address(Elem::F32, ahead.at(pace))
        });
        let right: Vec<F32> = (0..vectors).map(|v| b.load::<F32>(panel.at_start().lanes(v as i32))).collect();
        for r in 0..count {
            // Each broadcast stands next to its uses: no allocator of registers moves it there.
            let place = match (strides, r) {
                (None, _) => a.at_start().plus(r as i32),
                (Some(_), 0) => a.at_start(),
                (Some(_), _) => a.at(rows[r - 1]),
            };
            let left = b.load::<F32>(place.one());
            let present = match tile.zeros {
                Zeros::Multiply => None,
                Zeros::Skip => Some(b.ne(left, zero)),
            };
            for (v, &right) in right.iter().enumerate() {
                let sum = &mut sums[r * vectors + v];
                let next = b.fma(right, left, *sum);
                *sum = present.map_or(next, |present| b.select(present, next, *sum));
            }
        }
        let next_a = match strides {
            None => a.at_start().plus(count as i32),
            Some((_, a_step)) => a.at(a_step),
        };
        let next_a = b.address(Elem::F32, next_a);
        let next_panel = match b_step {
            None => panel.at_start().lanes(vectors as i32),
            Some(b_step) => panel.at(b_step),
        };
        let next_panel = b.address(Elem::F32, next_panel);
        (next_a, next_panel, ahead, sums)
    });
    sums
}

/// Rows that one round of the loop of [`copy_rows`] copies.
const ROWS_UNROLLED: u32 = 4;

/// The body that copies rows in memory into a packed panel: `vectors * L` consecutive elements for each of them. Columns that a row
/// does not have are zeros.
///
/// Parameters, in order: `x` (input), `panel` (output), `n` (how many rows), `row` (elements between rows of `x`), `columns` (how many
/// elements of a row are copied, at most `vectors * L`).
pub fn copy_rows(vectors: usize) -> Body {
    let mut b = Builder::new("copy_rows");
    let (from, to) = (b.input("x"), b.output("panel"));
    let [rows, row, columns] = ["n", "row", "columns"].map(|name| b.int_param(name));
    let edges = edges(&mut b, vectors, columns);
    b.repeat(LoopKind::Count, ROWS_UNROLLED, rows, (from, to), |b, _, (from, to)| {
        for (v, edge) in edges.iter().enumerate() {
            let x = b.load::<F32>(from.at_start().lanes(v as i32).masked(*edge));
            b.store(to.at_start().lanes(v as i32), x);
        }
        let next = b.address(Elem::F32, from.at(row));
        (next, b.address(Elem::F32, to.at_start().lanes(vectors as i32)))
    });
    b.finish()
}

/// For each vector of a row, the mask of its columns that exist.
fn edges(b: &mut Builder, vectors: usize, columns: Int) -> Vec<Mask> {
    let lanes = b.lane_count();
    let mut left = columns;
    (0..vectors)
        .map(|_| {
            let mask = b.first(left);
            left = b.sub(left, lanes);
            mask
        })
        .collect()
}
