//! Attention: rows of scores streamed over keys, in tiles of rows over packed keys or in parts of keys for few rows.

pub(crate) mod beside;
pub(crate) mod look;
pub(crate) mod mixture;
pub(crate) mod phase;
pub(crate) mod retry;
pub(crate) mod row_passes;
pub(crate) mod row_tile;
pub(crate) mod score;
pub(crate) mod softmax;
pub(crate) mod split;
pub(crate) mod tiled;
pub(crate) mod values;
pub(crate) mod whole_rows;
