//! Operands of a product brought into the form that the register tile reads: rows, and panels of columns.
//!
//! Packing evaluates any expression, so a scale, a rotation or a gather in front of a product costs no pass of its own.

use crate::dims::{LANE, LANES, ceil_div, n, var};
use crate::emit::maker::{Maker, Target, address, for_loop, let_min};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::Pack;
use crate::plan::attention::Scale;
use crate::plan::layouts::{Stored, StridedRows};
use crate::program::kernel::{Arg, Base, Kernel, Kind, Stmt};
use salient_ir::{AxisId, Dim, MapOp, NodeId};
use salient_vector::handle::Handle;
use salient_vector::tile::copy_rows;
use salient_vector::{Builder, Elem, F32};

/// Rows below which no vector is filled by a column of them.
const FEWEST_ROWS: i64 = 8;

/// How many panels an item packs a part of the depth of, and how many rows that part has: of each row it reads several cache lines that
/// follow one another, and all that it reads and writes fits the second cache.
const PANELS_OF_ITEM: i64 = 8;
const ROWS_OF_ITEM: i64 = 128;

/// A range of one axis.
#[derive(Clone)]
pub(crate) struct Span {
    /// The axis; `None` where the operand has none, and the range is one position.
    pub(crate) axis: Option<AxisId>,
    pub(crate) from: Dim,
    pub(crate) count: Dim,
}

/// Where an operand goes.
#[derive(Clone)]
pub(crate) struct Packed {
    pub(crate) base: Base,
    /// Elements from the base to the first position of both spans.
    pub(crate) offset: Dim,
    /// Elements between neighbours along the outer and along the inner span.
    pub(crate) outer: Dim,
    pub(crate) inner: Dim,
}

impl Packed {
    /// The part of a stored value that begins where both spans do; the other axes are where `env` says.
    pub(crate) fn within(target: &Stored, env: &Env, outer: &Span, inner: &Span) -> Packed {
        let mut begin = env.clone();
        for span in [outer, inner] {
            begin.extend(span.axis.map(|axis| (axis, AxisValue::Poly(span.from.clone()))));
        }
        let (base, offset) = target.at(&begin).expect("every axis stands for a polynomial");
        let stride = |span: &Span| {
            let of_span = target.strides.iter().find(|(axis, _)| Some(*axis) == span.axis);
            of_span.map_or(n(0), |(_, stride)| stride.clone())
        };
        Packed { base, offset, outer: stride(outer), inner: stride(inner) }
    }
}

/// Copies `node` into a stored value over `outer` and `inner`, as [`pack`] does; the other axes are where `env` says.
pub(crate) fn copy_across(
    m: &mut Maker<'_, '_>,
    node: NodeId,
    env: &Env,
    outer: &Span,
    inner: &Span,
    target: &Stored,
) -> Stmt {
    pack(m, "copy", node, env, outer, inner, &Packed::within(target, env, outer, inner))
}

/// Packs `node` over `outer` and `inner`; the strip runs along whichever of the two its memory is contiguous in,
/// else along `inner`.
pub(crate) fn pack(
    m: &mut Maker<'_, '_>,
    label: &str,
    node: NodeId,
    env: &Env,
    outer: &Span,
    inner: &Span,
    to: &Packed,
) -> Stmt {
    let walk = Walk::new(m, node, env, (outer, inner), to);
    transposed(m, node, env, &walk).unwrap_or_else(|| strips(m, label, (node, None), env, &walk))
}

/// As [`pack`], if what is packed is stored with its rows along `outer` and squares of it can be exchanged.
pub(crate) fn pack_transposed(
    m: &mut Maker<'_, '_>,
    node: NodeId,
    env: &Env,
    outer: &Span,
    inner: &Span,
    to: &Packed,
) -> Option<Stmt> {
    let walk = Walk::new(m, node, env, (outer, inner), to);
    transposed(m, node, env, &walk)
}

/// As [`pack`], scaled on the way if a scale is given; of what is transposed, row by row after it.
pub(crate) fn pack_scaled(
    m: &mut Maker<'_, '_>,
    label: &str,
    (node, scale): (NodeId, Option<Scale>),
    env: &Env,
    outer: &Span,
    inner: &Span,
    to: &Packed,
) -> Vec<Stmt> {
    let Some(scale) = scale else { return vec![pack(m, label, node, env, outer, inner, to)] };
    let walk = Walk::new(m, node, env, (outer, inner), to);
    match transposed(m, node, env, &walk) {
        Some(copy) => vec![copy, scale_rows(m, scale, env, &walk)],
        None => vec![strips(m, label, (node, Some(scale)), env, &walk)],
    }
}

