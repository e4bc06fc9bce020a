//! Kernels of matrix products: packed operands, register tiles, any expression before and after.

use crate::index::{Bound, Env};
use crate::kernel::{Arg, Base, Kernel, Kind, Stmt};
use crate::maker::{Maker, address, ceil_div, for_loop, let_dim, let_min, n, product as total, var};
use crate::pack::{Packed, Span, pack};
use crate::rows::Target;
use crate::strip::{LANE, Scope};
use salient_ir::{AxisId, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use salient_vector::tile::{Columns, Into, Left, Right, Shape, Tile, Zeros, product_tile};

/// Rows that one item computes.
const ROWS: i64 = 64;

/// A sum of products, its axes by role.
#[derive(Clone, Debug)]
pub(crate) struct Contraction {
    /// The node that is the sum.
    pub(crate) node: NodeId,
    pub(crate) left: NodeId,
    pub(crate) right: NodeId,
    /// The axis summed over.
    pub(crate) depth: AxisId,
    /// An axis of the left operand alone.
    pub(crate) row: AxisId,
    /// An axis of the right operand alone.
    pub(crate) column: AxisId,
}

/// The operands and the bound axis of a node that is a sum of f32 products over an axis of both.
pub(crate) fn sum_of_products(g: &Graph, node: NodeId) -> Option<(NodeId, NodeId, AxisId)> {
    let Op::Reduce(ReduceOp::Sum, depth) = *g.op(node) else { return None };
    let factors = g.args(node)[0];
    if g.op(factors) != &Op::Map(MapOp::Mul) || g.node(factors).dtype != DType::F32 {
        return None;
    }
    let (a, b) = (g.args(factors)[0], g.args(factors)[1]);
    (g.node(a).axes.contains(depth) && g.node(b).axes.contains(depth)).then_some((a, b, depth))
}

/// The node as a matrix product, if each operand has an axis that the other lacks. `order` is the layout of the result:
/// rows and columns are taken from its inner end, and columns hold the innermost axis where they can.
pub(crate) fn contraction(g: &Graph, node: NodeId, order: &[AxisId]) -> Option<Contraction> {
    let (a, b, depth) = sum_of_products(g, node)?;
    let own = |x: NodeId, y: NodeId| {
        order.iter().rposition(|k| g.node(x).axes.contains(*k) && !g.node(y).axes.contains(*k))
    };
    let (of_a, of_b) = (own(a, b)?, own(b, a)?);
    let ((left, row), (right, column)) =
        if of_a < of_b { ((a, of_a), (b, of_b)) } else { ((b, of_b), (a, of_a)) };
    Some(Contraction { node, left, right, depth, row: order[row], column: order[column] })
}

/// Rows of smaller tiles, for what whole tiles leave over.
const REMAINDERS: [usize; 3] = [4, 2, 1];

/// The operands of a product in scratch memory, each with its address and the elements between its rows.
pub(crate) struct Operands<'d> {
    /// Rows of the left operand, contiguous along the depth.
    pub(crate) left: (Base, &'d Dim),
    /// A panel of the right operand.
    pub(crate) panel: (Base, &'d Dim),
    /// Elements between the rows of the panel, where it is not packed.
    pub(crate) panel_row: Option<&'d Dim>,
    pub(crate) depth: &'d Dim,
    /// Where the first row of the results is, and their rows.
    pub(crate) dest: (Base, &'d Dim, &'d Dim),
    /// For results that are added to: what each row of them is multiplied by first.
    pub(crate) factors: Option<Base>,
}

/// The calls of register tiles over rows `from..to` of one panel.
pub(crate) fn tiles(
    m: &mut Maker<'_, '_>,
    shape: Shape,
    zeros: Zeros,
    (from, to): (&Dim, &Dim),
    o: &Operands<'_>,
) -> Vec<Stmt> {
    let into = if o.factors.is_some() { Into::AddScaled } else { Into::Set };
    let mut out = Vec::new();
    let mut begin = from.clone();
    for rows in std::iter::once(shape.rows).chain(REMAINDERS.into_iter().filter(|r| *r < shape.rows)) {
        let row = m.variable("row", to);
        let local = &var(&row) - from;
        let mut args = vec![
            address(o.left.0, &local * o.left.1),
            address(o.panel.0, o.panel.1.clone()),
            address(o.dest.0, &(&local * o.dest.2) + o.dest.1),
            Arg::Int(o.depth.clone()),
            Arg::Int(o.left.1.clone()),
            Arg::Int(n(1)),
        ];
        args.extend(o.panel_row.map(|d| Arg::Int(d.clone())));
        args.push(Arg::Int(o.dest.2.clone()));
        args.extend(o.factors.map(|f| address(f, local)));
        let tile = Tile {
            shape: Shape { rows, ..shape },
            left: Left::Strided,
            right: if o.panel_row.is_some() { Right::Strided } else { Right::Packed },
            into,
            zeros,
            columns: Columns::All,
            unroll: if rows * shape.vectors <= 8 { 4 } else { 1 },
        };
        let call = m.call(product_tile(&tile), args);
        let size = n(rows as i64);
        let end = if rows == 1 {
            to.clone()
        } else {
            &begin + &(&size * &(to - &begin).floor_div(&size).expect("a tile has rows"))
        };
        let name = m.variable("whole", &(to + &n(1)));
        out.push(let_dim(&name, end));
        out.push(for_loop(&row, begin, var(&name), size, vec![call]));
        begin = var(&name);
    }
    out
}

/// The kernel that stores `target.node`, an expression of the product `c` and of stored tensors, over the axes of `c`.
pub(crate) fn product(scope: &mut Scope<'_>, target: Target<'_>, c: &Contraction, shape: Shape) -> Kernel {
    let g = scope.graph;
    let mut m = Maker::new(scope, &target.buffer.name, Kind::Product);
    let mut env = Env::new();
    m.outer_axes(target.buffer.axes.iter().copied().filter(|a| *a != c.row && *a != c.column), &mut env);
    let (rows, columns, depth) =
        (g.extent(c.row).clone(), g.extent(c.column).clone(), g.extent(c.depth).clone());
    let width = &n(shape.vectors as i64) * &var(crate::kernel::LANES);
    let block = m.outer("block", &ceil_div(&rows, &n(ROWS)));
    let (first, last) = (m.variable("first", &rows), m.variable("last", &(&rows + &n(1))));
    let (column, edge) = (m.variable("column", &columns), m.variable("edge", &(&columns + &n(1))));
    let left = m.scratch("left", &n(ROWS) * &depth);
    let panel = m.scratch("panel", &depth * &width);
    let sums = m.scratch("sums", &n(ROWS) * &width);

    let mut stmts =
        vec![let_dim(&first, &block * &n(ROWS)), let_min(&last, vec![rows.clone(), &var(&first) + &n(ROWS)])];
    let (first, last) = (var(&first), var(&last));
    let over_rows = Span { axis: Some(c.row), from: first.clone(), count: &last - &first };
    let over_depth = Span { axis: Some(c.depth), from: n(0), count: depth.clone() };
    let to = Packed { base: left, offset: n(0), outer: depth.clone(), inner: n(1) };
    stmts.push(pack(&mut m, "pack_left", c.left, &env, &over_rows, &over_depth, &to));

    let mut inner = vec![let_min(&edge, vec![columns.clone(), &var(&column) + &width])];
    let at = var(&column);
    let over_columns = Span { axis: Some(c.column), from: at.clone(), count: &var(&edge) - &at };
    let to = Packed { base: panel, offset: n(0), outer: width.clone(), inner: n(1) };
    inner.push(pack(&mut m, "pack_right", c.right, &env, &over_depth, &over_columns, &to));
    let operands = Operands {
        left: (left, &depth),
        panel: (panel, &n(0)),
        panel_row: None,
        depth: &depth,
        dest: (sums, &n(0), &width),
        factors: None,
    };
    inner.extend(tiles(&mut m, shape, Zeros::Multiply, (&first, &last), &operands));
    // The rows of sums go out through whatever follows the product.
    let offset = &n(0) - &(&(&first * &width) + &at);
    let held = Maker::scratch_value(sums, offset, vec![(c.row, width.clone()), (c.column, n(1))]);
    let before = m.scope.stored.insert(c.node, held);
    let row_name = m.axis_name(c.row);
    let row = m.variable(&row_name, &rows);
    env.insert(c.row, Bound::Poly(var(&row)));
    env.insert(c.column, Bound::Poly(var(LANE)));
    m.scope.ranges.insert(LANE, &columns);
    let count = &var(&edge) - &at;
    let store = crate::map::strip(&mut m, target.node, target.id, target.buffer, &env, at, &count);
    match before {
        Some(stored) => m.scope.stored.insert(c.node, stored),
        None => m.scope.stored.remove(&c.node),
    };
    m.scope.inlined.insert(c.node);
    inner.push(for_loop(&row, first, last, n(1), vec![store]));
    stmts.push(for_loop(&column, n(0), columns, width, inner));
    let flops = &(&total(&target.buffer.shape) * &depth) * &n(2);
    m.finish(stmts, target.node, target.id, flops)
}
