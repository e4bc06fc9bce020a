//! A drawing as SVG. A block has a layout of its own, in which what comes from outside and what leaves it has a place at the border.

use super::layered::{self, Places, Plan};
use super::{Block, Drawing, Role, Row, Shape};
use crate::svg::Svg;
use std::collections::BTreeMap;

const CHAR: f64 = 7.1;
const LINE: f64 = 16.0;
const PAD: f64 = 10.0;
const MARGIN: f64 = 16.0;
/// Characters of a row, of which the rest is cut off; the whole stands in its title.
const MOST: usize = 52;

const STYLE: &str = "\
text{font:11.5px ui-monospace,'DejaVu Sans Mono',monospace}.name{font-weight:600}\
.graph rect{fill:var(--box);stroke:var(--line)}.graph .fused rect{stroke:var(--mark);stroke-width:2}\
.graph .input rect,.graph .output rect{stroke-dasharray:4 3}.graph .port rect{stroke:none;fill:var(--line)}\
.graph .frame{fill:none;stroke:var(--faint);stroke-dasharray:2 3}\
.edge{fill:none;stroke:var(--faint);stroke-width:1.2}.head{fill:var(--faint)}.label{fill:var(--faint);font-size:10.5px;paint-order:stroke;stroke:var(--paper);stroke-width:5px;stroke-linejoin:round}";

/// A box that is drawn: one of the drawing, a block, or a place at the border of a block.
enum Item<'d> {
    Shape(usize, &'d Shape),
    Block(usize, Box<Sheet<'d>>),
    Port(String),
}

/// Boxes with a layout.
struct Sheet<'d> {
    items: Vec<Item<'d>>,
    edges: Vec<(usize, usize, String)>,
    sizes: Vec<(f64, f64)>,
    places: Places,
}

/// The picture of a drawing.
pub fn picture(drawing: &Drawing) -> String {
    let sheet = outer(drawing);
    let (width, height) = sheet.places.size;
    let (width, height) = ((width + 2.0 * MARGIN).ceil(), (height + 2.0 * MARGIN).ceil());
    let mut svg = Svg::new(width, height, &drawing.title);
    svg.text("style", &[], STYLE);
    svg.open("g", &[("class", &"graph")]);
    draw(&mut svg, drawing, &sheet, (MARGIN, MARGIN));
    svg.finish()
}

/// The layout of what stands in no block, and of the blocks.
fn outer(drawing: &Drawing) -> Sheet<'_> {
    let block_of = |at: usize| drawing.blocks.iter().position(|block| block.boxes.contains(&at));
    let mut items: Vec<Item<'_>> = Vec::new();
    let mut place: BTreeMap<usize, usize> = BTreeMap::new();
    for at in order(drawing) {
        match block_of(at) {
            None => {
                place.insert(at, items.len());
                items.push(Item::Shape(at, &drawing.boxes[at]));
            }
            Some(block) if !place.contains_key(&at) => {
                let of = &drawing.blocks[block];
                place.extend(of.boxes.iter().map(|at| (*at, items.len())));
                items.push(Item::Block(block, Box::new(inner(drawing, of))));
            }
            Some(_) => {}
        }
    }
    let mut edges: Vec<(usize, usize, String)> = Vec::new();
    for edge in &drawing.edges {
        let new = (place[&edge.from], place[&edge.to], edge.label.clone());
        if new.0 != new.1 && !edges.contains(&new) {
            edges.push(new);
        }
    }
    Sheet::new(items, edges)
}

/// The boxes in an order in which a block stands as one: behind all that it reads, before all that read it.
fn order(drawing: &Drawing) -> Vec<usize> {
    let unit = |at: usize| drawing.blocks.iter().find(|b| b.boxes.contains(&at)).map_or(at, |b| b.boxes[0]);
    let mut waiting: Vec<usize> = (0..drawing.boxes.len()).collect();
    let mut out: Vec<usize> = Vec::new();
    while !waiting.is_empty() {
        let reads =
            |of: usize| drawing.edges.iter().filter(move |edge| unit(edge.to) == of).map(|edge| edge.from);
        let is_ready =
            |at: &usize| reads(unit(*at)).all(|from| unit(from) == unit(*at) || !waiting.contains(&from));
        let at = waiting.iter().position(is_ready).unwrap_or(0);
        let unit_of = unit(waiting[at]);
        let (ready, rest) = waiting.iter().partition(|at| unit(**at) == unit_of);
        let ready: Vec<usize> = ready;
        out.extend(ready);
        waiting = rest;
    }
    out
}

