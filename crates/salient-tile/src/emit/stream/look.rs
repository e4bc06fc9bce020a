//! A look at the mask over a tile of scores before they are computed: whether any key is kept for any row, and whether any
//! is not.
//!
//! How it looks is decided in the plan: at the least and greatest of each side, or at each element.

use crate::dims::{LANE, n, var};
use crate::emit::maker::{Maker, for_loop};
use crate::emit::stream::row_tile::RowTile;
use crate::emit::stream::softmax::{ScoreTile, fill};
use crate::emit::strip::{Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::attention::probe::{OneSided, Probe, Side};
use crate::plan::scratch::Slot;
use crate::program::kernel::{Base, Stmt};
use salient_ir::{Dim, Graph, MapOp, NodeId, Op, Symbol};
use salient_vector::handle::Handle;
use salient_vector::{Builder, I32, Mask};
use std::collections::BTreeMap;

/// The statements that look, and two numbers that are not zero if any key may be kept for any row, and if any may not.
pub(crate) fn look(
    m: &mut Maker<'_, '_>,
    (condition, probe): (NodeId, &Probe),
    t: &RowTile<'_>,
    place: ScoreTile<'_>,
) -> (Vec<Stmt>, Dim, Dim) {
    let flags = m.scratch(Slot::Probe);
    let mut stmts = vec![fill(m, flags, &n(2), 0.0)];
    match probe {
        Probe::Sides(parts) => stmts.push(by_sides(m, condition, t, place, parts, flags)),
        Probe::Elements { by_row } => {
            let call = by_elements(m, condition, t.env, place, flags);
            let end = if *by_row { t.last.clone() } else { place.first + &n(1) };
            stmts.push(for_loop(place.row, place.first.clone(), end, n(1), vec![call]));
        }
    }
    let ((read_any, any), (read_hidden, hidden)) = (flag(m, flags, 0), flag(m, flags, 1));
    stmts.extend([read_any, read_hidden]);
    (stmts, any, hidden)
}

/// Reads a flag.
pub(crate) fn flag(m: &mut Maker<'_, '_>, flags: Base, at: i64) -> (Stmt, Dim) {
    let found = m.variable("found", &n(2));
    (read_flag(found.clone(), flags, at), var(&found))
}

/// Reads a flag into a variable.
pub(crate) fn read_flag(variable: Symbol, flags: Base, at: i64) -> Stmt {
    let Base::Scratch(scratch) = flags else { unreachable!("a slot of scratch memory") };
    Stmt::Read { var: variable, scratch, offset: n(at) }
}

/// Begins the names of the parameters of a side.
fn prefix(side: Side) -> &'static str {
    match side {
        Side::Row => "row.",
        Side::Key => "key.",
    }
}

/// What is known of a part over the whole tile.
#[derive(Clone, Copy)]
enum Known {
    /// The least and the greatest value.
    Between(I32, I32),
    /// Whether it may hold somewhere, and whether it holds everywhere.
    Truth { may: Mask, must: Mask },
}

/// One call that looks at the least and greatest of each side.
fn by_sides(
    m: &mut Maker<'_, '_>,
    condition: NodeId,
    t: &RowTile<'_>,
    place: ScoreTile<'_>,
    parts: &[OneSided],
    flags: Base,
) -> Stmt {
    let g = m.scope.graph;
    let (keys, reports) = (m.scope.ranges.clone(), m.scope.defined.demanding(condition));
    let mut b = Builder::new("look");
    let mut args = Vec::new();
    let mut known = BTreeMap::new();
    for of in [Side::Key, Side::Row] {
        let mut inner = t.env.clone();
        let (origin, count) = match (of, t.axis()) {
            (Side::Row, Some(axis)) => {
                m.scope.ranges.insert(&LANE, &g.extent(axis).clone());
                inner.insert(axis, AxisValue::Poly(var(&LANE)));
                (t.origin(), t.count())
            }
            (Side::Key, _) | (Side::Row, None) => (place.key.clone(), place.count.clone()),
        };
        let mine: Vec<NodeId> = parts.iter().filter(|p| p.side == of).map(|p| p.node).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, origin, &[]).prefixed(prefix(of));
        let trip = s.integer(&mut b, &count);
        let (ints, truths): (Vec<NodeId>, Vec<NodeId>) =
            mine.into_iter().partition(|id| g.node(*id).dtype.is_int());
        let (most, least, no) = (b.i32(i32::MAX), b.i32(i32::MIN), b.mask(false));
        let init = (vec![(most, least); ints.len()], vec![(no, no); truths.len()]);
        let (ranges, found) = b.lanes(trip, init, |b, index, (ranges, found)| {
            s.enter(index);
            let ranges = ints.iter().zip(ranges).map(|(id, (least, most))| {
                let v = I32::from_value(s.root_of(b, *id, &inner, reports));
                (b.min(v, least), b.max(v, most))
            });
            let ranges: Vec<(I32, I32)> = ranges.collect();
            let found = truths.iter().zip(found).map(|(id, (any, hidden))| {
                let v = Mask::from_value(s.root_of(b, *id, &inner, reports));
                let not = b.not(v);
                (b.or(any, v), b.or(hidden, not))
            });
            (ranges, found.collect::<Vec<(Mask, Mask)>>())
        });
        args.extend(s.finish());
        for (id, (least, most)) in ints.into_iter().zip(ranges) {
            known.insert(id, Known::Between(b.hmin(least), b.hmax(most)));
        }
        for (id, (any, hidden)) in truths.into_iter().zip(found) {
            let (may, hidden) = (b.hany(any), b.hany(hidden));
            known.insert(id, Known::Truth { may, must: b.not(hidden) });
        }
        m.scope.ranges = keys.clone();
    }
    let Known::Truth { may, must } = over(g, &mut b, condition, &mut known) else {
        unreachable!("a mask is a truth value")
    };
    let hidden = b.not(must);
    let to = b.output("flags");
    args.push(crate::emit::maker::address(flags, n(0)));
    keep(&mut b, to, may, hidden);
    m.call(b.finish(), args)
}

