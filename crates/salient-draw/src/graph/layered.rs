//! A layered layout of boxes of given sizes, after Sugiyama, Tagawa and Toda (1981): boxes stand in layers below all that they read,
//! edges that pass layers and labels of edges have places of their own in these, neighbours are ordered by where theirs are, and
//! places in a layer are as near to those as boxes beside allow. Nothing overlaps, whatever the sizes are.

/// Rounds in which the order of layers is looked for.
const ROUNDS: usize = 12;
/// Between boxes of a layer, and between layers.
pub const GAP: (f64, f64) = (26.0, 30.0);

/// What is laid out.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Width and height of each box.
    pub boxes: Vec<(f64, f64)>,
    /// Edges from a box to one behind it, with the width and the height of the label.
    pub edges: Vec<(usize, usize, (f64, f64))>,
}

/// Where everything is.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The upper left corner of each box.
    pub boxes: Vec<(f64, f64)>,
    /// The points of each edge, from the box above to the box below.
    pub edges: Vec<Vec<(f64, f64)>>,
    /// The middle of each label.
    pub labels: Vec<(f64, f64)>,
    /// Width and height of all of it.
    pub size: (f64, f64),
}

/// A place in a layer: of a box, of a label, or of an edge that passes.
struct Slot {
    layer: usize,
    size: (f64, f64),
    above: Vec<usize>,
    below: Vec<usize>,
    x: f64,
    is_box: bool,
}

struct Layout {
    slots: Vec<Slot>,
    layers: Vec<Vec<usize>>,
    /// The slots of each edge, from its upper box to its lower one.
    ways: Vec<Vec<usize>>,
    /// The slot of each label.
    labels: Vec<usize>,
}

/// Finds the places.
pub fn layout(plan: &Plan) -> Places {
    let mut layout = Layout::new(plan);
    layout.order();
    layout.place();
    layout.places(plan)
}

/// The layer of each box: even numbers, so that each edge has a layer for its label on its way. Boxes stand as near to what reads
/// them as they can.
fn levels(plan: &Plan) -> Vec<usize> {
    let mut level = vec![0; plan.boxes.len()];
    for (at, _) in plan.boxes.iter().enumerate() {
        let above = plan.edges.iter().filter(|(_, to, _)| *to == at);
        level[at] = above.map(|(from, ..)| level[*from] + 2).max().unwrap_or(0);
    }
    for at in (0..plan.boxes.len()).rev() {
        let below = plan.edges.iter().filter(|(from, ..)| *from == at).map(|(_, to, _)| level[*to]);
        let has_above = plan.edges.iter().any(|(_, to, _)| *to == at);
        if let Some(least) = below.min().filter(|_| !has_above) {
            level[at] = least - 2;
        }
    }
    level
}

impl Layout {
    fn new(plan: &Plan) -> Layout {
        let level = levels(plan);
        let slot = |layer, size, is_box| Slot { layer, size, above: vec![], below: vec![], x: 0.0, is_box };
        let boxes = plan.boxes.iter().zip(&level).map(|(size, layer)| slot(*layer, *size, true));
        let mut slots: Vec<Slot> = boxes.collect();
        let (mut ways, mut labels) = (Vec::new(), Vec::new());
        for (from, to, label) in &plan.edges {
            let mut way = vec![*from];
            labels.push(slots.len());
            for layer in level[*from] + 1..level[*to] {
                let size = if way.len() == 1 { *label } else { (2.0, 0.0) };
                way.push(slots.len());
                slots.push(slot(layer, size, false));
            }
            way.push(*to);
            for pair in way.windows(2) {
                slots[pair[0]].below.push(pair[1]);
                slots[pair[1]].above.push(pair[0]);
            }
            ways.push(way);
        }
        let count = level.iter().max().map_or(0, |last| last + 1);
        let mut layers = vec![Vec::new(); count];
        slots.iter().enumerate().for_each(|(at, slot)| layers[slot.layer].push(at));
        Layout { slots, layers, ways, labels }
    }

