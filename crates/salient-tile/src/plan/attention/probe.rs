//! How a probe looks at the mask of a tile of scores before they are computed.
//!
//! Where the mask compares what only the row knows with what only the key knows (documents, lengths, positions), the least and
//! greatest of each side say enough, and looking costs as much as the sides are long. Any other mask is looked at element by
//! element.

use salient_ir::{Args, AxisId, DType, Graph, MapOp, NodeId, Op};
use std::collections::BTreeSet;

/// What a value depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Row,
    Key,
}

/// A part of a mask that one side alone decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OneSided {
    pub(crate) node: NodeId,
    pub(crate) side: Side,
}

/// How a probe looks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Probe {
    /// At the least and the greatest of each part that one side decides.
    Sides(Vec<OneSided>),
    /// At each element; `by_row` says whether rows differ.
    Elements { by_row: bool },
}

/// The axes along which the rows and the keys of a tile lie.
#[derive(Clone, Copy)]
pub(crate) struct TileAxes {
    pub(crate) rows: Option<AxisId>,
    pub(crate) key: AxisId,
}

impl TileAxes {
    fn reads_row(self, g: &Graph, id: NodeId) -> bool {
        self.rows.is_some_and(|rows| g.node(id).axes.contains(rows))
    }

    /// The side that decides a node, the keys where neither does.
    fn side(self, g: &Graph, id: NodeId) -> Option<Side> {
        match (self.reads_row(g, id), g.node(id).axes.contains(self.key)) {
            (true, true) => None,
            (true, false) => Some(Side::Row),
            (false, _) => Some(Side::Key),
        }
    }
}

/// How the mask of a tile is looked at.
pub(crate) fn probe(g: &Graph, mask: NodeId, tile: TileAxes) -> Probe {
    let by_sides = tile.rows.and_then(|_| sides(g, mask, tile));
    by_sides.map_or_else(|| Probe::Elements { by_row: tile.reads_row(g, mask) }, Probe::Sides)
}

/// The parts that one side decides; `None` if the mask is not made of such parts and comparisons of them.
fn sides(g: &Graph, mask: NodeId, tile: TileAxes) -> Option<Vec<OneSided>> {
    let (mut parts, mut seen, mut stack) = (Vec::new(), BTreeSet::new(), vec![mask]);
    while let Some(id) = stack.pop() {
        if seen.insert(id) {
            stack.extend(below(g, id, tile, &mut parts)?.into_iter().rev());
        }
    }
    Some(parts)
}

/// What is below a part of a mask: nothing below one that one side decides, which is noted.
#[expect(clippy::wildcard_enum_match_arm, reason = "a mask is not looked at through other operators")]
fn below(g: &Graph, id: NodeId, tile: TileAxes, out: &mut Vec<OneSided>) -> Option<Args> {
    let node = g.node(id);
    if let Some(side) = tile.side(g, id) {
        let known = node.dtype == DType::Bool || node.dtype.is_int();
        out.push(OneSided { node: id, side });
        return known.then(Args::new);
    }
    let Op::Map(op) = *g.op(id) else { return None };
    let args = g.args(id);
    let passes = match op {
        MapOp::And | MapOp::Or | MapOp::Not => true,
        MapOp::Eq | MapOp::Ne | MapOp::Lt | MapOp::Le => g.node(args[0]).dtype.is_int(),
        MapOp::Add | MapOp::Sub | MapOp::Neg | MapOp::Abs | MapOp::Min | MapOp::Max => node.dtype.is_int(),
        _ => false,
    };
    passes.then_some(args)
}

impl Probe {
    /// The same over other nodes.
    pub(crate) fn moved(&self, node: &impl Fn(NodeId) -> NodeId) -> Probe {
        let part = |part: &OneSided| OneSided { node: node(part.node), side: part.side };
        match self {
            Probe::Sides(parts) => Probe::Sides(parts.iter().map(part).collect()),
            Probe::Elements { by_row } => Probe::Elements { by_row: *by_row },
        }
    }
}
