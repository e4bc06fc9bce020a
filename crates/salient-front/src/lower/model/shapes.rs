//! What expressions and definitions are, by their place: for editors, which show it beside the text.
//!
//! Notes what lowering finds, and decides nothing.

use super::super::Lowerer;
use crate::source::Span;
use crate::value::Value;
use std::collections::BTreeMap;

/// What one place is, for each of the calls that reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A tensor, by its element type and dimensions: `f32[T, D]`.
    Tensor(String),
    /// An index, with the length of its axis.
    Index(String),
    /// Something that is known when compiling, in words.
    Known(String),
}

/// The shapes of a place that are kept, at most: calls that differ.
const MOST: usize = 4;

/// What places of the caller's files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes {
    by_place: BTreeMap<Span, Vec<Shape>>,
}

impl Shapes {
    /// What a place is: of several calls that differ, the first few.
    pub fn at(&self, span: Span) -> &[Shape] {
        self.by_place.get(&span).map_or(&[], Vec::as_slice)
    }

    /// Every place of which something is known.
    pub fn places(&self) -> impl Iterator<Item = (Span, &[Shape])> {
        self.by_place.iter().map(|(span, shapes)| (*span, shapes.as_slice()))
    }

    fn note(&mut self, span: Span, shape: Shape) {
        let known = self.by_place.entry(span).or_default();
        if known.len() < MOST && !known.contains(&shape) {
            known.push(shape);
        }
    }
}

impl<'a> Lowerer<'a, '_> {
    /// Notes what stands at a place of the caller's text, where that is asked for.
    pub(in crate::lower) fn note_shape(&mut self, span: Span, value: &Value<'a>) {
        if self.shapes.is_none() || self.trials > 0 || self.here().library {
            return;
        }
        let shape = match value {
            Value::Tensor(t) => Shape::Tensor(self.shape_text(t)),
            Value::Poison => return,
            Value::Many(values) => {
                let parts: Vec<String> = values.iter().map(|v| self.describe(v)).collect();
                Shape::Known(parts.join(", "))
            }
            Value::Int(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::Text
            | Value::Function(_)
            | Value::Parameters(_)
            | Value::Gradients(_) => Shape::Known(value.describe()),
        };
        self.note(span, shape);
    }

    /// Notes an index of the caller's text.
    pub(in crate::lower) fn note_index(&mut self, name: &str, span: Span) {
        if self.shapes.is_none() || self.trials > 0 || self.here().library {
            return;
        }
        let Some(axis) = self.bound(name).and_then(|index| index.axis) else { return };
        let extent = self.b.extent(axis).to_string();
        self.note(span, Shape::Index(extent));
    }

    fn note(&mut self, span: Span, shape: Shape) {
        if let Some(shapes) = &mut self.shapes {
            shapes.note(span, shape);
        }
    }
}
