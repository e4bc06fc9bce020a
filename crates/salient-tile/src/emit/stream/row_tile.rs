//! A tile of rows that are streamed over keys together, and how long the rows of its scratch memory are.

use crate::dims::{LANES, ceil_div, n, var};
use crate::emit::maker::{Maker, for_loop, let_dim};
use crate::index::{AxisValue, Env};
use crate::plan::attention::key_loop::KeyLoop;
use crate::plan::attention::{Attention, Scores};
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
    /// The row variable's range, and the most that it can be long.
    pub(crate) first: Dim,
    pub(crate) last: Dim,
    pub(crate) most: Dim,
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
    /// The latter two in terms of the target.
    pub(crate) most_keys: Dim,
    pub(crate) most_context: Dim,
}

impl Sizes {
    pub(crate) fn new(m: &mut Maker<'_, '_>, t: &RowTile<'_>, stmts: &mut Vec<Stmt>) -> Sizes {
        let g = m.scope.graph;
        let wide = t.attention.width.map_or(n(1), |x| g.extent(x).clone());
        let panel = &n(t.shape.vectors as i64) * &var(&LANES);
        let panels = ceil_div(&wide, &panel);
        let padded = |columns: &Dim| &ceil_div(columns, &panel) * &panel;
        let (most_keys, most_context) = (padded(&n(t.tile)), padded(&wide));
        let mut bound = |name: &str, value: &Dim| {
            let name = m.variable(name, &(value + &n(1)));
            stmts.push(let_dim(&name, value.clone()));
            var(&name)
        };
        let panel = bound("width", &panel);
        let score_row = bound("score_row", &most_keys);
        let context_row = bound("context_row", &most_context);
        Sizes { wide, panels, panel, score_row, context_row, most_keys, most_context }
    }
}
