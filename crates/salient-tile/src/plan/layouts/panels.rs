//! Operands packed once for all tiles of rows: the columns of a product, the keys of an attention, in panels that are each
//! contiguous along the depth.
//!
//! A view around them (a head that several heads of queries share, say) is taken off first, so that what it repeats
//! is packed once.

use crate::coded::body_coding;
use crate::dims::{DEPTH, LANE, LANES, ceil_div, n, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::Layouts;
use crate::plan::contraction::Contraction;
use crate::program::kernel::{Base, Buffer, BufferId, Role};
use salient_ir::quantised::{BLOCK, Coding};
use salient_ir::{AxisId, DType, Dim, Graph, NodeId, Op, Symbol};
use salient_vector::tile::Shape;

/// An operand without the views around it: what its axes stand for is in `env`.
#[derive(Clone)]
pub(crate) struct Operand {
    pub(crate) node: NodeId,
    /// The axis that stands for the key.
    pub(crate) key: AxisId,
    pub(crate) env: Env,
}

/// Takes off views whose indices `env` gives and which lie inside; the axis that stands for [`LANE`] is the key, and no other
/// depends on it.
pub(crate) fn peel(g: &Graph, ranges: &Ranges, node: NodeId, key: AxisId, env: &Env) -> Operand {
    peel_until(g, ranges, Operand { node, key, env: env.clone() }, |_| false)
}

/// As [`peel`], of the keys of an attention. Of queries, keys and values in one array the keys alone are packed: a view that is one
/// position of an axis stays.
pub(crate) fn peel_keys(g: &Graph, ranges: &Ranges, node: NodeId, key: AxisId, env: &Env) -> Operand {
    let is_slice = |index: &Dim| index.as_constant().is_some();
    peel_until(g, ranges, Operand { node, key, env: env.clone() }, is_slice)
}

fn peel_until(g: &Graph, ranges: &Ranges, mut at: Operand, stays: impl Fn(&Dim) -> bool) -> Operand {
    let mut out = at.clone();
    while let Op::At(axis) = *g.op(at.node) {
        let args = g.args(at.node);
        let Some(index) = ranges.evaluate(g, args[1], &at.env) else { break };
        if stays(&index) || !ranges.inside(&index, g.extent(axis)) {
            break;
        }
        if index == var(&LANE) {
            at.key = axis;
        }
        at.env.insert(axis, AxisValue::Poly(index));
        at.node = args[0];
        if at.has_one_key(g) {
            out = at.clone();
        }
    }
    out
}

impl Operand {
    /// Whether at most one axis depends on the lane, and is the lane.
    fn has_one_key(&self, g: &Graph) -> bool {
        let bounds: Vec<&AxisValue> =
            g.node(self.node).axes.iter().filter_map(|a| self.env.get(&a)).collect();
        let of_lane = |bound: &&&AxisValue| match bound {
            AxisValue::Poly(d) | AxisValue::Loose(d) => d.mentions(&LANE),
            AxisValue::Vector(_) => true,
        };
        let mut keys = bounds.iter().filter(of_lane);
        let is_key = keys.next().is_none_or(|bound| **bound == AxisValue::Poly(var(&LANE)));
        is_key && keys.next().is_none()
    }
}

/// How the last panel of an operand is multiplied, which may be narrower than the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    /// As a whole panel: nothing is left over, or so seldom that it does not matter.
    Whole,
    /// By narrow register tiles where few columns are left over.
    Narrow,
}

/// A multiple of the lanes of every target: so many columns, for each vector of a panel, are whole panels everywhere.
const MOST_LANES: i64 = 16;

impl Edge {
    /// Of so many columns.
    pub(crate) fn of(columns: &Dim, tile: Shape) -> Edge {
        let panel = tile.vectors as i64 * MOST_LANES;
        // Of the narrow panels of a tile of one row none could spare anything.
        let is_whole = tile.rows == 1 || columns.as_constant().is_some_and(|n| n % panel == 0);
        if is_whole { Edge::Whole } else { Edge::Narrow }
    }
}

/// A packed operand: for each position of the outer axes and each panel, `depth` rows of `width` columns.
#[derive(Clone, Debug)]
pub(crate) struct Panels {
    pub(crate) id: BufferId,
    pub(crate) outer: Vec<AxisId>,
    pub(crate) count: Dim,
    /// Rows of a panel; one for each position along the depth, or as many as codes take.
    lines: Dim,
    /// How its blocks are stored, where the operand is in blocks.
    pub(crate) coding: Option<Coding>,
}

impl Panels {
    /// A parameter in blocks: `count` panels of so many lines.
    pub(crate) fn coded(id: BufferId, count: Dim, lines: Dim, coding: Coding) -> Panels {
        Panels { id, outer: Vec::new(), count, lines, coding: Some(coding) }
    }