/// In which order an operand is read and written.
struct Walk<'a> {
    /// One position at a time.
    fixed: &'a Span,
    /// What a strip runs along.
    run: &'a Span,
    /// Elements between neighbours of each in the target.
    fixed_stride: &'a Dim,
    run_stride: &'a Dim,
    to: &'a Packed,
}

impl<'a> Walk<'a> {
    fn new(
        m: &Maker<'_, '_>,
        node: NodeId,
        env: &Env,
        (outer, inner): (&'a Span, &'a Span),
        to: &'a Packed,
    ) -> Walk<'a> {
        let along_outer = inner.axis.is_none()
            || m.scope.slope(node, env, inner.axis, outer.axis) != Some(n(1))
                && m.scope.slope(node, env, outer.axis, inner.axis) == Some(n(1));
        match along_outer {
            true => Walk { fixed: inner, run: outer, fixed_stride: &to.inner, run_stride: &to.outer, to },
            false => Walk { fixed: outer, run: inner, fixed_stride: &to.outer, run_stride: &to.inner, to },
        }
    }
}

/// A value times, or over, what it is scaled by.
fn scaled(b: &mut Builder, s: &mut Strip<'_, '_>, value: F32, scale: Scale, env: &Env) -> F32 {
    let by = s.f32(b, scale.by, env);
    if scale.op == MapOp::Div { b.div(value, by) } else { b.mul(value, by) }
}

/// Packs strip by strip along `run`.
fn strips(
    m: &mut Maker<'_, '_>,
    label: &str,
    (node, scale): (NodeId, Option<Scale>),
    env: &Env,
    walk: &Walk<'_>,
) -> Stmt {
    let Walk { fixed, run, fixed_stride, run_stride, to } = *walk;
    let g = m.scope.graph;
    let mut env = env.clone();
    let each = match fixed.axis {
        Some(axis) => {
            let name = m.axis_name(axis);
            let v = m.variable(&name, &g.extent(axis).clone());
            env.insert(axis, AxisValue::Poly(var(&v)));
            v
        }
        None => m.variable("only", &n(1)),
    };
    if let Some(axis) = run.axis {
        m.scope.ranges.insert(&LANE, g.extent(axis));
        env.insert(axis, AxisValue::Poly(var(&LANE)));
    }
    let start = &to.offset + &(&(&var(&each) - &fixed.from) * fixed_stride);
    let mut b = Builder::new(label);
    let mut s = Strip::new(m.scope, Visit::Lanes, run.from.clone(), &[to.base]);
    let trip = s.integer(&mut b, &run.count);
    let target = s.pointer(&mut b, to.base, &start);
    let stride = s.integer(&mut b, run_stride);
    let unit = run_stride.as_constant() == Some(1);
    b.lanes(trip, (), |b, index, ()| {
        s.enter(index);
        let v = F32::from_value(s.root(b, node, &env));
        let v = scale.map_or(v, |scale| scaled(b, &mut s, v, scale, &env));
        if unit {
            b.store::<F32>(target.at(index), v);
        } else {
            let at = b.mul(index, stride);
            b.store::<F32>(target.at(at).strided(stride), v);
        }
    });
    let args = s.finish();
    let call = m.call(b.finish(), args);
    for_loop(&each, fixed.from.clone(), &fixed.from + &fixed.count, n(1), vec![call])
}

/// Packs what lies in memory with its rows along `run` and goes to memory with its rows along `fixed`: rows and columns of as many of
/// them as there are lanes are exchanged at once. `None` where the operand is computed, or lies otherwise.
fn transposed(m: &mut Maker<'_, '_>, node: NodeId, env: &Env, walk: &Walk<'_>) -> Option<Stmt> {
    let Walk { fixed, run, fixed_stride, run_stride, .. } = *walk;
    let (fixed_axis, run_axis) = (fixed.axis?, run.axis?);
    if fixed_stride.as_constant() != Some(1) || run_stride.as_constant() == Some(1) {
        return None;
    }
    let lies = m.scope.viewed(node)?;
    if m.scope.stored[&lies].elem != Elem::F32 || m.scope.factors.contains_key(&lies) {
        return None;
    }
    let rows = m.scope.strided_rows(&m.scope.ranges, node, env, run_axis, fixed_axis)?;
    let extent = m.scope.graph.extent(fixed_axis).clone();
    if extent.as_constant().is_some_and(|rows| rows < FEWEST_ROWS) {
        return None;
    }
    Some(by_squares(m, walk, &extent, |_, first, _| {
        let place = &(&rows.start + &run.from) + &(first * &rows.row);
        (Vec::new(), (rows.base, place, rows.row.clone()))
    }))
}

