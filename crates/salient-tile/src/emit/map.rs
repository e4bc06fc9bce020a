//! Kernels that compute a tensor element by element.

use crate::dims::{LANE, ceil_div, n, var};
use crate::emit::maker::{Maker, let_min};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::layouts::parts::parts_of;
use crate::plan::layouts::{Stored, stored};
use crate::program::kernel::{Buffer, BufferId, Kernel, Kind};
use salient_ir::{AxisId, Dim, NodeId};
use salient_vector::Builder;

/// Elements of the innermost axis that one item computes.
const CHUNK: i64 = 4096;

/// The kernel that stores `node` in `buffer`, row by row of the buffer's layout.
pub(crate) fn map(scope: &mut Scope<'_>, node: NodeId, id: BufferId, buffer: &Buffer) -> Kernel {
    map_to(scope, node, (id, &buffer.name), &buffer.axes, stored(id, buffer))
}

/// The kernel that stores `node` in a part of the buffer `id` of that name, its axes lying in that order.
pub(crate) fn map_to(
    scope: &mut Scope<'_>,
    node: NodeId,
    (id, name): (BufferId, &str),
    axes: &[AxisId],
    target: Stored,
) -> Kernel {
    let mut m = Maker::new(scope, name, Kind::Map);
    let mut env = Env::new();
    let graph = m.scope.graph;
    let (rows, width, parts) = match axes.split_last() {
        Some((last, rows)) => match parts_of(graph, node, *last) {
            Some((parts, width)) => (rows, width, Some((*last, parts))),
            None => {
                env.insert(*last, AxisValue::Poly(var(&LANE)));
                (rows, graph.extent(*last).clone(), None)
            }
        },
        None => (axes, n(1), None),
    };
    m.scope.ranges.insert(&LANE, &width);
    m.outer_axes(rows.iter().copied(), &mut env);
    if let Some((last, parts)) = parts {
        let part = m.outer("part", &parts);
        env.insert(last, AxisValue::Poly(&(&part * &width) + &var(&LANE)));
    }
    let chunk = m.outer("chunk", &ceil_div(&width, &n(CHUNK)));
    let origin = &chunk * &n(CHUNK);
    let count = m.variable("count", &n(CHUNK + 1));
    let block = vec![let_min(&count, vec![n(CHUNK), &width - &origin])];
    let call = strip_to(&mut m, node, &target, &env, origin, &var(&count));
    m.finish([block, vec![call]].concat(), node, id)
}

/// The call that stores `count` elements of `node` along the lanes from `origin` on.
pub(crate) fn strip(
    m: &mut Maker<'_, '_>,
    node: NodeId,
    id: BufferId,
    buffer: &Buffer,
    env: &Env,
    origin: Dim,
    count: &Dim,
) -> crate::program::kernel::Stmt {
    strip_to(m, node, &stored(id, buffer), env, origin, count)
}

/// As [`strip`], to any place.
fn strip_to(
    m: &mut Maker<'_, '_>,
    node: NodeId,
    target: &Stored,
    env: &Env,
    origin: Dim,
    count: &Dim,
) -> crate::program::kernel::Stmt {
    let mut b = Builder::new("strip");
    let mut s = Strip::new(m.scope, Visit::Lanes, origin, &[target.base]);
    let trip = s.integer(&mut b, count);
    b.lanes(trip, (), |b, index, ()| {
        s.enter(index);
        let value = s.root(b, node, env);
        let place = s.place(b, target, env);
        b.store_elem(target.elem, place, value);
    });
    let args = s.finish();
    m.call(b.finish(), args)
}
