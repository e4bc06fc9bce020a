//! Bars one below the other, with a line at one: how many times as fast.

use crate::svg::Svg;

/// A picture of bars.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// The heading.
    pub title: String,
    /// What a bar is, in a line under the heading.
    pub note: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it is of.
    pub name: String,
    /// How long it is.
    pub value: f64,
    /// What stands behind the number.
    pub note: String,
}

/// The height of a bar and what is around it, the place for names and notes, and the width of the longest bar, in pixels.
const STEP: f64 = 19.0;
const NAMES: f64 = 150.0;
const NOTES: f64 = 170.0;
const LONGEST: f64 = 420.0;
const TOP: f64 = 72.0;

/// The picture as SVG.
#[must_use]
pub fn svg(bars: &Bars) -> String {
    let most = bars.bars.iter().map(|bar| bar.value).filter(|x| x.is_finite()).fold(1.0, f64::max);
    let height = bars.bars.len() as f64 * STEP;
    let mut out = Svg::new(NAMES + LONGEST + NOTES, TOP + height + 24.0, &bars.title);
    let mut text = |(x, y): (f64, f64), (anchor, size, class): (&str, &str, &str), text: &str| {
        out.text(
            "text",
            &[
                ("x", &x),
                ("y", &y),
                ("text-anchor", &anchor),
                ("font-size", &size),
                ("class", &class),
                ("dominant-baseline", &"central"),
            ],
            text,
        );
    };
    text((18.0, 26.0), ("start", "15px", "ink"), &bars.title);
    text((18.0, 47.0), ("start", "11px", "faint"), &bars.note);
    for (at, bar) in bars.bars.iter().enumerate() {
        let middle = TOP + (at as f64 + 0.5) * STEP;
        text((NAMES - 10.0, middle), ("end", "11px", "ink"), &bar.name);
        let end = NAMES + bar.value / most * LONGEST;
        text((end + 8.0, middle), ("start", "11px", "faint"), &format!("{:.2} {}", bar.value, bar.note));
    }
    for (at, bar) in bars.bars.iter().enumerate() {
        let (y, width) = (TOP + at as f64 * STEP + 3.0, bar.value / most * LONGEST);
        out.element(
            "rect",
            &[
                ("x", &NAMES),
                ("y", &y),
                ("width", &width),
                ("height", &(STEP - 6.0)),
                ("rx", &2),
                ("class", &"mark"),
                ("data-name", &bar.name),
            ],
        );
    }
    let one = NAMES + LONGEST / most;
    out.element(
        "line",
        &[
            ("x1", &one),
            ("y1", &(TOP - 6.0)),
            ("x2", &one),
            ("y2", &(TOP + height + 6.0)),
            ("class", &"line"),
        ],
    );
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |name: &str, value| Bar { name: name.to_owned(), value, note: "other".to_owned() };
        let bars = vec![bar("a", 4.0), bar("b", 1.0)];
        let text = svg(&Bars { title: "t".to_owned(), note: String::new(), bars });
        assert!(text.contains("width=\"420\"") && text.contains("width=\"105\""), "{text}");
        assert!(text.contains(">4.00 other</text>"), "{text}");
    }
}