/// The layout inside of a block.
fn inner<'d>(drawing: &'d Drawing, block: &Block) -> Sheet<'d> {
    let inside = |at: usize| block.boxes.contains(&at);
    let sources: Vec<usize> =
        drawing.edges.iter().filter(|e| !inside(e.from) && inside(e.to)).map(|e| e.from).collect();
    let left: Vec<usize> =
        drawing.edges.iter().filter(|e| inside(e.from) && !inside(e.to)).map(|e| e.from).collect();
    let mut items: Vec<Item<'_>> = Vec::new();
    let mut above: BTreeMap<usize, usize> = BTreeMap::new();
    for at in sources {
        above.entry(at).or_insert_with(|| {
            items.push(Item::Port(drawing.boxes[at].title.clone()));
            items.len() - 1
        });
    }
    let mut place: BTreeMap<usize, usize> = BTreeMap::new();
    for at in &block.boxes {
        place.insert(*at, items.len());
        items.push(Item::Shape(*at, &drawing.boxes[*at]));
    }
    let mut edges = Vec::new();
    for edge in drawing.edges.iter().filter(|edge| inside(edge.to)) {
        let (from, label) = match place.get(&edge.from) {
            Some(from) => (*from, edge.label.clone()),
            None => (above[&edge.from], String::new()),
        };
        edges.push((from, place[&edge.to], label));
    }
    let mut below: BTreeMap<usize, usize> = BTreeMap::new();
    for at in left {
        below.entry(at).or_insert_with(|| {
            items.push(Item::Port("to the next, and out".to_owned()));
            edges.push((place[&at], items.len() - 1, String::new()));
            items.len() - 1
        });
    }
    Sheet::new(items, edges)
}

impl<'d> Sheet<'d> {
    fn new(items: Vec<Item<'d>>, edges: Vec<(usize, usize, String)>) -> Sheet<'d> {
        let sizes: Vec<(f64, f64)> = items.iter().map(size).collect();
        let labelled = |(from, to, label): &(usize, usize, String)| {
            let height = if label.is_empty() { 0.0 } else { 14.0 };
            (*from, *to, (label.chars().count() as f64 * 6.6 + 4.0, height))
        };
        let plan = Plan { boxes: sizes.clone(), edges: edges.iter().map(labelled).collect() };
        let places = layered::layout(&plan);
        Sheet { items, edges, sizes, places }
    }
}

fn size(item: &Item<'_>) -> (f64, f64) {
    match item {
        Item::Shape(_, shape) => {
            let rows = shape.rows.iter().map(|row| shown(row.text()).chars().count());
            let most = rows.chain([shown(&shape.title).chars().count() + 1]).max().unwrap_or(0);
            (most as f64 * CHAR + 2.0 * PAD, (shape.rows.len() + 1) as f64 * LINE + PAD)
        }
        Item::Block(_, sheet) => {
            let (width, height) = sheet.places.size;
            (width.max(160.0) + 2.0 * PAD, height + 2.0 * PAD + 2.0 * LINE)
        }
        Item::Port(text) => (shown(text).chars().count() as f64 * CHAR + 2.0 * PAD, LINE + 4.0),
    }
}

/// A text that is not longer than a row.
fn shown(text: &str) -> String {
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST - 1).chain(['…']).collect()
}

