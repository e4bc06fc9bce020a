//! Tile ranges: for which keys a mask made of index comparisons holds, for a whole tile of rows at once.
//!
//! Only conditions that are linear in the key are understood. What is not understood masks nothing here: a tile of scores
//! looks whether any, or all, of its keys are kept before it is computed.

use crate::index::{Env, LANE, Ranges};
use salient_ir::{Const, Dim, Graph, MapOp, NodeId, Op};

/// What is known of the keys of a tile of rows.
#[derive(Debug, Default)]
pub(crate) struct KeyRange {
    /// The mask around the scores, if there is one.
    pub(crate) mask: Option<Mask>,
    /// No key at or after any of these is kept by any row of the tile.
    pub(crate) ends: Vec<Dim>,
    /// No key before any of these is kept by any row of the tile.
    pub(crate) begins: Vec<Dim>,
    /// Every key before all of these (and not before those of `all_begins`) is kept by every row of the tile.
    pub(crate) all_ends: Vec<Dim>,
    /// See `all_ends`.
    pub(crate) all_begins: Vec<Dim>,
}

/// A choice between scores and the score of a key that is masked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    /// Where it holds the key is kept.
    pub(crate) condition: NodeId,
    /// The scores of keys that are kept.
    pub(crate) unmasked: NodeId,
    /// Whether the bounds say all there is to say of it. Otherwise a tile has to look.
    pub(crate) understood: bool,
}

/// The range of keys that `score`, which is `masked` for a key that is masked, keeps for rows `first..last`, where the
/// variable `row` stands for the row.
pub(crate) fn key_range(
    g: &Graph,
    ranges: &Ranges,
    (score, masked): (NodeId, f32),
    env: &Env,
    row: &str,
    (first, last): (&Dim, &Dim),
) -> KeyRange {
    let mut out = KeyRange::default();
    if g.op(score) != &Op::Map(MapOp::Select) {
        return out;
    }
    let args = g.args(score);
    if g.op(args[2]) != &Op::Const(Const::f32(masked)) {
        return out;
    }
    let mut understood = true;
    let mut conditions = vec![args[0]];
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
        let bounded = sides.and_then(|(a, b)| bound(&(&b - &a), strict, row, first, last, &mut out));
        understood &= bounded.is_some();
    }
    out.mask = Some(Mask { condition: args[0], unmasked: args[1], understood });
    out
}

/// Adds what `d >= 0` (or `d > 0`) says of the key.
fn bound(d: &Dim, strict: bool, row: &str, first: &Dim, last: &Dim, out: &mut KeyRange) -> Option<()> {
    let (slope, rest) = d.linear_in(LANE)?;
    let (in_row, _) = rest.linear_in(row)?;
    let in_row = in_row.as_constant()?;
    let at = |r: &Dim| {
        let (slope, rest) = rest.linear_in(row).expect("just seen");
        &(&slope * r) + &rest
    };
    let end = last - &Dim::constant(1);
    // The greatest and the least of `rest` over the rows of the tile.
    let (most, least) = if in_row >= 0 { (at(&end), at(first)) } else { (at(first), at(&end)) };
    let open = Dim::constant(i64::from(!strict));
    match slope.as_constant()? {
        // rest - j >= 0: j < rest + 1.
        -1 => {
            out.ends.push(&most + &open);
            out.all_ends.push(&least + &open);
        }
        // rest + j >= 0: j >= -rest.
        1 => {
            let begin = |rest: &Dim| &(&Dim::constant(1) - &open) - rest;
            out.begins.push(begin(&most));
            out.all_begins.push(begin(&least));
        }
        _ => return None,
    }
    Some(())
}
