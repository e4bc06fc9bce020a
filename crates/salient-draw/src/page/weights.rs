//! Maps of weights as they stand in a page: a byte for each cell.

use super::Weights;
use crate::heat::Map;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

impl Weights {
    /// Those of a head's map of which so many rows and columns become one, with so many queries and keys in each; without labels.
    pub fn new(
        attention: String,
        map: &Map,
        shape: (usize, usize),
        (queries, keys): (usize, usize),
    ) -> Weights {
        let pooled = pooled(map, shape);
        let high = pooled.values.iter().copied().filter(|x| x.is_finite()).fold(0.0, f32::max);
        let byte = |x: &f32| (x / high.max(f32::MIN_POSITIVE) * 255.0).round().clamp(0.0, 255.0) as u8;
        let cells: Vec<u8> = pooled.values.iter().map(byte).collect();
        Weights {
            attention,
            head: map.name.clone(),
            rows: pooled.rows,
            columns: pooled.columns,
            queries,
            keys,
            high: f64::from(high),
            cells: STANDARD.encode(cells),
            row_labels: Vec::new(),
            column_labels: Vec::new(),
        }
    }
}

/// A map with so many rows and columns in one: the mean over rows of sums over columns.
fn pooled(map: &Map, (by_rows, by_columns): (usize, usize)) -> Map {
    let (by_rows, by_columns) = (by_rows.max(1), by_columns.max(1));
    let (rows, columns) = (map.rows.div_ceil(by_rows), map.columns.div_ceil(by_columns));
    let mut values = vec![0.0; rows * columns];
    for row in 0..map.rows {
        let first = row / by_rows * by_rows;
        let share = 1.0 / (map.rows - first).min(by_rows) as f32;
        for column in 0..map.columns {
            values[row / by_rows * columns + column / by_columns] += map.value(row, column) * share;
        }
    }
    Map { name: map.name.clone(), rows, columns, values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_means_and_columns_sums_also_where_a_last_tile_is_not_full() {
        let values = vec![1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.25, 0.25, 0.5];
        let map = Map { name: String::new(), rows: 3, columns: 3, values };
        assert_eq!(pooled(&map, (2, 2)).values, [1.0, 0.0, 0.5, 0.5]);
        let weights = Weights::new("w".to_owned(), &map, (2, 2), (2, 2));
        assert_eq!((weights.rows, weights.columns, weights.high), (2, 2, 1.0));
        assert_eq!(STANDARD.decode(weights.cells).unwrap(), [255, 0, 128, 128]);
    }
}
