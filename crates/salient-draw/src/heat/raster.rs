//! A grid of heat maps as PNG. Letters are those of a bitmap font, so that a picture is the same on every machine, whatever fonts
//! it has; the font has the Latin letters of ISO 8859-1, and shows others as a question mark.

use super::layout::{Anchor, Layout, Place, Text};
use super::{Grid, Map, Scale, colour};
use embedded_graphics::Drawable as _;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle, iso_8859_1};
use embedded_graphics::pixelcolor::BinaryColor;
use embedded_graphics::prelude::{DrawTarget, Pixel};
use embedded_graphics::text::{Baseline, Text as Letters};
use std::convert::Infallible;

const PAPER: [u8; 3] = [0xff, 0xff, 0xff];
const INK: [u8; 3] = [0x1b, 0x1f, 0x24];
const FAINT: [u8; 3] = [0x6b, 0x72, 0x80];

/// The picture as a PNG file, in the colours of light pages.
#[must_use]
pub fn png(grid: &Grid) -> Vec<u8> {
    let layout = Layout::of(grid);
    let mut canvas = Canvas::new(layout.width as usize, layout.height as usize);
    for (place, map) in &layout.maps {
        canvas.map(*place, map, layout.scale);
    }
    canvas.bar(layout.bar, layout.scale);
    for text in &layout.texts {
        canvas.text(text);
    }
    encoded(canvas.width, canvas.height, &canvas.pixels)
}

/// A map alone as a PNG file, a pixel for each cell.
pub(super) fn pixels(map: &Map, scale: Scale) -> Vec<u8> {
    let cells = (0..map.rows).flat_map(|row| (0..map.columns).map(move |column| (row, column)));
    let bytes: Vec<u8> = cells.flat_map(|(row, column)| colour(scale, map.value(row, column))).collect();
    encoded(map.columns, map.rows, &bytes)
}

fn encoded(width: usize, height: usize, pixels: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels));
    written.expect("memory takes a picture whose pixels are as many as its sides say");
    out
}

struct Canvas {
    width: usize,
    height: usize,
    /// Three bytes for each pixel, row by row.
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Canvas {
        let (width, height) = (width.max(1), height.max(1));
        Canvas { width, height, pixels: PAPER.repeat(width * height) }
    }

    fn set(&mut self, x: i64, y: i64, colour: [u8; 3]) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x < self.width && y < self.height {
            let at = (y * self.width + x) * 3;
            self.pixels[at..at + 3].copy_from_slice(&colour);
        }
    }

    fn map(&mut self, place: Place, map: &Map, scale: Scale) {
        let (left, top) = (place.x.round() as i64, place.y.round() as i64);
        let (width, height) = (place.width.round() as i64, place.height.round() as i64);
        for y in 0..height {
            for x in 0..width {
                let row = (y as usize * map.rows) / height as usize;
                let column = (x as usize * map.columns) / width as usize;
                self.set(left + x, top + y, colour(scale, map.value(row, column)));
            }
        }
    }

    fn bar(&mut self, place: Place, scale: Scale) {
        let height = place.height.round() as i64;
        for y in 0..height {
            let share = 1.0 - (y as f32 + 0.5) / height as f32;
            for x in 0..place.width as i64 {
                let of_share = colour(scale, scale.at(share));
                self.set(place.x.round() as i64 + x, place.y.round() as i64 + y, of_share);
            }
        }
    }

    fn text(&mut self, text: &Text) {
        let font = font_of(text.size);
        let shown: String = text.text.chars().map(|c| if c == '…' { '.' } else { c }).collect();
        let line = Line::of(&shown, font);
        let ink = if text.is_faint { FAINT } else { INK };
        let (x, y) = (text.x.round() as i64, text.y.round() as i64);
        let (width, height) = (line.width as i64, line.height as i64);
        for (dx, dy) in line.set() {
            match text.anchor {
                Anchor::Start => self.set(x + dx, y - height / 2 + dy, ink),
                Anchor::End => self.set(x - width + dx, y - height / 2 + dy, ink),
                Anchor::Upwards => self.set(x - height / 2 + dy, y + width - dx, ink),
            }
        }
    }
}

/// The font of about this size in pixels.
fn font_of(size: f64) -> &'static MonoFont<'static> {
    match size {
        ..9.5 => &iso_8859_1::FONT_5X8,
        ..11.5 => &iso_8859_1::FONT_6X10,
        ..13.5 => &iso_8859_1::FONT_7X13,
        _ => &iso_8859_1::FONT_9X15_BOLD,
    }
}

/// A line of letters.
struct Line {
    width: usize,
    height: usize,
    is_set: Vec<bool>,
}

impl Line {
    fn of(text: &str, font: &MonoFont<'_>) -> Line {
        let Size { width, height } = font.character_size;
        let letters = text.chars().count();
        let (width, height) = (letters * (width + font.character_spacing) as usize, height as usize);
        let mut line = Line { width, height, is_set: vec![false; width * height] };
        let style = MonoTextStyle::new(font, BinaryColor::On);
        let Ok(_) = Letters::with_baseline(text, Point::zero(), style, Baseline::Top).draw(&mut line);
        line
    }

    fn set(&self) -> impl Iterator<Item = (i64, i64)> {
        let set = self.is_set.iter().enumerate().filter(|(_, is_set)| **is_set);
        set.map(|(at, _)| ((at % self.width) as i64, (at / self.width) as i64))
    }
}

impl OriginDimensions for Line {
    fn size(&self) -> Size {
        Size::new(self.width as u32, self.height as u32)
    }
}

impl DrawTarget for Line {
    type Color = BinaryColor;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<BinaryColor>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(Point { x, y }, colour) in pixels {
            if let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y))
                && x < self.width
                && y < self.height
            {
                self.is_set[y * self.width + x] = colour.is_on();
            }
        }
        Ok(())
    }
}
