//! The keys that a row visits: what a mask made of comparisons of indices says of them before anything runs.
//!
//! Only conditions that are linear in the key, or in the block of so many keys in which it lies, are understood; so are rows, and the
//! magnitude of a distance. What is not understood excludes nothing here: a probe looks at each tile of scores before it is computed.

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

impl KeyRange {
    /// Whether another range belongs to each position of an axis.
    pub(crate) fn varies_along(&self, axis: AxisId) -> bool {
        let place = index_of(axis);
        self.begins.iter().chain(&self.ends).any(|bound| bound.symbols().contains(&place))
    }
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
        let is_equation = *op == Op::Map(MapOp::Eq);
        if !(strict || is_equation || *op == Op::Map(MapOp::Le)) || !g.node(args[0]).dtype.is_int() {
            understood = false;
            continue;
        }
        // The magnitude is at most so much where the number and its negation are.
        let magnitude = Some(args[0]).filter(|a| *g.op(*a) == Op::Map(MapOp::Abs) && !is_equation);
        let of = magnitude.map_or(args[0], |magnitude| g.args(magnitude)[0]);
        let sides = ranges.evaluate(g, of, env).zip(ranges.evaluate(g, args[1], env));
        let differences = sides.map(|(a, b)| match (magnitude, is_equation) {
            (Some(_), _) => vec![&b - &a, &b + &a],
            (None, true) => vec![&b - &a, &a - &b],
            (None, false) => vec![&b - &a],
        });
        understood &= differences.is_some();
        for difference in differences.unwrap_or_default() {
            understood &= out.add(&difference, strict, rows).is_some();
        }
    }
    (out, understood)
}

/// `(d, times, from, W)` with `p = d + times * ((j + from) // W)`, `j` being the key, along which nothing else of `p` varies.
fn block_of_key(p: &Dim) -> Option<(Dim, i64, Dim, Dim)> {
    let of_key = |(index, by, _): &(Dim, Dim, i64)| {
        index.linear_in(&LANE).is_some_and(|(slope, _)| slope == n(1))
            && by.as_constant().is_some_and(|n| n > 0)
    };
    let (index, by, times) = p.quotient_terms().into_iter().find(of_key)?;
    let rest = p - &(&n(times) * &index.floor_div(&by)?);
    let (_, from) = index.linear_in(&LANE)?;
    (!rest.mentions(&LANE)).then_some((rest, times, from, by))
}

/// Whether a bound grows with a variable, or is the same for all of its numbers; `None` if it may grow and fall.
fn grows(bound: &Dim, variable: &Symbol) -> Option<bool> {
    let mut linear = bound.clone();
    let mut signs = Vec::new();
    for (index, by, times) in bound.quotient_terms() {
        let (slope, _) = index.linear_in(variable)?;
        by.as_constant().filter(|by| *by > 0)?;
        linear = &linear - &(&n(times) * &index.floor_div(&by)?);
        signs.push(slope.as_constant()? * times);
    }
    signs.push(linear.linear_in(variable)?.0.as_constant()?);
    let all_grow = signs.iter().all(|sign| *sign >= 0);
    (all_grow || signs.iter().all(|sign| *sign <= 0)).then_some(all_grow)
}

impl KeyRange {
    /// Adds what `d >= 0` (or `d > 0`) says of the key.
    fn add(&mut self, d: &Dim, strict: bool, rows: Option<AxisId>) -> Option<()> {
        let open = n(i64::from(!strict));
        let (is_end, bound) = match d.linear_in(&LANE) {
            Some((slope, rest)) => match slope.as_constant()? {
                // rest - j >= 0: j < rest + 1.
                -1 => (true, &rest + &open),
                // rest + j >= 0: j >= -rest.
                1 => (false, &(&n(1) - &open) - &rest),
                _ => return None,
            },
            None => match block_of_key(d)? {
                // rest - (j + from) // W >= 0: j + from < W (rest + 1).
                (rest, -1, from, by) => (true, &(&by * &(&rest + &open)) - &from),
                // rest + (j + from) // W >= 0: j + from >= -W rest.
                (rest, 1, from, by) => (false, &(&by * &(&(&n(1) - &open) - &rest)) - &from),
                _ => return None,
            },
        };
        if let Some(rows) = rows {
            grows(&bound, &index_of(rows))?;
        }
        if is_end {
            self.ends.push(bound)
        } else {
            self.begins.push(bound)
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
    /// The least and the greatest value over the rows of a bound, which does not both grow and fall.
    fn extremes(&self, d: &Dim) -> (Dim, Dim) {
        let at = |row: Dim| d.substitute(&BTreeMap::from([(self.variable.clone(), row)]));
        let (first, last) = (at(self.first.clone()), at(self.last - &n(1)));
        if grows(d, self.variable).expect("bounds grow with the row or fall") {
            (first, last)
        } else {
            (last, first)
        }
    }
}
