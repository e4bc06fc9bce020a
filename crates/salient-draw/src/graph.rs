//! Graphs as pictures: boxes and edges given as plain values, as SVG with a layered layout, or as DOT for Graphviz.
//!
//! [`layered`] finds places for boxes of given sizes, [`picture`] draws, [`dot`] writes DOT, and [`fold`] puts equal blocks that
//! follow each other together.

pub mod dot;
pub mod fold;
pub mod layered;
pub mod picture;

/// A graph to be drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawing {
    /// What the picture shows, in a line.
    pub title: String,
    /// The boxes, each behind those that it reads.
    pub boxes: Vec<Shape>,
    /// What boxes read of each other.
    pub edges: Vec<Edge>,
    /// Blocks that stand for several equal ones, each a range of boxes.
    pub blocks: Vec<Block>,
}

/// What a box is: it says how it is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// What the caller gives.
    Input,
    /// A value that is computed, or a kernel.
    #[default]
    Value,
    /// An attention that is one kernel, or the operator for it.
    Fused,
    /// What the caller gets.
    Output,
}

impl Role {
    /// The class of its box in SVG.
    pub fn name(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Value => "value",
            Role::Fused => "fused",
            Role::Output => "output",
        }
    }
}

/// A box with lines of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// How it is drawn.
    pub role: Role,
    /// The first line, in bold.
    pub title: String,
    /// What it holds, a row each.
    pub rows: Vec<Row>,
    /// The block of the model that it belongs to: what stands before the number, and the number.
    pub layer: Option<(String, usize)>,
    /// The positions of the nodes of the graph that it stands for.
    pub nodes: Vec<usize>,
}

/// A line of a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// A value that is computed inside of it and has a name.
    Part(String),
    /// Something that is said of it.
    Note(String),
    /// A parameter that it reads.
    Param(String),
}

impl Row {
    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Row::Part(text) | Row::Note(text) | Row::Param(text) => text,
        }
    }
}

/// What a box reads of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The box that makes it, by position.
    pub from: usize,
    /// The box that reads it.
    pub to: usize,
    /// What it is called and how large it is.
    pub label: String,
}

/// Equal blocks that are drawn once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What stands before the number in the paths of their parameters.
    pub stem: String,
    /// The number of the first block.
    pub first: usize,
    /// How many there are.
    pub times: usize,
    /// The boxes of the one that is drawn.
    pub boxes: Vec<usize>,
}

impl Block {
    /// What stands above it.
    pub fn title(&self) -> String {
        let end = self.first + self.times;
        format!("{}{{{} .. {end}}} × {}", self.stem, self.first, self.times)
    }
}
