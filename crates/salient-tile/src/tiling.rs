//! The sizes into which loop programs are cut, in one place: what `salient tune` measures and a tuning file holds.
//!
//! Nothing depends on them but time: any sizes within the ranges give a correct program. Which values suit a machine is
//! not decided here, beyond the defaults.

use crate::dims::{LANES, ceil_div, n, product, var};
use salient_ir::Dim;
use salient_vector::tile::Shape;

/// Sizes of register tiles and of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiling {
    /// Rows of a register tile.
    pub tile_rows: i64,
    /// Columns of a register tile, in vectors; panels of packed operands are as wide.
    pub tile_vectors: i64,
    /// Rows of a product that one item computes.
    pub product_rows: i64,
    /// Columns of a product that one item computes, in vectors.
    pub product_vectors: i64,
    /// Steps of a product's inner index that are taken for all rows of an item before the next.
    pub product_depth: i64,
    /// The same for tiles of few rows, which read their panel often and want it in the first cache.
    pub product_depth_few: i64,
    /// Query rows of a tile of attention.
    pub attention_rows: i64,
    /// The same where one head is all that there is, if it is less.
    pub head_rows: i64,
    /// Keys of a tile of attention.
    pub attention_keys: i64,
    /// Query rows of a tile of attention whose mask is looked at before the scores are computed.
    pub probed_rows: i64,
    /// Keys of such a tile.
    pub probed_keys: i64,
    /// Query rows of a tile of which the scores of all keys are kept.
    pub whole_rows: i64,
    /// The most query rows of such a tile where it adds columns to sums for every key.
    pub summed_rows: i64,
    /// Query rows of such a tile where all heads of a row are mixed.
    pub mixed_rows: i64,
    /// Parts of the rows of an attention, each with sums over its rows for each key.
    pub row_parts: i64,
    /// The most query rows for which keys are read where they lie instead of being packed.
    pub few_rows: i64,
    /// Keys of a tile where rows are few.
    pub few_keys: i64,
    /// Keys of a part that one item takes where rows are few.
    pub few_part: i64,
}

/// Scores of a tile that fit a second cache beside what else the tile reads: half a megabyte.
const KEPT_SCORES: i64 = 1 << 17;

/// Tiles into which rows are cut that visit other keys each: what is computed outside of their ranges is a small part then.
const TILES_ALONG_A_RANGE: i64 = 16;

/// Items of a kernel that keep some threads busy.
const BUSY: i64 = 8;

/// Tiles of rows that are one part.
const TILES_OF_A_PART: i64 = 4;

impl Tiling {
    /// Query rows of a tile whose scores of all keys are kept, in so many products, and which adds columns to sums for every key. All
    /// tiles read and write all of the sums: there are as few of them as the second cache allows, all of about as many rows. Where it is
    /// not known how many rows and keys there are, a tile has twice the rows of one without such sums, which was about as fast as the
    /// best at 512 to 8192 keys.
    pub(crate) fn rows_with_sums(&self, rows: Option<i64>, keys: Option<i64>, products: usize) -> i64 {
        let (Some(rows), Some(keys)) = (rows, keys) else {
            return (2 * self.whole_rows).min(self.summed_rows.max(self.whole_rows));
        };
        let of_row = keys.max(1).saturating_mul(i64::try_from(products).unwrap_or(i64::MAX).max(1));
        let tile = self.tile_rows.max(1);
        let cached = KEPT_SCORES / of_row / tile * tile;
        let most = cached.min(self.summed_rows).max(self.whole_rows);
        let [rows, most_rows, tile] = [rows, most, tile].map(|x| x.max(1).unsigned_abs());
        let even = rows.div_ceil(rows.div_ceil(most_rows)).next_multiple_of(tile);
        i64::try_from(even).map_or(most, |even| even.min(most))
    }

    /// The parts into which so many rows of an attention go that are summed for each key: one if they are few.
    pub(crate) fn parts_of(&self, rows: &Dim) -> i64 {
        let is_few = rows.as_constant().is_some_and(|rows| rows <= TILES_OF_A_PART * self.whole_rows);
        if is_few { 1 } else { self.row_parts }
    }