    /// Orders each layer by the middle of what is above, then of what is below, and keeps the order with the fewest crossings.
    fn order(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for round in 0..ROUNDS {
            let downwards = round % 2 == 0;
            let count = self.layers.len();
            let order: Vec<usize> = if downwards { (0..count).collect() } else { (0..count).rev().collect() };
            for layer in order {
                let positions = self.positions();
                let middle = |at: &usize| {
                    let near = if downwards { &self.slots[*at].above } else { &self.slots[*at].below };
                    let sum: f64 = near.iter().map(|other| positions[*other]).sum();
                    if near.is_empty() { positions[*at] } else { sum / near.len() as f64 }
                };
                let mut sorted = self.layers[layer].clone();
                sorted.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
                self.layers[layer] = sorted;
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    /// Where each slot is in its layer, between 0 and 1.
    fn positions(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.slots.len()];
        for layer in &self.layers {
            for (at, slot) in layer.iter().enumerate() {
                out[*slot] = (at as f64 + 0.5) / layer.len() as f64;
            }
        }
        out
    }

    fn crossings(&self) -> usize {
        let mut at = vec![0; self.slots.len()];
        self.layers.iter().for_each(|layer| layer.iter().enumerate().for_each(|(n, slot)| at[*slot] = n));
        let mut count = 0;
        for layer in &self.layers {
            let edges: Vec<(usize, usize)> = layer
                .iter()
                .flat_map(|slot| self.slots[*slot].below.iter().map(|b| (at[*slot], at[*b])))
                .collect();
            for (n, (a, b)) in edges.iter().enumerate() {
                count += edges[n + 1..].iter().filter(|(c, d)| a < c && b > d || a > c && b < d).count();
            }
        }
        count
    }

    /// Places slots as near to the middle of their neighbours as others of the layer allow.
    fn place(&mut self) {
        for layer in 0..self.layers.len() {
            let wanted = vec![0.0; self.layers[layer].len()];
            self.settle(layer, &wanted);
        }
        for round in 0..4 * ROUNDS {
            let count = self.layers.len();
            let downwards = round % 2 == 0;
            for n in 0..count {
                let layer = if downwards { n } else { count - 1 - n };
                let wanted: Vec<f64> =
                    self.layers[layer].iter().map(|at| self.wanted(*at, downwards)).collect();
                self.settle(layer, &wanted);
            }
        }
    }

    /// Where the middle of a slot would best be: an edge that passes goes straight on, a box stands between all its neighbours.
    fn wanted(&self, at: usize, downwards: bool) -> f64 {
        let slot = &self.slots[at];
        let (first, second) = if downwards { (&slot.above, &slot.below) } else { (&slot.below, &slot.above) };
        let near = if first.is_empty() { second } else { first };
        if near.is_empty() {
            return slot.x;
        }
        let mut xs: Vec<f64> = near.iter().map(|other| self.slots[*other].x).collect();
        xs.sort_by(f64::total_cmp);
        (xs[(xs.len() - 1) / 2] + xs[xs.len() / 2]) / 2.0
    }

    /// Places a layer with the least squares of distances from where its slots want to be: neighbours that would overlap are moved
    /// as one.
    fn settle(&mut self, layer: usize, wanted: &[f64]) {
        let slots = &self.layers[layer];
        // How far each stands from the first if all stand close.
        let mut offsets = vec![0.0];
        for pair in slots.windows(2) {
            let between = (self.slots[pair[0]].size.0 + self.slots[pair[1]].size.0) / 2.0;
            let is_loose = self.slots[pair[0]].is_box || self.slots[pair[1]].is_box;
            let gap = if is_loose { GAP.0 } else { GAP.0 / 2.0 };
            offsets.push(offsets[offsets.len() - 1] + between + gap);
        }
        // The mean, the weight and the number of what moves as one: edges that pass are kept straight before boxes are.
        let mut groups: Vec<(f64, f64, usize)> = Vec::new();
        for ((want, offset), slot) in wanted.iter().zip(&offsets).zip(slots) {
            let mut group = (want - offset, if self.slots[*slot].is_box { 1.0 } else { 6.0 }, 1);
            while let Some((mean, weight, count)) =
                groups.last().copied().filter(|(mean, ..)| *mean > group.0)
            {
                groups.pop();
                let total = weight + group.1;
                group = ((mean * weight + group.0 * group.1) / total, total, count + group.2);
            }
            groups.push(group);
        }
        let starts = groups.iter().flat_map(|(mean, _, count)| std::iter::repeat_n(*mean, *count));
        let xs: Vec<f64> = starts.zip(&offsets).map(|(start, offset)| start + offset).collect();
        for (slot, x) in self.layers[layer].clone().into_iter().zip(xs) {
            self.slots[slot].x = x;
        }
    }

    fn places(&self, plan: &Plan) -> Places {
        let left = self.slots.iter().map(|s| s.x - s.size.0 / 2.0).fold(f64::INFINITY, f64::min);
        let right = self.slots.iter().map(|s| s.x + s.size.0 / 2.0).fold(f64::NEG_INFINITY, f64::max);
        if self.slots.is_empty() {
            return Places::default();
        }
        // The middle of each layer, and half of its height.
        let (mut y, mut rows) = (0.0, Vec::new());
        for (at, layer) in self.layers.iter().enumerate() {
            let height = layer.iter().map(|slot| self.slots[*slot].size.1).fold(0.0, f64::max);
            if at > 0 {
                y += GAP.1 / 2.0;
            }
            rows.push((y + height / 2.0, height / 2.0));
            y += height;
        }
        let middle = |slot: usize| (self.slots[slot].x - left, rows[self.slots[slot].layer].0);
        let boxes = (0..plan.boxes.len()).map(|at| {
            let ((x, y), (width, height)) = (middle(at), plan.boxes[at]);
            (x - width / 2.0, y - height / 2.0)
        });
        let edges = self.ways.iter().map(|way| self.points(way, plan, &rows, left)).collect();
        let labels = self.labels.iter().map(|slot| middle(*slot)).collect();
        Places { boxes: boxes.collect(), edges, labels, size: (right - left, y) }
    }

    /// The points of an edge: it passes the layers between its boxes from their upper to their lower end.
    fn points(&self, way: &[usize], plan: &Plan, rows: &[(f64, f64)], left: f64) -> Vec<(f64, f64)> {
        let (first, last) = (way[0], way[way.len() - 1]);
        let (half, row) =
            (|slot: usize| plan.boxes[slot].1 / 2.0, |slot: usize| rows[self.slots[slot].layer].0);
        // Past what is beside a box and taller, an edge goes straight.
        let tall = |slot: usize| rows[self.slots[slot].layer].1;
        let x = self.port(first, way[1], left);
        let mut out = vec![(x, row(first) + half(first)), (x, row(first) + tall(first))];
        for slot in &way[1..way.len() - 1] {
            let (middle, half) = rows[self.slots[*slot].layer];
            let x = self.slots[*slot].x - left;
            out.extend([(x, middle - half), (x, middle + half)]);
        }
        let x = self.port(last, way[way.len() - 2], left);
        out.extend([(x, row(last) - tall(last)), (x, row(last) - half(last))]);
        out
    }

    /// Where at a box an edge begins or ends: edges to one side stand beside each other, in the order of their other ends.
    fn port(&self, of: usize, other: usize, left: f64) -> f64 {
        let slot = &self.slots[of];
        let is_below = slot.below.contains(&other);
        let mut near = if is_below { slot.below.clone() } else { slot.above.clone() };
        near.sort_by(|a, b| self.slots[*a].x.total_cmp(&self.slots[*b].x).then(a.cmp(b)));
        let at = near.iter().position(|n| *n == other).unwrap_or(0);
        let room = (slot.size.0 - 24.0).max(0.0).min(22.0 * (near.len() - 1) as f64);
        let step = if near.len() > 1 { room / (near.len() - 1) as f64 } else { 0.0 };
        slot.x - left - room / 2.0 + step * at as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph drawn at random: boxes with sizes, edges with labels.
    fn random(seed: u64) -> Plan {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let count = 2 + next(14) as usize;
        let boxes = (0..count).map(|_| (20.0 + next(200) as f64, 20.0 + next(90) as f64)).collect();
        let mut edges = Vec::new();
        for to in 1..count {
            for _ in 0..=next(3) {
                edges.push((next(to as u64) as usize, to, (10.0 + next(120) as f64, 12.0)));
            }
        }
        Plan { boxes, edges }
    }

    #[test]
    fn boxes_and_labels_never_overlap_and_edges_go_down() {
        for seed in 1..200 {
            let plan = random(seed);
            let places = layout(&plan);
            let boxes = places.boxes.iter().zip(&plan.boxes).map(|((x, y), (w, h))| (*x, *y, *w, *h));
            let labels = places.labels.iter().zip(&plan.edges);
            let labels = labels.map(|((x, y), (_, _, (w, h)))| (x - w / 2.0, y - h / 2.0, *w, *h));
            let all: Vec<_> = boxes.chain(labels).collect();
            for (at, (x, y, w, h)) in all.iter().enumerate() {
                assert!(
                    *x > -0.01 && *y > -0.01 && x + w < places.size.0 + 0.01 && y + h < places.size.1 + 0.01
                );
                for (x2, y2, w2, h2) in &all[at + 1..] {
                    let apart = x + w <= *x2 || x2 + w2 <= *x || y + h <= *y2 || y2 + h2 <= *y;
                    assert!(apart, "{seed}: {x} {y} {w} {h} and {x2} {y2} {w2} {h2}");
                }
            }
            for (points, (from, to, _)) in places.edges.iter().zip(&plan.edges) {
                assert!(points.windows(2).all(|p| p[0].1 <= p[1].1 + 0.01), "{seed}: {points:?}");
                let (first, last) = (points[0].1, points[points.len() - 1].1);
                let end = places.boxes[*from].1 + plan.boxes[*from].1;
                assert!((first - end).abs() < 0.01 && (last - places.boxes[*to].1).abs() < 0.01);
            }
        }
    }

    #[test]
    fn nothing_has_no_size() {
        assert_eq!(layout(&Plan::default()).size, (0.0, 0.0));
    }
}
