//! A grid of heat maps as SVG.

use super::layout::{Anchor, Layout, Place, number};
use super::raster::pixels;
use super::{Grid, Map, Scale, colour};
use crate::svg::Svg;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Cells of a picture whose cells are elements, at most; those of larger ones are the pixels of an image for each map.
const ELEMENTS: usize = 2048;

/// Steps of the bar of colours.
const STEPS: usize = 32;

/// The picture as SVG. Cells of small maps say their numbers to who points at them.
#[must_use]
pub fn svg(grid: &Grid) -> String {
    let layout = Layout::of(grid);
    let mut out = Svg::new(layout.width, layout.height, &grid.title);
    let are_elements = grid.maps().map(|map| map.rows * map.columns).sum::<usize>() <= ELEMENTS;
    for (place, map) in &layout.maps {
        draw_map(&mut out, (*place, map), layout.scale, are_elements.then_some(grid));
    }
    bar(&mut out, layout.bar, layout.scale);
    for text in &layout.texts {
        let class = if text.is_faint { "faint" } else { "ink" };
        let size = format!("{}px", text.size);
        let anchor = if text.anchor == Anchor::Start { "start" } else { "end" };
        let (x, y) = (text.x, text.y);
        let turned = format!("rotate(-90 {x} {y})");
        let mut attributes: Vec<(&str, &dyn std::fmt::Display)> = vec![
            ("x", &x),
            ("y", &y),
            ("class", &class),
            ("font-size", &size),
            ("text-anchor", &anchor),
            ("dominant-baseline", &"central"),
        ];
        if text.anchor == Anchor::Upwards {
            attributes.push(("transform", &turned));
        }
        out.text("text", &attributes, &text.text);
    }
    out.finish()
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn draw_map(out: &mut Svg, (place, map): (Place, &Map), scale: Scale, words: Option<&Grid>) {
    out.open("g", &[("class", &"map"), ("data-rows", &map.rows), ("data-columns", &map.columns)]);
    if let Some(grid) = words {
        cells(out, (place, map), scale, grid);
    } else {
        let image = STANDARD.encode(pixels(map, scale));
        let href = format!("data:image/png;base64,{image}");
        out.element(
            "image",
            &[
                ("x", &place.x),
                ("y", &place.y),
                ("width", &place.width),
                ("height", &place.height),
                ("preserveAspectRatio", &"none"),
                ("image-rendering", &"pixelated"),
                ("href", &href),
            ],
        );
    }
    out.close();
    out.element(
        "rect",
        &[
            ("x", &(place.x - 0.5)),
            ("y", &(place.y - 0.5)),
            ("width", &(place.width + 1.0)),
            ("height", &(place.height + 1.0)),
            ("class", &"line"),
        ],
    );
}

/// A cell as an element that says what it is.
fn cells(out: &mut Svg, (place, map): (Place, &Map), scale: Scale, grid: &Grid) {
    let (width, height) = (place.width / map.columns as f64, place.height / map.rows as f64);
    let word = |labels: &[String], at: usize| labels.get(at).cloned().unwrap_or_else(|| at.to_string());
    for row in 0..map.rows {
        for column in 0..map.columns {
            let value = map.value(row, column);
            out.open(
                "rect",
                &[
                    ("x", &(place.x + column as f64 * width)),
                    ("y", &(place.y + row as f64 * height)),
                    ("width", &width),
                    ("height", &height),
                    ("fill", &hex(colour(scale, value))),
                    ("shape-rendering", &"crispEdges"),
                ],
            );
            let (query, key) = (word(&grid.row_labels, row), word(&grid.column_labels, column));
            out.text("title", &[], &format!("{query} → {key}: {}", number(value)));
            out.close();
        }
    }
}

fn bar(out: &mut Svg, place: Place, scale: Scale) {
    let height = place.height / STEPS as f64;
    out.open("g", &[("class", &"bar")]);
    for step in 0..STEPS {
        let share = (step as f32 + 0.5) / STEPS as f32;
        out.element(
            "rect",
            &[
                ("x", &place.x),
                ("y", &(place.y + place.height - (step + 1) as f64 * height)),
                ("width", &place.width),
                ("height", &(height + 0.5)),
                ("fill", &hex(colour(scale, scale.at(share)))),
            ],
        );
    }
    out.close();
}
