//! Kernels that compute a tensor element by element.

use crate::dims::{LANE, ceil_div, n, var};
use crate::emit::maker::{Maker, Target, for_loop, let_min};
use crate::emit::pack::{Packed, Span, copy_across, pack_through};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::layouts::parts::{parts_of, values_of};
use crate::plan::layouts::{Stored, stored};
use crate::plan::scratch::Slot;
use crate::plan::{COLUMNS_OF_MAP, MapOrder, Part};
use crate::program::kernel::{Base, Buffer, BufferId, Kernel, Kind, Stmt};
use salient_ir::{AxisId, Dim, NodeId};
use salient_vector::Builder;

/// Elements of the innermost axis that one item computes.
const CHUNK: i64 = 4096;

/// The kernel that stores `node` in `buffer`, row by row of the buffer's layout.
pub(crate) fn map(scope: &mut Scope<'_>, target: Target<'_>, order: MapOrder) -> Kernel {
    map_to(scope, target, (target.node, &target.buffer.axes), order, stored(target.id, target.buffer))
}

/// The kernel that stores what is new in a state to which a call appends.
pub(crate) fn append(scope: &mut Scope<'_>, target: Target<'_>, part: &Part) -> Kernel {
    map_to(scope, target, (part.node, &part.axes), part.order, part.place.clone())
}

/// The kernel that stores `node` at a place in the buffer of the target, its axes lying in that order.
fn map_to(
    scope: &mut Scope<'_>,
    of: Target<'_>,
    (node, axes): (NodeId, &[AxisId]),
    order: MapOrder,
    target: Stored,
) -> Kernel {
    let id = of.id;
    let mut m = Maker::planned(scope, of, Kind::Map);
    let mut env = Env::new();
    let graph = m.scope.graph;
    if let Some((last, rows)) = axes.split_last()
        && let Some(values) = values_of(&m.scope.layouts, node, *last)
    {
        m.outer_axes(rows.iter().copied(), &mut env);
        let block = side_by_side(&mut m, &values, *last, &target, &env);
        return m.finish(block, node, id);
    }
    if let (MapOrder::Squares { along, computed }, Some((last, rows))) = (order, axes.split_last()) {
        let square = computed.then(|| m.scratch(Slot::Square));
        let block = by_columns(&mut m, (node, square), (rows, along, *last), &target, &mut env);
        return m.finish(block, node, id);
    }
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

/// What stores a view that lies contiguous along `column`, or computes what reads memory that does, and goes to memory that is
/// contiguous along `last`: some of its columns in an item.
fn by_columns(
    m: &mut Maker<'_, '_>,
    (node, square): (NodeId, Option<Base>),
    (rows, column, last): (&[AxisId], AxisId, AxisId),
    target: &Stored,
    env: &mut Env,
) -> Vec<Stmt> {
    m.outer_axes(rows.iter().copied().filter(|axis| *axis != column), env);
    let [columns, width] = [column, last].map(|axis| m.scope.graph.extent(axis).clone());
    let most = n(COLUMNS_OF_MAP);
    let chunk = m.outer("chunk", &ceil_div(&columns, &most));
    let count = m.variable("count", &(&most + &n(1)));
    let from = &chunk * &most;
    let limit = let_min(&count, vec![most, &columns - &from]);
    let over_columns = Span { axis: Some(column), from, count: var(&count) };
    let over_width = Span { axis: Some(last), from: n(0), count: width };
    let stored = match square {
        None => copy_across(m, node, env, &over_columns, &over_width, target),
        Some(square) => {
            let to = Packed::within(target, env, &over_columns, &over_width);
            pack_through(m, node, env, (&over_columns, &over_width), &to, (square, &n(COLUMNS_OF_MAP)))
        }
    };
    vec![limit, stored]
}

/// What stores values one behind the other along `last`: no element asks which of them it is of.
fn side_by_side(
    m: &mut Maker<'_, '_>,
    values: &[(AxisId, NodeId)],
    last: AxisId,
    target: &Stored,
    env: &Env,
) -> Vec<Stmt> {
    let graph = m.scope.graph;
    let mut out = Vec::new();
    let mut from = n(0);
    for (own, value) in values {
        let along = target.strides.iter().find(|(axis, _)| *axis == last).map(|(_, stride)| stride);
        let named = |axis: AxisId| if axis == last { *own } else { axis };
        let place = Stored {
            offset: &target.offset + &(along.expect("it lies in the buffer") * &from),
            strides: target.strides.iter().map(|(axis, stride)| (named(*axis), stride.clone())).collect(),
            ..target.clone()
        };
        let extent = graph.extent(*own).clone();
        let (parts, width) = parts_of(graph, *value, *own).unwrap_or((n(1), extent.clone()));
        m.scope.ranges.insert(&LANE, &width);
        let part = m.variable("part", &parts);
        let mut env = env.clone();
        env.insert(*own, AxisValue::Poly(&(&var(&part) * &width) + &var(&LANE)));
        let call = strip_to(m, *value, &place, &env, n(0), &width);
        out.push(for_loop(&part, n(0), parts, n(1), vec![call]));
        from = &from + &extent;
    }
    out
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
) -> Stmt {
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
) -> Stmt {
    let mut b = Builder::new("strip");
    let mut s = Strip::new(m.scope, Visit::Lanes, origin, &[target.base]);
    let trip = s.integer(&mut b, count);
    s.hoist(&mut b, node, env);
    b.lanes(trip, (), |b, index, ()| {
        s.enter(index);
        let value = s.root(b, node, env);
        let place = s.place(b, target, env);
        b.store_elem(target.elem, place, value);
    });
    let args = s.finish();
    m.call(b.finish(), args)
}