    /// The same where each key has several columns of sums. Every part costs the memory traffic of all of them: there are only as many
    /// as keep some threads busy. That follows from the extents of the axes around the rows; the kernel computes it where these are not
    /// known when compiling.
    pub(crate) fn parts_with_columns(&self, rows: &Dim, around: &[Dim]) -> Dim {
        // Half as many as keep threads busy where there is one position around, and fewer the more there are.
        match self.parts_of(rows) {
            1 => n(1),
            parts => ceil_div(&n((2 * parts).min(BUSY)), &(&product(around) + &n(1))),
        }
    }

    /// Query rows of a tile of an attention of one head, which has so many of them if that is known: as many as of several heads where
    /// the tiles keep some threads busy all the same.
    pub(crate) fn rows_of_one_head(&self, rows: Option<i64>) -> i64 {
        let is_long = rows.is_some_and(|rows| rows >= BUSY * self.attention_rows);
        if is_long { self.attention_rows } else { self.head_rows.min(self.attention_rows) }
    }

    /// Query rows of a tile where each of so many rows visits other keys, as under a causal mask: a tile computes what some of its rows do
    /// not visit, half as many keys for each row as it has rows.
    pub(crate) fn rows_of_ranges(&self, rows: i64) -> i64 {
        let most = rows / TILES_ALONG_A_RANGE;
        if most >= self.attention_rows {
            return self.attention_rows;
        }
        let tile = self.tile_rows.max(1);
        (most / tile * tile).max(self.whole_rows.min(self.attention_rows))
    }

    /// The sizes that have served everywhere so far, for a register tile.
    pub const fn of(tile: Shape) -> Tiling {
        Tiling {
            tile_rows: tile.rows as i64,
            tile_vectors: tile.vectors as i64,
            // So many rows that a panel pays for being read.
            product_rows: 64,
            // Few, so that a single row of a product keeps every thread busy.
            product_vectors: 4,
            // So many that what they read of a panel stays near: in the second cache, and in the first.
            product_depth: 512,
            product_depth_few: 192,
            // With their scores, they stay in the nearest caches.
            attention_rows: 64,
            // About half of them, so that a short sequence has work for two threads, and whole register tiles.
            head_rows: 32_usize.next_multiple_of(tile.rows) as i64,
            attention_keys: 128,
            // Smaller ones are masked as a whole more often.
            probed_rows: 32,
            probed_keys: 64,
            // So few that their scores stay in the second cache for thousands of keys.
            whole_rows: 24,
            // So many that the sums of all keys are seldom read and written.
            summed_rows: 72,
            // Their keys and values are those of all heads, which the second cache does not hold.
            mixed_rows: 32,
            // So many that each thread has some, and that adding them up is nothing beside the rows.
            row_parts: 16,
            few_rows: 8,
            // Panels of values are read one after the other, while the tile is in the nearest cache.
            few_keys: 32,
            few_part: 256,
        }
    }

    /// The register tile.
    pub fn tile(&self) -> Shape {
        let positive = |n: i64| usize::try_from(n).unwrap_or(1).max(1);
        Shape { rows: positive(self.tile_rows), vectors: positive(self.tile_vectors) }
    }

    /// Columns of a panel, in terms of the target's lanes.
    pub(crate) fn panel_width(&self) -> Dim {
        &n(self.tile_vectors.max(1)) * &var(&LANES)
    }

    /// Columns of a GEMM that one item computes: whole panels.
    pub(crate) fn group_width(&self) -> Dim {
        &n((self.product_vectors / self.tile_vectors.max(1)).max(1)) * &self.panel_width()
    }

    /// Steps of a product's inner index that are taken at once.
    pub(crate) fn depth_block(&self) -> i64 {
        if self.is_flat() { self.product_depth_few } else { self.product_depth }
    }

    /// Whether a register tile has few rows.
    pub fn is_flat(&self) -> bool {
        self.tile_rows < 4
    }
}

