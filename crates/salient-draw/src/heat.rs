//! Heat maps of matrices with rows of queries and columns of keys: a grid of them, with labels and one scale of colours.
//!
//! What stands where is decided once (`layout`); [`svg()`] and [`png()`] paint it, [`terminal()`] prints coloured blocks.

mod layout;
mod raster;
mod scale;
mod terminal;
mod vector;

pub use raster::png;
pub use scale::{Scale, colour};
pub use terminal::terminal;
pub use vector::svg;

/// A grid of heat maps.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The heading of the picture.
    pub title: String,
    /// What a cell is, in a line under the heading.
    pub note: String,
    /// The rows of the grid.
    pub rows: Vec<Row>,
    /// A word for each row of a map, where there are words.
    pub row_labels: Vec<String>,
    /// A word for each column of a map.
    pub column_labels: Vec<String>,
}

/// A row of the grid: the heads of a layer.
#[derive(Clone, Debug)]
pub struct Row {
    /// What stands over it.
    pub name: String,
    /// Its maps.
    pub maps: Vec<Map>,
}

/// A heat map.
#[derive(Clone, Debug)]
pub struct Map {
    /// What stands over it.
    pub name: String,
    /// Rows of cells.
    pub rows: usize,
    /// Columns of cells.
    pub columns: usize,
    /// The numbers, row by row.
    pub values: Vec<f32>,
}

impl Map {
    /// The number of a cell.
    pub(crate) fn value(&self, row: usize, column: usize) -> f32 {
        self.values.get(row * self.columns + column).copied().unwrap_or(f32::NAN)
    }
}

impl Grid {
    fn maps(&self) -> impl Iterator<Item = &Map> {
        self.rows.iter().flat_map(|row| &row.maps)
    }
}
