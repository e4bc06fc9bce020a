//! A look at the mask over a tile of scores before they are computed: whether any key is kept for any row, and whether any
//! is not.
//!
//! Where the mask compares what only the row knows with what only the key knows (documents, lengths, positions), the least and
//! greatest of each side say enough, and looking costs as much as the sides are long. Any other mask is looked at element by
//! element. What bounds say before anything runs is for `masks`.

use crate::dims::{n, var};
use crate::emit::maker::{Maker, for_loop};
use crate::emit::stream::score::Rows;
use crate::emit::stream::softmax::{Place, fill};
use crate::emit::strip::{Strip, Visit};
use crate::index::{Bound, Env, LANE};
use crate::program::kernel::{Base, Stmt};
use salient_ir::{Args, DType, Dim, Graph, MapOp, NodeId, Op};
use salient_vector::handle::Handle;
use salient_vector::{Builder, I32, Mask};
use std::collections::{BTreeMap, BTreeSet};

/// The statements that look, and two numbers that are not zero if any key may be kept for any row, and if any may not.
pub(crate) fn look(
    m: &mut Maker<'_, '_>,
    condition: NodeId,
    env: &Env,
    place: Place<'_>,
    rows: &Rows<'_>,
) -> (Vec<Stmt>, Dim, Dim) {
    let flags = m.scratch("kept", n(2));
    let mut stmts = vec![fill(m, flags, &n(2), 0.0)];
    let g = m.scope.graph;
    let leaves = rows.axis.and_then(|_| sides(g, condition, env, rows.variable));
    if let Some(leaves) = leaves {
        stmts.push(by_sides(m, condition, env, place, rows, &leaves, flags));
    } else {
        let call = by_elements(m, condition, env, place, flags);
        let once = if reads(g, condition, env, place.row) { rows.last.clone() } else { place.first + &n(1) };
        stmts.push(for_loop(place.row, place.first.clone(), once, n(1), vec![call]));
    }
    let ((read_any, any), (read_hidden, hidden)) = (flag(m, flags, 0), flag(m, flags, 1));
    stmts.extend([read_any, read_hidden]);
    (stmts, any, hidden)
}

/// Reads a flag.
pub(crate) fn flag(m: &mut Maker<'_, '_>, flags: Base, at: i64) -> (Stmt, Dim) {
    let Base::Scratch(scratch) = flags else { unreachable!("a slot of scratch memory") };
    let found = m.variable("found", &n(2));
    (Stmt::Read { var: found.as_str().into(), scratch, offset: n(at) }, var(&found))
}

/// Whether the value of a node depends on what a variable stands for.
fn reads(g: &Graph, node: NodeId, env: &Env, symbol: &str) -> bool {
    g.node(node).axes.iter().any(|a| match env.get(&a) {
        Some(Bound::Poly(d)) => d.mentions(symbol),
        Some(Bound::Loose(_) | Bound::Vector(_)) | None => true,
    })
}

/// What a value depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    Row,
    Key,
}

impl Of {
    /// Begins the names of its parameters.
    fn prefix(self) -> &'static str {
        match self {
            Of::Row => "row.",
            Of::Key => "key.",
        }
    }
}

/// A part of a mask that one side alone decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Leaf {
    node: NodeId,
    of: Of,
}

/// The side that decides a node, the keys where neither does.
fn side(g: &Graph, node: NodeId, env: &Env, row: &str) -> Option<Of> {
    match (reads(g, node, env, row), reads(g, node, env, LANE)) {
        (true, true) => None,
        (true, false) => Some(Of::Row),
        (false, _) => Some(Of::Key),
    }
}

/// The parts that one side decides; `None` if the mask is not made of such parts and comparisons of them.
fn sides(g: &Graph, mask: NodeId, env: &Env, row: &str) -> Option<Vec<Leaf>> {
    let (mut leaves, mut seen, mut stack) = (Vec::new(), BTreeSet::new(), vec![mask]);
    while let Some(id) = stack.pop() {
        if seen.insert(id) {
            stack.extend(below(g, id, env, row, &mut leaves)?.into_iter().rev());
        }
    }
    Some(leaves)
}

/// What is below a part of a mask: nothing below one that one side decides, which is noted.
#[expect(clippy::wildcard_enum_match_arm, reason = "a mask is not looked at through other operators")]
fn below(g: &Graph, id: NodeId, env: &Env, row: &str, out: &mut Vec<Leaf>) -> Option<Args> {
    let node = g.node(id);
    if let Some(of) = side(g, id, env, row) {
        let known = node.dtype == DType::Bool || node.dtype.is_int();
        let leaf = Leaf { node: id, of };
        out.push(leaf);
        return known.then(Args::new);
    }
    let Op::Map(op) = *g.op(id) else { return None };
    let args = g.args(id);
    let passes = match op {
        MapOp::And | MapOp::Or | MapOp::Not => true,
        MapOp::Eq | MapOp::Ne | MapOp::Lt | MapOp::Le => g.node(args[0]).dtype.is_int(),
        MapOp::Add | MapOp::Sub => node.dtype.is_int(),
        _ => false,
    };
    passes.then_some(args)
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
    env: &Env,
    place: Place<'_>,
    rows: &Rows<'_>,
    leaves: &[Leaf],
    flags: Base,
) -> Stmt {
    let g = m.scope.graph;
    let (keys, reports) = (m.scope.ranges.clone(), m.scope.defined.demanding(condition));
    let mut b = Builder::new("look");
    let mut args = Vec::new();
    let mut known = BTreeMap::new();
    for of in [Of::Key, Of::Row] {
        let mut inner = env.clone();
        let (origin, count) = match (of, rows.axis) {
            (Of::Row, Some(axis)) => {
                m.scope.ranges.insert(LANE, &g.extent(axis).clone());
                inner.insert(axis, Bound::Poly(var(LANE)));
                (rows.origin, rows.count)
            }
            (Of::Key, _) | (Of::Row, None) => (place.key, place.count),
        };
        let mine: Vec<NodeId> = leaves.iter().filter(|l| l.of == of).map(|l| l.node).collect();
        let mut s = Strip::new(m.scope, Visit::Lanes, origin.clone(), &[]).prefixed(of.prefix());
        let trip = s.integer(&mut b, count);
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
fn by_elements(m: &mut Maker<'_, '_>, condition: NodeId, env: &Env, place: Place<'_>, flags: Base) -> Stmt {
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
