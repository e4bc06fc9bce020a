//! What lies at a distance from each row, as `r[i - j]`: products with it, and sums over it.

pub(crate) mod moved;
mod pairs;
pub(crate) mod products;
pub(crate) mod sums;

use crate::graph::index::AffineIndex;
use salient_ir::{AxisId, Builder, MapOp, NodeId};

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
