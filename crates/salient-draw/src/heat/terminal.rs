//! A grid of heat maps in a terminal: half blocks, two rows of cells a line.

use super::{Grid, Map, Scale, colour};
use std::fmt::Write as _;

/// The maps one below the other, each at most so many columns wide: larger ones show the mean of the cells that meet in one.
#[must_use]
pub fn terminal(grid: &Grid, width: usize) -> String {
    let scale = Scale::of(grid);
    let mut out = format!("{}\n", grid.title);
    if !grid.note.is_empty() {
        let _ = writeln!(out, "{}", grid.note);
    }
    let letters = grid.row_labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    for row in &grid.rows {
        for map in &row.maps {
            let name = [row.name.as_str(), map.name.as_str()].join(" ");
            let _ = writeln!(out, "\n{}", name.trim());
            let labels = if map.rows <= width { grid.row_labels.as_slice() } else { &[] };
            print(&mut out, &at_most(map, width.max(8)), scale, (labels, letters));
        }
    }
    let _ = writeln!(out, "\n{} {}", super::layout::number(scale.low), legend(scale));
    out
}

/// A map with its cells side by side put together until it is narrow enough.
fn at_most(map: &Map, width: usize) -> Map {
    let by = map.columns.max(map.rows).div_ceil(width).max(1);
    if by == 1 {
        return map.clone();
    }
    let (rows, columns) = (map.rows.div_ceil(by), map.columns.div_ceil(by));
    let mut values = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let of_rows = row * by..((row + 1) * by).min(map.rows);
            let cells: Vec<f32> = of_rows
                .flat_map(|r| (column * by..((column + 1) * by).min(map.columns)).map(move |c| (r, c)))
                .map(|(r, c)| map.value(r, c))
                .collect();
            values.push(cells.iter().sum::<f32>() / cells.len().max(1) as f32);
        }
    }
    Map { name: map.name.clone(), rows, columns, values }
}

fn print(out: &mut String, map: &Map, scale: Scale, (labels, letters): (&[String], usize)) {
    // A line has two rows of cells, or one beside its word.
    let step = if labels.is_empty() { 2 } else { 1 };
    for row in (0..map.rows).step_by(step) {
        if let Some(label) = labels.get(row) {
            let _ = write!(out, "{label:>letters$} ");
        }
        for column in 0..map.columns {
            let [r, g, b] = colour(scale, map.value(row, column));
            let _ = match step {
                1 => write!(out, "\x1b[48;2;{r};{g};{b}m  "),
                _ => {
                    let _ = write!(out, "\x1b[38;2;{r};{g};{b}m");
                    if row + 1 < map.rows {
                        let [r, g, b] = colour(scale, map.value(row + 1, column));
                        let _ = write!(out, "\x1b[48;2;{r};{g};{b}m");
                    }
                    write!(out, "▀")
                }
            };
        }
        out.push_str("\x1b[0m\n");
    }
}

fn legend(scale: Scale) -> String {
    let mut out = String::new();
    for step in 0_u8..24 {
        let [r, g, b] = colour(scale, scale.at(f32::from(step) / 23.0));
        let _ = write!(out, "\x1b[48;2;{r};{g};{b}m ");
    }
    let _ = write!(out, "\x1b[0m {}", super::layout::number(scale.high));
    out
}
