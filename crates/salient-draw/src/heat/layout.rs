//! What of a grid stands where, in pixels.

use super::{Grid, Map, Scale};

/// The side of the only map of a picture, about.
const ALONE: f64 = 480.0;
/// The width of all maps of a row, about.
const ROW: f64 = 960.0;
/// The least and the largest side of a map among others.
const SIDES: (f64, f64) = (72.0, 260.0);
/// The largest cell.
const LARGEST_CELL: f64 = 44.0;
/// The least cell beside which a word can be read.
const READABLE: f64 = 10.0;
const GAP: f64 = 14.0;
const MARGIN: f64 = 18.0;
/// Letters of a label, at most.
const LETTERS: usize = 18;
/// The width of a letter of a label, as a share of its size.
const LETTER: f64 = 0.62;

/// A picture's pieces.
pub(super) struct Layout<'g> {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) texts: Vec<Text>,
    pub(super) maps: Vec<(Place, &'g Map)>,
    pub(super) bar: Place,
    pub(super) scale: Scale,
}

/// A rectangle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Which point of a text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    End,
    /// Its end, and the text goes upwards.
    Upwards,
}

/// A text; its line's middle is at `y`, or at `x` if it goes upwards.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) size: f64,
    pub(super) anchor: Anchor,
    pub(super) is_faint: bool,
    pub(super) text: String,
}

/// A label of at most [`LETTERS`] letters, on one line.
fn label(text: &str) -> String {
    let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shown.chars().count() <= LETTERS {
        return shown;
    }
    shown.chars().take(LETTERS - 1).chain(['…']).collect()
}

fn width_of(labels: &[String], size: f64) -> f64 {
    let letters = labels.iter().map(|text| label(text).chars().count()).max().unwrap_or(0);
    letters as f64 * size * LETTER
}

pub(super) fn number(x: f32) -> String {
    if x == 0.0 {
        "0".to_owned()
    } else if x.abs() >= 0.01 && x.abs() < 1000.0 {
        format!("{x:.2}")
    } else {
        format!("{x:.1e}")
    }
}

impl<'g> Layout<'g> {
    pub(super) fn of(grid: &'g Grid) -> Layout<'g> {
        let columns = grid.rows.iter().map(|row| row.maps.len()).max().unwrap_or(0).max(1);
        let cells = grid.maps().map(|map| map.rows.max(map.columns)).max().unwrap_or(1).max(1) as f64;
        let is_alone = grid.maps().count() == 1;
        let side = if is_alone { ALONE } else { (ROW / columns as f64).clamp(SIDES.0, SIDES.1) };
        let cell = (side / cells).min(LARGEST_CELL);
        let cell = if cell >= 2.0 { cell.floor() } else { cell };
        let size = cell.clamp(READABLE, 13.0) - 1.0;
        let is_readable = cell >= READABLE;
        let labels = |labels: &[String]| if is_readable { width_of(labels, size) + 8.0 } else { 0.0 };
        let (left, below) = (labels(&grid.row_labels), labels(&grid.column_labels));

        let mut out = Layout {
            width: 0.0,
            height: 0.0,
            texts: Vec::new(),
            maps: Vec::new(),
            bar: Place { x: 0.0, y: 0.0, width: 14.0, height: 0.0 },
            scale: Scale::of(grid),
        };
        let mut y = MARGIN + 8.0;
        out.text((MARGIN, y), 15.0, Anchor::Start, false, &grid.title);
        y += 20.0;
        if !grid.note.is_empty() {
            out.text((MARGIN, y), 11.0, Anchor::Start, true, &grid.note);
            y += 18.0;
        }
        let top = y;
        let mut right: f64 = MARGIN;
        for row in &grid.rows {
            if !row.name.is_empty() {
                out.text((MARGIN, y + 6.0), 12.0, Anchor::Start, false, &row.name);
                y += 18.0;
            }
            if row.maps.iter().any(|map| !map.name.is_empty()) {
                y += 14.0;
            }
            let mut x = MARGIN + left;
            let mut bottom = y;
            for (at, map) in row.maps.iter().enumerate() {
                let place = Place { x, y, width: map.columns as f64 * cell, height: map.rows as f64 * cell };
                if !map.name.is_empty() {
                    out.text((x, y - 7.0), 10.0, Anchor::Start, true, &label(&map.name));
                }
                if is_readable && at == 0 {
                    out.rows(&grid.row_labels, place, cell, size);
                }
                if is_readable {
                    out.columns(&grid.column_labels, place, cell, size);
                }
                out.maps.push((place, map));
                x += place.width.max(24.0) + GAP;
                bottom = bottom.max(y + place.height);
            }
            right = right.max(x - GAP);
            y = bottom + below + GAP;
        }
        out.bar(right + 26.0, top, (y - GAP - top).clamp(60.0, 220.0));
        let titles = [(&grid.title, 15.0), (&grid.note, 11.0)];
        let widest = titles.map(|(text, size)| MARGIN + text.chars().count() as f64 * size * LETTER);
        out.width = widest.into_iter().fold(right + 26.0 + 14.0 + 58.0, f64::max).ceil() + MARGIN;
        out.height = (y - GAP + MARGIN).max(out.bar.y + out.bar.height + MARGIN).ceil();
        out
    }

    fn text(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, is_faint: bool, text: &str) {
        self.texts.push(Text { x, y, size, anchor, is_faint, text: text.to_owned() });
    }

    fn rows(&mut self, labels: &[String], place: Place, cell: f64, size: f64) {
        for (row, text) in labels.iter().enumerate() {
            let y = place.y + (row as f64 + 0.5) * cell;
            self.text((place.x - 6.0, y), size, Anchor::End, false, &label(text));
        }
    }

    fn columns(&mut self, labels: &[String], place: Place, cell: f64, size: f64) {
        for (column, text) in labels.iter().enumerate() {
            let x = place.x + (column as f64 + 0.5) * cell;
            self.text((x, place.y + place.height + 6.0), size, Anchor::Upwards, false, &label(text));
        }
    }

    /// The scale of colours.
    fn bar(&mut self, x: f64, y: f64, height: f64) {
        self.bar = Place { x, y, width: 14.0, height };
        for share in [0.0, 0.5, 1.0] {
            let text = number(self.scale.at(share));
            let y = y + height * (1.0 - f64::from(share));
            self.text((x + 20.0, y), 10.0, Anchor::Start, false, &text);
        }
    }
}