    /// The first element of a panel, the outer axes standing for what `env` says.
    pub(crate) fn at(&self, g: &Graph, env: &Env, panel: &Dim, width: &Dim) -> Dim {
        let mut place = n(0);
        for axis in &self.outer {
            let Some(AxisValue::Poly(index)) = env.get(axis) else {
                unreachable!("outer axes stand for polynomials")
            };
            place = &(&place * g.extent(*axis)) + index;
        }
        &(&(&place * &self.count) + panel) * &(&self.lines * width)
    }

    /// The panels of another operand, alike but for where they are.
    pub(crate) fn in_buffer(&self, id: BufferId) -> Panels {
        Panels { id, ..self.clone() }
    }

    /// The axes of which each position has panels of its own.
    pub(crate) fn outer(&self) -> &[AxisId] {
        &self.outer
    }

    /// The operand's buffer.
    pub(crate) fn base(&self) -> Base {
        Base::Buffer(self.id)
    }
}

/// The panels of an operand of so many vectors of columns, in that buffer, and the buffer's shape.
pub(crate) fn panels_of(
    g: &Graph,
    id: BufferId,
    node: NodeId,
    column: AxisId,
    depth: AxisId,
    vectors: usize,
) -> (Panels, Vec<Dim>) {
    let axes = g.node(node).axes.iter();
    let outer: Vec<AxisId> = axes.filter(|a| *a != column && *a != depth).collect();
    let lines = g.extent(depth).clone();
    let width = &n(vectors as i64) * &var(&LANES);
    let count = ceil_div(g.extent(column), &width);
    let mut shape = g.shape(&outer);
    shape.extend([count.clone(), lines.clone(), width]);
    (Panels { id, outer, count, lines, coding: None }, shape)
}

/// The panels of the right operand of a product if it is a parameter in blocks, its rows the product's columns.
pub(crate) fn coded_panels(
    layouts: &Layouts<'_>,
    buffers: &mut Vec<Buffer>,
    c: &Contraction,
    vectors: usize,
) -> Option<Panels> {
    let g = layouts.graph;
    let mut ranges = Ranges::default();
    ranges.insert(&DEPTH, g.extent(c.depth));
    ranges.insert(&LANE, g.extent(c.column));
    let env = Env::from([(c.column, AxisValue::Poly(var(&LANE))), (c.depth, AxisValue::Poly(var(&DEPTH)))]);
    let whole = peel(g, &ranges, c.right, c.column, &env);
    let Op::Param(at) = *g.op(whole.node) else { return None };
    let coding = *layouts.options.coded.get(&at)?;
    let [row, depth] = g.params()[at].axes[..] else { return None };
    let is =
        |axis, name: &Symbol| matches!(whole.env.get(&axis), Some(AxisValue::Poly(d)) if *d == var(name));
    // A view that takes a part of the parameter is no whole matrix.
    let complete = g.extent(row) == g.extent(c.column) && g.extent(depth) == g.extent(c.depth);
    if !(whole.key == row && is(row, &LANE) && is(depth, &DEPTH) && complete) {
        return None;
    }
    let id = panel_buffer(
        buffers,
        whole.node,
        &g.params()[at].name,
        at,
        (g.extent(row), g.extent(depth)),
        vectors,
        coding,
    );
    let count = ceil_div(g.extent(row), &width(vectors));
    Some(Panels::coded(id, count, lines(g.extent(depth), coding), coding))
}

/// The buffer of a parameter's codes for products with so many vectors of columns at once.
fn panel_buffer(
    buffers: &mut Vec<Buffer>,
    node: NodeId,
    name: &str,
    at: usize,
    (rows, depth): (&Dim, &Dim),
    vectors: usize,
    coding: Coding,
) -> BufferId {
    let role = Role::Coded(at);
    let width = width(vectors);
    let shape = vec![ceil_div(rows, &width), lines(depth, coding), width];
    if let Some(known) = buffers.iter().position(|b| b.role == role && b.shape == shape) {
        return BufferId(known);
    }
    buffers.push(Buffer {
        name: format!("{name}.codes"),
        role,
        dtype: DType::I32,
        axes: Vec::new(),
        shape,
        node,
    });
    BufferId(buffers.len() - 1)
}

fn width(vectors: usize) -> Dim {
    &n(vectors as i64) * &var(&LANES)
}

/// Rows of a panel's width that its codes, scales and offsets take.
fn lines(depth: &Dim, coding: Coding) -> Dim {
    let blocks = depth.floor_div(&n(BLOCK as i64)).expect("a block has elements");
    &blocks * &n(body_coding(coding).words_in_block() as i64)
}
