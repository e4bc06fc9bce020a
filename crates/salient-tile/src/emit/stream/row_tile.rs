//! A tile of rows that are streamed over keys together, and how long the rows of its scratch memory are.

use crate::dims::{n, var};
use crate::emit::maker::{Maker, for_loop, let_dim};
use crate::index::{AxisValue, Env};
use crate::plan::attention::key_loop::KeyLoop;
use crate::plan::attention::{Attention, Scores};
use crate::plan::scratch::TileWidths;
use crate::program::kernel::Stmt;
use salient_ir::{AxisId, Dim, Symbol};
use salient_vector::tile::Shape;
use std::collections::BTreeMap;

/// Rows that share keys and values, and the keys that they are streamed over.
pub(crate) struct RowTile<'t> {
    pub(crate) attention: &'t Attention,
    /// What every axis stands for: the row a variable, the key the lane.
    pub(crate) env: &'t Env,
    pub(crate) shape: Shape,
    pub(crate) row: &'t Symbol,
    /// The row variable's range.
    pub(crate) first: Dim,
    pub(crate) last: Dim,
    /// The most rows that a tile has.
    pub(crate) most_rows: Dim,
    /// The first key that may be visited, and one past the last.
    pub(crate) keys: (Dim, Dim),
    /// Keys of a tile; it is rounded up to whole panels.
    pub(crate) tile: i64,
    /// Whether few rows meet each key, so that time is that of reading keys and values.
    pub(crate) few: bool,
    /// The products inside the scores.
    pub(crate) scores: &'t [Scores],
    pub(crate) key_loop: &'t KeyLoop,
}

impl RowTile<'_> {
    /// The axis that the row variable runs along.
    pub(crate) fn axis(&self) -> Option<AxisId> {
        self.key_loop.rows
    }

    /// How many rows there are.
    pub(crate) fn count(&self) -> Dim {
        &self.last - &self.first
    }

    /// The index of the first row along its axis.
    pub(crate) fn origin(&self) -> Dim {
        self.axis().map_or_else(|| self.first.clone(), |axis| origin(self.env, axis, self.row, &self.first))
    }

    /// A statement for each row.
    pub(crate) fn each_row(&self, block: Stmt) -> Stmt {
        for_loop(self.row, self.first.clone(), self.last.clone(), n(1), vec![block])
    }
}

/// The index at which the axis stands for the first row.
pub(crate) fn origin(env: &Env, axis: AxisId, row: &Symbol, first: &Dim) -> Dim {
    match env.get(&axis) {
        Some(AxisValue::Poly(d)) => d.substitute(&BTreeMap::from([(row.clone(), first.clone())])),
        Some(AxisValue::Loose(_) | AxisValue::Vector(_)) | None => unreachable!("rows stand for polynomials"),
    }
}

/// How long the rows of scratch memory are. They hold whole panels, so that register tiles need no edges.
pub(crate) struct Sizes {
    /// How wide the values are, and in how many panels.
    pub(crate) wide: Dim,
    pub(crate) panels: Dim,
    /// The columns of a panel, the elements of a row of scores, and those of a row of weighted sums, each a variable.
    pub(crate) panel: Dim,
    pub(crate) score_row: Dim,
    pub(crate) context_row: Dim,
}

impl Sizes {
    pub(crate) fn new(m: &mut Maker<'_, '_>, t: &RowTile<'_>, stmts: &mut Vec<Stmt>) -> Sizes {
        let of_tile = TileWidths::new(m.scope.graph, m.scope.options, t.attention, t.tile);
        let mut bound = |name: &str, value: &Dim| {
            let name = m.variable(name, &(value + &n(1)));
            stmts.push(let_dim(&name, value.clone()));
            var(&name)
        };
        let panel = bound("width", &of_tile.panel);
        let score_row = bound("score_row", &of_tile.scores);
        let context_row = bound("context_row", &of_tile.context);
        let TileWidths { values: wide, panels, .. } = of_tile;
        Sizes { wide, panels, panel, score_row, context_row }
    }
}
