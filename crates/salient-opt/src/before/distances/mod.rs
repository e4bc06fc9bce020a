//! What lies at a distance from each row, as `r[i - j]`: products with it, and sums over it.

pub(crate) mod moved;
mod pairs;
pub(crate) mod products;
pub(crate) mod sums;

use crate::graph::index::AffineIndex;
use salient_ir::{AxisId, Builder, Graph, MapOp, NodeId, Op};
use std::collections::BTreeSet;

/// Operators of an expression that are looked at, at most.
const LARGEST: usize = 256;

/// The axes whose indices go into a place once, and those that are taken off it once, if there is one of each: row and key.
fn row_and_key(place: &AffineIndex) -> Option<(AxisId, AxisId)> {
    let of = |times: i64| {
        let mut found =
            place.terms.iter().filter(|(_, t)| t.as_constant() == Some(times)).map(|(axis, _)| *axis);
        found.next().filter(|_| found.next().is_none())
    };
    (place.terms.len() == 2).then(|| Some((of(1)?, of(-1)?)))?
}

/// The one form of an index in which each axis's own is added or taken off once: `j + (T - 1 - i)`.
fn index_of(b: &mut Builder, place: &AffineIndex) -> NodeId {
    let mut sum = b.extent_of(&place.offset);
    let of = |times: i64| {
        place.terms.iter().filter(move |(_, t)| t.as_constant() == Some(times)).map(|(axis, _)| *axis)
    };
    for axis in of(-1) {
        let own = b.iota(axis);
        sum = b.map(MapOp::Sub, &[sum, own]).expect("integers");
    }
    for axis in of(1) {
        let own = b.iota(axis);
        sum = b.map(MapOp::Add, &[own, sum]).expect("integers");
    }
    sum
}

/// Whether a value is a sum of products that varies along an axis.
fn is_product(g: &Graph, id: NodeId, along: AxisId) -> bool {
    g.node(id).axes.contains(along) && g.sum_of_products(id).is_some()
}

/// Whether an expression has a sum of products inside of it.
fn has_product(g: &Graph, of: NodeId, along: AxisId) -> bool {
    has_product_of(g, of, along, 0)
}

/// Whether an expression has a sum of products inside of it that has at least so many axes.
fn has_product_of(g: &Graph, of: NodeId, along: AxisId, axes: usize) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![(of, along)]);
    while let Some((id, along)) = stack.pop() {
        if !g.node(id).axes.contains(along) || !seen.insert((id, along)) || seen.len() > LARGEST {
            continue;
        }
        if id != of && is_product(g, id, along) && g.node(id).axes.len() >= axes {
            return true;
        }
        match g.op(id) {
            Op::Map(_) => stack.extend(g.args(id).iter().map(|arg| (*arg, along))),
            Op::Reduce(..) => stack.push((g.args(id)[0], along)),
            // The axis may have another name inside.
            Op::At(axis) if *g.op(g.args(id)[1]) == Op::Iota(along) => stack.push((g.args(id)[0], *axis)),
            Op::At(axis) if *axis != along => stack.push((g.args(id)[0], along)),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
    }
    false
}