/// What is known of a node over the tile, from what is known of its sides.
fn over(g: &Graph, b: &mut Builder, id: NodeId, known: &mut BTreeMap<NodeId, Known>) -> Known {
    if let Some(known) = known.get(&id) {
        return *known;
    }
    let Op::Map(op) = *g.op(id) else { unreachable!("a side is known") };
    let parts: Vec<Known> = g.args(id).iter().map(|a| over(g, b, *a, known)).collect();
    let found = combined(b, op, &parts);
    known.insert(id, found);
    found
}

/// What is known of an operator's value from what is known of its arguments.
fn combined(b: &mut Builder, op: MapOp, parts: &[Known]) -> Known {
    match (op, parts) {
        (MapOp::Not, [Known::Truth { may, must }]) => Known::Truth { may: b.not(*must), must: b.not(*may) },
        (MapOp::And, [Known::Truth { may: x, must: y }, Known::Truth { may: v, must: w }]) => {
            Known::Truth { may: b.and(*x, *v), must: b.and(*y, *w) }
        }
        (MapOp::Or, [Known::Truth { may: x, must: y }, Known::Truth { may: v, must: w }]) => {
            Known::Truth { may: b.or(*x, *v), must: b.or(*y, *w) }
        }
        (MapOp::Add, [Known::Between(x, y), Known::Between(v, w)]) => {
            Known::Between(b.add(*x, *v), b.add(*y, *w))
        }
        (MapOp::Sub, [Known::Between(x, y), Known::Between(v, w)]) => {
            Known::Between(b.sub(*x, *w), b.sub(*y, *v))
        }
        (MapOp::Neg, [Known::Between(x, y)]) => {
            let zero = b.i32(0);
            Known::Between(b.sub(zero, *y), b.sub(zero, *x))
        }
        (MapOp::Abs, [Known::Between(x, y)]) => {
            let zero = b.i32(0);
            let (above, below) = (b.sub(zero, *x), b.sub(zero, *y));
            let least = b.max(*x, below);
            Known::Between(b.max(least, zero), b.max(above, *y))
        }
        (MapOp::Min, [Known::Between(x, y), Known::Between(v, w)]) => {
            Known::Between(b.min(*x, *v), b.min(*y, *w))
        }
        (MapOp::Max, [Known::Between(x, y), Known::Between(v, w)]) => {
            Known::Between(b.max(*x, *v), b.max(*y, *w))
        }
        (MapOp::Lt, [Known::Between(x, y), Known::Between(v, w)]) => {
            Known::Truth { may: b.lt(*x, *w), must: b.lt(*y, *v) }
        }
        (MapOp::Le, [Known::Between(x, y), Known::Between(v, w)]) => {
            Known::Truth { may: b.le(*x, *w), must: b.le(*y, *v) }
        }
        (MapOp::Eq | MapOp::Ne, [Known::Between(x, y), Known::Between(v, w)]) => {
            let (below, above) = (b.le(*x, *w), b.le(*v, *y));
            let may = b.and(below, above);
            let (one, other, same) = (b.eq(*x, *y), b.eq(*v, *w), b.eq(*x, *v));
            let must = b.and(one, other);
            let must = b.and(must, same);
            if op == MapOp::Eq {
                Known::Truth { may, must }
            } else {
                Known::Truth { may: b.not(must), must: b.not(may) }
            }
        }
        _ => unreachable!("`sides` takes no other parts"),
    }
}

/// Sets the flags.
fn keep(b: &mut Builder, to: salient_vector::Ptr, any: Mask, hidden: Mask) {
    for (at, found) in [any, hidden].into_iter().enumerate() {
        let one = b.i32(1);
        b.store(to.at_start().plus(at as i32).one().masked(found), one);
    }
}

/// One row, key by key.
fn by_elements(
    m: &mut Maker<'_, '_>,
    condition: NodeId,
    env: &Env,
    place: ScoreTile<'_>,
    flags: Base,
) -> Stmt {
    let mut b = Builder::new("look_closely");
    let mut s = Strip::new(m.scope, Visit::Lanes, place.key.clone(), &[flags]);
    let trip = s.integer(&mut b, place.count);
    let to = s.pointer(&mut b, flags, &n(0));
    let none = b.mask(false);
    let (any, hidden) = b.lanes(trip, (none, none), |b, index, (any, hidden)| {
        s.enter(index);
        let keep = Mask::from_value(s.root(b, condition, env));
        let not = b.not(keep);
        (b.or(any, keep), b.or(hidden, not))
    });
    s.leave();
    let (any, hidden) = (b.hany(any), b.hany(hidden));
    keep(&mut b, to, any, hidden);
    let args = s.finish();
    m.call(b.finish(), args)
}
