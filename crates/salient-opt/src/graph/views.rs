//! Views that give an axis another name.

use salient_ir::{AxisId, Builder, Graph, MapOp, NodeId, Op};

/// Operators of an expression that are looked at, at most.
const LARGEST: usize = 64;

/// An expression that varies along an axis only by values of another one that are read along it, as `1 - x[l]`: the same of the
/// values themselves, and their axis.
pub(crate) fn without_view(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    (id, along): (NodeId, AxisId),
) -> Option<(NodeId, AxisId)> {
    let mut walk = Walk { g, new, along, own: None, looks: LARGEST };
    let inside = walk.inside(b, id)?;
    Some((inside, walk.own?))
}

struct Walk<'a> {
    g: &'a Graph,
    /// What the nodes of the graph have become.
    new: &'a [NodeId],
    along: AxisId,
    /// The axis of the values that are read, once one is seen.
    own: Option<AxisId>,
    /// How many operators may still be looked at: an expression that shares its parts is large.
    looks: usize,
}

impl Walk<'_> {
    fn inside(&mut self, b: &mut Builder, id: NodeId) -> Option<NodeId> {
        self.looks = self.looks.checked_sub(1)?;
        let (g, args) = (self.g, self.g.args(id));
        if !g.node(id).axes.contains(self.along) {
            return self.is_apart(b, self.new[id.index()]);
        }
        match *g.op(id) {
            Op::At(own) => {
                let is_name = *g.op(args[1]) == Op::Iota(self.along)
                    && g.extent(own) == g.extent(self.along)
                    && !g.node(args[0]).axes.contains(self.along);
                let is_same = *self.own.get_or_insert(own) == own;
                (is_name && is_same).then(|| self.new[args[0].index()])
            }
            Op::Map(op) => self.map(b, op, &args),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => None,
            Op::Reduce(..) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
        }
    }

    fn map(&mut self, b: &mut Builder, op: MapOp, args: &[NodeId]) -> Option<NodeId> {
        // Those that vary first: they say which axis the others must not have.
        let mut parts: Vec<Option<NodeId>> = vec![None; args.len()];
        for varies in [true, false] {
            for (arg, part) in args.iter().zip(&mut parts) {
                if self.g.node(*arg).axes.contains(self.along) == varies {
                    *part = Some(self.inside(b, *arg)?);
                }
            }
        }
        let parts: Vec<NodeId> = parts.into_iter().flatten().collect();
        b.map(op, &parts).ok()
    }

    /// What does not vary, if it does not have the values' own axis: it would be read at another place.
    fn is_apart(&self, b: &Builder, node: NodeId) -> Option<NodeId> {
        let own = self.own?;
        (!b.node(node).axes.contains(own)).then_some(node)
    }
}
