//! Which sums are matrix products, the roles of their axes, and where the left operand lies.
//!
//! Makes no kernels: see `product`.

use crate::dims::{LANE, ROW, index_of, n, product as total, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::layouts::{Stored, StridedRows};
use crate::plan::{Layouts, Left};
use crate::program::kernel::Base;
use salient_ir::{AxisId, Class, Dim, Graph, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// A sum of products, its axes by role.
#[derive(Clone, Debug)]
pub(crate) struct Contraction {
    /// The node that is the sum.
    pub(crate) node: NodeId,
    pub(crate) left: NodeId,
    pub(crate) right: NodeId,
    /// The axis summed over.
    pub(crate) depth: AxisId,
    /// Axes of the left operand alone, outermost first: all of them together number the rows. Without any the left operand
    /// is a single row.
    pub(crate) rows: Vec<AxisId>,
    /// An axis of the right operand alone.
    pub(crate) column: AxisId,
}

impl Contraction {
    /// The same over other nodes.
    pub(crate) fn moved(&self, node: &impl Fn(NodeId) -> NodeId) -> Contraction {
        let [own, left, right] = [self.node, self.left, self.right].map(node);
        Contraction { node: own, left, right, ..self.clone() }
    }
}

/// Whether a node is a sum of products of which each operand has an axis that the other lacks. A sum of squares is none.
pub(crate) fn is_matrix_product(g: &Graph, node: NodeId) -> bool {
    let has_own = |x: NodeId, y: NodeId| !g.node(x).axes.is_subset(&g.node(y).axes);
    g.sum_of_products(node).is_some_and(|(a, b, _)| has_own(a, b) && has_own(b, a))
}

/// Whether a node sums products along a row that both operands have, as of the scores of two heads: a number for each row, which a kernel
/// that has the row makes by itself.
pub(crate) fn is_within_rows(g: &Graph, node: NodeId, row: AxisId) -> bool {
    let has_row = |x: NodeId| g.node(x).axes.contains(row);
    g.sum_of_products(node).is_some_and(|(a, b, over)| over != row && has_row(a) && has_row(b))
}

/// The node as a matrix product, if each operand has an axis that the other lacks, or the one that has none is multiplied
/// with a parameter, which is packed once. `order` is the layout of the result: rows and columns are taken from its inner
/// end, and columns hold the innermost axis where they can.
pub(crate) fn contraction(g: &Graph, node: NodeId, order: &[AxisId]) -> Option<Contraction> {
    let (a, b, depth) = g.sum_of_products(node)?;
    let own = |x: NodeId, y: NodeId| -> Vec<AxisId> {
        let of_x = |k: &AxisId| g.node(x).axes.contains(*k) && !g.node(y).axes.contains(*k);
        order.iter().copied().filter(of_x).collect()
    };
    let (of_a, of_b) = (own(a, b), own(b, a));
    let place = |of: &[AxisId]| of.last().and_then(|k| order.iter().rposition(|o| o == k));
    // What has no axis of its own comes before all that have one.
    let ((left, rows), (right, columns)) =
        if place(&of_a) < place(&of_b) { ((a, of_a), (b, of_b)) } else { ((b, of_b), (a, of_a)) };
    let column = *columns.last()?;
    (!rows.is_empty() || reads_parameter(g, right)).then_some(Contraction {
        node,
        left,
        right,
        depth,
        rows,
        column,
    })
}

/// The axes of a product by a parameter that the parameter alone has. With these at the inner end of the result, the
/// parameter is the operand that is packed, once for all calls unless the calls move it, and all other axes are rows.
pub(crate) fn axes_of_parameter(g: &Graph, node: NodeId) -> Vec<AxisId> {
    let Some((a, b, _)) = g.sum_of_products(node) else { return Vec::new() };
    let is_moved = |id| matches!(*g.op(id), Op::Input(at) if g.is_moved_parameter(at));
    let is_parameter = |operand| reads_only(g, operand, |id| is_parameter(g, id) || is_moved(id));
    let (parameter, other) = match (is_parameter(a), is_parameter(b)) {
        (true, false) => (a, b),
        (false, true) => (b, a),
        (true, true) | (false, false) => return Vec::new(),
    };
    let axes = &g.node(node).axes;
    axes.iter().filter(|k| g.node(parameter).axes.contains(*k) && !g.node(other).axes.contains(*k)).collect()
}

/// The left operand of a product without renamings of its axes: positions that are queries here and keys there are rows that
/// are stored once for both.
pub(crate) struct Renamed {
    pub(crate) left: NodeId,
    pub(crate) rows: Vec<AxisId>,
    pub(crate) depth: AxisId,
    /// The axes of the operand in the product, each with what it is here.
    axes: BTreeMap<AxisId, AxisId>,
}

impl Renamed {
    pub(crate) fn of(g: &Graph, c: &Contraction) -> Renamed {
        let mut left = c.left;
        let mut axes: BTreeMap<AxisId, AxisId> = g.node(left).axes.iter().map(|a| (a, a)).collect();
        while let Op::At(axis) = *g.op(left)
            && let [inner, index] = g.args(left)[..]
            && let Op::Iota(new) = *g.op(index)
            && !g.node(inner).axes.contains(new)
            && g.extent(new) == g.extent(axis)
        {
            axes.values_mut().filter(|a| **a == new).for_each(|a| *a = axis);
            left = inner;
        }
        let rows = c.rows.iter().map(|a| axes[a]).collect();
        Renamed { left, rows, depth: axes[&c.depth], axes }
    }

    /// What the axes here stand for, where those of the product stand for what `env` says.
    fn env(&self, env: &Env) -> Env {
        self.axes.iter().filter_map(|(given, own)| Some((*own, env.get(given)?.clone()))).collect()
    }
}

/// What each of several axes stands for where they are numbered together, the last fastest, and `at` is the number.
pub(crate) fn numbered(g: &Graph, ranges: &Ranges, axes: &[AxisId], at: &Dim, env: &mut Env) {
    let mut rest = at.clone();
    for (position, axis) in axes.iter().enumerate().rev() {
        let index = if position == 0 {
            rest.clone()
        } else {
            // Of an axis without positions there is no row.
            let quotient = ranges.quotient(&rest, g.extent(*axis)).unwrap_or_else(|| n(0));
            let index = &rest - &(g.extent(*axis) * &quotient);
            rest = quotient;
            index
        };
        env.insert(*axis, AxisValue::Poly(index));
    }
}

/// The left operand in place, the axes in `env` standing for what it says; `rows` is where it is stored row by row for such
/// products, if it is.
pub(crate) fn left_in_place(
    layouts: &Layouts<'_>,
    ranges: &Ranges,
    c: &Contraction,
    rows: Option<&Stored>,
    env: &Env,
) -> Option<StridedRows> {
    let g = layouts.graph;
    let mut ranges = ranges.clone();
    ranges.insert(&ROW, &rows_of(g, c));
    ranges.insert(&LANE, g.extent(c.depth));
    let mut env = env.clone();
    numbered(g, &ranges, &c.rows, &var(&ROW), &mut env);
    env.insert(c.depth, AxisValue::Poly(var(&LANE)));
    let (base, at) = match rows {
        Some(stored) => stored.at(&Renamed::of(g, c).env(&env))?,
        None => layouts.stored_view(&ranges, c.left, &env)?,
    };
    let (step, rest) = at.linear_in(&LANE)?;
    let (row, start) = rest.linear_in(&ROW)?;
    (step == n(1) && !row.mentions(&ROW) && !start.mentions(&ROW)).then_some(StridedRows { base, start, row })
}

/// The left operand in place with as many of its axes as rows as lie at one distance from row to row, and where it is read;
/// `None` if it has to be stored for the product. `stored` gives where it is stored row by row for such products already.
pub(crate) fn left_with_rows(
    layouts: &Layouts<'_>,
    c: &Contraction,
    order: &[AxisId],
    stored: impl Fn(&Contraction) -> Option<Stored>,
) -> Option<(Contraction, Left)> {
    let g = layouts.graph;
    let mut fewer = (0..c.rows.len().max(1)).map(|from| {
        let rows = c.rows.get(from..).unwrap_or_default().to_vec();
        Contraction { rows, ..c.clone() }
    });
    fewer.find_map(|c| {
        let (mut anywhere, mut ranges) = (Env::new(), Ranges::default());
        for axis in outer_axes(&c, order) {
            let name = index_of(axis);
            ranges.insert(&name, g.extent(axis));
            anywhere.insert(axis, AxisValue::Poly(var(&name)));
        }
        let rows = stored(&c);
        let found = left_in_place(layouts, &ranges, &c, rows.as_ref(), &anywhere)?;
        let left = match (rows, found.base) {
            (Some(rows), _) => Left::Rows(rows),
            (None, Base::Buffer(id)) => Left::InPlace(id),
            (None, Base::Scratch(_) | Base::Status) => return None,
        };
        Some((c, left))
    })
}

/// The axes of a result that are neither rows nor columns of the product, in its order.
pub(crate) fn outer_axes(c: &Contraction, order: &[AxisId]) -> Vec<AxisId> {
    order.iter().copied().filter(|a| !c.rows.contains(a) && *a != c.column).collect()
}

/// How many rows a product has.
pub(crate) fn rows_of(g: &Graph, c: &Contraction) -> Dim {
    total(&g.shape(&c.rows))
}

/// Whether an operand is a parameter, a view of one, or made of parameters element by element or part by part.
pub(crate) fn reads_parameter(g: &Graph, node: NodeId) -> bool {
    reads_only(g, node, |id| is_parameter(g, id))
}

fn is_parameter(g: &Graph, id: NodeId) -> bool {
    matches!(g.op(id), Op::Param(_))
}

/// Whether an operand is one of some inputs and parameters, a view of one, or made of them element by element or part by part.
fn reads_only(g: &Graph, node: NodeId, is_source: impl Fn(NodeId) -> bool) -> bool {
    let constant = |a: NodeId| matches!(g.op(a), Op::Const(_) | Op::Extent(_));
    let (mut seen, mut stack) = (BTreeSet::new(), vec![node]);
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        let args = g.args(id);
        match g.op(id).class() {
            Class::Port if is_source(id) => {}
            Class::View => stack.push(args[0]),
            Class::Concat => stack.extend(args),
            Class::Map if args.iter().all(|a| constant(*a)) => return false,
            Class::Map => stack.extend(args.into_iter().filter(|a| !constant(*a))),
            Class::Port | Class::Leaf | Class::Bind => return false,
        }
    }
    true
}
