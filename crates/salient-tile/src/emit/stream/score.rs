//! What of a score is computed before its tiles: what no key changes, once for each row.

use crate::dims::{LANE, n, var};
use crate::emit::maker::Maker;
use crate::emit::stream::row_tile::RowTile;
use crate::emit::strip::{Strip, Visit};
use crate::index::AxisValue;
use crate::plan::layouts::Stored;
use crate::plan::scratch::Slot;
use crate::program::kernel::Stmt;
use salient_ir::NodeId;
use salient_vector::body::Elem;
use salient_vector::{Builder, F32};

/// Computes parts of a score that no key changes, for all rows of a tile, and adds them to what is stored: gives the nodes with
/// what was stored for them before, to be forgotten after the kernel, and the statements.
pub(crate) fn compute_invariant(
    m: &mut Maker<'_, '_>,
    t: &RowTile<'_>,
) -> (Vec<(NodeId, Option<Stored>)>, Vec<Stmt>) {
    let (mut computed, mut stmts) = (Vec::new(), Vec::new());
    let origin = t.origin();
    for node in &t.key_loop.invariant {
        let by_row = t.key_loop.is_by_row(m.scope.graph, *node);
        let count = if by_row { t.count() } else { n(1) };
        let base = m.scratch(Slot::LoopInvariant);
        let mut inner = t.env.clone();
        if let (true, Some(axis)) = (by_row, t.axis()) {
            m.scope.ranges.insert(&LANE, &m.scope.graph.extent(axis).clone());
            inner.insert(axis, AxisValue::Poly(var(&LANE)));
        }
        let mut b = Builder::new("fixed");
        let mut s = Strip::new(m.scope, Visit::Lanes, origin.clone(), &[base]);
        let trip = s.integer(&mut b, &count);
        let to = s.pointer(&mut b, base, &n(0));
        b.lanes(trip, (), |b, index, ()| {
            s.enter(index);
            let v = s.f32(b, *node, &inner);
            b.store::<F32>(to.at(index), v);
        });
        let args = s.finish();
        stmts.push(m.call(b.finish(), args));
        let strides = t.axis().filter(|_| by_row).map(|axis| (axis, n(1)));
        let offset = if by_row { &n(0) - &origin } else { n(0) };
        let stored = Stored { base, elem: Elem::F32, offset, strides: strides.into_iter().collect() };
        computed.push((*node, m.scope.stored.insert(*node, stored)));
    }
    (computed, stmts)
}
