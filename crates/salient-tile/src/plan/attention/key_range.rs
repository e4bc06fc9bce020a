//! The keys that a row visits: what a mask made of comparisons of indices says of them before anything runs.
//!
//! Only conditions that are linear in the key and in the row are understood. What is not understood excludes nothing here: a
//! probe looks at each tile of scores before it is computed.

use crate::dims::{LANE, index_of, n, var};
use crate::index::{AxisValue, Env, Ranges};
use salient_ir::{AxisId, Dim, Graph, MapOp, NodeId, Op, Symbol};
use std::collections::BTreeMap;

/// The keys that a row may keep: polynomials of the places of the row and of the axes around it, see [`place`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// No key before any of these is kept.
    pub(crate) begins: Vec<Dim>,
    /// No key at or after any of these is kept.
    pub(crate) ends: Vec<Dim>,
}

/// The keys of a tile of rows.
#[derive(Debug, Default)]
pub(crate) struct TileRange {
    /// No key before any of these is kept by any row.
    pub(crate) begins: Vec<Dim>,
    /// No key at or after any of these is kept by any row.
    pub(crate) ends: Vec<Dim>,
    /// Every key at or after all of these, and before all of `all_ends`, is kept by every row, where the bounds say all there
    /// is to say of the mask.
    pub(crate) all_begins: Vec<Dim>,
    /// See `all_begins`.
    pub(crate) all_ends: Vec<Dim>,
}

/// The rows of a tile: the variable that stands for the row, the first, and one past the last.
#[derive(Clone, Copy)]
pub(crate) struct RowSpan<'t> {
    pub(crate) variable: &'t Symbol,
    pub(crate) first: &'t Dim,
    pub(crate) last: &'t Dim,
}

/// Each of these axes at any place, and the key as the lane.
pub(crate) fn places(g: &Graph, axes: impl IntoIterator<Item = AxisId>, key: AxisId) -> (Env, Ranges) {
    let (mut env, mut ranges) = (Env::new(), Ranges::default());
    for axis in axes {
        ranges.insert(&index_of(axis), g.extent(axis));
        env.insert(axis, AxisValue::Poly(var(&index_of(axis))));
    }
    ranges.insert(&LANE, g.extent(key));
    env.insert(key, AxisValue::Poly(var(&LANE)));
    (env, ranges)
}

/// What a condition says of the key, for a row at any place along `rows`, and whether that is all that it says.
pub(crate) fn key_range(
    g: &Graph,
    (env, ranges): &(Env, Ranges),
    condition: NodeId,
    rows: Option<AxisId>,
) -> (KeyRange, bool) {
    let (mut out, mut understood) = (KeyRange::default(), true);
    let mut conditions = vec![condition];
    while let Some(id) = conditions.pop() {
        let (args, op) = (g.args(id), g.op(id));
        if *op == Op::Map(MapOp::And) {
            conditions.extend(args);
            continue;
        }
        let strict = *op == Op::Map(MapOp::Lt);
        if !(strict || *op == Op::Map(MapOp::Le)) || !g.node(args[0]).dtype.is_int() {
            understood = false;
            continue;
        }
        let sides = ranges.evaluate(g, args[0], env).zip(ranges.evaluate(g, args[1], env));
        let bounded = sides.and_then(|(a, b)| out.add(&(&b - &a), strict, rows));
        understood &= bounded.is_some();
    }
    (out, understood)
}

impl KeyRange {
    /// Adds what `d >= 0` (or `d > 0`) says of the key.
    fn add(&mut self, d: &Dim, strict: bool, rows: Option<AxisId>) -> Option<()> {
        let (slope, rest) = d.linear_in(&LANE)?;
        if let Some(rows) = rows {
            rest.linear_in(&index_of(rows))?.0.as_constant()?;
        }
        let open = n(i64::from(!strict));
        match slope.as_constant()? {
            // rest - j >= 0: j < rest + 1.
            -1 => self.ends.push(&rest + &open),
            // rest + j >= 0: j >= -rest.
            1 => self.begins.push(&(&n(1) - &open) - &rest),
            _ => return None,
        }
        Some(())
    }

    /// The bounds where axes stand for what `env` says.
    pub(crate) fn at(&self, env: &Env) -> KeyRange {
        let with: BTreeMap<Symbol, Dim> = (env.iter())
            .filter_map(|(axis, bound)| match bound {
                AxisValue::Poly(d) => Some((index_of(*axis), d.clone())),
                AxisValue::Loose(_) | AxisValue::Vector(_) => None,
            })
            .collect();
        let each = |of: &[Dim]| of.iter().map(|d| d.substitute(&with)).collect();
        KeyRange { begins: each(&self.begins), ends: each(&self.ends) }
    }

    /// The bounds for the rows of a tile, axes standing for what `env` says.
    pub(crate) fn of_tile(&self, env: &Env, rows: RowSpan<'_>) -> TileRange {
        let KeyRange { begins, ends } = self.at(env);
        let mut out = TileRange::default();
        for (least, most) in begins.iter().map(|d| rows.extremes(d)) {
            out.begins.push(least);
            out.all_begins.push(most);
        }
        for (least, most) in ends.iter().map(|d| rows.extremes(d)) {
            out.ends.push(most);
            out.all_ends.push(least);
        }
        out
    }
}

impl RowSpan<'_> {
    /// The least and the greatest value over the rows of a polynomial that is linear in the row.
    fn extremes(&self, d: &Dim) -> (Dim, Dim) {
        let (slope, rest) = d.linear_in(self.variable).expect("bounds are linear in the row");
        let at = |row: &Dim| &(&slope * row) + &rest;
        let (first, last) = (at(self.first), at(&(self.last - &n(1))));
        let grows = slope.as_constant().expect("bounds change by a number from row to row") >= 0;
        if grows { (first, last) } else { (last, first) }
    }
}