/// Packs an expression along `outer`, as many positions of `inner` as there are lanes at a time into scratch memory, from which they
/// go to memory that is contiguous along `inner` by squares; in that memory rows have room for all of `outer`.
pub(crate) fn pack_through(
    m: &mut Maker<'_, '_>,
    node: NodeId,
    env: &Env,
    (outer, inner): (&Span, &Span),
    to: &Packed,
    (square, square_row): (Base, &Dim),
) -> Stmt {
    let walk = Walk { fixed: inner, run: outer, fixed_stride: &to.inner, run_stride: &to.outer, to };
    let extent = m.scope.graph.extent(inner.axis.expect("it has both axes")).clone();
    by_squares(m, &walk, &extent, |m, first, upto| {
        let block = Span { axis: inner.axis, from: first.clone(), count: upto - first };
        let through = Packed { base: square, offset: n(0), outer: n(1), inner: square_row.clone() };
        let rows = Walk {
            fixed: &block,
            run: outer,
            fixed_stride: &through.inner,
            run_stride: &through.outer,
            to: &through,
        };
        let made = strips(m, "across", (node, None), env, &rows);
        (vec![made], (square, n(0), square_row.clone()))
    })
}

/// Exchanges rows and columns of squares, of as many positions of `fixed` as there are lanes at a time. `make` makes what is to be
/// exchanged of the positions from the first up to an end: the statements, where it begins and the elements between its rows.
fn by_squares(
    m: &mut Maker<'_, '_>,
    walk: &Walk<'_>,
    extent: &Dim,
    make: impl FnOnce(&mut Maker<'_, '_>, &Dim, &Dim) -> (Vec<Stmt>, (Base, Dim, Dim)),
) -> Stmt {
    let Walk { fixed, run, run_stride, to, .. } = *walk;
    let (block, upto) = (m.variable("block", extent), m.variable("upto", &(extent + &n(1))));
    let (first, end) = (var(&block), &fixed.from + &fixed.count);
    let limit = let_min(&upto, vec![&first + &var(&LANES), end.clone()]);
    let (made, (base, from, row)) = make(m, &first, &var(&upto));
    let mut b = Builder::new("transpose");
    let mut s = Strip::new(m.scope, Visit::Single, n(0), &[to.base]);
    let target = &to.offset + &(&first - &fixed.from);
    let (from, target) = (s.pointer(&mut b, base, &from), s.pointer(&mut b, to.base, &target));
    let (from_row, to_row) = (s.integer(&mut b, &row), s.integer(&mut b, run_stride));
    let (of_block, columns) = (s.integer(&mut b, &(&var(&upto) - &first)), s.integer(&mut b, &run.count));
    b.transpose((from, from_row), (target, to_row), (of_block, columns));
    let args = s.finish();
    let call = m.call(b.finish(), args);
    let statements = [vec![limit], made, vec![call]].concat();
    for_loop(&block, fixed.from.clone(), end, var(&LANES), statements)
}

/// Scales what [`transposed`] has copied, a row of the target at a time.
fn scale_rows(m: &mut Maker<'_, '_>, scale: Scale, env: &Env, walk: &Walk<'_>) -> Stmt {
    let Walk { fixed, run, run_stride, to, .. } = *walk;
    let axis = run.axis.expect("what is transposed has both axes");
    let (name, extent) = (m.axis_name(axis), m.scope.graph.extent(axis).clone());
    let row = m.variable(&name, &extent);
    let mut env = env.clone();
    env.insert(axis, AxisValue::Poly(var(&row)));
    let start = &to.offset + &(&(&var(&row) - &run.from) * run_stride);
    let mut b = Builder::new("scale");
    let mut s = Strip::new(m.scope, Visit::Lanes, n(0), &[to.base]);
    let (trip, target) = (s.integer(&mut b, &fixed.count), s.pointer(&mut b, to.base, &start));
    b.lanes(trip, (), |b, index, ()| {
        s.enter(index);
        let value = b.load::<F32>(target.at(index));
        let value = scaled(b, &mut s, value, scale, &env);
        b.store(target.at(index), value);
    });
    let args = s.finish();
    let call = m.call(b.finish(), args);
    for_loop(&row, run.from.clone(), &run.from + &run.count, n(1), vec![call])
}

