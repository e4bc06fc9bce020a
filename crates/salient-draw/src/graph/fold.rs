//! Equal blocks that follow each other are drawn once: the boxes of a layer that have, in order, the same texts and read the same of
//! their own layer as those of the layer before.

use super::{Block, Drawing, Edge, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// The boxes of a layer, as far as they are compared: texts without the number of the layer, and what each reads inside of it.
type Signature = (Vec<(String, Vec<String>)>, BTreeSet<(usize, usize)>);

/// A layer and its boxes.
type Member<'d> = (&'d (String, usize), &'d [usize]);

impl Drawing {
    /// The same with equal layers that follow each other as one block.
    #[must_use]
    pub fn folded(&self) -> Drawing {
        let mut layers: BTreeMap<&(String, usize), Vec<usize>> = BTreeMap::new();
        for (at, shape) in self.boxes.iter().enumerate() {
            if let Some(layer) = &shape.layer {
                layers.entry(layer).or_default().push(at);
            }
        }
        let mut runs: Vec<Vec<Member<'_>>> = Vec::new();
        for (layer, boxes) in &layers {
            let equal = runs.last().and_then(|run| {
                let (last, of) = run[run.len() - 1];
                // What follows the last layer may be counted to it.
                let own = boxes.get(..of.len())?;
                let is_next = last.0 == layer.0 && last.1 + 1 == layer.1;
                (is_next && self.signature(last, of) == self.signature(layer, own)).then_some(own)
            });
            match (equal, runs.last_mut()) {
                (Some(own), Some(run)) => run.push((layer, own)),
                (_, _) => runs.push(vec![(layer, boxes)]),
            }
        }
        let runs = runs.into_iter().filter(|run| run.len() > 1 && self.stands_alone(run));
        let mut counterpart: Vec<usize> = (0..self.boxes.len()).collect();
        let mut blocks = Vec::new();
        for run in runs {
            let (layer, first) = run[0];
            for (_, boxes) in &run[1..] {
                boxes.iter().zip(first).for_each(|(at, of)| counterpart[*at] = *of);
            }
            let (stem, number) = layer.clone();
            blocks.push(Block { stem, first: number, times: run.len(), boxes: first.to_vec() });
        }
        self.kept(&counterpart, blocks)
    }

    fn signature(&self, layer: &(String, usize), boxes: &[usize]) -> Signature {
        let path = format!("{}{}.", layer.0, layer.1);
        let text = |text: &str| text.replace(&path, &format!("{}#.", layer.0));
        let of = |at: &usize| {
            let Shape { title, rows, .. } = &self.boxes[*at];
            (text(title), rows.iter().map(|row| text(row.text())).collect())
        };
        let place = |at: usize| boxes.iter().position(|other| *other == at);
        let inside = self.edges.iter().filter_map(|edge| Some((place(edge.from)?, place(edge.to)?)));
        (boxes.iter().map(of).collect(), inside.collect())
    }

    /// Whether no box outside of the layers is made of them and read by them too.
    fn stands_alone(&self, run: &[Member<'_>]) -> bool {
        let inside: BTreeSet<usize> = run.iter().flat_map(|(_, boxes)| boxes.iter().copied()).collect();
        let mut below: BTreeSet<usize> = BTreeSet::new();
        for at in 0..self.boxes.len() {
            let reads = |of: &Edge| of.to == at && (below.contains(&of.from) || inside.contains(&of.from));
            if !inside.contains(&at) && self.edges.iter().any(reads) {
                below.insert(at);
            }
        }
        !self.edges.iter().any(|edge| below.contains(&edge.from) && inside.contains(&edge.to))
    }

    /// The boxes that stand for themselves, with all edges of those that they stand for.
    fn kept(&self, counterpart: &[usize], blocks: Vec<Block>) -> Drawing {
        let kept: Vec<usize> = (0..self.boxes.len()).filter(|at| counterpart[*at] == *at).collect();
        let place = |at: usize| kept.binary_search(&counterpart[at]).unwrap_or_default();
        let mut edges: Vec<Edge> = Vec::new();
        for edge in &self.edges {
            let (from, to) = (place(edge.from), place(edge.to));
            let is_known = edges.iter().any(|known| (known.from, known.to) == (from, to));
            // What a block reads of the one before comes from below.
            if !is_known && from < to {
                edges.push(Edge { from, to, label: edge.label.clone() });
            }
        }
        let mut boxes: Vec<Shape> = kept.iter().map(|at| self.boxes[*at].clone()).collect();
        for (at, of) in counterpart.iter().enumerate().filter(|(at, of)| at != *of) {
            boxes[place(*of)].nodes.extend(&self.boxes[at].nodes);
        }
        let moved =
            |block: Block| Block { boxes: block.boxes.iter().map(|at| place(*at)).collect(), ..block };
        Drawing { title: self.title.clone(), boxes, edges, blocks: blocks.into_iter().map(moved).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Row;

    /// An input, layers of two boxes each, and an output; what the third says may differ.
    fn chain(layers: usize, third: &str) -> Drawing {
        let mut drawing = Drawing::default();
        let shape = |title: &str, layer: Option<usize>, row: &str| Shape {
            title: title.to_owned(),
            rows: vec![Row::Note(row.to_owned())],
            layer: layer.map(|number| ("h.".to_owned(), number)),
            ..Shape::default()
        };
        drawing.boxes.push(shape("x", None, ""));
        for number in 0..layers {
            let row = if number == 2 { third } else { "same" };
            drawing.boxes.push(shape("gemm", Some(number), &format!("h.{number}.w")));
            drawing.boxes.push(shape("rows", Some(number), row));
        }
        drawing.boxes.push(shape("y", None, ""));
        let edge = |to: usize| Edge { from: to - 1, to, label: String::new() };
        drawing.edges = (1..drawing.boxes.len()).map(edge).collect();
        drawing
    }

    #[test]
    fn equal_layers_are_one_block_with_their_number() {
        let folded = chain(12, "same").folded();
        assert_eq!(folded.boxes.len(), 4);
        assert_eq!(folded.blocks, [Block { stem: "h.".to_owned(), first: 0, times: 12, boxes: vec![1, 2] }]);
        let edges: Vec<(usize, usize)> = folded.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        assert_eq!(edges, [(0, 1), (1, 2), (2, 3)]);
    }

    #[test]
    fn a_layer_that_differs_stands_by_itself() {
        let folded = chain(6, "other").folded();
        let times: Vec<(usize, usize)> =
            folded.blocks.iter().map(|block| (block.first, block.times)).collect();
        // The layers behind it would stand around it.
        assert_eq!(times, [(0, 2), (3, 3)]);
        assert_eq!(folded.boxes.len(), 2 + 2 + 2 + 2);
    }
}
