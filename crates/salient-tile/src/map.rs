//! Kernels that compute a tensor element by element.

use crate::index::{Bound, Env, Ranges};
use crate::kernel::{Base, Buffer, BufferId, Kernel, Kind};
use crate::maker::{Maker, ceil_div, let_min, n, product, stored, var};
use crate::pack::stored_view;
use crate::strip::{LANE, Scope, Stored, Strip, Visit};
use salient_ir::{AxisId, DType, Dim, NodeId, Op};
use salient_vector::Builder;

/// Elements of the innermost axis that one item computes.
const CHUNK: i64 = 4096;

/// The kernel that stores `node` in `buffer`, row by row of the buffer's layout.
pub(crate) fn map(scope: &mut Scope<'_>, node: NodeId, id: BufferId, buffer: &Buffer) -> Kernel {
    map_to(scope, node, (id, &buffer.name), &buffer.axes, stored(id, buffer))
}

/// The kernel that stores `node` in a part of the buffer `id` of that name, its axes lying in that order.
fn map_to(
    scope: &mut Scope<'_>,
    node: NodeId,
    (id, name): (BufferId, &str),
    axes: &[AxisId],
    target: Stored,
) -> Kernel {
    let mut m = Maker::new(scope, name, Kind::Map);
    let mut env = Env::new();
    let shape = m.scope.graph.shape(axes);
    let (rows, width) = match axes.split_last() {
        Some((last, rows)) => {
            env.insert(*last, Bound::Poly(var(LANE)));
            (rows, shape.last().expect("as many extents as axes").clone())
        }
        None => (axes, n(1)),
    };
    m.scope.ranges.insert(LANE, &width);
    m.outer_axes(rows.iter().copied(), &mut env);
    let chunk = m.outer("chunk", &ceil_div(&width, &n(CHUNK)));
    let origin = &chunk * &n(CHUNK);
    let count = m.variable("count", &n(CHUNK + 1));
    let block = vec![let_min(&count, vec![n(CHUNK), &width - &origin])];
    let call = strip_to(&mut m, node, &target, &env, origin, &var(&count));
    m.finish([block, vec![call]].concat(), node, id, product(&shape))
}

/// The kernel that stores what `node` appends to the state that lies in the buffer `state`; `None` where the node is no
/// state with something appended, or not in the layout of the state.
pub(crate) fn append(
    scope: &mut Scope<'_>,
    state: BufferId,
    node: NodeId,
    id: BufferId,
    buffer: &Buffer,
) -> Option<Kernel> {
    let g = scope.graph;
    let Op::Concat(axis, parts) = g.op(node) else { return None };
    let args = g.args(node);
    let ([before, added], [held, new]) = (parts.as_slice(), args.as_slice()) else { return None };
    // Wide integers are copies at the border, which do not begin with one another.
    if buffer.axes.first() != Some(axis) || g.node(node).dtype == DType::I64 {
        return None;
    }
    // Every element of the state lies where the output has it: the same distances from the same place.
    let target = stored(id, buffer);
    let (mut env, mut ranges, mut at) = (Env::new(), Ranges::default(), n(0));
    for (k, (other, stride)) in target.strides.iter().enumerate() {
        let own = if other == axis { before } else { other };
        let name = format!("%{k}");
        ranges.insert(&name, g.extent(*own));
        env.insert(*own, Bound::Poly(var(&name)));
        at = &at + &(&var(&name) * stride);
    }
    if stored_view(scope, &ranges, *held, &env)? != (Base::Buffer(state), at) {
        return None;
    }
    let axes: Vec<AxisId> = buffer.axes.iter().map(|a| if a == axis { *added } else { *a }).collect();
    let along = target.strides.iter().find(|(a, _)| a == axis).map(|(_, stride)| stride.clone())?;
    let part = Stored {
        offset: &along * g.extent(*before),
        strides: target
            .strides
            .iter()
            .map(|(a, s)| (if a == axis { *added } else { *a }, s.clone()))
            .collect(),
        ..target
    };
    Some(map_to(scope, *new, (id, &buffer.name), &axes, part))
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
) -> crate::kernel::Stmt {
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
) -> crate::kernel::Stmt {
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
