//! Line charts: one or more side by side over the same positions, each with a line for each series.

use crate::svg::Svg;

/// Charts side by side.
#[derive(Clone, Debug, Default)]
pub struct Charts {
    /// The heading.
    pub title: String,
    /// What the positions along the horizontal axes are.
    pub along: String,
    /// The charts.
    pub charts: Vec<Chart>,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What is shown, with its unit.
    pub title: String,
    /// Whether equal factors are equally far apart on the vertical axis; else it begins at zero.
    pub is_logarithmic: bool,
    /// The lines.
    pub series: Vec<Series>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is of.
    pub name: String,
    /// Position and value, both above zero.
    pub points: Vec<(f64, f64)>,
}

/// The colours of lines: told apart without colour vision (Okabe and Ito, 2008), and on light and dark paper.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The sides of a chart's field, in pixels, and what is around it.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 78.0;
const BELOW: f64 = 78.0;
const RIGHT: f64 = 18.0;

/// An axis: its ends, and whether it is logarithmic.
struct Scale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64> + Clone, is_logarithmic: bool) -> Scale {
        let usable = values.filter(|x| x.is_finite() && (*x > 0.0 || !is_logarithmic));
        let high = usable.clone().fold(f64::NEG_INFINITY, f64::max);
        let low = usable.fold(f64::INFINITY, f64::min);
        if high < low {
            return Scale { low: 1.0, high: 10.0, is_logarithmic };
        }
        if is_logarithmic {
            let (low, high) = if high > low { (low, high) } else { (low / 2.0, high * 2.0) };
            return Scale { low, high, is_logarithmic };
        }
        Scale { low: 0.0, high: if high > 0.0 { high * 1.08 } else { 1.0 }, is_logarithmic }
    }

    /// The share of the way from low to high.
    fn share(&self, x: f64) -> f64 {
        if self.is_logarithmic {
            (x.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (x - self.low) / (self.high - self.low)
        }
    }

    /// Round numbers between the ends.
    fn marks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let all: Vec<f64> =
                decades.clone().flat_map(|at| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(at))).collect();
            let inside = |x: &f64| (self.low * 0.999..=self.high * 1.001).contains(x);
            let inside: Vec<f64> = all.into_iter().filter(inside).collect();
            let few: Vec<f64> = decades.map(|at| 10_f64.powi(at)).filter(|x| inside.contains(x)).collect();
            return if inside.len() > 8 && few.len() > 1 { few } else { inside };
        }
        let step = 10_f64.powf((self.high / 4.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * step).into_iter().find(|step| self.high / step <= 5.0);
        let step = step.unwrap_or(self.high);
        (0..).map(|n| f64::from(n) * step).take_while(|x| *x <= self.high).collect()
    }
}

fn label(x: f64) -> String {
    match x.abs() {
        0.0 => "0".to_owned(),
        1e-3..1e5 => format!("{:.4}", x).trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => format!("{x:.0e}"),
    }
}

/// The picture as SVG.
#[must_use]
pub fn svg(charts: &Charts) -> String {
    let count = charts.charts.len().max(1) as f64;
    let mut out = Svg::new(count * (LEFT + WIDTH + RIGHT), TOP + HEIGHT + BELOW, &charts.title);
    write(&mut out, (18.0, 26.0), ("start", 15.0, "ink"), &charts.title);
    for (at, chart) in charts.charts.iter().enumerate() {
        draw(&mut out, chart, at as f64 * (LEFT + WIDTH + RIGHT) + LEFT, &charts.along);
    }
    out.finish()
}

fn write(out: &mut Svg, (x, y): (f64, f64), (anchor, size, class): (&str, f64, &str), text: &str) {
    out.text(
        "text",
        &[
            ("x", &x),
            ("y", &y),
            ("text-anchor", &anchor),
            ("font-size", &format!("{size}px")),
            ("class", &class),
            ("dominant-baseline", &"central"),
        ],
        text,
    );
}

fn line(out: &mut Svg, (x, y): (f64, f64), (to_x, to_y): (f64, f64)) {
    out.element("line", &[("x1", &x), ("y1", &y), ("x2", &to_x), ("y2", &to_y), ("class", &"line")]);
}