fn draw(svg: &mut Svg, drawing: &Drawing, sheet: &Sheet<'_>, (left, top): (f64, f64)) {
    for ((points, (from, to, label)), middle) in
        sheet.places.edges.iter().zip(&sheet.edges).zip(&sheet.places.labels)
    {
        let moved: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x + left, y + top)).collect();
        let ends = format!("{from} {to}");
        svg.element("path", &[("class", &"edge"), ("d", &curve(&moved)), ("data-ends", &ends)]);
        let (x, y) = moved[moved.len() - 1];
        let head = format!("M{x:.1} {y:.1}l-3.5 -7h7z");
        svg.element("path", &[("class", &"head"), ("d", &head)]);
        if !label.is_empty() {
            let at = (middle.0 + left, middle.1 + top + 4.0);
            let place = [("x", format!("{:.1}", at.0)), ("y", format!("{:.1}", at.1))];
            let [x, y] = &place;
            svg.text(
                "text",
                &[("class", &"label"), ("text-anchor", &"middle"), (x.0, &x.1), (y.0, &y.1)],
                label,
            );
        }
    }
    for ((item, (x, y)), size) in sheet.items.iter().zip(&sheet.places.boxes).zip(&sheet.sizes) {
        let corner = (x + left, y + top);
        match item {
            Item::Shape(at, shape) => draw_shape(svg, *at, shape, corner, *size),
            Item::Port(text) => draw_port(svg, text, corner, *size),
            Item::Block(at, inner) => {
                let block = &drawing.blocks[*at];
                rect(svg, "frame", corner, *size, 10.0);
                let title = (corner.0 + PAD, corner.1 + LINE + 2.0);
                text(svg, "name", title, &block.title());
                let room = (size.0 - inner.places.size.0) / 2.0;
                draw(svg, drawing, inner, (corner.0 + room, corner.1 + PAD + 1.6 * LINE));
            }
        }
    }
}

fn draw_shape(svg: &mut Svg, at: usize, shape: &Shape, (x, y): (f64, f64), size: (f64, f64)) {
    let nodes: Vec<String> = shape.nodes.iter().map(ToString::to_string).collect();
    svg.open("g", &[("class", &shape.role.name()), ("data-box", &at), ("data-nodes", &nodes.join(" "))]);
    let whole: Vec<&str> =
        [shape.title.as_str()].into_iter().chain(shape.rows.iter().map(Row::text)).collect();
    svg.text("title", &[], &whole.join("\n"));
    rect(
        svg,
        "shape",
        (x, y),
        size,
        if matches!(shape.role, Role::Input | Role::Output) { 12.0 } else { 5.0 },
    );
    text(svg, "name", (x + PAD, y + LINE), &shown(&shape.title));
    for (n, row) in shape.rows.iter().enumerate() {
        let class = if matches!(row, Row::Part(_)) { "part" } else { "faint" };
        text(svg, class, (x + PAD, y + LINE * (n + 2) as f64), &shown(row.text()));
    }
    svg.close();
}

fn draw_port(svg: &mut Svg, label: &str, (x, y): (f64, f64), size: (f64, f64)) {
    svg.open("g", &[("class", &"port")]);
    rect(svg, "shape", (x, y), size, 9.0);
    text(svg, "part", (x + PAD, y + LINE - 2.0), &shown(label));
    svg.close();
}

fn rect(svg: &mut Svg, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), radius: f64) {
    let [x, y, width, height] = [x, y, width, height].map(|n| format!("{n:.1}"));
    let place: [(&str, &dyn std::fmt::Display); 6] =
        [("class", &class), ("x", &x), ("y", &y), ("width", &width), ("height", &height), ("rx", &radius)];
    svg.element("rect", &place);
}

fn text(svg: &mut Svg, class: &str, (x, y): (f64, f64), text: &str) {
    let [x, y] = [x, y].map(|n| format!("{n:.1}"));
    svg.text("text", &[("class", &class), ("x", &x), ("y", &y)], text);
}

/// A line through the points, which leaves and enters each of them downwards.
fn curve(points: &[(f64, f64)]) -> String {
    let mut out = format!("M{:.1} {:.1}", points[0].0, points[0].1);
    for pair in points.windows(2) {
        let [(x, y), (to_x, to_y)] = [pair[0], pair[1]];
        let middle = (y + to_y) / 2.0;
        out.push_str(&if (x - to_x).abs() < 0.05 {
            format!("L{to_x:.1} {to_y:.1}")
        } else {
            format!("C{x:.1} {middle:.1} {to_x:.1} {middle:.1} {to_x:.1} {to_y:.1}")
        });
    }
    out
}