impl Default for Tiling {
    /// Of the tile that the portable emitter keeps in registers: one row by eight vectors.
    fn default() -> Tiling {
        Tiling::of(Shape { rows: 1, vectors: 8 })
    }
}

/// A number of `T` that a tuning may change.
#[derive(Debug)]
pub struct Knob<T> {
    /// Its name in files.
    pub name: &'static str,
    /// The least and the greatest value for which programs are tested.
    pub range: (i64, i64),
    /// What it is, in a line.
    pub what: &'static str,
    /// Reads it.
    pub get: fn(&T) -> i64,
    /// Changes it.
    pub set: fn(&mut T, i64),
}

/// A row of a table of knobs, whose name is the field's.
#[macro_export]
macro_rules! knob {
    ($field:ident, $range:expr, $what:literal) => {
        $crate::Knob {
            name: stringify!($field),
            range: $range,
            what: $what,
            get: |of| of.$field,
            set: |of, to| of.$field = to,
        }
    };
}

/// Every field of [`Tiling`].
pub const TILING: &[Knob<Tiling>] = &[
    knob!(tile_rows, (1, 16), "rows of a register tile"),
    knob!(tile_vectors, (1, 8), "vectors of a register tile, and of a packed panel"),
    knob!(product_rows, (1, 4096), "rows of a product that one item computes"),
    knob!(product_vectors, (1, 256), "vectors of columns of a product that one item computes"),
    knob!(product_depth, (1, 65536), "steps of the inner index that an item takes at once"),
    knob!(product_depth_few, (1, 65536), "the same, where a register tile has fewer than four rows"),
    knob!(attention_rows, (1, 1024), "query rows of a tile of attention"),
    knob!(head_rows, (1, 1024), "the same, where one head is all that there is, if it is less"),
    knob!(attention_keys, (1, 4096), "keys of a tile of attention"),
    knob!(probed_rows, (1, 1024), "query rows of a tile of attention whose mask is looked at first"),
    knob!(probed_keys, (1, 4096), "keys of such a tile"),
    knob!(whole_rows, (1, 1024), "query rows of a tile of which the scores of all keys are kept"),
    knob!(
        summed_rows,
        (1, 1024),
        "the most query rows of such a tile where it adds columns to sums for every key"
    ),
    knob!(mixed_rows, (1, 1024), "query rows of such a tile where the heads of a row are mixed"),
    knob!(row_parts, (1, 256), "parts of the rows of an attention that are summed for each key"),
    knob!(few_rows, (1, 64), "query rows up to which keys are read where they lie"),
    knob!(few_keys, (1, 4096), "keys of a tile where rows are few"),
    knob!(few_part, (1, 65536), "keys that one item takes where rows are few"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_with_sums_keep_their_scores_in_the_second_cache() {
        let tiling = Tiling::of(Shape { rows: 6, vectors: 2 });
        let rows = |keys| tiling.rows_with_sums(Some(keys), Some(keys), 2);
        // As many as may be, but all of about as many: eight tiles of 66 rows, not seven of 72 and one of 8.
        assert_eq!(rows(512), 66);
        assert_eq!([1024, 8192].map(rows), [60, tiling.whole_rows]);
        assert!([1, 5, 6, 7, 64, 511, 4096].map(rows).iter().all(|rows| *rows <= tiling.summed_rows));
        assert_eq!(tiling.rows_with_sums(None, Some(512), 2), 2 * tiling.whole_rows);
        assert_eq!(tiling.rows_with_sums(Some(i64::MAX), Some(i64::MAX), 2), tiling.whole_rows);
    }

    #[test]
    fn tiles_of_rows_that_visit_other_keys_are_a_small_part_of_them() {
        let tiling = Tiling::of(Shape { rows: 6, vectors: 2 });
        let found = [1, 64, 512, 1024, i64::MAX].map(|rows| tiling.rows_of_ranges(rows));
        assert_eq!(found, [24, 24, 30, tiling.attention_rows, tiling.attention_rows]);
    }
}