fn draw(out: &mut Svg, chart: &Chart, left: f64, along: &str) {
    let points = || chart.series.iter().flat_map(|series| &series.points).copied();
    let (of_x, of_y) =
        (Scale::of(points().map(|p| p.0), true), Scale::of(points().map(|p| p.1), chart.is_logarithmic));
    let x = |value: f64| left + of_x.share(value) * WIDTH;
    let y = |value: f64| TOP + (1.0 - of_y.share(value)) * HEIGHT;
    out.open("g", &[("class", &"chart")]);
    write(out, (left, TOP - 22.0), ("start", 12.0, "ink"), &chart.title);
    for mark in of_y.marks() {
        line(out, (left, y(mark)), (left + WIDTH, y(mark)));
        write(out, (left - 8.0, y(mark)), ("end", 10.0, "faint"), &label(mark));
    }
    let mut positions: Vec<f64> = points().map(|p| p.0).collect();
    positions.sort_by(f64::total_cmp);
    positions.dedup();
    let mut last = f64::NEG_INFINITY;
    for position in positions {
        line(out, (x(position), TOP + HEIGHT), (x(position), TOP + HEIGHT + 5.0));
        // A label that would touch the one before is left out.
        let text = label(position);
        let half = text.len() as f64 * 3.4;
        if x(position) - half > last + 4.0 {
            write(out, (x(position), TOP + HEIGHT + 16.0), ("middle", 10.0, "faint"), &text);
            last = x(position) + half;
        }
    }
    line(out, (left, TOP + HEIGHT), (left + WIDTH, TOP + HEIGHT));
    write(out, (left + WIDTH / 2.0, TOP + HEIGHT + 36.0), ("middle", 11.0, "faint"), along);
    let mut legend = left;
    for (series, colour) in chart.series.iter().zip(COLOURS.iter().cycle()) {
        let path: Vec<String> =
            series.points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
        out.element(
            "polyline",
            &[
                ("points", &path.join(" ")),
                ("fill", &"none"),
                ("stroke", colour),
                ("stroke-width", &2),
                ("data-series", &series.name),
            ],
        );
        for (a, b) in &series.points {
            out.open("circle", &[("cx", &x(*a)), ("cy", &y(*b)), ("r", &3), ("fill", colour)]);
            out.text("title", &[], &format!("{}, {}: {}", series.name, label(*a), label(*b)));
            out.close();
        }
        let at = TOP + HEIGHT + 58.0;
        out.element("circle", &[("cx", &(legend + 4.0)), ("cy", &at), ("r", &4), ("fill", colour)]);
        write(out, (legend + 14.0, at), ("start", 11.0, "ink"), &series.name);
        legend += 34.0 + series.name.chars().count() as f64 * 6.6;
    }
    out.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_numbers_within_the_axis() {
        let of = |values: &[f64], is_logarithmic| Scale::of(values.iter().copied(), is_logarithmic).marks();
        assert_eq!(of(&[0.13, 12.0], true), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0]);
        assert_eq!(of(&[0.001, 1000.0], true).len(), 7);
        assert_eq!(of(&[0.2, 0.9], false), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8]);
        assert!(!of(&[3.0], true).is_empty() && !of(&[], false).is_empty());
    }

    #[test]
    fn every_series_has_a_line_and_its_points() {
        let points = vec![(64.0, 0.2), (128.0, 0.9), (256.0, 4.1)];
        let series = ["jit", "a < b"].map(|name| Series { name: name.to_owned(), points: points.clone() });
        let chart = Chart { title: "time, ms".to_owned(), is_logarithmic: true, series: series.to_vec() };
        let text = svg(&Charts { title: "m".to_owned(), along: "T".to_owned(), charts: vec![chart] });
        assert_eq!(text.matches("<polyline").count(), 2);
        assert_eq!(text.matches("<title>").count(), 1 + 6);
        assert!(text.contains("data-series=\"a &lt; b\"") && text.contains("128: 0.9</title>"), "{text}");
    }
}