/// Packs a panel: positions of `inner` are its columns, of which there are no more than it is wide. Rows that lie in memory as they go
/// to the panel are copied by one call.
pub(crate) fn pack_panel(
    m: &mut Maker<'_, '_>,
    label: &str,
    node: NodeId,
    env: &Env,
    (outer, inner): (&Span, &Span),
    to: &Packed,
) -> Stmt {
    let rows = outer.axis.zip(inner.axis).and_then(|axes| rows_as_panels(m, node, env, axes));
    let Some(rows) = rows else { return pack(m, label, node, env, outer, inner, to) };
    let args = vec![
        address(rows.base, &(&rows.start + &inner.from) + &(&outer.from * &rows.row)),
        address(to.base, to.offset.clone()),
        Arg::Int(outer.count.clone()),
        Arg::Int(rows.row),
        Arg::Int(inner.count.clone()),
    ];
    m.call(copy_rows(m.scope.options.tiling.tile().vectors), args)
}

/// What is packed, where it lies in memory in rows along the columns of panels, one for each position of the depth. The copy loads under
/// masks, which are slow in portable code: its register tiles have one row.
fn rows_as_panels(
    m: &Maker<'_, '_>,
    node: NodeId,
    env: &Env,
    (depth, column): (AxisId, AxisId),
) -> Option<StridedRows> {
    let lies = m.scope.viewed(node)?;
    let is_plain = m.scope.stored[&lies].elem == Elem::F32 && !m.scope.factors.contains_key(&lies);
    let has_masks = m.scope.options.tiling.tile_rows > 1;
    let rows = || m.scope.strided_rows(&m.scope.ranges, node, env, column, depth);
    if is_plain && has_masks { rows() } else { None }
}

/// The kernel that packs an operand. Of one matrix whose rows are copied an item takes a part of the depth for several panels, so that
/// memory is read in pieces of several lines; all else goes panel by panel.
pub(crate) fn pack_panels(scope: &mut Scope<'_>, target: Target<'_>, plan: &Pack) -> Kernel {
    let Pack { column, depth, panels } = plan;
    let rows = scope.graph.extent(*depth).clone();
    let mut m = Maker::planned(scope, target, Kind::Pack);
    let mut env = Env::new();
    m.outer_axes(panels.outer.iter().copied(), &mut env);
    let is_copied = rows_as_panels(&m, target.node, &env, (*depth, *column)).is_some();
    if !is_copied || !panels.outer.is_empty() {
        let panel = m.outer("panel", &panels.count);
        let over_depth = Span { axis: Some(*depth), from: n(0), count: rows };
        let block = one_panel(&mut m, target, plan, &env, (&panel, over_depth));
        return m.finish(block, target.node, target.id);
    }
    let [panels_of_item, rows_of_item] = [PANELS_OF_ITEM, ROWS_OF_ITEM].map(n);
    let group = &m.outer("group", &ceil_div(&panels.count, &panels_of_item)) * &panels_of_item;
    let from = &m.outer("block", &ceil_div(&rows, &rows_of_item)) * &rows_of_item;
    let panel = m.variable("panel", &panels.count);
    let (last, upto) = (m.variable("last", &(&panels.count + &n(1))), m.variable("upto", &(&rows + &n(1))));
    let over_depth = Span { axis: Some(*depth), from: from.clone(), count: &var(&upto) - &from };
    let limits = [
        let_min(&last, vec![panels.count.clone(), &group + &panels_of_item]),
        let_min(&upto, vec![rows, &from + &rows_of_item]),
    ];
    let block = one_panel(&mut m, target, plan, &env, (&var(&panel), over_depth));
    let each_panel = for_loop(&panel, group, var(&last), n(1), block);
    m.finish([limits.to_vec(), vec![each_panel]].concat(), target.node, target.id)
}

/// Packs a part of the depth of one panel, the other axes being where `env` says.
fn one_panel(
    m: &mut Maker<'_, '_>,
    target: Target<'_>,
    Pack { column, panels, .. }: &Pack,
    env: &Env,
    (panel, over_depth): (&Dim, Span),
) -> Vec<Stmt> {
    let g = m.scope.graph;
    let columns = g.extent(*column).clone();
    let width = target.buffer.shape.last().expect("panels have a width");
    let edge = m.variable("edge", &(&columns + &n(1)));
    let from = panel * width;
    let over_columns = Span { axis: Some(*column), from: from.clone(), count: &var(&edge) - &from };
    let offset = &panels.at(g, env, panel, width) + &(&over_depth.from * width);
    let to = Packed { base: panels.base(), offset, outer: width.clone(), inner: n(1) };
    let limit = let_min(&edge, vec![columns, &from + width]);
    let body = pack_panel(m, "pack", target.node, env, (&over_depth, &over_columns), &to);
    vec![limit, body]
}
