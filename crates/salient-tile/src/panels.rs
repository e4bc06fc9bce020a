//! Operands packed once for all tiles of rows: the columns of a product, the keys of an attention, in panels that are each
//! contiguous along the depth.
//!
//! A view around them (a head that several heads of queries share, say) is taken off first, so that what it repeats
//! is packed once.

use crate::index::{Bound, Env, Ranges};
use crate::kernel::{Base, BufferId, Kernel, Kind, LANES};
use crate::maker::{Maker, Target, ceil_div, let_min, n, product, var};
use crate::pack::{Packed, Span, pack};
use crate::plan::Pack;
use crate::strip::{LANE, Scope};
use salient_ir::quantised::Coding;
use salient_ir::{AxisId, Dim, Graph, NodeId, Op};

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
    let mut at = Operand { node, key, env: env.clone() };
    let mut out = at.clone();
    while let Op::At(axis) = *g.op(at.node) {
        let args = g.args(at.node);
        let Some(index) = ranges.evaluate(g, args[1], &at.env) else { break };
        if !ranges.inside(&index, g.extent(axis)) {
            break;
        }
        if index == var(LANE) {
            at.key = axis;
        }
        at.env.insert(axis, Bound::Poly(index));
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
        let bounds: Vec<&Bound> = g.node(self.node).axes.iter().filter_map(|a| self.env.get(&a)).collect();
        let of_lane = |bound: &&&Bound| match bound {
            Bound::Poly(d) | Bound::Loose(d) => d.mentions(LANE),
            Bound::Vector(_) => true,
        };
        let mut keys = bounds.iter().filter(of_lane);
        let is_key = keys.next().is_none_or(|bound| **bound == Bound::Poly(var(LANE)));
        is_key && keys.next().is_none()
    }
}

/// A packed operand: for each position of the outer axes and each panel, `depth` rows of `width` columns.
#[derive(Clone, Debug)]
pub(crate) struct Panels {
    pub(crate) id: BufferId,
    outer: Vec<AxisId>,
    count: Dim,
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
            let Some(Bound::Poly(index)) = env.get(axis) else {
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
    let width = &n(vectors as i64) * &var(LANES);
    let count = ceil_div(g.extent(column), &width);
    let mut shape = g.shape(&outer);
    shape.extend([count.clone(), lines.clone(), width]);
    (Panels { id, outer, count, lines, coding: None }, shape)
}

/// The kernel that packs an operand.
pub(crate) fn pack_panels(scope: &mut Scope<'_>, target: Target<'_>, plan: &Pack) -> Kernel {
    let g = scope.graph;
    let Pack { column, depth, panels } = plan;
    let (columns, rows) = (g.extent(*column).clone(), g.extent(*depth).clone());
    let width = target.buffer.shape.last().expect("panels have a width").clone();
    let mut m = Maker::new(scope, &target.buffer.name, Kind::Pack);
    let mut env = Env::new();
    m.outer_axes(panels.outer.iter().copied(), &mut env);
    let panel = m.outer("panel", &panels.count);
    let edge = m.variable("edge", &(&columns + &n(1)));
    let from = &panel * &width;
    let over_columns = Span { axis: Some(*column), from: from.clone(), count: &var(&edge) - &from };
    let over_depth = Span { axis: Some(*depth), from: n(0), count: rows };
    let to = Packed {
        base: panels.base(),
        offset: panels.at(g, &env, &panel, &width),
        outer: width.clone(),
        inner: n(1),
    };
    let limit = let_min(&edge, vec![columns, &from + &width]);
    let body = pack(&mut m, "pack", target.node, &env, &over_depth, &over_columns, &to);
    m.finish(vec![limit, body], target.node, target.id, product(&target.buffer.shape))
}
